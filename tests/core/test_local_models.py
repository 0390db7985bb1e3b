"""Models in this process are called by one thread at a time, whoever holds them."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from catena.backends.gliner_entities import GLiNERRecognizer
from catena.effects import Embed, Rate, Recognise, Services, arun, ask, run, turn_if_local, turn_of
from catena.effects.models import Turn

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
        services = [Services(recognizer=each, max_concurrency=32) for each in recognizers]
        for found in pool.map(lambda each: run(ask(step), each), services):
            assert sum(map(len, found)) == len(CHUNKS)


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


def of(module: str, **held: Any) -> Any:
    """Return an object of a class that says that it comes from this module."""
    return type("Model", (SimpleNamespace,), {"__module__": module})(**held)


def fake_torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = type("Module", (), {"__module__": "torch.nn.modules.module"})
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(nn=SimpleNamespace(Module=module)))
    return module()


def test_what_runs_in_this_process_is_known_by_its_package_and_what_is_asked_over_a_network_takes_no_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("llama_cpp.llama", "onnxruntime.capi", "gpt4all", "ctranslate2", "fastembed.text", "tokenizers"):
        model = of(name)
        three = SimpleNamespace(llm=SimpleNamespace(pipeline=SimpleNamespace(model=model)))
        assert turn_if_local(three) is turn_of(model)
        for other in (SimpleNamespace(deep=three), of("catena.backends.mine", model=model), SimpleNamespace()):
            assert isinstance(turn_if_local(other), nullcontext)  # four attributes away; takes turns itself; has none
    net = fake_torch(monkeypatch)
    remote = SimpleNamespace(client=of("httpx"), tokenizer=of("tokenizers"), device=of("torch"))  # counts tokens here
    assert isinstance(turn_if_local(remote), nullcontext)
    assert turn_if_local(SimpleNamespace(other=remote, net=net)) is turn_of(net)


def langchain_reranker(model: Any, work: Callable[[], None]) -> Any:
    from langchain_core.cross_encoders import BaseCrossEncoder

    from langchain_catena import LangChainReranker

    class Encoder(BaseCrossEncoder):
        client = None

        def __init__(self) -> None:
            self.client = model

        def score(self, text_pairs: Any) -> list[float]:
            work()
            return [0.5] * len(text_pairs)

    return LangChainReranker(Encoder())


def langchain_compressor(model: Any, work: Callable[[], None]) -> Any:
    """A reranker around a reranker: the turn is taken once."""
    from catena.segments import Constant
    from langchain_catena import CatenaRerank, LangChainReranker

    encoder = langchain_reranker(model, work).rater
    return LangChainReranker(CatenaRerank(reranker=encoder, calibration=Constant()))


def llama_index_reranker(model: Any, work: Callable[[], None]) -> Any:
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import NodeWithScore

    from llama_index_catena import LlamaIndexReranker

    class Scoring(BaseNodePostprocessor):
        _model: Any = PrivateAttr()

        def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> list[NodeWithScore]:
            work()
            return [NodeWithScore(node=each.node, score=0.5) for each in nodes]

    made = Scoring()
    made._model = model
    return LlamaIndexReranker(made)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("make", [langchain_reranker, langchain_compressor, llama_index_reranker])
def test_a_reranker_in_this_process_is_called_by_one_thread_at_a_time(
    make: Callable[..., Any], is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, most = [0], [0]

    def work() -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.01)
        inside[0] -= 1

    reranker = make(fake_torch(monkeypatch), work)
    requests = ask([Rate(query="q", texts=(str(number),)) for number in range(8)])
    services = Services(reranker=reranker)
    asyncio.run(arun(requests, services)) if is_async else run(requests, services)
    assert most == [1]


@pytest.mark.torch
@pytest.mark.parametrize("wrapper", ["catena", "langchain", "llama-index"])
def test_minilm_embeds_a_thousand_chunks_at_full_concurrency(wrapper: str, sentence_model: Any) -> None:
    services = Services(embedder=wrapped(sentence_model, wrapper), max_concurrency=32)
    rows = np.concatenate(run(ask([Embed(texts=batch) for batch in BATCHES]), services))
    sample = range(0, len(CHUNKS), 97)
    alone = sentence_model.encode([CHUNKS[place] for place in sample], normalize_embeddings=True)
    assert rows[list(sample)] == pytest.approx(alone, abs=1e-5)


@pytest.mark.torch
def test_two_wrappers_of_one_model_take_turns(sentence_model: Any) -> None:
    from catena.backends import SentenceTransformerEmbedder
    from catena.backends.sentence_transformers import SentenceTransformerTokenEmbedder

    whole, tokens = SentenceTransformerEmbedder(sentence_model), SentenceTransformerTokenEmbedder(sentence_model)
    parts = [CHUNKS[start : start + 8] for start in range(0, 160, 8)]
    with ThreadPoolExecutor(16) as pool:
        rows = pool.map(whole.embed_documents, parts)
        arrays = pool.map(tokens.embed_document_tokens, parts)
        assert [len(each) for each in rows] == [len(each) for each in arrays] == [8] * 20


def wrapped(model: Any, wrapper: str) -> Any:
    from catena.backends import SentenceTransformerEmbedder

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

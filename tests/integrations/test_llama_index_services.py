"""LlamaIndex's models as Catena's services and the other way, and figures that models see."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, LLMMetadata
from llama_index.core.ingestion.pipeline import get_transformation_hash
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import Document, NodeWithScore, QueryBundle, TextNode

from catena.effects import LLM, Complete, Embed, Embedder, Search, Services, Store, ask, run
from catena.model import InvalidReplyError, ParameterError, Scale, ServiceError
from catena.testing import FakeEmbedder
from catena.testing.fakes import FakeStore
from llama_index_catena import CatenaEmbedding, LlamaIndexEmbedder, LlamaIndexLLM, RetrieverStore, retriever_store
from llama_index_catena.services import completion_of


class Letters(BaseEmbedding):
    """Counts of "a" and "b"; sync only, as the simplest models are."""

    threads: list[str] = []  # noqa: RUF012 - a pydantic field

    def _vector(self, text: str) -> list[float]:
        self.threads.append(threading.current_thread().name)
        if "fail" in text:
            raise ConnectionError("api_key=abc123 was cut off")
        return [float(text.count("a")), float(text.count("b"))]

    _get_text_embedding = _get_query_embedding = _vector

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._vector(query)


class AsyncLetters(Letters):
    async def _aget_text_embedding(self, text: str) -> list[float]:
        await asyncio.sleep(0)
        return [*self._vector(text)]


class Ragged(Letters):
    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return [[1.0] * (i + 1) for i in range(len(texts))]


class Short(Letters):
    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0]] * (len(texts) - 1)


def embedder(model: type[Letters] = Letters, **options: Any) -> LlamaIndexEmbedder:
    return LlamaIndexEmbedder(model(model_name="letters", threads=[]), **options)


def threads_of(one: LlamaIndexEmbedder) -> list[str]:
    return one._embedding.threads  # type: ignore[attr-defined, no-any-return]


async def test_a_llama_index_embedding_is_an_embedder_with_unit_rows() -> None:
    one = embedder()
    assert isinstance(one, Embedder)
    assert (one.identity, one.dim) == ("llama-index:base_component/letters", 2)
    rows = one.embed_documents(["aab", "b", ""])
    np.testing.assert_allclose(rows, [[2 / 5**0.5, 1 / 5**0.5], [0, 1], [0, 0]], rtol=1e-6)
    assert (rows.dtype, rows.shape) == (np.float32, (3, 2))
    np.testing.assert_array_equal(await one.aembed_documents(["aab", "b", ""]), rows)
    np.testing.assert_array_equal(one.embed_query("aab"), rows[0])
    np.testing.assert_array_equal(await one.aembed_query("aab"), rows[0])
    assert one.embed_documents([]).shape == (await one.aembed_documents([])).shape == (0, 2)


async def test_a_model_without_async_code_does_not_block_the_loop() -> None:
    main = threading.current_thread().name
    sync, native = embedder(), embedder(AsyncLetters)
    await sync.aembed_documents(["a"])
    await native.aembed_documents(["a"])
    assert threads_of(sync)[-1] != main
    assert threads_of(native)[-1] == main


@pytest.mark.parametrize("model", [Letters, AsyncLetters])
async def test_a_models_error_becomes_ours_without_its_secrets(model: type[Letters]) -> None:
    one = embedder(model)
    for call in (lambda: one.embed_documents(["fail"]), lambda: one.embed_query("fail")):
        with pytest.raises(ServiceError, match="ConnectionError") as failure:
            call()
        assert failure.value.retry
        assert "abc123" not in str(failure.value)
    for awaited in (one.aembed_documents(["fail"]), one.aembed_query("fail")):
        with pytest.raises(ServiceError, match="llama-index:base_component/letters: ConnectionError"):
            await awaited


@pytest.mark.parametrize(
    ("model", "what"), [(Ragged, "unlike lengths"), (Short, r"shape \(1, 2\) where \(2, dim\) was due")]
)
def test_vectors_of_the_wrong_form_are_refused(model: type[Letters], what: str) -> None:
    with pytest.raises(InvalidReplyError, match=what):
        embedder(model).embed_documents(["a", "b"])
    with pytest.raises(InvalidReplyError, match=r"shape \(1, 2\) where \(1, 3\) was due"):
        embedder(dim=3).embed_query("a")


class Parrot(CustomLLM):
    """Repeats the prompt, and remembers what it was asked and where."""

    asked: list[Any] = []  # noqa: RUF012 - a pydantic field

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="parrot")

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        if "fail" in prompt:
            raise TimeoutError("too slow")
        self.asked.append((kwargs, threading.current_thread().name))
        return CompletionResponse(text=prompt, additional_kwargs={"prompt_tokens": 5, "completion_tokens": 7})

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise AssertionError("not used here")


async def test_a_llama_index_model_is_an_llm() -> None:
    parrot = Parrot(asked=[])
    llm = LlamaIndexLLM(parrot)
    assert isinstance(llm, LLM)
    assert llm.identity == f"llama-index:{parrot.class_name()}/parrot"
    request = Complete(prompt="Say it.", system="Be brief.", purpose="test", max_tokens=9)
    reply = llm.complete(request)
    assert reply.text.splitlines()[:2] == ["system: Be brief.", "user: Say it."]
    assert reply.finish_reason == "stop"
    assert await llm.acomplete(request) == reply
    assert [kwargs for kwargs, _ in parrot.asked] == [{"max_tokens": 9}] * 2
    assert parrot.asked[1][1] != threading.current_thread().name
    LlamaIndexLLM(parrot, max_tokens_name=None).complete(request)
    assert parrot.asked[-1][0] == {}


class Local(Parrot):
    """Has a setting for the limit by another name, as HuggingFaceLLM."""

    max_new_tokens: int = 256

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        self.asked.append((kwargs, self.max_new_tokens))
        return CompletionResponse(text=prompt)


def test_a_model_with_another_setting_for_the_limit_is_given_it_there() -> None:
    model = Local(asked=[])
    LlamaIndexLLM(model).complete(Complete(prompt="Say it.", purpose="test", max_tokens=9))
    assert model.asked == [({}, 9)]
    assert model.max_new_tokens == 256


async def test_an_llms_error_becomes_ours() -> None:
    llm = LlamaIndexLLM(Parrot(asked=[]))
    request = Complete(prompt="fail", purpose="test")
    with pytest.raises(ServiceError, match="TimeoutError: too slow") as failure:
        llm.complete(request)
    assert failure.value.retry
    with pytest.raises(ServiceError, match="TimeoutError: too slow"):
        await llm.acomplete(request)


OPENAI = SimpleNamespace(
    choices=[SimpleNamespace(finish_reason="length")], usage=SimpleNamespace(prompt_tokens=3, completion_tokens=4)
)


@pytest.mark.parametrize(
    ("raw", "extra", "expected"),
    [
        (None, {}, ("stop", 0, 0)),
        (OPENAI, {}, ("length", 3, 4)),
        ({"choices": [{"finish_reason": "content_filter"}]}, {"prompt_tokens": 1}, ("content_filter", 1, 0)),
        ({"stop_reason": "max_tokens", "usage": {"input_tokens": 8, "output_tokens": 9}}, {}, ("length", 8, 9)),
    ],
)
def test_why_a_reply_ended_and_what_it_took_is_read_where_models_say_it(raw, extra, expected) -> None:
    response = ChatResponse(message=ChatMessage(content="hi"), raw=raw, additional_kwargs=extra)
    reply = completion_of(response)
    assert (reply.text, reply.finish_reason, reply.input_tokens, reply.output_tokens) == ("hi", *expected)


class Two(BaseRetriever):
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(id_=i, text=f"{i}?"), score=s) for i, s in (("a", 1.0), ("b", 0.0))]


class AsyncTwo(Two):
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._retrieve(query_bundle)


async def test_retrievers_are_routes_of_a_store() -> None:
    store = retriever_store({"two": Two(), "native": AsyncTwo()}, beside=FakeStore({"two": [], "own": []}))
    assert isinstance(store, Store)
    assert isinstance(store, RetrieverStore)
    assert store.routes == ("two", "native", "own")
    for route in ("two", "native"):
        request = Search(route=route, query="q", k=5)
        ranking = store.search(request)
        assert [(h.chunk.id, h.score, h.chunk.text) for h in ranking.hits] == [("a", 1.0, "a?"), ("b", 0.0, "b?")]
        assert ranking.scale is Scale.RANK
        assert [h.provenance[0].rank for h in ranking.hits] == [1, 2]
        assert await store.asearch(request) == ranking
    assert len(store.search(Search(route="two", query="q", k=1)).hits) == 1
    with pytest.raises(ParameterError, match="RankFusion"):
        store.search(Search(route="two", query="q", k=5, among=("b", "x")))
    assert store.search(Search(route="own", query="q", k=1)).hits == ()
    assert (await store.asearch(Search(route="own", query="q", k=1))).hits == ()


def test_an_embedding_model_is_told_apart_and_revived() -> None:
    fake, document = CatenaEmbedding(FakeEmbedder(dim=3)), [Document(id_="d", text="x")]
    assert fake.model_name == "fake-embedder-3"
    assert get_transformation_hash(document, CatenaEmbedding()) != get_transformation_hash(document, fake)
    with pytest.raises(ParameterError, match="embedder must be the embedder 'fake-embedder-3', given again"):
        CatenaEmbedding.from_dict(fake.to_dict())
    assert CatenaEmbedding.from_dict(fake.to_dict(), embedder=FakeEmbedder(dim=3)).model_name == fake.model_name


def test_the_shipped_embedding_is_an_embedder_of_the_core_and_has_no_row_of_zeros_in_an_index() -> None:
    embedding = CatenaEmbedding()
    services, texts = Services(embedder=embedding), ("\U0001f600", "the pump")
    (rows,) = run(ask([Embed(texts=texts)]), services)
    assert not rows[0].any()
    assert embedding.get_text_embedding_batch(list(texts)) == [[256**-0.5] * 256, rows[1].tolist()]
    index = VectorStoreIndex([TextNode(text="the pump")], embed_model=embedding)
    assert np.isfinite([found.score for found in index.as_retriever().retrieve(texts[0])]).all()


class Native:
    """A Catena embedder with async code of its own."""

    identity, dim = "native", 1

    async def aembed_documents(self, texts: list[str]) -> Any:
        return np.ones((len(texts), 1), dtype=np.float32)

    async def aembed_query(self, text: str) -> Any:
        return np.ones(1, dtype=np.float32)


async def test_an_embedders_own_async_code_is_awaited() -> None:
    model = CatenaEmbedding(Native())  # type: ignore[arg-type]
    assert await model.aget_query_embedding("x") == [1.0]
    assert await model.aget_text_embedding_batch(["x", "y"]) == [[1.0], [1.0]]

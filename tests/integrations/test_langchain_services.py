"""LangChain's models as the core's services: vectors, replies, their limits and ends; and ours as LangChain's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

from catena import ServiceError
from catena.effects import Budget, Complete, Services, ask, run
from langchain_catena import CatenaEmbeddings, CatenaRetriever, LangChainEmbedder, LangChainLLM


class Chat(BaseChatModel):
    """Remembers its limit, and tells what it spent: as much as it was allowed."""

    asked: Any = None

    @property
    def _llm_type(self) -> str:
        return "chat"

    def _generate(self, messages: list[BaseMessage], *_: Any, **options: Any) -> ChatResult:
        own = {name: getattr(self, name, None) for name in ("max_tokens", "num_predict")}
        told = {**own, **{name: options[name] for name in own if name in options}}
        self.asked.append({name: limit for name, limit in told.items() if limit is not None})
        spent = max(self.asked[-1].values(), default=6_000)
        usage = {"input_tokens": 3, "output_tokens": spent, "total_tokens": 3 + spent}
        message = AIMessage("fine", usage_metadata={**usage, "output_token_details": {"reasoning": 2}})
        return ChatResult(generations=[ChatGeneration(message=message)])


class Setting(Chat):
    num_predict: int | None = None


class Failing(Setting):
    def _generate(self, *args: Any, **options: Any) -> ChatResult:
        super()._generate(*args, **options)
        raise ConnectionError("gone")


def falling_back(asked: Any, other: Any) -> Any:
    return Failing(asked=asked).with_fallbacks([other])


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (lambda asked: Setting(asked=asked), [{"num_predict": 600}]),
        (lambda asked: Setting(asked=asked, num_predict=50), [{"num_predict": 50}]),
        (lambda asked: Setting(asked=asked, num_predict=-1), [{"num_predict": 600}]),
        (lambda asked: Setting(asked=asked).with_retry(), [{"num_predict": 600}]),
        (lambda asked: Setting(asked=asked).bind(stop=["x"]), [{"num_predict": 600}]),
        (lambda asked: Setting(asked=asked).bind(num_predict=50), [{"num_predict": 50}]),
        (lambda asked: Setting(asked=asked).bind(num_predict=5_000).with_retry(), [{"num_predict": 600}]),
        (lambda asked: Chat(asked=asked), [{"max_tokens": 600}]),
        (lambda asked: Chat(asked=asked).bind(max_tokens=50), [{"max_tokens": 50}]),
        (lambda asked: Chat(asked=asked).with_retry(), [{"max_tokens": 600}]),
        (lambda a: falling_back(a, Setting(asked=a, num_predict=50)), [{"num_predict": 600}, {"num_predict": 50}]),
        (lambda a: falling_back(a, Chat(asked=a)), [{"num_predict": 600}, {"max_tokens": 600}]),
        (lambda a: falling_back(a, RunnableLambda(lambda _: "no model")), [{"num_predict": 600}]),
    ],
)
async def test_a_langchain_model_is_limited_inside_what_is_around_it(model: Any, expected: list[Any]) -> None:
    asked: list[Any] = []
    request = Complete(prompt="a", purpose="p", max_tokens=600)
    llm = LangChainLLM(model(asked))
    llm.complete(request)
    assert asked == expected
    await llm.acomplete(request)
    assert asked == expected * 2


async def test_a_chat_model_completes_within_a_budget() -> None:
    llm = LangChainLLM(FakeListChatModel(responses=["one", "two"]))
    request = Complete(prompt="say", purpose="test", system="be brief", max_tokens=100)
    assert [llm.complete(request).text, (await llm.acomplete(request)).text] == ["one", "two"]
    assert llm.complete(request).finish_reason == "stop"
    model = Setting(asked=[])
    services = Services(llm=LangChainLLM(model), budget=Budget(max_tokens=150), max_concurrency=1)
    assert run(ask([request]), services)[0].reasoning_tokens == 2
    assert services.budget is not None
    assert services.budget.spent.tokens == 103
    assert model.num_predict is None  # the user's own model stays as it was


async def test_what_a_model_raises_becomes_an_error_of_ours() -> None:
    def die(*_: Any) -> Any:
        raise ConnectionError("api_key=abc123 is gone")

    async def adie(*_: Any) -> Any:
        die()

    embedder = LangChainEmbedder(SimpleNamespace(embed_query=die, aembed_query=adie))  # type: ignore[arg-type]
    llm, request = LangChainLLM(Failing(asked=[])), Complete(prompt="a", purpose="p")
    for call in (lambda: embedder.embed_query("a"), lambda: llm.complete(request)):
        with pytest.raises(ServiceError, match="ConnectionError") as caught:
            call()
        assert (caught.value.retry, "abc123" in str(caught.value)) == (True, False)
    for acall in (lambda: embedder.aembed_query("a"), lambda: llm.acomplete(request)):
        with pytest.raises(ServiceError, match="ConnectionError"):
            await acall()


async def test_langchain_embeddings_become_unit_vectors() -> None:
    embedder = LangChainEmbedder(DeterministicFakeEmbedding(size=12))
    rows = embedder.embed_documents(["a", "b"])
    assert rows.shape == (2, 12) == (2, embedder.dim)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert np.array_equal(await embedder.aembed_documents(["a", "b"]), rows)
    assert np.array_equal(embedder.embed_query("a"), await embedder.aembed_query("a"))
    assert embedder.identity == "langchain:DeterministicFakeEmbedding"
    mute: Any = SimpleNamespace(embed_query=lambda _: [0.0, 0.0])
    assert LangChainEmbedder(mute).embed_query("").tolist() == [0.0, 0.0]  # and no NaN


UNKNOWN = ["\U0001f600", "", "\U0001f600 \U0001f680"]


def test_only_rows_of_zeros_are_given_a_direction_and_such_a_question_fails_nowhere() -> None:
    embeddings = CatenaEmbeddings()
    texts = [*UNKNOWN, "Tighten the screws.", "42"]
    core, rows = embeddings.embedder.embed_documents(texts), embeddings.embed_documents(texts)
    assert not core[:3].any()
    assert rows[0] == rows[1] == rows[2] == embeddings.embed_query(texts[0]) == [256**-0.5] * 256
    assert rows[3:] == core[3:].tolist()
    assert embeddings.embed_query(texts[3]) == rows[3]
    store = InMemoryVectorStore.from_documents([Document(page_content=text) for text in texts[2:4]], embeddings)
    for question in (UNKNOWN[0], UNKNOWN[2]):
        found = store.similarity_search_with_score(question, k=2)
        assert np.isfinite([score for _, score in found]).all()
        assert len(CatenaRetriever.over({"mine": store.as_retriever()}).invoke(question)) == 2

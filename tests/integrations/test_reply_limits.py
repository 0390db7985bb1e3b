"""The limit of a reply reaches a LangChain model through what is around it, and any word for its end is read."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda

from catena.effects import Complete, ending_told
from langchain_catena.services import LangChainLLM

REQUEST = Complete(prompt="a", purpose="p", max_tokens=600)
FINISH = Enum("FinishReason", {"MAX_TOKENS": 2, "STOP": 1})


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"finish_reason": "stop"}, "stop"),
        ({"finish_reason": "tool_calls"}, "stop"),
        ({"finish_reason": "eos_token"}, "stop"),
        ({"finish_reason": None, "stop_reason": "max_tokens"}, "length"),
        ({"stopReason": "max_tokens"}, "length"),
        ({"done_reason": "length"}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        ({"status": "completed", "incomplete_details": None}, "stop"),
        ({"finish_reason": "model_length"}, "length"),
        ({"finish_reason": "FinishReason.MAX_TOKENS"}, "length"),
        ({"finish_reason": FINISH.MAX_TOKENS}, "length"),  # type: ignore[attr-defined]
        ({"completion_reason": "LENGTH"}, "length"),
        ({"finish_reason": "SAFETY"}, "content_filter"),
        ({"finish_reason": "content_filter"}, "content_filter"),
        ({"stop_reason": "refusal"}, "refusal"),
        ({"status": "failed"}, "error"),
        ({}, "stop"),
    ],
)
def test_why_a_reply_ended_is_read_from_the_word_of_any_service(said: dict[str, Any], expected: str) -> None:
    assert ending_told(said) == expected


class Chat(BaseChatModel):
    """Remembers its limit, as its setting or as an argument."""

    asked: Any = None

    @property
    def _llm_type(self) -> str:
        return "chat"

    def _generate(self, messages: list[BaseMessage], *_: Any, **options: Any) -> ChatResult:
        own = {name: getattr(self, name, None) for name in ("max_tokens", "num_predict")}
        told = {**own, **{name: options[name] for name in own if name in options}}
        self.asked.append({name: limit for name, limit in told.items() if limit is not None})
        return ChatResult(generations=[ChatGeneration(message=AIMessage("fine"))])


class WithSetting(Chat):
    num_predict: int | None = None


class Failing(WithSetting):
    def _generate(self, *args: Any, **options: Any) -> ChatResult:
        super()._generate(*args, **options)
        raise ConnectionError("gone")


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (lambda asked: WithSetting(asked=asked), [{"num_predict": 600}]),
        (lambda asked: WithSetting(asked=asked, num_predict=50), [{"num_predict": 50}]),
        (lambda asked: WithSetting(asked=asked, num_predict=-1), [{"num_predict": 600}]),
        (lambda asked: WithSetting(asked=asked).with_retry(), [{"num_predict": 600}]),
        (lambda asked: WithSetting(asked=asked).bind(stop=["x"]), [{"num_predict": 600}]),
        (lambda asked: WithSetting(asked=asked).bind(num_predict=50), [{"num_predict": 50}]),
        (lambda asked: WithSetting(asked=asked).bind(num_predict=5_000).with_retry(), [{"num_predict": 600}]),
        (
            lambda asked: Failing(asked=asked).with_fallbacks([WithSetting(asked=asked, num_predict=50)]),
            [{"num_predict": 600}, {"num_predict": 50}],
        ),
        (lambda asked: Chat(asked=asked), [{"max_tokens": 600}]),
        (lambda asked: Chat(asked=asked).bind(max_tokens=50), [{"max_tokens": 50}]),
        (
            lambda asked: Failing(asked=asked).with_fallbacks([Chat(asked=asked)]),
            [{"num_predict": 600}, {"max_tokens": 600}],
        ),
        (
            lambda asked: Failing(asked=asked).with_fallbacks([RunnableLambda(lambda _: "no model")]),
            [{"num_predict": 600}],
        ),
    ],
)
def test_a_langchain_model_is_limited_inside_what_is_around_it(model: Any, expected: list[Any]) -> None:
    asked: list[Any] = []
    LangChainLLM(model(asked)).complete(REQUEST)
    assert asked == expected

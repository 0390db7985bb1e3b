"""The form of a reply goes to services that keep to it; what others write is read all the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback

from catena import prompts
from catena.backends.openai_llm import OpenAILLM
from catena.effects import Complete, Services, arun, run
from catena.journal import request_key
from catena.retrieval.queries import generate_queries
from catena.testing.chat_server import ChatServer
from langchain_catena.services import LangChainLLM
from llama_index_catena.services import LlamaIndexLLM

QUESTION = "How often is the seal of the HX-200 and of the HX-210 changed?"
QUERIES = ("HX-200 seal", "HX-210 seal")
FORMED = json.dumps({"queries": QUERIES})
WITH_FORM = (
    "segment_lines", "search_queries", "question_keywords", "critical_entities", "scope_questions", "answer_scope",
    "view_keywords", "graph_keywords", "view_questions", "judge_pair",
)  # fmt: skip


@pytest.mark.parametrize("name", WITH_FORM)
def test_each_form_is_one_that_services_can_keep_to(name: str) -> None:
    def check(form: dict[str, Any]) -> None:
        if form["type"] == "object":
            assert form["additionalProperties"] is False
            assert form["required"] == list(form["properties"])
            for inner in form["properties"].values():
                check(inner)
        elif form["type"] == "array":
            check(form["items"])

    form = json.loads(prompts.load(name).schema)
    assert (form["title"], form["type"]) == (name, "object")
    check(form)


def test_a_form_is_part_of_the_key_under_which_a_reply_is_kept() -> None:
    plain = Complete(prompt="a", purpose="p")
    assert request_key("m", plain) != request_key("m", Complete(prompt="a", purpose="p", schema="{}"))


def test_openai_is_given_the_form() -> None:
    with ChatServer(lambda body: FORMED) as server, OpenAILLM("small", base_url=server.url) as llm:
        assert run(generate_queries(QUESTION), Services(llm=llm)).queries[1:] == QUERIES
        (body,) = server.bodies
    sent = body["response_format"]
    assert (sent["type"], sent["json_schema"]["name"], sent["json_schema"]["strict"]) == (
        "json_schema",
        "search_queries",
        True,
    )
    assert "title" not in sent["json_schema"]["schema"]


class Chat(BaseChatModel):
    """A LangChain model with a setting for the limit; `refuses` every form, or keeps to it."""

    max_tokens: int | None = None
    refuses: bool = False
    asked: list[Any] = []  # noqa: RUF012 - a pydantic field

    @property
    def _llm_type(self) -> str:
        return "chat"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.asked.append("text")
        text = f'<think>Maybe ["draft"]?</think>{json.dumps(QUERIES)}'
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])

    def with_structured_output(self, schema: Any, *, include_raw: bool = False, **_: Any) -> Any:
        def reply(_: Any) -> dict[str, Any]:
            self.asked.append(schema["title"])
            if self.refuses:
                raise ValueError("no such form")
            usage = {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12}
            return {"raw": AIMessage("", usage_metadata=usage), "parsed": json.loads(FORMED), "parsing_error": None}

        assert include_raw
        return RunnableLambda(reply)


@pytest.mark.parametrize("refuses", [False, True])
def test_langchain_models_that_say_they_can_are_given_the_form(refuses: bool) -> None:
    model = Chat(profile={"structured_output": True}, refuses=refuses)
    llm = LangChainLLM(model)
    for found in (
        run(generate_queries(QUESTION), Services(llm=llm)),
        run(generate_queries(QUESTION), Services(llm=llm)),
    ):
        assert found.queries[1:] == QUERIES
    assert model.asked == (["search_queries", "text", "text"] if refuses else ["search_queries"] * 2)
    assert refuses or found.output_tokens == 7


async def test_langchain_models_are_awaited_with_the_form_too() -> None:
    model = Chat(profile={"structured_output": True})
    found = await arun(generate_queries(QUESTION), Services(llm=LangChainLLM(model)))
    assert (found.queries[1:], set(model.asked)) == (QUERIES, {"search_queries"})


def test_langchain_models_that_do_not_say_so_are_asked_in_words() -> None:
    model = Chat()
    assert run(generate_queries(QUESTION), Services(llm=LangChainLLM(model))).queries[1:] == QUERIES
    assert model.asked == ["text"]


class Calling(CustomLLM):
    """A LlamaIndex model that says that it calls functions, and gives forms or fails at it."""

    refuses: bool = False
    asked: list[str] = []  # noqa: RUF012 - a pydantic field

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="calling", is_function_calling_model=True)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        self.asked.append("text")
        return CompletionResponse(text=json.dumps(QUERIES))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Generator[CompletionResponse]:
        yield self.complete(prompt)

    def structured_predict(self, output_cls: Any, prompt: Any, llm_kwargs: Any = None, **_: Any) -> Any:
        self.asked.append(output_cls.__name__)
        if self.refuses:
            raise ValueError("no function was called")
        return output_cls.model_validate_json(FORMED)


@pytest.mark.parametrize("refuses", [False, True])
def test_llama_index_models_that_call_functions_are_given_the_form(refuses: bool) -> None:
    model = Calling(refuses=refuses)
    services = Services(llm=LlamaIndexLLM(model))
    assert run(generate_queries(QUESTION), services).queries[1:] == QUERIES
    assert asyncio.run(arun(generate_queries(QUESTION), services)).queries[1:] == QUERIES
    assert model.asked == (["search_queries", "text", "text"] if refuses else ["search_queries"] * 2)

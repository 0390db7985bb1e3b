"""The form of a reply goes to services that keep to it; what others write is read all the same."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection

from catena import prompts
from catena.backends import OpenAILLM
from catena.effects import Budget, Complete, Services, arun, ask, run
from catena.effects.journal import request_key
from catena.model import ServiceError
from catena.retrieval import generate_queries
from catena.testing import ChatServer
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
    assert request_key("m", ASKING) != request_key("m", replace(ASKING, schema="{}"))


def test_openai_is_given_the_form() -> None:
    with ChatServer(lambda body: FORMED) as server, OpenAILLM("small", base_url=server.url) as llm:
        assert run(generate_queries(QUESTION), Services(llm=llm)).queries[1:] == QUERIES
        (body,) = server.bodies
    sent, form = body["response_format"]["type"], body["response_format"]["json_schema"]
    assert (sent, form["name"], form["strict"]) == ("json_schema", "search_queries", True)
    assert "title" not in form["schema"]


class Refused(Exception):
    """What a service's package raises for a status."""

    def __init__(self, status_code: int) -> None:
        super().__init__("no such parameter")
        self.status_code = status_code


BAD_REPLY = [ValueError("no JSON"), KeyError("another_function"), TypeError("a list")]
FOR_GOOD = [NotImplementedError(), Refused(400), Refused(422)]


class Chat(BaseChatModel):
    """A LangChain model with a setting for the limit; `refuses` every form, or keeps to it."""

    max_tokens: int | None = None
    refuses: Any = None
    answers: bool = True
    asked: list[Any] = []  # noqa: RUF012 - a pydantic field

    @property
    def _llm_type(self) -> str:
        return "chat"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.asked.append("text")
        if not self.answers:
            raise Refused(400)
        text = f'<think>Maybe ["draft"]?</think>{json.dumps(QUERIES)}'
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text, usage_metadata=USAGE))])

    def with_structured_output(self, schema: Any, *, include_raw: bool = False, **_: Any) -> Any:
        def reply(_: Any) -> dict[str, Any]:
            self.asked.append(schema["title"])
            if isinstance(self.refuses, Exception):
                raise self.refuses
            parsed = None if self.refuses else json.loads(FORMED)
            return {"raw": AIMessage("", usage_metadata=USAGE), "parsed": parsed, "parsing_error": None}

        assert include_raw
        return RunnableLambda(reply)


USAGE = {"input_tokens": 5, "output_tokens": 6_000, "total_tokens": 6_005}


class Calling(FunctionCallingLLM):
    """A LlamaIndex model that calls functions, and gives forms or fails at it."""

    refuses: Any = None
    says: str = ""
    answers: bool = True
    asked: list[Any] = []  # noqa: RUF012 - a pydantic field

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="calling", is_function_calling_model=True)

    def _prepare_chat_with_tools(self, tools: Any, *, tool_required: bool = False, **options: Any) -> Any:  # type: ignore[override]
        assert tool_required
        assert options["max_tokens"] >= 400
        return {"messages": options["chat_history"], "tools": tools}

    def chat(self, messages: Any, tools: Any = (), **_: Any) -> ChatResponse:
        self.asked.append(tools[0].metadata.name if tools else "text")
        if tools and isinstance(self.refuses, Exception):
            raise self.refuses
        if not tools and not self.answers:
            raise Refused(400)
        text = self.says if tools else json.dumps(QUERIES)
        usage = {"prompt_tokens": 5, "completion_tokens": 6_000}
        raw = {"usage": usage, "choices": [{"finish_reason": "tool_calls"}]}
        return ChatResponse(message=ChatMessage(role="assistant", content=text), raw=raw)

    async def achat(self, messages: Any, **options: Any) -> ChatResponse:
        return self.chat(messages, **options)

    def get_tool_calls_from_response(self, response: Any, error_on_no_tool_call: bool = True, **_: Any) -> Any:
        if self.says or self.refuses == "nothing":
            assert not error_on_no_tool_call
            return []
        if self.refuses == "unreadable":
            raise ValueError("half a call")
        return [ToolSelection(tool_id="1", tool_name="of_another_name", tool_kwargs=json.loads(FORMED))]

    def complete(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("not used here")

    stream_chat = stream_complete = acomplete = astream_chat = astream_complete = complete


def langchain(profile: Any = {"structured_output": True}, **fields: Any) -> tuple[Any, list[Any]]:  # noqa: B006
    model = Chat(profile=profile, asked=[], **fields)
    return LangChainLLM(model), model.asked


def llama_index(**fields: Any) -> tuple[Any, list[Any]]:
    model = Calling(asked=[], **fields)
    return LlamaIndexLLM(model), model.asked


def twice(llm: Any, is_async: bool, answers: bool = True) -> Budget:
    """Ask two questions, and return what they took."""
    services = Services(llm=llm, budget=Budget(max_tokens=100_000))
    for _ in range(2):
        step = generate_queries(QUESTION)
        found = asyncio.run(arun(step, services)) if is_async else run(step, services)
        assert (found.queries[1:] == QUERIES) is answers
    assert services.budget is not None
    return services.budget


ASKING = Complete(prompt="a", purpose="p", max_tokens=400)
FORM, TEXT = "search_queries", "text"


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("make", [langchain, llama_index])
@pytest.mark.parametrize(
    ("refuses", "asked", "calls"),
    [
        (None, [FORM, FORM], 2),
        *((error, [FORM, TEXT, TEXT], 2) for error in FOR_GOOD),  # a refusal costs nothing
        *((error, [FORM, TEXT] * 2, 2) for error in BAD_REPLY),
        ("nothing", [FORM, TEXT] * 2, 4),  # an empty reply is paid for
    ],
    ids=str,
)
def test_models_that_say_they_can_are_given_the_form_until_they_refuse_it(
    make: Any, is_async: bool, refuses: Any, asked: list[str], calls: int
) -> None:
    llm, seen = make(refuses=refuses)
    spent = twice(llm, is_async).spent
    assert seen == asked
    assert (spent.calls, spent.output_tokens) == (calls, calls * 6_000)


@pytest.mark.parametrize("make", [langchain, llama_index])
def test_a_refusal_that_was_not_of_the_form_leaves_it_on(make: Any) -> None:
    llm, seen = make(refuses=Refused(400), answers=False)
    with pytest.raises(ServiceError, match="400"):
        run(ask([replace(ASKING, schema=prompts.load("search_queries").schema)]), Services(llm=llm))
    assert llm._schemas.go_with(Complete(prompt="b", purpose="p", schema="{}"))
    assert seen == [FORM, TEXT]


@pytest.mark.parametrize(
    ("made", "asked"),
    [
        (lambda: llama_index(refuses="nothing", says=json.dumps(QUERIES)), [FORM, FORM]),  # read in place of a call
        (lambda: llama_index(refuses="unreadable", says=json.dumps(QUERIES)), [FORM, FORM]),
        (lambda: langchain(profile=None), [TEXT, TEXT]),  # of a model that does not say that it can
    ],
)
def test_what_models_write_in_words_is_read(made: Any, asked: list[str]) -> None:
    llm, seen = made()
    assert twice(llm, is_async=False).spent.calls == 2
    assert seen == asked

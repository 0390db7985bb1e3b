"""Any LangChain chat model and any LlamaIndex model formats a file, sync and async, through its adapter."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback

from catena.effects import Complete, Services, arun, run
from catena.formatting import FormatOptions, format_markdown
from catena.parsing import parse_bytes
from catena.testing import FaithfulFormatter
from catena_bench.generated_pdfs import PdfStyle, render_pdf
from catena_bench.synthetic_manuals import manual_markdown
from langchain_catena import LangChainLLM
from llama_index_catena import LlamaIndexLLM

TRUTH = manual_markdown(2, numbered=True, levels=2, words=100)
FORMATTER = FaithfulFormatter(TRUTH)


def markdown(prompt: str) -> str:
    return FORMATTER.complete(Complete(prompt=prompt, purpose="test")).text


class ChatModel(BaseChatModel):
    """A LangChain chat model that formats."""

    @property
    def _llm_type(self) -> str:
        return "formatter"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        message = AIMessage(content=markdown(str(messages[-1].content)), response_metadata={"finish_reason": "stop"})
        return ChatResult(generations=[ChatGeneration(message=message)])


class LlamaModel(CustomLLM):
    """A LlamaIndex model that formats."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="formatter")

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text=markdown(prompt))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        yield self.complete(prompt)


@pytest.mark.parametrize("world", ["sync", "async"])
@pytest.mark.parametrize(
    "llm", [LangChainLLM(ChatModel()), LlamaIndexLLM(LlamaModel())], ids=["langchain", "llama-index"]
)
def test_a_frameworks_model_formats_a_file(llm, world):
    parsed = parse_bytes(render_pdf(TRUTH, PdfStyle(running=False)).pdf, "manual.pdf")
    step, services = format_markdown(parsed, FormatOptions(window=120, padding=30)), Services(llm=llm)
    found = run(step, services) if world == "sync" else asyncio.run(arun(step, services))
    assert found.document.text.split() == TRUTH.split()
    assert found.fidelity.states["layout"] == found.fidelity.states["re-asked"] == 0

"""A LlamaIndex model that says what it is told to, for tests of what asks models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, LLMMetadata, MessageRole
from llama_index.core.bridge.pydantic import Field
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback


class Saying(CustomLLM):
    """Answers every chat with the same words, sync only, and remembers what it was asked."""

    reply: str
    model: str = "saying"
    finish_reason: str = "stop"
    asked: list[Any] = Field(default=[], exclude=True)  # what a model was asked is no part of what it is

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name=self.model)

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **options: Any) -> ChatResponse:
        self.asked.append((list(messages), options))
        if self.reply == "fail":
            raise ConnectionError("api_key=abc123 was cut off")
        return ChatResponse(
            message=ChatMessage(role=MessageRole.ASSISTANT, content=self.reply),
            raw={"choices": [{"finish_reason": self.finish_reason}]},
        )

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        raise AssertionError("models are asked through chat")

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        raise AssertionError("models are asked through chat")

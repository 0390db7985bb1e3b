"""Fakes for tests of the LangChain package: chat model, retrievers, event handler, and a PDF of two charts."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.retrievers import BaseRetriever
from reportlab.pdfgen.canvas import Canvas


class ReplyingChatModel(BaseChatModel):
    """Replies by a function of the messages; `sent` keeps them."""

    reply: Callable[[list[BaseMessage]], str | AIMessage]
    sent: list[list[BaseMessage]] = []  # noqa: RUF012 - pydantic copies it

    @property
    def _llm_type(self) -> str:
        return "replying"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.sent.append(messages)
        reply = self.reply(messages)
        message = reply if isinstance(reply, AIMessage) else AIMessage(reply)
        return ChatResult(generations=[ChatGeneration(message=message)])


class Fixed(BaseRetriever):
    """Returns the documents that it was given, whatever the question."""

    docs: Sequence[Document]

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return list(self.docs)

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return list(self.docs)


class Broken(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        raise RuntimeError("the index is gone")


class Events(BaseCallbackHandler):
    """Keeps the custom events; `seen` has name and data."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []

    def on_custom_event(self, name: str, data: Any, **kwargs: Any) -> None:
        self.seen.append((name, data))


PROSE = "The housing keeps the water out of the device, which stands in the rain for many years."
CHARTS = (
    ("The chart counts the failures in the field.", "Figure 1: Failures by year", (30, 70, 45, 60)),
    ("The chart compares the pressure of two pumps.", "Figure 2: Pressure of the pumps", (65, 20, 55)),
)


def charts() -> bytes:
    """Return a PDF with a bar chart on each page."""
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=(595, 842), invariant=1)
    for sentence, caption, bars in CHARTS:
        canvas.setFont("Helvetica", 10)
        for line in range(4):
            canvas.drawString(60, 816 - 14 * line, PROSE)
        canvas.drawString(60, 760, sentence)
        canvas.line(120, 560, 360, 560)
        canvas.line(120, 560, 120, 650)
        for place, height in enumerate(bars):
            canvas.rect(140 + 50 * place, 560, 30, height, fill=1)
            canvas.drawString(148 + 50 * place, 548, f"T{place}")
        canvas.drawString(120, 526, caption)
        for line in range(4):
            canvas.drawString(60, 480 - 14 * line, PROSE)
        canvas.showPage()
    canvas.save()
    return out.getvalue()

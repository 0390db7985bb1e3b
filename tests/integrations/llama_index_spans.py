"""What LlamaIndex's dispatcher was told while a test ran: spans with their parents, and events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.span import SimpleSpan
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler


@dataclass
class Told:
    """Spans by id, in the order in which they began, and events in the order in which they came."""

    parents: dict[str, str | None] = field(default_factory=dict)
    events: list[Any] = field(default_factory=list)

    @property
    def spans(self) -> list[str]:
        """The spans as "Class.method"."""
        return [_name(span) for span in self.parents]

    def ancestors(self, name: str) -> list[str]:
        """Return what the last span of this name stands in, from the inside out."""
        span = [span for span in self.parents if _name(span) == name][-1]
        above: list[str] = []
        while (parent := self.parents[span]) is not None:
            above.append(_name(parent))
            span = parent
        return above


@contextmanager
def listening() -> Iterator[Told]:
    """Listen to LlamaIndex's root dispatcher."""
    told = Told()

    class Spans(SimpleSpanHandler):
        def new_span(self, id_: str, *args: Any, parent_span_id: str | None = None, **kwargs: Any) -> SimpleSpan:
            told.parents[id_] = parent_span_id
            return super().new_span(id_, *args, parent_span_id=parent_span_id, **kwargs)

    class Events(BaseEventHandler):
        def handle(self, event: Any, **kwargs: Any) -> None:
            told.events.append(event)

    root = get_dispatcher()
    handlers = Spans(), Events()
    root.span_handlers.append(handlers[0])
    root.event_handlers.append(handlers[1])
    try:
        yield told
    finally:
        root.span_handlers.remove(handlers[0])
        root.event_handlers.remove(handlers[1])


def _name(span: str) -> str:
    return span.split("-", 1)[0]

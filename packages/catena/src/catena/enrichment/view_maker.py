"""What makes views of chunks, and what it returns: the Protocol that anybody's own maker follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from catena.effects import Step
from catena.model import Chunk, Degraded


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeViews:
    """The texts that a maker made, and what it could not make.

    Attributes:
        texts: per chunk, in order; () where there is none, several where each is to be found by itself.
        degraded: what was asked for and not given; the chunk is still found by its other views.
    """

    texts: tuple[tuple[str, ...], ...]
    degraded: tuple[Degraded, ...] = ()


@runtime_checkable
class ViewMaker(Protocol):
    """Anything that makes views of one kind; it may ask models, by yielding requests."""

    @property
    def kind(self) -> str:
        """The kind of its views, as `View.kind` has it."""
        ...

    @property
    def asks_model(self) -> bool:
        """Whether a language model is asked."""
        ...

    @property
    def version(self) -> str:
        """All that decides what it makes of a chunk but the models: the version of its prompt, its options."""
        ...

    def make(self, chunks: Sequence[Chunk], title: str) -> Step[MadeViews]:
        """Return the texts of each chunk.

        Args:
            chunks: of one document, in order.
            title: of that document; "" where it has none.
        """
        ...

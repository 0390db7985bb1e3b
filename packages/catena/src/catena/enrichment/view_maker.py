"""What makes views of chunks, and what it returns: the Protocol that anybody's own maker follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from catena.effects import Step
from catena.effects.foreign_steps import guarded
from catena.model import Chunk, Degraded
from catena.model.errors import ParameterError


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


def check_maker(maker: object) -> None:
    """Refuse what is no maker of views.

    Raises:
        ParameterError: it has no kind, or lacks what a `ViewMaker` has.
    """
    if not isinstance(maker, ViewMaker):
        raise ParameterError("view maker", maker, "an object with kind, asks_model, version and make")
    if not isinstance(maker.kind, str) or not maker.kind.strip():
        raise ParameterError("kind of a view maker", maker.kind, "a name")


def made_by(maker: ViewMaker, chunks: Sequence[Chunk], title: str) -> Step[MadeViews]:
    """Return what anybody's maker makes; what its code raises is a failure of this maker, by name.

    Raises:
        ParameterError: it is no step, or returns something else than `MadeViews` of these chunks.
        ServiceError: its code raised an error that is none of ours.
        CatenaError: what its code let out of ours.
    """
    name = f"view maker {type(maker).__name__} of {maker.kind!r}"
    made = yield from guarded(lambda: maker.make(chunks, title), name)
    return _checked(made, name, len(chunks))


def _checked(made: object, name: str, chunks: int) -> MadeViews:
    if not isinstance(made, MadeViews):
        raise ParameterError(f"what {name} returns", type(made).__name__, "MadeViews")
    texts, degraded = made.texts, made.degraded
    if not isinstance(texts, list | tuple) or not all(_are_of(str, of_chunk) for of_chunk in texts):
        raise ParameterError(f"texts of {name}", type(texts).__name__, "a tuple of texts per chunk")
    if len(texts) != chunks:
        raise ParameterError(f"texts of {name}", len(texts), f"{chunks}, a tuple per chunk")
    if not _are_of(Degraded, degraded):
        raise ParameterError(f"degraded of {name}", type(degraded).__name__, "a tuple of Degraded")
    return made


def _are_of(kind: type, given: object) -> bool:
    return isinstance(given, list | tuple) and all(isinstance(each, kind) for each in given)

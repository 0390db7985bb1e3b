"""Make views of chunks by any makers side by side, and take over what was made of the same text before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from catena.effects import Failed, Step, all_together, guarded, together
from catena.model import Chunk, Degraded, Entry, ParameterError, ServiceError, View, digest


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
    """The interface of makers of views, one kind each; one may ask models, by yielding requests."""

    @property
    def kind(self) -> str:
        """The kind of its views, as `View.kind` has it."""

    @property
    def asks_model(self) -> bool:
        """Return True where a language model is asked."""

    @property
    def version(self) -> str:
        """Return a version of all that decides its texts but the models: its prompt, its options."""

    def make(self, chunks: Sequence[Chunk], title: str) -> Step[MadeViews]:
        """Return the texts of each chunk.

        Args:
            chunks: of one document, in order.
            title: of that document; "" where it has none.
        """


def check_maker(maker: object) -> None:
    """Refuse what is no maker of views.

    Raises:
        ParameterError: it has no kind, or lacks what a `ViewMaker` has.
    """
    if isinstance(maker, type) or not isinstance(maker, ViewMaker):
        raise ParameterError("view maker", maker, "an object with kind, asks_model, version and make")
    if not isinstance(maker.kind, str) or not maker.kind.strip():
        raise ParameterError("kind of a view maker", maker.kind, "a name")


def made_by(maker: ViewMaker, chunks: Sequence[Chunk], title: str) -> Step[MadeViews]:
    """Run a maker and check its views; an error of its code is a failure of this maker, by name.

    Raises:
        ParameterError: it is no step, or returns something else than `MadeViews` of these chunks.
        ServiceError: its code raised an error that is none of ours.
        CatenaError: what its code let out of ours.
    """
    name = f"view maker {type(maker).__name__} of {maker.kind!r}"
    made = yield from guarded(lambda: maker.make(chunks, title), name)
    return _made_of(made, name, len(chunks))


def _made_of(made: object, name: str, chunks: int) -> MadeViews:
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


PLANNED: Mapping[str, str] = {
    "view summary": "A stand-in.",
    "view keywords": '["stand-in"]',
    "view questions": '["What stands in?"]',
    "graph keywords": '["stand-in"]',
}
"""By purpose of request, an answer for dry runs."""


def make_views(
    chunks: Sequence[Chunk], makers: Sequence[ViewMaker], *, title: str = ""
) -> Step[tuple[tuple[View, ...], tuple[Degraded, ...]]]:
    """Let all makers work side by side; those of this package ask all they ask in one round of requests.

    What a maker fails at costs that view, and no other. Two makers of one kind both count: a chunk may have several
    views of a kind, and is as near to a query as its best one.

    Args:
        chunks: of one document, in order.
        makers: any number, each of a kind; a chunk need not have a view of every kind.
        title: of the document, as prompts name it.

    Returns:
        The views, by maker and then by chunk, none blank and none twice; and what was asked for and not given.

    Raises:
        ParameterError: a maker has no kind, or gave something else than `MadeViews` of these chunks.
        CatenaError: not a failure of a maker or a model, but of what surrounds them (no service, the budget, the
            journal).
    """
    for maker in makers:
        check_maker(maker)
    results = yield from together([made_by(maker, chunks, title) for maker in makers])
    views: dict[View, None] = {}
    degraded: list[Degraded] = []
    for maker, result in zip(makers, results, strict=True):
        if isinstance(result, Failed):
            if not isinstance(result.error, ServiceError):
                raise result.error
            degraded.append(Degraded(f"{maker.kind} of all {len(chunks)} chunks", str(result.error)))
            continue
        views.update(dict.fromkeys(_views(maker.kind, chunks, result)))
        degraded += result.degraded
    return tuple(views), tuple(degraded)


def _views(kind: str, chunks: Sequence[Chunk], made: MadeViews) -> list[View]:
    given = ((chunk, text) for chunk, texts in zip(chunks, made.texts, strict=True) for text in texts)
    return [View(chunk_id=chunk.id, kind=kind, text=text) for chunk, text in given if text.strip()]


Held = Mapping[str, Sequence[View]]
"""Views by `View.made`, as `LibraryStore.made_views` gives them of a document's older version."""


def with_views(
    entry: Entry, makers: Sequence[ViewMaker], *, model: str = "", held: Held | None = None
) -> Step[tuple[Entry, tuple[Degraded, ...]]]:
    """Return the entry with the views that makers make, its fingerprint unchanged, and what could not be made.

    A maker that asks a language model is given one chunk at a time, and only those that `held` has no views for. One
    that does not is always given all: what it makes of a chunk may depend on the others, as a keyword's weight does.

    Args:
        entry: with its chunks.
        makers: of one kind each.
        model: identity of the language model: what another one wrote is not taken over.
        held: of an older version.

    Raises:
        ParameterError: a maker has no kind, or gave texts for another number of chunks.
        CatenaError: not a failure of a model, but of what surrounds it.
    """
    for maker in makers:
        check_maker(maker)
    title, known = entry.document.title, held or {}
    asking = [maker for maker in makers if maker.asks_model]
    stamps = [(maker, chunk, made_from(maker, chunk, title, model)) for maker in asking for chunk in entry.chunks]
    # equal chunks under equal titles are asked about once
    rest = {stamp: (maker, chunk) for maker, chunk, stamp in reversed(stamps) if stamp not in known}
    offline = [maker for maker in makers if not maker.asks_model]
    # one step per chunk and model, so that it is known of which chunk something could not be made
    steps = [make_views([chunk], [maker], title=title) for maker, chunk in rest.values()]
    (views, degraded), *results = yield from all_together([make_views(entry.chunks, offline, title=title), *steps])
    found: dict[str, Sequence[View]] = {**known}
    for stamp, (made, lost) in zip(rest, results, strict=True):
        # what lacks a part is not taken over next time: it is asked for again
        found[stamp] = [view if lost else replace(view, made=stamp) for view in made]
        degraded = (*degraded, *lost)
    taken = (replace(view, chunk_id=chunk.id) for _, chunk, stamp in stamps for view in found[stamp])
    return replace(entry, views=(*entry.views, *views, *taken)), degraded


def made_from(maker: ViewMaker, chunk: Chunk, title: str, model: str) -> str:
    """Return the hash of all that a maker's views of a chunk are made from."""
    return digest(maker.kind, maker.version, model, title, repr(chunk.path), chunk.text, length=32)

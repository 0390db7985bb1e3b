"""Further views of an entry's chunks, made once: what was made from the same text by the same maker is taken over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from catena.effects import Failed, Step, together
from catena.enrichment.view_maker import ViewMaker
from catena.enrichment.views import make_views
from catena.ids import digest
from catena.model import Chunk, Degraded, Entry, View

Held = Mapping[str, Sequence[View]]
"""Views by `View.made`, as `LibraryStore.made_views` gives them of a document's older version."""


def with_views(
    entry: Entry, makers: Sequence[ViewMaker], *, model: str = "", held: Held | None = None
) -> Step[tuple[Entry, tuple[Degraded, ...]]]:
    """Return the entry with the views that makers make, its fingerprint unchanged, and what could not be made.

    A maker that asks a language model is asked only for chunks that `held` has no views for. One that does not is
    always asked: what it makes of a chunk may depend on the others, as the weight of a keyword does.

    Args:
        entry: with its chunks.
        makers: of one kind each.
        model: identity of the language model: what another one wrote is not taken over.
        held: of an older version.

    Raises:
        ParameterError: a maker has no kind, or gave texts for another number of chunks.
        CatenaError: not a failure of a model, but of what surrounds it.
    """
    title, known = entry.document.title, held or {}
    stamps = [
        {chunk.id: made_from(maker, chunk, title, model) for chunk in entry.chunks} if maker.asks_model else {}
        for maker in makers
    ]
    rests = [[chunk for chunk in entry.chunks if stamped.get(chunk.id, "") not in known] for stamped in stamps]
    results = yield from together(
        [make_views(rest, [maker], title=title) for maker, rest in zip(makers, rests, strict=True)]
    )
    views: list[View] = []
    degraded: list[Degraded] = []
    for stamped, result in zip(stamps, results, strict=True):
        if isinstance(result, Failed):
            raise result.error
        views += (
            replace(view, chunk_id=chunk_id, made=stamp)
            for chunk_id, stamp in stamped.items()
            for view in known.get(stamp, ())
        )
        views += (replace(view, made=stamped.get(view.chunk_id, "")) for view in result[0])
        degraded += result[1]
    return replace(entry, views=(*entry.views, *views)), tuple(degraded)


def made_from(maker: ViewMaker, chunk: Chunk, title: str, model: str) -> str:
    """Return the hash of all that a maker's views of a chunk are made from."""
    return digest(maker.kind, maker.version, model, title, repr(chunk.path), chunk.text, length=32)

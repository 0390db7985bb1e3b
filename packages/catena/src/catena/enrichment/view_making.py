"""Further views of an entry's chunks, made once: what was made from the same text by the same maker is taken over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from catena.effects import Failed, Step, together
from catena.enrichment.view_maker import ViewMaker, check_maker
from catena.enrichment.views import make_views
from catena.model import Chunk, Degraded, Entry, View
from catena.model.ids import digest

Held = Mapping[str, Sequence[View]]
"""Views by `View.made`, as `LibraryStore.made_views` gives them of a document's older version."""


Made = tuple[tuple[View, ...], tuple[Degraded, ...]]


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
    first, *others = yield from together([make_views(entry.chunks, offline, title=title), *steps])
    (views, degraded), results = _checked(first), map(_checked, others)
    found: dict[str, Sequence[View]] = {**known}
    for stamp, (made, lost) in zip(rest, results, strict=True):
        # what lacks a part is not taken over next time: it is asked for again
        found[stamp] = [view if lost else replace(view, made=stamp) for view in made]
        degraded = (*degraded, *lost)
    taken = (replace(view, chunk_id=chunk.id) for _, chunk, stamp in stamps for view in found[stamp])
    return replace(entry, views=(*entry.views, *views, *taken)), degraded


def _checked(result: Made | Failed) -> Made:
    if isinstance(result, Failed):
        raise result.error
    return result


def made_from(maker: ViewMaker, chunk: Chunk, title: str, model: str) -> str:
    """Return the hash of all that a maker's views of a chunk are made from."""
    return digest(maker.kind, maker.version, model, title, repr(chunk.path), chunk.text, length=32)

"""Neighbours in stores that know chunks by id, not by place: links from chunk to chunk are followed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from catena.effects import Step, ask
from catena.model import Chunk
from catena.segments.joining import joint
from catena.segments.neighbours import Place, Span


@dataclass(frozen=True, slots=True)
class Linked:
    """A chunk, and the ids of the chunks before and after it in its document, None where nobody knows any."""

    chunk: Chunk
    previous: str | None = None
    next: str | None = None

    @property
    def place(self) -> Place:
        return self.chunk.document_id, self.chunk.position


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLinked:
    """Ask a store for chunks by id; the reply is `Linked` values in any order, without those that it lacks."""

    ids: tuple[str, ...]
    purpose: str = field(default="neighbours by id", compare=False)


def follow_links(spans: Sequence[Span], known: Iterable[Linked]) -> Step[tuple[tuple[Chunk, ...], ...]]:
    """Fetch chunks by their place where a store knows them by id alone: what `FetchChunks` asks for.

    From the known chunks beside a span the links are followed inwards, all spans side by side, so that a span of n
    chunks takes at most `ceil(n / 2)` requests from both sides, n from one. A link that leads to nothing, or to a
    chunk of another place than it should, ends the walk there.

    Args:
        spans: (document id, first position, end position), 0-based and half-open.
        known: chunks with their links, those around the spans among them.

    Returns:
        Per span the chunks that were reached, in reading order.

    Raises:
        CatenaError: the store failed.
    """
    places = {linked.place: linked for linked in known}
    tried: set[tuple[Place, str]] = set()
    while wanted := _reachable(spans, places, tried):
        tried.update(wanted.items())
        (reply,) = yield from ask([FetchLinked(ids=tuple(dict.fromkeys(wanted.values())))])
        places.update((linked.place, linked) for linked in reply if linked.place in wanted)
    return tuple(
        tuple(places[document, position].chunk for position in range(first, end) if (document, position) in places)
        for document, first, end in spans
    )


def _reachable(
    spans: Sequence[Span], places: Mapping[Place, Linked], tried: Set[tuple[Place, str]]
) -> dict[Place, str]:
    """Return the missing places that a link of a known neighbour leads to, each with the id it names."""
    wanted: dict[Place, str] = {}
    for document, first, end in spans:
        for place in ((document, position) for position in range(first, end)):
            before, after = places.get((document, place[1] - 1)), places.get((document, place[1] + 1))
            links = (before and before.next, after and after.previous)
            link = next((each for each in links if each and (place, each) not in tried), None)
            if place not in places and link:
                wanted[place] = link
    return wanted


def placed_by_offsets(chunks: Iterable[Chunk]) -> tuple[Chunk, ...]:
    """Number chunks of which nothing but the offsets is known, so that those that follow each other are neighbours.

    Between chunks that do not touch, a position stays free: what stands there is unknown. Chunks of different pages
    do not touch: they may have been cut page by page, with offsets that begin anew on each.

    Args:
        chunks: of any documents, in any order; their positions are not looked at.

    Returns:
        The chunks by document and offset, with positions.
    """
    placed: list[Chunk] = []
    for chunk in sorted(chunks, key=lambda chunk: (chunk.document_id, chunk.pages or (0, 0), chunk.start, chunk.end)):
        before = placed[-1] if placed and placed[-1].document_id == chunk.document_id else None
        if before is None:
            position = 0
        else:
            touches = before.pages == chunk.pages and joint(before, chunk) is not None
            position = before.position + (1 if touches else 2)
        placed.append(replace(chunk, position=position))
    return tuple(placed)

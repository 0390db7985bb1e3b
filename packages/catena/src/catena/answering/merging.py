"""Segments that overlap or say the same: one of them each, with all the places where it stands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from catena.model import Place, Segment, common_metadata
from catena.model.ids import span_id


@dataclass(frozen=True, slots=True)
class Valued:
    """A segment with its value.

    Attributes:
        also: other places where the same text stands, in the order of their values.
        is_cut: whether the end of it is left out.
    """

    segment: Segment
    value: float
    also: tuple[Segment, ...] = ()
    is_cut: bool = False

    @property
    def order(self) -> tuple[float, str, int, int, str, str, tuple[str, ...]]:
        """What to sort by for the best first; of what claims one place, by what it says."""
        segment = self.segment
        place = (segment.document_id, segment.start, segment.end)
        return (-self.value, *place, segment.id, segment.text, segment.path)


def merged(segments: Iterable[Valued]) -> list[Valued]:
    """Return the segments, those that overlap as one, and of those with equal text the best, the best first."""
    by_text: dict[str, list[Valued]] = {}
    for valued in sorted(without_overlap(segments), key=lambda valued: valued.order):
        by_text.setdefault(" ".join(valued.segment.text.split()), []).append(valued)
    return [replace(first, also=tuple(other.segment for other in others)) for first, *others in by_text.values()]


def without_overlap(segments: Iterable[Valued]) -> list[Valued]:
    """Return the segments by document and place; those of a document that overlap are one, worth the best of them.

    Spans overlap only where their texts agree: else they are of two versions of the document, and both stay.
    """
    found: list[Valued] = []
    reaching: list[int] = []  # places in `found` of what may overlap with the next one, one for each version
    for valued in sorted(segments, key=lambda valued: (valued.segment.document_id, *valued.order[2:], -valued.value)):
        reaching = [place for place in reaching if _overlap(found[place].segment, valued.segment)]
        for place in reaching:
            joined = _union(found[place].segment, valued.segment)
            if joined is not None:
                found[place] = Valued(joined, max(found[place].value, valued.value))
                break
        else:
            reaching.append(len(found))
            found.append(valued)
    return found


def _overlap(first: Segment, second: Segment) -> bool:
    return first.document_id == second.document_id and second.start < first.end


def _union(first: Segment, second: Segment) -> Segment | None:
    """Return two segments that overlap as one slice, `first.start <= second.start`; None where they do not agree."""
    common = first.text[second.start - first.start :]
    if not (common.startswith(second.text) or second.text.startswith(common)):
        return None
    if second.end <= first.end:
        return first
    if first.start == second.start:
        return second
    text, place = first.text + second.text[len(common) :], Place.around((first.place, second.place))
    positions = None
    if first.positions and second.positions:
        positions = (min(first.positions[0], second.positions[0]), max(first.positions[1], second.positions[1]))
    return Segment(
        id=span_id(first.document_id, "passage", first.start, second.end),
        document_id=first.document_id,
        start=first.start,
        end=second.end,
        text=text,
        path=_common(first.path, second.path),
        chunk_ids=tuple(dict.fromkeys((*first.chunk_ids, *second.chunk_ids))),
        pages=place.pages,
        page_labels=place.page_labels,
        lines=place.lines,
        positions=positions,
        metadata=common_metadata((first.as_chunk(), second.as_chunk())),
    )


def _common(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    pairs = zip(first, second, strict=False)
    return tuple(title for title, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

"""One document's row in the picture of segments: places on the x axis, and labels above and below the values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import nan
from typing import TypeAlias

from catena.model import Chunk
from catena.model.places import SEPARATOR, TITLE
from catena.plots.label_rows import LETTER, label_rows, shortened
from catena.plots.picture import BACKGROUND, Labels, Line, Mark, Points
from catena.segments.explaining import Weighed

AXIS = 8.3  # inches that the x axis is wide, about: of the picture's width less the legend
PLAIN, DASHED = BACKGROUND - 3, BACKGROUND - 2  # series of grey lines
_TITLE_TIERS, _VALUE_TIERS = 3, 4
_SHORTEST, _LONGEST = 9, 60  # letters of a section's title
_DOCUMENT = 110  # letters of a document's title

Span: TypeAlias = tuple[str, int, int, float]
"""A segment: document id, first position, end position, value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The weighed chunks of one document, with a place on the x axis for each.

    Attributes:
        places: one apart, two where positions are missing between.
        known: the chunks themselves by id, where the extraction was given.
    """

    title: str
    chunks: Sequence[Weighed]
    places: Sequence[float]
    known: Mapping[str, Chunk]

    @property
    def scale(self) -> float:
        """The places to an inch."""
        return max(self.places[-1] - self.places[0] + 1, 4.0) / AXIS


def row_of(chunks: Sequence[Weighed], known: Mapping[str, Chunk]) -> Row:
    """Return a document's row: its weighed chunks in reading order, and what is known of them by id."""
    places = [0.0]
    for before, after in pairwise(chunks):
        places.append(places[-1] + (1.0 if after.position == before.position + 1 else 2.0))
    first = known.get(chunks[0].chunk_id)
    title = str((first.metadata.get(TITLE) if first else None) or chunks[0].document_id)
    return Row(title=shortened(title, _DOCUMENT), chunks=chunks, places=places, known=known)


def ends_of(row: Row, span: Span) -> tuple[float, float]:
    """Return where a segment begins and ends on the x axis."""
    inside = [
        place for place, chunk in zip(row.places, row.chunks, strict=True) if span[1] <= chunk.position < span[2]
    ]
    return inside[0] - 0.5, inside[-1] + 0.5


def segment_labels(row: Row, spans: Sequence[Span], high: float, tier: float) -> tuple[Labels, int]:
    """Return the values of the segments above them, in as few rows as keep them apart, and the number of rows."""
    ordered = sorted(spans, key=lambda span: span[1])
    texts = [f"{value:.2f}" for _, _, _, value in ordered]
    middles = [sum(ends_of(row, span)) / 2 for span in ordered]
    wide = [len(text) * LETTER * row.scale for text in texts]
    tiers = label_rows(
        [middle - width / 2 for middle, width in zip(middles, wide, strict=True)], wide, most=_VALUE_TIERS
    )
    kept = [number for number, at in enumerate(tiers) if at is not None]
    labels = Labels(
        x=[middles[number] for number in kept],
        y=[high + ((tiers[number] or 0) + 0.9) * tier for number in kept],
        texts=[texts[number] for number in kept],
        names=[
            f"segment: chunks {ordered[number][1]} to {ordered[number][2] - 1}, value {ordered[number][3]:.3f}"
            for number in kept
        ],
    )
    return labels, 1 + max((tiers[number] or 0 for number in kept), default=-1)


def section_titles(row: Row, top: float, tier: float) -> tuple[list[Mark], int]:
    """Return a line below each section with its title, in at most three rows, and the number of rows.

    Titles are cut to what room there is for so many; where even that is too little, only hovering tells them.
    """
    pairs = zip(row.chunks, row.places, strict=True)
    runs = [(path, [place for _, place in of]) for path, of in groupby(pairs, key=lambda pair: pair[0].path) if path]
    if not runs:
        return [], 0
    room = int(0.9 * _TITLE_TIERS * AXIS / LETTER / len(runs)) - 2
    texts = [shortened(path[-1], min(max(room, _SHORTEST), _LONGEST)) for path, _ in runs]
    wide = [len(text) * LETTER * row.scale for text in texts]
    last = row.places[-1] + 0.7
    starts = [
        max(row.places[0] - 0.5, min(of[0] - 0.4, last - width)) for (_, of), width in zip(runs, wide, strict=True)
    ]
    tiers = label_rows(starts, wide, most=_TITLE_TIERS)
    kept = [number for number, at in enumerate(tiers) if at is not None]
    xs = [x for _, of in runs for x in (of[0] - 0.4, of[-1] + 0.4, nan)]
    middles = [(of[0] + of[-1]) / 2 for _, of in runs]
    strip = Line(x=xs, y=[top] * len(xs), label="sections", series=PLAIN, hovers=False)
    hovers = Points(
        x=middles, y=[top] * len(runs), label="sections", series=BACKGROUND,
        names=[SEPARATOR.join(path) for path, _ in runs],
    )  # fmt: skip
    labels = Labels(
        x=[starts[number] for number in kept],
        y=[top - ((tiers[number] or 0) + 0.8) * tier for number in kept],
        texts=[texts[number] for number in kept],
        names=[SEPARATOR.join(runs[number][0]) for number in kept],
        leading=True,
    )
    return [strip, hovers, labels], 1 + max((tiers[number] or 0 for number in kept), default=0)

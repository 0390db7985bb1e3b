"""Draw segment extraction: the worth of each chunk along its document, and the runs that were taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import nan
from pathlib import Path
from typing import TypeAlias

from catena import Chunk
from catena.model import SEPARATOR, TITLE, EvaluationError, ParameterError
from catena.segments import Explanation, Extraction, Weighed, Worth, explain
from catena_view.plots.picture import (
    BACKGROUND,
    LETTER,
    Axis,
    Labels,
    LineMark,
    Mark,
    Panel,
    Picture,
    Points,
    Spans,
    finished,
    label_rows,
    position_ticks,
    round_ticks,
    shortened,
)

AXIS = 8.3  # inches that the x axis is wide, about: of the picture's width less the legend
PLAIN, DASHED = BACKGROUND - 3, BACKGROUND - 2  # series of grey lines
_TITLE_TIERS, _VALUE_TIERS = 3, 4
_SHORTEST, _LONGEST = 9, 60  # letters of a section's title
_DOCUMENT = 110  # letters of a document's title

Span: TypeAlias = tuple[str, int, int, float]
"""A segment: document id, first position, end position, value."""
_TIER = 0.1  # height of a row of labels, in parts of the values' range
_EXCERPT = 90  # letters of a chunk's text, on hovering
_NAME = 26  # letters of a query, in the legend


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRow:
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


def row_of(chunks: Sequence[Weighed], known: Mapping[str, Chunk]) -> ChunkRow:
    """Return a document's row: its weighed chunks in reading order, and what is known of them by id."""
    places = [0.0]
    for before, after in pairwise(chunks):
        places.append(places[-1] + (1.0 if after.position == before.position + 1 else 2.0))
    first = known.get(chunks[0].chunk_id)
    title = str((first.metadata.get(TITLE) if first else None) or chunks[0].document_id)
    return ChunkRow(title=shortened(title, _DOCUMENT), chunks=chunks, places=places, known=known)


def rows_of(told: Explanation, known: Mapping[str, Chunk]) -> list[ChunkRow]:
    """Return a row for each document that was considered, in that order; `known` are chunks by id."""
    weighed = [chunk for chunk in told.chunks if any(worth.value is not None for worth in chunk.worths)]
    return [row_of(list(chunks), known) for _, chunks in groupby(weighed, key=lambda chunk: chunk.document_id)]


def formula_of(told: Explanation) -> str:
    """Return the formula of a chunk's value, in words."""
    params = told.params
    worth = f"max(P × decay, {params.lending:g} × a neighbour's)" if params.lending else "P × decay"
    return f"Value = ({worth} − {params.irrelevance_penalty:g}) × length factor ({params.length_adjustment})"


def ends_of(row: ChunkRow, span: Span) -> tuple[float, float]:
    """Return where a segment begins and ends on the x axis."""
    inside = [
        place for place, chunk in zip(row.places, row.chunks, strict=True) if span[1] <= chunk.position < span[2]
    ]
    return inside[0] - 0.5, inside[-1] + 0.5


def segment_labels(row: ChunkRow, spans: Sequence[Span], high: float, tier: float) -> tuple[Labels, int]:
    """Return the values of the segments above them, in as few rows as keep them apart, and the number of rows."""
    ordered = sorted(spans, key=lambda span: span[1])
    texts = [f"{value:.2f}" for _, _, _, value in ordered]
    middles = [sum(ends_of(row, span)) / 2 for span in ordered]
    wide = [len(text) * LETTER * row.scale for text in texts]
    starts = [middle - width / 2 for middle, width in zip(middles, wide, strict=True)]
    rows = label_rows(starts, wide, most=_VALUE_TIERS)
    labels = Labels(
        x=[middles[number] for number in rows],
        y=[high + (at + 0.9) * tier for at in rows.values()],
        texts=[texts[number] for number in rows],
        names=[
            f"segment: chunks {start} to {end - 1}, value {value:.3f}"
            for _, start, end, value in (ordered[number] for number in rows)
        ],
    )
    return labels, 1 + max(rows.values(), default=-1)


def section_titles(row: ChunkRow, top: float, tier: float) -> tuple[list[Mark], int]:
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
    rows = label_rows(starts, wide, most=_TITLE_TIERS)
    xs = [x for _, of in runs for x in (of[0] - 0.4, of[-1] + 0.4, nan)]
    middles = [(of[0] + of[-1]) / 2 for _, of in runs]
    strip = LineMark(x=xs, y=[top] * len(xs), label="sections", series=PLAIN, hovers=False)
    hovers = Points(
        x=middles, y=[top] * len(runs), label="sections", series=BACKGROUND,
        names=[SEPARATOR.join(path) for path, _ in runs],
    )  # fmt: skip
    labels = Labels(
        x=[starts[number] for number in rows],
        y=[top - (at + 0.8) * tier for at in rows.values()],
        texts=[texts[number] for number in rows],
        names=[SEPARATOR.join(runs[number][0]) for number in rows],
        leading=True,
    )
    return [strip, hovers, labels], 1 + max(rows.values(), default=0)


def relevance_curve(
    extraction: Extraction | Explanation,
    path: str | Path | None = None,
    *,
    documents: int = 3,
    queries: Sequence[str] = (),
    title: str = "What chunks are worth, and the segments taken",
) -> Picture | Path:
    """Draw the value of each chunk to each query along its document; segments are shaded, with what they are worth.

    One row for each document, in the order considered. A line for each query, which breaks where the query did not
    find a chunk; what no query found is grey. Below are the sections, above the values of the segments. The x axis
    leaves out chunks that no segment could cross: there is a gap. On hovering (HTML) each chunk tells its rank
    (from 1), probability, what made its value, and how its text begins.

    Args:
        extraction: what `catena.segments.extract` returned; or what `explain` says of it, without texts and with
            ids for titles.
        path: a .png or .html to write; None returns the picture.
        documents: how many rows at most, at least 1.
        queries: names for the legend, one per query; by default the queries in words where the extraction has them,
            else their numbers, from 1.
        title: of the picture.

    Raises:
        EvaluationError: no document was considered.
        ParameterError: `documents` is less than 1, names are missing, or the suffix is not known.
        MissingExtraError: the library that draws is not installed.
    """
    if documents < 1:
        raise ParameterError("documents", documents, "1 or more")
    told = explain(extraction) if isinstance(extraction, Extraction) else extraction
    held = extraction.considered.valued.chunks if isinstance(extraction, Extraction) else ()
    rows = rows_of(told, {chunk.id: chunk for chunk in held})
    if not rows:
        raise EvaluationError("a relevance curve needs at least one document that was considered")
    count = len(rows[0].chunks[0].worths)
    if not queries and isinstance(extraction, Extraction):
        queries = extraction.asked
    if queries and len(queries) != count:
        raise ParameterError("queries", len(queries), f"a name for each of {count} queries")
    names = [shortened(name, _NAME) for name in queries] or [f"query {number}" for number in range(1, count + 1)]
    if len(set(names)) < count:  # one entry of the legend each, though they begin alike
        names = [shortened(f"{number}: {name}", _NAME) for number, name in enumerate(queries, start=1)]
    shown = rows[:documents]
    drawn = [_panel(row, told, names) for row in shown]
    picture = Picture(
        title=title,
        caption=_caption(told, shown, len(rows)),
        panels=[panel for panel, _ in drawn],
        height=1.3 + sum(height for _, height in drawn),
        stacked=True,
    )
    return finished(picture, path)


def _panel(row: ChunkRow, told: Explanation, names: Sequence[str]) -> tuple[Panel, float]:
    """Return the panel of a document and its height in inches."""
    penalty = told.params.irrelevance_penalty
    values = [worth.value or 0.0 for chunk in row.chunks for worth in chunk.worths]
    low, high = min(*values, -penalty), max(*values, 0.0)
    tier = _TIER * (high - low or 1.0)  # 0 where all values are 0
    spans = [span for span in told.spans if span[0] == row.chunks[0].document_id]
    worths, worth_tiers = segment_labels(row, spans, high, tier)
    titles, title_tiers = section_titles(row, low - tier, tier)
    ends = (-0.7, max(row.places[-1] + 0.7, 3.3))
    marks: list[Mark] = [
        Spans(spans=[ends_of(row, span) for span in spans], label="segment, with its value"),
        LineMark(x=ends, y=(0.0, 0.0), label="0: worth reading from here up", series=PLAIN, hovers=False),
        LineMark(x=ends, y=(-penalty, -penalty), label="0 less the penalty", series=DASHED, hovers=False),
        *_unfound(row),
    ]
    for query, name in enumerate(names):
        marks += _curve(row, query, name)
    positions = [chunk.position for chunk in row.chunks]
    ticks = position_ticks(row.places, positions, letter=1.2 * LETTER * row.scale)  # larger than labels
    panel = Panel(
        title=row.title,
        marks=[*marks, worths, *titles],
        x=Axis(label="position of the chunk in its document", ticks=ticks, limits=ends),
        y=Axis(
            label="value",
            ticks=round_ticks(low, high),
            limits=(low - (title_tiers + 1.6) * tier, high + (worth_tiers + 0.8) * tier),
        ),
    )
    return panel, 2.3 + 0.19 * (worth_tiers + title_tiers)


def _curve(row: ChunkRow, query: int, name: str) -> list[Mark]:
    """Return a query's values: a level for each chunk that it found, and a point to hover over."""
    xs: list[float] = []
    ys: list[float] = []
    points: list[tuple[float, float, str]] = []
    for place, chunk in zip(row.places, row.chunks, strict=True):
        worth = chunk.worths[query]
        if worth.rank is None or worth.value is None:
            continue
        if xs and xs[-1] != place - 0.5:
            xs.append(nan)
            ys.append(nan)
        xs += [place - 0.5, place + 0.5]
        ys += [worth.value] * 2
        points.append((place, worth.value, _hover(row, chunk, worth)))
    if not points:
        return []
    x, y, names = zip(*points, strict=True)
    return [
        LineMark(x=xs, y=ys, label=name, series=query, hovers=False),
        Points(x=x, y=y, label=name, series=query, names=names),
    ]


def _unfound(row: ChunkRow) -> list[Mark]:
    """Return the chunks that no query found: grey, from 0 to what they are worth to the query they serve most."""
    held = [
        (place, chunk, max(chunk.worths, key=lambda worth: worth.value or 0.0))
        for place, chunk in zip(row.places, row.chunks, strict=True)
        if all(worth.rank is None for worth in chunk.worths)
    ]
    if not held:
        return []
    levels = [worth.value or 0.0 for _, _, worth in held]
    label = "found by no query"
    return [
        LineMark(
            x=[x for place, _, _ in held for x in (place - 0.45, place + 0.45, nan)],
            y=[y for level in levels for y in (level, level, nan)],
            label=label,
            series=PLAIN,
            filled=True,
            hovers=False,
        ),
        Points(
            x=[place for place, _, _ in held],
            y=levels,
            label=label,
            series=BACKGROUND,
            names=[_hover(row, chunk, worth) for _, chunk, worth in held],
        ),
    ]


def _hover(row: ChunkRow, chunk: Weighed, worth: Worth) -> str:
    found = f"rank {worth.rank + 1}, P {worth.probability:.3f}" if worth.rank is not None else "not found"
    lent = f"lent {worth.lent:.3f}, " if worth.lent else ""
    made = f"decay {worth.decay:.3f}, {lent}penalty {worth.penalty:g}, length factor {worth.factor:.2f}"
    where = f"segment {chunk.segment + 1}" if chunk.segment is not None else chunk.why
    text = row.known[chunk.chunk_id].text if chunk.chunk_id in row.known else ""
    parts = [
        f"chunk {chunk.position}: value {worth.value:+.3f}", found, made, where,
        SEPARATOR.join(chunk.path), shortened(text, _EXCERPT),
    ]  # fmt: skip
    return "\n".join(part for part in parts if part)


def _caption(told: Explanation, shown: Sequence[ChunkRow], count: int) -> str:
    by_document = Counter(document for document, *_ in told.spans)
    here = sum(by_document[row.chunks[0].document_id] for row in shown)
    total = sum(value for *_, value in told.spans)
    unit = "tokens" if told.in_tokens else "chunks"
    lost = sum(1 for row in shown for chunk in row.chunks if all(worth.rank is None for worth in chunk.worths))
    return (
        f"{len(shown)} of {count} documents considered, with {here} of {len(told.spans)} segments; all are worth "
        f"{total:.3f} and take {told.used:,} of {told.budget:,} {unit} ({told.params.selection}). "
        f"{formula_of(told)}. "
        f"{sum(len(row.chunks) for row in shown):,} chunks drawn, {lost:,} of them found by no query. "
        "A query's line breaks where it did not find a chunk."
    )

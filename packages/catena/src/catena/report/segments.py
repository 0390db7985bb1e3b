"""The relevance curves of a report: what chunks are worth along their documents, and which runs were taken."""

from __future__ import annotations

from itertools import groupby

from catena.model.places import citation
from catena.plots.graph_view import excerpt
from catena.plots.label_rows import shortened
from catena.plots.segment_rows import Row, ends_of, row_of
from catena.report.values import Bar, Curve, Curves, Missing, Span
from catena.segments.explaining import Explanation, Weighed, explain
from catena.segments.results import Extraction

_EXCERPT = 160  # letters of a chunk's text


def curves_shown(found: Extraction, most: int) -> Curves | Missing:
    """Return the curves of the first documents that extraction considered.

    Args:
        found: what `catena.segments.extract` returned.
        most: documents, >= 1.
    """
    if not found.considered.documents:
        return Missing(
            missing="No document was considered for segments, since nothing was found.", hint="other words"
        )
    told = explain(found)
    known = {chunk.id: chunk for chunk in found.considered.laid.chunks}
    weighed = [chunk for chunk in told.chunks if any(worth.value is not None for worth in chunk.worths)]
    rows = [row_of(list(chunks), known) for _, chunks in groupby(weighed, key=lambda chunk: chunk.document_id)]
    return Curves(
        penalty=told.params.irrelevance_penalty,
        used=told.used,
        budget=told.budget,
        unit="tokens" if told.in_tokens else "chunks",
        caption=_caption(told, len(rows)),
        degraded=tuple(f"{part.what}: {part.why}" for part in found.degraded),
        curves=tuple(_curve(row, found) for row in rows[:most]),
    )


def _caption(told: Explanation, documents: int) -> str:
    params = told.params
    worth = f"max(P × decay, {params.lending:g} × a neighbour's)" if params.lending else "P × decay"
    return (
        f"Documents considered: {documents:,}. Value = ({worth} − {params.irrelevance_penalty:g}) × length factor "
        f"({params.length_adjustment}); the dashed line is 0 less the penalty. Selection: {params.selection}."
    )


def _curve(row: Row, found: Extraction) -> Curve:
    document = row.chunks[0].document_id
    spans = tuple(
        Span(
            number=number,
            first=ends[0],
            last=ends[1],
            value=hit.value,
            citation=citation(hit.segment),
            text=hit.segment.text.strip(),
        )
        for number, hit in enumerate(found.segments, start=1)
        if hit.segment.document_id == document and hit.segment.positions is not None
        for ends in [ends_of(row, (document, hit.segment.positions[0], hit.segment.positions[1] + 1, hit.value))]
    )
    bars = tuple(_bar(place, chunk, row) for place, chunk in zip(row.places, row.chunks, strict=True))
    return Curve(document=document, title=row.title, bars=bars, spans=spans)


def _bar(place: float, chunk: Weighed, row: Row) -> Bar:
    worth = max(chunk.worths, key=lambda each: -1.0 if each.value is None else each.value)
    known = row.known.get(chunk.chunk_id)
    return Bar(
        position=chunk.position,
        place=place,
        value=worth.value or 0.0,
        rank=None if worth.rank is None else worth.rank + 1,
        probability=worth.probability,
        segment=None if chunk.segment is None else chunk.segment + 1,
        why=chunk.why,
        title=chunk.path[-1] if chunk.path else "",
        excerpt=shortened(excerpt(known), _EXCERPT) if known is not None else "",
    )

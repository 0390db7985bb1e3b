"""Relevant-segment extraction, as a step: from calibrated rankings to the segments that a reader gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from catena.effects import FetchChunks, FetchText, Step, ask
from catena.model import Chunk, Ranking, Segment
from catena.model.errors import ParameterError
from catena.segments.greedy_selection import greedy
from catena.segments.joining import in_reading_order, segment_of
from catena.segments.laying import lay_out, spans_between, with_tokens
from catena.segments.neighbours import fetched_by_place, gaps, hits_by_place
from catena.segments.optimal_selection import optimal
from catena.segments.params import BALANCED, ExtractionParams, Order
from catena.segments.results import Considered, Extraction, LaidOut, SegmentHit
from catena.segments.track import Limits, Pick, Track
from catena.segments.values import check_probabilities, documents_considered


def extract(
    rankings: Sequence[Ranking],
    *,
    params: ExtractionParams = BALANCED,
    count: Callable[[str], int] | None = None,
    header: Callable[[Chunk | Segment], str] | None = None,
) -> Step[Extraction]:
    """Return the segments that are worth most to the queries, within the budget.

    1. Documents: those of the first `params.top_k` chunks of each ranking, in order of best rank, then id.
    2. Values: of each chunk to each query, see `catena.segments.values`. Chunks that no query found are
       fetched where a segment could cross them; one that the store does not have is a wall.
    3. Selection: greedy or optimal, never across documents.
    4. Segments: what touches is merged (values added, queries united); the text is the document's own slice.

    Args:
        rankings: of the queries, in `Scale.PROBABILITY`.
        params: how chunks are valued and how much may be taken.
        count: the tokens of a text; needed, and called, where a budget is in tokens. Tokens of a segment are those
            of its chunks, of what stands between them, and of the header of its first chunk.
        header: the header that a reader will see above a segment; it is counted, not added. None: no header.

    Returns:
        The segments, and what `catena.segments.explain` needs to say why these.

    Raises:
        ScaleError: a ranking is not of calibrated probabilities.
        ParameterError: tokens are limited and `count` is missing; a probability is outside [0, 1]; two chunks claim
            one place in a document.
        CatenaError: the store failed.
    """
    check_probabilities(rankings)
    counts = params.max_tokens is not None or params.overall_max_tokens is not None
    if counts and count is None:
        raise ParameterError("count", None, "given where max_tokens or overall_max_tokens is")
    documents = documents_considered(rankings, params.top_k)
    found = hits_by_place(rankings, documents)
    known = {place: hit.hit.chunk for mine in reversed(found) for place, hit in mine.items()}
    spans = gaps(found, params)
    if spans:
        (reply,) = yield from ask([FetchChunks(spans=spans)])
        known = fetched_by_place(spans, reply) | known
    turn = {document: number for number, document in enumerate(documents)}
    places = sorted(known, key=lambda place: (turn[place[0]], place[1]))
    laid = lay_out([known[place] for place in places], found, params)
    limits = Limits(
        max_chunks=params.max_chunks,
        budget=params.overall_max_tokens or params.budget_in_chunks(len(rankings)),
        minimum_value=params.minimum_value,
        in_tokens=params.overall_max_tokens is not None,
        max_tokens=params.max_tokens,
    )
    track = laid.track if count is None or not counts else (yield from _counted(laid, count, header))
    picks = optimal(track, limits) if params.selection == "optimal" else greedy(track, limits, joint=params.joint)
    runs = _touching(picks, track) if params.merge else [(pick,) for pick in picks]
    segments = yield from _segments([laid.chunks[run[0].start : run[-1].end] for run in runs])
    return Extraction(
        segments=_ordered(segments, runs, picks, params.order),
        params=params,
        degraded=tuple(dict.fromkeys(part for ranking in rankings for part in ranking.degraded)),
        unknown=tuple(dict.fromkeys(name for ranking in rankings for name in ranking.unknown)),
        considered=Considered(
            documents=documents,
            laid=replace(laid, track=track),
            limits=limits,
            picks=picks,
            left_out=tuple(
                (query, rank, hit)
                for query, ranking in enumerate(rankings)
                for rank, hit in enumerate(ranking.hits)
                if hit.chunk.document_id not in turn
            ),
        ),
    )


def _touching(picks: Sequence[Pick], track: Track) -> list[tuple[Pick, ...]]:
    """Return the picks in order of place, those together that touch within a document."""
    runs: list[tuple[Pick, ...]] = []
    for pick in sorted(picks, key=lambda pick: pick.start):
        if runs and runs[-1][-1].end == pick.start < track.run_ends[runs[-1][-1].start]:
            runs[-1] = (*runs[-1], pick)
        else:
            runs.append((pick,))
    return runs


def _counted(
    laid: LaidOut, count: Callable[[str], int], header: Callable[[Chunk | Segment], str] | None
) -> Step[Track]:
    """Return the track with tokens; the store is asked for what stands between neighbours."""
    spans = spans_between(laid)
    if not spans:
        return with_tokens(laid, count, header)
    (reply,) = yield from ask([FetchText(spans=tuple(spans.values()))])
    between = {
        place: text
        for (place, (_, start, end)), text in zip(spans.items(), reply, strict=False)
        if text is not None and len(text) == end - start
    }
    return with_tokens(laid, count, header, between)


def _segments(runs: Sequence[Sequence[Chunk]]) -> Step[list[Segment]]:
    """Return one segment per run of chunks; the store is asked for the exact text where there are joints."""
    wanted = [number for number, chunks in enumerate(runs) if len(chunks) > 1 and in_reading_order(chunks)]
    texts: list[str | None] = [None] * len(runs)
    if wanted:
        spans = tuple((runs[n][0].document_id, runs[n][0].start, runs[n][-1].end) for n in wanted)
        (reply,) = yield from ask([FetchText(spans=spans)])
        for number, text in zip(wanted, reply, strict=False):
            texts[number] = text
    return [segment_of(chunks, text) for chunks, text in zip(runs, texts, strict=True)]


def _ordered(
    segments: Sequence[Segment], runs: Sequence[tuple[Pick, ...]], picks: Sequence[Pick], order: Order
) -> tuple[SegmentHit, ...]:
    """Return the segments with their values, in the order asked for."""
    turn = {pick.start: number for number, pick in enumerate(picks)}

    def place(pair: tuple[SegmentHit, tuple[Pick, ...]]) -> tuple[float, int]:
        hit, run = pair
        if order == "picked":
            return min(turn[pick.start] for pick in run), 0
        return (-hit.value if order == "score" else 0.0), run[0].start

    hits = [
        SegmentHit(segment, sum(pick.value for pick in run), tuple(sorted({pick.query for pick in run})))
        for segment, run in zip(segments, runs, strict=True)
    ]
    return tuple(hit for hit, _ in sorted(zip(hits, runs, strict=True), key=place))

"""Find segments for a question, the standard way: queries, rankings, probabilities, extraction.

Each part is a step of its own and works without the others; this module composes them in the way that most
readers want, and is meant to be read and copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from annotated_types import Ge, Le

from catena.effects import Step, all_together
from catena.model import Chunk, Degraded, ParameterError, Ranking, Scale, Segment, check_options, shown_text
from catena.retrieval import Queries, decompose, generate_queries, read_passages, retrieve, search_all
from catena.segments import BALANCED, Extraction, ExtractionParams, SegmentHit, extract, within_budget
from catena.segments.calibration import Calibration, Constant, OnFailure, probabilities, rerank
from catena.structure.views import DSRAG, HeaderTemplate, context_view, segment_header
from catena.text.words import count_tokens

if TYPE_CHECKING:
    Header: TypeAlias = Callable[[Chunk | Segment], str]

QueriesBy: TypeAlias = Literal["question", "decomposition", "llm"]

MOST_TOKENS = 1_000_000_000  # of a budget
MOST_HITS = 1_000_000  # of one ranking
_READ = 30  # hits whose sentences fill a budget

PlaceChunks: TypeAlias = Callable[[tuple[Ranking, ...]], Step[tuple[Ranking, ...]]]
"""Gives the chunks of rankings their positions, all rankings at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSearch:
    """The options by which a question becomes segments.

    Attributes:
        extraction: what segments are worth, and how much of them is returned: a preset, or settings of your own. None
            takes what `budget_tokens` allows: by `within_budget` where the order alone is believed, which is what
            measured best without a reranker, else by the preset `BALANCED`.
        budget_tokens: of all segments together, headers counted; not looked at where `extraction` is given.
        adjust: changes single settings of either, as `partial(replace, order="reading")` does.
        rerank: let the run's reranker score question and text together; else the fused scores are taken.
        calibration: what a score (the reranker's, or the fused one) says of relevance: a fixed or a fitted rule. The
            default believes the order alone, which is right of every ranking.
        depth: chunks that each query ranks and hands on; 200 as in dsRAG.
        queries_by: source of the queries: the "question" as it is, its "decomposition" into those that it asks
            in a row, or the run's "llm".
        most_queries: of one question.
        guidance: what the model should know of the documents when it writes queries.
        never_empty: return the best segment, and say so, where none is worth the minimum value and something was
            found; False returns none, as the article and dsRAG do.
        on_failure: of the reranker, as `catena.segments.rerank` takes it. A model that writes no queries costs
            only these: its "decomposition" is then searched for.
        header: the words before a segment, counted in a budget in tokens; None where the reader is given none.
    """

    extraction: ExtractionParams | None = None
    budget_tokens: Annotated[int, Ge(1), Le(MOST_TOKENS)] = 2_000
    adjust: Callable[[ExtractionParams], ExtractionParams] | None = None
    rerank: bool = False
    calibration: Calibration = field(default_factory=Constant)
    depth: Annotated[int, Ge(1), Le(MOST_HITS)] = 200
    queries_by: QueriesBy = "question"
    most_queries: Annotated[int, Ge(1), Le(1_000)] = 6
    guidance: str = ""
    never_empty: bool = True
    on_failure: OnFailure = "raise"
    header: HeaderTemplate | None = DSRAG

    def __post_init__(self) -> None:
        if not isinstance(self.extraction, ExtractionParams | None):
            allowed = "ExtractionParams, such as catena.segments.preset('precision'), or None"
            raise ParameterError("extraction", self.extraction, allowed)
        if not isinstance(self.calibration, Calibration):
            allowed = "a rule such as catena.segments.calibration.COHERE, or one that `load` read from a file"
            raise ParameterError("calibration", self.calibration, allowed)
        check_options(self)


def find_segments(
    question: str,
    options: SegmentSearch | None = None,
    *,
    ranked: Callable[[str], Step[Ranking]] | None = None,
    place: PlaceChunks | None = None,
    **search: Any,
) -> Step[Extraction]:
    """Return the segments that answer a question.

    ```text
    question -> queries -> one ranking each (side by side) -> P(relevant) -> values -> segments
    ```

    Args:
        question: as typed.
        options: how.
        ranked: from a query to its ranking, where another search than `retrieve` is to be used; what it gives as
            probabilities is taken as such.
        place: gives the chunks found their positions, where that search does not know them.
        search: routes, where, fusion, by_name, entities and on_unknown, as `retrieve` takes them.

    Raises:
        ParameterError, FilterError, RouteError: as of `retrieve`.
        ServiceError: the reranker failed, where the options say that this raises.
    """
    how = options or SegmentSearch()
    queries = yield from _queries(question, how)
    search_for = ranked or partial(retrieve, k=how.depth, **search)
    rankings = yield from search_all(queries.queries, search_for)
    by_order, searched = _by_order(rankings, how), rankings
    if how.rerank:
        rankings = yield from _reranked(queries.queries, rankings, how)
    else:
        rankings = tuple(probabilities(ranking, how.calibration) for ranking in rankings)
    if place is not None:
        rankings = yield from place(rankings)
    header = None if how.header is None else partial(segment_header, template=how.header)
    params = _params(rankings, how, header, by_order)
    params = params if how.adjust is None else how.adjust(params)
    if not isinstance(params, ExtractionParams):
        raise ParameterError("adjust", how.adjust, f"a function that returns ExtractionParams, not {params!r}")
    found = yield from extract(rankings, params=params, count=count_tokens, header=header)
    if how.never_empty and not found.segments and any(ranking.hits for ranking in rankings):
        anything = replace(params, minimum_value=0.0)
        many = yield from extract(rankings, params=anything, count=count_tokens, header=header)
        found = _best_alone(many, params)
    if how.extraction is None and by_order and searched and params.minimum_value <= 0.0:
        found = yield from _filled(queries.queries[0], searched[0], found, header)
    return replace(found, asked=queries.queries, degraded=(*queries.degraded, *found.degraded))


def _filled(query: str, ranking: Ranking, found: Extraction, header: Header | None) -> Step[Extraction]:
    """Fill what is left of a budget with the best sentences of the hits in no segment, each slice worth 0."""

    def tokens(segment: Segment) -> int:
        return count_tokens(shown_text(segment)) + count_tokens(header(segment) if header else "")

    left = (found.params.overall_max_tokens or 0) - sum(tokens(hit.segment) for hit in found.segments)
    held = {name for hit in found.segments for name in hit.segment.chunk_ids}
    rest = replace(ranking, hits=tuple(hit for hit in ranking.hits[:_READ] if hit.chunk.id not in held))
    read = yield from read_passages(query, rest, budget_tokens=max(0, left))
    segments = list(found.segments)
    for hit in read.hits:
        segment = replace(hit.chunk.as_segment(), positions=None)
        if (cost := tokens(segment)) <= left:
            segments.append(SegmentHit(segment, 0.0, (0,)))
            left -= cost
    if found.params.order == "reading":
        documents = [*found.considered.documents, *(hit.segment.document_id for hit in segments)]
        segments.sort(key=lambda hit: (documents.index(hit.segment.document_id), hit.segment.start))
    return replace(found, segments=tuple(segments))


def _by_order(found: Sequence[Ranking], how: SegmentSearch) -> bool:
    """Say whether only the order of the rankings will be believed."""
    constant = isinstance(how.calibration, Constant)
    if how.rerank:
        return constant
    scales = {ranking.scale for ranking in found}
    return scales == {Scale.RANK} or (constant and Scale.PROBABILITY not in scales)


def _params(
    rankings: Sequence[Ranking], how: SegmentSearch, header: Header | None, by_order: bool
) -> ExtractionParams:
    if how.extraction is not None:
        return how.extraction
    if not by_order:
        return replace(BALANCED, overall_max_tokens=how.budget_tokens)
    believed = how.calibration if isinstance(how.calibration, Constant) else Constant()
    return within_budget(rankings, how.budget_tokens, count=count_tokens, header=header, believed=believed.value)


def _best_alone(found: Extraction, params: ExtractionParams) -> Extraction:
    """Return the extraction with its best segment only, which is worth less than was asked for, and say so."""
    best = sorted(found.segments, key=lambda hit: (-hit.value, hit.segment.id))[:1]
    asked = params.minimum_value
    told = [Degraded("segments", f"none is worth {asked:g}; this is the best, worth {hit.value:.2g}") for hit in best]
    return replace(found, segments=tuple(best), params=params, degraded=(*found.degraded, *told))


def _queries(question: str, how: SegmentSearch) -> Step[Queries]:
    if how.queries_by == "llm":
        return (yield from generate_queries(question, n=how.most_queries, guidance=how.guidance, on_error="degrade"))
    apart = decompose(question, how.most_queries) if how.queries_by == "decomposition" else (question,)
    return Queries(question=question, queries=apart)


def _reranked(
    queries: tuple[str, ...], rankings: tuple[Ranking, ...], how: SegmentSearch
) -> Step[tuple[Ranking, ...]]:
    """Return the rankings reranked side by side, each by its own query; what is read is a chunk under its header."""
    steps = [
        rerank(query, ranking, calibration=how.calibration, text_of=headed_text, on_failure=how.on_failure)
        for query, ranking in zip(queries, rankings, strict=True)
    ]
    return tuple((yield from all_together(steps)))


def headed_text(chunk: Chunk) -> str:
    """Return a chunk as a reranker reads it: its header, an empty line, its text."""
    return context_view(chunk).text

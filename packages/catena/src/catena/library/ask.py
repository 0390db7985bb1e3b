"""Put a question to a library: every question is one step here, and whoever asks it only drives that step.

What depends on the library is decided here and nowhere else: which routes and which formula stand for None, how deep
routes look, whether a filter can find anything, which pages a passage is cited with. `Library`, its async methods,
`ServerLibrary`, the command line, the report and both adapters run these steps, so that the same question with the
same options gives the same hits, in the same order, with the same scores and citations.

None for an option means its default, everywhere. What the library holds is asked of whoever answers the step (see
`catena.effects.Inspect`), so that a step sees one state of it, and blocks no event loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

from catena.answering.answers import AnswerOptions, SegmentAnswer, answer_from
from catena.effects import CheckGraph, Failed, FetchDocuments, Holdings, Inspect, Step
from catena.enrichment.entities import QueryEntities, query_entities
from catena.graph import GraphResult, GraphSearch, PaperScorer, search_graph, widen
from catena.model import Hit, Ranking, Segment, Where
from catena.model.errors import FilterError, LibraryError, MissingServiceError, ParameterError, ServerError
from catena.model.filters import checked
from catena.model.options import check_given
from catena.retrieval.fusion import Fusion, ScoreFusion
from catena.retrieval.multi_route import retrieve
from catena.retrieval.routes import (
    DEFAULT_ROUTES,
    OnRouteError,
    OnUnknown,
    QuestionLimits,
    Route,
    dense,
    dense_by_texts,
    routes_named,
)
from catena.retrieval.section_search import (
    SECTION_FUSION,
    SECTION_ROUTES,
    ReadingOptions,
    ViewSearch,
    check_budget,
    read_passages,
    search_views,
)
from catena.retrieval.tuning import Tuned
from catena.retrieval.view_search import search_figures
from catena.segments import Extraction, PlaceChunks, SegmentSearch, find_segments
from catena.structure.passages import PASSAGE, PASSAGE_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable

    from catena.answering.integration import ValuedSegment
    from catena.enrichment.entities import Detector
    from catena.library.pipeline import Preparation
    from catena.model import Unknown

BUDGET_TOKENS = 1_000  # of all passages together
_PASSAGES = SECTION_ROUTES[-1]  # the route over the passages of long chunks


class SegmentSearchOptions(TypedDict, total=False):
    """Options of a search for segments; `catena.retrieval.multi_route.retrieve` explains each.

    None stands for the default of each. `fusion` may also be weights that were tuned on questions. `embedded_texts`
    are embedded in place of the question (HyDE): the dense route compares the mean of their vectors.
    """

    routes: Sequence[str] | Mapping[str, Route] | None
    where: Where | None
    fusion: Fusion | Tuned | None
    on_route_error: OnRouteError | None
    by_name: bool | None
    entities: Sequence[str] | None
    on_unknown: OnUnknown | None
    limits: QuestionLimits | None
    embedded_texts: Sequence[str] | None


class SearchOptions(SegmentSearchOptions, total=False):
    """Options of a search for chunks; `catena.retrieval.multi_route.retrieve` explains each.

    `k` is how many hits there are at most, 10 where it is not given; 0 returns none.
    """

    k: int | None
    depth: int | None


def usual_formula(routes: Sequence[str] | Mapping[str, Route] | None, *, has_passages: bool) -> ScoreFusion:
    """Return the formula by which routes are ranked where none is given.

    Args:
        routes: that are asked; None for all that `search_step` asks by itself.
        has_passages: whether the library holds long chunks with passages.
    """
    asked = SECTION_ROUTES if routes is None else routes
    return SECTION_FUSION if has_passages and _PASSAGES in asked else ScoreFusion()


def search_step(
    question: str, options: SearchOptions | None = None, *, detectors: Sequence[Detector] = ()
) -> Step[Ranking]:
    """Return the k best chunks for a question, best first, each with every route that found it.

    Args:
        question: what the user asks, as typed.
        options: see `SearchOptions`.
        detectors: who else finds names in the question, besides `entities`.

    Raises:
        ParameterError: an option is out of range.
        FilterError: `where` is malformed, or asks for a field that nothing there has.
        RouteError: a route failed and `on_route_error` is "raise", or every route failed.
        ModelMismatchError: the weights were tuned with another model than that of the vectors.
    """
    how, _ = yield from _resolved(options, SECTION_ROUTES)
    if not detectors:
        return (yield from retrieve(question, **how))
    found: QueryEntities = yield from query_entities(
        question, detectors, on_error=how.get("on_route_error", "degrade")
    )
    ranking = yield from retrieve(question, **{**how, "entities": (*how.get("entities", ()), *found.names)})
    return replace(ranking, degraded=(*found.degraded, *ranking.degraded))


def passages_step(
    question: str,
    options: SearchOptions | None = None,
    *,
    budget_tokens: int | None = None,
    reading: ReadingOptions | None = None,
    views: ViewSearch | None = None,
    detectors: Sequence[Detector] = (),
    preparation: Preparation | None = None,
) -> Step[Ranking]:
    """Return the passages of the best chunks that say most about a question, as many as fit into a budget.

    They are exact slices with pages and lines of their own, and obey `where` with these, too.

    Args:
        question: as typed.
        options: of the search for chunks, see `SearchOptions`; `k` is how many are looked into.
        budget_tokens: of all passages together, 1,000 by default.
        reading: how many chunks are looked into, and how their passages are ranked.
        views: find the chunks under several views, in place of routes and names.
        detectors: as of `search_step`.
        preparation: of the library: how long its passages are.

    Raises:
        ParameterError, FilterError, RouteError: as of `search_step`.
    """
    if not isinstance(reading, ReadingOptions | None):
        raise ParameterError("reading", reading, "ReadingOptions(...) or None")
    budget = BUDGET_TOKENS if budget_tokens is None else budget_tokens
    check_budget(budget)
    asked: SearchOptions = {**(options or {})}
    if asked.get("k") is None:
        asked["k"] = (reading or ReadingOptions()).hits
    if views is None:
        ranking = yield from search_step(question, asked, detectors=detectors)
    else:
        ranking = yield from views_step(
            question, views, k=asked["k"], where=asked.get("where"), preparation=preparation
        )
    where = asked.get("where")
    if where is not None:
        where = checked(where, (yield from _held(fields=True)).fields)
    return (
        yield from read_passages(
            question,
            ranking,
            budget_tokens=budget,
            passage_tokens=PASSAGE_TOKENS if preparation is None else preparation.passage_tokens,
            options=reading,
            where=where,
        )
    )


def views_step(
    question: str,
    how: ViewSearch | None = None,
    *,
    k: float | None = None,
    where: Where | None = None,
    preparation: Preparation | None = None,
) -> Step[Ranking]:
    """Return chunks found under several views, each with the views that found it and its rank in them.

    Args:
        question: as typed.
        how: which views, and by which rule they become one; the article's by default.
        k: how many, 3 by default; the article's rule takes 1.5 too, and returns as many as its views differ.
        where: a filter that every view obeys.
        preparation: of the library: kinds that it makes may be missing, as where all sections are short.

    Raises:
        ParameterError: an option is out of range, or the library holds no views of a kind that is asked for.
        FilterError: as of `search_step`.
        ViewError: all views failed.
    """
    how = ViewSearch() if how is None else how
    if not isinstance(how, ViewSearch):
        raise ParameterError("how", how, "ViewSearch(views=..., rule=...) or None")
    held = yield from _held(views=None, fields=where is not None)
    made = () if preparation is None else tuple(maker.kind for maker in preparation.views)
    missing = [kind for kind in how.views if kind not in (*held.views, *made)]
    if missing and held.views:
        kinds = ", ".join(held.views)
        what = f"kinds of view that this library holds ({kinds}); Preparation(views=...) makes others"
        raise ParameterError("views", missing, what)
    where = checked(where, held.fields)
    return (yield from search_views(question, how, k=3 if k is None else k, where=where))


def segments_step(
    question: str,
    how: SegmentSearch | None = None,
    options: SegmentSearchOptions | None = None,
    *,
    ranked: Callable[[str], Step[Ranking]] | None = None,
    place: PlaceChunks | None = None,
) -> Step[Extraction]:
    """Return the segments that answer a question: runs of adjacent chunks, each an exact slice of its document.

    Args:
        question: as typed.
        how: queries, reranker, calibration, and what a segment is worth.
        options: of the search for chunks.
        ranked: from a query to its ranking, in place of that search; it obeys filters of its own.
        place: gives the chunks that it finds their positions.

    Raises:
        ParameterError, FilterError, RouteError: as of `search_step`.
        ServiceError: the reranker failed, where `how` says that this raises.
    """
    if not isinstance(how, SegmentSearch | None):
        raise ParameterError("how", how, "SegmentSearch(...) or None")
    if ranked is not None:
        if options and (where := options.get("where")):
            raise FilterError(where, "the chunks come from a retriever of your own; filter inside it")
        return (yield from find_segments(question, how, ranked=ranked, place=place))
    search, _ = yield from _resolved(options, DEFAULT_ROUTES)
    return (yield from find_segments(question, how, **search))


def answer_step(
    question: str,
    how: SegmentSearch | None = None,
    answering: AnswerOptions | None = None,
    options: SegmentSearchOptions | None = None,
) -> Step[SegmentAnswer]:
    """Write an answer from the segments for a question, each of its quotes looked up in its source.

    Args:
        question: as typed.
        how: the segments, as for `segments_step`.
        answering: what the model is given.
        options: as for `segments_step`.

    Raises:
        ParameterError, FilterError, RouteError: as of `segments_step`.
        ServiceError: the model failed.
    """
    found = yield from segments_step(question, how, options)
    return (yield from answer_from_step(question, found.segments, answering, nowhere=found.unknown))


def answer_from_step(
    question: str,
    segments: Sequence[Segment | Hit | ValuedSegment],
    answering: AnswerOptions | None = None,
    *,
    nowhere: Sequence[Unknown] = (),
) -> Step[SegmentAnswer]:
    """Write an answer from what was found; quotes are looked up in the whole documents, as far as the store has them.

    Args:
        question: as typed.
        segments: best first.
        answering: what the model is given.
        nowhere: names in the question that stand nowhere.

    Raises:
        ServiceError: the model failed.
    """
    ids = tuple(dict.fromkeys(map(_document_of, segments)))
    (documents,) = yield [FetchDocuments(ids=ids)]
    if isinstance(documents, Failed):
        if not isinstance(documents.error, MissingServiceError):  # passages need no store
            raise documents.error
        documents = ()
    whole = [document for document in documents if document is not None]
    return (yield from answer_from(question, segments, answering, nowhere=nowhere, documents=whole))


def graph_step(
    question: str, how: GraphSearch | None = None, *, k: int | None = None, where: Where | None = None
) -> Step[GraphResult]:
    """Return the chunks that answer a question together, and the chains by which the graph led to them.

    Args:
        question: as typed.
        how: first ranking, walk and scorer.
        k: length of the ranking, >= 0; 10 by default.
        where: a filter that every route obeys, and the graph.

    Raises:
        LibraryError: there is no graph.
        ParameterError: an option is out of range, or the scorer was trained with another embedder.
        FilterError: as of `search_step`.
        CatenaError: the walk failed, and `how.on_graph_error` is "raise".
    """
    how = _walk(how)
    options: SearchOptions = {"routes": how.routes, "fusion": how.fusion, "where": where}
    search, held = yield from _resolved(options, DEFAULT_ROUTES)
    yield from _check_walk(how, held)
    how = replace(how, routes=search["routes"], fusion=search["fusion"])
    return (yield from search_graph(question, how, k=10 if k is None else k, where=search["where"]))


def widen_step(
    question: str,
    ranking: Ranking,
    how: GraphSearch | None = None,
    *,
    k: int | None = None,
    where: Where | None = None,
) -> Step[GraphResult]:
    """Return a ranking of any retriever over the library's chunks, widened by a walk over its graph from there.

    Args:
        question: as typed.
        ranking: of chunks of the library, in any scale.
        how: walk and scorer; its first ranking is the one that is given.
        k: length of the ranking, >= 0; 10 by default.
        where: a filter that the graph obeys; the given ranking is believed to obey it.

    Raises:
        LibraryError, ParameterError, FilterError, CatenaError: as of `graph_step`.
    """
    how = _walk(how)
    held = yield from _held(fields=where is not None)
    yield from _check_walk(how, held)
    where = checked(where, held.fields)
    return (yield from widen(question, ranking, how, k=10 if k is None else k, where=where))


def check_graph_step() -> Step[None]:
    """Refuse a graph that is not there: before a retriever of one's own is asked for what is to be widened.

    Raises:
        LibraryError: there is none.
    """
    (checked,) = yield [CheckGraph()]
    if isinstance(checked, Failed) and isinstance(checked.error, LibraryError | MissingServiceError):
        raise checked.error  # any other failure is the walk's to meet, which may be tolerated


def figures_step(
    question: str, *, k: int | None = None, where: Where | None = None, fusion: Fusion | Tuned | None = None
) -> Step[Ranking]:
    """Return the k best figures for a question, by their titles, the text around them and their captions.

    Args:
        question: what the figure should show.
        k: length of the ranking, >= 0; 10 by default.
        where: a further filter.
        fusion: as for `search_step`.

    Raises:
        ParameterError, FilterError, RouteError: as of `search_step`.
    """
    search, _ = yield from _resolved({"where": where, "fusion": fusion}, DEFAULT_ROUTES)
    return (
        yield from search_figures(question, k=10 if k is None else k, where=search["where"], fusion=search["fusion"])
    )


def _resolved(options: SegmentSearchOptions | None, usual: Sequence[str]) -> Step[tuple[dict[str, Any], Holdings]]:
    """Return what `retrieve` takes for these options, each None replaced by its default, and what the store holds.

    Args:
        options: as given.
        usual: the routes that are asked where none is named; "passages" only of a store that has some.
    """
    given: dict[str, Any] = {name: value for name, value in (options or {}).items() if value is not None}
    check_given({name: value for name, value in given.items() if name != "where"}, SearchOptions)  # see `checked`
    where, fusion = given.get("where"), given.get("fusion")
    asked = given.get("routes", usual)
    held = yield from _held(views=(PASSAGE,) if _PASSAGES in asked else (), fields=where is not None)
    has_passages = PASSAGE in held.views
    given["where"] = checked(where, held.fields)
    given.setdefault("routes", usual if has_passages else DEFAULT_ROUTES)
    if texts := given.pop("embedded_texts", None):
        given["routes"] = _by_texts(given["routes"], texts)
    if isinstance(fusion, Tuned):
        fusion = fusion.fusion_for(held.embedder)
    given["fusion"] = usual_formula(given["routes"], has_passages=has_passages) if fusion is None else fusion
    return given, held


def _by_texts(routes: Sequence[str] | Mapping[str, Route], texts: Sequence[str]) -> Mapping[str, Route]:
    """Return the routes with the vectors of texts in the dense one."""
    instead, named = dense_by_texts(texts), routes_named(routes)
    return {name: instead if route is dense else route for name, route in named.items()}


def _held(*, views: tuple[str, ...] | None = (), fields: bool = False) -> Step[Holdings]:
    """Ask what the library holds: the first request of every question."""
    held: Holdings | Failed
    (held,) = yield [Inspect(views=views, fields=fields)]
    if isinstance(held, Failed):
        # who answers searches without a store need not know; of a server out of reach its own routes tell
        if isinstance(held.error, MissingServiceError | ServerError):
            return Holdings()
        raise held.error
    return held


def _walk(how: GraphSearch | None) -> GraphSearch:
    if not isinstance(how, GraphSearch | None):
        raise ParameterError("how", how, "GraphSearch(walk=..., scorer=...) or None")
    return how or GraphSearch()


def _check_walk(how: GraphSearch, held: Holdings) -> Step[None]:
    """Refuse a graph that is not there, and a scorer of another model: mistakes, and no failures to go on without."""
    if isinstance(how.scorer, PaperScorer) and held.embedder:
        how.scorer.for_encoder(held.embedder)
    yield from check_graph_step()


def _document_of(found: Segment | Hit | ValuedSegment) -> str:
    if isinstance(found, Hit):
        return found.chunk.document_id
    return found.document_id if isinstance(found, Segment) else found.segment.document_id

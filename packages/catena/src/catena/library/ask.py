"""Put a question to a library: every question is one step here, and whoever asks it only drives that step.

What depends on the library is decided here and nowhere else: which routes and which formula stand for None, how deep
routes look, whether a filter can find anything, which pages a passage is cited with. `Library`, its async methods,
`ServerLibrary`, the command line, the report and both adapters run these steps, so that the same question with the
same options gives the same hits, in the same order, with the same scores and citations.

None for an option means its default, everywhere. What the library holds is asked of whoever answers the step (see
`catena.effects.Inspect`), so that a step sees one state of it, and blocks no event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeVar

from catena.answering import (
    AnswerOptions,
    Citation,
    SegmentAnswer,
    ValuedSegment,
    VerifiedQuote,
    answer_from,
    looked_up,
)
from catena.effects import CheckGraph, Failed, FetchDocuments, FetchPlaces, Holdings, Inspect, Step, ask, ask_if_known
from catena.enrichment.entities import Detector, QueryEntities, query_entities
from catena.graph import GraphResult, GraphSearch, PaperScorer, search_graph, widen
from catena.model import (
    FILE_IN_CITATION,
    SOURCE,
    TITLE,
    Chunk,
    Degraded,
    Hit,
    PageBox,
    Ranking,
    Segment,
    Unknown,
    Where,
    check_given,
    filters,
    told_apart,
)
from catena.model.errors import FilterError, LibraryError, MissingServiceError, ParameterError, ServerError
from catena.retrieval import Fusion, OnUnknown, ScoreFusion, Tuned, dense, retrieve, search_figures
from catena.retrieval.cells import FoundCell, rank_cells
from catena.retrieval.reading import ReadingOptions, check_budget, read_passages
from catena.retrieval.routes import DEFAULT_ROUTES, OnRouteError, QuestionLimits, Route, dense_by_texts, routes_named
from catena.retrieval.section_search import SECTION_FUSION, SECTION_ROUTES, ViewSearch, search_views
from catena.segments import Extraction, PlaceChunks, SegmentSearch, find_segments
from catena.structure.passages import PASSAGE, slice_of
from catena.text import equal_to

if TYPE_CHECKING:
    from catena.library.pipeline import Preparation

Found = TypeVar("Found", Ranking, GraphResult, Extraction)
Noted = TypeVar("Noted", Ranking, Extraction)

BUDGET_TOKENS = 1_000  # of all that is read
_NOTHING = Holdings()
_CHUNKS_OF_CELLS = 60  # that are looked into for cells
_TOKENS_A_HIT = 100  # of a budget: fewer than a chunk has, so that there is something to choose from
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

    `k` is how many hits there are at most, 10 where it is not given; 0 returns none. `graph`: whether a walk over the
    library's graph adds what the first ranking is not sure of, see `catena.graph.walk`; None: where the library is in
    a folder and has a graph, and no routes are named.
    """

    k: int | None
    depth: int | None
    graph: bool | None


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
    how, held = yield from _resolved(options, SECTION_ROUTES, asks_graph=True)
    over_graph = how.pop("graph", None)
    if over_graph:
        yield from check_graph_step()
    elif over_graph is None and held.graph:
        (checked,) = yield [CheckGraph()]
        over_graph = not isinstance(checked, Failed)
    if not detectors:
        return (yield from _ranked(question, how, held, over_graph=bool(over_graph)))
    found: QueryEntities = yield from query_entities(
        question, detectors, on_error=how.get("on_route_error", "degrade")
    )
    how["entities"] = (*how.get("entities", ()), *found.names)
    ranking = yield from _ranked(question, how, held, over_graph=bool(over_graph))
    return replace(ranking, degraded=(*found.degraded, *ranking.degraded))


def cells_step(
    question: str, options: SearchOptions | None = None, *, detectors: Sequence[Detector] = ()
) -> Step[tuple[FoundCell, ...]]:
    """Return the k cells of tables that fit a question best, see `rank_cells`.

    They are of the best 60 tables, and of the best 60 chunks that are no tables: sections have tables inside.

    Raises:
        ParameterError, FilterError, RouteError: as of `search_step`.
    """
    k, where = (options or {}).get("k"), (options or {}).get("where")
    asked: SearchOptions = {**(options or {}), "k": _CHUNKS_OF_CELLS}
    ranking = yield from search_step(question, asked, detectors=detectors)
    asked["where"] = {"kind": "table"} if where is None else {"$and": [where, {"kind": "table"}]}
    tables = yield from search_step(question, asked, detectors=detectors)
    others = [hit for hit in ranking.hits if hit.chunk.kind != "table"]
    found = rank_cells(question, replace(tables, hits=(*tables.hits, *others)), k=10 if k is None else k)
    spans = tuple((each.hit.chunk.document_id, each.cell.start, each.cell.end) for each in found)
    places = (yield from ask_if_known(FetchPlaces(spans=spans))) if spans else None
    return tuple(replace(each, place=at) for each, at in zip(found, places, strict=True)) if places else found


def _ranked(question: str, how: dict[str, Any], held: Holdings, *, over_graph: bool) -> Step[Ranking]:
    """Rank by the routes, and by a walk from there; where this changes no place, the routes' scores stay."""
    if not over_graph:
        return (yield from _noted((yield from retrieve(question, **how)), how["where"], held))
    k, tolerated = how.pop("k", 10), how.get("on_route_error", "degrade")
    walk = GraphSearch(routes=how.pop("routes"), fusion=how.pop("fusion"), on_graph_error=tolerated)
    walk = replace(walk, depth=max(1, min(walk.depth, how.get("depth", walk.depth))))  # a route gives no more hits
    found = yield from search_graph(question, walk, k=k, **how)
    first = replace(found.first.top(k), degraded=found.ranking.degraded)
    same = [hit.chunk.id for hit in first.hits] == [hit.chunk.id for hit in found.ranking.hits]
    return (yield from _noted(first if same else found.ranking, how["where"], held))


def read_step(
    question: str,
    options: SearchOptions | None = None,
    *,
    budget_tokens: int | None = None,
    reading: ReadingOptions | None = None,
    views: ViewSearch | None = None,
    detectors: Sequence[Detector] = (),
    preparation: Preparation | None = None,
) -> Step[Ranking]:
    """Return the best text for a budget of tokens: what says most about a question in the best chunks.

    Sentences are chosen, and those that stand side by side are one passage, so that a larger budget gives longer ones
    and then whole chunks. They are exact slices with pages and lines of their own, and obey `where` with these, too.

    Args:
        question: as typed.
        options: of the search for chunks, see `SearchOptions`; `k` is how many are looked into: by default 30, or one
            for each 100 tokens of a larger budget.
        budget_tokens: of all passages together, 1,000 by default.
        reading: how sentences are ranked, and how many chunks are looked into where `k` does not say it.
        views: find the chunks under several views, in place of routes and names.
        detectors: as of `search_step`.
        preparation: of the library.

    Raises:
        ParameterError, FilterError, RouteError: as of `search_step`.
    """
    if not isinstance(reading, ReadingOptions | None):
        raise ParameterError("reading", reading, "ReadingOptions(...) or None")
    budget = BUDGET_TOKENS if budget_tokens is None else budget_tokens
    check_budget(budget)
    asked: SearchOptions = {**(options or {})}
    if asked.get("graph") is None:  # the places that a walk gives say less of a passage than scores do
        asked["graph"] = False
    usual = ReadingOptions()
    reading = reading or replace(usual, hits=max(usual.hits, budget // _TOKENS_A_HIT))
    k, where = asked.get("k"), asked.get("where")
    asked["k"] = reading.hits if k is None else k
    if views is None:
        ranking = yield from search_step(question, asked, detectors=detectors)
    else:
        ranking = yield from views_step(question, views, k=asked["k"], where=where, preparation=preparation)
    if where is not None:
        where, _ = yield from _held(where)
    if k is not None:
        reading = replace(reading, hits=max(1, len(ranking.hits)))
    return (yield from read_passages(question, ranking, budget_tokens=budget, options=reading, where=where))


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
    where, held = yield from _held(where, views=None)
    made = () if preparation is None else tuple(maker.kind for maker in preparation.views)
    missing = [kind for kind in how.views if kind not in (*held.views, *made)]
    if missing and held.views:
        kinds = ", ".join(held.views)
        what = f"kinds of view that this library holds ({kinds}); Preparation(views=...) makes others"
        raise ParameterError("views", missing, what)
    k = 3 if k is None else k
    return (yield from _noted((yield from search_views(question, how, k=k, where=where)), where, held))


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
        return _told_apart((yield from find_segments(question, how, ranked=ranked, place=place)))
    search, held = yield from _resolved(options, DEFAULT_ROUTES)
    return (yield from _noted((yield from find_segments(question, how, **search)), search["where"], held))


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
    documents = yield from ask_if_known(FetchDocuments(ids=ids))
    whole = [document for document in documents or () if document is not None]
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
    search, held = yield from _resolved(options, SECTION_ROUTES)
    yield from _check_walk(how, held)
    how = replace(how, routes=search["routes"], fusion=search["fusion"])
    where = search["where"]
    found = yield from search_graph(question, how, k=10 if k is None else k, where=where)
    found = _told_apart(found, held)
    return replace(found, ranking=(yield from _noted(found.ranking, where, held)))


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
    where, held = yield from _held(where)
    yield from _check_walk(how, held)
    return _told_apart((yield from widen(question, ranking, how, k=10 if k is None else k, where=where)), held)


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
    search, held = yield from _resolved({"where": where, "fusion": fusion}, DEFAULT_ROUTES)
    where = search["where"]
    found = yield from search_figures(question, k=10 if k is None else k, where=where, fusion=search["fusion"])
    return (yield from _noted(found, where, held))


Cited: TypeAlias = Hit | Chunk | Segment | FoundCell | VerifiedQuote | Citation
"""Something found, or a quote of an answer."""


def boxes_step(found: Cited, quote: str = "") -> Step[tuple[PageBox, ...]]:
    """Return where something found is printed: one box for each line; none where that is not known.

    Args:
        found: a hit, a chunk, a segment, a cell, a verified quote, or the citation of one.
        quote: words of it; all of it by default.

    Raises:
        ParameterError: it has no such words, word for word; the message names it, and what stands there.
    """
    if isinstance(found, FoundCell):
        chunk, cell = found.hit.chunk, found.cell
        found = slice_of(chunk, cell.start - chunk.start, cell.end - chunk.start)
    piece = found.chunk if isinstance(found, Hit) else found.quote if isinstance(found, Citation) else found
    start, end = piece.start or 0, piece.end or 0
    if quote:
        if isinstance(piece, VerifiedQuote):
            of, text, parts = piece.document_id or "", piece.printed, piece.place.parts
            piece = Chunk(id="", document_id=of, position=0, start=start, end=end, text=text, **parts)
        seen = looked_up(quote, piece)
        start, end = seen.start or 0, seen.end or 0
    (places,) = yield from ask([FetchPlaces(spans=((piece.document_id or "", start, end),))])
    boxes: tuple[PageBox, ...] = places[0].boxes
    return boxes


Piece: TypeAlias = Chunk | Segment
_HELD = ("hits", "ranking", "chains", "hops", "segments", "segment", "chunk")


def boxed(asked: Step[Found]) -> Step[Found]:
    """Return what was found with the boxes of its chunks or segments, as far as they do not say them already."""
    found: Found = yield from asked
    pieces: dict[tuple[str, int, int], Piece] = {}
    for piece in _pieces(found):
        pieces.setdefault(_span(piece), piece)
    spans = tuple(span for span, piece in pieces.items() if not piece.boxes)
    places = (yield from ask_if_known(FetchPlaces(spans=spans))) if spans else None
    known = {span: place.boxes for span, place in zip(spans, places or (), strict=places is not None)}
    boxes: Found = _changed(found, lambda piece: replace(piece, boxes=piece.boxes or known.get(_span(piece), ())))
    return boxes


def _changed(found: Any, change: Callable[[Piece], Piece]) -> Any:
    """Return a result of a search with each of its chunks or segments changed."""
    if isinstance(found, Chunk | Segment):
        return change(found)
    if isinstance(found, tuple):
        return tuple(_changed(each, change) for each in found)
    return replace(found, **{name: _changed(getattr(found, name), change) for name in _on_the_way(found.__class__)})


def _pieces(found: Any) -> Iterator[Piece]:
    """Yield the chunks and segments of a result of a search."""
    if isinstance(found, Chunk | Segment):
        yield found
    else:
        parts = found if isinstance(found, tuple) else (getattr(found, name) for name in _on_the_way(found.__class__))
        yield from chain.from_iterable(map(_pieces, parts))


@cache
def _on_the_way(kind: type) -> tuple[str, ...]:
    """Return the fields of a kind of result that lead to its chunks or segments."""
    return tuple(each.name for each in fields(kind) if each.name in _HELD)


def _span(piece: Piece) -> tuple[str, int, int]:
    return piece.document_id, piece.start, piece.end


def _resolved(
    options: SegmentSearchOptions | None, usual: Sequence[str], *, asks_graph: bool = False
) -> Step[tuple[dict[str, Any], Holdings]]:
    """Return what `retrieve` takes for these options, each None replaced by its default, and what the store holds.

    Args:
        options: as given.
        usual: the routes that are asked where none is named; "passages" only of a store that has some.
        asks_graph: whether it matters if the library has a graph; not where routes are named, or it was said.
    """
    given: dict[str, Any] = {name: value for name, value in (options or {}).items() if value is not None}
    check_given({name: value for name, value in given.items() if name != "where"}, SearchOptions)  # see `checked`
    where: Where | None = given.get("where")
    fusion = given.get("fusion")
    asked = given.get("routes", usual)
    graph = asks_graph and not given.keys() & {"routes", "graph"}
    given["where"], held = yield from _held(where, views=(PASSAGE,) if _PASSAGES in asked else (), graph=graph)
    has_passages = PASSAGE in held.views
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


def _held(
    where: Where | None = None, *, views: tuple[str, ...] | None = (), graph: bool = False
) -> Step[tuple[Where | None, Holdings]]:
    """Ask what the library holds, the first request of every question; return a filter in its words, and that."""
    if where is not None:
        filters.check(where)
    names = () if where is None else (filters.ALIASES.get(name, name) for name in filters.compared_in(where))
    compared = tuple(name for name in names if name not in filters.EXACT)
    held: Holdings | Failed
    (held,) = yield [Inspect(views=views, fields=where is not None, graph=graph, values=compared)]
    if isinstance(held, Failed):
        # who answers searches without a store need not know; of a server out of reach its own routes tell
        if not isinstance(held.error, MissingServiceError | ServerError):
            raise held.error
        held = Holdings()
    where = filters.checked(where, held.fields)
    return where and filters.spelled(where, held.values, equal_to), held


def _told_apart(found: Found, held: Holdings = _NOTHING) -> Found:
    """Return what was found with what tells documents of one title apart: of the store, or else of what was found."""
    pieces = {piece.document_id: piece for piece in _pieces(found)}
    named = {name: (str(of.metadata.get(TITLE, "")), str(of.metadata.get(SOURCE, ""))) for name, of in pieces.items()}
    files = told_apart(named) | {name: held.told_apart[name] for name in pieces if name in held.told_apart}

    def told(piece: Piece) -> Piece:
        file = files.get(piece.document_id)
        return replace(piece, metadata={**piece.metadata, FILE_IN_CITATION: file}) if file else piece

    return _changed(found, told) if files else found


def _noted(found: Noted, where: Where | None, held: Holdings) -> Step[Noted]:
    """Return what was found, documents told apart; where that is nothing, with what in the filter stands nowhere."""
    found = _told_apart(found, held)
    if where is None or (found.hits if isinstance(found, Ranking) else found.segments):
        return found
    (there,) = yield [Inspect(values=filters.compared_in(where, filters.COMPARING))]
    why = "" if isinstance(there, Failed) else filters.nowhere_in_filter(where, there.values)
    return replace(found, degraded=(*found.degraded, Degraded("filter", why))) if why else found


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

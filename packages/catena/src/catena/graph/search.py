"""The standard way from a question to evidence chains: a first ranking, then a walk over the graph from there.

Each part works without the others; this module composes them as most readers want; it is meant to be read and copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, TypeVar

from annotated_types import Ge

from catena.effects import Embed, Search, Step, ask
from catena.graph.feature_scorer import FeatureScorer
from catena.graph.keyword_seeds import question_keywords
from catena.graph.scoring import Question, Scorer, pose
from catena.graph.walk_options import WalkOptions
from catena.graph.walking import Walked, walk
from catena.model import Chain, Chunk, Degraded, Ranking
from catena.model.errors import CatenaError, FilterError, MissingServiceError, ParameterError
from catena.model.filters import check, compiled, fields_of
from catena.model.options import check_options
from catena.retrieval.multi_route import DEFAULT_ROUTES, Fusion, retrieve
from catena.retrieval.routes import ROUTES, Route, stored
from catena.retrieval.tuned import Tuned

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from catena.model import Where

OnGraphError: TypeAlias = Literal["raise", "degrade"]
KeywordsBy: TypeAlias = Literal["offline", "llm"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSearch:
    """How a question becomes evidence chains.

    Attributes:
        walk: from where, over which edges, how far.
        scorer: of each hop; the shipped one, `FeatureScorer.shipped()`, where None.
        routes: of the first ranking, as `retrieve` takes them; the usual ones where None.
        fusion: of these, or weights that were tuned on questions; the usual formula where None.
        depth: chunks of the first ranking, at least; more where `k` asks for more. The walk looks at the first
            `walk.pool` of them, and a scorer is told the ranks of all.
        keywords_by: who finds the question's keywords, for seeds that cover them: "offline" by rules, or the run's
            "llm".
        on_graph_error: "degrade" returns the first ranking and says so where the question's vector, the graph or a
            model that the scorer asks fails; "raise" raises.
    """

    walk: WalkOptions = field(default_factory=WalkOptions)
    scorer: Scorer | None = None
    routes: Sequence[str] | Mapping[str, Route] | None = None
    fusion: Fusion | Tuned | None = None
    depth: Annotated[int, Ge(1)] = 50
    keywords_by: KeywordsBy = "offline"
    on_graph_error: OnGraphError = "degrade"

    def __post_init__(self) -> None:
        check_options(self)
        if isinstance(self.scorer, type):
            allowed = "FeatureScorer.shipped(), UntrainedScorer(), one of your own, or None"
            raise ParameterError("scorer", self.scorer, allowed)


@dataclass(frozen=True, slots=True)
class GraphResult:
    """What a search over the graph found.

    Attributes:
        ranking: as of `catena.graph.walking.Walked`; the first ranking, in its own scale, where the walk failed.
        chains: none where the walk failed.
        first: the ranking before the walk, whole.
        keywords: of the question; none where the walk did not look for them.
    """

    ranking: Ranking
    chains: tuple[Chain, ...]
    first: Ranking
    keywords: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What one search is asked."""

    query: str
    how: GraphSearch
    k: int
    where: Where | None

    def __post_init__(self) -> None:
        if not isinstance(self.query, str):
            raise ParameterError("query", self.query, "a string")
        if not isinstance(self.how, GraphSearch):
            raise ParameterError("how", self.how, "GraphSearch(walk=..., scorer=...) or None")
        if not isinstance(self.k, int) or isinstance(self.k, bool) or self.k < 0:
            raise ParameterError("k", self.k, "an integer >= 0")
        if self.where is not None:
            check(self.where)


def search_graph(
    query: str, how: GraphSearch | None = None, *, k: int = 10, where: Where | None = None
) -> Step[GraphResult]:
    """Return the chunks that answer a question together, and the chains by which they were found.

    ```text
    question -> vector, first ranking -> seeds -> hops over the graph -> chains -> ranking
    ```

    Args:
        query: as typed.
        how: routes, walk and scorer.
        k: length of the ranking, >= 0.
        where: a filter that every route obeys, and the graph: what it brings is returned only where the chunk's
            metadata fulfil it.

    Raises:
        ParameterError, FilterError, RouteError: as of `retrieve`.
        MissingServiceError: there is no graph, or it cannot say what the walk must know.
        CatenaError: the walk failed, and that is not tolerated.
    """
    how = how or GraphSearch()
    asked = _Asked(query=query, how=how, k=k, where=where)
    vector = yield from _attempt(_vector(query), how.on_graph_error)
    routes = DEFAULT_ROUTES if how.routes is None else how.routes
    routes = routes if isinstance(vector, Degraded) else _knowing(query, vector, routes)
    depth = max(k, how.depth) if k else 0
    first = yield from retrieve(query, k=depth, routes=routes, fusion=how.fusion, where=where)  # type: ignore[arg-type]  # it refuses tuned weights itself
    return (yield from _widened(asked, vector, first))


def widen(
    query: str, ranking: Ranking, how: GraphSearch | None = None, *, k: int = 10, where: Where | None = None
) -> Step[GraphResult]:
    """Return a ranking of any retriever, widened by what a walk over the graph finds from there.

    It needs an embedder and a graph, and no store: `routes`, `fusion` and `depth` of `how` are those of the first
    ranking, which is given here.

    Args:
        query: as typed.
        ranking: of chunks by the ids of the graph, in any scale; those that the graph does not have keep their order.
        how: walk and scorer.
        k: length of the ranking, >= 0.
        where: a filter that the graph obeys; the given ranking is believed to obey it.

    Raises:
        ParameterError, FilterError: an argument is out of range.
        MissingServiceError: there is no graph, or it cannot say what the walk must know.
        CatenaError: the walk failed, and that is not tolerated.
    """
    asked = _Asked(query=query, how=how or GraphSearch(), k=k, where=where)
    if not isinstance(ranking, Ranking):
        raise ParameterError("ranking", type(ranking).__name__, "a Ranking of chunks of the graph")
    vector = yield from _attempt(_vector(query), asked.how.on_graph_error)
    return (yield from _widened(asked, vector, ranking))


def _widened(asked: _Asked, vector: NDArray[np.float32] | Degraded, first: Ranking) -> Step[GraphResult]:
    k = asked.k
    nothing_to_find = not asked.query.strip() or k == 0 or (first.unknown and not first.hits)
    if isinstance(vector, Degraded) or nothing_to_find:
        failed = (vector,) if isinstance(vector, Degraded) else ()
        return GraphResult(_degraded(first.top(k), failed), (), first)
    walked = yield from _attempt(_walked(asked, vector, first), asked.how.on_graph_error)
    if isinstance(walked, Degraded):
        return GraphResult(_degraded(first.top(k), (walked,)), (), first)
    question, found = walked
    return GraphResult(found.ranking, found.chains, first, question.keywords)


def _walked(asked: _Asked, vector: NDArray[np.float32], first: Ranking) -> Step[tuple[Question, Walked]]:
    how = asked.how
    wanted = how.walk.needs_keywords
    keywords = (yield from question_keywords(asked.query, by=how.keywords_by)) if wanted else ()
    question = yield from pose(asked.query, vector, keywords=keywords)
    scorer = how.scorer or FeatureScorer.shipped()
    return question, (yield from walk(question, first, how.walk, scorer, k=asked.k, allows=_allowing(asked.where)))


def _vector(query: str) -> Step[NDArray[np.float32]]:
    (vectors,) = yield from ask([Embed(texts=(query,), kind="query", purpose="query embedding")])
    vector: NDArray[np.float32] = vectors[0]
    return vector


def _attempt(step: Step[T], on_error: OnGraphError) -> Step[T | Degraded]:
    """Return the result of a step, or why it failed where that is tolerated; mistakes of the caller never are."""
    try:
        return (yield from step)
    except (ParameterError, FilterError, MissingServiceError):
        raise
    except CatenaError as error:
        if on_error == "raise":
            raise
        return Degraded("graph", str(error) or type(error).__name__)


def _degraded(ranking: Ranking, failed: tuple[Degraded, ...]) -> Ranking:
    return replace(ranking, degraded=(*ranking.degraded, *failed))


def _knowing(
    query: str, vector: NDArray[np.float32], routes: Sequence[str] | Mapping[str, Route]
) -> Sequence[str] | Mapping[str, Route]:
    """Return the routes with a dense one that does not embed the question again."""
    if isinstance(routes, (str, Mapping)) or "dense" not in routes:
        return routes

    def dense(asked: str) -> Step[Search]:
        if asked != query:  # what a question asks besides the names in it
            return (yield from ROUTES["dense"](asked))
        return Search(route="dense", query=asked, vector=vector, k=0)

    return {name: dense if name == "dense" else ROUTES.get(name) or stored(name) for name in routes}


def _allowing(where: Where | None) -> Callable[[Chunk], bool] | None:
    if where is None:
        return None
    fulfils = compiled(where)
    return lambda chunk: fulfils(fields_of(chunk))

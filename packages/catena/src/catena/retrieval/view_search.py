"""Search several views of the same chunks and rank the chunks once, by the paper's rule or another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, zip_longest
from math import ceil, inf
from typing import Annotated, ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

from annotated_types import Ge

from catena.effects import Failed, Step, together
from catena.model import Chunk, Degraded, Hit, Provenance, Ranking, Scale, Where
from catena.model.errors import FilterError, ParameterError, RouteError, ViewError
from catena.model.options import Checked, check_given, check_options
from catena.retrieval.fusion import Fusion, Normalizer, RankFusion, min_max, reciprocal_rank_fusion, weighted_sum
from catena.retrieval.multi_route import deep_enough, retrieve
from catena.retrieval.routes import ROUTES, Route, asked_once, dense, of_view, stored

Chosen: TypeAlias = Sequence[tuple[str, float]]
"""(chunk id, score in the rule's scale), best first, each chunk once."""

PRINTED_QUOTAS: Mapping[float, tuple[int, ...]] = {1.5: (1,), 3: (1, 2), 5: (3,), 10: (6, 7)}
"""k -> the numbers of chunks from each view that the paper names. Source: MC-indexing, appendix E.1."""


@runtime_checkable
class ViewRule(Protocol):
    """The rule by which the rankings of several views become one; a frozen dataclass of one's own is a rule too."""

    @property
    def scale(self) -> Scale:
        """The unit of the scores that `choose` gives."""
        ...

    def choose(self, rankings: Mapping[str, Ranking], k: float) -> Chosen:
        """Return the chunks to return, out of rankings by kind of view in the order given, each chunk once in each.

        A ranking may be empty, where a view found nothing or failed; all of them, where only k is to be judged.

        Raises:
            ParameterError: the rule has no result for this k, or a score is infinite.
        """
        ...


def quota(k: float) -> tuple[int, ...]:
    """Return how many chunks the paper takes from each of three views in place of k: `k' ~ 2k/3`.

    k = 1.5 gives (1,), 3 gives (2,), 5 gives (3,), 10 gives (6, 7): there a measure is the mean of both. Any other
    k gives `round(2k/3)`, at least 1. For k = 3 the paper says "1 or 2" (`PRINTED_QUOTAS`); 2 is what its formula
    gives. Its reason is that 3k'/2 chunks remain when what several views found is counted once.

    Raises:
        ParameterError: k is not a finite number > 0.

    Source: MC-indexing (Dong et al., 2024), section 3.3 and appendix E.1.
    """
    if isinstance(k, bool) or not isinstance(k, int | float) or not 0 < k < inf:
        raise ParameterError("k", k, "a finite number > 0")
    return (2,) if k == 3 else PRINTED_QUOTAS.get(k) or (max(1, round(2 * k / 3)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperQuota(Checked):
    """The paper's rule: the union of the first k' chunks of each view, without duplicates; its length varies.

    Of n views that give k' chunks or more, at least k' and at most n k' chunks come back: k is what the paper
    *expects* of three views, not what it returns. Where views disagree the union is longer than k, and a figure "at
    k" is flattered by it; `ExactUnion` returns k.

    They come by rank, and of one rank in the order of the views, with the score 1 / place.

    Attributes:
        per_view: k', >= 1; by default that of `quota(k)` which is nearest to 2k/3 (7 for k = 10).

    Source: MC-indexing (Dong et al., 2024), section 3.3.
    """

    per_view: Annotated[int, Ge(1)] | None = None
    scale: ClassVar[Scale] = Scale.RANK

    def choose(self, rankings: Mapping[str, Ranking], k: float) -> Chosen:
        """Return the union; a k of 0 gives nothing."""
        if k == 0:
            return ()
        most = self.per_view or min(quota(k), key=lambda of_view: abs(of_view - 2 * k / 3))
        return placed(by_rank([ranking.top(most) for ranking in rankings.values()]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactUnion:
    """The union that stops when exactly k chunks are there, or when there are no more.

    All first chunks in the order of the views, then all second ones, and so on, each chunk once, with the score
    1 / place. So what is measured at k is measured with k chunks.
    """

    scale: ClassVar[Scale] = Scale.RANK

    def choose(self, rankings: Mapping[str, Ranking], k: float) -> Chosen:
        """Return the first k of the union."""
        return placed(islice(by_rank(list(rankings.values())), whole(k)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRankFusion:
    """Reciprocal-rank fusion over views: `score(c) = sum_v weight_v / (k + rank_v(c))`, ranks from 1; the k best.

    Attributes:
        weights: by kind of view, >= 0; 1 for one that is not named. A view of weight 0 has no say.
        k: damping, in ranks; the larger, the less the first ranks stand out.

    Source: Cormack, Clarke and Buettcher, SIGIR 2009, doi:10.1145/1571941.1572114.
    """

    weights: Mapping[str, float] | None = None
    k: float = 60.0
    scale: ClassVar[Scale] = Scale.RANK

    def __post_init__(self) -> None:
        check_options(self)
        RankFusion(k=self.k, weights=self.weights)

    def choose(self, rankings: Mapping[str, Ranking], k: float) -> Chosen:
        """Return the k best of the sum."""
        heard = _heard(rankings, self.weights)
        return _scored(reciprocal_rank_fusion(heard, weights=self.weights, k=self.k, top=whole(k)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewScoreFusion:
    """Fusion of scores over views: `score(c) = sum_v weight_v * normalise(score_v(c))`; the k best.

    Scores of one view are normalised by the bounds of that view's ranking before any are added: the same text in
    keywords and in prose has scores that do not compare. A view that did not find a chunk adds nothing to it.

    Attributes:
        weights: by kind of view, >= 0; 1 for one that is not named. A view of weight 0 has no say.
        normalise: from a raw score and the view's bounds to a number that may be added. `min_max` takes scores of any
            unit and sign, and gives the last of a ranking as much as one that was not found; `by_maximum` suits
            scores >= 0 that mean something at 0, as BM25's.
    """

    weights: Mapping[str, float] | None = None
    normalise: Normalizer = min_max
    scale: ClassVar[Scale] = Scale.NORMALIZED

    def __post_init__(self) -> None:
        check_options(self)
        RankFusion(weights=self.weights)  # whose weights are the same

    def choose(self, rankings: Mapping[str, Ranking], k: float) -> Chosen:
        """Return the k best of the sum."""
        heard, weights = _heard(rankings, self.weights), self.weights or {}
        parts = {kind: (weights.get(kind, 1.0), self.normalise) for kind in heard}
        return _scored(weighted_sum(heard, parts, k=whole(k)))


def whole(k: float) -> int:
    """Return k as a number of chunks.

    Raises:
        ParameterError: k is not a whole number >= 0; only the paper's rule is defined at 1.5.
    """
    _check_k(k)
    if k != int(k):
        raise ParameterError("k", k, "a whole number >= 0; only PaperQuota takes others")
    return int(k)


def by_rank(rankings: Sequence[Ranking]) -> Iterator[str]:
    """Yield each chunk once: all of rank 1 in the order of the rankings, then all of rank 2, and so on."""
    levels = zip_longest(*(ranking.hits for ranking in rankings))
    return iter(dict.fromkeys(hit.chunk.id for level in levels for hit in level if hit is not None))


def placed(ids: Iterable[str]) -> Chosen:
    """Return the chunks with the score 1 / place, places from 1."""
    return tuple((chunk_id, 1.0 / place) for place, chunk_id in enumerate(ids, start=1))


def _scored(ranking: Ranking) -> Chosen:
    return tuple((hit.chunk.id, hit.score) for hit in ranking.hits)


def _heard(rankings: Mapping[str, Ranking], weights: Mapping[str, float] | None) -> Mapping[str, Ranking]:
    """Return the rankings of the views that have a weight above 0."""
    weights = weights or {}
    if unknown := sorted(set(weights) - set(rankings)):
        raise ParameterError("weights of views", unknown, f"among the views asked: {', '.join(rankings)}")
    heard = {kind: ranking for kind, ranking in rankings.items() if weights.get(kind, 1.0) > 0}
    if not heard:
        raise ParameterError("weights", dict(weights), "above 0 for at least one view")
    return heard


PAPER_VIEWS = ("raw", "keywords", "summary")
PAPER_RULE = PaperQuota()

SearchView: TypeAlias = Callable[[str], Route | Sequence[str] | Mapping[str, Route]]
"""From a kind of view to how it is searched: one route, names of routes of the store, or name -> route."""

OnViewError: TypeAlias = Literal["raise", "degrade"]


def multi_view(rankings: Mapping[str, Ranking], rule: ViewRule = PAPER_RULE, k: float = 3) -> Ranking:
    """Return one ranking of chunks out of one ranking per view.

    Args:
        rankings: kind of view -> chunks, best first. The order of the views settles what is equal for rules that take
            turns, and nothing else. A chunk that is twice in one of them counts at its first place.
        rule: how they become one.
        k: how many chunks, >= 0; the paper's rule takes 1.5, and returns as many as its views differ.

    Returns:
        Each chunk once, best first, in the scale of the rule. The provenance of a hit names every view that ranked
        it, also below what the rule took from it: its rank there (from 1) and its raw score there, best rank first
        (see `found_by`). Where several routes had been fused in one view, theirs follow. What degraded in a view
        is told.

    Raises:
        ParameterError: there is no ranking, k is out of range or not whole, or weights name no such view.
    """
    _check(rankings, rule, k)
    distinct = {kind: _distinct(ranking) for kind, ranking in rankings.items()}
    ways: dict[str, list[tuple[Provenance, ...]]] = {}
    chunks: dict[str, Chunk] = {}
    for kind in sorted(distinct):
        for rank, hit in enumerate(distinct[kind].hits, start=1):
            chunks.setdefault(hit.chunk.id, hit.chunk)
            ways.setdefault(hit.chunk.id, []).append(_ways(kind, rank, hit))
    for of_chunk in ways.values():
        of_chunk.sort(key=lambda of_view: (of_view[0].rank or 0, of_view[0].view))
    hits = (
        Hit(chunks[chunk_id], score, tuple(way for of_view in ways[chunk_id] for way in of_view))
        for chunk_id, score in rule.choose(distinct, k)
    )
    degraded = dict.fromkeys(part for kind in sorted(distinct) for part in distinct[kind].degraded)
    unknown = dict.fromkeys(name for kind in sorted(distinct) for name in distinct[kind].unknown)
    return Ranking(tuple(hits), rule.scale, tuple(degraded), tuple(unknown))


def found_by(hit: Hit) -> dict[str, int | None]:
    """Return kind of view -> rank of the hit in that view's ranking (from 1), the view that ranked it best first."""
    found: dict[str, int | None] = {}
    for way in hit.provenance:
        found.setdefault(way.view, way.rank)
    return found


def retrieve_views(
    query: str,
    *,
    views: Sequence[str] = PAPER_VIEWS,
    k: float = 3,
    rule: ViewRule = PAPER_RULE,
    search: SearchView | None = None,
    fusion: Fusion | None = None,
    depth: int | None = None,
    where: Where | None = None,
    on_view_error: OnViewError = "degrade",
) -> Step[Ranking]:
    """Search each view side by side and return one ranking of chunks; see `multi_view`.

    A view is searched by routes of the store, or by any service that answers `Search` requests. Several routes of
    one view (`search=lambda kind: ("dense", "lexical")`) are fused first, then the views by the rule. A route is a
    step that returns a `Search`, not a ranking: where your own retrievers return rankings, use `multi_view` instead,
    `multi_view({kind: mine(query, kind) for kind in views}, rule, k)`.

    Args:
        query: what the user asks, as typed.
        views: kinds of view, in the order in which they take turns; a kind named twice is searched once.
        k: how many chunks, >= 0; see `multi_view`.
        rule: how the views become one; the paper's by default.
        search: kind of view -> its route or routes; by default the store's dense vectors of that kind. A route that
            names no view is asked for this one.
        fusion: of several routes of one view; `ScoreFusion()` by default, which knows dense, lexical and keyword.
        depth: hits per view, >= k; by default max(3 k, 30). Rules that fuse see no deeper, and attribution neither.
        where: a filter that every view obeys.
        on_view_error: "degrade" ranks by the other views and says so in `Ranking.degraded`; "raise" raises.

    Returns:
        At most k chunks (the paper's rule: its union), in the scale of the rule.

    Raises:
        ParameterError: an argument is of another type or out of range.
        FilterError: the filter is malformed, or a route cannot obey it, also where `on_view_error` is "degrade".
        ViewError: a view failed and `on_view_error` is "raise", or every view failed.
    """
    kinds = _kinds(views)
    _check_k(k)
    _check_rule(rule)
    check_given({"on_view_error": on_view_error}, retrieve_views)
    if k == 0 or (isinstance(query, str) and not query.strip()):
        return Ranking((), rule.scale)
    depth = deep_enough(ceil(k)) if depth is None else depth
    if not isinstance(depth, int) or depth < k:
        raise ParameterError("depth", depth, f"an integer >= k ({k})")
    # refuses k or weights before anything is paid
    rule.choose(dict.fromkeys(kinds, Ranking((), Scale.SIMILARITY)), k)
    under = partial(retrieve, query, k=depth, where=where, fusion=fusion, depth=depth, by_name=False)
    steps = [under(routes=_routes(kind, search), on_route_error=on_view_error) for kind in kinds]
    results = yield from asked_once(together(steps))
    rankings = {kind: _told(kind, result, on_view_error) for kind, result in zip(kinds, results, strict=True)}
    if all(isinstance(result, Failed) for result in results):
        why = "; ".join(dict.fromkeys(part.why for ranking in rankings.values() for part in ranking.degraded))
        raise ViewError(", ".join(kinds), why, all_failed=True)
    return multi_view(rankings, rule, k)


def _kinds(views: object) -> tuple[str, ...]:
    is_list = isinstance(views, Sequence) and not isinstance(views, str)
    if not is_list or not views or not all(isinstance(kind, str) and kind for kind in views):  # type: ignore[attr-defined]
        raise ParameterError("views", views, f"a sequence of at least one kind of view, e.g. {PAPER_VIEWS}")
    return tuple(dict.fromkeys(views))  # type: ignore[call-overload]


def _routes(kind: str, search: SearchView | None) -> Mapping[str, Route]:
    """Return name -> route over the views of one kind."""
    found = ("dense",) if search is None else search(kind)
    if isinstance(found, str):
        raise ParameterError(f"routes of the view {kind}", found, "a route, or a sequence of names of routes")
    if callable(found):
        found = {kind: found}
    elif not isinstance(found, Mapping):
        found = {name: ROUTES.get(name) or stored(name) for name in found}
    return {name: of_view(route, kind) for name, route in found.items()}


def _told(kind: str, result: Ranking | Failed, on_view_error: OnViewError) -> Ranking:
    """Return the ranking of a view, with the parts that failed named by it; an empty one for a view that failed."""
    if not isinstance(result, Failed):
        parts = tuple(Degraded(f"view {kind}: {part.what}", part.why) for part in result.degraded)
        return replace(result, degraded=parts)
    error = result.error
    if isinstance(error, (FilterError, ParameterError)):
        raise error
    why = error.what if isinstance(error, RouteError) else str(error) or type(error).__name__
    if on_view_error == "raise":
        raise ViewError(kind, why) from error
    return Ranking((), Scale.SIMILARITY, (Degraded(f"view {kind}", why),))


def _check(rankings: object, rule: object, k: object) -> None:
    if not isinstance(rankings, Mapping) or not rankings:
        raise ParameterError("rankings", rankings, "a mapping from kinds of view to rankings, at least one")
    for kind, ranking in rankings.items():
        if not isinstance(kind, str) or not isinstance(ranking, Ranking):
            raise ParameterError(f"rankings[{kind!r}]", ranking, "a Ranking under the name of a kind of view")
    _check_rule(rule)
    _check_k(k)


def _check_rule(rule: object) -> None:
    if isinstance(rule, type) or not isinstance(rule, ViewRule):
        raise ParameterError("rule", rule, "PaperQuota(), ExactUnion(), another rule, or one of your own")


def _check_k(k: object) -> None:
    if isinstance(k, bool) or not isinstance(k, int | float) or not 0 <= k < inf:
        raise ParameterError("k", k, "a finite number >= 0")


def _distinct(ranking: Ranking) -> Ranking:
    first: dict[str, Hit] = {}
    for hit in ranking.hits:
        first.setdefault(hit.chunk.id, hit)
    return ranking if len(first) == len(ranking.hits) else replace(ranking, hits=tuple(first.values()))


def _ways(kind: str, rank: int, hit: Hit) -> tuple[Provenance, ...]:
    """Return how a view found a chunk: its rank there, and behind it those of the routes that were fused for it."""
    routes = dict.fromkeys(way.route for way in hit.provenance)
    of_view = Provenance(route="+".join(routes) or "unnamed", rank=rank, score=hit.score, view=kind)
    fused = tuple(replace(way, view=kind) for way in hit.provenance) if len(hit.provenance) > 1 else ()
    return (of_view, *fused)


CAPTION_VIEW = "caption"
_ROUTES: Mapping[str, Route] = {"dense": dense, "lexical": stored("lexical", view=CAPTION_VIEW)}
_ONLY_FIGURES: Where = {"kind": "figure"}


def search_figures(
    query: str, *, k: int = 10, where: Where | None = None, fusion: Fusion | None = None
) -> Step[Ranking]:
    """Return the k best figures of the store for a question: chunks of kind "figure" and no others.

    They are compared by their views of kind "caption" (title, text around, words inside, caption), by words and
    by meaning.

    Args:
        query: what the figure should show.
        k: length of the ranking, >= 0.
        where: a further filter.
        fusion: as for `retrieve`.

    Raises:
        ParameterError, FilterError, RouteError: as `retrieve`.

    Source: PDFImageSearcher of HiQA's published code, where only words are compared.
    """
    only = _ONLY_FIGURES if where is None else {"$and": [_ONLY_FIGURES, where]}
    return (yield from retrieve(query, k=k, routes=_ROUTES, where=only, fusion=fusion))

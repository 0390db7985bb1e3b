"""Turn a query, once its arguments are checked, into requests for rankings: by routes, or by the whole formula."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from annotated_types import Ge

from catena.effects import Embed, Failed, Fused, Request, Search, SearchFused, Step, ask, together
from catena.model import Degraded, Where
from catena.model.errors import FilterError, MissingServiceError, ParameterError, RouteError
from catena.model.filters import DEEPEST
from catena.model.options import Checked
from catena.retrieval.fusion import Fusion, RankFusion, ScoreFusion, by_maximum, half_cosine, log_count

OnRouteError: TypeAlias = Literal["raise", "degrade"]

Route: TypeAlias = Callable[[str], Step[Search]]
"""From a query to the request that ranks chunks for it; `k`, filter and candidates are set by the caller."""


def stored(name: str, *, view: str | None = None) -> Route:
    """Return the route that asks the store for its route `name` over the views of kind `view`."""
    return partial(_stored, name, view)


def _stored(name: str, view: str | None, query: str) -> Step[Search]:
    yield from ()  # a step, though it has nothing to ask
    return Search(route=name, query=query, k=0, view=view)


def dense(query: str) -> Step[Search]:
    """Rank by the cosine of the query's vector with the chunks' vectors."""
    (vectors,) = yield from ask([Embed(texts=(query,), kind="query", purpose="query embedding")])
    return Search(route="dense", query=query, vector=vectors[0], k=0)


def dense_by_texts(texts: Sequence[str]) -> Route:
    """Return the dense route with the mean of these texts' vectors, of unit length, in place of the question's.

    Source: HyDE, Gao et al., ACL 2023, arXiv:2212.10496.
    """

    def route(query: str) -> Step[Search]:
        import numpy as np

        (rows,) = yield from ask([Embed(texts=tuple(texts), kind="query", purpose="query embedding")])
        mean = np.asarray(rows, dtype=np.float32).mean(axis=0)
        length = float(np.linalg.norm(mean))
        return Search(route="dense", query=query, vector=mean / length if length else mean, k=0)

    return route


lexical: Route = stored("lexical")
"""Rank by BM25 over the headed views."""

keyword: Route = stored("keyword")
"""Rank by the number of the query's critical terms that a chunk carries."""

passages: Route = stored("lexical", view="passage")
"""Rank long chunks by the BM25 of their best passage."""

DEFAULT_ROUTES = ("lexical", "dense", "keyword")
"""The routes that `retrieve` asks: those of the paper's formula, which a store may compute in one request."""

ROUTES: Mapping[str, Route] = {"dense": dense, "lexical": lexical, "keyword": keyword, "passages": passages}


T = TypeVar("T")


def routes_named(routes: Sequence[str] | Mapping[str, Route]) -> Mapping[str, Route]:
    """Return name -> route, in a fixed order.

    Raises:
        ParameterError: there is none, or one name is given in place of a sequence.
    """
    names = routes if isinstance(routes, Collection) and not isinstance(routes, str) else (None,)
    of_our_own = routes.values() if isinstance(routes, Mapping) else ()
    if not all(isinstance(name, str) for name in names) or not all(map(callable, of_our_own)):
        allowed = "route names, e.g. ('lexical', 'dense'), or routes (functions) by name"
        raise ParameterError("routes", routes, allowed)
    named = routes if isinstance(routes, Mapping) else {name: ROUTES.get(name) or stored(name) for name in routes}
    if not named:
        raise ParameterError("routes", tuple(routes), "at least one route")
    return {name: named[name] for name in sorted(named)}


def of_view(route: Route, kind: str) -> Route:
    """Return the route, asking for the views of this kind where it names none itself."""

    def over_view(query: str) -> Step[Search]:
        request = yield from route(query)
        return request if request.view is not None else replace(request, view=kind)

    return over_view


def asked_once(step: Step[T]) -> Step[T]:
    """Run a step so that equal requests of one batch are asked once: each view's route embeds the same question."""
    replies: Sequence[Any] | None = None
    try:
        while True:
            requests = step.send(replies)  # type: ignore[arg-type]
            firsts = _first_of_equals(requests)
            asked = sorted(set(firsts))
            answers = dict(zip(asked, (yield [requests[place] for place in asked]), strict=True))
            replies = [answers[place] for place in firsts]
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    finally:
        step.close()


def _first_of_equals(requests: Sequence[Request]) -> list[int]:
    """Return for each request the place of the first that equals it; one that holds a vector equals none."""
    known: dict[Request, int] = {}
    firsts = []
    for place, request in enumerate(requests):
        try:
            firsts.append(known.setdefault(request, place))
        except TypeError:  # not hashable
            firsts.append(place)
    return firsts


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The options that all searches of one question share."""

    k: int
    depth: int
    where: Where | None
    fusion: Fusion
    on_route_error: OnRouteError
    documents: tuple[str, ...] | None = None
    besides: tuple[str, ...] = ()


def side_by_side(
    steps: Mapping[str, Step[T]], on_route_error: OnRouteError
) -> Step[tuple[dict[str, T], list[Degraded]]]:
    """Run the routes' steps together; return what they gave, and the failures where these are tolerated."""
    results = yield from together(list(steps.values()))
    found: dict[str, T] = {}
    failures: list[Degraded] = []
    for name, result in zip(steps, results, strict=True):
        if not isinstance(result, Failed):
            found[name] = result
        elif isinstance(result.error, (FilterError, ParameterError)):
            raise result.error
        elif on_route_error == "raise":
            raise RouteError(name, why(result.error)) from result.error
        else:
            failures.append(Degraded(f"route {name}", why(result.error)))
    return found, failures


def in_one_request(
    query: str, table: Mapping[str, Route], scope: Scope
) -> Step[tuple[Mapping[str, Route], Fused | None, list[Degraded]]]:
    """Ask the store for the ranking of the whole formula, where it is the paper's and the store can.

    Args:
        query: as typed.
        table: the routes asked.
        scope: what the ranking obeys.

    Returns:
        The routes, the dense one with the question's vector; the ranking, None where the routes have to be asked one
        by one; and why the store failed, where that is tolerated.
    """
    fusion = scope.fusion
    if not isinstance(fusion, ScoreFusion) or fusion.alpha is None or len(table) < 2:
        return table, None, []
    papers = (fusion.dense, fusion.lexical, fusion.keyword) == (half_cosine, by_maximum, log_count)
    if not papers or not all(name in DEFAULT_ROUTES and route is ROUTES[name] for name, route in table.items()):
        return table, None, []
    vector = None
    if "dense" in table:
        (vectors,) = yield [Embed(texts=(query,), kind="query", purpose="query embedding")]
        table = {**table, "dense": _known_dense(vectors)}
        if isinstance(vectors, Failed):
            return table, None, []
        vector = vectors[0]
    weights = tuple((name, fusion.parts()[name][0]) for name in sorted(table))
    request = SearchFused(
        query=query,
        k=scope.k,
        weights=weights,
        vector=vector,
        where=scope.where,
        documents=scope.documents,
        besides=scope.besides,
    )
    (fused,) = yield [request]
    if isinstance(fused, Fused):
        return table, fused, []
    if fused is None or isinstance(fused.error, MissingServiceError):
        return table, None, []
    if isinstance(fused.error, (FilterError, ParameterError)):
        raise fused.error
    if scope.on_route_error == "raise":
        raise RouteError("formula", why(fused.error)) from fused.error
    return table, None, [Degraded("formula in one request", why(fused.error))]


def _known_dense(vectors: Any) -> Route:
    """Return the dense route with the question's vector, or with what its embedding failed with."""

    def dense(query: str) -> Step[Search]:
        yield from ()  # a step, though it has nothing to ask any more
        if isinstance(vectors, Failed):
            raise vectors.error
        return Search(route="dense", query=query, vector=vectors[0], k=0)

    return dense


def why(error: Exception) -> str:
    """Return an error in words; its type where it has none."""
    return str(error) or type(error).__name__


OnUnknown: TypeAlias = Literal["empty", "keep"]

_SHOWN = 40  # characters of a question in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionLimits(Checked):
    """The limits of one question; more is refused by name before anything is searched.

    Attributes:
        characters: of the question.
        conditions: of the filter: branches, comparisons and the values in their lists, all asked of each chunk.
    """

    characters: Annotated[int, Ge(1)] = 100_000
    conditions: Annotated[int, Ge(1)] = 10_000

    def check(self, question: str, where: Where | None) -> None:
        """Raise where a question or its filter is past the limits.

        Raises:
            ParameterError: the question is longer.
            FilterError: the filter has more conditions, or is nested too deeply.
        """
        if (found := len(question)) > self.characters:
            said = f"{question[:_SHOWN]}… ({found:,} characters)"
            advice = f"a shorter question, or limits=QuestionLimits(characters={found})"
            raise ParameterError("query", said, f"at most {self.characters:,} characters long", advice)
        if where is not None and _has_more(where, self.conditions):
            advice = "several questions, or limits=QuestionLimits(conditions=...) with more"
            raise FilterError("…", f"it has more than {self.conditions:,} conditions. Try: {advice}")


def _has_more(where: object, most: int) -> bool:
    """Return True where a filter, even a malformed one, has more branches, comparisons and listed values than `most`.

    Raises:
        FilterError: it is nested too deeply, as one that holds itself is.
    """
    count = 0
    waiting: list[tuple[Any, int]] = [(where, 0)]
    while waiting and count <= most:
        part, depth = waiting.pop()
        if depth > DEEPEST:
            raise FilterError("…", f"nested more than {DEEPEST} deep")
        for key, value in part.items() if isinstance(part, Mapping) else ():
            if key in ("$and", "$or", "$not"):
                branches = value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else (value,)
                count += len(branches)
                waiting += ((branch, depth + 1) for branch in branches[:most])
            else:
                operands = value.values() if isinstance(value, Mapping) else (value,)
                count += sum(len(one) if isinstance(one, list | tuple | set | frozenset) else 1 for one in operands)
    return count > most


def check_weights(fusion: Fusion, table: Mapping[str, Route]) -> None:
    """Refuse a weight for a route that is neither asked nor known: a mistyped one would change nothing."""
    weighed = fusion.weights or {} if isinstance(fusion, RankFusion) else {}
    for name in weighed:
        if name not in table and name not in ROUTES:
            raise ParameterError("weights", name, f"names of routes, one of {', '.join(map(repr, table))}")

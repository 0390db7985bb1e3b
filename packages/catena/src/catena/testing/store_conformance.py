"""Check the rankings of any `ports.Store` that holds chunks, without a test framework."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from catena.effects import Search, Services, Step, Store, arun, ask, run
from catena.model import CatenaError, Hit, ParameterError, Ranking

MANY = 1_000


def problems_of_store(store: Store, query: str, vector: Any) -> tuple[str, ...]:
    """Return what a store does not keep, each as one sentence; () when all is well.

    For each of its routes: hits are best first, ties by chunk id, no chunk twice; the k best are the first k of more;
    there are none for k = 0; `among` and `documents` leave the order and the scores of what they allow as they are;
    equal requests have equal answers. An unknown route is a `ParameterError`.

    Args:
        store: of at least three chunks.
        query: whose words, terms and vector find some of them.
        vector: of the query, shape (dim,).
    """
    problems: list[str] = []
    for route in store.routes:
        asked = Search(route=route, query=query, k=MANY, vector=vector)
        problems += [f"{route}: {problem}" for problem in _of_route(store, asked)]
    try:
        run(_searched(Search(route="no such route", query=query, k=1, vector=vector)), Services(store=store))
        problems.append("an unknown route is answered")
    except ParameterError:
        pass
    except CatenaError as error:
        problems.append(f"an unknown route is a {type(error).__name__}, not a ParameterError")
    return tuple(problems)


async def problems_of_async_store(store: Store, query: str, vector: Any) -> tuple[str, ...]:
    """Return the routes on which a store answers asyncio otherwise than threads; () when there are none."""
    problems = []
    for route in store.routes:
        asked = Search(route=route, query=query, k=MANY, vector=vector)
        if await arun(_searched(asked), Services(store=store)) != run(_searched(asked), Services(store=store)):
            problems.append(f"{route}: asyncio and threads have different answers")
    return tuple(problems)


def _of_route(store: Store, asked: Search) -> Iterator[str]:
    def found(**changes: Any) -> tuple[Hit, ...]:
        return run(_searched(replace(asked, **changes)), Services(store=store)).hits

    hits = found()
    if not hits:
        yield "nothing is found"
        return
    order = [(-hit.score, hit.chunk.id) for hit in hits]
    some = {hit.chunk.id for hit in hits[::2]}
    one = hits[-1].chunk.document_id
    of_one = [pair for pair, hit in zip(_scores(hits), hits, strict=True) if hit.chunk.document_id == one]
    kept = {
        "hits are not best first, ties by chunk id": order == sorted(order),
        "a chunk is found twice": len({hit.chunk.id for hit in hits}) == len(hits),
        "equal requests have different answers": found() == hits,
        "hits are found for k = 0": not found(k=0),
        "the k best are not the first k of more": all(found(k=k) == hits[:k] for k in (1, 2, len(hits))),
        "`among` changes more than what is ranked": _scores(found(among=tuple(sorted(some))))
        == [pair for pair in _scores(hits) if pair[0] in some],
        "`documents` changes more than what is ranked": not hasattr(store, "names")
        or _scores(found(documents=(one,))) == of_one,
    }
    yield from (problem for problem, holds in kept.items() if not holds)


def _scores(hits: Sequence[Hit]) -> list[tuple[str, float]]:
    return [(hit.chunk.id, hit.score) for hit in hits]


def _searched(request: Search) -> Step[Ranking]:
    (ranking,) = yield from ask([request])
    answer: Ranking = ranking
    return answer

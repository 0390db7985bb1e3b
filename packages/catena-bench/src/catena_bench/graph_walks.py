"""The methods that walk: a first ranking widened by the product's own walk, question by question, on the clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import process_time

from catena.effects import Embedder, Graph, Services
from catena.effects import run as run_step
from catena.graph import GraphResult, GraphSearch, Scorer, WalkOptions, widen
from catena.model import Ranking
from catena_bench.graph_data import Asked
from catena_bench.graph_rankings import HYBRID, Rankings
from catena_bench.graph_setting import Method, Setting

MAKES = Callable[[Setting], Scorer]
"""Makes a scorer for a setting, or raises `CatenaError` where it cannot be had."""


def walking(name: str, walk: WalkOptions, scorer: MAKES) -> Method:
    """Return the method that widens the hybrid ranking by a walk.

    Args:
        name: under which the milliseconds of each question are noted: processor time of this process, the first
            ranking and the question's vector given.
        walk: how.
        scorer: of its hops.
    """

    def ranked(setting: Setting) -> Rankings:
        how = GraphSearch(walk=walk, scorer=scorer(setting), on_graph_error="raise")
        asked = tuple(zip(setting.split.questions, setting.first[HYBRID], strict=True))
        results, setting.times[name] = walked(asked, how, setting.embedder, setting.graph, setting.k)
        return tuple(result.ranking for result in results)

    return ranked


def walked(
    asked: Sequence[tuple[Asked, Ranking]], how: GraphSearch, embedder: Embedder, graph: Graph, k: int
) -> tuple[list[GraphResult], list[float]]:
    """Return what the walk from each question's first ranking found, and the milliseconds that it took."""
    services = Services(embedder=embedder, graph=graph, max_concurrency=1)
    results: list[GraphResult] = []
    times: list[float] = []
    for question, first in asked:
        start = process_time()
        results.append(run_step(widen(question.text, first, how, k=k), services))
        times.append(1_000 * (process_time() - start))
    return results, times

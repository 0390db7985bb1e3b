"""Two studies of the paper's walk, by what its chains find: how long they may be, and how dense the graph is.

A chain's evidence is counted whatever the number of its chunks, and nothing is filled in from the first ranking; so
the chunks that the chains hold are given beside it. At most 250 questions are asked, those of the lowest digests.

Source: IIER (arXiv 2408.02907), Table 3 and Figure 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from catena.evaluation import MeanScore, evaluate_evidence
from catena.graph import KEYWORDS, PAPER, ChunkGraph, GraphOptions, GraphSearch, Scorer, SimilarityScorer
from catena.model import Ranking, digest
from catena_bench.graph_data import Asked
from catena_bench.graph_measures import ROUNDS
from catena_bench.graph_rankings import HYBRID
from catena_bench.graph_setting import LeftOut, Setting
from catena_bench.graph_training import paper_scorer
from catena_bench.graph_walks import MAKES, walked

LENGTHS = (1, 3, 5, 7)  # chunks of a chain at most
NEIGHBOURS = (1, 2, 3, 5, 8, 10, 15, 20)  # the paper's T
KEYWORDS_MORE_THAN = (0, 1, 2, 3, 4)  # the paper's K
STUDIED = 250  # questions
SCORERS: dict[str, MAKES] = {
    "paper_untrained": lambda setting: SimilarityScorer(),
    "paper_trained": paper_scorer,
}
_MATCH = "match_rate"
_PAPER_GRAPH = GraphOptions(kinds=(KEYWORDS,), mentions=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What the chains of one scorer find at one value of a setting.

    Attributes:
        setting: "length", "neighbours" (T) or "keyword" (K).
        matched: mean match rate of the evidence, with its interval.
        chunks: mean number of chunks in the chains of a question.
        degree: mean number of neighbours in the graph.
    """

    setting: str
    at: int
    scorer: str
    matched: MeanScore
    chunks: float
    degree: float


def lengths(setting: Setting) -> list[Point]:
    """Return what chains find that may be 1, 3, 5 or 7 chunks long; 1 is the seeds alone."""
    scorers = scorers_of(setting)
    graph = ChunkGraph.build(setting.nodes, setting.vectors, _PAPER_GRAPH)
    return [point for at in LENGTHS for point in _points(setting, scorers, graph, "length", at, max_length=at)]


def density(setting: Setting) -> list[Point]:
    """Return what chains of five chunks find as the two thresholds move, one at a time, the other as usual."""
    options = [("neighbours", at, replace(_PAPER_GRAPH, neighbours=at)) for at in NEIGHBOURS]
    options += [("keyword", at, replace(_PAPER_GRAPH, keywords_more_than=at)) for at in KEYWORDS_MORE_THAN]
    scorers = scorers_of(setting)
    found: list[Point] = []
    for name, at, option in options:
        setting.tell(f"density: {name} {at}")
        graph = ChunkGraph.build(setting.nodes, setting.vectors, option)
        found += _points(setting, scorers, graph, name, at)
    return found


STUDIES: Mapping[str, Callable[[Setting], list[Point]]] = {"lengths": lengths, "density": density}


def studied(setting: Setting) -> tuple[tuple[Asked, Ranking], ...]:
    """Return at most `STUDIED` questions with their first rankings, in the order of the digests of their ids."""
    asked = zip(setting.split.questions, setting.first[HYBRID], strict=True)
    return tuple(sorted(asked, key=lambda pair: digest(pair[0].id))[:STUDIED])


def figures_of_study(points: Sequence[Point]) -> dict[str, float]:
    """Return the points as figures: `match_rate.SETTING_AT.SCORER` in percent, with `.low` and `.high` before it.

    And `chunks.SETTING_AT.SCORER`, `mean_degree.SETTING_AT`, `n_studied`.
    """
    figures: dict[str, float] = {}
    for point in points:
        key = f"{point.setting}_{point.at}"
        figures[f"{_MATCH}.{key}.{point.scorer}"] = 100 * point.matched.value
        if point.matched.interval is not None:
            low, high = point.matched.interval
            figures |= {
                f"{_MATCH}.low.{key}.{point.scorer}": 100 * low,
                f"{_MATCH}.high.{key}.{point.scorer}": 100 * high,
            }
        figures[f"chunks.{key}.{point.scorer}"] = point.chunks
        figures[f"mean_degree.{key}"] = point.degree
        figures["n_studied"] = point.matched.n
    return figures


def scorers_of(setting: Setting) -> dict[str, Scorer]:
    """Return the scorers that can be had here, and tell which cannot."""
    found: dict[str, Scorer] = {}
    for name, make in SCORERS.items():
        try:
            found[name] = make(setting)
        except LeftOut as why:
            setting.tell(f"without {name}: {why}")
    return found


def _points(
    setting: Setting, scorers: Mapping[str, Scorer], graph: ChunkGraph, name: str, at: int, *, max_length: int = 5
) -> list[Point]:
    """Return a point for each scorer."""
    walk = replace(PAPER, max_length=max_length, max_chunks=10 * max_length, fill=False)
    asked = studied(setting)
    gold = {question.id: question.evidence for question, _ in asked}
    found: list[Point] = []
    for scorer, scores in scorers.items():
        how = GraphSearch(walk=walk, scorer=scores, on_graph_error="raise")
        results, _ = walked(asked, how, setting.embedder, graph, walk.takes)
        chains = {question: result.chains for question, result in zip(gold, results, strict=True)}
        matched = evaluate_evidence(gold, chains, (_MATCH,), rounds=ROUNDS)[_MATCH].mean
        assert matched is not None  # every question that was read has evidence
        found.append(
            Point(
                setting=name,
                at=at,
                scorer=scorer,
                matched=matched,
                chunks=fmean(len(result.ranking.hits) for result in results),
                degree=float(graph.degrees().mean()),
            )
        )
    return found

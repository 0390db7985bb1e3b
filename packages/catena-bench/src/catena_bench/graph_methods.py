"""The methods of `catena-bench graph`: each ranks the whole corpus for every question.

| method | ranking |
|---|---|
| bm25, dense, hybrid | those of `graph_rankings` |
| library_hybrid | the library's own search: a store on disk, its routes, its fusion by score |
| paper_untrained | the paper's walk as written from "hybrid", hops by `cos(q + mean of the path / 2, node)` |
| paper_trained | the same by the paper's scorer, trained on the train split with the embedder frozen; needs torch |
| paper_fine_tuned | the same with the encoder trained too, and the graph made of its vectors: see `graph_tuning` |
| walk | the library's own walk from "hybrid", by the shipped scorer |
| scorer_only | the same scorer, which follows no edge: what the graph adds is the difference |
| walk_untrained, walk_untrained_scorer_only | both by hand-set weights |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from catena.effects import run as run_step
from catena.graph import PAPER, FeatureScorer, GraphSearch, SimilarityScorer, UntrainedScorer
from catena.library import Library, embed
from catena.model import Entry
from catena_bench.graph_rankings import BM25, DENSE, HYBRID, Rankings
from catena_bench.graph_setting import Method, Setting
from catena_bench.graph_training import paper_scorer
from catena_bench.graph_tuning import TUNED, paper_fine_tuned
from catena_bench.graph_walks import walking

LIBRARY = "library_hybrid"
WALK = GraphSearch().walk  # as the library walks where nothing is said
WITHOUT_GRAPH = replace(WALK, candidates="ranking", kinds=())
_TOGETHER = 200  # documents written in one transaction


def listed(name: str) -> Method:
    """Return the method that answers with one of the first rankings."""
    return lambda setting: tuple(ranking.top(setting.k) for ranking in setting.first[name])


def library_hybrid(setting: Setting) -> Rankings:
    """Put the corpus into a library, and search it as its users do."""
    texts = [question.text for question in setting.split.questions]
    with (
        TemporaryDirectory(prefix="catena-bench-") as folder,
        Library.open(Path(folder) / "library", embedder=setting.embedder) as library,
    ):
        for some in _parts(setting.split.entries()):
            library.store.add([(entry, run_step(embed(entry), library.services)) for entry in some])
        return tuple(library.search(text, k=setting.k, on_route_error="raise", on_unknown="keep") for text in texts)


def feature_scorer(setting: Setting) -> FeatureScorer:
    """Return the scorer that was given, or the shipped one."""
    return setting.scorer or FeatureScorer.shipped()


METHODS: dict[str, Method] = {
    BM25: listed(BM25),
    DENSE: listed(DENSE),
    HYBRID: listed(HYBRID),
    LIBRARY: library_hybrid,
    "paper_untrained": walking("paper_untrained", PAPER, lambda setting: SimilarityScorer()),
    "paper_trained": walking("paper_trained", PAPER, paper_scorer),
    TUNED: paper_fine_tuned,
    "walk": walking("walk", WALK, feature_scorer),
    "scorer_only": walking("scorer_only", WITHOUT_GRAPH, feature_scorer),
    "walk_untrained": walking("walk_untrained", WALK, lambda setting: UntrainedScorer()),
    "walk_untrained_scorer_only": walking(
        "walk_untrained_scorer_only", WITHOUT_GRAPH, lambda setting: UntrainedScorer()
    ),
}
USUAL = tuple(method for method in METHODS if method != TUNED)  # that takes far longer than all others


def _parts(entries: Iterator[Entry]) -> Iterator[list[Entry]]:
    while some := list(islice(entries, _TOGETHER)):
        yield some

"""Options of graphs, of training, of what models make and of the baselines: each number has its least.

Values of other types and choices that nobody knows are refused by the law of `test_options`.
"""

from __future__ import annotations

import pytest

from catena.enrichment import ContextOptions, Keywords, LLMDetector, Questions, RecognizerDetector, Summaries
from catena.graph import FeatureTraining, GraphOptions, GraphSearch, ListOptions, SimilarityScorer, WalkOptions
from catena.graph import TrainingOptions as NetworkTraining
from catena.model import ParameterError
from catena_bench.baselines import AtomicOptions, Clustering, ClusterSummaries, RaptorOptions

WRONG = (
    (GraphOptions, {"neighbours": -1, "cap": 0}),
    (WalkOptions, dict.fromkeys(("max_length", "most_seeds", "max_chunks", "expand", "pool", "width"), 0)),
    (WalkOptions, {"budget_tokens": -1}),
    (SimilarityScorer, {"share": -1.0}),
    (GraphSearch, {"depth": 0}),
    (ListOptions, {"max_hops": 0, "negatives": 0, "first": -1}),
    (FeatureTraining, dict.fromkeys(("networks", "units", "rounds", "epochs", "batch", "hops"), 0)),
    (FeatureTraining, {"rate": 1.0, "hidden": 1.0, "seed": -1}),
    (NetworkTraining, dict.fromkeys(("epochs", "batch", "hidden", "edge_hidden", "patience"), 0)),
    (
        NetworkTraining,
        {"validation": 1.0, "learning_rate": 0.0, "encoder_learning_rate": 0.0, "weight_decay": -0.1, "seed": -1},
    ),
    (ContextOptions, dict.fromkeys(("title_tokens", "summary_tokens", "section_tokens", "max_tokens"), 0)),
    (LLMDetector, {"weight": 0, "max_words": 0, "max_tokens": 0}),
    (RecognizerDetector, {"weight": 0, "max_words": 0}),
    (Summaries, {"part_tokens": 0, "max_tokens": 0, "over_tokens": -1, "sentences": 0}),
    (Keywords, {"part_tokens": 0, "max_tokens": 0, "words": 0}),
    (Questions, {"part_tokens": 0, "max_tokens": 0, "count": 0}),
    (AtomicOptions, {"window": 0, "attempts": 0, "fallback": 0, "unlike": 0.0, "least_kept": -0.1}),
    (AtomicOptions, {"unlike": 1.1, "least_kept": 1.1, "max_tokens": 1_999}),
    (Clustering, {"dimensions": 0, "components": 0, "tokens": 0, "threshold": 1.1, "seed": -1}),
    (ClusterSummaries, {"words": 0, "sentences": 0, "max_tokens": 0}),
    (RaptorOptions, {"layers": -1}),
)


def test_the_nearest_wrong_number_is_refused_by_name_and_the_least_is_taken():
    for kind, name, value in ((kind, name, value) for kind, wrong in WRONG for name, value in wrong.items()):
        with pytest.raises(ParameterError, match=f"^{name} must be"):
            kind(**{name: value})
        if isinstance(value, int):
            assert getattr(kind(**{name: value + 1}), name) == value + 1


def test_a_graph_of_the_default_options_is_found_again_under_their_name():
    assert GraphOptions().identity == "823c08616dbafd5b"  # another name builds the graphs of all libraries again

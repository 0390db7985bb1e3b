"""Options of graphs, of their training and of the baselines: the nearest number that is out of range is refused.

Values of other types and choices that nobody knows are refused by the law of `test_options`.
"""

from __future__ import annotations

import pytest

from catena.graph import FeatureTraining, GraphOptions, GraphSearch, ListOptions, SimilarityScorer, WalkOptions
from catena.graph import TrainingOptions as NetworkTraining
from catena.model import ParameterError
from catena_bench.baselines import AtomicOptions, Clustering, ClusterSummaries, RaptorOptions

WRONG = (
    (GraphOptions, {"neighbours": -1, "cap": 0}),
    (WalkOptions, {"max_length": 0}),
    (SimilarityScorer, {"share": -1.0}),
    (GraphSearch, {"depth": 0}),
    (ListOptions, {"max_hops": 0, "negatives": 0, "first": -1}),
    (FeatureTraining, {"networks": 0, "rate": 1.0, "hidden": 1.0, "hops": 0}),
    (NetworkTraining, {"hidden": 0, "validation": 1.0, "learning_rate": 0.0, "seed": -1}),
    (AtomicOptions, {"window": 0, "attempts": 0, "fallback": 0, "unlike": 0.0, "least_kept": -0.1}),
    (AtomicOptions, {"unlike": 1.1, "least_kept": 1.1, "max_tokens": 1_999}),
    (Clustering, {"dimensions": 0, "components": 0, "tokens": 0, "threshold": 1.1, "seed": -1}),
    (ClusterSummaries, {"words": 0, "sentences": 0, "max_tokens": 0}),
    (RaptorOptions, {"layers": -1}),
)


@pytest.mark.parametrize(("kind", "wrong"), WRONG)
def test_the_nearest_wrong_number_is_refused_by_name(kind, wrong):
    for name, value in wrong.items():
        with pytest.raises(ParameterError, match=f"^{name} must be"):
            kind(**{name: value})

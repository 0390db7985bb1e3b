"""Catena's metrics and evaluators under LlamaIndex's conventional name."""

from llama_index_catena import (
    CatenaPairwiseEvaluator,
    CatenaQuoteEvaluator,
    CatenaScopeEvaluator,
    EvidenceMeasure,
    LogRankIndex,
    RecallAt,
    StandardMeasure,
    register_metrics,
)

__all__ = [
    "CatenaPairwiseEvaluator",
    "CatenaQuoteEvaluator",
    "CatenaScopeEvaluator",
    "EvidenceMeasure",
    "LogRankIndex",
    "RecallAt",
    "StandardMeasure",
    "register_metrics",
]

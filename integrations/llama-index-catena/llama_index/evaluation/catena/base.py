"""The conventional place of Catena's metrics and evaluators; they live in `llama_index_catena`."""

from llama_index_catena.evaluation import EvidenceMeasure, LogRankIndex, RecallAt, StandardMeasure, register_metrics
from llama_index_catena.evaluators import CatenaPairwiseEvaluator, CatenaQuoteEvaluator, CatenaScopeEvaluator

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

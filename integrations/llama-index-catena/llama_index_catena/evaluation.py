"""Ranking metrics for LlamaIndex's `RetrieverEvaluator`: the Log-Rank Index, standard measures, and full evidence.

    metrics = [LogRankIndex(n=6221), RecallAt(k=10), StandardMeasure(measure="ndcg@10")]
    RetrieverEvaluator(metrics=metrics, retriever=retriever)

All bear empty results, where LlamaIndex's own raise.

`expected_ids` are node ids; those of Catena's retriever are the ids of its chunks. By names, after
`register_metrics(n=6221)`: `RetrieverEvaluator.from_metric_names(["log_rank_index"], retriever=retriever)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from llama_index.core.bridge.pydantic import Field
from llama_index.core.evaluation.retrieval.metrics import METRIC_REGISTRY
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric, RetrievalMetricResult

from catena.evaluation import LogRankRules, Unretrieved, evaluate, evaluate_evidence, log_rank_index
from catena.evaluation.standard import recall_at
from catena.model import EvaluationError, ParameterError
from llama_index_catena.arguments import checked_arguments

_QUERY = "query"  # the name of the one query that is measured


class LogRankIndex(BaseRetrievalMetric):
    """`S(r) = 1 - ln(1 + gamma (r - 1)) / ln(1 + gamma (n - 1))`, averaged over the expected nodes.

    Defined for an empty result, where it is 0 (LlamaIndex's own metrics raise). A node that is retrieved twice counts
    at its first rank. The result's metadata holds n, gamma, the policy for what was not retrieved, and the geometric
    mean rank, without which the score cannot be read.

    Attributes:
        n: number of pieces that were ranked, i.e. nodes of the collection; only indexes of one n can be compared.
        gamma: growth, above 0.
        unretrieved: what an expected node becomes that was not retrieved: "last" earns 0.
    """

    metric_name: ClassVar[str] = "log_rank_index"
    n: int = Field(description="Number of pieces that were ranked.")
    gamma: float = Field(default=1.0, description="Growth, above 0.")
    unretrieved: Unretrieved = Field(default="last", description="What an expected node becomes if not retrieved.")

    @checked_arguments
    def __init__(self, *, n: int, gamma: float = 1.0, unretrieved: Unretrieved = "last") -> None:
        LogRankRules(n=n, gamma=gamma, unretrieved=unretrieved)  # pydantic would hide the error in one of its own
        fields: dict[str, Any] = {"n": n, "gamma": gamma, "unretrieved": unretrieved}
        super().__init__(**fields)

    def compute(
        self,
        query: str | None = None,
        expected_ids: list[str] | None = None,
        retrieved_ids: list[str] | None = None,
        expected_texts: list[str] | None = None,
        retrieved_texts: list[str] | None = None,
        **_: Any,
    ) -> RetrievalMetricResult:
        """Return the index of one query.

        Raises:
            EvaluationError: there are no expected ids, or n is smaller than the number of nodes named.
        """
        found = log_rank_index(
            _expected(expected_ids), _once(retrieved_ids), n=self.n, gamma=self.gamma, unretrieved=self.unretrieved
        )
        known = {
            "n": found.n,
            "gamma": found.gamma,
            "unretrieved": found.unretrieved,
            "n_unretrieved": found.n_unretrieved,
            "geometric_mean_rank": found.geometric_mean_rank,
            "ideal": found.ideal,
        }
        return RetrievalMetricResult(score=found.value or 0.0, metadata=known)


class RecallAt(BaseRetrievalMetric):
    """`|expected among the first k| / |expected|`; 0 for an empty result.

    Attributes:
        k: cutoff, 1 or more.
    """

    metric_name: ClassVar[str] = "recall_at_k"
    k: int = Field(default=10, description="Cutoff, 1 or more.")

    @checked_arguments
    def __init__(self, *, k: int = 10) -> None:
        recall_at((), ("any",), k)  # checks k
        fields: dict[str, Any] = {"k": k}
        super().__init__(**fields)

    def compute(
        self,
        query: str | None = None,
        expected_ids: list[str] | None = None,
        retrieved_ids: list[str] | None = None,
        expected_texts: list[str] | None = None,
        retrieved_texts: list[str] | None = None,
        **_: Any,
    ) -> RetrievalMetricResult:
        """Return the recall of one query.

        Raises:
            EvaluationError: there are no expected ids.
        """
        score = recall_at(_once(retrieved_ids), _expected(expected_ids), self.k)
        return RetrievalMetricResult(score=score, metadata={"k": self.k})


class StandardMeasure(BaseRetrievalMetric):
    """`recall@k`, `precision@k`, `ndcg`, `mrr` or `map`, the last three with or without `@k`, as trec_eval has them.

    Every expected node has grade 1. Needs the extra `catena-core[eval]`.

    Attributes:
        measure: its name, as `catena.evaluation.standard.evaluate` has them.
    """

    metric_name: ClassVar[str] = "standard_measure"
    measure: str = Field(description="Name of the measure.")

    @checked_arguments
    def __init__(self, *, measure: str) -> None:
        evaluate({}, {}, (measure,))  # checks the name
        fields: dict[str, Any] = {"measure": measure}
        super().__init__(**fields)

    def compute(
        self,
        query: str | None = None,
        expected_ids: list[str] | None = None,
        retrieved_ids: list[str] | None = None,
        expected_texts: list[str] | None = None,
        retrieved_texts: list[str] | None = None,
        **_: Any,
    ) -> RetrievalMetricResult:
        """Return the measure of one query.

        Raises:
            EvaluationError: there are no expected ids.
        """
        grades = dict.fromkeys(_expected(expected_ids), 1)
        found = evaluate({_QUERY: grades}, {_QUERY: _once(retrieved_ids)}, (self.measure,))[self.measure]
        return RetrievalMetricResult(score=found.value or 0.0, metadata={"measure": self.measure})


class EvidenceMeasure(BaseRetrievalMetric):
    """Whether all evidence that a question needs was found: `all@k` (1 or 0), `recall@k` or `match_rate`.

    The expected nodes are the pieces of evidence, all of them needed, as for questions of several hops.

    Attributes:
        measure: its name, as `catena.evaluation.evidence` has them.
    """

    metric_name: ClassVar[str] = "evidence_measure"
    measure: str = Field(default="all@5", description="Name of the measure.")

    @checked_arguments
    def __init__(self, *, measure: str = "all@5") -> None:
        if measure == "chain_order":
            raise ParameterError("measure", measure, "recall@k, all@k or match_rate: ids tell of no chains")
        evaluate_evidence({_QUERY: ["any"]}, {_QUERY: ()}, (measure,))  # checks the name
        fields: dict[str, Any] = {"measure": measure}
        super().__init__(**fields)

    def compute(
        self,
        query: str | None = None,
        expected_ids: list[str] | None = None,
        retrieved_ids: list[str] | None = None,
        expected_texts: list[str] | None = None,
        retrieved_texts: list[str] | None = None,
        **_: Any,
    ) -> RetrievalMetricResult:
        """Return the measure of one query.

        Raises:
            EvaluationError: there are no expected ids.
        """
        gold, run = {_QUERY: sorted(_expected(expected_ids))}, {_QUERY: _once(retrieved_ids)}
        found = evaluate_evidence(gold, run, (self.measure,))[self.measure]
        return RetrievalMetricResult(score=found.per_question[_QUERY], metadata={"measure": self.measure})


def register_metrics(*, n: int, gamma: float = 1.0, unretrieved: Unretrieved = "last", k: int = 10) -> None:
    """Let `from_metric_names` find "log_rank_index" and "recall_at_k", with these parameters.

    LlamaIndex builds metrics from names without arguments, so the parameters are fixed here; a second call replaces
    them. Its registry is shared by the whole process, which is why importing this module does not touch it.

    Args:
        n: number of pieces that were ranked.
        gamma: as in `LogRankIndex`; so is `unretrieved`.
        unretrieved: as above.
        k: cutoff of the recall.

    Raises:
        ParameterError: a parameter is outside its domain.
    """
    LogRankIndex(n=n, gamma=gamma, unretrieved=unretrieved)
    RecallAt(k=k)

    class RegisteredLogRankIndex(LogRankIndex):
        """The Log-Rank Index with the registered parameters."""

        def __init__(self) -> None:
            super().__init__(n=n, gamma=gamma, unretrieved=unretrieved)

    class RegisteredRecallAt(RecallAt):
        """Recall with the registered cutoff."""

        def __init__(self) -> None:
            super().__init__(k=k)

    METRIC_REGISTRY[LogRankIndex.metric_name] = RegisteredLogRankIndex
    METRIC_REGISTRY[RecallAt.metric_name] = RegisteredRecallAt


def _expected(ids: Sequence[str] | None) -> frozenset[str]:
    if not ids:
        raise EvaluationError("a metric needs the expected ids of the query. Try: leave the query out, and count it")
    return frozenset(ids)


def _once(ids: Sequence[str] | None) -> tuple[str, ...]:
    """Return the ids, each at its first rank: a node may come back by several routes or postprocessors."""
    return tuple(dict.fromkeys(ids or ()))

"""Measure retrieval and judge answers: metrics of LlamaIndex's `RetrieverEvaluator`, and evaluators.

    metrics = [LogRankIndex(n=6221), RecallAt(k=10), StandardMeasure(measure="ndcg@10")]
    RetrieverEvaluator(metrics=metrics, retriever=retriever)

All bear empty results, where LlamaIndex's own raise.

`expected_ids` are node ids; those of Catena's retriever are the ids of its chunks. By names, after
`register_metrics(n=6221)`: `RetrieverEvaluator.from_metric_names(["log_rank_index"], retriever=retriever)`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from llama_index.core.base.response.schema import Response
from llama_index.core.bridge.pydantic import Field
from llama_index.core.evaluation import BaseEvaluator, EvaluationResult
from llama_index.core.evaluation.retrieval.metrics import METRIC_REGISTRY
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric, RetrievalMetricResult
from llama_index.core.llms import LLM
from llama_index.core.schema import Document, NodeWithScore

from catena import ParameterError, Services, arun, run
from catena.answering import check_answer
from catena.effects import Step
from catena.evaluation import (
    DocumentSpan,
    LogRankRules,
    Span,
    Unretrieved,
    evaluate,
    evaluate_evidence,
    log_rank_index,
    recall_at,
    scope_recall_in,
)
from catena.model import EvaluationError, needs
from llama_index_catena.components import CorePrompts, checked_arguments
from llama_index_catena.documents import text_of
from llama_index_catena.segment_nodes import apart, linked_chunk
from llama_index_catena.services import LlamaIndexLLM, language_model

if TYPE_CHECKING:
    from catena_bench.judges import Verdict


_QUERY = "query"  # the name of the one query that is measured

_PAIR = "pair"

_SCORES = {"win": 1.0, "lose": 0.0, "tie": 0.5}


class _Metric(BaseRetrievalMetric):
    """A measure of one query's ids: those expected, and those retrieved, each at its first rank."""

    def compute(
        self,
        query: str | None = None,
        expected_ids: list[str] | None = None,
        retrieved_ids: list[str] | None = None,
        expected_texts: list[str] | None = None,
        retrieved_texts: list[str] | None = None,
        **_: Any,
    ) -> RetrievalMetricResult:
        """Return the measure of one query; a node may come back by several routes, and counts once.

        Raises:
            EvaluationError: there are no expected ids, or as of the measure.
        """
        if not expected_ids:
            what = "a metric needs the expected ids of the query. Try: leave the query out, and count it"
            raise EvaluationError(what)
        score, known = self._measured(frozenset(expected_ids), tuple(dict.fromkeys(retrieved_ids or ())))
        return RetrievalMetricResult(score=score, metadata={**self.model_dump(), **known})

    @abstractmethod
    def _measured(self, expected: frozenset[str], retrieved: tuple[str, ...]) -> tuple[float, dict[str, Any]]:
        """Return the measure of unique ids, and what else is known of it."""


class LogRankIndex(_Metric):
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
        super().__init__(n=n, gamma=gamma, unretrieved=unretrieved)  # type: ignore[call-arg]

    def _measured(self, expected: frozenset[str], retrieved: tuple[str, ...]) -> tuple[float, dict[str, Any]]:
        found = log_rank_index(expected, retrieved, n=self.n, gamma=self.gamma, unretrieved=self.unretrieved)
        names = ("n_unretrieved", "geometric_mean_rank", "ideal")
        return found.value or 0.0, {name: getattr(found, name) for name in names}


class RecallAt(_Metric):
    """`|expected among the first k| / |expected|`; 0 for an empty result.

    Attributes:
        k: cutoff, 1 or more.
    """

    metric_name: ClassVar[str] = "recall_at_k"
    k: int = Field(default=10, description="Cutoff, 1 or more.")

    @checked_arguments
    def __init__(self, *, k: int = 10) -> None:
        recall_at((), ("any",), k)  # checks k
        super().__init__(k=k)  # type: ignore[call-arg]

    def _measured(self, expected: frozenset[str], retrieved: tuple[str, ...]) -> tuple[float, dict[str, Any]]:
        return recall_at(retrieved, expected, self.k), {}


class StandardMeasure(_Metric):
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
        super().__init__(measure=measure)  # type: ignore[call-arg]

    def _measured(self, expected: frozenset[str], retrieved: tuple[str, ...]) -> tuple[float, dict[str, Any]]:
        grades = dict.fromkeys(expected, 1)
        found = evaluate({_QUERY: grades}, {_QUERY: retrieved}, (self.measure,))[self.measure]
        return found.value or 0.0, {}


class EvidenceMeasure(_Metric):
    """Measures whether all evidence that a question needs was found: `all@k` (1 or 0), `recall@k` or `match_rate`.

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
        super().__init__(measure=measure)  # type: ignore[call-arg]

    def _measured(self, expected: frozenset[str], retrieved: tuple[str, ...]) -> tuple[float, dict[str, Any]]:
        found = evaluate_evidence({_QUERY: sorted(expected)}, {_QUERY: retrieved}, (self.measure,))
        return found[self.measure].per_question[_QUERY], {}


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


class CatenaPairwiseEvaluator(CorePrompts, BaseEvaluator):
    """Has a model compare two answers with a reference answer, once with each of them first.

        await CatenaPairwiseEvaluator(llm).aevaluate(query, one, second_response=other, reference=gold)

    `score` is 1 where the first answer wins, 0 where the second does, 0.5 for a tie; the sums of the scores of both
    orders decide. Answers that say the same are a tie without a model. Where an order has no valid scores the result
    is an `invalid_result`, and says why.

    Args:
        llm: any LlamaIndex language model.
        repeats: how often each order is judged, >= 1.
        max_tokens: of one reply, reasons included.

    Raises:
        ParameterError: repeats is below 1.
    """

    @checked_arguments
    def __init__(self, llm: LLM | LlamaIndexLLM, *, repeats: int = 1, max_tokens: int = 1024) -> None:
        if repeats < 1:
            raise ParameterError("repeats", repeats, "an integer >= 1")
        self._services = Services(llm=language_model(llm))
        self.repeats, self.max_tokens = repeats, max_tokens

    def evaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        second_response: str | None = None,
        reference: str | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """Return the winner; all but `contexts` are needed.

        Raises:
            EvaluationError: a question, an answer or the reference is missing.
        """
        (verdict,) = run(self._step(query, response, second_response, reference), self._services)
        return _judged(query, response, verdict)

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        second_response: str | None = None,
        reference: str | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """As `evaluate`, without blocking the event loop."""
        (verdict,) = await arun(self._step(query, response, second_response, reference), self._services)
        return _judged(query, response, verdict)

    def _step(
        self, query: str | None, response: str | None, second: str | None, reference: str | None
    ) -> Step[tuple[Verdict, ...]]:
        given = {"query": query, "response": response, "second_response": second, "reference": reference}
        if missing := [name for name, value in given.items() if value is None]:
            raise EvaluationError(f"a pair of answers needs {', '.join(missing)}. Try: evaluate({missing[0]}=...)")
        with needs("catena-bench"):
            from catena_bench.judges import Pair, judge_pairs

        pair = Pair(id=_PAIR, question=query or "", reference=reference or "", a=response or "", b=second or "")
        return judge_pairs([pair], repeats=self.repeats, max_tokens=self.max_tokens)


class _Computed(CorePrompts, BaseEvaluator):
    """An evaluator that asks no model: its async twins have nothing to wait for."""

    async def aevaluate(self, *args: Any, **kwargs: Any) -> EvaluationResult:
        """As `evaluate`: nothing is waited for."""
        return self.evaluate(*args, **kwargs)

    async def aevaluate_response(self, *args: Any, **kwargs: Any) -> EvaluationResult:
        """As `evaluate_response`: nothing is waited for."""
        return self.evaluate_response(*args, **kwargs)


class CatenaQuoteEvaluator(_Computed):
    """Looks up what an answer quotes in what it was given to read: faithfulness without a model.

    `score` is the share of the answer's statements that a quote supports, `passing` whether all are; the feedback
    names those that are not. For answers with markers [n], n being the place of a context, and quotes below them, as
    `CatenaQueryEngine` and `CatenaSynthesizer` ask for: the words of a quote stand in its passage, or they do not.
    A response of these is judged by what they found (`metadata["coverage"]`), since it shows no quotes any more.
    """

    def evaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """Return how much of an answer its quotes support.

        Raises:
            EvaluationError: there is no answer, or nothing that it was made from.
        """
        if response is None or contexts is None:
            raise EvaluationError("quotes are looked up in contexts. Try: evaluate(response=..., contexts=[...])")
        checked = check_answer(response, contexts)
        unsupported = [statement.text for statement in checked.unsupported]
        return _quoted(query, response, contexts, checked.coverage, unsupported)

    def evaluate_response(
        self, query: str | None = None, response: Response | None = None, **kwargs: Any
    ) -> EvaluationResult:
        """Return how much of a response its quotes support: as its engine found, or else by its source nodes."""
        if response is None:
            raise EvaluationError("there is no response. Try: evaluate_response(query, engine.query(query))")
        contexts = [text_of(found.node) for found in response.source_nodes]
        told = response.metadata or {}
        if "coverage" in told:
            return _quoted(query, response.response, contexts, told["coverage"], told.get("unsupported", []))
        return self.evaluate(query, response.response, contexts)


class CatenaScopeEvaluator(_Computed):
    """Measures how much of what answers a question stands in the nodes of a response, in characters.

        CatenaScopeEvaluator(documents).evaluate_response(query, response, evidence={"hx210": [(120, 480)]})

    `score` is the share of the visible characters of the evidence that the source nodes cover together, whatever
    parser cut them; `passing` whether it is all of them.

    Args:
        documents: those that the nodes were cut from, with their ids.

    Raises:
        ParameterError: two documents have one id.
    """

    @checked_arguments
    def __init__(self, documents: Iterable[Document]) -> None:
        given = list(documents)
        self._texts = {document.node_id: document.text for document in given}
        if len(self._texts) < len(given):
            raise ParameterError("documents", [document.node_id for document in given], "documents of different ids")

    def recall(self, nodes: Sequence[NodeWithScore], evidence: Mapping[str, Sequence[Span]]) -> float:
        """Return the share of the evidence that nodes cover.

        Args:
            nodes: with offsets into their documents; notices are left out.
            evidence: document id -> spans [start, end) into its text, 0-based.

        Raises:
            EvaluationError: a document is not known, a span does not lie in its text, or nothing is evidence.
        """
        chunks = [linked_chunk(found.node).chunk for found in apart(nodes)[0]]
        returned = [self._span(chunk.document_id, (chunk.start, chunk.end)) for chunk in chunks]
        wanted = [self._span(name, span) for name, spans in evidence.items() for span in spans]
        return scope_recall_in(returned, wanted, self._texts.__getitem__, k=max(len(returned), 1))

    def evaluate(self, *args: Any, **kwargs: Any) -> EvaluationResult:
        """Refuse bare texts: they do not say where they stand."""
        what = "texts do not say where they stand. Try: evaluate_response(query, response, evidence=…)"
        raise EvaluationError(what)

    def evaluate_response(
        self,
        query: str | None = None,
        response: Response | None = None,
        evidence: Mapping[str, Sequence[Span]] | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """Return how much of the evidence the source nodes of a response cover; both are needed.

        Raises:
            EvaluationError: as of `recall`, or one of them is missing.
        """
        if response is None or evidence is None:
            what = "a response and its evidence are needed. Try: evaluate_response(query, response, {…})"
            raise EvaluationError(what)
        score = self.recall(response.source_nodes, evidence)
        return EvaluationResult(query=query, response=response.response, score=score, passing=score == 1.0)

    def _span(self, document: str, span: Span) -> DocumentSpan:
        if document not in self._texts:
            raise EvaluationError(f"document {document!r} is not among those given. Try: CatenaScopeEvaluator(all)")
        start, end = span
        if not 0 <= start <= end <= len(self._texts[document]):
            what = f"{span} does not lie in the {len(self._texts[document])} characters of {document!r}"
            raise EvaluationError(what)
        return document, start, end


def _judged(query: str | None, response: str | None, verdict: Verdict) -> EvaluationResult:
    failures = [each.failure for each in verdict.rounds if each.failure]
    reasons = "\n".join(each.reasoning for each in verdict.rounds if each.reasoning)
    score = _SCORES.get(verdict.by_score)
    return EvaluationResult(
        query=query,
        response=response,
        passing=None if score in (None, 0.5) else score == 1.0,
        score=score,
        feedback=reasons or ("Both answers say the same." if verdict.same else None),
        invalid_result=score is None,
        invalid_reason="; ".join(dict.fromkeys(failures)) if score is None else None,
    )


def _quoted(
    query: str | None, response: str | None, contexts: Sequence[str], score: float, unsupported: Sequence[str]
) -> EvaluationResult:
    feedback = "Without a verified quote: " + " | ".join(unsupported) if unsupported else None
    return EvaluationResult(
        query=query, contexts=list(contexts), response=response, score=score, passing=score == 1.0, feedback=feedback
    )

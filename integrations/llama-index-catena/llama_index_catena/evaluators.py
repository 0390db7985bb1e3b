"""Judges of answers for LlamaIndex: pairs in both orders, quotes that are looked up, and how much of it was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llama_index.core.base.response.schema import Response
from llama_index.core.evaluation import BaseEvaluator, EvaluationResult
from llama_index.core.llms import LLM
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.schema import Document, NodeWithScore

from catena.answering import CitedAnswer, check_answer
from catena.effects import Services, Step, arun, run
from catena.evaluation import Pair, Span, Verdict, coverage, judge_pairs
from catena.model import Chunk, EvaluationError, ParameterError
from llama_index_catena.arguments import checked_arguments
from llama_index_catena.documents import text_of
from llama_index_catena.segment_nodes import apart, linked_chunk
from llama_index_catena.services import LlamaIndexLLM, language_model

_PAIR = "pair"
_SCORES = {"win": 1.0, "lose": 0.0, "tie": 0.5}


class _CoreEvaluator(BaseEvaluator):
    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        """Leave the prompts as they are: they are the core's."""


class CatenaPairwiseEvaluator(_CoreEvaluator):
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
        """Return who wins; all but `contexts` are needed.

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
        pair = Pair(id=_PAIR, question=query or "", reference=reference or "", a=response or "", b=second or "")
        return judge_pairs([pair], repeats=self.repeats, max_tokens=self.max_tokens)


class CatenaQuoteEvaluator(_CoreEvaluator):
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
        chunks = [
            Chunk(id=str(n), document_id=str(n), position=0, start=0, end=len(text), text=text)
            for n, text in enumerate(contexts, start=1)
        ]
        checked: CitedAnswer = check_answer(response, chunks)
        unsupported = [statement.text for statement in checked.unsupported]
        return _quoted(query, response, contexts, checked.coverage, unsupported)

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """As `evaluate`: nothing is waited for."""
        return self.evaluate(query, response, contexts)

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

    async def aevaluate_response(
        self, query: str | None = None, response: Response | None = None, **kwargs: Any
    ) -> EvaluationResult:
        """As `evaluate_response`: nothing is waited for."""
        return self.evaluate_response(query, response)


class CatenaScopeEvaluator(_CoreEvaluator):
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
        lengths = [len(text) for text in self._texts.values()]
        self._starts = {name: sum(lengths[:place]) for place, name in enumerate(self._texts)}
        self._laid = "".join(self._texts.values())

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
        return coverage(returned, wanted, self._laid)

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """Refuse bare texts: they do not say where they stand."""
        raise EvaluationError(
            "texts do not say where they stand. Try: evaluate_response(query, response, evidence=…)"
        )

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
            raise EvaluationError(
                "a response and its evidence are needed. Try: evaluate_response(query, response, {…})"
            )
        score = self.recall(response.source_nodes, evidence)
        return EvaluationResult(query=query, response=response.response, score=score, passing=score == 1.0)

    async def aevaluate_response(
        self,
        query: str | None = None,
        response: Response | None = None,
        evidence: Mapping[str, Sequence[Span]] | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """As `evaluate_response`: nothing is waited for."""
        return self.evaluate_response(query, response, evidence)

    def _span(self, document: str, span: Span) -> Span:
        if document not in self._texts:
            raise EvaluationError(f"document {document!r} is not among those given. Try: CatenaScopeEvaluator(all)")
        start, end = span
        if not 0 <= start <= end <= len(self._texts[document]):
            raise EvaluationError(
                f"{span} does not lie in the {len(self._texts[document])} characters of {document!r}"
            )
        return self._starts[document] + start, self._starts[document] + end


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

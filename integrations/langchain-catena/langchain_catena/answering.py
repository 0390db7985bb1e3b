"""From a question to an answer with verified citations, as one LangChain runnable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable, RunnableLambda

from catena import model
from catena.answering import AnswerOptions, SegmentAnswer, VerifiedQuote
from catena.effects import Services, Step, arun, run
from catena.library import answer_from_step
from langchain_catena.convert import NO_OFFSETS
from langchain_catena.libraries import AnyLibrary
from langchain_catena.places import PlaceKeys, lenient_hits, passages_in, unknown_of
from langchain_catena.retrieval import CatenaRetriever
from langchain_catena.segment_retrieval import CatenaSegmentRetriever
from langchain_catena.services import LangChainLLM


def segment_answer_chain(
    source: AnyLibrary | Runnable[str, list[Document]],
    llm: BaseLanguageModel[Any],
    *,
    options: AnswerOptions | None = None,
    services: Services | None = None,
    document_key: str | None = None,
) -> Runnable[str, dict[str, Any]]:
    """Return a chain from a question to an answer whose every quote was looked up in its source.

        chain = segment_answer_chain(CatenaSegmentRetriever(library=library), model)
        chain.invoke("How tight are the cover screws of the HX210?")["answer"]

    Passages of all documents become one numbered text within the budget, fields for which documents print different
    values are told to the model, and each quote that it gives is compared with its passage. What the chain returns
    can be written as JSON:

    - `question`, `answer` ("" where nothing was found; no model is asked then), `coverage` (share of the statements
      with a verified quote, 0 to 1)
    - `citations`: `number` of the passage, `quote`, `verified`, `state` (see `VerifiedQuote`), `citation` (where it
      stands, in words), `document_id`, `start_index`, `end_index`, `pages`, `page_labels`, `lines`
    - `passages`: what [n] means: `number`, `text`, `citation`, `document_id`, `value`
    - `conflicts`: `label`, `note`, `kind`, `expected`, `passages` (numbers)
    - `unsupported`: statements without a verified quote; `unknown`: names that stand nowhere, in words

    Args:
        source: a library, or any retriever; best are segments: `CatenaSegmentRetriever`, or a retriever with
            `CatenaSegmentExtractor`.
        llm: any chat model or LLM; the callbacks of the chain reach it, and the retriever.
        options: how much text the model is given, and how.
        services: journal, budget and limits of the model's call.
        document_key: metadata key of the id of the whole document; "document_id", or else "source", where None.
    """
    retriever = CatenaSegmentRetriever(library=source) if isinstance(source, AnyLibrary) else source
    library = None
    if isinstance(retriever, CatenaRetriever | CatenaSegmentRetriever):
        library, retriever = retriever.library, retriever.model_copy(update={"tell_unknown": True})
    keys = PlaceKeys(document=document_key)
    outside = replace(services or Services(), llm=LangChainLLM(llm))

    if library is not None:  # which knows the pages of a quote
        outside = replace(outside, store=library.store)

    def step(question: str, found: Sequence[Document]) -> Step[SegmentAnswer]:
        hits = lenient_hits(passages_in(found), keys)
        return answer_from_step(question, hits, options, nowhere=unknown_of(found))

    def answer(question: str) -> dict[str, Any]:
        found = retriever.invoke(question)
        return _as_json(run(step(question, found), outside), unknown_of(found))

    async def aanswer(question: str) -> dict[str, Any]:
        found = await retriever.ainvoke(question)
        return _as_json(await arun(step(question, found), outside), unknown_of(found))

    return RunnableLambda(answer, aanswer, name="segment_answer")


def _as_json(result: SegmentAnswer, nowhere: Sequence[model.Unknown]) -> dict[str, Any]:
    answer, passages = result.answer, result.context.passages
    without = {passage.number for passage in passages if NO_OFFSETS in passage.segment.metadata}
    return {
        "question": result.question,
        "answer": "" if answer is None else answer.text,
        "coverage": 0.0 if answer is None else answer.coverage,
        "citations": []
        if answer is None
        else [_citation(each.quote, each.source, each.quote.passage in without) for each in answer.citations],
        "passages": [
            {
                "number": passage.number,
                "text": passage.text,
                "citation": passage.citation,
                "document_id": passage.segment.document_id,
                "value": passage.value,
            }
            for passage in passages
        ],
        "conflicts": [
            {
                "label": conflict.label,
                "note": conflict.note,
                "kind": conflict.kind,
                "expected": conflict.expected,
                "passages": list(conflict.numbers),
            }
            for conflict in result.conflicts
        ],
        "unsupported": [] if answer is None else [statement.text for statement in answer.unsupported],
        "unknown": [str(name) for name in nowhere],
    }


def _citation(quote: VerifiedQuote, source: str, without_offsets: bool) -> dict[str, Any]:
    return {
        "number": quote.number,
        "quote": quote.text,
        "verified": quote.verified,
        "state": quote.state,
        "citation": source,
        "document_id": quote.document_id,
        "start_index": None if without_offsets else quote.start,
        "end_index": None if without_offsets else quote.end,
        "pages": None if quote.pages is None else list(quote.pages),
        "page_labels": None if quote.page_labels is None else list(quote.page_labels),
        "lines": None if quote.lines is None else list(quote.lines),
    }

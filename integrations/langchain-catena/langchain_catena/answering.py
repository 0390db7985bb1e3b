"""Answer a question, with verified citations or in a few words, and write the searches that it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable, RunnableLambda

from catena import Services, arun, run
from catena.answering import AnswerOptions, ChainReading, SegmentAnswer, ShortAnswer, VerifiedQuote, chain_answer
from catena.effects import Step
from catena.library import BaseLibrary, answer_from_step
from catena.retrieval import Queries, decompose, generate_queries
from langchain_catena.base import answering_chain
from langchain_catena.chains import chains_of
from langchain_catena.convert import NO_OFFSETS
from langchain_catena.places import PlaceKeys, lenient_hits, passages_in, unknown_of
from langchain_catena.retrieval import CatenaRetriever
from langchain_catena.segments import CatenaSegmentRetriever
from langchain_catena.services import services_with


def segment_answer_chain(
    source: BaseLibrary | Runnable[str, list[Document]],
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
    retriever = CatenaSegmentRetriever(library=source) if isinstance(source, BaseLibrary) else source
    outside = services_with(services, llm=llm)
    if isinstance(retriever, CatenaRetriever | CatenaSegmentRetriever):
        if retriever.library is not None:  # which knows the pages of a quote
            outside = replace(outside, store=retriever.library.store)
        retriever = retriever.model_copy(update={"tell_unknown": True})
    keys = PlaceKeys(document=document_key)

    def step(question: str, found: Sequence[Document]) -> Step[SegmentAnswer]:
        hits = lenient_hits(passages_in(found), keys)
        return answer_from_step(question, hits, options, nowhere=unknown_of(found))

    return answering_chain(retriever, step, outside, _as_json, name="segment_answer")


def _as_json(question: str, found: Sequence[Document], result: SegmentAnswer) -> dict[str, Any]:
    answer, passages = result.answer, result.context.passages
    without = {passage.number for passage in passages if NO_OFFSETS in passage.segment.metadata}
    return {
        "question": question,
        "answer": "" if answer is None else answer.text,
        "coverage": 0.0 if answer is None else answer.coverage,
        "citations": [
            _citation(each.quote, each.source, each.quote.passage in without)
            for each in (() if answer is None else answer.citations)
        ],
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
        "unknown": [str(name) for name in unknown_of(found)],
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


def query_writer(
    llm: BaseLanguageModel[Any] | None = None, *, n: int = 6, guidance: str = "", services: Services | None = None
) -> Runnable[str, list[str]]:
    """Return a runnable from a question to the searches that it needs, itself the first.

        query_writer(model, guidance="Manuals of valves.") | search.map()

    Args:
        llm: any chat model or LLM; without one the questions of the text are searched for one by one. Where it
            fails this is done, too.
        n: the most searches, >= 1.
        guidance: what the model should know about the documents or the words used in them.
        services: journal, budget and limits of the model's calls.
    """
    outside = services_with(services, llm=llm)

    def step(question: str) -> Step[Queries]:
        if outside.llm is None:
            yield from ()  # nobody is asked
            return Queries(question=question, queries=tuple(decompose(question, n)))
        return (yield from generate_queries(question, n=n, guidance=guidance, on_error="degrade"))

    def queries(question: str) -> list[str]:
        return list(run(step(question), outside).queries)

    async def aqueries(question: str) -> list[str]:
        return list((await arun(step(question), outside)).queries)

    return RunnableLambda(queries, aqueries, name="query_writer").with_types(input_type=str, output_type=list[str])


def chain_answer_chain(
    retriever: Runnable[str, list[Document]],
    llm: BaseLanguageModel[Any],
    *,
    reading: ChainReading | None = None,
    services: Services | None = None,
) -> Runnable[str, dict[str, Any]]:
    """Return a chain from a question to an answer of a few words, read from evidence chains and from nothing else.

        chain_answer_chain(CatenaGraphRetriever(library=library), model).invoke("…")["answer"]

    It returns `question`, `answer` (None where what was found does not answer it) and `documents` as found.

    Args:
        retriever: best `CatenaGraphRetriever`; documents of any other are chains of one.
        llm: any chat model or LLM; the callbacks of the chain reach it, and the retriever.
        reading: how the chains are written out.
        services: journal, budget and limits of the model's call.
    """

    def step(question: str, found: Sequence[Document]) -> Step[ShortAnswer]:
        return chain_answer(question, chains_of(found), reading)

    def as_json(question: str, found: Sequence[Document], answer: ShortAnswer) -> dict[str, Any]:
        said = answer.text if answer.answerable else None
        return {"question": question, "answer": said, "documents": list(found)}

    return answering_chain(retriever, step, services_with(services, llm=llm), as_json, name="chain_answer")

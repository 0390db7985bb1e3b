"""Read evidence chains from documents, answer from them or from passages, and write the searches of a question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from langchain_core.documents import Document
from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable, RunnableLambda

from catena import Chunk, Services, arun, run
from catena.answering import (
    AnswerOptions,
    ChainReading,
    SegmentAnswer,
    ShortAnswer,
    chain_answer,
    chain_context,
    chains_of_places,
)
from catena.effects import Step
from catena.library import BaseLibrary, answer_from_step
from catena.model import Chain
from catena.retrieval import Queries, decompose, generate_queries
from langchain_catena.convert import NO_OFFSETS, is_unknown, told_of
from langchain_catena.places import PlaceKeys, lenient_hits, passages_in, source_name, to_linked, unknown_of
from langchain_catena.retrieval import CatenaRetriever
from langchain_catena.segments import CatenaSegmentRetriever
from langchain_catena.services import services_with

T = TypeVar("T")

CHAINS = "chains"
"""Key in `metadata["catena"]` of a document's places in chains; `CatenaGraphRetriever` states what they say."""

NODE = "chunk_id"
"""Key in `metadata["catena"]` of the id that the graph has a document under, as `came_from` of others names it."""


def chains_of(documents: Sequence[Document]) -> tuple[Chain, ...]:
    """Return the chains that documents of `CatenaGraphRetriever` or `CatenaChainCompressor` stand in.

    For what the core does with chains: `catena_view.plots.graph_strip.chain_strip`, `catena.answering.short_answers`.

    Args:
        documents: in any order, and whatever is left of them after another stage; a chain keeps the hops that are
            there. One that stands in no chain is a chain of itself alone, behind the others.
    """
    passages = passages_in(documents)
    return chains_of_places((_chunk(document), told_of(document).get(CHAINS)) for document in passages)


def format_chains(documents: Sequence[Document], reading: ChainReading | None = None) -> str:
    """Return documents as one text for a prompt: numbered passages in the order of their chains, with the reasons.

        chain = {"context": retriever | format_chains, "question": RunnablePassthrough()} | prompt | model

    Args:
        documents: as of `chains_of`. What tells of names that stand nowhere comes first, beside the budget.
        reading: order ("chain", "iterative", "shuffled"), budget and header; see `ChainReading`.

    Raises:
        ParameterError: `reading` is out of range.
    """
    told = [document.page_content for document in documents if is_unknown(document)]
    return "\n\n".join(filter(None, (*told, chain_context(chains_of(documents), reading).text)))


def chain_formatter(reading: ChainReading | None = None) -> Runnable[Sequence[Document], str]:
    """Return `format_chains` with its options as a runnable.

    retriever | chain_formatter(ChainReading(format="iterative", budget_tokens=1_500))
    """
    return RunnableLambda(lambda documents: format_chains(documents, reading), name="format_chains")


def _chunk(document: Document) -> Chunk:
    found = to_linked(document, PlaceKeys(), name=source_name(document)).chunk
    name = told_of(document).get(NODE)
    return replace(found, id=name) if isinstance(name, str) and name else found


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
      stands, in words), `document_id`, `start_index`, `end_index`, `pages`, `page_labels`, `lines`,
      `boxes` (page, left, top, right and bottom of each printed line, in points)
    - `figures`: those that the answer shows: `id`, `name`, `title`, `passage`, `document_id`
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

    return _answering(retriever, step, outside, _as_json, name="segment_answer")


def _answering(
    retriever: Runnable[str, list[Document]],
    step: Callable[[str, Sequence[Document]], Step[T]],
    services: Services,
    as_json: Callable[[str, Sequence[Document], T], dict[str, Any]],
    *,
    name: str,
) -> Runnable[str, dict[str, Any]]:
    """Return a chain from a question to an answer from what a retriever finds; callbacks reach both.

    Args:
        retriever: any.
        step: from the question and the documents to the answer.
        services: answer the step.
        as_json: the question, the documents and the answer as plain values.
        name: in traces.
    """

    def answer(question: str) -> dict[str, Any]:
        found = retriever.invoke(question)
        return as_json(question, found, run(step(question, found), services))

    async def aanswer(question: str) -> dict[str, Any]:
        found = await retriever.ainvoke(question)
        return as_json(question, found, await arun(step(question, found), services))

    return RunnableLambda(answer, aanswer, name=name)


def _as_json(question: str, found: Sequence[Document], result: SegmentAnswer) -> dict[str, Any]:
    answer, passages = result.answer, result.context.passages
    shown = ("number", "text", "citation", "value")
    without = {passage.number for passage in passages if NO_OFFSETS in passage.segment.metadata}
    return {
        "question": question,
        "answer": "" if answer is None else answer.text,
        "passages": [
            {**{name: getattr(each, name) for name in shown}, "document_id": each.segment.document_id}
            for each in passages
        ],
        **result.as_json("start_index", "end_index", unplaced=without),
        "unknown": [str(name) for name in unknown_of(found)],
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

    return _answering(retriever, step, services_with(services, llm=llm), as_json, name="chain_answer")

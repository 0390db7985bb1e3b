"""What stands around a retriever: the searches that a question needs, and short answers out of chains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable, RunnableLambda

from catena.answering import ChainReading, ShortAnswer, chain_answer
from catena.effects import Services, Step, arun, run
from catena.retrieval import Queries, decompose, generate_queries
from langchain_catena.graph.chains import chains_of
from langchain_catena.services import LangChainLLM


def query_writer(
    llm: BaseLanguageModel[Any] | None = None, *, n: int = 6, guidance: str = "", services: Services | None = None
) -> Runnable[str, list[str]]:
    """Return a runnable from a question to the searches that it needs, itself the first.

        query_writer(model, guidance="Manuals of valves.") | search.map()

    Args:
        llm: any chat model or LLM; without one the question is taken apart at its conjunctions. Where it fails this
            is done, too.
        n: the most searches, >= 1.
        guidance: what the model should know about the documents or the words used in them.
        services: journal, budget and limits of the model's calls.
    """
    outside = services or Services()
    if llm is not None:
        outside = replace(outside, llm=LangChainLLM(llm))

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
    outside = replace(services or Services(), llm=LangChainLLM(llm))

    def as_json(question: str, found: Sequence[Document], answer: ShortAnswer) -> dict[str, Any]:
        said = answer.text if answer.answerable else None
        return {"question": question, "answer": said, "documents": list(found)}

    def answer(question: str) -> dict[str, Any]:
        found = retriever.invoke(question)
        return as_json(question, found, run(chain_answer(question, chains_of(found), reading), outside))

    async def aanswer(question: str) -> dict[str, Any]:
        found = await retriever.ainvoke(question)
        return as_json(question, found, await arun(chain_answer(question, chains_of(found), reading), outside))

    return RunnableLambda(answer, aanswer, name="chain_answer")

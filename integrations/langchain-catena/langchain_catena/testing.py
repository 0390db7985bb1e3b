"""Any LangChain class as a subject of the conformance suites in `catena.testing`: ours, and your own.

    subject = retriever_subject(my_retriever, ["How tight are the screws?", "Which fuse is it?"])
    assert problems_of_retriever(subject) == ()

A subject is a frozen dataclass: `dataclasses.replace(subject, filtering=…, failures=…)` adds what only you know.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import BaseDocumentCompressor, BaseDocumentTransformer, Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever

from catena.model import SOURCE
from catena.testing import (
    DividerSubject,
    EmbedderSubject,
    EvaluatorSubject,
    Found,
    FusionSubject,
    RerankerSubject,
    RetrieverSubject,
)
from langchain_catena.convert import PROVENANCE, RAW_TEXT, SCORE, to_core_document, told_of

BLANK = Document(id="blank", page_content=" \n\n", metadata={SOURCE: "blank.md"})


def found_of(document: Document) -> Found:
    """Return a document in the suites' words.

    Its score is `metadata["relevance_score"]`, as every LangChain reranker writes it; its routes and what failed
    stand in `metadata["catena"]`; its place in `document_id` (else `source`), `start_index` and `end_index`.
    """
    metadata = document.metadata
    told = told_of(document)
    start, text = metadata.get("start_index"), metadata.get(RAW_TEXT, document.page_content)
    end = metadata.get("end_index", None if start is None else start + len(text))
    score = metadata.get(SCORE)
    return Found(
        id=document.id,
        text=document.page_content,
        score=None if score is None else float(score),
        metadata=metadata,
        routes=tuple(str(way["route"]) for way in told.get("routes", ())),
        told=tuple(map(str, told.get("degraded", ()))),
        document_id=metadata.get("document_id") or metadata.get(SOURCE),
        start=start,
        end=end,
        slice_text=metadata.get(RAW_TEXT),
    )


def retriever_subject(
    retriever: BaseRetriever,
    queries: Sequence[str],
    *,
    k_option: str | None = "k",
    documents: Iterable[Document] = (),
    given: Sequence[Document] = (),
    name: str | None = None,
) -> RetrieverSubject:
    """Return a retriever as a subject of `catena.testing.ranking_conformance`.

    Args:
        retriever: any.
        queries: at least two that find something.
        k_option: what `invoke` takes to return so many at most; None where it takes none.
        documents: whole, of which what is found is slices; none, and offsets are not looked at.
        given: documents that the retriever holds, which it shall not change.
        name: for the report; the class by default.
    """
    texts = _texts(documents)

    async def aask(query: str) -> list[Found]:
        return _found(await retriever.ainvoke(query))

    async def abatch(several: list[str]) -> list[list[Found]]:
        return [_found(found) for found in await retriever.abatch(several)]

    return RetrieverSubject(
        name=name or type(retriever).__name__,
        queries=queries,
        ask=lambda query: _found(retriever.invoke(query)),
        aask=aask,
        batch=lambda several: [_found(found) for found in retriever.batch(several)],
        abatch=abatch,
        ask_k=None
        if k_option is None
        else lambda query, k: _found(retriever.invoke(query, None, **{str(k_option): k})),
        snapshot=_snapshot(given) if given else None,
        text_of=texts.__getitem__ if texts else None,
        nested=(PROVENANCE,),
    )


def transformer_subject(
    transformer: BaseDocumentTransformer,
    documents: Sequence[Document],
    *,
    sliced: bool = True,
    alone: bool = True,
    pickled: bool = True,
    name: str | None = None,
) -> DividerSubject:
    """Return a document transformer or a text splitter as a subject of `catena.testing.divider_conformance`.

    Args:
        transformer: any; `add_start_index=True` where a splitter offers it.
        documents: that it divides.
        sliced: whether pieces are slices that say where they stand.
        alone: whether a document gives the same pieces without the others.
        pickled: whether a pickled copy shall work, as worker processes need it.
        name: for the report; the class by default.
    """

    def made(of: Sequence[Document], by: BaseDocumentTransformer = transformer) -> list[Found]:
        return _found(by.transform_documents(of))

    async def amake() -> list[Found]:
        return _found(await transformer.atransform_documents(documents))

    return DividerSubject(
        name=name or type(transformer).__name__,
        make=lambda: made(documents),
        amake=amake,
        one_by_one=(lambda: [one for document in documents for one in made([document])]) if alone else None,
        empty=lambda: made([]),
        blank=lambda: made([BLANK]),
        snapshot=_snapshot(documents),
        text_of=_texts(documents).__getitem__ if sliced else None,
        copies={"pickle": lambda: made(documents, pickle.loads(pickle.dumps(transformer)))} if pickled else {},
    )


def loader_subject(build: Callable[[], BaseLoader], *, name: str | None = None) -> DividerSubject:
    """Return a loader as a subject of `catena.testing.divider_conformance`.

    Args:
        build: makes the loader, once per call.
        name: for the report; the class by default.
    """

    async def amake() -> list[Found]:
        return _found(await build().aload())

    return DividerSubject(
        name=name or type(build()).__name__,
        make=lambda: _found(build().load()),
        amake=amake,
        copies={
            "lazy_load": lambda: _found(build().lazy_load()),
            "pickle": lambda: _found(pickle.loads(pickle.dumps(build())).load()),
        },
    )


def compressor_subject(
    compressor: BaseDocumentCompressor,
    documents: Sequence[Document],
    query: str,
    *,
    selects: bool = True,
    whole: Iterable[Document] = (),
    limited: Callable[[int], BaseDocumentCompressor] | None = None,
    name: str | None = None,
) -> RerankerSubject:
    """Return a document compressor as a subject of `catena.testing.ranking_conformance`.

    Args:
        compressor: any: a reranker, or what makes other documents of those found.
        documents: that it is given.
        query: that some of them answer.
        selects: whether it returns some of what it is given, with ids and texts.
        whole: the documents of which what it returns is slices; none, and offsets are not looked at.
        limited: makes it anew so that it returns so many at most.
        name: for the report; the class by default.
    """
    texts = _texts(whole)

    def rerank(question: str, by: BaseDocumentCompressor = compressor, *, empty: bool = False) -> list[Found]:
        return _found(by.compress_documents([] if empty else documents, question))

    async def arerank(question: str) -> list[Found]:
        return _found(await compressor.acompress_documents(documents, question))

    return RerankerSubject(
        name=name or type(compressor).__name__,
        query=query,
        rerank=rerank,
        arerank=arerank,
        given=_found(documents),
        selects=selects,
        rerank_k=None if limited is None else lambda question, k: rerank(question, limited(k)),
        snapshot=_snapshot(documents),
        text_of=texts.__getitem__ if texts else None,
        nested=(PROVENANCE,),
    )


def embeddings_subject(embeddings: Embeddings, *, unit: bool = True, name: str | None = None) -> EmbedderSubject:
    """Return embeddings as a subject of `catena.testing.embedder_conformance`.

    Args:
        embeddings: any.
        unit: whether their vectors have length 1.
        name: for the report; the class by default.
    """
    return EmbedderSubject(
        name=name or type(embeddings).__name__,
        embed=embeddings.embed_documents,
        aembed=embeddings.aembed_documents,
        embed_query=embeddings.embed_query,
        aembed_query=embeddings.aembed_query,
        unit=unit,
        copies={"pickle": lambda texts: pickle.loads(pickle.dumps(embeddings)).embed_documents(texts)},
    )


def evaluator_subject(
    evaluator: Callable[[Any, Any], Mapping[str, Any]],
    *,
    cutoff: int | None = None,
    documents: str = "documents",
    relevant: str = "relevant",
    name: str | None = None,
) -> EvaluatorSubject:
    """Return a LangSmith row evaluator of rankings as a subject of `catena.testing.evaluator_conformance`.

    Args:
        evaluator: takes the target's outputs and the reference outputs, and returns a "score".
        cutoff: how many of the first it looks at.
        documents: key of the outputs under which the documents stand.
        relevant: key of the reference outputs under which their ids stand.
        name: for the report; the function's by default.
    """

    def judge(found: Sequence[str], wanted: Sequence[str]) -> float | None:
        outputs = {documents: [Document(id=id, page_content=id) for id in found]}
        score = evaluator(outputs, {relevant: list(wanted)})["score"]
        return None if score is None else float(score)

    named = name or str(getattr(evaluator, "__name__", type(evaluator).__name__))
    return EvaluatorSubject(name=named, judge=judge, cutoff=cutoff)


def fusion_subject(
    build: Callable[[list[BaseRetriever], list[float]], BaseRetriever],
    *,
    weighted: bool = True,
    name: str | None = None,
) -> FusionSubject:
    """Return a fusion of retrievers as a subject of `catena.testing.ranking_conformance`.

    Args:
        build: makes it of retrievers and their weights.
        weighted: whether the weights shall act.
        name: for the report; the class by default.
    """

    def fuse(
        routes: Sequence[Sequence[Found] | Exception], weights: Sequence[float], *, changed: bool = False
    ) -> list[Found]:
        given = [_Given(answer=route if isinstance(route, Exception) else _documents(route)) for route in routes]
        found = _found(build(list(given), list(weights)).invoke("any question"))
        held = [document for one in given if not isinstance(one.answer, Exception) for document in one.answer]
        return [_unscored(one) for one in _found(held)] if changed else found

    two: list[BaseRetriever] = [_Given(answer=[]), _Given(answer=[])]
    return FusionSubject(name=name or type(build(two, [1.0, 1.0])).__name__, fuse=fuse, weighted=weighted)


class _Given(BaseRetriever):
    """Answers any question with the documents that it holds, or fails with an exception."""

    answer: Any

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return list(self.answer)


def _documents(found: Sequence[Found]) -> list[Document]:
    """Return things as a vector store returns them with their scores: each time the same objects."""
    scores = ({} if one.score is None else {SCORE: one.score} for one in found)
    paired = zip(found, scores, strict=True)
    return [Document(id=one.id, page_content=one.text, metadata={**one.metadata, **score}) for one, score in paired]


def _unscored(found: Found) -> Found:
    return replace(found, metadata={key: value for key, value in found.metadata.items() if key != SCORE})


def _found(documents: Iterable[Document]) -> list[Found]:
    return [found_of(document) for document in documents]


def _snapshot(documents: Sequence[Document]) -> Callable[[], list[Any]]:
    return lambda: [document.model_copy(deep=True) for document in documents]


def _texts(documents: Iterable[Document]) -> dict[str, str]:
    """Return texts by each id under which a slice may name its document."""
    texts: dict[str, str] = {}
    for document in documents:
        for id in (document.metadata.get(SOURCE), document.id, to_core_document(document).id):
            if id:
                texts[str(id)] = document.page_content
    return texts

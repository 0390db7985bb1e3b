"""Every LangChain adapter as cases of the conformance suites: over one small collection, with fake models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import conformance_world as shared
from adapter_faces import FACES
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document
from langchain_core.documents.base import Blob
from langchain_core.retrievers import BaseRetriever
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

import langchain_catena as adapters
from catena.retrieval import ViewRankFusion
from catena.testing import report_of_embedder
from catena.testing.conformance import ConformanceReport, Failure
from catena.testing.divider_conformance import report_of_divider
from catena.testing.evaluator_conformance import report_of_evaluator
from catena.testing.ranking_conformance import report_of_fusion
from langchain_catena import testing
from langchain_catena.evaluation import log_rank_evaluator, recall_evaluator


class Waiting(BaseRetriever):
    """A sync retriever behind a gate."""

    inner: BaseRetriever
    gate: Any

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        self.gate.pass_through()
        return self.inner.invoke(query)


class World(shared.World):
    """The collection in a vector store."""

    face, whole_sections = FACES[0], {"whole_sections": True}
    uncounted = frozenset({"CatenaSectionRetriever, budget"})

    @cached_property
    def store(self) -> InMemoryVectorStore:
        store = InMemoryVectorStore(self.embeddings)
        store.add_documents(self.passages)
        return store

    @property
    def kept(self) -> InMemoryVectorStore:
        return self.store

    @cached_property
    def graph(self) -> Any:
        return adapters.build_graph(self.passages, self.embeddings)

    @cached_property
    def pictures(self) -> list[Document]:
        return shared.pictures(self.face, self.folder)

    def searching(self, k: int = 6) -> BaseRetriever:
        return self.store.as_retriever(search_kwargs={"k": k})

    def waiting(self) -> Waiting:
        return Waiting(inner=self.searching(), gate=self.gate)

    def views(self, **how: Any) -> BaseRetriever:
        views, stores = adapters.CatenaViewTransformer(), (InMemoryVectorStore(self.embeddings), InMemoryStore())
        stores[0].add_documents(views.transform_documents(self.sections))
        stores[1].mset(views.parents(self.sections))
        own = dict(zip(("vectorstore", "docstore"), stores, strict=True))
        return adapters.CatenaMultiViewRetriever(**own, views=views.kinds, rule=ViewRankFusion(), **how)

    def trees(self, **how: Any) -> BaseRetriever:
        embeddings = adapters.CatenaEmbeddings(shared.GatedEmbedder(self.gate))
        trees = adapters.build_trees(shared.remarks(self.face), embeddings, options=shared.TREE)
        return adapters.CatenaTreeRetriever(trees=trees, embeddings=embeddings, **how)

    def subject(self, retriever: Any, queries: Any, counted: Any, **own: Any) -> Any:
        return testing.retriever_subject(retriever, queries, k_option=None if counted is None else "k", **own)

    def stage(self, stage: Any, given: Any, **own: Any) -> Any:
        return testing.compressor_subject(stage, given, shared.QUERIES[0], whole=self.documents, **own)

    def divider(self, made: Any, given: Any, *, revived: bool, **own: Any) -> Any:
        subject = testing.transformer_subject(made, given, **own)
        if given is not self.passages:
            return subject
        texts = {testing.found_of(each).document_id: shared.MANUALS[each.metadata["source"]] for each in given}
        return replace(subject, text_of=texts.__getitem__)


def _fusion(world: World, name: str) -> ConformanceReport:
    def build(retrievers: list[BaseRetriever], weights: list[float]) -> BaseRetriever:
        names = [f"route {number}" for number in range(len(retrievers))] or ["none"]
        inner = dict(zip(names, retrievers, strict=False))
        return adapters.CatenaRetriever.over(inner, weights=dict(zip(names, weights, strict=False)), k=10)

    return report_of_fusion(testing.fusion_subject(build, name=name))


def _loader(world: World, name: str) -> ConformanceReport:
    broken = world.folder / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7 and nothing more")

    def load(paths: Any = (*world.paths, broken), **how: Any) -> Any:
        return lambda: [testing.found_of(one) for one in adapters.CatenaLoader(paths, **how).load()]

    return world.report(
        report_of_divider,
        testing.loader_subject(lambda: adapters.CatenaLoader(world.paths), name=name),
        one_by_one=lambda: [one for path in world.paths for one in load(path)()],
        empty=load([]),
        failures={"skip": Failure(call=load(on_error="skip")), "raise": Failure(call=load(), raises=True)},
    )


class _Blobs(BaseLoader):
    """Loads files by a parser of blobs."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths, self.parser = tuple(paths), adapters.CatenaBlobParser()

    def lazy_load(self) -> Iterator[Document]:
        for path in self.paths:
            yield from self.parser.lazy_parse(Blob.from_path(path))


def _blobs(world: World, name: str) -> ConformanceReport:
    empty = lambda: [testing.found_of(one) for one in _Blobs([]).load()]  # noqa: E731
    return world.report(
        report_of_divider, testing.loader_subject(lambda: _Blobs(world.paths), name=name), empty=empty
    )


def _of_evaluator(evaluator: Any, cutoff: int | None = None) -> shared.Case:
    return lambda world, name: world.report(
        report_of_evaluator, testing.evaluator_subject(evaluator, cutoff=cutoff, name=name)
    )


_CASES: dict[str, shared.Case] = {
    "CatenaLoader": _loader,
    "CatenaDocumentTransformer": shared.DIVIDERS["chunks"],
    "CatenaDocumentTransformer, headed": shared.Dividing(
        kind="CatenaDocumentTransformer", how=lambda world: {**shared.SHORT_CHUNKS, "content": "headed"}
    ),
    "CatenaDocumentTransformer, by meaning": shared.DIVIDERS["by meaning"],
    "CatenaAtomicTransformer": shared.DIVIDERS["units"],
    "CatenaCaptionTransformer": shared.DIVIDERS["captions"],
    "CatenaBlobParser": _blobs,
    "CatenaEntityTransformer": shared.DIVIDERS["entities"],
    "CatenaViewTransformer": shared.DIVIDERS["views"],
    "CatenaRetriever": shared.RETRIEVERS["library"],
    "CatenaRetriever, sections": shared.RETRIEVERS["sections"],
    "CatenaRetriever.over": shared.RETRIEVERS["over"],
    "CatenaRetriever.over, fusion": _fusion,
    "CatenaSectionRetriever": shared.Searching(make=shared.with_k("CatenaSectionRetriever", 3, library="library")),
    "CatenaSectionRetriever, budget": shared.Searching(
        make=lambda world: adapters.CatenaSectionRetriever(library=world.library, budget_tokens=120),
        degrades=False,
        where=None,
    ),
    "CatenaFigureRetriever": shared.RETRIEVERS["figures"],
    "CatenaSegmentRetriever": shared.RETRIEVERS["segments"],
    "CatenaSegmentRetriever, retriever": shared.RETRIEVERS["segments over"],
    "CatenaMultiViewRetriever": shared.RETRIEVERS["views"],
    "CatenaMultiViewRetriever, retrievers": shared.RETRIEVERS["views over"],
    "CatenaGraphRetriever": shared.RETRIEVERS["graph"],
    "CatenaGraphRetriever, retriever": shared.RETRIEVERS["graph over"],
    "CatenaTreeRetriever": shared.RETRIEVERS["trees"],
    "CatenaRerank": shared.STAGES["rerank"],
    "CatenaSegmentExtractor": shared.STAGES["extractor"],
    "CatenaChainCompressor": shared.STAGES["chains"],
    "CatenaEmbeddings": lambda world, name: world.report(
        report_of_embedder, testing.embeddings_subject(adapters.CatenaEmbeddings(), name=name)
    ),
    "log_rank_evaluator": _of_evaluator(log_rank_evaluator(n=10)),
    "recall_evaluator": _of_evaluator(recall_evaluator(k=5), 5),
}
CASES: dict[str, Callable[[World], ConformanceReport]] = {
    name: partial(case, name=name) for name, case in _CASES.items()
}

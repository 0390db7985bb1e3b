"""Every LangChain adapter as cases of the conformance suites: over one small collection, with fake models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document
from langchain_core.documents.base import Blob
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_fakes import ReplyingChatModel, charts

import langchain_catena as adapters
from catena import Library
from catena.effects import Services
from catena.enrichment import CodeDetector, ContextOptions, Keywords, LLMDetector
from catena.graph import GraphSearch, SimilarityScorer
from catena.library import Preparation
from catena.retrieval import ViewRankFusion
from catena.segments import ExtractionParams, Identity
from catena.structure import EmbeddingOptions, SectionChunkOptions, SegmentOptions
from catena.testing import (
    DividerSubject,
    FakeCaptioner,
    FakeEmbedder,
    FakeReranker,
    RerankerSubject,
    RetrieverSubject,
    report_of_embedder,
    report_of_reranker,
    report_of_retriever,
)
from catena.testing.conformance import ConformanceReport, Detector, Failure, Meeting
from catena.testing.divider_conformance import report_of_divider
from catena.testing.evaluator_conformance import report_of_evaluator
from catena.testing.ranking_conformance import Filtering, report_of_fusion
from catena_bench.baselines import Clustering, ClusterSummaries, RaptorOptions
from langchain_catena.evaluation import log_rank_evaluator, recall_evaluator
from langchain_catena.testing import (
    compressor_subject,
    embeddings_subject,
    evaluator_subject,
    found_of,
    fusion_subject,
    loader_subject,
    retriever_subject,
    transformer_subject,
)

MANUAL = """# {name} Manual

## Mounting

Tighten the cover screws to {torque} Nm. Use the supplied key, and never a longer one.

## Maintenance

Check the seal of the cover every {months} months. The lever opens the housing without force.

## Power

The fuse of the motor holds {fuse} A at most.

| Parameter | Value |
|---|---|
| Fuse | {fuse} A |
| Torque | {torque} Nm |
"""
MANUALS = {
    f"{name.lower()}.md": MANUAL.format(name=name, torque=torque, months=months, fuse=fuse)
    for name, torque, months, fuse in (("HX200", "3.2", 6, "2"), ("HX210", "4.5", 12, "4"), ("KL30", "7.5", 24, "9"))
}
QUERIES = (
    "How tight are the cover screws of the HX200?",
    "Which fuse has the motor of the HX210?",
    "seal of the cover",
)
UNKNOWN = "How tight are the cover screws of the HX999?"
SHORT = ExtractionParams(length_adjustment="off", overall_max_chunks=12)  # the chunks are short
HOW = GraphSearch(scorer=SimilarityScorer())


class Gate:
    """Lets calls through, or to a meeting, or fails."""

    def __init__(self) -> None:
        self.meeting: Meeting | None = None
        self.broken = False

    def pass_through(self) -> None:
        if self.broken:
            raise ValueError("the endpoint is down")  # which is not tried again
        if self.meeting is not None:
            self.meeting.arrive()


class GatedEmbedder(FakeEmbedder):
    """An embedder behind a gate; deterministic, like its parent."""

    def __init__(self, gate: Gate) -> None:
        super().__init__(dim=48)
        self.gate = gate

    def embed_query(self, text: str) -> Any:
        self.gate.pass_through()
        return super().embed_query(text)


class Waiting(BaseRetriever):
    """A sync retriever behind a gate."""

    inner: BaseRetriever
    gate: Any

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        self.gate.pass_through()
        return self.inner.invoke(query)


class BagOfWords(Embeddings):
    """Vectors of hashed words, in plain floats."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [float(number) for number in FakeEmbedder(dim=48).embed_query(text)]


class World:
    """The collection in a library, in a vector store, and as splits; each made when it is first asked for."""

    def __init__(self, folder: Path, detector: Detector | None = None) -> None:
        self.folder, self.detector = folder, detector
        self.gate = Gate()
        for name, text in MANUALS.items():
            (folder / name).write_text(text, encoding="utf-8", newline="")
        (folder / "charts.pdf").write_bytes(charts())
        self.paths = sorted(folder.glob("*.md"))
        self._open: list[Library] = []

    def close(self) -> None:
        for library in self._open:
            library.close()

    @cached_property
    def documents(self) -> list[Document]:
        """The manuals whole."""
        return [Document(page_content=text, metadata={"source": name}) for name, text in MANUALS.items()]

    @cached_property
    def splits(self) -> list[Document]:
        return adapters.CatenaDocumentTransformer(max_tokens=60, min_tokens=5).split_documents(self.documents)

    @cached_property
    def sections(self) -> list[Document]:
        return adapters.CatenaDocumentTransformer(chunks=SectionChunkOptions()).split_documents(self.documents)

    @cached_property
    def library(self) -> Library:
        preparation = Preparation()
        library = Library.open(self.folder / "library", preparation=preparation, embedder=GatedEmbedder(self.gate))
        self._open.append(library)
        library.index(self.paths)
        library.build_graph()
        return library

    @cached_property
    def figures(self) -> Library:
        preparation = Preparation(engine="pypdfium2", figures=True)
        library = Library.open(
            self.folder / "figures",
            preparation=preparation,
            embedder=GatedEmbedder(self.gate),
            services=Services(captioner=FakeCaptioner()),
        )
        self._open.append(library)
        library.index(self.folder / "charts.pdf")
        return library

    @cached_property
    def whole(self) -> list[Document]:
        """The library's documents, under its ids."""
        return _whole(self.library)

    @cached_property
    def store(self) -> InMemoryVectorStore:
        store = InMemoryVectorStore(BagOfWords())
        store.add_documents(self.splits)
        return store

    @cached_property
    def graph(self) -> Any:
        return adapters.build_graph(self.splits, BagOfWords())

    @cached_property
    def hits(self) -> list[Document]:
        """What the store finds, as a calibrated reranker returns it."""
        rerank = adapters.CatenaRerank(reranker=FakeReranker(), calibration=Identity())
        return rerank.compress_documents(self.store.similarity_search(QUERIES[0], k=6), QUERIES[0])

    def waiting(self, inner: BaseRetriever | None = None) -> Waiting:
        return Waiting(inner=inner or self.store.as_retriever(search_kwargs={"k": 6}), gate=self.gate)

    @contextmanager
    def broken(self) -> Iterator[None]:
        self.gate.broken = True
        try:
            yield
        finally:
            self.gate.broken = False

    def failing(self, retriever: BaseRetriever, *, raises: bool = False) -> Failure:
        """What a retriever does while what is behind the gate fails."""

        def call() -> Any:
            with self.broken():
                return [found_of(document) for document in retriever.invoke(QUERIES[0])]

        return Failure(call=call, raises=raises)

    def meeting(self, subject: RetrieverSubject | DividerSubject) -> Callable[[Meeting], Any]:
        """Let the calls of a subject meet at the gate."""

        def built(meeting: Meeting) -> Any:
            self.gate.meeting = meeting
            return subject.aask if isinstance(subject, RetrieverSubject) else subject.amake

        return built

    # Cases.

    def retriever(self, retriever: BaseRetriever, queries: Sequence[str] = QUERIES, **more: Any) -> ConformanceReport:
        binding = {key: more.pop(key) for key in ("documents", "given", "name", "k_option") if key in more}
        subject = retriever_subject(retriever, queries, **binding)
        subject = replace(subject, **{"meeting": self.meeting(subject), **more})
        return self._ended(report_of_retriever(subject, blocking_detector=self.detector))

    def divider(self, subject: DividerSubject, **more: Any) -> ConformanceReport:
        return self._ended(report_of_divider(replace(subject, **more), blocking_detector=self.detector))

    def reranker(self, subject: RerankerSubject, **more: Any) -> ConformanceReport:
        return self._ended(report_of_reranker(replace(subject, **more), blocking_detector=self.detector))

    def _ended(self, report: ConformanceReport) -> ConformanceReport:
        self.gate.meeting = None
        return report


def _whole(library: Library) -> list[Document]:
    entries = [library.get(info.id) for info in library.documents()]
    return [Document(id=entry.document.id, page_content=entry.document.text) for entry in entries]


def by_title(retriever: BaseRetriever) -> Filtering:
    return Filtering(
        ask=lambda query, where: [found_of(document) for document in retriever.invoke(query, where=where)],
        where={"title": "HX200 Manual"},
        keeps=lambda found: found.metadata.get("title") == "HX200 Manual",
        unknown={"title": {"$like": "HX"}},
    )


def _library_retriever(world: World) -> ConformanceReport:
    retriever = adapters.CatenaRetriever(library=world.library, k=5)
    return world.retriever(
        retriever,
        documents=world.whole,
        filtering=by_title(retriever),
        nothing=UNKNOWN,
        failures={
            "the embedder fails": world.failing(retriever),
            "the embedder fails, raise": world.failing(
                adapters.CatenaRetriever(library=world.library, on_route_error="raise"), raises=True
            ),
        },
    )


def _over_retrievers(world: World) -> ConformanceReport:
    inner = {"dense": world.waiting(), "other": world.store.as_retriever(search_kwargs={"k": 4})}
    retriever = adapters.CatenaRetriever.over(inner, k=6)
    strict = adapters.CatenaRetriever.over(inner, on_route_error="raise")
    return world.retriever(
        retriever,
        name="CatenaRetriever.over",
        documents=world.documents,
        given=list(world.splits),
        failures={
            "a retriever fails": world.failing(retriever),
            "a retriever fails, raise": world.failing(strict, raises=True),
        },
    )


def _whole_sections(world: World) -> ConformanceReport:
    retriever = adapters.CatenaRetriever(library=world.library, k=5, whole_sections=True)
    return world.retriever(
        retriever,
        name="CatenaRetriever, sections",
        documents=world.whole,
        filtering=by_title(retriever),
        nothing=UNKNOWN,
        failures={"the embedder fails": world.failing(retriever)},
    )


def _fusion(world: World) -> ConformanceReport:
    def build(retrievers: list[BaseRetriever], weights: list[float]) -> BaseRetriever:
        names = [f"route {number}" for number in range(len(retrievers))] or ["none"]
        return adapters.CatenaRetriever.over(
            dict(zip(names, retrievers, strict=False)), weights=dict(zip(names, weights, strict=False)), k=10
        )

    return report_of_fusion(fusion_subject(build, name="CatenaRetriever.over, fusion"))


def _sections(world: World) -> ConformanceReport:
    retriever = adapters.CatenaSectionRetriever(library=world.library, k=3)
    return world.retriever(
        retriever,
        documents=world.whole,
        filtering=by_title(retriever),
        nothing=UNKNOWN,
        failures={"the embedder fails": world.failing(retriever)},
    )


def _passages(world: World) -> ConformanceReport:
    retriever = adapters.CatenaSectionRetriever(library=world.library, budget_tokens=120)
    return world.retriever(
        retriever, name="CatenaSectionRetriever, budget", k_option=None, documents=world.whole, nothing=UNKNOWN
    )


def _figures(world: World) -> ConformanceReport:
    retriever = adapters.CatenaFigureRetriever(library=world.figures, k=2)
    by_page = Filtering(
        ask=lambda query, where: [found_of(document) for document in retriever.invoke(query, where=where)],
        where={"page": 1},
        keeps=lambda found: found.metadata["figure_page"] == 1,
        unknown={"page": {"$like": "1"}},
    )
    queries = ("failures in each year", "pressure of the pumps")
    return world.retriever(
        retriever, queries, filtering=by_page, failures={"the embedder fails": world.failing(retriever)}
    )


def _segments(world: World) -> ConformanceReport:
    retriever = adapters.CatenaSegmentRetriever(library=world.library)
    return world.retriever(
        retriever,
        documents=world.whole,
        filtering=by_title(retriever),
        nothing=UNKNOWN,
        best_first=False,
        failures={"the embedder fails": world.failing(retriever)},
    )


def _segments_over(world: World) -> ConformanceReport:
    retriever = adapters.CatenaSegmentRetriever(retriever=world.waiting(), neighbours=world.store)
    return world.retriever(
        retriever,
        name="CatenaSegmentRetriever, retriever",
        documents=world.documents,
        given=list(world.splits),
        best_first=False,
        failures={"the retriever fails": world.failing(retriever, raises=True)},
    )


def _views(world: World) -> ConformanceReport:
    views = adapters.CatenaViewTransformer()
    store = InMemoryVectorStore(BagOfWords())
    store.add_documents(views.transform_documents(world.sections))
    parents = InMemoryStore()
    parents.mset(views.parents(world.sections))
    return world.retriever(
        adapters.CatenaMultiViewRetriever(
            vectorstore=store, docstore=parents, views=views.kinds, rule=ViewRankFusion(), k=4
        ),
        documents=world.documents,
        given=list(world.sections),
        meeting=None,  # the store is asked in threads of its own
    )


def _views_over(world: World) -> ConformanceReport:
    inner = {"raw": world.waiting(), "other": world.store.as_retriever(search_kwargs={"k": 6})}
    retriever = adapters.CatenaMultiViewRetriever(retrievers=inner, k=4)
    strict = adapters.CatenaMultiViewRetriever(retrievers=inner, on_view_error="raise")
    return world.retriever(
        retriever,
        name="CatenaMultiViewRetriever, retrievers",
        documents=world.documents,
        given=list(world.splits),
        failures={
            "a view fails": world.failing(retriever),
            "a view fails, raise": world.failing(strict, raises=True),
        },
    )


def _graph(world: World) -> ConformanceReport:
    retriever = adapters.CatenaGraphRetriever(library=world.library, how=HOW, k=5)
    return world.retriever(
        retriever,
        documents=world.whole,
        filtering=by_title(retriever),
        nothing=UNKNOWN,
        failures={"the embedder fails": world.failing(retriever)},
    )


def _graph_over(world: World) -> ConformanceReport:
    own: dict[str, Any] = {"retriever": world.waiting(), "graph": world.graph, "embeddings": BagOfWords(), "how": HOW}
    retriever = adapters.CatenaGraphRetriever(**own, k=5)
    strict = adapters.CatenaGraphRetriever(**own, on_retriever_error="raise")
    return world.retriever(
        retriever,
        name="CatenaGraphRetriever, retriever",
        documents=world.documents,
        given=list(world.splits),
        failures={
            "the retriever fails": world.failing(retriever),
            "the retriever fails, raise": world.failing(strict, raises=True),
        },
    )


def _transformer(world: World) -> ConformanceReport:
    transformer = adapters.CatenaDocumentTransformer(max_tokens=60, min_tokens=5)
    return world.divider(transformer_subject(transformer, world.documents))


def _transformer_headed(world: World) -> ConformanceReport:
    transformer = adapters.CatenaDocumentTransformer(max_tokens=60, min_tokens=5, content="headed")
    return world.divider(transformer_subject(transformer, world.documents, name="CatenaDocumentTransformer, headed"))


def refusing(_: Any) -> str:
    raise ValueError("the model is down")  # which is not tried again


def _segmentation(world: World) -> ConformanceReport:
    def by(model: ReplyingChatModel) -> adapters.CatenaDocumentTransformer:
        return adapters.CatenaDocumentTransformer(
            segmentation=SegmentOptions(), context=ContextOptions(), llm=model, content="context"
        )

    down = by(ReplyingChatModel(reply=refusing))
    embedded = adapters.CatenaDocumentTransformer(segmentation=EmbeddingOptions(), embeddings=BagOfWords())
    failure = Failure(call=lambda: [found_of(one) for one in down.transform_documents(world.documents)])
    subject = transformer_subject(embedded, world.documents, name="CatenaDocumentTransformer, by meaning")
    return world.divider(subject, failures={"the model fails": failure})


def _entities(world: World) -> ConformanceReport:
    def by(**how: Any) -> Any:
        model = ReplyingChatModel(reply=refusing)
        transformer = adapters.CatenaEntityTransformer([CodeDetector(), LLMDetector()], llm=model, **how)
        return lambda: [found_of(one) for one in transformer.transform_documents(world.splits)]

    return world.divider(
        transformer_subject(adapters.CatenaEntityTransformer(), world.splits),
        text_of={found_of(one).document_id: one_text for one, one_text in _texts_of_splits(world)}.__getitem__,
        failures={
            "the model fails": Failure(call=by()),
            "the model fails, raise": Failure(call=by(on_error="raise"), raises=True),
        },
    )


def _texts_of_splits(world: World) -> Iterator[tuple[Document, str]]:
    for split in world.splits:
        yield split, MANUALS[split.metadata["source"]]


def _view_making(world: World) -> ConformanceReport:
    down = adapters.CatenaViewTransformer(["raw", Keywords()], llm=ReplyingChatModel(reply=refusing))
    failure = Failure(call=lambda: [found_of(one) for one in down.transform_documents(world.sections)])
    return world.divider(
        transformer_subject(adapters.CatenaViewTransformer(), world.sections, sliced=False, alone=False),
        failures={"the model fails": failure},
    )


def _loader(world: World) -> ConformanceReport:
    broken = world.folder / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7 and nothing more")

    def load(**how: Any) -> Any:
        return lambda: [found_of(one) for one in adapters.CatenaLoader([*world.paths, broken], **how).load()]

    subject = loader_subject(lambda: adapters.CatenaLoader(world.paths))
    return world.divider(
        subject,
        one_by_one=lambda: [found_of(one) for path in world.paths for one in adapters.CatenaLoader(path).load()],
        empty=lambda: [found_of(one) for one in adapters.CatenaLoader([]).load()],
        failures={
            "a file is broken": Failure(call=load(on_error="skip")),
            "a file is broken, raise": Failure(call=load(), raises=True),
        },
    )


class GatedReranker(FakeReranker):
    """A reranker behind a gate."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self.gate = gate

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        self.gate.pass_through()
        return super().score(query, texts)


def _rerank(world: World) -> ConformanceReport:
    reranker, given = GatedReranker(world.gate), world.store.similarity_search(QUERIES[0], k=6)

    def limited(k: int | None = None, **how: Any) -> adapters.CatenaRerank:
        return adapters.CatenaRerank(reranker=reranker, calibration=Identity(), top_n=k, **how)

    def failing(**how: Any) -> Failure:
        def call() -> Any:
            with world.broken():
                return [found_of(one) for one in limited(**how).compress_documents(given, QUERIES[0])]

        return Failure(call=call, raises=how["on_failure"] == "raise")

    subject = compressor_subject(limited(), given, QUERIES[0], whole=world.documents, limited=limited)
    return world.reranker(
        subject,
        meeting=_reranking(world, subject),
        failures={
            "the reranker fails": failing(on_failure="rank"),
            "the reranker fails, raise": failing(on_failure="raise"),
        },
    )


def _reranking(world: World, subject: RerankerSubject) -> Any:
    def built(meeting: Meeting) -> Any:
        world.gate.meeting = meeting
        return lambda: subject.arerank(subject.query)

    return built


def _extractor(world: World) -> ConformanceReport:
    extractor = adapters.CatenaSegmentExtractor(neighbours=world.store, params=SHORT)
    subject = compressor_subject(extractor, world.hits, QUERIES[0], selects=False, whole=world.documents)
    return world.reranker(subject, best_first=False)


def _chains(world: World) -> ConformanceReport:
    def limited(k: int) -> adapters.CatenaChainCompressor:
        return adapters.CatenaChainCompressor(graph=world.graph, embeddings=BagOfWords(), how=HOW, k=k)

    given = world.store.similarity_search(QUERIES[0], k=4)
    return world.reranker(
        compressor_subject(limited(8), given, QUERIES[0], selects=False, whole=world.documents, limited=limited)
    )


def divided(messages: list[Any]) -> str:
    """Divide a passage into sentences, as a model should: one per line."""
    passage = messages[-1].text.split("<passage>\n")[1].split("\n</passage>")[0]
    return "\n".join(f"{part.strip()}." for part in passage.replace("\n", ". ").split(". ") if part.strip())


def _atomic(world: World) -> ConformanceReport:
    transformer = adapters.CatenaAtomicTransformer(llm=ReplyingChatModel(reply=divided))
    down = adapters.CatenaAtomicTransformer(llm=ReplyingChatModel(reply=refusing))
    failure = Failure(call=lambda: [found_of(one) for one in down.transform_documents(world.documents)])
    subject = transformer_subject(transformer, world.documents)
    return world.divider(subject, failures={"the model fails": failure})


def seeing(_: Any) -> str:
    return "A cover with six screws."


def _captions(world: World) -> ConformanceReport:
    picture = world.folder / "picture.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n picture")
    shown = Document(id="i", page_content="Figure 1", metadata={"figure_file": str(picture)})
    given = [shown, Document(id="t", page_content="No picture.")]
    down = adapters.CatenaCaptionTransformer(llm=ReplyingChatModel(reply=refusing))
    failure = Failure(call=lambda: [found_of(one) for one in down.transform_documents(given)])
    transformer = adapters.CatenaCaptionTransformer(llm=ReplyingChatModel(reply=seeing))
    return world.divider(transformer_subject(transformer, given, sliced=False), failures={"the model fails": failure})


class _Blobs(BaseLoader):
    """Loads files by a parser of blobs."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths, self.parser = tuple(paths), adapters.CatenaBlobParser()

    def lazy_load(self) -> Iterator[Document]:
        for path in self.paths:
            yield from self.parser.lazy_parse(Blob.from_path(path))


def _blobs(world: World) -> ConformanceReport:
    subject = loader_subject(lambda: _Blobs(world.paths), name="CatenaBlobParser")
    return world.divider(subject, empty=lambda: [found_of(one) for one in _Blobs([]).load()])


def remarks() -> list[Document]:
    """Remarks on four things, enough for a tree."""
    things = ("pump pressure bar", "valve opening spring", "fuse ampere current", "cover screw torque")
    texts = [f"Remark {number} on {things[number % 4]}." for number in range(16)]
    return [
        Document(id=f"r{number}", page_content=text, metadata={"source": "r.md"}) for number, text in enumerate(texts)
    ]


def _trees(world: World) -> ConformanceReport:
    options = RaptorOptions(summaries=ClusterSummaries(by="offline"), clustering=Clustering(dimensions=3))
    given, embeddings = remarks(), adapters.CatenaEmbeddings(GatedEmbedder(world.gate))
    trees = adapters.build_trees(given, embeddings, options=options)
    retriever = adapters.CatenaTreeRetriever(trees=trees, embeddings=embeddings, k=4)
    failures = {"the embedder fails, raise": world.failing(retriever, raises=True)}
    return world.retriever(retriever, ("pump pressure", "cover screw torque"), given=given, failures=failures)


def _embeddings(world: World) -> ConformanceReport:
    return report_of_embedder(embeddings_subject(adapters.CatenaEmbeddings()), blocking_detector=world.detector)


def _log_rank(world: World) -> ConformanceReport:
    subject = evaluator_subject(log_rank_evaluator(n=10), name="log_rank_evaluator")
    return report_of_evaluator(subject, blocking_detector=world.detector)


def _recall(world: World) -> ConformanceReport:
    subject = evaluator_subject(recall_evaluator(k=5), cutoff=5, name="recall_evaluator")
    return report_of_evaluator(subject, blocking_detector=world.detector)


CASES: dict[str, Callable[[World], ConformanceReport]] = {
    "CatenaLoader": _loader,
    "CatenaDocumentTransformer": _transformer,
    "CatenaDocumentTransformer, headed": _transformer_headed,
    "CatenaDocumentTransformer, by meaning": _segmentation,
    "CatenaAtomicTransformer": _atomic,
    "CatenaCaptionTransformer": _captions,
    "CatenaBlobParser": _blobs,
    "CatenaEntityTransformer": _entities,
    "CatenaViewTransformer": _view_making,
    "CatenaRetriever": _library_retriever,
    "CatenaRetriever, sections": _whole_sections,
    "CatenaRetriever.over": _over_retrievers,
    "CatenaRetriever.over, fusion": _fusion,
    "CatenaSectionRetriever": _sections,
    "CatenaSectionRetriever, budget": _passages,
    "CatenaFigureRetriever": _figures,
    "CatenaSegmentRetriever": _segments,
    "CatenaSegmentRetriever, retriever": _segments_over,
    "CatenaMultiViewRetriever": _views,
    "CatenaMultiViewRetriever, retrievers": _views_over,
    "CatenaGraphRetriever": _graph,
    "CatenaGraphRetriever, retriever": _graph_over,
    "CatenaTreeRetriever": _trees,
    "CatenaRerank": _rerank,
    "CatenaSegmentExtractor": _extractor,
    "CatenaChainCompressor": _chains,
    "CatenaEmbeddings": _embeddings,
    "log_rank_evaluator": _log_rank,
    "recall_evaluator": _recall,
}

"""Every LangChain adapter as cases of the conformance suites: over one small collection, with fake models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from conformance_world import HOW, MANUALS, QUERIES, SHORT, UNKNOWN, GatedEmbedder, GatedReranker, Libraries
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document
from langchain_core.documents.base import Blob
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_fakes import ReplyingChatModel

import langchain_catena as adapters
from catena.enrichment import CodeDetector, ContextOptions, Keywords, LLMDetector
from catena.retrieval import ViewRankFusion
from catena.segments import Identity
from catena.structure import EmbeddingOptions, SectionChunkOptions, SegmentOptions
from catena.testing import FakeEmbedder, FakeReranker, report_of_embedder, report_of_reranker, report_of_retriever
from catena.testing.conformance import ConformanceReport, Failure, Meeting
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

DOWN = ReplyingChatModel(reply=lambda _: 1 / 0)  # an error that is not tried again


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


class World(Libraries):
    """The collection in libraries, in a vector store, and as splits; each made when it is first asked for."""

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
    def whole(self) -> list[Document]:
        """The library's documents, under its ids."""
        entries = [self.library.get(info.id) for info in self.library.documents()]
        return [Document(id=entry.document.id, page_content=entry.document.text) for entry in entries]

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

    def found(self, k: int = 6) -> BaseRetriever:
        return self.store.as_retriever(search_kwargs={"k": k})

    def waiting(self) -> Waiting:
        return Waiting(inner=self.found(), gate=self.gate)

    def failing(self, call: Callable[[], Sequence[Document]], *, raises: bool = False) -> Failure:
        """What a call does while what is behind the gate fails."""

        def failed() -> Any:
            self.gate.broken = True
            try:
                return [found_of(document) for document in call()]
            finally:
                self.gate.broken = False

        return Failure(call=failed, raises=raises)

    def meeting(self, call: Callable[[], Any]) -> Callable[[Meeting], Any]:
        """Let calls meet at the gate."""

        def built(meeting: Meeting) -> Any:
            self.gate.meeting = meeting
            return call

        return built

    def report(self, of: Callable[..., ConformanceReport], subject: Any, **more: Any) -> ConformanceReport:
        report = of(replace(subject, **more), blocking_detector=self.detector)
        self.gate.meeting = None
        return report


Case = Callable[[World, str], ConformanceReport]


def by(name: str, value: Any, keeps: Callable[[Any], bool], unknown: str) -> Callable[[BaseRetriever], Filtering]:
    """Return a filter on one field, which `keeps` knows in what is found."""
    return lambda retriever: Filtering(
        ask=lambda query, where: [found_of(document) for document in retriever.invoke(query, where=where)],
        where={name: value},
        keeps=lambda found: keeps(found.metadata),
        unknown={name: {"$like": unknown}},
    )


BY_TITLE = by("title", "HX200 Manual", lambda metadata: metadata.get("title") == "HX200 Manual", "HX")
BY_PAGE = by("page", 1, lambda metadata: metadata["figure_page"] == 1, "1")


@dataclass(frozen=True, kw_only=True)
class Retriever:
    """A case of a retriever.

    Attributes:
        make: from the world and further options.
        of: what it finds slices of and holds: "library", or the world's documents of this name.
        degrades: whether it goes on where what is behind the gate fails.
        strict: options by which it raises then; None: it has none.
        filtering: made of it.
        more: fields of the subject.
    """

    make: Callable[..., BaseRetriever]
    of: str = "library"
    queries: Sequence[str] = QUERIES
    degrades: bool = True
    strict: Mapping[str, Any] | None = None
    filtering: Callable[[BaseRetriever], Filtering] | None = BY_TITLE
    k_option: str | None = "k"
    more: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, world: World, name: str) -> ConformanceReport:
        retriever, failures = self.make(world), {}
        if self.degrades:
            failures["it fails"] = world.failing(lambda: retriever.invoke(self.queries[0]))
        if self.strict is not None:
            strict = self.make(world, **self.strict)
            failures["it fails, raise"] = world.failing(lambda: strict.invoke(self.queries[0]), raises=True)
        own: dict[str, Any] = {"name": name, "k_option": self.k_option}
        more: dict[str, Any] = {"failures": failures, **self.more}
        if self.of == "library":
            own["documents"], more["nothing"] = world.whole, UNKNOWN
        elif self.of in ("splits", "sections"):
            own |= {"documents": world.documents, "given": list(getattr(world, self.of))}
        elif self.of == "remarks":
            own["given"] = REMARKS
        if self.filtering is not None and self.of in ("library", "figures"):
            more["filtering"] = self.filtering(retriever)
        subject = retriever_subject(retriever, self.queries, **own)
        return world.report(report_of_retriever, subject, **{"meeting": world.meeting(subject.aask), **more})


def _views(world: World) -> BaseRetriever:
    views, stores = adapters.CatenaViewTransformer(), (InMemoryVectorStore(BagOfWords()), InMemoryStore())
    stores[0].add_documents(views.transform_documents(world.sections))
    stores[1].mset(views.parents(world.sections))
    own = dict(zip(("vectorstore", "docstore"), stores, strict=True))
    return adapters.CatenaMultiViewRetriever(**own, views=views.kinds, rule=ViewRankFusion(), k=4)


def _graph_over(world: World, **how: Any) -> BaseRetriever:
    own = {"retriever": world.waiting(), "graph": world.graph, "embeddings": BagOfWords()}
    return adapters.CatenaGraphRetriever(**own, how=HOW, **{"k": 5, **how})


THINGS = ("pump pressure bar", "valve opening spring", "fuse ampere current", "cover screw torque")
REMARKS = [
    Document(id=f"r{n}", page_content=f"Remark {n} on {THINGS[n % 4]}.", metadata={"source": "r.md"})
    for n in range(16)
]  # enough for a tree


def _trees(world: World) -> BaseRetriever:
    options = RaptorOptions(summaries=ClusterSummaries(by="offline"), clustering=Clustering(dimensions=3))
    embeddings = adapters.CatenaEmbeddings(GatedEmbedder(world.gate))
    trees = adapters.build_trees(REMARKS, embeddings, options=options)
    return adapters.CatenaTreeRetriever(trees=trees, embeddings=embeddings, k=4)


LOUD: dict[str, Any] = {"on_route_error": "raise"}
RETRIEVERS: dict[str, Case] = {
    "CatenaRetriever": Retriever(
        make=lambda world, **how: adapters.CatenaRetriever(library=world.library, k=5, **how), strict=LOUD
    ),
    "CatenaRetriever, sections": Retriever(
        make=lambda world: adapters.CatenaRetriever(library=world.library, k=5, whole_sections=True)
    ),
    "CatenaRetriever.over": Retriever(
        make=lambda world, **how: adapters.CatenaRetriever.over(
            {"dense": world.waiting(), "other": world.found(4)}, **{"k": 6, **how}
        ),
        of="splits",
        strict=LOUD,
    ),
    "CatenaSectionRetriever": Retriever(
        make=lambda world: adapters.CatenaSectionRetriever(library=world.library, k=3)
    ),
    "CatenaSectionRetriever, budget": Retriever(
        make=lambda world: adapters.CatenaSectionRetriever(library=world.library, budget_tokens=120),
        degrades=False,
        filtering=None,
        k_option=None,
    ),
    "CatenaFigureRetriever": Retriever(
        make=lambda world: adapters.CatenaFigureRetriever(library=world.figures, k=2),
        of="figures",
        queries=("failures in each year", "pressure of the pumps"),
        filtering=BY_PAGE,
    ),
    "CatenaSegmentRetriever": Retriever(
        make=lambda world: adapters.CatenaSegmentRetriever(library=world.library), more={"best_first": False}
    ),
    "CatenaSegmentRetriever, retriever": Retriever(
        make=lambda world: adapters.CatenaSegmentRetriever(retriever=world.waiting(), neighbours=world.store),
        of="splits",
        degrades=False,
        strict={},
        more={"best_first": False},
    ),
    "CatenaMultiViewRetriever": Retriever(
        make=_views, of="sections", degrades=False, more={"meeting": None}
    ),  # the store is asked in threads of its own
    "CatenaMultiViewRetriever, retrievers": Retriever(
        make=lambda world, **how: adapters.CatenaMultiViewRetriever(
            retrievers={"raw": world.waiting(), "other": world.found()}, **{"k": 4, **how}
        ),
        of="splits",
        strict={"on_view_error": "raise"},
    ),
    "CatenaGraphRetriever": Retriever(
        make=lambda world: adapters.CatenaGraphRetriever(library=world.library, how=HOW, k=5)
    ),
    "CatenaGraphRetriever, retriever": Retriever(
        make=_graph_over, of="splits", strict={"on_retriever_error": "raise"}
    ),
    "CatenaTreeRetriever": Retriever(
        make=_trees, of="remarks", queries=("pump pressure", "cover screw torque"), degrades=False, strict={}
    ),
}


def _fusion(world: World, name: str) -> ConformanceReport:
    def build(retrievers: list[BaseRetriever], weights: list[float]) -> BaseRetriever:
        names = [f"route {number}" for number in range(len(retrievers))] or ["none"]
        inner = dict(zip(names, retrievers, strict=False))
        return adapters.CatenaRetriever.over(inner, weights=dict(zip(names, weights, strict=False)), k=10)

    return report_of_fusion(fusion_subject(build, name=name))


def divided(messages: list[Any]) -> str:
    """Divide a passage into sentences, as a model should: one per line."""
    passage = messages[-1].text.split("<passage>\n")[1].split("\n</passage>")[0]
    return "\n".join(f"{part.strip()}." for part in passage.replace("\n", ". ").split(". ") if part.strip())


def seeing(_: Any) -> str:
    return "A cover with six screws."


@dataclass(frozen=True, kw_only=True)
class Transformer:
    """A case of a transformer; `down` is one whose model fails, `loud` one that raises then."""

    made: Any
    down: Any = None
    loud: Any = None
    given: Callable[[World], list[Document]] = lambda world: world.documents
    how: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, world: World, name: str) -> ConformanceReport:
        given = self.given(world)
        failures = {
            str(raises): Failure(call=lambda by=by: list(map(found_of, by.transform_documents(given))), raises=raises)
            for by, raises in ((self.down, False), (self.loud, True))
            if by is not None
        }
        more: dict[str, Any] = {"failures": failures} if failures else {}
        if "Entity" in name:  # of chunks, which are slices of the manuals
            texts = {found_of(split).document_id: MANUALS[split.metadata["source"]] for split in given}
            more["text_of"] = texts.__getitem__
        return world.report(report_of_divider, transformer_subject(self.made, given, name=name, **self.how), **more)


def _pictures(world: World) -> list[Document]:
    picture = world.folder / "picture.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n picture")
    shown = Document(id="i", page_content="Figure 1", metadata={"figure_file": str(picture)})
    return [shown, Document(id="t", page_content="No picture.")]


SHORT_CHUNKS = {"max_tokens": 60, "min_tokens": 5}
BY_BOTH = [CodeDetector(), LLMDetector()]
TRANSFORMERS: dict[str, Case] = {
    "CatenaDocumentTransformer": Transformer(made=adapters.CatenaDocumentTransformer(**SHORT_CHUNKS)),
    "CatenaDocumentTransformer, headed": Transformer(
        made=adapters.CatenaDocumentTransformer(**SHORT_CHUNKS, content="headed")
    ),
    "CatenaDocumentTransformer, by meaning": Transformer(
        made=adapters.CatenaDocumentTransformer(segmentation=EmbeddingOptions(), embeddings=BagOfWords()),
        down=adapters.CatenaDocumentTransformer(
            segmentation=SegmentOptions(), context=ContextOptions(), llm=DOWN, content="context"
        ),
    ),
    "CatenaAtomicTransformer": Transformer(
        made=adapters.CatenaAtomicTransformer(llm=ReplyingChatModel(reply=divided)),
        down=adapters.CatenaAtomicTransformer(llm=DOWN),
    ),
    "CatenaCaptionTransformer": Transformer(
        made=adapters.CatenaCaptionTransformer(llm=ReplyingChatModel(reply=seeing)),
        down=adapters.CatenaCaptionTransformer(llm=DOWN),
        given=_pictures,
        how={"sliced": False},
    ),
    "CatenaEntityTransformer": Transformer(
        made=adapters.CatenaEntityTransformer(),
        down=adapters.CatenaEntityTransformer(BY_BOTH, llm=DOWN),
        loud=adapters.CatenaEntityTransformer(BY_BOTH, llm=DOWN, on_error="raise"),
        given=lambda world: world.splits,
    ),
    "CatenaViewTransformer": Transformer(
        made=adapters.CatenaViewTransformer(),
        down=adapters.CatenaViewTransformer(["raw", Keywords()], llm=DOWN),
        given=lambda world: world.sections,
        how={"sliced": False, "alone": False},
    ),
}


def _loader(world: World, name: str) -> ConformanceReport:
    broken = world.folder / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7 and nothing more")

    def load(paths: Any = (*world.paths, broken), **how: Any) -> Any:
        return lambda: [found_of(one) for one in adapters.CatenaLoader(paths, **how).load()]

    return world.report(
        report_of_divider,
        loader_subject(lambda: adapters.CatenaLoader(world.paths), name=name),
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
    empty = lambda: [found_of(one) for one in _Blobs([]).load()]  # noqa: E731
    return world.report(report_of_divider, loader_subject(lambda: _Blobs(world.paths), name=name), empty=empty)


def _rerank(world: World, name: str) -> ConformanceReport:
    reranker, given = GatedReranker(world.gate), world.store.similarity_search(QUERIES[0], k=6)

    def limited(k: int | None = None, **how: Any) -> adapters.CatenaRerank:
        return adapters.CatenaRerank(reranker=reranker, calibration=Identity(), top_n=k, **how)

    def failing(how: Any) -> Failure:
        made = limited(on_failure=how)
        return world.failing(lambda: made.compress_documents(given, QUERIES[0]), raises=how == "raise")

    subject = compressor_subject(limited(), given, QUERIES[0], whole=world.documents, limited=limited, name=name)
    more = {"failures": {how: failing(how) for how in ("rank", "raise")}}
    return world.report(
        report_of_reranker, subject, meeting=world.meeting(lambda: subject.arerank(subject.query)), **more
    )


def _extractor(world: World, name: str) -> ConformanceReport:
    extractor = adapters.CatenaSegmentExtractor(neighbours=world.store, params=SHORT)
    how: dict[str, Any] = {"selects": False, "whole": world.documents, "name": name}
    subject = compressor_subject(extractor, world.hits, QUERIES[0], **how)
    return world.report(report_of_reranker, subject, best_first=False)


def _chains(world: World, name: str) -> ConformanceReport:
    def limited(k: int) -> adapters.CatenaChainCompressor:
        return adapters.CatenaChainCompressor(graph=world.graph, embeddings=BagOfWords(), how=HOW, k=k)

    given = world.store.similarity_search(QUERIES[0], k=4)
    how: dict[str, Any] = {"selects": False, "whole": world.documents, "limited": limited, "name": name}
    return world.report(report_of_reranker, compressor_subject(limited(8), given, QUERIES[0], **how))


def _of_evaluator(evaluator: Any, cutoff: int | None = None) -> Case:
    return lambda world, name: world.report(
        report_of_evaluator, evaluator_subject(evaluator, cutoff=cutoff, name=name)
    )


_CASES: dict[str, Case] = {
    "CatenaLoader": _loader,
    **TRANSFORMERS,
    "CatenaBlobParser": _blobs,
    **RETRIEVERS,
    "CatenaRetriever.over, fusion": _fusion,
    "CatenaRerank": _rerank,
    "CatenaSegmentExtractor": _extractor,
    "CatenaChainCompressor": _chains,
    "CatenaEmbeddings": lambda world, name: world.report(
        report_of_embedder, embeddings_subject(adapters.CatenaEmbeddings(), name=name)
    ),
    "log_rank_evaluator": _of_evaluator(log_rank_evaluator(n=10)),
    "recall_evaluator": _of_evaluator(recall_evaluator(k=5), 5),
}
CASES = {name: partial(case, name=name) for name, case in _CASES.items()}

"""Every LlamaIndex adapter as cases of the conformance suites: over one small collection, with fake models."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, TypeAlias

from conformance_world import HOW, MANUALS, QUERIES, SHORT, UNKNOWN, Gate, GatedEmbedder, GatedReranker, Libraries
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import (
    BaseNode,
    Document,
    ImageNode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_index_models import Saying
from llama_index_stores import Replying

import llama_index_catena as adapters
from catena.effects import Services
from catena.enrichment import CodeDetector, Keywords, LLMDetector
from catena.retrieval import RankFusion, ViewRankFusion
from catena.segments import Constant, Identity
from catena.structure import EmbeddingOptions, SectionChunkOptions, SegmentOptions
from catena.testing import Found, RerankerSubject, report_of_embedder, report_of_reranker, report_of_retriever
from catena.testing.conformance import ConformanceReport, Failure, Meeting
from catena.testing.divider_conformance import report_of_divider
from catena.testing.evaluator_conformance import report_of_evaluator
from catena.testing.ranking_conformance import Filtering, report_of_fusion
from catena_bench.baselines import Clustering, ClusterSummaries, RaptorOptions
from llama_index_catena.convert import NOTICE
from llama_index_catena.evaluation import EvidenceMeasure, LogRankIndex, RecallAt, StandardMeasure
from llama_index_catena.testing import (
    embedding_subject,
    found_of,
    fusion_subject,
    loaded_subject,
    metric_subject,
    postprocessor_subject,
    retriever_subject,
    transform_subject,
)

Build: TypeAlias = Callable[..., BaseRetriever]


class Waiting(BaseRetriever):
    """A sync retriever behind a gate."""

    def __init__(self, inner: BaseRetriever, gate: Gate) -> None:
        super().__init__()
        self.inner, self.gate = inner, gate

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.gate.pass_through()
        return self.inner.retrieve(query_bundle)


class Refusing(Saying):
    """A model that fails at every question, in a way that is not tried again."""

    def chat(self, messages: Sequence[Any], **options: Any) -> Any:
        raise ValueError("the model is down")


def embedding() -> adapters.CatenaEmbedding:
    return adapters.CatenaEmbedding()


class World(Libraries):
    """The collection in libraries, in an index, and as nodes; each made when it is first asked for."""

    @cached_property
    def documents(self) -> list[BaseNode]:
        """The manuals whole."""
        return [Document(id_=name, text=text, metadata={"file_name": name}) for name, text in MANUALS.items()]

    @cached_property
    def nodes(self) -> list[BaseNode]:
        return adapters.CatenaNodeParser(max_tokens=60, min_tokens=5)(self.documents)

    @cached_property
    def sections(self) -> list[BaseNode]:
        return adapters.CatenaNodeParser(chunks=SectionChunkOptions())(self.documents)

    @cached_property
    def whole(self) -> list[BaseNode]:
        """The library's documents, under its ids."""
        entries = [self.library.get(info.id) for info in self.library.documents()]
        return [Document(id_=entry.document.id, text=entry.document.text) for entry in entries]

    @cached_property
    def index(self) -> VectorStoreIndex:
        return VectorStoreIndex(self.nodes, embed_model=embedding())

    @cached_property
    def graph(self) -> Any:
        return adapters.build_graph(self.index)

    @cached_property
    def hits(self) -> list[NodeWithScore]:
        return self.index.as_retriever(similarity_top_k=6).retrieve(QUERIES[0])

    def waiting(self) -> Waiting:
        return Waiting(self.index.as_retriever(similarity_top_k=6), self.gate)

    @contextmanager
    def broken(self) -> Iterator[None]:
        self.gate.broken = True
        try:
            yield
        finally:
            self.gate.broken = False

    def failing(
        self, what: str, build: Build, *, raises: bool = False, query: str = QUERIES[0], **raising: Any
    ) -> dict[str, Failure]:
        """Return what a retriever does while what is behind the gate fails, and what it does where it shall raise."""

        def failure(raises: bool, **how: Any) -> Failure:
            retriever = build(**how)

            def call() -> Any:
                with self.broken():
                    return found_in(retriever.retrieve(query))

            return Failure(call=call, raises=raises)

        return {what: failure(raises)} | ({f"{what}, raise": failure(True, **raising)} if raising else {})

    def meeting(self, acall: Callable[..., Any], *asked: Any) -> Callable[[Meeting], Any]:
        """Let calls meet at the gate."""

        def built(meeting: Meeting) -> Any:
            self.gate.meeting = meeting
            return partial(acall, *asked)

        return built

    # Cases.

    def retriever(
        self, build: Build, queries: Sequence[str] = QUERIES, *, gated: bool = True, **more: Any
    ) -> ConformanceReport:
        """Make the checks; `build` takes how many are returned, or nothing."""
        binding = {key: more.pop(key) for key in ("documents", "given", "name") if key in more}
        counted = more.pop("counted", True)
        subject = retriever_subject(build(), queries, limited=build if counted else None, **binding)
        if gated:
            subject = replace(subject, meeting=self.meeting(subject.aask))
        subject = replace(subject, answers_nothing=is_notice, **more)
        return self._ended(report_of_retriever(subject, blocking_detector=self.detector))

    def divider(
        self, transform: Any, nodes: Sequence[BaseNode], failures: Mapping[str, Failure], **more: Any
    ) -> ConformanceReport:
        subject = transform_subject(transform, nodes, **more)
        return report_of_divider(replace(subject, failures=failures), blocking_detector=self.detector)

    def reranker(self, subject: RerankerSubject, **more: Any) -> ConformanceReport:
        return self._ended(report_of_reranker(replace(subject, **more), blocking_detector=self.detector))

    def _ended(self, report: ConformanceReport) -> ConformanceReport:
        self.gate.meeting = None
        return report


def found_in(nodes: Sequence[NodeWithScore]) -> list[Found]:
    return [found_of(one.node, one.score) for one in nodes]


def down(transform: Any, nodes: Sequence[BaseNode], **raises: Any) -> dict[str, Failure]:
    """Return what a transformation does whose model fails."""
    return {"the model fails": Failure(call=lambda: [found_of(node) for node in transform(nodes)], **raises)}


def is_notice(found: Any) -> bool:
    return found.metadata.get("kind") == NOTICE


def filtered(build: Build, where: Any, keeps: Any, unknown: Any) -> Filtering:
    def ask(query: str, chosen: Any) -> Any:
        return found_in(build(where=chosen).retrieve(query))

    return Filtering(ask=ask, where=where, keeps=keeps, unknown=unknown)


def by_title(build: Build) -> Filtering:
    def keeps(found: Found) -> bool:
        return found.metadata.get("title") == "HX200 Manual"

    return filtered(build, {"title": "HX200 Manual"}, keeps, {"title": {"$like": "HX"}})


def in_library(
    world: World, build: Build, raising: Mapping[str, str] | None = None, **more: Any
) -> ConformanceReport:
    failures = world.failing("the embedder fails", build, **(raising or {}))
    told = {"documents": world.whole, "filtering": by_title(build), "nothing": UNKNOWN, "failures": failures}
    return world.retriever(build, **told, **more)


def over_retrievers(
    world: World, what: str, build: Build, raising: Mapping[str, str], **more: Any
) -> ConformanceReport:
    failures = world.failing(what, build, **raising)
    return world.retriever(build, documents=world.documents, given=world.nodes, failures=failures, **more)


def _library_retriever(world: World) -> ConformanceReport:
    def build(k: int = 5, **how: Any) -> BaseRetriever:
        return adapters.CatenaRetriever(world.library, similarity_top_k=k, **how)

    return in_library(world, build, {"on_route_error": "raise"})


def _whole_sections(world: World) -> ConformanceReport:
    def build(k: int = 5, **how: Any) -> BaseRetriever:
        return adapters.CatenaRetriever(world.library, similarity_top_k=k, expand_to="section", **how)

    return in_library(world, build, name="CatenaRetriever, sections")


def _segments(world: World) -> ConformanceReport:
    def build(**how: Any) -> BaseRetriever:
        return adapters.CatenaSegmentRetriever(world.library, **how)

    return in_library(world, build, counted=False, best_first=False)


def _graph(world: World) -> ConformanceReport:
    def build(k: int = 5, **how: Any) -> BaseRetriever:
        return adapters.CatenaGraphRetriever(library=world.library, how=HOW, similarity_top_k=k, **how)

    return in_library(world, build)


def _engine(world: World) -> ConformanceReport:
    def build() -> BaseRetriever:
        found = adapters.CatenaRetriever(world.library, similarity_top_k=4)
        return _Asked(adapters.CatenaQueryEngine(found, llm=Saying(reply=ANSWER), library=world.library))

    return world.retriever(build, counted=False, name="CatenaQueryEngine", documents=world.whole, best_first=False)


class _Asked(BaseRetriever):
    """A query engine as the retriever of the nodes that its answers stand on."""

    def __init__(self, engine: BaseQueryEngine) -> None:
        super().__init__()
        self.engine = engine

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self.engine.query(query_bundle).source_nodes

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return (await self.engine.aquery(query_bundle)).source_nodes


ANSWER = 'It is said so [1].\n\nQuotes:\n[1] "Use the supplied key"'


def _figures(world: World) -> ConformanceReport:
    def build(k: int = 2, **how: Any) -> BaseRetriever:
        return adapters.CatenaFigureRetriever(world.figures, similarity_top_k=k, **how)

    by_page = filtered(build, {"page": 1}, lambda found: found.metadata["first_page"] == 1, {"page": {"$like": "1"}})
    queries = ("failures in each year", "pressure of the pumps")
    return world.retriever(
        build, queries, filtering=by_page, failures=world.failing("the embedder fails", build, query=queries[0])
    )


def fused(retrievers: Sequence[BaseRetriever], weights: Sequence[float], k: int = 10, **how: Any) -> BaseRetriever:
    names = [f"route {number}" for number in range(len(retrievers))]
    store = adapters.retriever_store(dict(zip(names, retrievers, strict=True)))
    fusion = RankFusion(weights=dict(zip(names, weights, strict=True)))
    return adapters.CatenaRetriever(Services(store=store), routes=names, fusion=fusion, similarity_top_k=k, **how)


def _fused(world: World) -> ConformanceReport:
    def build(k: int = 6, **how: Any) -> BaseRetriever:
        return fused([world.waiting(), world.index.as_retriever(similarity_top_k=4)], (1.0, 1.0), k, **how)

    raising = {"on_route_error": "raise"}
    return over_retrievers(world, "a retriever fails", build, raising, name="CatenaRetriever, retrievers")


def _fusion(world: World) -> ConformanceReport:
    return report_of_fusion(fusion_subject(fused, name="CatenaRetriever, fusion"))


def _segments_over(world: World) -> ConformanceReport:
    def build(**how: Any) -> BaseRetriever:
        return adapters.CatenaSegmentRetriever(world.waiting(), neighbours=world.index.docstore, **how)

    more: dict[str, Any] = {"documents": world.documents, "given": world.nodes, "counted": False, "best_first": False}
    failures = world.failing("the retriever fails", build, raises=True)
    return world.retriever(build, name="CatenaSegmentRetriever, retriever", failures=failures, **more)


def _views(world: World) -> ConformanceReport:
    nodes = adapters.CatenaViewExtractor()(world.sections)
    index = VectorStoreIndex(nodes, embed_model=embedding())
    parents = {node.node_id: node for node in world.sections}

    def build(k: int = 4) -> BaseRetriever:
        return adapters.CatenaMultiViewRetriever(index, rule=ViewRankFusion(), parents=parents, similarity_top_k=k)

    return world.retriever(build, gated=False, documents=world.documents, given=world.sections)


def _views_over(world: World) -> ConformanceReport:
    def build(k: int = 4, **how: Any) -> BaseRetriever:
        inner = {"raw": world.waiting(), "other": world.index.as_retriever(similarity_top_k=6)}
        return adapters.CatenaMultiViewRetriever(inner, rule=ViewRankFusion(), similarity_top_k=k, **how)

    raising = {"on_view_error": "raise"}
    return over_retrievers(world, "a view fails", build, raising, name="CatenaMultiViewRetriever, retrievers")


def _graph_over(world: World) -> ConformanceReport:
    def build(k: int = 5, **how: Any) -> BaseRetriever:
        own: dict[str, Any] = {"graph": world.graph, "embed_model": embedding(), "nodes": world.index.docstore}
        return adapters.CatenaGraphRetriever(retriever=world.waiting(), how=HOW, similarity_top_k=k, **own, **how)

    raising = {"on_retriever_error": "raise"}
    return over_retrievers(world, "the retriever fails", build, raising, name="CatenaGraphRetriever, retriever")


def _parser(world: World) -> ConformanceReport:
    return world.divider(adapters.CatenaNodeParser(max_tokens=60, min_tokens=5), world.documents, {}, again={})


def _by_meaning(world: World) -> ConformanceReport:
    broken = adapters.CatenaNodeParser(segmentation=SegmentOptions(), llm=Refusing(reply=""))
    parser = adapters.CatenaNodeParser(segmentation=EmbeddingOptions(), embed_model=embedding())
    failures = down(broken, world.documents)
    return world.divider(parser, world.documents, failures, name="CatenaNodeParser, by meaning")


def _entities(world: World) -> ConformanceReport:
    def broken(**how: Any) -> Any:
        return adapters.CatenaEntityExtractor([CodeDetector(), LLMDetector()], llm=Refusing(reply=""), **how)

    failures = down(broken(), world.nodes)
    failures["the model fails, raise"] = down(broken(on_error="raise"), world.nodes, raises=True)["the model fails"]
    extractor = adapters.CatenaEntityExtractor()
    return world.divider(extractor, world.nodes, failures, documents=world.documents, again={})


def _context(world: World) -> ConformanceReport:
    failures = down(adapters.CatenaContextExtractor(Refusing(reply="")), world.nodes)
    made: dict[str, Any] = {"documents": world.documents, "alone": False, "again": {}}
    return world.divider(adapters.CatenaContextExtractor(), world.nodes, failures, **made)


def _view_making(world: World) -> ConformanceReport:
    failures = down(adapters.CatenaViewExtractor(["raw", Keywords()], llm=Refusing(reply="")), world.sections)
    extractor = adapters.CatenaViewExtractor()
    return world.divider(extractor, world.sections, failures, documents=(), alone=False, again={})


def _tree_making(world: World) -> ConformanceReport:
    by_model = RaptorOptions(clustering=Clustering(dimensions=3))
    broken = adapters.CatenaTreeExtractor(Refusing(reply=""), embed_model=embedding(), options=by_model)
    extractor = adapters.CatenaTreeExtractor(embed_model=embedding(), options=TREE)
    failures = down(broken, remarks())
    return world.divider(extractor, remarks(), failures, documents=(), alone=False, again={})


def remarks() -> list[BaseNode]:
    """Remarks on four things in one document, enough for a tree."""
    things = ("pump pressure bar", "valve opening spring", "fuse ampere current", "cover screw torque")
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="remarks")}
    texts = [f"Remark {number} on {things[number % 4]}." for number in range(16)]
    return [TextNode(id_=f"r{number:02d}", text=text, relationships=source) for number, text in enumerate(texts)]


TREE = RaptorOptions(summaries=ClusterSummaries(by="offline"), clustering=Clustering(dimensions=3))


def _trees(world: World) -> ConformanceReport:
    given, model = remarks(), adapters.CatenaEmbedding(GatedEmbedder(world.gate))
    tree = adapters.build_tree(given, model, options=TREE)

    def build(k: int = 4, **how: Any) -> BaseRetriever:
        return adapters.CatenaTreeRetriever(tree, model, similarity_top_k=k)

    failures = world.failing("the embedder fails, raise", build, raises=True)
    return world.retriever(
        build, ("pump pressure", "cover screw torque"), counted=False, given=given, failures=failures
    )


def divided(prompt: str) -> str:
    """Divide a passage into sentences, as a model should: one per line."""
    passage = prompt.split("<passage>\n")[1].split("\n</passage>", maxsplit=1)[0]
    return "\n".join(f"{part.strip()}." for part in passage.replace("\n", ". ").split(". ") if part.strip())


def _atomic(world: World) -> ConformanceReport:
    model = Replying(by=divided)
    failures = down(adapters.CatenaAtomicTransform(Refusing(reply="")), world.documents)
    return world.divider(adapters.CatenaAtomicTransform(model), world.documents, failures, again={"llm": model})


def _captions(world: World) -> ConformanceReport:
    png = b64encode(b"\x89PNG\r\n\x1a\n picture").decode()
    given: list[BaseNode] = [ImageNode(id_="i", text="Figure 1", image=png), TextNode(id_="t", text="No picture.")]
    failures = down(adapters.CatenaCaptionExtractor(Refusing(reply="")), given)
    extractor = adapters.CatenaCaptionExtractor(Saying(reply="A grey cover with six screws."))
    return world.divider(extractor, given, failures, documents=())


def _reader(world: World) -> ConformanceReport:
    broken = world.folder / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7 and nothing more")
    reader = adapters.CatenaReader()
    failure = Failure(call=lambda: [found_of(one) for one in reader.load_data(broken)], raises=True)
    subject = replace(loaded_subject(reader, world.paths), failures={"a file is broken": failure})
    return report_of_divider(subject, blocking_detector=world.detector)


def _rerank(world: World) -> ConformanceReport:
    reranker = GatedReranker(world.gate)

    def limited(k: int | None = None, **how: Any) -> adapters.CatenaRerank:
        return adapters.CatenaRerank(reranker, calibration=Identity(), top_n=k, **how)

    def failing(on_failure: str) -> Failure:
        def call() -> Any:
            with world.broken():
                return found_in(limited(on_failure=on_failure).postprocess_nodes(world.hits, query_str=QUERIES[0]))

        return Failure(call=call, raises=on_failure == "raise")

    failures = {"the reranker fails": failing("rank"), "the reranker fails, raise": failing("raise")}
    subject = postprocessor_subject(limited(), world.hits, QUERIES[0], documents=world.documents, limited=limited)
    return world.reranker(subject, meeting=world.meeting(subject.arerank, QUERIES[0]), failures=failures)


def _extractor(world: World) -> ConformanceReport:
    post = adapters.CatenaSegmentPostprocessor(world.index.docstore, calibration=Constant(), params=SHORT)
    made: dict[str, Any] = {"selects": False, "asks": False, "documents": world.documents}
    return world.reranker(postprocessor_subject(post, world.hits[::2], QUERIES[0], **made))


def _chains(world: World) -> ConformanceReport:
    def limited(k: int = 8) -> adapters.CatenaChainPostprocessor:
        own: dict[str, Any] = {"embed_model": embedding(), "nodes": world.index.docstore}
        return adapters.CatenaChainPostprocessor(world.graph, how=HOW, top_n=k, **own)

    made: dict[str, Any] = {"selects": False, "documents": world.documents, "limited": limited}
    return world.reranker(postprocessor_subject(limited(), world.hits[:4], QUERIES[0], **made))


def _embedding(world: World) -> ConformanceReport:
    return report_of_embedder(embedding_subject(embedding()), blocking_detector=world.detector)


def measured(metric: Any, cutoff: int | None = None) -> Callable[[World], ConformanceReport]:
    subject = metric_subject(metric, cutoff=cutoff)
    return lambda world: report_of_evaluator(subject, blocking_detector=world.detector)


CASES: dict[str, Callable[[World], ConformanceReport]] = {
    "CatenaReader": _reader,
    "CatenaNodeParser": _parser,
    "CatenaNodeParser, by meaning": _by_meaning,
    "CatenaAtomicTransform": _atomic,
    "CatenaEntityExtractor": _entities,
    "CatenaContextExtractor": _context,
    "CatenaViewExtractor": _view_making,
    "CatenaTreeExtractor": _tree_making,
    "CatenaCaptionExtractor": _captions,
    "CatenaRetriever": _library_retriever,
    "CatenaRetriever, sections": _whole_sections,
    "CatenaRetriever, retrievers": _fused,
    "CatenaRetriever, fusion": _fusion,
    "CatenaFigureRetriever": _figures,
    "CatenaSegmentRetriever": _segments,
    "CatenaSegmentRetriever, retriever": _segments_over,
    "CatenaMultiViewRetriever": _views,
    "CatenaMultiViewRetriever, retrievers": _views_over,
    "CatenaGraphRetriever": _graph,
    "CatenaGraphRetriever, retriever": _graph_over,
    "CatenaTreeRetriever": _trees,
    "CatenaQueryEngine": _engine,
    "CatenaRerank": _rerank,
    "CatenaSegmentPostprocessor": _extractor,
    "CatenaChainPostprocessor": _chains,
    "CatenaEmbedding": _embedding,
    "LogRankIndex": measured(LogRankIndex(n=10)),
    "RecallAt": measured(RecallAt(k=5), 5),
    "StandardMeasure": measured(StandardMeasure(measure="mrr")),
    "EvidenceMeasure": measured(EvidenceMeasure(measure="recall@5"), 5),
}

"""Every LlamaIndex adapter as cases of the conformance suites: over one small collection, with fake models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import conformance_world as shared
from adapter_faces import FACES
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle
from llama_index_fakes import Saying

import llama_index_catena as adapters
from catena.retrieval import ViewRankFusion
from catena.testing import report_of_embedder
from catena.testing.conformance import ConformanceReport, Failure
from catena.testing.divider_conformance import report_of_divider
from catena.testing.evaluator_conformance import report_of_evaluator
from catena.testing.ranking_conformance import report_of_fusion
from catena_bench.baselines import Clustering, RaptorOptions
from llama_index_catena import testing
from llama_index_catena.convert import NOTICE
from llama_index_catena.evaluation import EvidenceMeasure, LogRankIndex, RecallAt, StandardMeasure


class Waiting(BaseRetriever):
    """A sync retriever behind a gate."""

    def __init__(self, inner: BaseRetriever, gate: shared.Gate) -> None:
        super().__init__()
        self.inner, self.gate = inner, gate

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.gate.pass_through()
        return self.inner.retrieve(query_bundle)


class World(shared.World):
    """The collection in an index."""

    face, whole_sections = FACES[1], {"expand_to": "section"}
    uncounted = frozenset(
        {"CatenaSegmentRetriever", "CatenaSegmentRetriever, retriever", "CatenaTreeRetriever", "CatenaQueryEngine"}
    )

    @cached_property
    def index(self) -> VectorStoreIndex:
        return VectorStoreIndex(self.passages, embed_model=self.embeddings)

    @property
    def kept(self) -> Any:
        return self.index.docstore

    @property
    def of_graph(self) -> dict[str, Any]:  # type: ignore[override]
        return {"nodes": self.kept}

    @cached_property
    def graph(self) -> Any:
        return adapters.build_graph(self.index)

    @cached_property
    def pictures(self) -> list[BaseNode]:
        return shared.pictures(self.face, self.folder)

    @cached_property
    def remarks(self) -> list[BaseNode]:
        return shared.remarks(self.face)

    def searching(self, k: int = 6) -> BaseRetriever:
        return self.index.as_retriever(similarity_top_k=k)

    def waiting(self) -> Waiting:
        return Waiting(self.searching(), self.gate)

    def views(self, **how: Any) -> BaseRetriever:
        index = VectorStoreIndex(adapters.CatenaViewExtractor()(self.sections), embed_model=self.embeddings)
        parents = {node.node_id: node for node in self.sections}
        return self.make("CatenaMultiViewRetriever", source=index, rule=ViewRankFusion(), parents=parents, **how)

    def trees(self, **how: Any) -> BaseRetriever:
        model = adapters.CatenaEmbedding(shared.GatedEmbedder(self.gate))
        tree = adapters.build_tree(self.remarks, model, options=shared.TREE)
        return self.make("CatenaTreeRetriever", tree=tree, embeddings=model, **how)

    def subject(self, retriever: Any, queries: Any, counted: Any, **own: Any) -> Any:
        limited = None if counted is None else lambda k: counted(k=k)
        subject = testing.retriever_subject(retriever, queries, limited=limited, **own)
        return replace(subject, answers_nothing=lambda found: found.metadata.get("kind") == NOTICE)

    def stage(self, stage: Any, given: Any, **own: Any) -> Any:
        asks = own["name"] != "CatenaSegmentPostprocessor"
        return testing.postprocessor_subject(
            stage, given, shared.QUERIES[0], documents=self.documents, asks=asks, **own
        )

    def divider(self, made: Any, given: Any, *, sliced: bool, revived: bool, **own: Any) -> Any:
        llm = {} if getattr(made, "llm", None) is None else {"llm": made.llm}
        documents = self.documents if sliced else ()
        return testing.transform_subject(made, given, documents=documents, again=llm if revived else None, **own)


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


def _engine(world: World) -> BaseRetriever:
    found = adapters.CatenaRetriever(world.library, similarity_top_k=4)
    return _Asked(adapters.CatenaQueryEngine(found, llm=Saying(reply=ANSWER), library=world.library))


def _fusion(world: World, name: str) -> ConformanceReport:
    def build(retrievers: Sequence[BaseRetriever], weights: Sequence[float]) -> BaseRetriever:
        names = [f"route {number}" for number in range(len(retrievers))]
        inner, by_name = (dict(zip(names, each, strict=True)) for each in (retrievers, weights))
        return adapters.CatenaRetriever.over(inner, weights=by_name, similarity_top_k=10)

    return report_of_fusion(testing.fusion_subject(build, name=name))


def _reader(world: World, name: str) -> ConformanceReport:
    broken = world.folder / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7 and nothing more")
    reader = adapters.CatenaReader()
    failure = Failure(call=lambda: [testing.found_of(one) for one in reader.load_data(broken)], raises=True)
    return world.report(
        report_of_divider, testing.loaded_subject(reader, world.paths), failures={"a file is broken": failure}
    )


def _tree_making(world: World, name: str) -> ConformanceReport:
    tree = adapters.CatenaTreeExtractor(embed_model=world.embeddings, options=shared.TREE)
    by_model = RaptorOptions(clustering=Clustering(dimensions=3))
    broken = adapters.CatenaTreeExtractor(
        world.face.model(shared.down), embed_model=world.embeddings, options=by_model
    )
    failure = Failure(call=lambda: world.face.transformed(broken, world.remarks))
    subject = testing.transform_subject(
        tree, world.remarks, documents=(), alone=False, again={"embed_model": world.embeddings}
    )
    return world.report(report_of_divider, subject, failures={"the model fails": failure})


def _measured(metric: Any, cutoff: int | None = None) -> shared.Case:
    return lambda world, name: world.report(
        report_of_evaluator, testing.metric_subject(metric, cutoff=cutoff, name=name)
    )


_CASES: dict[str, shared.Case] = {
    "CatenaReader": _reader,
    "CatenaNodeParser": shared.DIVIDERS["chunks"],
    "CatenaNodeParser, by meaning": shared.DIVIDERS["by meaning"],
    "CatenaAtomicTransform": shared.DIVIDERS["units"],
    "CatenaEntityExtractor": shared.DIVIDERS["entities"],
    "CatenaContextExtractor": shared.Dividing(kind="CatenaContextExtractor", down={}, given="passages", alone=False),
    "CatenaViewExtractor": shared.DIVIDERS["views"],
    "CatenaTreeExtractor": _tree_making,
    "CatenaCaptionExtractor": shared.DIVIDERS["captions"],
    "CatenaRetriever": shared.RETRIEVERS["library"],
    "CatenaRetriever, sections": shared.RETRIEVERS["sections"],
    "CatenaRetriever, retrievers": shared.RETRIEVERS["over"],
    "CatenaRetriever, fusion": _fusion,
    "CatenaFigureRetriever": shared.RETRIEVERS["figures"],
    "CatenaSegmentRetriever": shared.RETRIEVERS["segments"],
    "CatenaSegmentRetriever, retriever": shared.RETRIEVERS["segments over"],
    "CatenaMultiViewRetriever": shared.RETRIEVERS["views"],
    "CatenaMultiViewRetriever, retrievers": shared.RETRIEVERS["views over"],
    "CatenaGraphRetriever": shared.RETRIEVERS["graph"],
    "CatenaGraphRetriever, retriever": shared.RETRIEVERS["graph over"],
    "CatenaTreeRetriever": shared.RETRIEVERS["trees"],
    "CatenaQueryEngine": shared.Searching(
        make=_engine, degrades=False, where=None, more={"best_first": False, "nothing": None}
    ),
    "CatenaRerank": shared.STAGES["rerank"],
    "CatenaSegmentPostprocessor": shared.STAGES["extractor"],
    "CatenaChainPostprocessor": shared.STAGES["chains"],
    "CatenaEmbedding": lambda world, name: world.report(
        report_of_embedder, testing.embedding_subject(adapters.CatenaEmbedding(), name=name)
    ),
    "LogRankIndex": _measured(LogRankIndex(n=10)),
    "RecallAt": _measured(RecallAt(k=5), 5),
    "StandardMeasure": _measured(StandardMeasure(measure="mrr")),
    "EvidenceMeasure": _measured(EvidenceMeasure(measure="recall@5"), 5),
}
CASES: dict[str, Callable[[World], ConformanceReport]] = {
    name: partial(case, name=name) for name, case in _CASES.items()
}

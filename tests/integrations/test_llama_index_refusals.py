"""What makes no sense is refused where it is said, by the name of what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from adapter_faces import FACES
from drawn_graph import HOW, by_hand
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import IndexNode, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import MetadataFilters
from llama_index_fakes import Finding, Saying, chain, index_of

import llama_index_catena as adapters
from catena.effects import Services
from catena.enrichment import ContextOptions, Keywords
from catena.graph import PAPER, GraphSearch
from catena.library import Preparation
from catena.model import EvaluationError, ParameterError
from catena.retrieval import ReadingOptions, ViewSearch
from catena.segments import Constant, SegmentSearch
from catena.structure import SegmentOptions
from catena.testing import FakeReranker
from catena.testing.fakes import AngleEmbedder
from catena_bench.baselines import Clustering, RaptorOptions
from llama_index_catena.graph import NodeReading

FOUND = Finding([])
TREE = RaptorOptions(clustering=Clustering(dimensions=3))
NODES = [TextNode(id_="a", text="One."), TextNode(id_="a", text="Two.")]
MODEL: Any = Saying(reply="x")


def walking(**options: Any) -> BaseRetriever:
    usual = {"retriever": FOUND, "graph": by_hand(FACES[1]), "embed_model": AngleEmbedder(), "how": HOW}
    return adapters.CatenaGraphRetriever(**{**usual, **options})


def rerank(**options: Any) -> object:
    return adapters.CatenaRerank(**{"reranker": FakeReranker(), "calibration": Constant(), **options})


def viewing(found: Any = FOUND, **options: Any) -> adapters.CatenaMultiViewRetriever:
    return adapters.CatenaMultiViewRetriever({"raw": found}, **options)


make: Any = adapters  # of wrong kinds, too
segments = make.CatenaSegmentRetriever
FIGURES = Preparation(engine="pypdfium2", figures=True)
UNTITLED = ContextOptions(document_title=False)
TWO_DOCUMENTS = [*chain("d", ["A."]), *chain("e", ["B."])]
LEADING = IndexNode(text="x", index_id="y")
INSIDE = adapters.CatenaViewExtractor(["raw"], parents="inside")
REFUSED: list[tuple[str, Callable[[], object]]] = [
    # parsers and extractors
    ("max_tokens must be an integer >= 1, got 0", lambda: make.CatenaNodeParser(max_tokens=0)),
    ("min_tokens must be between 0 and max_tokens (10)", lambda: make.CatenaNodeParser(max_tokens=10, min_tokens=11)),
    ("llm must be given with SegmentOptions", lambda: make.CatenaNodeParser(segmentation=SegmentOptions())),
    ("segmentation must be", lambda: make.CatenaNodeParser(segmentation="by meaning")),
    ("chunks must be", lambda: make.CatenaNodeParser(chunks="sections")),
    ("chunks must be ChunkOptions", lambda: make.CatenaNodeParser(chunks={"by": "Sections"})),
    ("figures must be False in a reader", lambda: make.CatenaReader(preparation=FIGURES)),
    ("llm must be a LlamaIndex language model: it divides", lambda: make.CatenaAtomicTransform(None)),
    ("options must be AtomicOptions", lambda: make.CatenaAtomicTransform(MODEL, options="short")),
    ("llm must be given with ContextOptions", lambda: make.CatenaContextExtractor(options=UNTITLED)),
    ("options must be ContextOptions", lambda: make.CatenaContextExtractor(options="short")),
    ("detectors must be at least one", lambda: make.CatenaEntityExtractor([])),
    ("llm must be a LlamaIndex language model that sees", lambda: make.CatenaCaptionExtractor(None)),
    ("options must be RaptorOptions", lambda: make.CatenaTreeExtractor(options="deep")),
    ("llm must be given with ClusterSummaries", lambda: make.CatenaTreeExtractor(options=RaptorOptions())),
    ("of one document: each has a tree", lambda: make.build_tree(TWO_DOCUMENTS, options=TREE)),
    ("tree must be what build_tree returns", lambda: make.CatenaTreeRetriever("tree")),
    # views
    ("llm must be given: a maker of views", lambda: make.CatenaViewExtractor([Keywords()])),
    ("views must be a sequence of at least one", lambda: make.CatenaViewExtractor([])),
    ("views must", lambda: make.CatenaViewExtractor("raw")),
    ("views must", lambda: make.CatenaViewExtractor(["whole"])),
    ("views must", lambda: make.CatenaViewExtractor([Keywords])),
    ("passage_tokens must be a whole number >= 1, got 0", lambda: make.CatenaViewExtractor(passage_tokens=0)),
    ("passage_tokens must be a whole number >= 1, got True", lambda: make.CatenaViewExtractor(passage_tokens=True)),
    ("parents must be 'beside' or 'inside'", lambda: make.CatenaViewExtractor(parents="outside")),
    ("metadata_keys must be a sequence of keys", lambda: make.CatenaViewExtractor(metadata_keys="source")),
    ("ids of the nodes must be all different", lambda: make.CatenaViewExtractor(["raw"])(NODES)),
    ("source must be a VectorStoreIndex", lambda: make.CatenaMultiViewRetriever({})),
    ("views must be of those with a retriever", lambda: viewing(views=["summary"])),
    ("filters must be set on the retrievers", lambda: viewing(filters=MetadataFilters(filters=[]))),
    ("filtering must be", lambda: viewing(filtering="guess")),
    ("parents must be a docstore", lambda: viewing(parents=["a"])),
    ("parents must be given: what is found", lambda: viewing(Finding([(LEADING, 1.0)])).retrieve("x")),
    ("k must be", lambda: viewing(similarity_top_k="3").retrieve("x")),
    ("index must be a VectorStoreIndex", lambda: make.CatenaViewIndex(SimpleDocumentStore())),
    ("parents must be 'beside': the docstore", lambda: make.CatenaViewIndex(index_of(), INSIDE)),
    # retrievers
    ("expand_to must be 'section' or None", lambda: make.CatenaRetriever(Services(), expand_to="page")),
    ("expand_to must be None where the source is no", lambda: make.CatenaRetriever(Services(), expand_to="section")),
    ("views must be None where the source is no", lambda: make.CatenaRetriever(Services(), views=ViewSearch())),
    ("reading must be given with budget_tokens", lambda: make.CatenaRetriever(Services(), reading=ReadingOptions())),
    ("retrievers must be", lambda: make.CatenaRetriever.over({})),
    ("retrievers must be at least one name", lambda: make.retriever_store({})),
    ("retriever must be a LlamaIndex retriever", lambda: make.retriever_route(object())),
    ("object.text_field must be there", lambda: make.from_elasticsearch_store(object())),
    ("graph must be given, or a library", lambda: walking(graph=None)),
    ("graph must be a ChunkGraph", lambda: walking(graph="graph")),
    ("retriever must be given with a graph", lambda: walking(retriever=None)),
    ("retriever must be a LlamaIndex retriever or", lambda: walking(retriever="bm25")),
    ("embed_model must be given: a walk", lambda: walking(embed_model=None)),
    ("embed_model must be a LlamaIndex embedding", lambda: walking(embed_model="minilm")),
    ("how must be GraphSearch", lambda: walking(how="best")),
    ("nodes must be a docstore", lambda: walking(nodes=[1])),
    ("similarity_top_k must be an integer >= 0", lambda: walking(similarity_top_k=-1)),
    ("on_retriever_error must be", lambda: walking(on_retriever_error="ignore")),
    ("llm must be given: it finds the", lambda: walking(how=GraphSearch(walk=PAPER, keywords_by="llm"))),
    ("title_keys must be a sequence of metadata keys", lambda: NodeReading(title_keys="title")),
    ("keyword_keys must be a sequence of metadata keys", lambda: NodeReading(keyword_keys=[1])),  # type: ignore[list-item]
    # segments and rerankers
    ("neighbours must be a docstore", lambda: make.CatenaSegmentPostprocessor("nodes")),
    ("preset", lambda: make.CatenaSegmentPostprocessor(params="everything")),
    ("params must be ExtractionParams", lambda: make.CatenaSegmentPostprocessor(params=3)),
    ("neighbours must be None where", lambda: segments(Services(), neighbours=SimpleDocumentStore())),
    ("llm must be given: the options", lambda: segments(FOUND, options=SegmentSearch(queries_by="llm"))),
    ("reranker must be given: the", lambda: segments(FOUND, options=SegmentSearch(rerank=True))),
    ("search must be set on the", lambda: segments(FOUND, where={"document_id": "manual"})),
    ("reranker must be a Catena reranker", lambda: rerank(reranker=object())),
    ("calibration must be a rule", lambda: rerank(calibration="cohere")),
    ("postprocessor must be a LlamaIndex node", lambda: make.LlamaIndexReranker("no postprocessor")),
    # answers, questions and measures
    ("n must be an integer >= 1", lambda: make.CatenaQuestionGenerator(n=0)),
    ("format must be", lambda: make.format_chains([], "tree")),
    ("repeats must be an integer >= 1", lambda: make.CatenaPairwiseEvaluator(MODEL, repeats=0)),
    ("n must be an integer >= 0", lambda: make.LogRankIndex(n=-1)),
    ("gamma must be", lambda: make.LogRankIndex(n=9, gamma=0)),
    ("k must be a cutoff", lambda: make.RecallAt(k=0)),
    ("measure must be recall@k, precision", lambda: make.StandardMeasure(measure="best")),
    ("ids tell of no chains", lambda: make.EvidenceMeasure(measure="chain_order")),
    ("n must be an integer", lambda: make.register_metrics(n=-1)),
]
UNMEASURED: list[tuple[str, Callable[[], object]]] = [
    ("needs the expected ids", lambda: make.RecallAt(k=1).compute(expected_ids=[], retrieved_ids=["a"])),
    ("too small", lambda: make.LogRankIndex(n=1).compute(expected_ids=["a"], retrieved_ids=["a", "b"])),
    ("needs reference", lambda: make.CatenaPairwiseEvaluator(MODEL).evaluate("q", "a", second_response="b")),
    ("looked up in contexts", lambda: make.CatenaQuoteEvaluator().evaluate("q", "a")),
    ("where they stand", lambda: make.CatenaScopeEvaluator([]).evaluate("q", "a", ["b"])),
    ("its evidence are needed", lambda: make.CatenaScopeEvaluator([]).evaluate_response("q")),
]


@pytest.mark.parametrize(("said", "call"), REFUSED)
def test_what_makes_no_sense_is_refused_by_its_name(said: str, call: Callable[[], object]) -> None:
    with pytest.raises(ParameterError, match=re.escape(said)):
        call()


@pytest.mark.parametrize(("said", "call"), UNMEASURED)
def test_what_cannot_be_measured_is_refused(said: str, call: Callable[[], object]) -> None:
    with pytest.raises(EvaluationError, match=re.escape(said)):
        call()


@pytest.mark.parametrize("kind", ["CatenaRetriever", "CatenaSegmentRetriever", "CatenaFigureRetriever"])
def test_a_path_in_place_of_a_library_is_refused_with_how_to_open_it(kind: str) -> None:
    with pytest.raises(ParameterError, match=r"catena\.Library\.open\('manuals'\) gives it"):
        getattr(adapters, kind)("manuals")
    with pytest.raises(ParameterError, match=r"an open Library.*got 'int'"):
        getattr(adapters, kind)(3)

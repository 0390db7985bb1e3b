"""What holds for every component: names, arguments, written forms, pickles, cache keys, and spans of async work."""

from __future__ import annotations

import importlib
import inspect
import pickle
import threading
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adapter_faces import FACES
from drawn_graph import HOW, by_hand
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.evaluation import BaseEvaluator
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
from llama_index.core.ingestion.pipeline import get_transformation_hash
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import NodeParser
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.question_gen.types import BaseQuestionGenerator
from llama_index.core.readers.base import BaseReader
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import BaseNode, Document, ImageNode, QueryBundle, TextNode, TransformComponent
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index_fakes import Finding, Saying, chain, listening
from numpy.typing import NDArray

import llama_index_catena as adapters
from catena.effects import Services
from catena.enrichment import CodeDetector, ContextOptions, Keywords, LLMDetector, RecognizerDetector
from catena.library import FixedLength
from catena.model import ParameterError, ServiceError
from catena.segments import COHERE, Composed, Constant, Logistic
from catena.structure import EmbeddingOptions, SegmentOptions
from catena.testing import FakeEmbedder, FakeReranker, Flaky
from catena.testing.fakes import AngleEmbedder, FakeRecognizer
from catena_bench.baselines import ClusterSummaries, RaptorOptions

PACKAGE = Path(__file__).resolve().parents[2] / "integrations" / "llama-index-catena"
PLACES: dict[type, str] = {
    BaseReader: "readers",
    NodeParser: "node_parser",
    TransformComponent: "extractors",
    BaseRetriever: "retrievers",
    BaseNodePostprocessor: "postprocessor",
    BaseQueryEngine: "query_engine",
    BaseSynthesizer: "response_synthesizers",
    BaseQuestionGenerator: "question_gen",
    BaseRetrievalMetric: "evaluation",
    BaseEvaluator: "evaluation",
}
SLOTS = {
    name: kind
    for name in adapters.__all__
    if inspect.isclass(kind := getattr(adapters, name)) and issubclass(kind, (*PLACES, BaseEmbedding))
}
NODES = [TextNode(id_="n", text="The HX-210 takes six screws.", metadata={"title": "HX210"})]


def place_of(kind: type) -> str:
    if issubclass(kind, BaseEmbedding):  # which is a transformation, too
        return "embeddings"
    return next(place for base, place in PLACES.items() if issubclass(kind, base))


# Names.


def test_every_part_stands_in_a_slot_and_under_its_conventional_name() -> None:
    assert len(SLOTS) >= 27
    for name, kind in SLOTS.items():
        leaf = importlib.import_module(f"llama_index.{place_of(kind)}.catena")
        assert getattr(leaf, name) is kind
        assert name in leaf.__all__


def test_the_conventional_places_have_nothing_else_and_share_their_namespaces() -> None:
    for leaf in {place_of(kind) for kind in SLOTS.values()}:
        assert not (PACKAGE / "llama_index" / leaf / "__init__.py").exists()
        assert (PACKAGE / "llama_index" / leaf / "catena" / "py.typed").exists()
        names = set(importlib.import_module(f"llama_index.{leaf}.catena").__all__)
        assert names <= set(adapters.__all__)
    found = {path.parent.parent.name for path in (PACKAGE / "llama_index").glob("*/catena/__init__.py")}
    assert found == {place_of(kind) for kind in SLOTS.values()}


def test_the_hub_knows_every_class() -> None:
    hub = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["llamahub"]
    assert set(hub["class_authors"]) == set(SLOTS)
    assert importlib.import_module(hub["import_path"])


# Arguments.


@pytest.mark.parametrize("name", sorted(SLOTS))
def test_a_mistyped_argument_is_refused_by_name_and_the_nearest_is_named(name: str) -> None:
    kind: Any = SLOTS[name]
    known = [
        each.name
        for each in inspect.signature(kind.__init__).parameters.values()
        if each.kind is each.KEYWORD_ONLY or each.name in ("llm", "tree", "documents", "embedder")
    ]
    if not known:
        assert name == "CatenaQuoteEvaluator"
        return
    mistyped = f"{known[0]}x"
    with pytest.raises(ParameterError, match=f"{name}.*'{mistyped}'. Did you mean '{known[0]}'") as caught:
        kind(**{mistyped: 1})
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), ParameterError)


def test_search_options_are_checked_and_subclasses_may_have_more() -> None:
    with pytest.raises(ParameterError, match="'wher'"):
        adapters.CatenaSegmentRetriever(Finding([]), wher={"title": "A"})  # type: ignore[call-arg]

    assert adapters.CatenaRetriever(library=Services(), similarity_top_k=3).similarity_top_k == 3  # type: ignore[call-arg]

    class Mine(adapters.CatenaNodeParser):
        language: str = "en"

    assert Mine(language="de").language == "de"


# Written forms and pickles.


class Plain:
    """An embedder without locks or clients."""

    identity, dim = "plain", 1

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.ones((len(texts), 1), dtype=np.float32)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return np.ones(1, dtype=np.float32)


class ByLength:
    """A reranker without locks or clients."""

    identity = "by length"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [float(len(text)) for text in texts]


MADE_GRAPH = adapters.build_graph(chain("d", ["one", "two"]), Plain())

LAYERED = RaptorOptions(summaries=ClusterSummaries(by="offline"), layers=2)
COMPONENTS: dict[str, Any] = {
    "parser": adapters.CatenaNodeParser(max_tokens=99, segmentation=EmbeddingOptions()),
    "parser of fixed lengths": adapters.CatenaNodeParser(chunks=FixedLength(tokens=50)),
    "entities": adapters.CatenaEntityExtractor([CodeDetector(weight=2)]),
    "entities by a model": adapters.CatenaEntityExtractor([LLMDetector(kinds="parts")], llm=MockLLM()),
    "context": adapters.CatenaContextExtractor(options=ContextOptions(by="offline")),
    "views": adapters.CatenaViewExtractor(),
    "tree": adapters.CatenaTreeExtractor(options=LAYERED),
    "captions": adapters.CatenaCaptionExtractor(MockLLM()),
    "embedding": adapters.CatenaEmbedding(),
    "embedding of one's own": adapters.CatenaEmbedding(Plain()),
    "rerank": adapters.CatenaRerank(ByLength(), calibration=Composed(Logistic(), COHERE), top_n=2),
    "segments": adapters.CatenaSegmentPostprocessor(params="precision", calibration=Constant(0.7), header=None),
    "segments of a store": adapters.CatenaSegmentPostprocessor(SimpleDocumentStore()),
    "chains": adapters.CatenaChainPostprocessor(MADE_GRAPH, embed_model=Plain(), top_n=3),
}
AGAIN: dict[str, dict[str, Any]] = {  # what cannot be written
    "embedding of one's own": {"embedder": Plain()},
    "rerank": {"reranker": ByLength()},
    "segments of a store": {"neighbours": SimpleDocumentStore()},
    "chains": {"graph": MADE_GRAPH, "embed_model": Plain()},
}


@pytest.mark.parametrize("name", COMPONENTS)
def test_what_is_written_is_read_again(name: str) -> None:
    component, again = COMPONENTS[name], AGAIN.get(name, {})
    for read in (
        type(component).from_dict(component.to_dict(), **again),
        type(component).from_json(component.to_json(), **again),
    ):
        assert read.to_dict() == component.to_dict()
    assert component.to_dict()["class_name"] == component.class_name() == type(component).__name__


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_pickle_holds_all_of_it(name: str) -> None:
    component = COMPONENTS[name]
    copy = pickle.loads(pickle.dumps(component))
    assert type(copy) is type(component)
    assert copy.to_dict() == component.to_dict()
    given = {key: value for key, value in vars(component).items() if key != "callback_manager"}
    assert set(vars(copy)) == set(vars(component)) >= set(given)


@pytest.mark.parametrize("missing", AGAIN)
def test_what_cannot_be_written_is_asked_for_again(missing: str) -> None:
    component = COMPONENTS[missing]
    with pytest.raises(ParameterError, match="given again"):
        type(component).from_dict(component.to_dict())


def test_a_model_that_llama_index_does_not_know_by_name_is_asked_for_again() -> None:
    written = adapters.CatenaEntityExtractor([LLMDetector()], llm=Saying(reply="")).to_dict()
    with pytest.raises(ParameterError, match="llm must be given again"):
        adapters.CatenaEntityExtractor.from_dict(written)
    assert adapters.CatenaEntityExtractor.from_dict(written, llm=Saying(reply="")).to_dict() == written


class Locked(FakeReranker):
    """Holds what cannot be pickled, as clients do."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


def test_what_does_not_pickle_is_an_error_and_not_left_out() -> None:
    with pytest.raises(ParameterError, match=r"^reranker .*pickled"):
        pickle.dumps(adapters.CatenaRerank(Locked(), calibration=Constant()))
    wider = adapters.CatenaChainPostprocessor(by_hand(FACES[1]), embed_model=AngleEmbedder(), how=HOW)
    with pytest.raises(ParameterError, match=r"^graph .*pickled"):
        pickle.dumps(wider)


def test_a_pickled_retriever_keeps_what_was_set_on_it() -> None:
    retriever = adapters.CatenaRetriever(Services(), similarity_top_k=2)
    retriever.similarity_top_k, retriever.where = 7, {"page": 1}
    copy = pickle.loads(pickle.dumps(retriever))
    assert (copy.similarity_top_k, copy.where, copy.notice) == (7, {"page": 1}, True)


# Cache keys.

MODELS: dict[str, Any] = {"llm": MockLLM(), "embed_model": adapters.CatenaEmbedding(FakeEmbedder())}
PARSER = {"include_metadata": False, "include_prev_next_rel": False, "id_func": lambda *_: "i", "max_tokens": 7}
PARSER |= {"min_tokens": 1, "media_type": "text/plain", "embed_tables": "definition", "chunks": FixedLength()}
VIEWS = {"views": ("raw",), "parents": "inside", "passage_tokens": 9, "metadata_keys": ("title",), "version": "other"}
CONTEXT = {"options": ContextOptions(by="offline", section_titles=False), "show": "header"}
DETECTORS = {"detectors": (CodeDetector(weight=3),), "recognizer": FakeReranker(), "on_error": "raise"}
OTHERS: dict[type, dict[str, Any]] = {
    adapters.CatenaNodeParser: {**PARSER, "segmentation": EmbeddingOptions(), **MODELS},
    adapters.CatenaEntityExtractor: {**DETECTORS, "llm": MockLLM()},
    adapters.CatenaContextExtractor: {**CONTEXT, **MODELS},
    adapters.CatenaViewExtractor: {**VIEWS, **MODELS},
    adapters.CatenaTreeExtractor: {"options": RaptorOptions(layers=1), **MODELS},
    adapters.CatenaCaptionExtractor: {"llm": MockLLM(max_tokens=3)},
}
INHERITED = {"is_text_node_only", "metadata_mode", "node_text_template", "disable_template_rewrite", "in_place"}
INHERITED |= {"max_retries", "retry_backoff", "raise_on_error"}  # of LlamaIndex's extractors
HOW_IT_IS_RUN = {"num_workers": 3, "show_progress": True, "journal": "j.db", "callback_manager": None}
MADE: dict[type, Any] = {
    kind: kind(MockLLM()) if kind is adapters.CatenaCaptionExtractor else kind() for kind in OTHERS
}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_cache_key_changes_with_every_field_that_decides_and_with_no_other(kind: Any) -> None:
    made = MADE[kind]
    key = get_transformation_hash(NODES, made)
    decides = {**OTHERS[kind], "schema_version": 99}
    if "prompt_version" in kind.model_fields:
        decides["prompt_version"] = "99"
    assert set(kind.model_fields) <= {*decides, *INHERITED, *HOW_IT_IS_RUN}
    keys = {name: get_transformation_hash(NODES, made.model_copy(update={name: v})) for name, v in decides.items()}
    assert len({*keys.values(), key}) == len(decides) + 1
    same = {name: value for name, value in HOW_IT_IS_RUN.items() if name in kind.model_fields}
    assert same
    for name, value in same.items():
        assert get_transformation_hash(NODES, made.model_copy(update={name: value})) == key
    assert get_transformation_hash(NODES, pickle.loads(pickle.dumps(made))) == key


# Spans and events of async work.


async def test_async_work_has_spans_as_sync_work_has() -> None:
    question, nodes = QueryBundle("Where is the pump?"), [*NODES]
    found = Finding([(NODES[0], 0.5)])
    scored, one_graph = found.retrieve("q"), {"graph": by_hand(FACES[1]), "embed_model": AngleEmbedder()}
    document = Document(id_="d", text="# A\n\nOne two.")
    retrievers: list[BaseRetriever] = [
        adapters.CatenaRetriever.over({"a": found}),
        adapters.CatenaSegmentRetriever(found),
        adapters.CatenaMultiViewRetriever({"raw": found}, parents={"n": NODES[0]}),
        adapters.CatenaGraphRetriever(retriever=found, **one_graph),
    ]
    postprocessors: list[BaseNodePostprocessor] = [
        adapters.CatenaRerank(FakeReranker(), calibration=COHERE),
        adapters.CatenaSegmentPostprocessor(calibration=COHERE),
        adapters.CatenaChainPostprocessor(how=HOW, **one_graph),
    ]
    with listening() as told:
        await adapters.CatenaNodeParser().aget_nodes_from_documents([document])
        for extractor in (
            adapters.CatenaEntityExtractor(),
            adapters.CatenaContextExtractor(),
            adapters.CatenaViewExtractor(),
        ):
            await extractor.acall(nodes)
        for retriever in retrievers:
            await retriever.aretrieve(question)
        for post in postprocessors:
            await post.apostprocess_nodes(scored, query_bundle=question)
    spans = {"CatenaNodeParser._aparse_nodes", "CatenaEntityExtractor.aextract", "CatenaContextExtractor.aextract"}
    spans |= {f"Catena{kind}Extractor.acall" for kind in ("Entity", "Context", "View")}
    spans |= {f"{type(each).__name__}._aretrieve" for each in retrievers}
    assert set(told.spans) >= spans | {f"{type(each).__name__}._apostprocess_nodes" for each in postprocessors}
    ours = {span for span in told.spans if span.startswith("Catena")}
    assert not any(name in span for span in ours for name in ("._step", "._question", "._services", "._nodes"))
    names = [event.class_name() for event in told.events]
    for start, end in (("ReRankStartEvent", "ReRankEndEvent"), ("RetrievalStartEvent", "RetrievalEndEvent")):
        assert names.count(start) == names.count(end) > 0
    assert names.count("ReRankStartEvent") == 3


# What fails.

SECTION = Document(id_="d", text="# Pump\n\nThe seal keeps the oil.\n")
BAD = Saying(reply="Sure! Here you are.")
NER = Flaky(FakeRecognizer({}), [ServiceError("ner", "no model")] * 9)
DIVIDING = adapters.CatenaNodeParser(segmentation=SegmentOptions(min_section=0), llm=BAD)
RECOGNISING = adapters.CatenaEntityExtractor([RecognizerDetector()], recognizer=NER)
SEEING = adapters.CatenaCaptionExtractor(Saying(reply="I'm sorry, I cannot see."))
PICTURE = ImageNode(id_="i", image="iVBORw0KGgo=")
DEGRADED: list[tuple[Any, BaseNode, type, str]] = [
    (DIVIDING, SECTION, adapters.SegmentationDegradedEvent, "segmentation of lines"),
    (adapters.CatenaContextExtractor(BAD), SECTION, adapters.ContextDegradedEvent, "summary of d"),
    (adapters.CatenaViewExtractor([Keywords()], llm=BAD), SECTION, adapters.ViewsDegradedEvent, "keywords"),
    (RECOGNISING, SECTION, adapters.EntitiesDegradedEvent, "recogniser at chunk"),
    (SEEING, PICTURE, adapters.CaptionsDegradedEvent, "caption of i"),
]


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize(("transform", "given", "event", "what"), DEGRADED)
def test_what_a_model_fails_at_is_an_event_of_its_own(transform: Any, given: Any, event: Any, what: str) -> None:
    with listening() as told:
        transform([given])
    heard = [each for each in told.events if isinstance(each, event)]
    assert heard[0].class_name() == event.__name__
    assert any(what in each.what for each in heard)

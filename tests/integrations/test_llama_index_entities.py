"""CatenaEntityExtractor in ingestion pipelines: what it finds, what caches know of it, and what failures cost."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from llama_index.core.ingestion import IngestionCache, IngestionPipeline
from llama_index.core.ingestion.pipeline import get_transformation_hash
from llama_index.core.llms import MockLLM
from llama_index.core.schema import BaseNode, Document, MetadataMode, TextNode
from llama_index_models import Saying
from llama_index_spans import listening

from catena.enrichment import CodeDetector, ExpertDetector, ExpertTerm, ExpertTerms, LLMDetector, RecognizerDetector
from catena.model import MissingServiceError, ParameterError, ServiceError
from catena.testing import Flaky
from catena.testing.fakes import FakeRecognizer
from llama_index_catena import CatenaEntityExtractor, CatenaNodeParser, EntitiesDegradedEvent
from llama_index_catena.extractors import ENTITIES

TEXTS = ("The Acme pump HX-200 has a gear box.", "Nothing is named here.", "Fit the HX-200 into the Borealis frame.")
NODES = [TextNode(id_=str(place), text=text) for place, text in enumerate(TEXTS)]
EXPERT = ExpertDetector(terms=ExpertTerms([ExpertTerm(name="gear box", aliases=("GBX",), weight=3)]))
NAMED = '[["Acme", "Zeta"], [], ["Borealis"]]'


@pytest.fixture(autouse=True)
def loop() -> Iterator[None]:
    """LlamaIndex runs extractors on the thread's event loop; where there is none it makes one, and leaves it open."""
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield
    made.close()
    asyncio.set_event_loop(None)


def entities(extractor: CatenaEntityExtractor, nodes: list[TextNode] = NODES) -> list[str | None]:
    return [node.metadata.get(ENTITIES) for node in extractor(nodes)]


def test_codes_are_found_without_any_model() -> None:
    assert entities(CatenaEntityExtractor()) == ["HX-200", None, "HX-200"]


def test_detectors_add_up() -> None:
    recognizer = FakeRecognizer({"PRODUCT": ["HX-200"], "ORG": ["Acme"], "PLACE": ["Borealis"]})
    extractor = CatenaEntityExtractor(
        [CodeDetector(), EXPERT, LLMDetector(), RecognizerDetector(labels=("ORG",))],
        llm=Saying(reply='["Borealis"]'),
        recognizer=recognizer,
    )
    assert entities(extractor) == ["Acme; gbx; gear box; HX-200", None, "Borealis; HX-200"]


def test_models_given_are_asked_by_default() -> None:
    assert entities(CatenaEntityExtractor(llm=Saying(reply='["Acme"]'))) == ["Acme; HX-200", None, "HX-200"]
    assert [type(d) for d in CatenaEntityExtractor(llm=MockLLM(), recognizer=FakeRecognizer({})).detectors] == [
        CodeDetector,
        LLMDetector,
        RecognizerDetector,
    ]


async def test_async_gives_the_same_without_blocking_the_loop(tmp_path: Path) -> None:
    extractor = CatenaEntityExtractor(
        [CodeDetector(), LLMDetector()], llm=Saying(reply='["Borealis"]'), journal=str(tmp_path / "replies.db")
    )
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        nodes = await extractor.acall(NODES)
    assert [node.to_dict() for node in nodes] == [node.to_dict() for node in extractor(NODES)]
    assert extractor.extract(NODES) == await extractor.aextract(NODES) == [
        {ENTITIES: "HX-200"},
        {},
        {ENTITIES: "Borealis; HX-200"},
    ]  # fmt: skip


def test_nodes_that_are_given_stay_as_they_are() -> None:
    before = [node.to_dict() for node in NODES]
    found = CatenaEntityExtractor()(NODES)
    assert [node.to_dict() for node in NODES] == before
    assert [(node.node_id, node.get_content(MetadataMode.NONE)) for node in found] == [
        (node.node_id, node.text) for node in NODES
    ]
    assert found[0].get_content(MetadataMode.EMBED) == f"entities: HX-200\n\n{TEXTS[0]}"
    own = NODES[0].model_copy(deep=True)
    assert CatenaEntityExtractor(in_place=True)([own])[0] is own


def test_nodes_of_several_documents_keep_their_places() -> None:
    documents = [Document(id_=f"d{number}", text=f"# Part\n\nIt is part AB-{number}.") for number in range(3)]
    nodes = CatenaNodeParser()(documents)
    mixed = [nodes[2], nodes[0], nodes[1]]
    found = CatenaEntityExtractor()(mixed)
    assert [node.metadata[ENTITIES] for node in found] == ["AB-2", "AB-0", "AB-1"]
    assert CatenaEntityExtractor()([]) == []


def key(extractor: CatenaEntityExtractor) -> str:
    return get_transformation_hash(NODES, extractor)


def test_the_cache_key_changes_with_all_that_decides() -> None:
    keys = [
        key(CatenaEntityExtractor()),
        key(CatenaEntityExtractor([CodeDetector(weight=2)])),
        key(CatenaEntityExtractor([EXPERT])),
        key(CatenaEntityExtractor([ExpertDetector(terms=ExpertTerms(["gear box"]))])),
        key(CatenaEntityExtractor([LLMDetector()], llm=Saying(reply=NAMED, model="one"))),
        key(CatenaEntityExtractor([LLMDetector()], llm=Saying(reply=NAMED, model="two"))),
        key(CatenaEntityExtractor([LLMDetector(kinds="places")], llm=Saying(reply=NAMED, model="one"))),
        key(CatenaEntityExtractor([RecognizerDetector()], recognizer=FakeRecognizer({}, "a"))),
        key(CatenaEntityExtractor([RecognizerDetector()], recognizer=FakeRecognizer({}, "b"))),
        key(CatenaEntityExtractor([RecognizerDetector(labels=("ORG",))], recognizer=FakeRecognizer({}, "b"))),
    ]
    assert len(set(keys)) == len(keys)
    assert key(CatenaEntityExtractor([EXPERT], journal="one.db")) == keys[2]
    assert key(CatenaEntityExtractor([EXPERT])) == keys[2]


def test_a_pipeline_with_a_cache_asks_once_per_model() -> None:
    cache = IngestionCache()
    one, two = (Saying(reply='["HX-210"]', model=name, asked=[]) for name in ("one", "two"))

    def run(model: Saying) -> list[BaseNode]:
        extractor = CatenaEntityExtractor([LLMDetector()], llm=model)
        manual = Document(id_="hx210", text="# HX-210\n\nThe HX-210 takes six screws.")
        pipeline = IngestionPipeline(transformations=[CatenaNodeParser(), extractor], cache=cache)
        return list(pipeline.run(documents=[manual]))

    (node,) = run(one)
    assert (node.metadata[ENTITIES], node.metadata["headings"]) == ("HX-210", "HX-210")
    assert [n.to_dict() for n in run(one)] == [node.to_dict()]
    run(two)
    assert (len(one.asked), len(two.asked)) == (1, 1)


@pytest.mark.slow
def test_a_pipeline_with_workers_finds_the_same() -> None:
    documents = [
        Document(id_=f"d{number}", text=f"# Part\n\nIt is part AB-{number}, a gear box.") for number in (1, 2)
    ]
    transformations = [CatenaNodeParser(), CatenaEntityExtractor([CodeDetector(), EXPERT])]
    alone = IngestionPipeline(transformations=transformations, disable_cache=True).run(documents=documents)
    workers = IngestionPipeline(transformations=transformations, disable_cache=True)
    assert [n.to_dict() for n in workers.run(documents=documents, num_workers=2)] == [n.to_dict() for n in alone]
    assert alone[0].metadata[ENTITIES] == "AB-1; gbx; gear box"


def test_it_is_serialised_by_what_its_parts_are_and_needs_them_again() -> None:
    extractor = CatenaEntityExtractor([EXPERT], on_error="raise")
    written = json.loads(extractor.to_json())
    assert written["class_name"] == "CatenaEntityExtractor"
    assert written["detectors"] == [repr(EXPERT)]
    with pytest.raises(ParameterError, match="given again"):
        CatenaEntityExtractor.from_dict(dict(written))
    assert CatenaEntityExtractor.from_dict(dict(written), detectors=[EXPERT]) == extractor
    with pytest.raises(ParameterError, match="at least one detector"):
        CatenaEntityExtractor([])


def test_replies_are_kept(tmp_path: Path) -> None:
    model = Saying(reply='["Acme"]', asked=[])
    extractor = CatenaEntityExtractor([LLMDetector()], llm=model, journal=str(tmp_path / "replies.db"))
    first = entities(extractor)
    asked = len(model.asked)
    assert asked == 3
    assert entities(extractor) == first
    assert len(model.asked) == asked


def broken(**options: Any) -> CatenaEntityExtractor:
    recognizer = Flaky(FakeRecognizer({}), [ServiceError("ner", "no model")] * 9)
    return CatenaEntityExtractor([CodeDetector(), RecognizerDetector()], recognizer=recognizer, **options)


def test_a_detector_that_fails_costs_its_entities_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with listening() as told, caplog.at_level(logging.WARNING):
        assert entities(broken()) == ["HX-200", None, "HX-200"]
    events = [e for e in told.events if isinstance(e, EntitiesDegradedEvent)]
    assert len(events) == 3  # one for each document
    assert all("recogniser at chunk" in event.what and "no model" in event.why for event in events)
    assert events[0].class_name() == "EntitiesDegradedEvent"
    assert "no model" in caplog.text


def test_a_detector_that_fails_raises_on_request() -> None:
    with pytest.raises(ServiceError, match="no model"):
        broken(on_error="raise")(NODES)
    with pytest.raises(MissingServiceError, match="Complete"):
        CatenaEntityExtractor([LLMDetector()])(NODES)

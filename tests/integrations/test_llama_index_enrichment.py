"""CatenaContextExtractor and CatenaEntityExtractor: what they write into nodes of any parser, and what fails."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import MarkdownNodeParser
from llama_index.core.schema import Document, MetadataMode, TextNode
from llama_index_models import Saying
from llama_index_spans import listening
from llama_index_stores import Replying, splitter

from catena.enrichment import (
    CodeDetector,
    ContextOptions,
    ExpertDetector,
    ExpertTerm,
    ExpertTerms,
    LLMDetector,
    RecognizerDetector,
)
from catena.model import ParameterError, ServiceError
from catena.testing import Flaky
from catena.testing.fakes import FakeRecognizer
from llama_index_catena import (
    CatenaContextExtractor,
    CatenaEntityExtractor,
    CatenaNodeParser,
    ContextDegradedEvent,
    EntitiesDegradedEvent,
)
from llama_index_catena.extractors import CONTEXT_HEADER, ENTITIES

TEXT = """# Pump manual

## Seal

The seal keeps the oil inside the housing. It is changed once a year by a trained person.

## Cover

The cover takes four screws of steel. They are tightened to twelve newton metres crosswise.
"""
SUMMARY = "This document is about: the pump."


def writing(prompt: str) -> str:
    """Answer as each of the four prompts asks."""
    if "title of the document alone" in prompt:
        return "Pump manual"
    if "Heading of the section" in prompt:
        return f"This section is about: the {'seal' if 'keeps the oil' in prompt else 'cover'}."
    return SUMMARY if "This document is about" in prompt else "The part"


def nodes(text: str = TEXT) -> list[TextNode]:
    return CatenaNodeParser(min_tokens=0).get_nodes_from_documents([Document(id_="pump", text=text)])


async def test_a_model_says_what_documents_and_sections_are_about() -> None:
    extractor = CatenaContextExtractor(Replying(by=writing))
    given = nodes()
    found = extractor(given)
    said = [{key: node.metadata.get(key) for key in ("title", "document_summary", "section_title")} for node in found]
    assert [each["section_title"] for each in said] == ["Seal", "Cover"]
    assert {(each["title"], each["document_summary"]) for each in said} == {("Pump manual", SUMMARY)}
    assert [node.metadata["section_summary"] for node in found] == [
        "This section is about: the seal.",
        "This section is about: the cover.",
    ]
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        assert await CatenaContextExtractor(Replying(by=writing)).acall(given) == found
    assert given == nodes()


def test_embeddings_read_it_only_where_the_options_say_so() -> None:
    for embed in (False, True):
        options = ContextOptions(by="offline", embed=embed)
        node = CatenaContextExtractor(options=options)(nodes())[0]
        assert ("section_summary" in node.get_content(MetadataMode.EMBED)) is embed
        assert "section_summary: " in node.get_content(MetadataMode.LLM)
        assert "title: Pump manual" in node.get_content(MetadataMode.EMBED)


def test_a_header_stands_for_the_keys() -> None:
    for embed in (False, True):
        options = ContextOptions(embed=embed)
        node = CatenaContextExtractor(Replying(by=writing), options=options, show="header")(nodes())[0]
        header = node.metadata[CONTEXT_HEADER]
        assert header == (
            "Document context: the following excerpt is from a document titled 'Pump manual'. "
            f"{SUMMARY}\n\nSection context: this excerpt is from the section titled 'Seal'. "
            "This section is about: the seal."
        )
        read = node.get_content(MetadataMode.LLM)
        assert header in read
        assert "document_summary: " not in read
        assert (header in node.get_content(MetadataMode.EMBED)) is embed
        assert "section_summary: " not in node.get_content(MetadataMode.EMBED)


def test_nodes_of_llama_indexs_own_parsers_are_described_too() -> None:
    document = Document(id_="pump", text=TEXT)
    by_markdown = CatenaContextExtractor(Replying(by=writing))(
        MarkdownNodeParser().get_nodes_from_documents([document])
    )
    assert {node.metadata["document_summary"] for node in by_markdown} == {SUMMARY}
    by_sentence = CatenaContextExtractor(Replying(by=writing))(splitter(20, 8).get_nodes_from_documents([document]))
    assert {node.metadata["document_summary"] for node in by_sentence} == {SUMMARY}
    summaries = [node.metadata.get("section_summary") for node in by_sentence]
    assert summaries[-1] == "This section is about: the cover."
    assert set(summaries) <= {None, "This section is about: the seal.", "This section is about: the cover."}
    assert [node.metadata.get("section_summary") for node in by_markdown] == [
        None,
        "This section is about: the seal.",
        "This section is about: the cover.",
    ]


def test_what_the_model_fails_at_is_missing_and_told(caplog: pytest.LogCaptureFixture) -> None:
    with listening() as told:
        found = CatenaContextExtractor(Saying(reply="Sure! Here you are."))(nodes())
    assert all("document_summary" not in node.metadata for node in found)
    events = [event for event in told.events if isinstance(event, ContextDegradedEvent)]
    assert "summary of pump" in {event.what for event in events}
    assert ContextDegradedEvent.class_name() == "ContextDegradedEvent"
    assert "summary of pump" in caplog.text


TEXTS = ("The Acme pump HX-200 has a gear box.", "Nothing is named here.", "Fit the HX-200 into the Borealis frame.")
NODES = [TextNode(id_=str(place), text=text) for place, text in enumerate(TEXTS)]
EXPERT = ExpertDetector(terms=ExpertTerms([ExpertTerm(name="gear box", aliases=("GBX",), weight=3)]))


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


def test_nodes_of_several_documents_keep_their_places() -> None:
    documents = [Document(id_=f"d{number}", text=f"# Part\n\nIt is part AB-{number}.") for number in range(3)]
    nodes = CatenaNodeParser()(documents)
    mixed = [nodes[2], nodes[0], nodes[1]]
    found = CatenaEntityExtractor()(mixed)
    assert [node.metadata[ENTITIES] for node in found] == ["AB-2", "AB-0", "AB-1"]
    assert CatenaEntityExtractor()([]) == []


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

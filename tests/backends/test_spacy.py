"""spaCy pipelines as entity recognisers: the real spaCy with rules, no trained model (nox session `entities`)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from catena.backends import SpacyRecognizer
from catena.effects import EntityRecognizer, Services, arun, run
from catena.enrichment import CodeDetector, RecognizerDetector, detect_entities, query_entities
from catena.model import Chunk, Document, ParameterError, ServiceError

PATTERNS = [
    {"label": "PRODUCT", "pattern": [{"LOWER": "hx"}, {"ORTH": "-"}, {"SHAPE": "ddd"}]},
    {"label": "PRODUCT", "pattern": "Hexa Pump"},
    {"label": "ORG", "pattern": "Acme Pumps"},
]


def pipeline(patterns: list[dict[str, Any]] = PATTERNS, language: str = "en") -> Any:
    spacy = pytest.importorskip("spacy")
    made = spacy.blank(language)
    made.add_pipe("entity_ruler").add_patterns(patterns)
    return made


@pytest.mark.entities
def test_entities_come_as_printed_in_order_of_texts():
    recognizer = SpacyRecognizer(pipeline())
    assert isinstance(recognizer, EntityRecognizer)
    texts = ["Acme Pumps sells the hx - 200 and the Hexa Pump.", "", "Nothing here."]
    assert recognizer.recognise(texts, ()) == (("Acme Pumps", "hx - 200", "Hexa Pump"), (), ())
    assert recognizer.recognise(texts, ("ORG",)) == (("Acme Pumps",), (), ())
    assert recognizer.recognise([], ()) == ()


@pytest.mark.entities
def test_its_own_labels_count_where_a_request_names_none():
    recognizer = SpacyRecognizer(pipeline(), labels=("PRODUCT",))
    assert recognizer.recognise(["the Hexa Pump of Acme Pumps"]) == (("Hexa Pump",),)
    assert recognizer.recognise(["the Hexa Pump of Acme Pumps"], ("ORG",)) == (("Acme Pumps",),)


@pytest.mark.entities
def test_it_finds_the_entities_of_documents_and_questions():
    text = "The Hexa Pump is made by Acme Pumps."
    chunk = Chunk(id="c", document_id="d", position=0, start=0, end=len(text), text=text)
    services = Services(recognizer=SpacyRecognizer(pipeline()))
    detectors = (RecognizerDetector(labels=("ORG", "PRODUCT")), CodeDetector())
    step = detect_entities(Document(id="d", text=text), [chunk], detectors)
    assert asyncio.run(arun(step, services)).terms == (("acme pumps", "hexa pump"),)
    question = query_entities("Does Acme Pumps make the QX-9, too?", detectors)
    assert run(question, services).names == ("acme pumps", "qx 9")


@pytest.mark.entities
def test_the_identity_changes_with_rules_labels_and_language():
    same = SpacyRecognizer(pipeline()).identity
    assert same == SpacyRecognizer(pipeline()).identity
    assert same.startswith("spacy/en_pipeline-0.0.0@")
    others = {
        SpacyRecognizer(pipeline(PATTERNS[:2])).identity,
        SpacyRecognizer(pipeline(), labels=("ORG",)).identity,
        SpacyRecognizer(pipeline(language="de")).identity,
    }
    assert len(others | {same}) == 4


@pytest.mark.entities
def test_what_cannot_find_anything_is_refused_at_once():
    spacy = pytest.importorskip("spacy")
    with pytest.raises(ParameterError, match=r"pipeline must be one with a component that finds entities, got \[\]"):
        SpacyRecognizer(spacy.blank("en"))
    tagger = spacy.blank("en")
    tagger.add_pipe("sentencizer")
    with pytest.raises(ParameterError, match="finds entities"):
        SpacyRecognizer(tagger)
    with pytest.raises(ParameterError, match=r"labels must be some of ORG, PRODUCT, got \['product'\]"):
        SpacyRecognizer(pipeline(), labels=("product",))
    with pytest.raises(ParameterError, match="labels must be some of ORG, PRODUCT"):
        SpacyRecognizer(pipeline()).recognise(["x"], ("PERSON",))
    with pytest.raises(ParameterError, match="batch_size must be an integer >= 1, got 0"):
        SpacyRecognizer(pipeline(), batch_size=0)


@pytest.mark.entities
def test_one_text_that_is_too_long_loses_no_other():
    made = pipeline()
    made.max_length = 100
    with pytest.raises(ServiceError, match="spacy: a text has 200 characters, the pipeline takes 100"):
        SpacyRecognizer(made).recognise(["Acme Pumps", "x" * 200])
    made.add_pipe("sentencizer")
    texts = ("Acme Pumps", "x " * 100, "the Hexa Pump")
    chunks = [
        Chunk(id=f"c{i}", document_id="d", position=i, start=0, end=len(text), text=text)
        for i, text in enumerate(texts)
    ]
    step = detect_entities(Document(id="d", text=""), chunks, (RecognizerDetector(),))
    entities = run(step, Services(recognizer=SpacyRecognizer(made)))
    assert entities.terms == (("acme pumps",), (), ("hexa pump",))
    assert [report.what for report in entities.degraded] == ["recogniser at chunk c1 of d"]


@pytest.mark.entities
def test_a_component_of_ones_own_may_tell_no_labels_and_may_fail():
    spacy = pytest.importorskip("spacy")
    from spacy.language import Language

    @Language.component("catena_test_component")
    def component(document: Any) -> Any:
        if "burst" in document.text:
            raise RuntimeError("burst")
        document.ents = [spacy.tokens.Span(document, 0, 1, label="ANY")]
        return document

    made = spacy.blank("en")
    made.add_pipe("catena_test_component")
    recognizer = SpacyRecognizer(made)
    assert recognizer.recognise(["one two"], ("ANY",)) == (("one",),)
    with pytest.raises(ServiceError, match="finding entities in 1 texts failed: RuntimeError"):
        recognizer.recognise(["burst"])


@pytest.mark.entities
def test_a_pipeline_that_is_not_there_is_our_error():
    pytest.importorskip("spacy")
    with pytest.raises(ServiceError, match=r"'absent_model' cannot be loaded \(OSError\)") as caught:
        SpacyRecognizer("/somewhere/absent_model")
    assert "somewhere" not in str(caught.value)

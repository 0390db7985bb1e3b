"""spaCy pipelines as entity recognisers: the real spaCy with rules, no trained model (nox session `entities`)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from retrieval_cases import chunk

from catena.backends import SpacyRecognizer
from catena.effects import EntityRecognizer, Services, arun, run
from catena.enrichment import CodeDetector, RecognizerDetector, detect_entities, query_entities
from catena.model import CatenaError, Document, ServiceError

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


class Rules:
    """A pipeline without spaCy: a word with a capital is a product, one with an A an organisation."""

    max_length, pipe_names = 40, ("ruler",)

    def __init__(self, labels=("ORG", "PRODUCT"), assigns=("doc.ents",)):
        self.meta = {"lang": "en", "name": "rules", "version": "1.0"}
        self.pipeline, self.assigns = [("ruler", SimpleNamespace(labels=labels))], assigns

    def get_pipe_meta(self, name):
        return SimpleNamespace(assigns=self.assigns)

    def to_bytes(self, exclude):
        return repr(self.pipeline).encode()

    def pipe(self, texts, batch_size):
        for text in texts:
            if len(text) > self.max_length or "burst" in text:
                raise ValueError("burst")
            words = [word for word in text.split() if word[0].isupper()]
            yield SimpleNamespace(
                ents=[SimpleNamespace(text=w, label_="ORG" if w[0] == "A" else "PRODUCT") for w in words]
            )


named = SpacyRecognizer


def test_labels_of_the_request_go_before_the_recognisers_own():
    texts = ["Acme sells the Hexa", "", "nothing"]
    assert named(Rules()).recognise(texts) == (("Acme", "Hexa"), (), ())
    assert named(Rules()).recognise(texts, ("ORG",)) == (("Acme",), (), ())
    assert named(Rules(), labels=["PRODUCT"]).recognise(texts) == (("Hexa",), (), ())
    assert named(Rules(), labels=["PRODUCT"], batch_size=1).recognise(texts, ("ORG",)) == (("Acme",), (), ())
    assert named(Rules(labels=())).recognise(texts, ("ANY",)) == ((), (), ())  # it tells no labels
    names = {named(Rules(), labels=labels).identity for labels in ((), ("ORG",), ("PRODUCT",))}
    assert {name.partition("@")[0] for name in names} == {"spacy/en_rules-1.0"}
    assert len(names) == 3
    assert named(Rules(labels=("X",))).identity not in names


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: named(Rules(assigns=("doc.tags",))), "one with a component that finds entities"),
        (lambda: named(Rules(), labels=("product",)), r"labels must be some of ORG, PRODUCT, got \['product'\]"),
        (lambda: named(Rules()).recognise(["x"], ("PERSON",)), "labels must be some of ORG, PRODUCT"),
        (lambda: named(Rules(), batch_size=0), "batch_size must be an integer >= 1, got 0"),
        (lambda: named(Rules()).recognise(["x", "y" * 41]), "has 41 characters, the pipeline takes 40"),
        (lambda: named(Rules()).recognise(["x", "burst"]), "finding entities in 2 texts failed: ValueError"),
    ],
)
def test_what_cannot_find_anything_is_refused_by_name(make, said):
    with pytest.raises(CatenaError, match=said):
        make()


@pytest.mark.entities
def test_entities_come_as_printed_in_order_of_texts():
    recognizer = SpacyRecognizer(pipeline())
    assert isinstance(recognizer, EntityRecognizer)
    texts = ["Acme Pumps sells the hx - 200 and the Hexa Pump.", "", "Nothing here."]
    assert recognizer.recognise(texts, ()) == (("Acme Pumps", "hx - 200", "Hexa Pump"), (), ())
    assert recognizer.recognise(texts, ("ORG",)) == (("Acme Pumps",), (), ())
    assert recognizer.recognise([], ()) == ()


@pytest.mark.entities
def test_it_finds_the_entities_of_documents_and_questions():
    text = "The Hexa Pump is made by Acme Pumps."
    services = Services(recognizer=SpacyRecognizer(pipeline()))
    detectors = (RecognizerDetector(labels=("ORG", "PRODUCT")), CodeDetector())
    step = detect_entities(Document(id="d", text=text), [chunk("c", text)], detectors)
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
def test_one_text_that_is_too_long_loses_no_other():
    made = pipeline()
    made.max_length = 100
    with pytest.raises(ServiceError, match="spacy: a text has 200 characters, the pipeline takes 100"):
        SpacyRecognizer(made).recognise(["Acme Pumps", "x" * 200])
    made.add_pipe("sentencizer")
    texts = ("Acme Pumps", "x " * 100, "the Hexa Pump")
    chunks = [chunk(f"c{i}", text, position=i) for i, text in enumerate(texts)]
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

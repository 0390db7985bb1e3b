"""Detectors of critical entities: what they find, what they refuse, and that one bad text loses no other."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk

from catena.effects import Complete, Completion, Handler, Recognise, Retry, Services, Step, run
from catena.enrichment import (
    Bounds,
    CodeDetector,
    Detected,
    Detector,
    Entities,
    ExpertDetector,
    ExpertTerm,
    ExpertTerms,
    LLMDetector,
    RecognizerDetector,
    detect_entities,
    query_entities,
    with_terms,
)
from catena.enrichment.entities import batches, grounded, name_lists
from catena.enrichment.term_selection import merge_terms
from catena.library import prepare
from catena.model import CatenaError, Chunk, Degraded, Document, InvalidReplyError, ParameterError, ServiceError
from catena.testing import FakeLLM, Flaky, ScriptedLLM
from catena.testing.fakes import FakeRecognizer

ONCE = Retry(attempts=1)


def chunked(*texts: str) -> tuple[Document, tuple[Chunk, ...]]:
    chunks = tuple(chunk(f"c{n}", text, position=n) for n, text in enumerate(texts))
    return Document(id="d", text="\n".join(texts)), chunks


def found(texts: Sequence[str], *detectors: Detector, **services: Any) -> Entities:
    return run(detect_entities(*chunked(*texts), detectors), Services(retry=ONCE, **services))


def passages(request: Complete) -> list[str]:
    return re.findall(r'<passage number="\d+">\n(.*?)\n</passage>', request.prompt, re.DOTALL)


def naming(*names: str) -> FakeLLM:
    """A faithful model: the names that each passage prints, as JSON."""
    return FakeLLM(lambda request: json.dumps([[n for n in names if n in text] for text in passages(request)]))


# Several detectors together


def test_detectors_add_up_and_the_greatest_weight_counts():
    texts = ("The Purge Valve of the HX-200.", "Acme Pumps makes the QX 9 and the purge valve.", "")
    entities = found(
        texts,
        ExpertDetector(terms=ExpertTerms([ExpertTerm(name="purge valve", aliases=("PV",), weight=3)])),
        CodeDetector(),
        RecognizerDetector(labels=("ORG",)),
        LLMDetector(weight=2),
        recognizer=FakeRecognizer({"ORG": ("Acme Pumps",), "PRODUCT": ("QX 9",)}),
        llm=naming("Acme Pumps", "Purge Valve"),
    )
    assert entities.terms == (
        ("hx 200", "purge valve", "purge valve", "purge valve", "pv", "pv", "pv"),
        ("acme pumps", "acme pumps", "purge valve", "purge valve", "purge valve", "pv", "pv", "pv"),
        (),
    )
    assert entities.degraded == ()


def test_terms_reach_the_entry_and_change_its_fingerprint():
    entry = prepare(Document(id="d", text="# HX-200\n\nFit the ring of Acme Pumps.\n"))
    named = Services(recognizer=FakeRecognizer({"ORG": ("Acme Pumps",)}))
    entities = run(detect_entities(entry.document, entry.chunks, (RecognizerDetector(),)), named)
    richer = with_terms(entry, entities.terms)
    assert entry.terms == (("hx 200", "hx 200"),)
    assert richer.terms == (("acme pumps", "hx 200", "hx 200"),)
    assert richer.fingerprint != entry.fingerprint
    assert with_terms(richer, entities.terms) == with_terms(richer) == richer
    with pytest.raises(ParameterError, match=r"one for each of 1 chunks, got \[2\]"):
        with_terms(entry, ((), ()))


TERMS = st.lists(st.sampled_from("abc"), max_size=4)


@given(st.lists(st.lists(TERMS, min_size=3, max_size=3), min_size=1, max_size=4))
def test_merging_is_free_of_order_and_repetition(lists):
    merged = merge_terms(*lists)
    assert merged == merge_terms(*reversed(lists)) == merge_terms(merged, *lists, ())
    for place, terms in enumerate(merged):
        assert list(terms) == sorted(terms)
        for term in "abc":
            assert terms.count(term) == max(each[place].count(term) for each in lists)
    with pytest.raises(ParameterError, match=r"lengths of the lists of terms must be equal, or 0, got \[1, 2\]"):
        merge_terms(((),), ((), ()))


# What a text does not print


@pytest.mark.parametrize(
    ("name", "text", "kept"),
    [
        ("HX-200", "the hx 200, as printed", True), ("HX–200", "the ＨＸ-200", True), ("HX-200", "the HX200", False),
        ("STM32F103", "an STM32F103R4 only", False), ("Purge  Valve", "the purge\nvalve", True),
        ("東京電力", "東京電力の設備", True), ("Acme Corporation", "Acme makes pumps", False),
        ("one two three four", "one two three four", False),
    ],
)  # fmt: skip
def test_only_what_the_text_prints_is_a_name(name, text, kept):
    result = grounded([name], text, max_words=3)
    assert bool(result.names) is kept
    assert result.refused == (() if kept else (name,))
    unworthy = ["24", "2,024.5", "x", "", " - "]  # of a word
    assert grounded(unworthy, "24 x 2,024.5", max_words=3) == grounded([], "", max_words=3)


def test_a_name_has_eight_words_at_most():
    nine = "one two three four five six seven eight nine"
    eight = nine.removesuffix(" nine")
    for detector in (LLMDetector(), RecognizerDetector()):
        models = {"llm": naming(eight, nine), "recognizer": FakeRecognizer({"ORG": (eight, nine)})}
        assert found((nine,), detector, **models).terms == ((eight,),)


def test_invented_names_are_refused_and_reported():
    llm = ScriptedLLM([json.dumps([["HX-200", "HX-300"], ["HX-200"]])])
    entities = found(("the HX-200", "nothing"), LLMDetector(), llm=llm)
    assert entities.terms == (("hx 200",), ())
    assert entities.degraded == tuple(
        Degraded(f"language model at chunk {where} of d", f"left out '{name}': not a name that the text prints")
        for where, name in (("c0", "HX-300"), ("c1", "HX-200"))
    )


@given(st.lists(st.text(max_size=12), max_size=6), st.text(max_size=60))
def test_whatever_a_model_says_terms_are_normal_and_in_the_text(names, text):
    reply = json.dumps([names])
    services = Services(llm=FakeLLM(lambda _: reply), retry=ONCE)
    entities = run(detect_entities(*chunked(text), (LLMDetector(),)), services)
    assert entities.terms[0] == tuple(sorted(grounded(names, text, max_words=8).names) if text.strip() else ())


# Replies


def test_replies_are_read():
    for reply, count, names in (
        ('["a", "b"]', 1, (("a", "b"),)), ("[]", 1, ((),)), ('[["a"]]', 1, (("a",),)),
        ('{"names": [["a", "b",], []]}', 2, (("a", "b"), ())), ('{"1": ["a"], "2": []}', 2, (("a",), ())),
        ('Maybe [["x"], ["y"]]? No:\n[["a"], ["b"]]\nThat is all [1].', 2, (("a",), ("b",))),
    ):  # fmt: skip
        assert name_lists(reply, count) == names


def test_other_replies_are_refused():
    for reply, count in (
        ("I found no names.", 1), ('[["a"], ["b"', 2), ('[["a"]]', 2), ('["a", "b"]', 2), ("[[1]]", 1),
        ("[" * 100_000, 1),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"list of {count} lists of strings"):
            name_lists(reply, count)


# One bad text


def test_a_text_that_the_model_refuses_loses_no_other():
    def reply(request: Complete) -> Completion:
        texts = passages(request)
        refused = any("bad" in text for text in texts)
        names = json.dumps([["HX-200"] for _ in texts])
        return Completion(text=names, finish_reason="refusal" if refused else "stop")

    llm = FakeLLM(reply)
    texts = ("HX-200 one", "HX-200 two, bad", "HX-200 three")
    entities = found(texts, LLMDetector(bounds=Bounds(texts=2, characters=1_000)), llm=llm)
    assert entities.terms == (("hx 200",), (), ("hx 200",))
    (report,) = entities.degraded
    assert report.what == "language model at chunk c1 of d"
    assert "did not end by itself (finish_reason 'refusal')" in report.why
    assert len(llm.calls) == 4  # two batches, then the two texts of the bad one


def test_a_service_out_of_reach_is_not_asked_text_by_text():
    recognizer = Flaky(FakeRecognizer({"ORG": ("Acme",)}), [ServiceError("ner", "overloaded", retry=True)])
    entities = found([f"Acme {i}" for i in range(7)], RecognizerDetector(), CodeDetector(), recognizer=recognizer)
    assert entities.terms == ((),) * 7
    assert entities.degraded == (
        Degraded("recogniser at chunk c0, chunk c1, chunk c2, chunk c3, chunk c4 and 2 more of d", "ner: overloaded"),
    )
    assert len(recognizer.calls) == 1


def test_failures_are_raised_when_asked_for():
    llm = ScriptedLLM(["no JSON"])
    step = detect_entities(*chunked("an HX-200"), (CodeDetector(), LLMDetector()), on_error="raise")
    with pytest.raises(InvalidReplyError, match="the reply holds no JSON list"):
        run(step, Services(llm=llm))
    with pytest.raises(ParameterError, match="on_error must be 'raise' or 'degrade', got 'ignore'"):
        run(detect_entities(*chunked("x"), (), on_error="ignore"), Services())  # type: ignore[arg-type]


def test_a_detector_of_ones_own_may_break_off():
    @dataclass(frozen=True)
    class Broken:
        error: Exception
        name: str = "mine"

        def detect(self, texts: Sequence[str]) -> Step[Detected]:
            yield from ()
            raise self.error

    entities = found(("an HX-200", "x"), Broken(ServiceError("mine", "no")), CodeDetector())
    assert entities.terms == (("hx 200",), ())
    assert entities.degraded == (Degraded("mine at chunk c0, chunk c1 of d", "mine: no"),)
    with pytest.raises(CatenaError, match="must be even"):
        found(("x",), Broken(ParameterError("x", 1, "even")))


def test_a_handler_that_checks_nothing_cannot_mix_texts_up():
    handlers = {
        Recognise: Handler(identity="r", call=lambda request: [["HX-200"]]),
        Complete: Handler(identity="l", call=lambda request: Completion(text="[[1]]")),
    }
    entities = found(("HX-200", "two"), RecognizerDetector(), LLMDetector(), handlers=handlers)
    assert entities.terms == ((), ())
    why = ("model: names in 1 texts were given for 2", "model: the reply holds no JSON list of 2 lists of strings")
    assert [part.why for part in entities.degraded] == list(why)


# What is asked


def test_equal_texts_are_asked_once_and_blank_ones_never():
    recognizer = FakeRecognizer({"ORG": ("Acme",)})
    entities = found(("Acme", " ", "Acme", ""), RecognizerDetector(), recognizer=recognizer)
    assert entities.terms == (("acme",), (), ("acme",), ())
    assert recognizer.calls == [(("Acme",), ())]
    assert found((), CodeDetector()) == Entities(())
    assert found(("an HX-200", "")) == Entities(((), ()))


@given(st.lists(st.text("ab ", max_size=9), max_size=20), st.integers(1, 5), st.integers(1, 20))
def test_batches_keep_all_texts_in_order_within_their_bounds(texts, most, characters):
    made = list(batches(texts, Bounds(texts=most, characters=characters)))
    assert [text for batch in made for text in batch] == texts
    assert all(1 <= len(batch) <= most for batch in made)
    assert all(len(batch) == 1 or sum(map(len, batch)) <= characters for batch in made)


# Questions


def test_a_question_names_what_it_prints_in_order():
    expert = ExpertTerms([ExpertTerm(name="HX-200", aliases=("HX200", "Hexa 200")), "valve", "purge valve"])
    services = Services(recognizer=FakeRecognizer({"ORG": ("Acme Pumps",)}), llm=naming("QX-9"))
    query = "Is the purge valve of the HX200 from Acme Pumps like that of the QX-9 or the EN-1?"
    detectors = (LLMDetector(), ExpertDetector(terms=expert), RecognizerDetector(), CodeDetector())
    entities = run(query_entities(query, detectors), services)
    assert entities.names == ("purge valve", "valve", "hx200", "acme pumps", "qx 9", "en 1")
    assert entities.degraded == ()


def test_a_question_needs_no_model():
    assert run(query_entities("torque of the HX-200, 12 Nm?"), Services()).names == ("hx 200",)
    assert run(query_entities("what is it?"), Services()).names == ()

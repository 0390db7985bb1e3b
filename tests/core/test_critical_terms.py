"""Critical terms: what is taken, what it weighs, and what is left out."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk

from catena.enrichment import CriticalTermOptions, ExpertTerm, ExpertTerms, critical_terms
from catena.model import Chunk, Document, ParameterError
from catena.text import normalise_term

TABLE = (
    "Table 4. Ratings\n\n| Parameter | Value |\n|:----------|------:|\n| Supply voltage | 24 V |\n"
    "| Fuse \\| spare | T2A |\n| Remark | as long as the device is not opened by the user |\n"
)


def document(text: str, title: str = "HX-200 Manual") -> tuple[Document, tuple[Chunk, ...]]:
    return Document(id="d", text=text, title=title), (chunk("c", text),)


def terms(text: str, title: str = "HX-200 Manual", **options) -> Counter[str]:
    (found,) = critical_terms(*document(text, title), CriticalTermOptions(**options))
    return Counter(found)


def test_the_title_belongs_to_every_chunk_and_counts_twice():
    assert terms("Nothing else.") == Counter({"hx 200 manual": 2, "hx 200": 2})
    assert terms("Nothing else.", codes=False, title_weight=3) == Counter({"hx 200 manual": 3})


def test_codes_and_cells_without_headers_and_sentences_are_terms():
    said = "Fit the STM32F103R4 or an ESP32-C6 (3.3V), torque 12 Nm, page 7, in 2024."
    assert set(terms(said, title="")) == {"stm32f103r4", "esp32 c6", "3.3v"}
    assert set(terms(TABLE, title="")) == {"supply voltage", "24 v", "fuse | spare", "t2a", "remark"}
    assert not terms(TABLE, title="", cells=False, codes=False)


def test_expert_terms_match_whole_words_and_a_title_that_is_also_a_cell_counts_as_the_title_only():
    texts = ("the purge valve,", "the purge valves", "impurge valve")
    assert ["purge valve" in terms(text, expert=("Purge Valve",)) for text in texts] == [True, False, False]
    assert terms("| Name |\n|---|\n| HX-200 manual |\n")["hx 200 manual"] == 2


@given(st.text(max_size=300), st.text(max_size=30))
def test_terms_are_normal_sorted_and_the_same_each_time(text, title):
    (found,) = critical_terms(*document(text, title))
    assert list(found) == sorted(found)
    assert all(term and normalise_term(term) == term for term in found)
    assert critical_terms(*document(text, title)) == (found,)


# Expert lists


def listed(tmp_path: Path, name: str, content: str | bytes) -> ExpertTerms:
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return ExpertTerms.read(file)


def test_one_spelling_stands_for_all_and_the_weight_counts():
    expert = (ExpertTerm(name="Digital Signal Controller", aliases=("DSC",), weight=3), "motor")
    found = terms("The DSC drives the motor, not the motors.", title="", expert=expert, codes=False)
    assert found == Counter({"digital signal controller": 3, "dsc": 3, "motor": 1})


def test_a_spelling_of_two_things_is_both_and_has_the_greater_weight_in_any_order():
    heavy, light = (ExpertTerm(name=name, aliases=("X",), weight=w) for name, w in (("A one", 5), ("B two", 2)))
    for expert in (ExpertTerms([heavy, light]), ExpertTerms([light, heavy])):
        for text in ("the x", "A-one and B two", "B two and A one"):
            assert expert.carried(text) == {"a one": 5, "b two": 2, "x": 5}
    alone = ExpertTerms(
        [ExpertTerm(name="A one", aliases=("X",)), ExpertTerm(name="B two", aliases=("x",), weight=2)]
    )
    assert alone.carried("the A-one") == {"a one": 1, "x": 1}


def test_expert_terms_inside_each_other_are_all_carried_but_the_longest_is_asked_for():
    expert = ExpertTerms(["valve", "purge valve"])
    assert expert.carried("The purge valve") == {"purge valve": 1, "valve": 1}
    assert expert.named_in("a purge valve or a valve") == ("purge valve", "valve")
    assert expert.named_in("a purge valve") == ("purge valve",)


def test_lists_are_values_with_short_names():
    one, same, other = ExpertTerms(["a1", "b"]), ExpertTerms(("a1", ExpertTerm(name="b"))), ExpertTerms(["a1"])
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one != ("a1", "b")
    assert repr(one) == repr(same) != repr(other)
    assert len(repr(ExpertTerms(f"term {i}" for i in range(10_000)))) < 60
    assert CriticalTermOptions(expert=["a1", "b"]) == CriticalTermOptions(expert=one)
    assert repr(CriticalTermOptions(expert=("a1",))) == repr(CriticalTermOptions(expert=["a1"]))
    assert pickle.loads(pickle.dumps(one)) == one


def test_a_text_file_holds_a_term_a_line(tmp_path):
    read = listed(
        tmp_path, "parts.txt", "\ufeff# parts\nHX-200\tHX200; Hexa 200\t3\n\nC#, the language\n  purge valve  \n"
    )
    assert read == ExpertTerms(
        [ExpertTerm(name="HX-200", aliases=("HX200", "Hexa 200"), weight=3), "C#, the language", "purge valve"]
    )


@pytest.mark.parametrize(
    "content",
    [
        'HX-200,HX200;Hexa 200,3\n"Pump, large",,\n',
        'term,aliases,weight\r\nHX-200,HX200 ; Hexa 200,3\r\n"Pump, large"\r\n',
        'Term,Weight,Aliases\nHX-200,3,HX200;;Hexa 200\n,,\n"Pump, large"\n',
    ],
)
def test_a_csv_file_with_and_without_a_line_of_names(tmp_path, content):
    assert listed(tmp_path, "parts.CSV", content) == ExpertTerms(
        [ExpertTerm(name="HX-200", aliases=("HX200", "Hexa 200"), weight=3), "Pump, large"]
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "HX-200\n...\t\t2\n", "expert term in line 2 of a.txt must be text with more than punctuation"),
        ("a.txt", "HX-200\t - \t2\n", "expert term in line 1 of a.txt"),
        ("a.txt", "one\n# note\n\ntwo\t\t-1\n", "weight in line 4 of a.txt must be an integer >= 1, got '-1'"),
        ("a.txt", "one\t\t0\n", "weight of the expert term 'one' in line 1 of a.txt must be an integer >= 1, got 0"),
        ("a.txt", "one\ttwo\t3\t4\n", "line 1 of a.txt must be at most 3 fields"),
        ("a.csv", "term,weight\none,2\n,3\n", "expert term in line 3 of a.csv"),
        ("a.csv", "term,wieght\none,2\n", "columns in line 1 .* some of term, aliases, weight, once each"),
        ("a.csv", "term,term\none,2\n", "columns in line 1"),
        ("a.csv", "term,weight\none,2,5\n", "line 2 of a.csv must be at most 2 fields: term, weight"),
        ("a.csv", "one,x,2,y\n", "line 1 of a.csv must be at most 3 fields"),
        ("a.csv", 'one\n"two\nlines",,x\n', "weight in line 2 of a.csv must be an integer"),
        ("a.csv", 'one\n"two" x\n', "line 2 of a.csv must be a line of CSV"),
        (
            "a.txt",
            b"\xff\xfe",
            r"expert list must be a file of UTF-8 text that can be read, got 'a.txt \(not UTF-8\)'",
        ),
    ],
)
def test_a_line_that_is_no_term_is_named(tmp_path, name, content, message):
    with pytest.raises(ParameterError, match=message) as caught:
        listed(tmp_path, name, content)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_one_string_is_no_list_a_weight_is_at_least_one_and_a_missing_list_is_our_error(tmp_path):
    for refused, message in (
        (lambda: ExpertTerms("HX-200"), "a sequence of terms, got 'HX-200'"),
        (lambda: ExpertTerm(name="a", weight=0), "weight of the expert term 'a' must be an integer >= 1"),
        (lambda: CriticalTermOptions(expert=("", "a")), "expert term must be text with more than punctuation"),
        (lambda: ExpertTerms.read(tmp_path / "absent.txt"), r"got 'absent\.txt \("),
    ):
        with pytest.raises(ParameterError, match=message):
            refused()

"""Names in a question: known ones, near ones, what the question asks besides, and how it writes them."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from catena.effects import FindNames
from catena.model import Name, Unknown
from catena.store import names_besides, names_found
from catena.text import (
    NameIndex,
    all_as_written,
    as_written,
    codes_in,
    is_measure,
    names_of,
    normalise_term,
    other_forms,
    without,
)
from catena.text.names import caseless

BOARDS = {
    "lopy": "Pycom LoPy", "lopy4": "Pycom LoPy4", "pi1": "Raspberry Pi 1 Model B",
    "pi3": "Raspberry Pi 3 Model B", "s8": "Sanguino ATmega644 (8 MHz)", "s16": "Sanguino ATmega644 (16 MHz)",
    "r2030": "Annual report 2030", "v": "Widget V2",
}  # fmt: skip


@pytest.fixture(scope="module")
def index() -> NameIndex:
    return NameIndex(BOARDS)


def known(index: NameIndex, query: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(name.text, name.documents) for name in index.known_in(query)]


def near(index: NameIndex, query: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(name.text, name.near) for name in index.near_in(query)]


def test_a_title_and_each_code_in_it_are_names() -> None:
    assert names_of("HX-200 and HX-210: Operating Manual") == (
        "hx 200 and hx 210: operating manual", "hx 200", "hx 210",
    )  # fmt: skip
    assert names_of("Manual") == ("manual",)
    assert names_of("2030") == ()


MEASURES = (
    "16mhz", "16 mhz", "3.3v", "3.3 v", "32 bit", "64k", "128kb", "5m/s", "1,5 a", "100mg/5ml", "5mg/kg/day", "2x4",
    "10x20mm", "v4.2", "100 recipes",
)  # fmt: skip
NAMES = ("hx 200", "stm32f103", "2n3904", "pi 3", "esp32", "8051", "model 3", "2023 report")


def test_numbers_with_units_and_versions_are_measures_and_names_are_not() -> None:
    assert [term for term in (*MEASURES, *NAMES) if is_measure(term)] == list(MEASURES)


def test_the_longest_name_at_each_place_is_said(index: NameIndex) -> None:
    assert known(index, "LoPy4 or raspberry-pi 3 model b?") == [
        ("lopy4", ("lopy4",)), ("raspberry pi 3 model b", ("pi3",)),
    ]  # fmt: skip


def test_a_name_that_differs_in_its_digits_is_near(index: NameIndex) -> None:
    assert near(index, "How much RAM has the Pycom LoPy11?") == [("Pycom LoPy11", ("Pycom LoPy4",))]
    assert near(index, "What does the annual report 2031 say?") == [("annual report 2031", ("Annual report 2030",))]
    assert near(index, "Raspberry Pi 2 Model B") == [
        ("Raspberry Pi 2 Model B", ("Raspberry Pi 1 Model B", "Raspberry Pi 3 Model B")),
    ]  # fmt: skip
    assert near(index, "RAM of the Sanguino ATmega644 (23 MHz)?") == [
        ("Sanguino ATmega644 (23 MHz)", ("Sanguino ATmega644 (16 MHz)", "Sanguino ATmega644 (8 MHz)")),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "query",
    [
        *BOARDS.values(),
        "Which annual report 203 do you have?",  # the beginning of a name
        "Is version V3 out?",  # one letter: a version, not a product
        "Does it run at 48 MHz with 2 GB, as 1 of 3 models?",
        "",
    ],
)
def test_what_is_a_name_or_no_name_at_all_is_not_near(index: NameIndex, query: str) -> None:
    assert near(index, query) == []


def test_what_a_question_asks_besides_its_names() -> None:
    query = "Which has more RAM, the Teensy-LC or the Teensy 2.0 (old)?"
    assert without(query, ["teensy lc", "teensy 2.0"]) == "Which has more RAM, the or the (old)?"
    assert without("ＨＸ－２００ torque?", ["hx 200"]) == "torque?"
    assert without("HX-200", ["hx 200"]) == ""
    assert without("HX-2000 torque", ["hx 200"]) == "HX-2000 torque"


def test_a_name_is_shown_as_the_question_writes_it() -> None:
    assert as_written("the Hx_200 (b) pump", "hx 200 (b") == "Hx_200 (b)"
    assert as_written("ﬁx 200", "fix 200") == "fix 200"


words = st.text(alphabet="aB1 2-_(.)é", max_size=12)


@given(st.dictionaries(st.sampled_from("abcdef"), words, max_size=6), words, words)
def test_a_title_in_a_question_is_said_and_never_near(titles: dict[str, str], before: str, after: str) -> None:
    index = NameIndex(titles)
    for document_id, title in titles.items():
        if name := normalise_term(title):
            found = index.known_in(f"? {title} ?")
            if names_of(title)[:1] == (name,):
                assert any(document_id in known_name.documents for known_name in found)
    said = {unknown.text for unknown in index.near_in(f"{before} {after}")}
    assert not said & set(titles.values())


NOT_NEAR = {
    "What are the 5 best options?": "The 100", "what are the top 5 reasons?": "Top 10",
    "Is a Budget 50000 enough?": "Budget 2024", "Was the Widget 50% off?": "Widget 5",
    "Give me 3 recipes": "100 Recipes", "What was the 24-month mortality?": "A 12-month study of stents",
    "what happened on 12 May 2021?": "Meeting notes 03-May-2024",
    "can I give 200mg/10ml?": "Paracetamol 100mg/5ml suspension", "scan 1": "scan_001", "s1e2": "S01E02",
    "FY23 revenue": "ACME FY2023 results",
}  # fmt: skip


@pytest.mark.parametrize("query", NOT_NEAR)
def test_numbers_dates_and_measures_are_near_no_name(query: str) -> None:
    assert near(NameIndex({"a": NOT_NEAR[query]}), query) == []


def test_an_everyday_word_before_a_number_is_a_name_where_it_is_written_as_one() -> None:
    assert near(NameIndex({"a": "Widget 5"}), "the Widget 7") == [("Widget 7", ("Widget 5",))]
    assert near(NameIndex({"a": "RFC 2616"}), "RFC 7231") == [("RFC 7231", ("RFC 2616",))]
    assert near(NameIndex({"a": "scan_001"}), "scan 3") == [("scan 3", ("scan_001",))]
    assert near(NameIndex({"a": "Budget 2024"}), "the Budget 2023") == [("Budget 2023", ("Budget 2024",))]
    assert near(NameIndex({"a": "2023 report"}), "the 2021 report") == [("2021 report", ("2023 report",))]
    widgets = [f"Widget {number}" for number in range(1, 7)]
    assert near(NameIndex({name: name for name in widgets}), "Widget 9") == [("Widget 9", tuple(widgets[:5]))]


def test_a_code_ends_where_a_script_without_spaces_or_hangul_begins() -> None:
    assert codes_in("HX-200のトルクは?  2023年报告 HX-200의 토크, ESP32") == ("HX-200", "HX-200", "ESP32")
    assert as_written("HX-200のトルク", "hx 200") == "HX-200"
    assert without("HX-200のトルク", ["hx 200"]) == "のトルク"


def test_codes_mix_letters_and_digits_and_counted_words_and_dates_are_none() -> None:
    assert codes_in("The ATmega168P/PA at 3.3V, an A-10 and 12 others of 2030") == ("ATmega168P/PA", "3.3V", "A-10")
    assert codes_in("a 3-month plan of 03-May-2024 in 001.pdf, 3-Monats-Frist, 5-HT, 74-LS00") == ("5-HT", "74-LS00")


def test_other_forms_of_a_code() -> None:
    assert other_forms("hx 200s") == ("hx 200s", "hx 200", "hx200s", "hx200")
    assert other_forms("hx 200 based")[1] == "hx 200"
    assert other_forms("hx200") == ("hx200",)


# Many names in one text: found in one pass as a search per name finds them

WORDS = st.sampled_from([
    "HX", "hx", "200", "20", "a1", "A1b", "K2", "\u212a2", "ſ3", "s3", "µ5", "İ7", "ΰ8", "\u1fe38", "(b2)",
    "日", "ｈｘ９",
])  # fmt: skip
GAPS = st.sampled_from([" ", "-", "_", " \u2013 ", "", "\n", ",", "\ud800", "\ufffd", "(", ")"])
TEXTS = st.lists(st.tuples(WORDS, GAPS), max_size=8).map(lambda parts: "".join(map("".join, parts)))


@given(text=TEXTS, names=st.lists(TEXTS.map(normalise_term), max_size=6))
@example(text="AHX-200 hx  200", names=["hx 200", "hx 20", "hx"])
@example(text="HX", names=[""])
@example(text="see HX-200 (rev 2) and hx 200", names=["hx 200 (rev 2", "200"])
def test_many_names_are_written_as_each_alone(text: str, names: list[str]) -> None:
    each_alone = {name: as_written(text, name) for name in names}
    assert all_as_written(text, names) == each_alone
    with patch("catena.text.names._FEW", 0):  # by the automaton, as in longer texts
        assert all_as_written(text, names) == each_alone


def test_letters_are_one_where_a_pattern_without_case_takes_them_for_one() -> None:
    cased = [c for c in map(chr, range(sys.maxunicode + 1)) if c.lower() != c or c.upper() != c]
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for character in cased:
        alike[caseless(character)].append(character)
    line = "".join(cased)

    for group in alike.values():
        assert re.findall(re.escape(group[0]), line, re.IGNORECASE) == group


TITLES = {"a": "HX-200 manual", "b": "HX-210", "c": "A1b 20", "d": "K2"}


def one_by_one(request: FindNames, known: tuple[Name, ...], near: tuple[Unknown, ...], terms: set[str]) -> list[str]:
    """What is unknown, by the definition: each form in each text that is covered."""
    missing = [unknown for unknown in near if unknown.text not in terms]
    missed = [normalise_term(unknown.text) for unknown in missing]
    said = [name.text for name in known if not any(name.text in one for one in missed)]
    others = [
        as_written(request.query, name)
        for name in names_besides(request)
        if not any(form in terms or any(form in one for one in (*missed, *said)) for form in other_forms(name))
    ]
    return [*(unknown.text for unknown in missing), *others]


@given(query=TEXTS, also=st.lists(TEXTS, max_size=2), terms=st.sets(st.sampled_from(["hx200", "a1", "k2", "s3"])))
@example(query="HX-220 for A1b 20 with hx-200s", also=["s b"], terms=set())
def test_what_is_unknown_is_what_it_is_one_by_one(query: str, also: list[str], terms: set[str]) -> None:
    index = NameIndex(TITLES)
    request = FindNames(query=query, also=tuple(also))
    known, near = index.known_in(query), index.near_in(query)

    found = names_found(
        request, known=known, near=near, is_term=terms.__contains__, is_property=lambda name: name.text == "k2"
    )
    assert [unknown.text for unknown in found.unknown] == one_by_one(request, known, near, terms)


def test_a_library_and_a_long_question_search_for_no_name_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catena.text.names._places", None)
    index = NameIndex(TITLES)
    query = " ".join(f"HX-{number} AB{number}x" for number in range(300, 1_300))
    near = index.near_in(query)

    found = names_found(
        FindNames(query=query), known=(), near=index.near_in(query), is_term=lambda _: False,
        is_property=lambda _: False,
    )  # fmt: skip
    assert len(near) == 1_000
    assert [unknown.text for unknown in found.unknown[1_000:]] == [f"AB{number}x" for number in range(300, 1_300)]

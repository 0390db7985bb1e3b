"""Names of documents in a question: known ones, near ones, and what the question asks besides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.text import NameIndex, as_written, codes_in, is_measure, names_of, normalise_term, other_forms, without

BOARDS = {
    "lopy": "Pycom LoPy",
    "lopy4": "Pycom LoPy4",
    "pi1": "Raspberry Pi 1 Model B",
    "pi3": "Raspberry Pi 3 Model B",
    "s8": "Sanguino ATmega644 (8 MHz)",
    "s16": "Sanguino ATmega644 (16 MHz)",
    "r2030": "Annual report 2030",
    "v": "Widget V2",
}


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


def test_codes_mix_letters_and_digits() -> None:
    assert codes_in("The ATmega168P/PA at 3.3V, an A-10 and 12 others of 2030") == ("ATmega168P/PA", "3.3V", "A-10")


@pytest.mark.parametrize("term", ["16mhz", "16 mhz", "3.3v", "3.3 v", "32 bit", "64k", "128kb", "5m/s", "1,5 a"])
def test_a_number_with_its_unit_is_a_measure(term: str) -> None:
    assert is_measure(term)


@pytest.mark.parametrize("term", ["hx 200", "stm32f103", "2n3904", "pi 3", "esp32", "8051", "model 3"])
def test_a_name_is_no_measure(term: str) -> None:
    assert not is_measure(term)


def test_the_longest_name_at_each_place_is_said(index: NameIndex) -> None:
    assert known(index, "LoPy4 or raspberry-pi 3 model b?") == [
        ("lopy4", ("lopy4",)), ("raspberry pi 3 model b", ("pi3",)),
    ]  # fmt: skip


def test_two_documents_may_bear_one_name() -> None:
    assert known(NameIndex({"b": "HX-200", "a": "hx_200"}), "the HX 200") == [("hx 200", ("a", "b"))]


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


def test_the_most_alike_names_come_first_and_at_most_five() -> None:
    titles = {str(n): f"STM32F{n}RB" for n in (100, 103, 205, 301, 302, 401, 407)}
    ((said, names),) = near(NameIndex(titles), "the stm32f104rb")
    assert said == "stm32f104rb"
    assert names == ("STM32F100RB", "STM32F103RB", "STM32F205RB", "STM32F301RB", "STM32F302RB")


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


@given(words, st.lists(words, max_size=3))
def test_removing_names_only_removes(query: str, names: list[str]) -> None:
    normal = [name for raw in names if (name := normalise_term(raw))]
    rest = without(query, normal)
    assert len(rest) <= max(len(query), len(normalise_term(query)) + len(query))
    assert without(rest, []) == rest


@pytest.mark.parametrize(
    ("title", "query"),
    [
        ("The 100", "What are the 5 best options?"),
        ("Top 10", "what are the top 5 reasons?"),
        ("Budget 2024", "Is a Budget 50000 enough?"),
        ("Widget 5", "Was the Widget 50% off?"),
        ("100 Recipes", "Give me 3 recipes"),
        ("A 12-month study of stents", "What was the 24-month mortality?"),
        ("Meeting notes 03-May-2024", "what happened on 12 May 2021?"),
        ("Paracetamol 100mg/5ml suspension", "can I give 200mg/10ml?"),
        ("scan_001", "scan 1"),
        ("S01E02", "s1e2"),
        ("ACME FY2023 results", "FY23 revenue"),
    ],
)
def test_numbers_dates_and_measures_are_near_no_name(title: str, query: str) -> None:
    assert near(NameIndex({"a": title}), query) == []


def test_an_everyday_word_before_a_number_is_a_name_where_it_is_written_as_one() -> None:
    assert near(NameIndex({"a": "Widget 5"}), "the Widget 7") == [("Widget 7", ("Widget 5",))]
    assert near(NameIndex({"a": "RFC 2616"}), "RFC 7231") == [("RFC 7231", ("RFC 2616",))]
    assert near(NameIndex({"a": "scan_001"}), "scan 3") == [("scan 3", ("scan_001",))]
    assert near(NameIndex({"a": "Budget 2024"}), "the Budget 2023") == [("Budget 2023", ("Budget 2024",))]
    assert near(NameIndex({"a": "2023 report"}), "the 2021 report") == [("2021 report", ("2023 report",))]


@pytest.mark.parametrize("term", ["100mg/5ml", "5mg/kg/day", "2x4", "10x20mm", "v4.2", "100 recipes"])
def test_compound_measures_and_versions_are_measures(term: str) -> None:
    assert is_measure(term)
    assert not is_measure("2023 report")


def test_a_code_ends_where_a_script_without_spaces_or_hangul_begins() -> None:
    assert codes_in("HX-200のトルクは?  2023年报告 HX-200의 토크, ESP32") == ("HX-200", "HX-200", "ESP32")
    assert as_written("HX-200のトルク", "hx 200") == "HX-200"
    assert without("HX-200のトルク", ["hx 200"]) == "のトルク"


def test_counted_words_and_dates_are_no_codes() -> None:
    assert codes_in("a 3-month plan of 03-May-2024 in 001.pdf, 3-Monats-Frist, 5-HT, 74-LS00") == ("5-HT", "74-LS00")


def test_other_forms_of_a_code() -> None:
    assert other_forms("hx 200s") == ("hx 200s", "hx 200", "hx200s", "hx200")
    assert other_forms("hx 200 based")[1] == "hx 200"
    assert other_forms("hx200") == ("hx200",)

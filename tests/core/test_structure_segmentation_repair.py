"""Answers with line numbers: found in a reply, re-based, put right, and every repair reported."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import pickle
from typing import Any

import pytest
from case_files import cases_of
from hypothesis import example, given
from hypothesis import strategies as st

from catena.model import ParameterError
from catena.structure import read_sections, repair
from catena.structure.segment_repair import LineSection, RawSection, Repaired, clean_title, read_number


def raw(*sections: tuple[Any, ...]) -> list[RawSection]:
    return [RawSection(*section) for section in sections]


def lines(repaired: Repaired) -> list[tuple[int, int]]:
    return [(section.first, section.last) for section in repaired.sections]


def kinds(repaired: Repaired) -> list[str]:
    return [each.kind for each in repaired.repairs]


@pytest.mark.parametrize(("answer", "expected"), cases_of("cases_repair.txt"))
def test_each_kind_of_answer_is_put_right_as_stated(answer: str, expected: str) -> None:
    window, *sections = answer.split("\n")
    repaired = repair(raw(*map(json.loads, sections)), *map(int, window.split()))
    spans = " ".join(f"{first}-{last}" for first, last in lines(repaired))
    assert f"{spans}\n{' '.join(kinds(repaired))}".strip() == expected


@pytest.mark.parametrize("end", [9, None], ids=["with ends", "without"])
def test_of_equal_sections_the_first_in_the_answer_is_kept_and_of_unequal_ones_the_shortest(end: int | None) -> None:
    equal = repair(raw(("one", 0, end), ("other", 0, end)), 0, 9)
    assert [(section.title, section.place) for section in equal.sections] == [("one", 0)]
    assert [(each.kind, each.section) for each in equal.repairs] == [("duplicate", 1)]
    unequal = repair(raw(("one", 0, end), ("other", 0, 5), ("more", 6, 9)), 0, 9)
    assert [section.title for section in unequal.sections] == ["other", "more"]


def test_a_repair_says_what_was_and_what_became():
    repaired = repair(raw(("a", 0), ("b", 30), ("c", 60)), 100, 199)
    (told,) = repaired.repairs
    assert (told.lines, told.section) == ((100, 199), None)
    assert (told.was, told.became) == ("lines 0, 30, 60", "lines 100, 130, 160")
    assert pickle.loads(pickle.dumps(repaired)) == repaired
    (told,) = repair(raw(("a", 0, 7), ("b", 6, 9)), 0, 9).repairs
    assert (told.section, told.was, told.became) == (0, "lines 0 to 7", "end 5")


def test_too_many_sections_are_joined_by_bands_of_equal_height():
    """10 lines in 2 bands: middles 0.5, 1.5, 4.5, 8.5; the longest gives its title; a middle on a border is below."""
    repaired = repair(raw(("a", 0), ("b", 1), ("c", 2), ("d", 7)), 0, 9, most_sections=2)
    assert repaired.sections == (LineSection("c", 0, 6, 2), LineSection("d", 7, 9, 3))
    assert kinds(repaired) == ["too_many"]
    on_the_border = repair(raw(("a", 100), ("b", 104), ("c", 106)), 100, 109, most_sections=2)
    assert lines(on_the_border) == [(100, 103), (104, 109)]
    one_per_line = raw(*((f"line {n}", n, n) for n in range(100)))
    joined = repair(one_per_line, 0, 99, most_sections=4)
    assert lines(joined) == [(0, 24), (25, 49), (50, 74), (75, 99)]
    assert kinds(joined) == ["too_many"]
    assert len(repair(one_per_line, 0, 99).sections) == 100


def test_titles_are_made_plain_and_bounded():
    answer = raw(("## **Two\n words** ", 0), (None, 2), (7, 4), ("x" * 300, 6), ("word " * 100, 8))
    repaired = repair(answer, 0, 9, longest_title=20, untitled=lambda first, last: f"from {first} to {last}")
    titles = [section.title for section in repaired.sections]
    assert titles == ["Two words", "from 2 to 3", "7", "x" * 19 + "…", "word word word…"]
    assert kinds(repaired) == ["title"] * 5
    assert clean_title("من\u200cخانه", 50) == "من\u200cخانه"  # joiners belong to words


# Law: whatever the answer, the sections tile the lines, and nothing differs from it untold.


def check(answer: list[RawSection], first: int, last: int, repaired: Repaired) -> None:
    sections, repairs = repaired.sections, repaired.repairs
    assert (sections[0].first, sections[-1].last) == (first, last)
    assert all(one.last + 1 == other.first for one, other in itertools.pairwise(sections))
    assert all(section.first <= section.last and section.title.strip() for section in sections)
    assert all(each.was != each.became and each.lines == (first, last) for each in repairs)
    about = {each.section for each in repairs}
    whole = {each.kind for each in repairs if each.section is None}
    for section in sections:
        if section.place is None:
            assert "empty" in whole
            continue
        given = answer[section.place]
        same_title = type(given.title) is str and given.title == section.title
        same_lines = type(given.start) is int and given.start == section.first
        same_lines &= given.end is None or (type(given.end) is int and given.end == section.last)
        assert same_title or section.place in about
        assert same_lines or section.place in about or whole & {"window_relative", "one_based", "too_many"}
    lost = set(range(len(answer))) - {section.place for section in sections}
    assert lost <= about or "too_many" in whole
    places = [section.place for section in sections if section.place is not None]
    assert places == sorted(places) or "unsorted" in whole
    if not repairs:
        assert [(each.title, each.start) for each in answer] == [(each.title, each.first) for each in sections]


numbers = st.one_of(
    *(st.integers(-5, 260), st.integers(), st.floats(), st.none(), st.booleans(), st.text(max_size=6)),
    *(st.integers(0, 200).map(lambda n: f"line {n}"), st.lists(st.integers(), max_size=2)),
)
titles = st.one_of(st.text(max_size=8), st.none(), st.integers(), st.lists(st.text(max_size=2), max_size=1))
answers = st.lists(st.builds(RawSection, titles, numbers, numbers), max_size=8)


@given(answers, st.integers(0, 120), st.integers(0, 120), st.none() | st.integers(1, 4))
@example([RawSection("a", 0, 30), RawSection("b", 30, 60), RawSection("c", 60, 100)], 100, 99, None)
@example([RawSection(None, None, 1e18), RawSection(None, None, 1e18 + 128), RawSection(None, None, 1e18)], 0, 0, None)
@example([RawSection(10**4000, 10**4000, 0), RawSection("a", 10**20, -(10**20))], 0, 9, None)
def test_any_answer_gives_sections_that_tile(answer, first, more, most):
    repaired = repair(answer, first, first + more, most_sections=most)
    check(answer, first, first + more, repaired)
    assert most is None or len(repaired.sections) <= most


@given(st.sets(st.integers(1, 99), max_size=6), st.integers(101, 5000), st.integers(0, 1), st.booleans())
def test_a_right_answer_is_taken_as_it_is_and_one_relative_to_its_window_is_moved_whole(inner, first, base, ends):
    starts = [0, *sorted(inner)]
    spans = list(zip(starts, [*(start - 1 for start in starts[1:]), 99], strict=True))
    for add, told in ((first, []), (base, ["window_relative"])):
        answer = [RawSection(f"t{a}", a + add, b + add if ends else None) for a, b in spans]
        repaired = repair(answer, first, first + 99)
        assert lines(repaired) == [(first + a, first + b) for a, b in spans]
        assert kinds(repaired) == told


# The reader.

LIST = '[{"title": "a", "start": 0, "end": 4}, {"title": "b, ]", "start": 5, "end": 9}]'
READ = (RawSection("a", 0, 4), RawSection("b, ]", 5, 9))


FOUND = {
    "bare": LIST,
    "fence": f"\n```json\n{LIST}\n```\n",
    "prose": f"Sections of lines [0] to [9]:\n{LIST}\nDone [really].",
    "objects": f'{{"document": {{"title": "T", "sections": {LIST}}}}}',
    "commas": LIST.replace("}]", "},]").replace("4}", "4,}"),
    "index": LIST.replace("start", "start_index").replace("end", "end_index"),
    "braces": f"Thinking {{about}} it.\n```\n{LIST}\n``` and more",
    "outer object cut": '{"sections": ' + LIST,
}


@pytest.mark.parametrize("reply", FOUND.values(), ids=FOUND)
def test_a_list_is_found_in_what_surrounds_it(reply: str) -> None:
    assert read_sections(reply) == READ


def test_of_a_list_that_was_cut_the_whole_sections_are_kept_and_a_single_section_needs_no_list():
    assert read_sections(LIST[:-10]) == READ[:1]
    assert read_sections('{"title": "a", "start": 3}') == (RawSection("a", 3),)


@pytest.mark.parametrize("reply", ["", "no", "[]", "[1, 2]", '[{"title": "a"}]', "[" * 10_000, '{"a": ' * 5_000])
def test_what_is_no_list_of_sections_is_refused(reply: str) -> None:
    with pytest.raises(ValueError, match="no JSON list of sections"):
        read_sections(reply)


@given(st.text())
def test_any_reply_is_read_or_refused_with_a_value_error(reply: str) -> None:
    for text in (reply, reply + LIST, f"{LIST}{reply}"):
        with contextlib.suppress(ValueError):
            assert all(isinstance(section, RawSection) for section in read_sections(text))


@pytest.mark.parametrize(
    ("value", "number"),
    [(12, 12), (12.0, 12), (12.7, 12), ("12", 12), ("line 12", 12), ("[12]", 12), ("12-20", 12), ("-3", -3)]
    + [(value, None) for value in (None, True, "", "twelve", [12], {}, math.nan, math.inf, "9" * 5000)],
)
def test_numbers_are_read_from_what_means_one(value: Any, number: int | None) -> None:
    assert read_number(value) == number


def test_limits_that_make_no_sense_are_refused():
    with pytest.raises(ParameterError, match=r"last_line must be at least first_line \(5\), got 4"):
        repair([], 5, 4)
    with pytest.raises(ParameterError, match="longest_title and most_sections must be at least 1"):
        repair([], 0, 4, most_sections=0)

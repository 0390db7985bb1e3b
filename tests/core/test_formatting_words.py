"""Numbers, captions, list marks and hyphens: what the formatter reads off the words of a line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.formatting.joining import Compounds, glue
from catena.formatting.words import (
    bare_title,
    ends_with_page,
    has_leader,
    is_caption,
    is_label,
    is_table_caption,
    key,
    numbering,
    ordinals,
    roman,
    short_leader,
    title_keys,
)


@pytest.mark.parametrize(
    ("text", "parts", "depth", "title"),
    [
        ("3.2.1 Cable glands", ("3", "2", "1"), 3, "Cable glands"),
        ("2. Warming up", ("2",), 1, "Warming up"),
        ("Chapter 3: Use", ("3",), 1, "Use"),
        ("Appendix A Copying", ("A",), 1, "Copying"),
        ("A.1 Licence", ("A", "1"), 2, "Licence"),
        ("IV. RESULTS", ("IV",), 1, "RESULTS"),
        ("Part II The Machine", ("II",), 0, "The Machine"),
        ("第三章 总则", ("第三章",), 1, "总则"),
        ("第二节 范围", ("第二节",), 2, "范围"),
    ],
)
def test_numbers_of_headings(text, parts, depth, title) -> None:
    found = numbering(text)
    assert found is not None
    assert (found.parts, found.depth, bare_title(text)) == (parts, depth, title)


@pytest.mark.parametrize(
    "text", ["A note", "I am here", "MIX it", "Safety", "3.2.1", "1999 was cold", "a.1 lower", "v. good"]
)
def test_words_that_are_no_numbers_of_headings(text) -> None:
    assert numbering(text) is None
    assert bare_title(text) == text


@pytest.mark.parametrize(
    "text", ["Table 4. Codes", "Fig. 3: Pump", "Figure 12", "TABLE A-1 Values", "表 2 参数", "Listing 2.3 – Loop"]
)
def test_captions(text) -> None:
    assert is_caption(text)


@pytest.mark.parametrize("text", ["Table of Contents", "Table 3 shows the codes", "Figures", "Figure skating 3"])
def test_prose_about_tables_is_no_caption(text) -> None:
    assert not is_caption(text)


def test_only_tables_have_table_captions() -> None:
    assert is_table_caption("Table 4. Codes")
    assert not is_table_caption("Figure 4. Codes")


def test_leaders_and_page_numbers() -> None:
    assert has_leader("2.1 Terms ....... 12")
    assert has_leader("Terms . . . . . . xii")
    assert not has_leader("and so on...")
    assert short_leader("2.1 Terms ....... 12") == "2.1 Terms … 12"
    assert ends_with_page("2.1 Terms 12")
    assert not ends_with_page("12 34")
    assert not ends_with_page("")


def test_labels_stand_alone() -> None:
    assert is_label("Chapter 3")
    assert is_label("APPENDIX B")
    assert not is_label("Chapter 3 Use")


def test_keys_of_a_title_meet_with_and_without_its_number() -> None:
    assert title_keys("A References") & title_keys("Appendix A References")
    assert title_keys("3.1 Use of ﬁre") & title_keys("use of fire")
    assert not title_keys("Use") & title_keys("Terms")


@pytest.mark.parametrize(
    ("numeral", "value"), [("iv", 4), ("XIV", 14), ("mcmxc", 1990), ("IIII", None), ("iV", None), ("a", None)]
)
def test_roman_numerals(numeral, value) -> None:
    assert roman(numeral) == value


def test_a_letter_may_be_a_roman_numeral() -> None:
    assert [(o.family, o.value) for o in ordinals("i. Open")] == [("#.aroman", 1), ("#.a", 9)]
    assert [(o.mark, o.value, o.end) for o in ordinals("(12) Open")] == [("(12)", 12, 5)]
    assert ordinals("Open. Then") == ()


@pytest.mark.parametrize(
    ("above", "below", "joined"),
    [
        ("the manip-", "ulation of", "the manipulation of"),
        ("the in\u00ad", "stalled", "the installed"),
        ("an HX-", "200 pump", "an HX-200 pump"),
        ("an e-", "mail", "an e-mail"),
        ("a well-", "known man", "a well-known man"),  # stands so elsewhere
        ("a state-of-", "the-art", "a state-of-the-art"),
        ("a state-", "of-the-art", "a state-of-the-art"),
        ("North-", "American", "North-American"),
        ("it is -", "so", "it is - so"),
        ("see http://a.org/", "b", "see http://a.org/b"),
        ("各个设备", "的盖子", "各个设备的盖子"),
        ("one", "two", "one two"),
    ],
)
def test_what_joins_two_lines(above, below, joined) -> None:
    kept, between = glue(above, below, Compounds(["a well-known and well-known thing"]))
    assert kept + between + below == joined


def test_the_commoner_form_decides_whether_a_hyphen_stays() -> None:
    assert Compounds(["re-use re-use reuse"]).keeps_hyphen("re", "use")
    assert not Compounds(["re-use reuse reuse"]).keeps_hyphen("re", "use")


@given(st.text(max_size=20), st.text(max_size=20))
def test_joining_never_loses_a_letter(above, below) -> None:
    kept, between = glue(above, below, Compounds([]))
    assert key(kept + between + below) == key(kept) + key(below)
    assert kept in (above, above[:-1], above.rstrip("\u00ad"))
    assert [c for c in kept if c.isalnum()] == [c for c in above if c.isalnum()]

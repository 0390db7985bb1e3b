"""Numbers, captions, list marks and hyphens: what the formatter reads off the words of a line."""

from __future__ import annotations

import pytest
from case_files import cases_of
from hypothesis import given
from hypothesis import strategies as st

from catena.formatting.blocks import Compounds, glue
from catena.formatting.fidelity_check import number_of
from catena.formatting.styled_lines import (
    bare_title,
    ends_with_page,
    has_leader,
    is_caption,
    is_label,
    is_table_caption,
    key,
    numbering,
    ordinals,
    short_leader,
    title_keys,
)
from catena.text.headings import atx_title, numbered_title, roman


@pytest.mark.parametrize(("text", "number", "depth", "title"), cases_of("cases_heading_numbers.txt"))
def test_the_formatter_and_the_section_tree_read_one_grammar_of_heading_numbers(text, number, depth, title) -> None:
    found, says = numbering(text), numbered_title(text)
    assert found is not None
    assert (found.key, found.depth, bare_title(text)) == (tuple(number.split()), int(depth), title)
    assert (says.number, says.depth, says.words) == (found.key, found.depth, numbered_title(title).words)


@pytest.mark.parametrize(
    "text",
    ["A note", "I am here", "MIX it", "Safety", "1999 was cold", "a.1 lower", "v. good", "Parts list", "Teile der"],
)
def test_words_that_are_no_numbers_of_headings(text) -> None:
    assert numbering(text) is None
    assert bare_title(text) == text
    assert numbered_title(text).number == ()


def test_a_number_without_a_title_is_none_and_may_be_a_label() -> None:
    assert [atx_title(rest) for rest in (" Use ## ", "Use \t#", "C#", "##", "C #x")] == [
        "Use",
        "Use",
        "C#",
        "",
        "C #x",
    ]
    assert numbered_title("Use") == ((), 0, ("use",))
    assert numbering("3.2.1") is numbering("Kapitel 3") is None
    assert all(map(is_label, ("Chapter 3", "APPENDIX B", "Kapitel 3", "第三章")))
    assert not any(map(is_label, ("Chapter 3 Use", "3.2.1", "Parts list of it")))


def test_numbers_that_follow_each_other_are_compared_as_numbers() -> None:
    titles = ("3.2 Use", "Abschnitt 3 Use", "B.2 Use", "Appendix B", "IV. Use", "Part 2", "Use")
    assert list(map(number_of, titles)) == [(3, 2), (3,), (2, 2), None, None, None, None]


def test_captions_leaders_and_page_numbers() -> None:
    captions = ("Table 4. Codes", "Fig. 3: Pump", "Figure 12", "TABLE A-1 Values", "表 2 参数", "Listing 2.3 – Loop")
    assert all(map(is_caption, captions))
    assert not any(map(is_caption, ("Table of Contents", "Table 3 shows the codes", "Figures", "Figure skating 3")))
    assert (is_table_caption("Table 4. Codes"), is_table_caption("Figure 4. Codes")) == (True, False)
    leaders = ("2.1 Terms ....... 12", "Terms . . . . . . xii", "and so on...")
    assert list(map(has_leader, leaders)) == [True, True, False]
    assert short_leader(leaders[0]) == "2.1 Terms … 12"
    assert list(map(ends_with_page, ("2.1 Terms 12", "12 34", ""))) == [True, False, False]


def test_keys_of_a_title_meet_with_and_without_its_number() -> None:
    assert title_keys("A References") & title_keys("Appendix A References")
    assert title_keys("3.1 Use of ﬁre") & title_keys("use of fire")
    assert not title_keys("Use") & title_keys("Terms")


def test_roman_numerals_and_letters() -> None:
    shown = {text: roman(text) for text in ("iv", "XIV", "mcmxc", "IIII", "iV", "a")}
    assert shown == {"iv": 4, "XIV": 14, "mcmxc": 1990, "IIII": None, "iV": None, "a": None}
    assert [(o.family, o.value) for o in ordinals("i. Open")] == [("#.aroman", 1), ("#.a", 9)]
    assert [(o.mark, o.value, o.end) for o in ordinals("(12) Open")] == [("(12)", 12, 5)]
    assert ordinals("Open. Then") == ()


@pytest.mark.parametrize(("above", "below", "joined"), cases_of("cases_joined_lines.txt"))
def test_what_joins_two_lines(above, below, joined) -> None:
    kept, between = glue(above, below, Compounds(["a well-known and well-known thing"]))
    assert kept + between + below == joined
    assert "".join((*glue("the in\u00ad", "stalled", Compounds([])), "stalled")) == "the installed"


@given(st.text(max_size=20), st.text(max_size=20))
def test_joining_never_loses_a_letter(above, below) -> None:
    kept, between = glue(above, below, Compounds([]))
    assert key(kept + between + below) == key(kept) + key(below)
    assert kept in (above, above[:-1], above.rstrip("\u00ad"))
    assert [c for c in kept if c.isalnum()] == [c for c in above if c.isalnum()]

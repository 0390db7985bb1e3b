"""The term matcher: against a search without any automaton, at borders, and for names inside names."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from catena.text import TermMatcher, is_border, normalise_query, normalise_term

SCRAPS = (
    "stm32", "f103", "r4", "hx", "200", "3.5", "-", " ", "_", "c++", "#", "東京", "電力", "ＨＸ", "ß", "é", ".", "/",
)  # fmt: skip
pieces = st.lists(st.sampled_from(SCRAPS), max_size=8).map("".join)


def naive(terms: set[str], text: str) -> list[tuple[int, int]]:
    """Return every place of every term, tried one by one: from the left, the longer first."""
    normal = normalise_query(text)
    found = [
        (at, at + len(term))
        for term in terms
        for at in range(len(normal))
        if normal.startswith(term, at) and is_border(normal, at) and is_border(normal, at + len(term))
    ]
    return sorted(found, key=lambda span: (span[0], -span[1]))


@given(st.lists(pieces, max_size=8), pieces)
@example(["a", "a a a", "a a"], "a a a a")
def test_it_finds_what_trying_every_term_finds(raw, text):
    matcher, normal = TermMatcher(raw), normalise_query(text)
    terms = {normalise_term(term) for term in raw} - {""}
    assert matcher.terms == tuple(sorted(terms))
    spans = naive(terms, text)
    assert matcher.all_in(text) == tuple(dict.fromkeys(normal[a:b] for a, b in spans))
    longest, free = {}, 0
    for start, end in spans:
        if start >= free:
            longest[normal[start:end]], free = None, end
    assert matcher.longest_in(text) == tuple(longest)


@pytest.mark.parametrize(
    ("terms", "text", "all_in", "longest"),
    [
        (("STM32F103", "STM32F103R4"), "an STM32F103R4 board", ("stm32f103r4",), ("stm32f103r4",)),
        (("HX-200", "HX-200 pump"), "the HX 200 pump", ("hx 200 pump", "hx 200"), ("hx 200 pump",)),
        (("HX-200",), "HX_200, HX–200; ＨＸ-200", ("hx 200",), ("hx 200",)),
        (("HX-200",), "the HX200", (), ()),
        (("a b", "b c"), "a b c", ("a b", "b c"), ("a b",)),
        (("c", "c++"), "c++ and c", ("c++", "c"), ("c++", "c")),
        (("3", "3.5"), "3.5 V", ("3.5",), ("3.5",)),
        (("電力", "東京電力"), "東京電力の設備", ("東京電力", "電力"), ("東京電力",)),
        (("STRASSE",), "die Straße", ("strasse",), ("strasse",)),
        (("Teensy 3", "Teensy 3 beta"), "teensy 3 betamax", ("teensy 3",), ("teensy 3",)),
        ((), "anything", (), ()),
        (("", " - "), "anything", (), ()),
    ],
)
def test_names_inside_names(terms, text, all_in, longest):
    matcher = TermMatcher(terms)
    assert matcher.all_in(text) == all_in
    assert matcher.longest_in(text) == longest


def test_a_lone_surrogate_is_no_obstacle():
    assert TermMatcher(["\ud800 x"]).all_in("a \ud800-x b") == ("\ufffd x",)


def test_a_matcher_crosses_the_border_between_processes():
    matcher = pickle.loads(pickle.dumps(TermMatcher(["HX-200"])))
    assert matcher.all_in("an HX-200") == ("hx 200",)

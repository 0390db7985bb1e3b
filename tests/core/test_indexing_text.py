"""Words and critical terms."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.text import TermMatcher, folded, normalise_query, normalise_term, tokenise

texts = st.text(st.characters(exclude_categories=()), max_size=60)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The STM32F103R4, f_cpu at 3.3-V.", ["the", "stm32f103r4", "f_cpu", "at", "3.3", "v"]),
        ("board_build.f_cpu __init__ _so_", ["board_build", "f_cpu", "init", "so"]),
        ("1,024 kB, 5. v1.2.3b", ["1,024", "kb", "5", "v1", "2", "3b"]),
        ("Straße ＡＢＣ ﬁne", ["strasse", "abc", "fine"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("水位計 x", ["水", "位", "計", "水位", "位計", "x"]),
        ("水", ["水"]),
        ("ไทย", ["ไ", "ท", "ย", "ไท", "ทย"]),
        ("C++ (draft?! ... —", ["c", "draft"]),
        ("\ud800a\x00b", ["a", "b"]),
        ("", []),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert tokenise(text) == words


@settings(deadline=None)
@given(texts)
def test_words_hold_no_space_and_survive_folding(text: str) -> None:
    words = tokenise(text)
    assert all(word and not any(map(str.isspace, word)) for word in words)
    assert [word for part in words for word in folded(part).split()] == words
    " ".join(words).encode()  # what goes into an index has bytes


@settings(deadline=None)
@given(texts, texts)
def test_words_of_two_lines_are_the_words_of_each(one: str, other: str) -> None:
    assert tokenise(f"{one}\n.\n{other}") == tokenise(one) + tokenise(other)


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("HX-200", "hx 200"),
        ("  hx_200 ", "hx 200"),
        ("HX\u2011200", "hx 200"),
        ("HX200", "hx200"),
        ("ATmega168P/PA", "atmega168p/pa"),
        ("C++", "c++"),
        ("“Quick Start”,", "quick start"),
        ("(Node.js)", "node.js"),
        ("?!", ""),
    ],
)
def test_terms_have_one_form(text: str, term: str) -> None:
    assert normalise_term(text) == term


@settings(deadline=None)
@given(texts)
def test_normalising_twice_changes_nothing(text: str) -> None:
    assert normalise_term(normalise_term(text)) == normalise_term(text)
    normalise_query(text).encode()


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("Does the Teensy3 fit?", ()),
        ("C#-like code", ()),
        ("HX-20005", ()),
        ("ATmega168P/PA", ("atmega168p",)),
        ("何が水位計ですか", ("水位計",)),
    ],
)
def test_known_terms_are_found_between_borders(query: str, terms: tuple[str, ...]) -> None:
    assert TermMatcher(["teensy", "c", "hx 200", "atmega168p", "水位計", "水位"]).longest_in(query) == terms

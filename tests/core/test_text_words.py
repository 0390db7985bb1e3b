"""Sentences, tokens, tables, encodings and terms in any text."""

from __future__ import annotations

import itertools
import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from catena.text import (
    TermMatcher,
    asked_words,
    cells_of,
    count_tokens,
    is_border,
    is_rule,
    keywords_of,
    known_words,
    language_of,
    language_of_document,
    normalise_query,
    normalise_term,
    outermost,
    sentence_ends,
    table_cells,
    table_values,
)
from catena.text.encodings import decoded
from catena.text.stems import says_more


def test_sentences_end_in_any_language():
    text = "See Fig. 3 of J. Smith. It works! 你好。再见？ok. then\n3. Third\n  12. It is 5. Next"
    ends = [0, *sentence_ends(text, 0, len(text)), len(text)]
    parts = [text[start:end] for start, end in itertools.pairwise(ends)]
    last = ["ok. then\n3. Third\n  12. It is 5. ", "Next"]
    assert parts == ["See Fig. 3 of J. Smith. ", "It works! ", "你好。", "再见？", *last]


@given(st.text(), st.text())
def test_tokens_are_subadditive(first, second):
    assert count_tokens(first + second) <= count_tokens(first) + count_tokens(second)
    assert (count_tokens(first) == 0) == (not first.strip())


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("two words.", 3), ("你好，world", 4), ("x" * 13, 3), ("a_b", 3), ("naïve café", 2)]
)
def test_token_counts(text, tokens):
    assert count_tokens(text) == tokens


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        ("| a | **b** | `c` |", ("a", "b", "c")),
        ("a | b", ("a", "b")),
        ("| 1\\|2 | x |", ("1|2", "x")),
        ("||a||", ("", "a", "")),
        ("|  | b |  |", ("", "b", "")),
        ("|", ("",)),
        ("", ("",)),
    ],
)  # fmt: skip
def test_a_row_of_a_table_is_split_as_markdown_has_it(line, cells):
    assert cells_of(line) == cells


def test_rules_and_headers_are_no_rows():
    assert [is_rule(line) for line in ("|---|:-:|", "--- | ---", "| a |", "")] == [True, True, False, False]
    text = "| a | b |\n|---|---|\n| 1 |  |\n|  | 2 |\nno table | 3\n"
    assert (table_cells(text), table_values(text)) == (("1", "2"), ("2",))


def test_keywords_of_equal_weight_and_names_inside_no_other_are_in_the_order_of_the_text():
    for first, second in (("zebra", "apple"), ("apple", "zebra")):
        assert keywords_of(f"{first} and {second}") == (first, second)
    assert outermost(["z y", "a b c", "b c", "z", "a b c"]) == ("z y", "a b c")


@pytest.mark.parametrize(
    ("data", "stated", "text", "encoding", "doubt"),
    [
        ("é".encode() * 10 + b"\xff", "", "é" * 10 + "\ufffd", "utf-8", "1 place is not UTF-8"),
        ("é".encode() * 20 + b"\xff\xff", "", "é" * 20 + "\ufffd" * 2, "utf-8", "2 places are not UTF-8"),
        ("aé".encode() + b"\xc3", "", "aé\ufffd", "utf-8", "1 place is not UTF-8"),  # cut inside a letter
        ("naïve café".encode("cp1252"), "iso-8859-1", "naïve café", "windows-1252", ""),
        (b"abc\xc3", "", "abcÃ", "windows-1252", None),  # no letter beyond ASCII is whole
        ("naïve café".encode("cp1252"), "klingon", "naïve café", "windows-1252", None),
        ("Привет, как дела?".encode("koi8_r"), "koi8-r", "Привет, как дела?", "koi8-r", ""),
        ("日本語の文書です".encode("iso2022_jp"), "", "日本語の文書です", "iso-2022-jp", ""),
    ],
)
def test_bytes_are_read_in_the_encoding_that_fits_and_doubts_are_told(data, stated, text, encoding, doubt):
    found = decoded(data, stated)
    assert (found.text, found.encoding) == (text, encoding)
    assert doubt is None or (found.doubt.startswith(doubt) if doubt else not found.doubt)


def test_nine_letters_for_a_broken_byte_are_too_few_for_damaged_utf8():
    assert decoded("é".encode() * 9 + b"\xff.").encoding != "utf-8"


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
        (("a b", "b"), "b, a-b", ("b", "a b"), ("b", "a b")),
        (("日本", "語学"), "日本語学", ("日本", "語学"), ("日本", "語学")),
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


def test_a_matcher_crosses_the_border_between_processes_and_a_lone_surrogate_is_no_obstacle():
    matcher = pickle.loads(pickle.dumps(TermMatcher(["HX-200", "\ud800 x"])))
    assert matcher.all_in("an HX-200 or \ud800-x b") == ("hx 200", "\ufffd x")


def test_a_text_is_of_the_language_of_two_stop_words_at_its_beginning() -> None:
    texts = ("und", "und ist", "und ist the", "und ist the to")
    assert [language_of(text.split()) for text in texts] == [None, "german", "german", "english"]
    assert language_of(["und", "ist", "the", "to"], among=("german", "french")) == "german"
    assert [language_of([*["x"] * others, "und", "ist"]) for others in (1_998, 1_999)] == ["german", None]
    assert [language_of_document("x" * letters + " und ist") for letters in (19_992, 19_993)] == ["german", ""]
    assert [says_more(text) for text in ("", "und", "und Öl", "Öl")] == [False, False, True, True]


def test_words_of_most_of_many_texts_are_asked_only_where_there_are_no_others() -> None:
    asked = (("a",), ("b", "c"), ("d",))
    for texts, most in ((10, 2_000), (4_002, 2_001)):
        assert known_words(asked, {"a": most, "b": 1, "c": most + 1}, texts) == {("a",): 1}
        assert known_words(asked, {"b": 1, "c": most + 1}, texts) == {("b", "c"): 1}


def test_a_word_between_spaces_counts_as_much_as_a_character_and_its_pair() -> None:
    both, one = {"设": 1, "定": 1, "设定": 1, "sudo": 2}, {"set": 1, "sudo": 1}
    for question, counts in (("设定 sudo", both), ("set sudo", one)):
        asked = asked_words(question, ())
        assert known_words(asked, dict.fromkeys(counts, 1), 9) == {(word,): count for word, count in counts.items()}

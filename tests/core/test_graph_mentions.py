"""Mentions: which titles stand in which texts, by the definition, and as the graph finds them in many at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.graph import Node
from catena.graph.mentions import LONGEST, MENTION_CAP, holds, titles_of, words_of
from catena.graph.words import Words, numbers_said, title_number, titles_said
from catena.model import Chunk
from catena.text import word_keys
from conftest import printed_under_hash_seeds

WORDS = ["new", "york", "city", "pumps", "pump", "東京", "塔", "a", "1999", "Straße", "x-ray", "."]
some_text = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
some_titles = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join), max_size=3)


def node(text: str, *titles: str, number: int = 0) -> Node:
    chunk = Chunk(id=f"c{number}", document_id="d", position=number, start=0, end=len(text), text=text)
    return Node(chunk=chunk, titles=titles)


@pytest.mark.parametrize(
    ("text", "title", "said"),
    [
        ("He moved to NEW-YORK in May.", "New York", True),
        ("New York City is large.", "New York", True),  # one title inside another counts
        ("A new city called York.", "New York", False),
        ("York is new. New pumps.", "New York", False),
        ("the seals of two pumps", "Seal of two pump", False),  # "seals" has not more than six characters
        ("his philosophical work", "His philosophy work", True),  # words are compared by their first six
        ("他喜歡東京塔。", "東京塔", True),
        ("他喜歡東京。塔很高", "京東", False),
        ("", "New York", False),
    ],
)
def test_a_text_holds_a_title_whose_words_stand_there_in_order(text: str, title: str, said: bool) -> None:
    assert holds(words_of(text), words_of(title)) is said


def test_nothing_holds_a_title_of_no_words() -> None:
    assert not holds(words_of("New York"), ())


def test_words_are_those_by_which_the_graph_counts_each_place_once() -> None:
    text = "東京塔 is 3.5 times as tall as Philosophy"
    assert words_of(text) == ("東", "京", "塔", "is", "3.5", "times", "as", "tall", "as", "philos")
    assert set(words_of(text)) < set(word_keys(text))


def test_titles_that_say_nothing_are_not_looked_for() -> None:
    long = " ".join(["title"] * (LONGEST + 1))
    named = node("", "New York City", "York", "3.2", "X", "塔", long, "york!", "ab")
    assert titles_of(named) == (("new", "york", "city"), ("ab",), ("york",))


def test_more_than_a_few_texts_may_say_a_title_before_it_is_a_common_word() -> None:
    assert MENTION_CAP == 60


@given(st.lists(st.tuples(some_text, some_titles), min_size=1, max_size=6))
def test_what_the_graph_finds_at_once_is_what_the_definition_says(given_nodes: list[tuple[str, list[str]]]) -> None:
    nodes = [node(text, *titles, number=place) for place, (text, titles) in enumerate(given_nodes)]
    titles = sorted({title for each in nodes for title in titles_of(each)})
    expected = sorted(
        (slot, title_number(title))
        for slot, each in enumerate(nodes)
        for title in titles
        if holds(words_of(each.chunk.text), title)
    )
    words = Words.of(nodes)
    numbers = np.array(sorted(map(title_number, titles)), np.uint64)
    for found in (titles_said(words, titles), numbers_said(words, numbers)):
        assert list(zip(*(part.tolist() for part in found), strict=True)) == expected


@given(some_text, some_text, st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join))
def test_a_text_holds_each_part_of_itself_wherever_it_stands(before: str, after: str, title: str) -> None:
    assert holds(words_of(f"{before} {title} {after}"), words_of(title)) or not words_of(title)
    assert holds(words_of(f"{before} {title.upper()} {after}"), words_of(title)) or not words_of(title)


def test_the_order_of_titles_does_not_depend_on_a_hash_seed() -> None:
    code = (
        "from catena.graph.mentions import titles_of\nfrom catena.graph.node import Node\n"
        "from catena.model import Chunk\n"
        "chunk = Chunk(id='c', document_id='d', position=0, start=0, end=0, text='')\n"
        "print(titles_of(Node(chunk=chunk, titles=('New York', 'Old York', 'York', 'Pump', 'Long New York'))))"
    )
    assert len(printed_under_hash_seeds(code)) == 1

"""What is asked of an index before a ranking: which terms a question may name, how often words are there: once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from fake_server import FakeServer
from hypothesis import given
from hypothesis import strategies as st

from catena.text import TermMatcher
from catena_server import IndexLayout, repeated
from catena_server.route_search import (
    LONGEST_SPAN,
    MOST_SPANS,
    MOST_WORDS,
    CountCache,
    TermCounts,
    find_counts,
    find_values,
    is_mapped,
    spans_of,
    words_asked,
)

LAYOUT = IndexLayout(name="c-facts", dim=2, embedder="laws", several=("questions",))
SOURCES = {
    "a": {"terms": repeated(["esp32", "esp32", "esp32", "lora"]), "words": {"of_headed": "ram of esp32"}},
    "b": {"terms": ["lora"], "words": {"of_headed": "ram ram"}, "vectors": {"default": [1.0, 0.0]}},
    "c": {"several_of_questions": [{"words": "which ram"}, {"words": "how much ram"}]},
}

_PIECES = st.sampled_from(["esp32", "c6", "3.5", "c++", "lora", "-", " ", ".", "(", "無線", "Ａ", "板"])
_QUERIES = st.lists(_PIECES, max_size=9).map("".join)


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@given(_QUERIES, st.lists(_QUERIES, max_size=6))
def test_looking_spans_up_finds_the_terms_that_the_whole_vocabulary_would(query: str, vocabulary: list[str]) -> None:
    whole = TermMatcher([*vocabulary, query])
    existing = tuple(span for span in spans_of(query) if span in whole.terms)
    assert TermCounts(views=0, words={}, terms=existing).named_in(query) == whole.longest_in(query)


def test_the_spans_of_a_question_run_from_border_to_border() -> None:
    assert spans_of("the ESP32-C6?") == ("the", "the esp32", "the esp32 c6", "esp32", "esp32 c6", "c6")
    assert spans_of("...") == ()


def test_a_log_that_is_pasted_in_asks_for_a_bounded_number_of_short_spans() -> None:
    found = spans_of(" ".join(f"word{n}" for n in range(5_000)))
    assert len(found) == MOST_SPANS
    assert max(map(len, found)) <= LONGEST_SPAN


def test_words_and_terms_are_counted_in_one_request() -> None:
    server = FakeServer.holding("c-facts", SOURCES)
    facts = server.run(find_counts(LAYOUT, CountCache(), words=["ram", "of", "unheard"], spans=["lora", "wifi"]))
    assert facts == TermCounts(views=2, words={"ram": 2, "of": 1}, terms=("lora",))
    assert len(server.calls) == 1


def test_words_of_nested_views_are_counted_among_these() -> None:
    server = FakeServer.holding("c-facts", SOURCES)
    facts = server.run(find_counts(LAYOUT, CountCache(), words=["ram", "which"], view="questions"))
    assert facts == TermCounts(views=2, words={"ram": 2, "which": 1}, terms=())


def test_a_term_is_asked_as_often_as_any_chunk_carries_it() -> None:
    values = FakeServer.holding("c-facts", SOURCES).run(find_values(("esp32", "lora"), LAYOUT, CountCache()))
    assert values == ("esp32", "esp32\x1f2", "esp32\x1f3", "lora")


def test_what_was_counted_a_moment_ago_is_not_asked_again() -> None:
    server, clock = FakeServer.holding("c-facts", SOURCES), Clock()
    cache = CountCache(seconds=5.0, clock=clock)
    first = server.run(find_counts(LAYOUT, cache, words=["ram", "of"], spans=["lora"]))
    share = server.run(find_counts(LAYOUT, cache, words=["ram"], spans=["lora"]))
    assert (share.words, share.terms) == ({"ram": 2}, first.terms)
    assert len(server.calls) == 1
    server.run(find_counts(LAYOUT, cache, words=["ram", "much"]))
    assert server.bodies[1]["aggs"] == {"words": {"filters": {"filters": [{"term": {"words.of_headed": "much"}}]}}}
    clock.now = 5.0
    server.run(find_counts(LAYOUT, cache, words=["ram"]))
    assert len(server.calls) == 3


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_cache_forgets_when_something_is_written_and_keeps_nothing_for_no_time(seconds: float) -> None:
    server, cache = FakeServer.holding("c-facts", SOURCES), CountCache(seconds=seconds)
    server.run(find_counts(LAYOUT, cache, words=["ram"]))
    cache.clear()
    server.run(find_counts(LAYOUT, cache, words=["ram"]))
    assert len(server.calls) == 2


@pytest.mark.parametrize(
    "asking",
    [
        lambda cache: find_counts(LAYOUT, cache, words=["ram"]),
        lambda cache: is_mapped("words.of_headed", LAYOUT, cache),
    ],
)
def test_what_was_asked_before_a_writing_is_not_kept_after_it(asking: Any) -> None:
    cache, server = CountCache(), FakeServer.holding("c-facts", SOURCES)
    step = asking(cache)
    calls = next(step)
    cache.clear()
    with pytest.raises(StopIteration):
        step.send([server.reply(call) for call in calls])
    assert next(asking(cache)) == calls


@pytest.mark.parametrize(
    ("views", "words", "asked"),
    [
        (10_000, {"the": 5_001, "ram": 5_000}, ("ram",)),
        (3_000, {"the": 2_000, "of": 2_001}, ("the",)),
        (10_000, {"the": 9_000, "of": 8_000}, ("of", "the")),
        (10_000, {}, ()),
    ],
)
def test_words_in_most_of_many_views_are_left_out_unless_there_are_no_others(
    views: int, words: Mapping[str, int], asked: tuple[str, ...]
) -> None:
    counts = TermCounts(views=views, words=words, terms=())
    assert counts.asked([("the",), ("of", "unheard"), ("ram",), ("ram", "rams")]) == [
        ((word,), 1 + (word == "ram")) for word in asked
    ]


def test_of_very_many_words_the_rarest_are_asked() -> None:
    forms = [(f"w{n:04}", f"v{n:04}") for n in range(MOST_WORDS)]
    counts = TermCounts(views=9, words={form: 1 + (forms[0] is each) for each in forms for form in each}, terms=())
    assert counts.asked(forms) == [(each, 1) for each in forms[1 : 1 + MOST_WORDS // 2]]


def test_words_are_asked_in_the_languages_of_the_texts_and_stop_words_are_not() -> None:
    said = {"languages": ["english headed", "german questions"], "words": {"of_headed": "valv close"}}
    server, cache = FakeServer.holding("c-facts", {"a": said}), CountCache()
    words, counts = server.run(words_asked("Are the valves closed?", LAYOUT, cache))
    assert words == [(("close",), 1), (("valv",), 1)]
    assert (counts.views, len(server.calls)) == (1, 2)
    server.run(words_asked("the closing", LAYOUT, cache))
    assert len(server.calls) == 2  # nothing that is not known
    assert server.run(words_asked("", LAYOUT, CountCache()))[0] == []

"""Gold spans: which chunks of any chunker are relevant, and recall over what a reader must find."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.evaluation import GoldSpan, chunks_of_items, item_recall
from catena.evaluation.evidence import items_found, relevant_chunks
from catena.model import Chunk, EvaluationError, ParameterError


def chunk(start: int, text: str, *, document: str = "d", name: str = "") -> Chunk:
    end = start + len(text)
    return Chunk(
        id=name or f"{document}:{start}-{end}", document_id=document, position=0, start=start, end=end, text=text
    )


def span(start: int, end: int, *, item: str = "gold", document: str = "d") -> GoldSpan:
    return GoldSpan(item=item, document_id=document, start=start, end=end)


@st.composite
def tilings(draw: st.DrawFn) -> tuple[str, list[Chunk]]:
    text = draw(st.text("ab \n", min_size=1, max_size=60))
    cuts = sorted({0, len(text), *draw(st.lists(st.integers(0, len(text)), max_size=6))})
    return text, [chunk(start, text[start:end]) for start, end in pairwise(cuts)]


@pytest.mark.parametrize(
    ("chunk_span", "gold", "relevant"),
    [
        ((0, 10), (0, 10), True),
        ((0, 10), (5, 100), True),  # half of the chunk lies in the gold span
        ((0, 10), (6, 100), False),
        ((0, 100), (95, 105), True),  # the chunk holds half of the gold span
        ((0, 100), (96, 106), False),
        ((0, 10), (10, 20), False),  # neighbours only touch
        ((20, 30), (0, 100), True),
    ],
)
def test_half_of_the_chunk_or_half_of_the_gold(chunk_span, gold, relevant):
    start, end = chunk_span
    assert bool(relevant_chunks([chunk(start, "x" * (end - start))], [span(*gold)])) is relevant


def test_white_space_of_a_chunk_does_not_count():
    padded = chunk(0, "abcd" + " " * 20 + "ef")  # 4 of its 6 visible characters in [0, 4), but 4 of 26 in all
    assert relevant_chunks([padded], [span(0, 4), span(0, 60, item="other")]) == {padded.id}
    assert relevant_chunks([chunk(0, " \n" * 8)], [span(0, 16)]) == frozenset()


def test_equal_text_of_another_document_is_a_miss():
    twins = [chunk(0, "same", document="d1"), chunk(0, "same", document="d2")]
    assert relevant_chunks(twins, [span(0, 4, document="d2")]) == {"d2:0-4"}


def test_min_overlap_acts():
    piece, gold = chunk(0, "x" * 10), [span(7, 100)]
    assert relevant_chunks([piece], gold) == frozenset()
    assert relevant_chunks([piece], gold, min_overlap=0.3) == {piece.id}


def test_items_are_found_by_any_of_their_chunks():
    chunks = [chunk(0, "x" * 10, name="a"), chunk(10, "x" * 10, name="b"), chunk(20, "x" * 10, name="c")]
    items = chunks_of_items(
        chunks, [span(0, 20, item="first"), span(20, 30, item="second"), span(500, 600, item="lost")]
    )
    assert items == {"first": {"a", "b"}, "second": {"c"}, "lost": frozenset()}
    assert items_found(["b", "a", "c"], items, 1) == {"first"}
    assert items_found(["b", "a", "c"], items, 2) == {"first"}
    assert items_found({"c": 0.1, "a": 0.3}, items, 2) == {"first", "second"}
    assert item_recall(["b", "a", "c"], items, 3) == pytest.approx(2 / 3)


@given(tilings(), st.data())
def test_visible_text_judged_by_definition(case, data):
    text, chunks = case
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    found = relevant_chunks(chunks, [span(start, end)])
    for piece in chunks:
        own = [place for place in range(piece.start, piece.end) if not text[place].isspace()]
        shared = [place for place in own if start <= place < end]
        held = len(range(max(start, piece.start), min(end, piece.end)))
        expected = bool(shared) and (2 * len(shared) >= len(own) or 2 * held >= end - start)
        assert (piece.id in found) is expected


@pytest.mark.parametrize(("start", "end"), [(-1, 4), (3, 3), (5, 2)])
def test_spans_must_hold_something(start, end):
    with pytest.raises(ParameterError, match="gold span must be offsets with 0 <= start < end"):
        span(start, end)


@pytest.mark.parametrize("share", [0, -0.1, 1.01, float("nan")])
def test_min_overlap_outside_its_domain(share):
    with pytest.raises(ParameterError, match=r"min_overlap must be a share in \(0, 1\]"):
        relevant_chunks([], [], min_overlap=share)


def test_recall_without_items_and_bad_cutoffs():
    with pytest.raises(EvaluationError, match="item recall is undefined without gold items"):
        item_recall(["a"], {}, 1)
    with pytest.raises(ParameterError, match="k must be a cutoff of 1 or more, got 0"):
        items_found(["a"], {"one": ["a"]}, 0)
    with pytest.raises(EvaluationError, match="chunks of item 'one': expected several ids, got 'abc'"):
        items_found(["a"], {"one": "abc"}, 1)

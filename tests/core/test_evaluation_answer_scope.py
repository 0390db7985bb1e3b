"""Answer-scope recall: coverage by the union, the paper's sum, cutoffs, token budgets, chunking error."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.evaluation import (
    Span,
    at_cutoff,
    at_equal_count,
    chunking_error,
    coverage,
    equal_length_cutoff,
    read_within,
    recall_at_tokens,
    scope_recall_at,
    scope_recall_in,
    summed_recall,
    whole_cutoffs,
)
from catena.model import EvaluationError, ParameterError

TEXT = "abcd efgh ijkl mnop"  # words at 0-4, 5-9, 10-14, 15-19
Spans = list[Span]


def words(text: str) -> int:
    return len(text.split())


@st.composite
def cases(draw: st.DrawFn, *, most: int = 6) -> tuple[str, Spans, Spans]:
    """A text, ranked pieces that may overlap and repeat, and evidence with a visible character."""
    text = draw(st.text("ab \n", min_size=1, max_size=40).filter(str.strip))
    span = st.tuples(st.integers(0, len(text)), st.integers(0, len(text))).map(lambda ends: (min(ends), max(ends)))
    evidence = draw(
        st.lists(span, min_size=1, max_size=4).filter(lambda spans: any(text[a:b].strip() for a, b in spans))
    )
    return text, draw(st.lists(span, max_size=most)), evidence


def characters(spans: Spans, text: str) -> set[int]:
    return {place for start, end in spans for place in range(start, end) if not text[place].isspace()}


# Golden numbers, by hand


@pytest.mark.parametrize(
    ("returned", "evidence", "expected"),
    [
        ([(0, 9)], [(5, 14)], 0.5),  # efgh of efgh ijkl: the space between them is neither asked for nor found
        ([(0, 7), (5, 9)], [(5, 9)], 1.0),  # ef twice, gh once
        ([(5, 7), (12, 14)], [(5, 9), (10, 14)], 0.5),
        ([], [(0, 4)], 0.0),
        ([(4, 5)], [(0, 4)], 0.0),
        ([(0, 2)], [(0, 4), (0, 4)], 0.5),  # evidence said twice counts once
        ([(0, 19)], [(0, 4), (2, 9)], 1.0),
    ],
)
def test_coverage_counts_visible_characters_of_the_union(returned, evidence, expected):
    assert coverage(returned, evidence, TEXT) == pytest.approx(expected)


def test_the_papers_example_sums_ten_and_fifty_percent():
    text = "x" * 100
    assert summed_recall([(0, 5), (5, 30), (60, 70)], [(0, 50)], text) == pytest.approx(0.1 + 0.5 + 0.0)


def test_the_sum_counts_an_overlap_twice_and_passes_one():
    assert summed_recall([(5, 9), (5, 14)], [(5, 14)], TEXT) == pytest.approx(0.5 + 1.0)
    assert coverage([(5, 9), (5, 14)], [(5, 14)], TEXT) == 1.0


def test_one_and_a_half_is_the_mean_of_one_and_two():
    ranked, evidence = [(0, 4), (5, 9), (10, 14)], [(5, 14)]
    assert [scope_recall_at(ranked, evidence, TEXT, k) for k in (1, 1.5, 2, 3, 10)] == [0.0, 0.25, 0.5, 1.0, 1.0]
    assert scope_recall_at(ranked, evidence, TEXT, 2.25) == pytest.approx(0.75 * 0.5 + 0.25 * 1.0)


def test_six_or_seven_per_view_is_their_mean():
    assert at_cutoff(6.5, {6: 0.5, 7: 0.9}.__getitem__) == pytest.approx(0.7)
    assert at_cutoff(0.5, {0: 0.0, 1: 0.9}.__getitem__) == pytest.approx(0.45)


def test_half_of_the_questions_are_asked_for_two():
    assert whole_cutoffs(1.5, 5) == (1, 2, 1, 2, 1)
    assert whole_cutoffs(6.5, 4) == (6, 7, 6, 7)
    assert whole_cutoffs(3, 3) == (3, 3, 3)
    assert whole_cutoffs(1.5, 0) == ()
    assert sum(whole_cutoffs(0.29, 100)) == 29


def test_a_budget_truncates_the_last_piece_after_a_whole_word():
    ranked, evidence = [(0, 9), (5, 19)], [(0, 19)]
    assert read_within(ranked, TEXT, 3, lambda start, end: words(TEXT[start:end])) == ((0, 9), (5, 9))
    assert read_within([(0, 9)], TEXT, 7, lambda start, end: end - start) == ((0, 4),)
    recalls = [recall_at_tokens(ranked, evidence, TEXT, budget, words) for budget in range(7)]
    assert recalls == [0.0, 0.25, 0.5, 0.5, 0.75, 1.0, 1.0]  # the third token reads efgh again


def test_nothing_is_read_after_the_piece_that_does_not_fit():
    assert recall_at_tokens([(0, 14), (15, 19)], [(15, 19)], TEXT, 2, words) == 0.0


def test_a_script_without_spaces_is_cut_between_characters():
    text = "電池の容量は三千です"
    assert read_within([(0, 10)], text, 4, lambda start, end: end - start) == ((0, 4),)
    assert read_within([(0, 5)], "電池abc", 3, lambda start, end: end - start) == ((0, 2),)


def test_chunking_error_is_the_share_of_broken_spans():
    chunks = [(0, 9), (10, 19)]
    assert chunking_error(chunks, [(0, 4), (5, 14), (10, 19), (4, 11)], TEXT) == 0.5
    assert chunking_error(chunks, [(0, 10)], TEXT) == 0.0  # the space that the chunker trimmed
    assert chunking_error([(0, 9)], [(10, 14)], TEXT) == 1.0
    assert chunking_error([(0, 19), (2, 3)], [(5, 14)], TEXT) == 0.0  # a short piece does not hide the long one


def test_equal_count_is_read_off_the_line():
    points = [(1.56, 0.8), (3.15, 0.92), (4.59, 0.97)]
    assert at_equal_count(points, 3) == pytest.approx(0.8 + 0.12 * 1.44 / 1.59)
    assert at_equal_count(reversed(points), 4.59) == pytest.approx(0.97)
    assert at_equal_count([(2.0, 0.5), (2.0, 0.7)], 2) == pytest.approx(0.6)


def test_table_10_gives_shorter_pieces_a_larger_cutoff():
    assert equal_length_cutoff(3, 100, 250) == pytest.approx(7.5)


# Laws


@given(cases())
def test_coverage_is_that_of_the_sets_of_characters(case):
    text, returned, evidence = case
    scope = characters(evidence, text)
    share = coverage(returned, evidence, text)
    assert share == pytest.approx(len(characters(returned, text) & scope) / len(scope))
    assert 0 <= share <= 1
    assert share <= summed_recall(returned, evidence, text) + 1e-12
    assert share == coverage([*reversed(returned), *returned], evidence, text)


@given(cases(), st.integers(1, 7), st.integers(1, 7))
def test_recall_grows_with_k(case, k, halves):
    text, ranked, evidence = case
    curve = [scope_recall_at(ranked, evidence, text, (k + more) / 2) for more in range(halves + 1)]
    assert all(low <= high + 1e-12 for low, high in pairwise(curve))
    assert scope_recall_at(ranked, evidence, text, 100) == coverage(ranked, evidence, text)


@given(cases(), st.integers(0, 60))
def test_a_reader_keeps_to_the_budget_and_gains_by_a_larger_one(case, budget):
    text, ranked, evidence = case
    for count in (words, len):
        read = read_within(ranked, text, budget, lambda start, end, count=count: count(text[start:end]))
        assert sum(count(text[start:end]) for start, end in read) <= budget
        assert set().union(*(set(range(*span)) for span in read)) <= set().union(*(set(range(*s)) for s in ranked))
        shares = [recall_at_tokens(ranked, evidence, text, budget + more, count) for more in (0, 1, 5)]
        assert shares == sorted(shares)
    assert recall_at_tokens(ranked, evidence, text, 10_000, words) == coverage(ranked, evidence, text)


@given(cases(most=4))
def test_a_span_is_whole_or_broken_as_its_characters_say(case):
    text, pieces, evidence = case
    seen = [span for span in evidence if characters([span], text)]
    held = [any(characters([span], text) <= set(range(*piece)) for piece in pieces) for span in seen]
    assert chunking_error(pieces, seen, text) == pytest.approx(1 - fmean(held))


# Errors


@pytest.mark.parametrize("measure", [coverage, summed_recall, chunking_error])
@pytest.mark.parametrize(
    ("returned", "evidence"),
    [([(0, 4)], []), ([(0, 4)], [(4, 5)]), ([(0, 20)], [(0, 4)]), ([(0, 4)], [(-1, 4)]), ([(4, 0)], [(0, 4)])],
)
def test_what_has_no_recall_is_refused(measure, returned, evidence):
    with pytest.raises(EvaluationError, match="Try: "):
        measure(returned, evidence, TEXT)


@pytest.mark.parametrize("k", [0, -1, float("nan"), float("inf")])
def test_a_cutoff_is_a_positive_number(k):
    for ask in (
        lambda: scope_recall_at([(0, 4)], [(0, 4)], TEXT, k),
        lambda: whole_cutoffs(k, 3),
        lambda: equal_length_cutoff(k, 100, 200),
        lambda: equal_length_cutoff(3, k, 200),
        lambda: equal_length_cutoff(3, 100, k),
    ):
        with pytest.raises(ParameterError, match="> 0"):
            ask()


def test_budgets_and_numbers_of_questions_are_not_negative():
    with pytest.raises(ParameterError, match="budget"):
        recall_at_tokens([(0, 4)], [(0, 4)], TEXT, -1, words)
    with pytest.raises(ParameterError, match="questions"):
        whole_cutoffs(1.5, -1)


@pytest.mark.parametrize("points", [[], [(1.5, 0.5), (2.5, 0.6)]])
def test_nothing_is_extrapolated(points):
    with pytest.raises(EvaluationError, match="outside"):
        at_equal_count(points, 3)


def test_spans_of_several_documents_count_in_the_texts_laid_end_to_end():
    texts = {"a": "abcd", "b": "efghijkl"}
    evidence = [("b", 0, 8), ("a", 0, 4)]
    ranked = [("elsewhere", 0, 99), ("b", 4, 8), ("a", 0, 4)]
    found = [scope_recall_in(ranked, evidence, texts.__getitem__, k) for k in (1, 2, 3)]
    assert found == pytest.approx([0, 4 / 12, 8 / 12])

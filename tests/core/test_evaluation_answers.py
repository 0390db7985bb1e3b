"""Accuracy and Adequacy as HiQA defines them, and grades that need no judge."""

from __future__ import annotations

import pytest
from case_files import rows_of
from hypothesis import given
from hypothesis import strategies as st

from catena.evaluation import accuracy, adequacy
from catena.evaluation.answers import adequacy_scores
from catena.model import CatenaError, EvaluationError
from catena_bench.judges import closed_grade
from catena_bench.judges.grading import choice_letters, read_grades, read_ranks, verdict

METHODS = ["HiQA", "ChatPDF", "GPT4-Doc", "LlamaIndex", "LangChain"]

# Accuracy


def test_accuracy_of_texas_instruments_is_the_papers_for_22_of_23_answers():
    grades = {f"q{number}": 1.0 for number in range(22)} | {"q22": 0.0}
    assert (
        round(accuracy(grades).overall.value, 3) == 0.957
    )  # the paper's figure fits 23 questions, not its stated 25


def test_a_partially_correct_answer_counts_half():
    found = accuracy({"a": 1, "b": 0.5, "c": 0, "d": 0.5}, {"a": "x", "b": "x", "c": "y", "d": "y", "e": "z"})
    assert found.overall.value == 0.5
    assert {kind: (score.value, score.n) for kind, score in found.by_kind.items()} == {"x": (0.75, 2), "y": (0.25, 2)}


def test_one_question_has_no_interval():
    assert accuracy({"a": 1.0}).overall.interval is None
    assert accuracy({"a": 1.0, "b": 1.0}) == accuracy({"b": 1.0, "a": 1.0})


@pytest.mark.parametrize(
    ("grades", "kinds"),
    [({}, None), ({"a": 0.75}, None), ({"a": float("nan")}, None), ({1: 1.0}, None), ({"a": 1.0}, {"b": "x"})],
)
def test_what_is_no_grade_is_refused(grades, kinds):
    with pytest.raises(EvaluationError):
        accuracy(grades, kinds)


# Adequacy


def test_adequacy_turns_the_ranks_of_five_methods_into_5_to_1():
    ranks = dict(zip(METHODS, [1, 2, 3, 4, 5], strict=True))
    assert adequacy_scores(ranks) == dict(zip(METHODS, [5, 4, 3, 2, 1], strict=True))


@pytest.mark.parametrize("tied", [{"a": 1, "b": 1, "c": 3}, {"a": 1.5, "b": 1.5, "c": 3}])
def test_ties_share_their_places_however_they_are_written(tied):
    assert adequacy_scores(tied) == {"a": 2.5, "b": 2.5, "c": 1.0}


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6))
def test_scores_of_a_question_always_sum_to_that_of_a_ranking(levels):
    """The law K (K + 1) / 2, for every pattern of ties, written as competition ranks."""
    ranks = {f"m{at}": 1 + sum(other < level for other in levels) for at, level in enumerate(levels)}
    scores = adequacy_scores(ranks)
    assert sum(scores.values()) == pytest.approx(len(levels) * (len(levels) + 1) / 2)
    assert all((scores[a] > scores[b]) == (ranks[a] < ranks[b]) for a in ranks for b in ranks)


@pytest.mark.parametrize(
    "ranks",
    [
        {}, {"a": 1, "b": 1, "c": 2}, {"a": 2, "b": 3}, {"a": 0, "b": 1}, {"a": 1, "b": 3}, {"a": float("nan")},
        {"a": "1"},
    ],
)  # fmt: skip
def test_what_is_no_ranking_is_refused(ranks):
    with pytest.raises(EvaluationError):
        adequacy_scores(ranks)


def test_mean_adequacy_is_per_method_over_the_questions():
    found = adequacy({"q1": {"a": 1, "b": 2}, "q2": {"a": 1, "b": 2}, "q3": {"a": 2, "b": 1}})
    assert {name: score.value for name, score in found.items()} == pytest.approx({"a": 5 / 3, "b": 4 / 3})


@pytest.mark.parametrize(
    ("ranks", "named"),
    [({"q1": {"a": 1}, "q2": {"b": 1}}, "q2"), ({}, "at least one question"), ({"q1": {"a": 2}}, "q1")],
)
def test_questions_that_rank_other_methods_are_refused(ranks, named):
    with pytest.raises(EvaluationError, match=named):
        adequacy(ranks)


# grades without a judge


@pytest.mark.parametrize(("answer", "letters"), rows_of("cases_choice_letters.txt"))
def test_letters_are_read_only_where_they_are_clear(answer, letters):
    assert choice_letters(answer) == (None if letters is None else frozenset(letters))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("True", True), ("Yes, it is.", True), ("正确", True), ("False. The input is shorted.", False),
        ("The statement is incorrect", False), ("不正确", False), ("该说法错误", False), ("True or false?", None),
        ("Not entirely correct", None), ("Truefoo", None), ("N/A", None), ("", None),
    ],
)  # fmt: skip
def test_a_verdict_is_the_first_word_or_none(answer, said):
    assert verdict(answer) is said


@pytest.mark.parametrize(
    ("given_answer", "correct", "kind", "grade"),
    [
        ("B", "B: Beta", "single", 1.0), ("AB", "B", "single", 0.0), ("A, B", "A: x\nB: y", "multiple", 1.0),
        ("A", "A, B", "multiple", 0.5), ("A, C", "A, B", "multiple", 0.0), ("A, B, C", "A, B", "multiple", 0.0),
        ("", "A, B", "multiple", 0.0), ("it depends", "A, B", "multiple", None), ("Yes", "True", "judgement", 1.0),
        ("错误", "True", "judgement", 0.0), ("perhaps", "True", "judgement", None), (" ", "True", "judgement", 0.0),
    ],
)  # fmt: skip
def test_closed_grades_follow_the_rule(given_answer, correct, kind, grade):
    assert closed_grade(given_answer, correct, kind) == grade


@given(st.sets(st.sampled_from("ABCDEFGH"), min_size=1), st.sets(st.sampled_from("ABCDEFGH"), min_size=1))
def test_a_multiple_choice_is_right_in_part_only_without_a_wrong_letter(named, right):
    grade = closed_grade(", ".join(sorted(named)), "".join(sorted(right)), "multiple")
    assert grade == (1.0 if named == right else 0.5 if named < right else 0.0)


@pytest.mark.parametrize(
    ("correct", "kind"), [("", "single"), ("AB", "single"), ("maybe", "judgement"), ("A", "essay")]
)
def test_gold_that_cannot_grade_is_refused(correct, kind):
    with pytest.raises(CatenaError):
        closed_grade("A", correct, kind)


# tables of grades and ranks


def table(folder, text):
    (folder / "t.csv").write_text(text, encoding="utf-8-sig")
    return folder / "t.csv"


def test_grades_and_kinds_are_read_by_their_columns(tmp_path):
    grades, kinds = read_grades(table(tmp_path, "Kind,note,Question,Grade\ntable,x,q1,1\n\n\nsummary,,q2,0.5\n"))
    assert (grades, kinds) == ({"q1": 1.0, "q2": 0.5}, {"q1": "table", "q2": "summary"})
    assert accuracy(grades, kinds).overall.value == 0.75
    assert read_grades(table(tmp_path, "question,grade\nq1,1\n"))[1] == {}


def test_ranks_are_read_by_question_and_method(tmp_path):
    ranks = read_ranks(table(tmp_path, "question,method,rank\nq1,HiQA,1\nq1,ChatPDF,2\n"))
    assert {name: score.value for name, score in adequacy(ranks).items()} == {"ChatPDF": 1.0, "HiQA": 2.0}


@pytest.mark.parametrize(
    ("read", "text", "told"),
    [
        (read_grades, "", "no column 'question'"),
        (read_grades, "question,grade\nq1,good\n", "row 2: the grade must be a number"),
        (read_grades, "question,grade\nq1,nan\n", "row 2: the grade must be a number"),
        (read_grades, "question,grade\nq1,1\nq1,0\n", "row 3: question 'q1' is graded twice"),
        (read_grades, "question,grade\nq1\n", "row 2: 1 cells under 2 columns"),
        (read_grades, "question,grade\nq1,\n", "row 2: the grade is missing"),
        (read_grades, 'question,grade\n"q1,1\n', "not CSV"),
        (read_ranks, "question,rank\nq1,1\n", "no column 'method'"),
        (read_ranks, "question,method,rank\nq1,a,1\nq1,a,2\n", "row 3: method 'a' is ranked twice"),
    ],
)
def test_tables_that_cannot_be_read_are_refused_with_their_row(tmp_path, read, text, told):
    with pytest.raises(EvaluationError, match=told) as caught:
        read(table(tmp_path, text))
    assert str(tmp_path) not in str(caught.value)
    with pytest.raises(EvaluationError, match=r"cannot read gone\.csv"):
        read(tmp_path / "gone.csv")

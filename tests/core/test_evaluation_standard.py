"""Recall, precision, nDCG, MRR, MAP: numbers by hand, their definitions as oracle, the traps of trec_eval."""

from __future__ import annotations

import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk

from catena.evaluation import evaluate, mean_log_rank_index
from catena.evaluation.evidence import recall_at as evidence_recall
from catena.evaluation.standard import recall_at
from catena.model import EvaluationError, Hit, MissingExtraError, ParameterError, Ranking, Scale

MEASURES = ("recall@1", "recall@3", "precision@3", "ndcg", "ndcg@3", "mrr", "mrr@2", "map", "map@3")
PIECES = [f"p{index}" for index in range(8)]


def oracle(measure: str, grades: dict[str, int], ids: list[str]) -> float:
    """Compute one measure of one query straight from its definition."""
    name, _, digits = measure.partition("@")
    top = ids[: int(digits)] if digits else ids
    relevant = {piece for piece, grade in grades.items() if grade >= 1}
    hits = [rank for rank, piece in enumerate(top, start=1) if piece in relevant]
    match name:
        case "recall":
            return len(hits) / len(relevant)
        case "precision":
            return len(hits) / int(digits)
        case "mrr":
            return 1 / hits[0] if hits else 0.0
        case "map":
            return sum(count / rank for count, rank in enumerate(hits, start=1)) / len(relevant)
    best = sorted((max(0, grade) for grade in grades.values()), reverse=True)
    ideal = best[: int(digits)] if digits else best
    dcg = sum(max(0, grades.get(piece, 0)) / math.log2(rank + 1) for rank, piece in enumerate(top, start=1))
    return dcg / sum(grade / math.log2(rank + 1) for rank, grade in enumerate(ideal, start=1))


@st.composite
def judged_runs(draw: st.DrawFn) -> tuple[dict[str, dict[str, int]], dict[str, list[str]]]:
    queries = [f"q{index}" for index in range(draw(st.integers(1, 4)))]
    grades = st.dictionaries(st.sampled_from(PIECES), st.integers(-1, 3), max_size=6)
    qrels = {query: draw(grades) for query in queries}
    run = {q: draw(st.permutations(PIECES))[: draw(st.integers(0, 8))] for q in queries if draw(st.booleans())}
    return qrels, run


def test_measures_by_hand():
    grades, ranked = {"a": 1, "b": 2, "c": 0, "z": 1}, ["c", "a", "x", "b"]
    results = evaluate({"q": grades}, {"q": ranked}, ["recall@2", "precision@5", "mrr", "map"])
    # precision by k, not by the four pieces returned
    assert [result.value for result in results.values()] == pytest.approx([1 / 3, 2 / 5, 1 / 2, (1 / 2 + 2 / 4) / 3])
    value = evaluate({"q": {"a": 1, "b": 2}}, {"q": ["a", "x", "b"]}, ["ndcg@10"])["ndcg@10"].value
    assert value == pytest.approx((1 + 2 / 2) / (2 + 1 / math.log2(3)))


def test_missing_queries_count_0_and_undefined_ones_are_left_out():
    qrels = {"q1": {"a": 1}, "q2": {"a": 1}, "q3": {"a": 0}, "q4": {}}
    result = evaluate(qrels, {"q1": ["a"], "q3": ["a"], "other": ["a"]}, ["recall@1"])["recall@1"]
    assert result.value == 0.5
    assert result.per_query == {"q1": 1.0, "q2": 0.0}
    queries = result.queries
    assert (queries.missing, queries.undefined, queries.unjudged) == (("q2",), ("q3", "q4"), ("other",))
    assert str(result) == (
        "recall@1 0.500; 2 queries, 1 of them missing from the run and counted 0; "
        "left out: 2 without a relevant piece, 1 unjudged"
    )


@pytest.mark.parametrize("measure", MEASURES)
def test_no_defined_query_is_undefined_not_0(measure):
    result = evaluate({"q": {"a": 0}}, {"q": ["a"]}, [measure])[measure]
    assert (result.value, dict(result.per_query)) == (None, {})
    assert str(result).startswith(f"{measure} undefined; 0 queries")


@given(judged_runs())
def test_every_measure_agrees_with_its_definition(case):
    qrels, run = case
    if run:
        for measure, result in evaluate(qrels, run, MEASURES).items():
            for query, value in result.per_query.items():
                assert value == pytest.approx(oracle(measure, qrels[query], run.get(query, [])), abs=1e-6), measure


@given(st.permutations(PIECES))
def test_ties_go_by_id_from_the_lowest_whatever_the_order_given(order):
    tied = dict.fromkeys(order, 0.5)
    results = evaluate({"q": {"p0": 1}}, {"q": tied}, ["mrr", "recall@1"])  # trec_eval alone would rank p0 last
    assert [result.value for result in results.values()] == [1.0, 1.0]


def test_order_survives_in_a_long_ranking():
    ids = [f"p{index:06d}" for index in range(20_000)]
    result = evaluate({"q": {ids[-1]: 1, ids[9_999]: 1}}, {"q": ids}, ["map"])["map"]
    assert result.value == pytest.approx((1 / 10_000 + 2 / 20_000) / 2)


def log_rank(qrels, run):
    return mean_log_rank_index(qrels, run, n=5)


def test_rankings_scores_and_ids_are_read_alike_by_every_measure():
    scores = {"a": 0.1, "b": 0.9, "c": 0.5}
    ranking = Ranking.of([Hit(chunk(name), score) for name, score in scores.items()], Scale.SIMILARITY)
    for ranked in (ranking, scores, ["b", "c", "a"]):
        assert evaluate({"q": {"c": 1}}, {"q": ranked}, ["mrr"])["mrr"].value == 0.5
        assert log_rank({"q": {"c": 1, "a": 1}}, {"q": ranked}).geometric_mean_rank == pytest.approx(6**0.5)
        for recall in (evidence_recall, recall_at):
            assert [recall(ranked, ["b", "a"], k) for k in (1, 2, 3)] == [0.5, 0.5, 1.0]


def test_cutoffs_beyond_the_ranking():
    results = evaluate({"q": {"a": 1}}, {"q": ["a"]}, ["recall@1000000", "precision@1000000", "ndcg@1000000"])
    assert [result.value for result in results.values()] == [1.0, pytest.approx(1e-6), 1.0]


@pytest.mark.parametrize(
    "measure",
    ["recall", "precision", "recall@0", "recall@-1", "recall@1.5", "ndcg@", "nDCG@10", "bpref", "", "mrr@01"],
)
def test_unknown_measures(measure):
    with pytest.raises(ParameterError, match="measure must be recall@k, precision@k, ndcg, mrr or map"):
        evaluate({"q": {"a": 1}}, {"q": ["a"]}, [measure])


@pytest.mark.parametrize(
    ("qrels", "run", "message"),
    [
        ({"q": {"1": 1}}, {"q": [1]}, "query 'q':(?: ranking:)? id 1 is of type int, not str"),
        ({"q": {1: 1}}, {"q": ["1"]}, "qrels, query 'q': id 1 is of type int, not str"),
        ({"1": {"a": 1}}, {1: ["a"]}, "queries of the run: id 1 is of type int, not str"),
        ({1: {"a": 1}}, {"1": ["a"]}, "queries of the qrels: id 1 is of type int"),
        ({"1": {"a": 1}}, {"01": ["a"]}, "no query of the run is judged: the run has '01', the qrels have '1'"),
        ({"q": {"a": 1}}, {"q": ["a", "a"]}, "query 'q':(?: ranking:)? piece 'a' is ranked twice"),
        ({"q": {"a": 1}}, {"q": {"a": math.nan}}, "query 'q':(?: ranking:)? every score must be a number, not NaN"),
        ({"q": {"a": 0.5}}, {"q": ["a"]}, "grade of 'a' must be an integer"),
        ({"q": {"a": 10**6}}, {"q": ["a"]}, "grade of 'a' must be an integer within"),
        ({"q": ["a"]}, {"q": ["a"]}, "expected a mapping of piece id to grade"),
    ],
)
def test_judgements_and_run_that_cannot_be_compared(qrels, run, message):
    for measure in (evaluate, log_rank):
        with pytest.raises(EvaluationError, match=message):
            measure(qrels, run)


def test_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(MissingExtraError, match=r"pip install './packages/catena\[eval\]'"):
        evaluate({"q": {"a": 1}}, {"q": ["a"]})
    assert recall_at(["a"], ["a"], 1) == 1.0


def test_recall_of_nothing_or_at_no_cutoff_is_refused():
    with pytest.raises(EvaluationError, match="recall is undefined without relevant pieces"):
        recall_at(["a"], [], 1)
    with pytest.raises(ParameterError, match="k must be a cutoff of 1 or more, got 0"):
        recall_at(["a"], ["a"], 0)

"""Evidence of several hops: hand-computed tables, laws over the cutoffs, gold as spans, and what is left out."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.evaluation import GoldSpan, compare, evaluate_evidence
from catena.evaluation.evidence import all_at, chain_order, evidence_in, match_rate, recall_at
from catena.evaluation.standard import recall_at as standard_recall
from catena.model import Chain, Chunk, EvaluationError, Hit, Hop, ParameterError, Ranking, Scale

IDS = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8)
SOME_IDS = st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1, max_size=4)


def chunk(name: str, start: int = 0, text: str = "text", document: str = "doc") -> Chunk:
    return Chunk(id=name, document_id=document, position=0, start=start, end=start + len(text), text=text)


def chain(names: str) -> Chain:
    return Chain(tuple(Hop(chunk=chunk(name), score=1.0) for name in names))


@pytest.mark.parametrize(
    ("k", "recall", "everything"),
    [(1, 0, 0), (2, 1 / 3, 0), (3, 1 / 3, 0), (4, 2 / 3, 0), (5, 2 / 3, 0), (6, 1, 1), (99, 1, 1)],
)
def test_a_hand_computed_table(k, recall, everything):
    retrieved = ["x", "a", "y", "b", "z", "c"]
    assert recall_at(retrieved, ["a", "b", "c"], k) == pytest.approx(recall)
    assert all_at(retrieved, ["a", "b", "c"], k) == everything


@pytest.mark.parametrize(
    ("retrieved", "rate"),
    [([], 0), (["x"], 0), (["x", "a"], 0.5), (["b", "x", "y", "z", "a"], 1), ([chain("xa"), chain("xb")], 1)],
)
def test_the_match_rate_is_the_share_of_evidence_retrieved_whatever_the_number(retrieved, rate):
    assert match_rate(retrieved, {"a", "b"}) == rate


def test_rankings_scores_lists_and_chains_are_read_alike():
    ranking = Ranking.of(
        (Hit(chunk(name), score) for name, score in (("a", 3.0), ("x", 2.0), ("b", 1.0))), Scale.RANK
    )
    same = [ranking, {"b": 1.0, "a": 3.0, "x": 2.0}, ["a", "x", "b"], [chain("ax"), chain("ab")]]
    assert {tuple(recall_at(each, ["a", "b"], k) for k in (1, 2, 3)) for each in same} == {(0.5, 0.5, 1.0)}


def test_any_chunk_of_a_piece_will_do_and_a_piece_that_no_chunk_covers_is_not_found():
    pieces = {"first hop": ["a1", "a2"], "second hop": ["b"], "lost by the chunker": []}
    assert recall_at(["a2", "a1", "b"], pieces, 2) == pytest.approx(1 / 3)
    assert match_rate(["a2", "b"], pieces) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("chains", "evidence", "held"),
    [
        (["ab"], ["a", "b"], 1),
        (["xaybz"], ["a", "b"], 1),
        (["ba"], ["a", "b"], 0),
        (["a", "b"], ["a", "b"], 0),  # no chain holds both
        (["ba", "xab"], ["a", "b"], 1),
        (["axb"], {"one": ["q", "a"], "two": ["b", "c"]}, 1),
        (["ab"], {"one": ["a"], "in the same chunk": ["a"], "two": ["b"]}, 1),
        (["ab"], {"one": ["a"], "lost": []}, 0),
        ([], ["a"], 0),
    ],
)
def test_some_chain_holds_the_evidence_in_the_order_of_the_hops(chains, evidence, held):
    assert chain_order([chain(names) for names in chains], evidence) == held


@given(IDS, SOME_IDS)
def test_laws_of_recall(retrieved, evidence):
    values = [recall_at(retrieved, evidence, k) for k in range(1, 10)]
    everything = [all_at(retrieved, evidence, k) for k in range(1, 10)]
    assert values == sorted(values)
    assert everything == sorted(everything)
    assert all(held <= value for held, value in zip(everything, values, strict=True))
    assert values[-1] == match_rate(retrieved, evidence)
    assert values == [standard_recall(retrieved, evidence, k) for k in range(1, 10)]
    assert chain_order([chain(retrieved)], evidence) <= all_at(retrieved, evidence, 9)


def test_over_questions_the_missing_count_0_and_those_without_evidence_are_left_out():
    gold = {"q1": ["a", "b"], "q2": ["c", "d"], "q3": [], "q4": {"piece": ["e"]}}
    results = evaluate_evidence(gold, {"q1": ["a", "b"], "q2": ["x", "d"], "q9": ["a"]}, ("recall@2", "all@2"))
    recall, everything = results["recall@2"], results["all@2"]
    assert recall.per_question == {"q1": 1.0, "q2": 0.5, "q4": 0.0}
    assert everything.per_question == {"q1": 1.0, "q2": 0.0, "q4": 0.0}
    assert (recall.mean.value, recall.mean.n) == (0.5, 3)
    assert recall.mean.interval[0] <= 0.5 <= recall.mean.interval[1]
    assert (recall.questions.missing, recall.questions.undefined) == (("q4",), ("q3",))
    assert recall.questions.unjudged == ("q9",)
    assert "1 without" in str(recall)
    assert compare(recall.per_question, everything.per_question).difference == pytest.approx(1 / 6)
    assert pickle.loads(pickle.dumps(results)) == results


def test_chains_are_measured_by_rate_and_order():
    gold = {"q1": ["a", "b"], "q2": ["b", "a"]}
    run = {name: [chain("ax"), chain("ab")] for name in gold}
    results = evaluate_evidence(gold, run, ("match_rate", "chain_order", "recall@2"))
    assert {name: result.mean.value for name, result in results.items()} == {
        "match_rate": 1.0, "chain_order": 0.5, "recall@2": 0.5,
    }  # fmt: skip


def test_gold_spans_judge_the_chunks_of_any_chunker():
    text = "Aichryson has fifteen species. Polypodium has more than that."
    spans = {"q": [GoldSpan(item="one", document_id="doc", start=0, end=30),
                   GoldSpan(item="two", document_id="doc", start=31, end=61)]}  # fmt: skip
    halves = [chunk("left", 0, text[:30]), chunk("right", 30, text[30:])]
    thirds = [chunk(str(n), n * 20, text[n * 20 : n * 20 + 20]) for n in range(4)]
    other = [chunk("copy", 0, text, document="another")]
    assert evidence_in(halves, spans) == {"q": {"one": {"left"}, "two": {"right"}}}
    assert evidence_in(thirds, spans)["q"] == {"one": {"0", "1"}, "two": {"1", "2", "3"}}
    assert recall_at(["1"], evidence_in(thirds, spans)["q"], 1) == 1.0
    lost = evaluate_evidence(evidence_in(other, spans), {"q": ["copy"]}, ("recall@5",))["recall@5"]
    assert (lost.mean.value, lost.questions.defined) == (0.0, ("q",))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: recall_at(["a"], [], 5), "without gold items"),
        (lambda: match_rate(["a"], {}), "without gold items"),
        (lambda: recall_at(["a"], "a", 5), "several ids"),
        (lambda: recall_at(["a"], [1], 5), "not str"),
        (lambda: recall_at(["a"], {"piece": "a"}, 5), "several ids"),
        (lambda: recall_at(["a", "a"], ["a"], 5), "twice"),
        (lambda: recall_at(7, ["a"], 5), "int"),
        (lambda: recall_at([chain("a"), "b"], ["a"], 5), "not str"),
        (lambda: chain_order(["a"], ["a"]), "needs chains"),
        (lambda: chain_order([chain("a")], {"a"}), "order of the hops"),
        (lambda: chain_order([chain("a")], []), "without evidence"),
        (lambda: evaluate_evidence({"q": ["a"]}, {"q": ["a", "a"]}), "question 'q'.*twice"),
        (lambda: evaluate_evidence({"q": "a"}, {}), "question 'q'"),
        (lambda: evaluate_evidence({"q": ["a"]}, {"p": ["a"]}), "no query of the run is judged"),
        (lambda: evaluate_evidence({"q": ["a"]}, {"q": ["a"]}, ("chain_order",)), "question 'q'.*chains"),
    ],
)
def test_what_cannot_be_measured_is_named(call, said):
    with pytest.raises(EvaluationError, match=said):
        call()


@pytest.mark.parametrize("name", ["recall", "recall@0", "all@-1", "ndcg@5", "match_rate@3", ""])
def test_an_unknown_measure_is_refused(name):
    with pytest.raises(ParameterError, match="measure"):
        evaluate_evidence({"q": ["a"]}, {"q": ["a"]}, (name,))


def test_a_cutoff_below_1_is_refused():
    with pytest.raises(ParameterError, match="k must be"):
        all_at(["a"], ["a"], 0)

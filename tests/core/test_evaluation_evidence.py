"""Evidence: hand-computed tables, laws over the cutoffs, gold spans of any chunker, and what is left out."""

from __future__ import annotations

import pickle
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk

from catena.evaluation import GoldSpan, compare, evaluate_evidence, item_recall
from catena.evaluation.evidence import (
    all_at,
    chain_order,
    evidence_in,
    items_found,
    match_rate,
    recall_at,
    relevant_chunks,
)
from catena.evaluation.standard import recall_at as standard_recall
from catena.model import Chain, Chunk, EvaluationError, Hop, ParameterError

IDS = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8)
SOME_IDS = st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1, max_size=4)


def span(start: int, end: int, item: str = "gold") -> GoldSpan:
    return GoldSpan(item=item, document_id="d", start=start, end=end)


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


def test_chains_are_read_path_after_path_each_chunk_at_its_first_place():
    assert [recall_at([chain("ax"), chain("ab")], ["a", "b"], k) for k in (1, 2, 3)] == [0.5, 0.5, 1.0]


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
    spans = {"q": [span(0, 30, "one"), span(31, 61, "two")]}
    halves = [chunk("left", text[:30]), chunk("right", text[30:], start=30)]
    thirds = [chunk(str(n), text[n * 20 : n * 20 + 20], start=n * 20) for n in range(4)]
    other = [chunk("copy", text, document_id="another")]
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
        (lambda: item_recall(["a"], {}, 1), "item recall is undefined without gold items"),
        (lambda: items_found(["a"], {"one": "abc"}, 1), "chunks of item 'one': expected several ids, got 'abc'"),
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


NO_MEASURES = ("recall", "recall@0", "all@-1", "ndcg@5", "match_rate@3", "")
NO_SHARE = r"min_overlap must be a share in \(0, 1\]"


@pytest.mark.parametrize(
    ("values", "call", "said"),
    [
        (NO_MEASURES, lambda name: evaluate_evidence({"q": ["a"]}, {"q": ["a"]}, (name,)), "measure"),
        (((-1, 4), (3, 3), (5, 2)), lambda ends: span(*ends), "gold span must be offsets with 0 <= start < end"),
        ((0, -0.1, 1.01, float("nan")), lambda share: relevant_chunks([], [], min_overlap=share), NO_SHARE),
        ((0,), lambda k: all_at(["a"], ["a"], k), "k must be"),
        ((0,), lambda k: items_found(["a"], {"one": ["a"]}, k), "k must be a cutoff of 1 or more, got 0"),
    ],
)
def test_parameters_outside_their_domains(values, call, said):
    for value in values:
        with pytest.raises(ParameterError, match=said):
            call(value)


def cut(start: int, text: str) -> Chunk:
    return chunk(f"{start}-{start + len(text)}", text, start=start)


@st.composite
def tilings(draw: st.DrawFn) -> tuple[str, list[Chunk]]:
    text = draw(st.text("ab \n", min_size=1, max_size=60))
    cuts = sorted({0, len(text), *draw(st.lists(st.integers(0, len(text)), max_size=6))})
    return text, [cut(start, text[start:end]) for start, end in pairwise(cuts)]


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
    assert bool(relevant_chunks([cut(start, "x" * (end - start))], [span(*gold)])) is relevant


def test_min_overlap_acts():
    piece, gold = cut(0, "x" * 10), [span(7, 100)]
    assert relevant_chunks([piece], gold) == frozenset()
    assert relevant_chunks([piece], gold, min_overlap=0.3) == {piece.id}


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

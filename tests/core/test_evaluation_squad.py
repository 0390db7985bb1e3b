"""Exact match, F1 and Accuracy of short answers: the official examples, their laws, and what counts as no answer."""

from __future__ import annotations

import pickle
import re
import string
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.evaluation import answer_score, squad_scores
from catena.evaluation.answers import AnswerScore, contains_answer, exact_match, f1, normalise_answer
from catena.model import EvaluationError, ParameterError

WORDS = st.lists(st.sampled_from(["the", "a", "An", "cat", "Cat,", "sat", "on", "yes", "no", "!"]), max_size=6)
PHRASES = WORDS.map(" ".join)
ACCEPTED = st.lists(PHRASES, min_size=1, max_size=3)


def official_f1(reply: str, gold: str) -> float:
    """The formula of the official script, v1.1, step by step; of texts of which something is left."""

    def normal(text: str) -> list[str]:
        bare = "".join(character for character in text.lower() if character not in set(string.punctuation))
        return re.sub(r"\b(a|an|the)\b", " ", bare).split()

    said, wanted = normal(reply), normal(gold)
    shared = sum((Counter(said) & Counter(wanted)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(said), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        *(("The Cat sat!", "cat sat"), ("  an\tapple\nand A pear ", "apple and pear"), ("well-known", "wellknown")),
        *(("U.S.A.", "usa"), ("$1,000", "1000"), ("theatre", "theatre"), ("the", ""), ("?!", "")),
        ("Çeşme’s", "çeşme’s"),  # only ASCII punctuation is taken out
    ],
)
def test_an_answer_is_normalised_as_the_official_script_does_it(text, normal):
    assert normalise_answer(text) == normal
    assert normalise_answer(normal) == normal


@pytest.mark.parametrize(
    ("reply", "gold", "em", "shared", "contained"),
    [
        ("the cat sat", "a cat sat on", 0, 0.8, 0),  # P = 2/2, R = 2/3
        ("a cat sat on the mat", "the cat sat", 0, 2 * (2 / 4) * 1 / (2 / 4 + 1), 1),
        ("Denver Broncos", "The Denver Broncos!", 1, 1, 1),
        ("Bury St Edmunds", "Bury St Edmunds,", 1, 1, 1),
        ("cat cat cat", "cat cat", 0, 0.8, 1),  # a word counts as often as both have it
        ("York City", ["New York", "New York City", "NYC"], 0, 0.8, 0),  # of several the best counts
        ("in the NYC area", ["New York", "NYC"], 0, 0.5, 1),
        ("catalogue", "cat", 0, 0, 0),  # whole words
        ("Yes, both in Iran.", "yes", 0, 0.4, 1),  # the paper's own example
        ("A", "a", 1, 1, 1),  # nothing is left of either: SQuAD 2.0's rule
        ("A", "b", 0, 0, 0),
    ],
)
def test_hand_computed_scores(reply, gold, em, shared, contained):
    found = answer_score(reply, gold)
    assert (found.exact_match, found.accuracy) == (em, contained)
    assert found.f1 == pytest.approx(shared)


@pytest.mark.parametrize(
    ("reply", "gold", "plain", "closed"),
    [
        ("no", "no man's land", 0.5, 0.0),
        ("no man's land", "no", 0.5, 0.0),
        ("Yes.", "yes", 1.0, 1.0),
        ("noanswer", "noanswer", 1.0, 1.0),
        ("no answer", "noanswer", 0.0, 0.0),
        ("Paris", "Paris France", 2 / 3, 2 / 3),
    ],
)
def test_hotpotqa_gives_yes_and_no_nothing_for_shared_words(reply, gold, plain, closed):
    assert f1(reply, gold) == pytest.approx(plain)
    assert f1(reply, gold, hotpotqa=True) == pytest.approx(closed)


@given(PHRASES, PHRASES)
def test_f1_is_the_official_formula(reply, gold):
    if normalise_answer(reply) and normalise_answer(gold):
        assert f1(reply, gold) == pytest.approx(official_f1(reply, gold))
        assert f1(reply, gold) == f1(gold, reply)


@given(PHRASES, ACCEPTED, PHRASES, st.booleans())
def test_laws_of_the_scores(reply, accepted, another, hotpotqa):
    score = answer_score(reply, accepted, hotpotqa=hotpotqa)
    assert 0 <= score.exact_match <= score.f1 <= 1
    assert score.exact_match <= score.accuracy <= 1
    more = answer_score(reply, [*accepted, another], hotpotqa=hotpotqa)
    for name in ("accuracy", "exact_match", "f1"):
        assert getattr(more, name) >= getattr(score, name)
    assert answer_score(f" THE {reply} ", accepted, hotpotqa=hotpotqa).f1 >= score.f1  # an article costs nothing


def test_scores_over_questions_count_what_is_unanswered():
    accepted = {"q3": ["Paris"], "q1": "yes", "q2": ["cat sat on"], "q4": "no", "q5": "7"}
    replies = {"q1": "Yes, both in Iran.", "q2": "the cat sat", "q3": "paris", "q4": None, "q5": " ", "x": "7"}
    scores = squad_scores(accepted, replies)
    assert list(scores.per_question) == ["q1", "q2", "q3", "q4", "q5"]
    assert scores.values("accuracy") == {"q1": 1, "q2": 0, "q3": 1, "q4": 0, "q5": 0}
    assert scores.exact_match.value == pytest.approx(1 / 5)
    assert scores.f1.value == pytest.approx((0.4 + 0.8 + 1) / 5)
    assert scores.accuracy.interval[0] <= 0.4 <= scores.accuracy.interval[1]
    assert (scores.unanswered, scores.unasked) == (("q4", "q5"), ("x",))
    assert "2 unanswered" in str(scores)
    assert pickle.loads(pickle.dumps(scores)) == scores
    with pytest.raises(ParameterError, match="measure"):
        scores.values("bleu")


def test_a_blank_reply_earns_nothing_even_where_nothing_is_left_of_the_answer():
    assert answer_score(" ", "A") == AnswerScore()
    assert squad_scores({"q": "A"}, {"q": "the"}).exact_match.value == 1  # as the official script has it


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: f1("x", []), "accepted answer"),
        (lambda: exact_match("x", {"x"}), "accepted answer"),
        (lambda: contains_answer("x", ["x", 7]), "got 7"),
        (lambda: normalise_answer(None), "got None"),
        (lambda: squad_scores({}, {}), "at least one question"),
        (lambda: squad_scores({"q": "x"}, {"p": "x"}), "'p'.*'q'"),
        (lambda: squad_scores({"q": []}, {}), "question 'q'"),
        (lambda: squad_scores({"q": "x"}, {"q": 0}), "question 'q'.*0"),
        (lambda: squad_scores({7: "x"}, {}), "id 7"),
    ],
)
def test_what_cannot_be_scored_is_named(call, said):
    with pytest.raises(EvaluationError, match=said):
        call()

"""TF-IDF by scikit-learn: the formula by hand, its laws, and as a route over views."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk

from catena.backends import TfidfScorer
from catena.effects import Services, run
from catena.retrieval import ExactUnion, retrieve_views, stored
from catena.retrieval.in_memory import ViewCollection

pytest.importorskip("sklearn")


def by_formula(query: str, texts: list[str], sublinear: bool = False) -> list[float]:
    held = [Counter(text.split()) for text in texts]
    idf = {w: math.log((1 + len(texts)) / (1 + sum(w in t for t in held))) + 1 for t in held for w in t}

    def vector(counts: Counter[str]) -> dict[str, float]:
        weights = {w: (1 + math.log(n) if sublinear else n) * idf[w] for w, n in counts.items() if w in idf}
        length = math.hypot(*weights.values())
        return {w: weight / length for w, weight in weights.items()}

    asked = vector(Counter(query.split()))
    return [sum(asked.get(w, 0.0) * weight for w, weight in vector(counts).items()) for counts in held]


def test_the_formula_by_hand():
    # idf: pump in 2 of 2 texts -> ln(3/3) + 1 = 1; level in 1 -> ln(3/2) + 1 = 1.405; vectors (1), (1, 1.405)
    rare = math.log(1.5) + 1
    scores = TfidfScorer(["pump", "pump level"]).score("level valve")
    assert scores.tolist() == pytest.approx([-math.inf, rare / math.hypot(1, rare)])


some_texts = st.lists(st.lists(st.sampled_from("abcdef"), max_size=7).map(" ".join), min_size=1, max_size=6)


@given(some_texts, st.lists(st.sampled_from("abcxyz"), max_size=4).map(" ".join), st.booleans())
def test_scores_are_the_formula(texts, query, sublinear):
    scores = TfidfScorer(texts, sublinear=sublinear).score(query)
    assert scores.tolist() == pytest.approx([x or -math.inf for x in by_formula(query, texts, sublinear)])
    assert not (scores > 1 + 1e-9).any()


def test_texts_and_questions_without_words_find_nothing():
    assert TfidfScorer(["", "…"]).score("pump").tolist() == [-math.inf, -math.inf]
    assert TfidfScorer([]).score("pump").shape == (0,)
    assert np.isneginf(TfidfScorer(["pump"]).score("")).all()


def test_words_of_any_script_are_words():
    scores = TfidfScorer(["水泵启动", "Straße", "a b"]).score("水泵")
    assert scores[0] > 0
    assert np.isneginf(scores[1:]).all()
    assert TfidfScorer(["Straße", "b"]).score("STRASSE")[0] == pytest.approx(1.0)


def test_it_is_a_route_over_any_view():
    chunks = [chunk("a", "the pump"), chunk("b", "the level")]
    store = ViewCollection(chunks, scorers={"tfidf": TfidfScorer})
    found = run(
        retrieve_views("level", views=("raw",), k=2, rule=ExactUnion(), search=lambda kind: stored("tfidf")),
        Services(store=store),
    )
    assert [hit.chunk.id for hit in found.hits] == ["b"]

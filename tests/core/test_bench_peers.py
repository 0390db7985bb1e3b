"""The peers of the benches: plain BM25 scores as the reference does; frameworks are given what is best for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi
from retrieval_cases import chunk

from catena.model import Hit, Provenance, Ranking, Scale
from catena_bench import peers
from catena_bench.views_retrievers import PlainBm25, words_of

WORDS = st.lists(st.sampled_from(["red", "wire", "clock", "Clock", "12", "MHz", "of", "the"]), min_size=1, max_size=9)
TEXTS = st.lists(WORDS.map(" ".join), min_size=1, max_size=12)


@given(TEXTS, WORDS.map(" ".join))
def test_scores_are_those_of_rank_bm25(texts: list[str], question: str) -> None:
    named = {f"t{number}": text for number, text in enumerate(texts)}
    reference = BM25Okapi([words_of(text) for text in texts]).get_scores(words_of(question))
    found = PlainBm25(named).scores(question)
    for name, score in zip(named, reference, strict=True):
        assert found.get(name, 0.0) == pytest.approx(max(float(score), 0.0), abs=1e-9)


@given(TEXTS, WORDS.map(" ".join), st.integers(1, 5))
def test_the_best_come_with_all_that_tie_with_the_last(texts: list[str], question: str, k: int) -> None:
    index = PlainBm25({f"t{number}": text for number, text in enumerate(texts)})
    whole, best = index.scores(question), index.scores(question, k)
    border = min(best.values(), default=0.0)
    assert best == {name: score for name, score in whole.items() if score >= border}
    assert len(best) >= min(k, len(whole))


def ranking(route: str, *scores: tuple[str, float]) -> Ranking:
    """Chunks of equal text, each of its own document."""
    hits = (
        Hit(chunk(name, "same", document_id=f"d-{name}"), score, (Provenance(route=route, rank=rank, score=score),))
        for rank, (name, score) in enumerate(scores, start=1)
    )
    return Ranking.of(hits, Scale.SIMILARITY)


ROUTES = (
    lambda question: ranking("lexical", ("a", 9.0), ("b", 5.0), ("c", 1.0)),
    lambda question: ranking("dense", ("b", 0.9), ("c", 0.5), ("a", 0.1)),
)


def test_the_ensemble_keeps_equal_texts_apart_and_fuses_by_rank() -> None:
    # by 1 / (60 + rank): b 1/62 + 1/61, a 1/61 + 1/63, c 1/63 + 1/62
    assert peers.ensemble(ROUTES, 3)("q") == ["b", "a", "c"]
    assert peers.ensemble(ROUTES, 2)("q") == ["b", "a"]


def test_query_fusion_merges_what_two_routes_found_and_adds_relative_scores() -> None:
    # min-max: a 1 + 0, b 0.5 + 1, c 0 + 0.5; each halved
    fused = peers.query_fusion(ROUTES, 3)
    assert fused("q") == ["b", "a", "c"]
    assert fused("again") == ["b", "a", "c"], "nodes are shared between calls; their scores are not"

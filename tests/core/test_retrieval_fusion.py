"""Fusion: published numbers, laws over rankings of any shape, and errors that name the parameter."""

from __future__ import annotations

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.model import Chunk, Hit, ParameterError, Provenance, Ranking, Scale
from catena.retrieval import RankFusion, ScoreBounds, ScoreFusion, by_maximum, reciprocal_rank_fusion, weighted_sum
from catena.retrieval.fusion import half_cosine, log_count, min_max


def chunk(name: str) -> Chunk:
    return Chunk(id=name, document_id="d", position=0, start=0, end=1, text="x")


def ranking(scores: dict[str, float], route: str = "r") -> Ranking:
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return Ranking.of(
        (
            Hit(chunk(i), s, (Provenance(route=route, rank=rank, score=s),))
            for rank, (i, s) in enumerate(ordered, start=1)
        ),
        Scale.SIMILARITY,
    )


def in_order(letters: str) -> Ranking:
    return ranking({letter: float(-place) for place, letter in enumerate(letters)})


rankings = st.dictionaries(
    st.sampled_from(["dense", "lexical", "keyword"]),
    st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-1, 30), max_size=6).map(ranking),
    min_size=1,
)


def scores(fused: Ranking) -> dict[str, float]:
    return {hit.chunk.id: hit.score for hit in fused.hits}


def test_rank_fusion_reproduces_the_published_formula() -> None:
    fused = reciprocal_rank_fusion({"one": in_order("abc"), "two": in_order("bcd")})
    assert [hit.chunk.id for hit in fused.hits] == ["b", "c", "a", "d"]
    assert fused.hits[0].score == pytest.approx(1 / 62 + 1 / 61)
    assert fused.scale is Scale.RANK


def test_weights_of_rank_fusion_act() -> None:
    one, two = in_order("ab"), in_order("ba")
    assert (
        reciprocal_rank_fusion({"one": one, "two": two}, weights={"one": 0.99, "two": 0.01}).hits[0].chunk.id == "a"
    )
    assert (
        reciprocal_rank_fusion({"one": one, "two": two}, weights={"one": 0.01, "two": 0.99}).hits[0].chunk.id == "b"
    )


def test_score_fusion_is_hiqas_formula() -> None:
    fused = weighted_sum(
        {
            "dense": ranking({"a": 0.5, "b": -0.2}),
            "lexical": ranking({"a": 4.0, "c": 8.0}),
            "keyword": ranking({"a": 2.0, "b": 1.0}),
        },
        ScoreFusion(alpha=0.6, beta=0.3).parts,
    )
    assert scores(fused) == pytest.approx(
        {"a": 0.6 * 0.75 + 0.4 * 0.5 + 0.3 * log(3), "b": 0.6 * 0.4 + 0.3 * log(2), "c": 0.4 * 1.0}
    )
    assert fused.scale is Scale.NORMALIZED


def test_every_route_that_found_a_chunk_is_named() -> None:
    fused = weighted_sum(
        {"dense": ranking({"a": 0.5, "b": 0.7}, "dense"), "lexical": ranking({"a": 4.0}, "lexical")},
        ScoreFusion().parts,
    )
    found = {hit.chunk.id: hit.provenance for hit in fused.hits}
    assert found["a"] == (
        Provenance(route="dense", rank=2, score=0.5),
        Provenance(route="lexical", rank=1, score=4.0),
    )


@pytest.mark.parametrize(
    ("rule", "score", "low", "high", "expected"),
    [
        (by_maximum, 3.0, 0.0, 6.0, 0.5),
        (by_maximum, 6.0, 6.0, 6.0, 1.0),
        (by_maximum, 0.0, 0.0, 0.0, 0.0),
        (by_maximum, -1.0, -1.0, 4.0, 0.0),
        (min_max, 3.0, 2.0, 6.0, 0.25),
        (min_max, 5.0, 5.0, 5.0, 1.0),
        (min_max, 1.0, 2.0, 6.0, 0.0),
        (half_cosine, -1.0, 0.0, 0.0, 0.0),
        (half_cosine, 0.0, 0.0, 0.0, 0.5),
        (half_cosine, 1.0000001, 0.0, 0.0, 1.0),
        (log_count, 0.0, 0.0, 0.0, 0.0),
        (log_count, 3.0, 0.0, 0.0, log(4)),
    ],
)
def test_normalisation(rule, score: float, low: float, high: float, expected: float) -> None:
    assert rule(score, ScoreBounds(low=low, high=high)) == pytest.approx(expected)


@given(rankings)
def test_fusion_returns_every_chunk_once(given_rankings: dict[str, Ranking]) -> None:
    everything = sorted({hit.chunk.id for one in given_rankings.values() for hit in one.hits})
    for fused in (reciprocal_rank_fusion(given_rankings), weighted_sum(given_rankings, ScoreFusion().parts)):
        assert sorted(hit.chunk.id for hit in fused.hits) == everything


@given(rankings, st.integers(0, 6))
def test_the_first_k_are_those_of_the_whole(given_rankings: dict[str, Ranking], k: int) -> None:
    parts = ScoreFusion().parts
    assert weighted_sum(given_rankings, parts, k=k) == weighted_sum(given_rankings, parts).top(k)
    assert reciprocal_rank_fusion(given_rankings, top=k) == reciprocal_rank_fusion(given_rankings).top(k)


@given(rankings, st.randoms())
def test_fusion_does_not_depend_on_the_order_of_the_routes(given_rankings: dict[str, Ranking], random) -> None:
    names = list(given_rankings)
    random.shuffle(names)
    shuffled = {name: given_rankings[name] for name in names}
    assert weighted_sum(shuffled, ScoreFusion().parts) == weighted_sum(given_rankings, ScoreFusion().parts)
    assert reciprocal_rank_fusion(shuffled) == reciprocal_rank_fusion(given_rankings)


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0.1, 30), min_size=1), st.floats(0.1, 50))
def test_the_unit_of_bm25_does_not_matter(raw: dict[str, float], unit: float) -> None:
    dense = ranking(dict.fromkeys(raw, 0.0))
    scaled = {i: score * unit for i, score in raw.items()}
    parts = ScoreFusion().parts
    plain = weighted_sum({"dense": dense, "lexical": ranking(raw)}, parts)
    assert scores(weighted_sum({"dense": dense, "lexical": ranking(scaled)}, parts)) == pytest.approx(scores(plain))


@given(rankings)
def test_more_critical_terms_never_lower_a_score(given_rankings: dict[str, Ranking]) -> None:
    keyword = ranking({i: 1.0 for i in "abcdefgh"})
    more = ranking({i: 2.0 for i in "abcdefgh"})
    parts = ScoreFusion().parts
    before = scores(weighted_sum({**given_rankings, "keyword": keyword}, parts))
    after = scores(weighted_sum({**given_rankings, "keyword": more}, parts))
    assert all(after[i] > before[i] for i in before)


def test_equal_texts_of_two_documents_stay_two_hits() -> None:
    twins = [Chunk(id=i, document_id=i, position=0, start=0, end=4, text="same") for i in ("left", "right")]
    both = Ranking.of((Hit(twin, 1.0) for twin in twins), Scale.SIMILARITY)
    assert len(weighted_sum({"lexical": both}, ScoreFusion().parts).hits) == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ScoreFusion(alpha=1.5), "alpha must be a number .*, got 1.5"),
        (lambda: ScoreFusion(beta=-1), "beta must be a number >= 0 .*, got -1"),
        (lambda: ScoreFusion(beta=float("nan")), "beta must be a number >= 0 .*, got nan"),
        (lambda: ScoreFusion(passages=1.5), "passages must be a number .*, got 1.5"),
        (lambda: RankFusion(k=0), "k must be a number > 0 .*, got 0"),
        (lambda: RankFusion(k="3"), "k must be a number > 0 .*, got '3'"),
        (lambda: RankFusion(weights={"dense": "3"}), r"weights\['dense'\] must be a finite number >= 0, got '3'"),
        (lambda: ScoreFusion(beta=10**400), "beta must be a number"),
        (lambda: RankFusion(weights={"dense": -1.0}), r"weights\['dense'\] must be a finite number >= 0, got -1.0"),
        (
            lambda: weighted_sum({"mine": in_order("a")}, ScoreFusion().parts),
            r"routes must be among \['dense', 'keyword', 'lexical', 'passages'\]; RankFusion takes any route, "
            r"got \['mine'\]",
        ),
        (
            lambda: weighted_sum({"dense": ranking({"a": float("inf")})}, ScoreFusion().parts),
            r"scores must be finite, got \[inf\]",
        ),
    ],
)
def test_errors_name_the_parameter(make, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()


def test_the_best_passage_takes_its_share_of_the_words() -> None:
    fusion = ScoreFusion(alpha=0.5, beta=0.0, passages=0.25)
    found = weighted_sum(
        {"lexical": ranking({"a": 4.0, "b": 2.0}), "passages": ranking({"a": 1.0, "b": 3.0})}, fusion.parts
    )
    assert scores(found) == pytest.approx({"a": 0.5 * (0.75 + 0.25 / 3), "b": 0.5 * (0.75 / 2 + 0.25)})
    assert ScoreFusion().parts["passages"][0] == 0.0

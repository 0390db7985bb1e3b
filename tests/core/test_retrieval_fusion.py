"""Fusion: published numbers, laws over rankings of any shape, and errors that name the parameter."""

from __future__ import annotations

from dataclasses import replace
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk, ids, in_order, ranking, scored

from catena import Hit, ParameterError, Provenance, Ranking, Scale, ScaleError, ScoreFusion
from catena.retrieval import RankFusion, ScoreBounds, by_maximum, dense_share, reciprocal_rank_fusion, weighted_sum
from catena.retrieval.fusion import fuse, half_cosine, interleave, log_count, min_max

PARTS, A = ScoreFusion.hiqa().parts(), in_order("a")
rankings = st.dictionaries(
    st.sampled_from(["dense", "lexical", "keyword"]),
    st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-1, 30), max_size=6).map(ranking),
    min_size=1,
)


def test_rank_fusion_reproduces_the_published_formula() -> None:
    both = {"one": in_order("abc"), "two": in_order("bcd")}
    fused = reciprocal_rank_fusion(both)
    assert (ids(fused), fused.scale) == ("bcad", Scale.RANK)
    assert fused.hits[0].score == pytest.approx(1 / 62 + 1 / 61)
    assert ids(reciprocal_rank_fusion(both, weights={"one": 0.99, "two": 0.01})) == "abcd"
    weighed = fuse(both, RankFusion(k=60, weights={"two": 0}), k=2)
    assert weighed == reciprocal_rank_fusion(both, weights={"two": 0}, top=2)


def test_score_fusion_is_hiqas_formula() -> None:
    dense = ranking({"a": 0.5, "b": -0.2}, "dense")
    words, terms = ranking({"a": 4.0, "c": 8.0}, "lexical"), ranking({"a": 2.0, "b": 1.0}, "keyword")
    hiqa = ScoreFusion.hiqa(alpha=0.6, beta=0.3)
    fused = fuse({"dense": dense, "lexical": words, "keyword": terms}, hiqa, k=3)
    expected = {"a": 0.6 * 0.75 + 0.4 * 0.5 + 0.3 * log(3), "b": 0.6 * 0.4 + 0.3 * log(2), "c": 0.4 * 1.0}
    assert dict(scored(fused)) == pytest.approx(expected)
    assert fused.scale is Scale.NORMALIZED
    ways = [(way.route, way.rank, way.score) for way in fused.hits[0].provenance]
    assert ways == [("dense", 1, 0.5), ("keyword", 1, 2.0), ("lexical", 2, 4.0)]
    shares = [way.share for way in fused.hits[0].provenance]
    assert shares == pytest.approx([0.6 * 0.75, 0.3 * log(3), 0.4 * 0.5])


@pytest.mark.parametrize(
    ("dense", "lexical", "share"),
    [
        ("cab", "abcd", 0.4),  # all of its hits are among those of the words
        ("axyz", "ab", 0.25 / 1.75),
        ("klmnopqrsta", "a", 0.0),  # beyond the first ten
        ("xyz", "abc", 0.0),  # an embedder that finds others counts for nothing
        ("abc", "", 1.0),  # where no word is found, meaning decides
        ("", "abc", 0.0),
    ],
)
def test_the_dense_route_counts_as_far_as_it_agrees_with_the_words(dense: str, lexical: str, share: float) -> None:
    both = {"dense": in_order(dense), "lexical": in_order(lexical)}
    assert dense_share(both) == pytest.approx(share)
    by_hand = fuse(both, ScoreFusion(alpha=share), k=9)
    assert fuse(both, ScoreFusion(), k=9) == by_hand
    assert by_hand.left_out == (("dense",) if dense and not share else ())
    if lexical and dense and share:
        weights = {"dense": share / (1 - share)}
        assert ids(fuse(both, RankFusion(), k=9)) == ids(fuse(both, RankFusion(weights=weights), k=9))


def test_both_routes_are_compared_from_the_worst_candidate_to_the_best() -> None:
    both = {"dense": ranking({"a": 0.9, "b": 0.8, "c": 0.7}), "lexical": ranking({"a": 2.0, "b": 12.0, "c": 7.0})}
    found = dict(scored(fuse(both, ScoreFusion(alpha=0.25), k=3)))
    assert found == pytest.approx({"a": 0.25, "b": 0.25 * 0.5 + 0.75, "c": 0.75 * 0.5})


def test_the_best_passage_takes_its_share_of_the_words() -> None:
    both = {"lexical": ranking({"a": 4.0, "b": 2.0}), "passages": ranking({"a": 1.0, "b": 3.0})}
    found = weighted_sum(both, replace(ScoreFusion.hiqa(alpha=0.5, beta=0.0), passages=0.25).parts())
    assert dict(scored(found)) == pytest.approx({"a": 0.5 * (0.75 + 0.25 / 3), "b": 0.5 * (0.75 / 2 + 0.25)})
    assert PARTS["passages"][0] == 0.0


@pytest.mark.parametrize(
    ("rule", "score", "low", "high", "expected"),
    [
        (by_maximum, 3.0, 0.0, 6.0, 0.5),
        (by_maximum, 0.0, 0.0, 0.0, 0.0),
        (by_maximum, -1.0, -1.0, 4.0, 0.0),
        (min_max, 3.0, 2.0, 6.0, 0.25),
        (min_max, 5.0, 5.0, 5.0, 1.0),
        (min_max, 1.0, 2.0, 6.0, 0.0),
        (min_max, 7.0, 2.0, 6.0, 1.0),
        (min_max, 1.0, 2.0, 2.0, 0.0),
        (half_cosine, -1.5, 0.0, 0.0, 0.0),
        (half_cosine, 0.0, 0.0, 0.0, 0.5),
        (half_cosine, 1.5, 0.0, 0.0, 1.0),
        (log_count, 0.0, 0.0, 0.0, 0.0),
        (log_count, 3.0, 0.0, 0.0, log(4)),
    ],
)
def test_normalisation(rule, score: float, low: float, high: float, expected: float) -> None:
    assert rule(score, ScoreBounds(low=low, high=high)) == pytest.approx(expected)


@given(rankings, st.integers(0, 6), st.randoms())
def test_every_chunk_comes_once_in_an_order_of_scores_alone(given_: dict[str, Ranking], k: int, random) -> None:
    names = list(given_)
    random.shuffle(names)
    shuffled = {name: given_[name] for name in names}
    everything = sorted({hit.chunk.id for one in given_.values() for hit in one.hits})
    by_score, by_rank = weighted_sum(given_, PARTS), reciprocal_rank_fusion(given_)
    assert sorted(ids(by_score)) == sorted(ids(by_rank)) == everything
    assert (weighted_sum(shuffled, PARTS), reciprocal_rank_fusion(shuffled)) == (by_score, by_rank)
    assert weighted_sum(given_, PARTS, k=k) == by_score.top(k)
    assert reciprocal_rank_fusion(given_, top=k) == by_rank.top(k)
    more, less = ({**given_, "keyword": ranking(dict.fromkeys("abcdefgh", n))} for n in (2.0, 1.0))
    before, after = dict(scored(weighted_sum(less, PARTS))), dict(scored(weighted_sum(more, PARTS)))
    assert all(after[i] > before[i] for i in before)


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0.1, 30), min_size=1), st.floats(0.1, 50))
def test_the_unit_of_bm25_does_not_matter(raw: dict[str, float], unit: float) -> None:
    dense = ranking(dict.fromkeys(raw, 0.0))
    one, other = ({i: score * factor for i, score in raw.items()} for factor in (1.0, unit))
    plain, scaled = (weighted_sum({"dense": dense, "lexical": ranking(each)}, PARTS) for each in (one, other))
    assert dict(scored(plain)) == pytest.approx(dict(scored(scaled)))


names = st.lists(st.sampled_from("abcdefghij"), unique=True, max_size=10).map("".join)


@given(st.dictionaries(st.sampled_from("pqrs"), names, max_size=4), names)
def test_turns_are_fair_and_lose_nothing(shares: dict[str, str], general: str) -> None:
    hits = interleave({name: in_order(share) for name, share in shares.items()}, in_order(general)).hits
    assert [hit.score for hit in hits] == [1 / (place + 1) for place in range(len(hits))]
    ways = [(hit.chunk.id, way) for hit in hits for way in hit.provenance if way.route == "name"]
    assert all(shares[way.view].index(chunk_id) + 1 == way.rank for chunk_id, way in ways)
    found = "".join(hit.chunk.id for hit in hits)
    lists = [*shares.values(), general]
    assert sorted(found) == sorted(set("".join(lists)))
    turn = 3 if len(shares) == 1 else len(lists)  # a single share has two places of three
    for each in lists:  # after n full turns, the first n of every list are there
        for n in range(1, len(each) + 1):
            assert set(each[:n]) <= set(found[: n * turn])
    if len(shares) == 1:
        assert "".join(found).startswith(lists[0][:2])


def test_what_only_a_name_found_has_no_place_in_the_whole() -> None:
    ways = (Provenance(route="dense", rank=None, score=0.5), Provenance(route="lexical", rank=2, score=3.0))
    share = Ranking((Hit(chunk("a"), 1.0, ways),), Scale.NORMALIZED)
    (hit,) = interleave({"HX-200": share}, in_order("")).hits
    assert [way.rank for way in hit.provenance] == [None, None, 1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ScoreFusion(alpha=1.5), "alpha must be a number .*, got 1.5"),
        (lambda: ScoreFusion(beta=10**400), "beta must be a number"),
        (lambda: ScoreFusion(others={"dense": (1, by_maximum)}), r"others\['dense'\] must be a route that is not in"),
        (lambda: ScoreFusion(others={"mine": (0.3, 1)}), r"others\['mine'\] must be a weight and a function"),
        (lambda: ScoreFusion(others={"mine": (-1, by_maximum)}), r"others\['mine'\] must be a finite number >= 0"),
        (lambda: RankFusion(k=0), "k must be a number > 0 .*, got 0"),
        (lambda: RankFusion(weights={"dense": -1.0}), r"weights\['dense'\] must be a finite number >= 0, got -1.0"),
        (lambda: weighted_sum({"mine": A}, PARTS), r"routes must be among .* takes any route, got \['mine'\]"),
        (lambda: weighted_sum({"dense": ranking({"a": float("inf")})}, PARTS), r"scores must be finite, got \[inf\]"),
        (lambda: weighted_sum({"dense": A}, {"dense": (-1, by_maximum)}), "weight of dense must be a finite number"),
    ],
)
def test_errors_name_the_parameter(make, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()


def test_ranks_are_never_added_as_scores() -> None:
    ranks = ranking({"a": 1.0}, scale=Scale.RANK)
    with pytest.raises(ScaleError, match="ScoreFusion of route 'dense'"):
        fuse({"dense": ranks}, ScoreFusion(), k=1)
    bare = Ranking((Hit(chunk("a"), 3.0),), Scale.SIMILARITY)  # a route that says nothing of itself is named
    (way,) = fuse({"lexical": bare}, ScoreFusion(), k=1).hits[0].provenance
    assert way == Provenance(route="lexical", rank=1, score=3.0, share=1.0)

"""Rules that make one ranking of several views: the paper's numbers, laws of unions and fusions, attribution."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.model import Chunk, Degraded, Hit, ParameterError, Provenance, Ranking, Scale, Unknown
from catena.retrieval import ExactUnion, PaperQuota, ViewRankFusion, ViewRule, by_maximum, found_by, multi_view, quota
from catena.retrieval.view_search import PRINTED_QUOTAS, ViewScoreFusion

RULES = (PaperQuota(), ExactUnion(), ViewRankFusion(), ViewScoreFusion())


def chunk(name: str) -> Chunk:
    return Chunk(id=name, document_id="d", position=0, start=0, end=1, text="x")


def ranking(ids: str, scores: list[float] | None = None, route: str = "dense") -> Ranking:
    """Return a ranking of chunks named by single letters, with the scores n, n - 1, … where none are given."""
    scores = scores or [float(len(ids) - place) for place in range(len(ids))]
    hits = (
        Hit(chunk(name), score, (Provenance(route=route, rank=rank, score=score),))
        for rank, (name, score) in enumerate(zip(ids, scores, strict=True), start=1)
    )
    return Ranking(tuple(hits), Scale.SIMILARITY)


def ids(found: Ranking) -> str:
    return "".join(hit.chunk.id for hit in found.hits)


VIEWS = {"raw": ranking("abcd"), "keywords": ranking("bxca"), "summary": ranking("ebyz")}

# --- golden: the paper's numbers, and unions by hand ---


@pytest.mark.parametrize(
    ("k", "of_each_view"),
    [(1.5, (1,)), (3, (2,)), (5, (3,)), (10, (6, 7)), (1, (1,)), (2, (1,)), (4, (3,)), (6, (4,)), (20, (13,))],
)
def test_the_papers_quotas(k: float, of_each_view: tuple[int, ...]) -> None:
    assert quota(k) == of_each_view


def test_what_the_paper_prints_holds_what_is_taken() -> None:
    assert PRINTED_QUOTAS == {1.5: (1,), 3: (1, 2), 5: (3,), 10: (6, 7)}
    assert all(set(quota(k)) <= set(printed) for k, printed in PRINTED_QUOTAS.items())


@pytest.mark.parametrize(("k", "union"), [(1.5, "abe"), (3, "abex"), (5, "abexcy"), (10, "abexcydz"), (0, "")])
def test_the_papers_rule_is_the_union_of_the_first_of_each_view(k: float, union: str) -> None:
    found = multi_view(VIEWS, PaperQuota(), k)
    assert ids(found) == union
    assert [hit.score for hit in found.hits] == [1 / place for place in range(1, len(union) + 1)]
    assert found.scale is Scale.RANK


def test_the_papers_rule_is_the_default_one() -> None:
    assert multi_view(VIEWS) == multi_view(VIEWS, PaperQuota(), 3)


def test_of_six_or_seven_the_one_nearer_to_two_thirds_is_taken_and_both_can_be_asked() -> None:
    long = {"raw": ranking("abcdefghij")}
    assert ids(multi_view(long, PaperQuota(), 10)) == "abcdefg"
    assert [ids(multi_view(long, PaperQuota(per_view=n), 10)) for n in quota(10)] == ["abcdef", "abcdefg"]


@pytest.mark.parametrize(
    ("k", "union"), [(0, ""), (1, "a"), (2, "ab"), (4, "abex"), (7, "abexcyd"), (99, "abexcydz")]
)
def test_an_exact_union_stops_at_k(k: int, union: str) -> None:
    assert ids(multi_view(VIEWS, ExactUnion(), k)) == union


def test_fusion_by_rank_by_hand() -> None:
    found = multi_view(VIEWS, ViewRankFusion(weights={"summary": 2.0}, k=60), 3)
    assert ids(found) == "bea"
    b = 1 / 62 + 1 / 61 + 2 / 62
    assert [hit.score for hit in found.hits] == pytest.approx([b, 2 / 61, 1 / 61 + 1 / 64])
    assert found.scale is Scale.RANK


def test_fusion_by_score_normalises_each_view_by_itself() -> None:
    views = {"raw": ranking("abc", [30.0, 20.0, 10.0]), "summary": ranking("cad", [0.3, 0.2, 0.1])}
    found = multi_view(views, ViewScoreFusion(), 4)
    assert {hit.chunk.id: hit.score for hit in found.hits} == pytest.approx({"a": 1.5, "c": 1.0, "b": 0.5, "d": 0.0})
    assert found.scale is Scale.NORMALIZED
    by_best = multi_view(views, ViewScoreFusion(weights={"summary": 0.5}, normalise=by_maximum), 2)
    assert [(hit.chunk.id, hit.score) for hit in by_best.hits] == [
        ("a", pytest.approx(1 + 0.5 * 2 / 3)),
        ("c", pytest.approx(1 / 3 + 0.5)),
    ]


# --- laws ---

LETTERS = "abcdefgh"
some_views = st.dictionaries(
    st.sampled_from(["raw", "keywords", "summary", "questions"]),
    st.permutations(LETTERS).flatmap(
        lambda letters: st.lists(st.integers(-100, 100), min_size=0, max_size=len(letters), unique=True).map(
            lambda scores: ranking("".join(letters[: len(scores)]), sorted(map(float, scores), reverse=True))
        )
    ),
    min_size=1,
)
whole_k = st.integers(1, 15)


def seen(views: dict[str, Ranking]) -> set[str]:
    return {name for found in views.values() for name in ids(found)}


@given(some_views, st.one_of(whole_k, st.floats(0.1, 20)))
def test_the_union_is_bounded_by_its_quota(views: dict[str, Ranking], k: float) -> None:
    found = multi_view(views, PaperQuota(), k)
    most = max(quota(k))
    longest = max(len(of_view.hits) for of_view in views.values())
    assert min(*quota(k), longest) <= len(found.hits) <= len(views) * most
    firsts = {name for of_view in views.values() for name in ids(of_view)[:most]}
    assert set(ids(found)) <= firsts
    if len(quota(k)) == 1:
        assert set(ids(found)) == firsts


@given(some_views, whole_k, st.sampled_from(RULES[1:]))
def test_other_rules_give_exactly_k_chunks_or_all(views: dict[str, Ranking], k: int, rule: ViewRule) -> None:
    found = multi_view(views, rule, k)
    assert len(found.hits) == len(set(ids(found))) == min(k, len(seen(views)))
    assert set(ids(found)) <= seen(views)


@given(some_views, whole_k, st.sampled_from(RULES))
def test_a_shorter_result_begins_a_longer_one(views: dict[str, Ranking], k: int, rule: ViewRule) -> None:
    longer, shorter = multi_view(views, rule, k + 1), multi_view(views, rule, k)
    assert longer.hits[: len(shorter.hits)] == shorter.hits


@given(some_views, whole_k, st.sampled_from((PaperQuota(), ExactUnion())))
def test_a_view_listed_twice_changes_nothing(views: dict[str, Ranking], k: int, rule: ViewRule) -> None:
    name, again = next(iter(views.items()))
    assert ids(multi_view({**views, f"{name} again": again}, rule, k)) == ids(multi_view(views, rule, k))


@given(some_views, whole_k)
def test_the_order_of_the_views_changes_no_fusion_and_no_union_of_the_paper(
    views: dict[str, Ranking], k: int
) -> None:
    turned = dict(reversed(views.items()))
    for rule in (ViewRankFusion(), ViewScoreFusion()):
        assert multi_view(turned, rule, k) == multi_view(views, rule, k)
    one, other = (multi_view(order, PaperQuota(), k) for order in (views, turned))
    assert {hit.chunk.id: hit.provenance for hit in one.hits} == {hit.chunk.id: hit.provenance for hit in other.hits}


@given(some_views, whole_k, st.sampled_from(RULES))
def test_one_view_keeps_its_order(views: dict[str, Ranking], k: int, rule: ViewRule) -> None:
    name, alone = next(iter(views.items()))
    most = max(quota(k)) if isinstance(rule, PaperQuota) else k
    assert ids(multi_view({name: alone}, rule, k)) == ids(alone)[:most]


@given(some_views, whole_k, st.sampled_from((ViewRankFusion, ViewScoreFusion)))
def test_a_weight_of_0_silences_a_view(views: dict[str, Ranking], k: int, rule: type[ViewRankFusion]) -> None:
    silenced = multi_view({**views, "loud": ranking("zyxwv")}, rule(weights={"loud": 0}), k)
    without = multi_view(views, rule(), k)
    assert [(hit.chunk.id, hit.score) for hit in silenced.hits] == [(hit.chunk.id, hit.score) for hit in without.hits]


@given(some_views, whole_k, st.sampled_from(RULES))
def test_every_hit_says_which_views_ranked_it_and_where(views: dict[str, Ranking], k: int, rule: ViewRule) -> None:
    for hit in multi_view(views, rule, k).hits:
        ranks = {
            name: ids(found).index(hit.chunk.id) + 1 for name, found in views.items() if hit.chunk.id in ids(found)
        }
        assert found_by(hit) == ranks
        assert list(found_by(hit).values()) == sorted(ranks.values())
        for way in hit.provenance:
            assert (way.route, way.score) == ("dense", views[way.view].hits[ranks[way.view] - 1].score)


# --- attribution and reports ---


def test_a_view_of_several_routes_says_so_and_keeps_their_ranks() -> None:
    ways = (Provenance(route="dense", rank=2, score=0.5), Provenance(route="lexical", rank=1, score=7.0))
    fused = Ranking((Hit(chunk("a"), 0.8, ways),), Scale.NORMALIZED)
    (hit,) = multi_view({"summary": fused}, ExactUnion(), 1).hits
    assert hit.provenance == (
        Provenance(route="dense+lexical", rank=1, score=0.8, view="summary"),
        Provenance(route="dense", rank=2, score=0.5, view="summary"),
        Provenance(route="lexical", rank=1, score=7.0, view="summary"),
    )
    assert found_by(hit) == {"summary": 1}


def test_a_retriever_that_says_nothing_of_itself_is_unnamed() -> None:
    bare = Ranking((Hit(chunk("a"), 0.8),), Scale.SIMILARITY)
    (hit,) = multi_view({"summary": bare}, ExactUnion(), 1).hits
    assert hit.provenance == (Provenance(route="unnamed", rank=1, score=0.8, view="summary"),)


def test_a_chunk_that_a_retriever_gives_twice_counts_where_it_stands_first() -> None:
    doubled = ranking("aab", [3.0, 2.0, 1.0])
    found = multi_view({"raw": doubled}, ExactUnion(), 2)
    assert ids(found) == "ab"
    assert [found_by(hit) for hit in found.hits] == [{"raw": 1}, {"raw": 2}]


def test_a_chunk_that_views_know_differently_does_not_depend_on_their_order() -> None:
    bare = replace(chunk("a"), text="y")
    views = {"summary": Ranking((Hit(bare, 1.0),), Scale.SIMILARITY), "raw": ranking("a")}
    for order in (views, dict(reversed(views.items()))):
        (hit,) = multi_view(order, ExactUnion(), 1).hits
        assert hit.chunk.text == "x"


def test_what_views_report_is_told_once() -> None:
    gone, unknown = Degraded("route dense", "gone"), Unknown("X9")
    one = Ranking((), Scale.SIMILARITY, (gone,), (unknown,))
    found = multi_view({"raw": one, "summary": one}, ExactUnion(), 1)
    assert (found.degraded, found.unknown) == ((gone,), (unknown,))


def test_a_rule_of_ones_own_is_a_rule() -> None:
    @dataclass(frozen=True)
    class Last:
        scale: Scale = Scale.RANK

        def choose(self, rankings, k):
            return [(of_view.hits[-1].chunk.id, 1.0) for of_view in rankings.values()]

    found = multi_view(VIEWS, Last(), 1)
    assert ids(found) == "daz"
    assert found_by(found.hits[1]) == {"raw": 1, "keywords": 4}


# --- errors ---


@pytest.mark.parametrize("k", [-1, math.nan, math.inf, True, "3", None])
def test_a_k_that_is_no_number_of_chunks_is_refused(k: object) -> None:
    with pytest.raises(ParameterError, match="k must be"):
        multi_view(VIEWS, PaperQuota(), k)  # type: ignore[arg-type]


@pytest.mark.parametrize("k", [0, -2, math.nan, math.inf, True, "3"])
def test_no_quota_for_what_is_no_k(k: object) -> None:
    with pytest.raises(ParameterError, match="k must be a finite number > 0"):
        quota(k)  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", RULES[1:])
def test_only_the_papers_rule_takes_parts_of_a_chunk(rule: ViewRule) -> None:
    with pytest.raises(ParameterError, match="only PaperQuota"):
        multi_view(VIEWS, rule, 1.5)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: PaperQuota(per_view=0), "per_view"),
        (lambda: PaperQuota(per_view=1.5), "per_view"),  # type: ignore[arg-type]
        (lambda: PaperQuota(per_view=True), "per_view"),
        (lambda: ViewRankFusion(k=0), "k must be"),
        (lambda: ViewRankFusion(weights={"raw": -1}), "weights"),
        (lambda: ViewScoreFusion(weights={"raw": math.inf}), "weights"),
        (lambda: ViewScoreFusion(weights=[1.0]), "weights"),  # type: ignore[arg-type]
        (lambda: multi_view(VIEWS, ViewRankFusion(weights={"sumary": 1}), 3), "weights of views.*raw.*sumary"),
        (lambda: multi_view(VIEWS, ViewScoreFusion(weights=dict.fromkeys(VIEWS, 0)), 3), "above 0"),
        (lambda: multi_view({}, ExactUnion(), 3), "rankings"),
        (lambda: multi_view({"raw": [1]}, ExactUnion(), 3), "rankings"),  # type: ignore[dict-item]
        (lambda: multi_view(VIEWS, PaperQuota, 3), "rule"),  # type: ignore[arg-type]
        (lambda: multi_view(VIEWS, "rrf", 3), "rule"),  # type: ignore[arg-type]
        (lambda: multi_view({"raw": ranking("ab", [math.inf, 1.0])}, ViewScoreFusion(), 1), "finite"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(make, what: str) -> None:
    with pytest.raises(ParameterError, match=what):
        make()

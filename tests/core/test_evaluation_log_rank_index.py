"""The Log-Rank Index: published and derived numbers, its laws, and what it refuses."""

from __future__ import annotations

import itertools
import math
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk

from catena.evaluation import log_rank_index, mean_log_rank_index
from catena.evaluation.log_rank_measure import log_rank_score
from catena.model import CatenaError, EvaluationError, Hit, Ranking, Scale

GAMMAS = (1e-6, 0.01, 1.0, 10.0, 1000.0)
gammas = st.floats(1e-6, 1e6)


def names(count: int) -> list[str]:
    return [f"p{index:05d}" for index in range(count)]


def at_ranks(*ranks: int, n: int) -> tuple[list[str], list[str]]:
    """Return (relevant ids, full ranking of n ids)."""
    ranked = names(n)
    return [ranked[rank - 1] for rank in ranks], ranked


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[str], list[str], int]:
    """Return (relevant ids, full ranking, n)."""
    n = draw(st.integers(2, 60))
    ranks = draw(st.lists(st.integers(1, n), min_size=1, max_size=n, unique=True))
    return *at_ranks(*ranks, n=n), n


@st.composite
def scored_cases(draw: st.DrawFn) -> tuple[set[str], dict[str, float], int]:
    """Return (relevant ids, scores with many ties, n); some relevant pieces may be unretrieved."""
    scores = {name: draw(st.sampled_from([0.0, 0.5, 1.0])) for name in names(draw(st.integers(1, 12)))}
    lost = draw(st.integers(0, 3))
    relevant = draw(st.sets(st.sampled_from(sorted(scores)))) | {f"lost{index}" for index in range(lost)}
    return relevant or {"p00000"}, scores, len(scores) + lost + draw(st.integers(1, 20))


def recall_area(relevant: list[str], ranked: list[str], n: int, gamma: float) -> float:
    """The oracle: sum over k < n of w_k recall@k, w_k = [ln(1+gk) - ln(1+g(k-1))] / ln(1+g(n-1))."""
    scale = math.log1p(gamma * (n - 1))
    found, area = 0, 0.0
    for k in range(1, n):
        found += ranked[k - 1] in relevant
        area += (math.log1p(gamma * k) - math.log1p(gamma * (k - 1))) / scale * found / len(relevant)
    return area


# golden numbers: the values of the formula to three digits, computed apart from this code


IN_MORE = {20: 0.231, 100: 0.5, 1_000: 0.667, 10_000: 0.75, 100_000: 0.8}  # rank 10 by the number of pieces


@pytest.mark.parametrize(
    ("n", "gamma", "scores"),
    [
        (1000, 1, {1: 1.0, 2: 0.900, 10: 0.667, 100: 0.333, 1000: 0.0}),
        (1000, 10, {1: 1.0, 2: 0.740, 10: 0.510, 100: 0.251, 1000: 0.0}),
        (1000, 1, {1.41: 0.95, 1.74: 0.92, 1.23: 0.97, 1.15: 0.98}),  # geometric mean ranks behind the paper's values
        *((n, 1, {10: score}) for n, score in IN_MORE.items()),
    ],
)
def test_the_score_of_a_rank(n, gamma, scores):
    assert {rank: log_rank_score(rank, n=n, gamma=gamma) for rank in scores} == pytest.approx(scores, abs=5e-4)


@pytest.mark.parametrize(("m", "ideal"), [(1, 1.0), (2, 0.950), (5, 0.861), (10, 0.781), (20, 0.694)])
def test_ceiling_falls_with_the_number_of_relevant_pieces(m, ideal):
    index = log_rank_index(names(m), names(1000), n=1000)
    assert index.ideal == index.value == pytest.approx(ideal, abs=5e-4)
    assert index.relative == 1.0


@pytest.mark.parametrize(
    ("n", "gamma", "chance"), [(1000, 1, 0.144), (10_000, 1, 0.109), (1000, 0.01, 0.317), (1000, 100, 0.087)]
)
def test_value_of_a_random_ranking(n, gamma, chance):
    all_tied = dict.fromkeys(names(n), 0.0)
    index = log_rank_index(["p00007"], all_tied, n=n, gamma=gamma, ties="expected")
    assert index.value == pytest.approx(chance, abs=5e-4)


@pytest.mark.parametrize(("policy", "expected"), [("last", 0.420), ("expected", 0.489), ("next", 0.747)])
def test_policies_for_an_unretrieved_piece(policy, expected):
    index = log_rank_index(["p00002", "lost"], names(10), n=1000, unretrieved=policy)
    assert index.value == pytest.approx(expected, abs=5e-4)
    assert (index.unretrieved, index.n_unretrieved, index.n_relevant) == (policy, 1, 2)


def test_result_is_read_with_gamma_n_and_policies():
    index = log_rank_index(["p00002", "lost"], names(10), n=1000)
    assert str(index) == (
        "LRI 0.420; geometric mean rank 54.77, 0.443 of the ideal 0.950; gamma 1, N 1000, ties mid-rank (0), "
        "unretrieved last (1 of 2)"
    )


# laws


@pytest.mark.parametrize(("n", "gamma"), list(itertools.product((2, 3, 10, 100, 10_000), GAMMAS)))
def test_score_is_1_at_the_top_0_at_the_end_and_falls_strictly(n, gamma):
    ranks = sorted({*range(1, min(n, 50) + 1), n // 2 or 1, n - 1, n})
    scores = [log_rank_score(rank, n=n, gamma=gamma) for rank in ranks]
    assert scores[0] == 1.0
    assert scores[-1] == 0.0
    assert all(earlier > later for earlier, later in itertools.pairwise(scores))


@pytest.mark.parametrize(("n", "rank"), [(3, 2), (10, 2), (10, 9), (1000, 2), (1000, 500), (10_000, 17)])
def test_score_falls_with_gamma_inside_the_ranking(n, rank):
    scores = [log_rank_score(rank, n=n, gamma=gamma) for gamma in (1e-3, 0.1, 1, 10, 1e3, 1e6, 1e12)]
    assert all(earlier > later for earlier, later in itertools.pairwise(scores))


@pytest.mark.parametrize("gamma", [1e-9, 1e-17, 1e-40, 1e-300, 5e-324])
def test_tiny_gamma_is_the_linear_score(gamma):
    assert log_rank_score(10, n=1000, gamma=gamma) == pytest.approx(
        1 - 9 / 999, abs=1e-6
    )  # 0.991, where log gives 1.0
    middle = log_rank_index(["a"], {"a": 1.0, "b": 1.0}, n=11, gamma=gamma)
    assert middle.value == pytest.approx(1 - 0.5 / 10, abs=1e-6)


@pytest.mark.parametrize("gamma", [1e15, 1e18, 1.0000001e18, 1e100, 1.7e308])
def test_huge_gamma_is_finite_and_continuous(gamma):
    expected = 1 - (math.log(gamma) + math.log(9)) / (math.log(gamma) + math.log(999))
    assert log_rank_score(10, n=1000, gamma=gamma) == pytest.approx(expected, abs=1e-12)
    tied = log_rank_index(["p00001"], dict.fromkeys(names(20), 1.0), n=1000, gamma=gamma, ties="expected")
    assert tied.value == pytest.approx(fmean(log_rank_score(r, n=1000, gamma=gamma) for r in range(1, 21)), abs=1e-12)


@given(cases(), gammas)
def test_index_is_the_area_under_recall_over_log_rank_and_its_ideal_that_of_the_best_order(case, gamma):
    relevant, ranked, n = case
    index = log_rank_index(relevant, ranked, n=n, gamma=gamma)
    best = sorted(ranked, key=lambda name: name not in relevant)
    areas = [recall_area(relevant, order, n, gamma) for order in (ranked, best)]
    assert [index.value, index.ideal] == pytest.approx(areas, abs=1e-12)
    assert 0 <= index.value <= index.ideal + 1e-12 <= 1 + 1e-12


@given(scored_cases(), st.sampled_from(["mid-rank", "expected"]), st.sampled_from(["last", "expected", "next"]))
def test_geometric_mean_rank_is_the_index_at_gamma_1(case, ties, policy):
    relevant, scores, n = case
    index = log_rank_index(relevant, scores, n=n, ties=ties, unretrieved=policy)
    assert index.value == pytest.approx(1 - math.log(index.geometric_mean_rank) / math.log(n), abs=1e-12)
    other = log_rank_index(relevant, scores, n=n, gamma=7.0, ties=ties, unretrieved=policy)
    assert other.geometric_mean_rank == index.geometric_mean_rank


@given(scored_cases(), gammas)
def test_expected_ties_are_the_mean_over_all_orders(case, gamma):
    relevant, scores, n = case
    index = log_rank_index(relevant, scores, n=n, gamma=gamma, ties="expected")
    tied = [sorted(name for name in scores if scores[name] == level) for level in (1.0, 0.5, 0.0)]
    values = []
    # every piece visits every rank of its tie equally often
    for turn in range(math.lcm(*map(len, filter(None, tied)))):
        order = [group[(place + turn) % len(group)] for group in tied for place in range(len(group))]
        values.append(log_rank_index(relevant, order, n=n, gamma=gamma).value or 0.0)
    assert index.value == pytest.approx(fmean(values), abs=1e-12)


@given(scored_cases(), gammas)
def test_policies_give_no_less_than_those_below_them(case, gamma):
    relevant, scores, n = case
    last, expected, following = (
        log_rank_index(relevant, scores, n=n, gamma=gamma, unretrieved=p) for p in ("last", "expected", "next")
    )
    ties = log_rank_index(relevant, scores, n=n, gamma=gamma, ties="expected")
    assert (ties.pessimistic, ties.optimistic) == (last.pessimistic, last.optimistic)
    for rising in (
        [last.value, expected.value, following.value],
        [last.value, ties.value],  # S is convex in the rank: a mid-rank gives no more
        [ties.pessimistic, ties.value, ties.optimistic],
    ):
        assert all(later >= earlier - 1e-12 for earlier, later in itertools.pairwise(rising))


@pytest.mark.parametrize("relevant", ["c", "cd"])
def test_ties_by_hand(relevant):
    scores = {"a": 2.0, "b": 1.0, "c": 1.0, "d": 1.0, "e": 0.0}  # b, c, d share the ranks 2, 3, 4
    s = {rank: log_rank_score(rank, n=5) for rank in range(1, 6)}
    middle = log_rank_index(list(relevant), scores, n=5)
    expected = log_rank_index(list(relevant), scores, n=5, ties="expected")
    assert middle.value == pytest.approx(s[3])
    assert expected.value == pytest.approx((s[2] + s[3] + s[4]) / 3)
    bounds = (s[4], s[2]) if relevant == "c" else ((s[3] + s[4]) / 2, (s[2] + s[3]) / 2)
    assert (middle.pessimistic, middle.optimistic) == pytest.approx(bounds)
    assert (middle.n_tied, middle.ties, expected.ties) == (len(relevant), "mid-rank", "expected")


def test_long_tail_is_summed_in_blocks():
    n = 3_000_000
    index = log_rank_index(["lost"], ["a"], n=n, unretrieved="expected")
    exact = (math.lgamma(n + 1) - math.lgamma(2)) / (n - 1)  # sum of ln r over r = 2 … n, by Stirling
    assert index.value == pytest.approx(1 - exact / math.log(n), abs=1e-12)


# edges: 120 and more inputs of class M1


@pytest.mark.parametrize(
    ("gamma", "policy", "ties"),
    list(itertools.product(GAMMAS, ("last", "expected", "next"), ("mid-rank", "expected"))),
)
def test_one_piece_scores_1_by_definition(gamma, policy, ties):
    for ranked in (["a"], {"a": 0.0}, []):
        index = log_rank_index(["a"], ranked, n=1, gamma=gamma, unretrieved=policy, ties=ties)
        assert (index.value, index.ideal, index.relative, index.geometric_mean_rank) == (1.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("relevant", "ranked", "n"), [([], [], 0), (["a"], [], 0), ([], ["a"], 1), ([], ["a", "b"], 9), (set(), {}, 5)]
)
@pytest.mark.parametrize("gamma", GAMMAS)
def test_nothing_ranked_or_nothing_relevant_is_undefined_not_0(relevant, ranked, n, gamma):
    index = log_rank_index(relevant, ranked, n=n, gamma=gamma)
    assert index.value is index.ideal is index.relative is index.geometric_mean_rank is index.optimistic is None
    assert str(index).startswith("LRI undefined; gamma ")


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("m", [1, 2, 10])
def test_nothing_retrieved_is_0_by_default(gamma, m):
    index = log_rank_index(names(m), [], n=10, gamma=gamma)
    assert (index.value, index.n_unretrieved, index.relative) == (0.0, m, 0.0)


def worst_first() -> Ranking:
    return Ranking((Hit(chunk("a"), 0.1), Hit(chunk("b"), 0.9)), Scale.SIMILARITY)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        *(
            ({"gamma": gamma}, "gamma must be a finite number > 0")
            for gamma in (0, -0.0, -1, -1e-300, math.nan, math.inf, -math.inf, 10**400, "1", None, 1j)
        ),
        *(
            ({"n": n}, "n must be an integer >= 0 and <= 100,000,000")
            for n in (-1, 2.0, True, None, "5", math.nan, 10**9, 10**400)
        ),
        *(
            ({"relevant": relevant, "ranked": ranked, "n": n}, f"n = {n} is too small")
            for relevant, ranked, n in (("a", "ab", 1), ("a", "a", 0), ("x", "ab", 2), ("abc", "", 2), ("ax", "a", 1))
        ),
        *(({"ties": ties}, "ties must be one of") for ties in ("random", None)),
        *(({"unretrieved": policy}, "unretrieved must be one of") for policy in ("zero", "k+1")),
        *(({"ranked": {"a": score}}, "every score must be a number") for score in (math.nan, "high", None, 10**400)),
        ({"ranked": "aba"}, "piece 'a' is ranked twice"),
        ({"ranked": (1, 2)}, "id 1 is of type int, not str"),
        ({"ranked": {1: 0.5}}, "id 1 is of type int, not str"),
        ({"ranked": worst_first()}, r"not best first\. Try: Ranking\.of"),
        ({"ranked": {"a", "b"}}, "expected a Ranking, scores by id, or a list of ids, best first; got set"),
        ({"ranked": 7}, "expected a Ranking, scores by id, or a list of ids"),
        ({"relevant": (1,)}, "relevant ids: id 1 is of type int, not str"),
        ({"relevant": None}, "expected several ids, got None"),
    ],
)
def test_what_has_no_index_is_refused_by_name(given_, message):
    whole = {"relevant": "a", "ranked": "", "n": 100, **given_}
    pieces = (whole.pop("relevant"), whole.pop("ranked"))
    relevant, ranked = (list(each) if isinstance(each, str | tuple) else each for each in pieces)
    with pytest.raises(CatenaError, match=message):
        log_rank_index(relevant, ranked, **whole)


@pytest.mark.parametrize("rank", [0, -1, 0.99, 11, 10.01, math.nan, math.inf])
def test_rank_outside_the_ranking(rank):
    with pytest.raises(EvaluationError, match=r"outside 1 … 10\. Try: n ="):
        log_rank_score(rank, n=10)


def test_a_text_is_no_list_of_ids():
    for relevant, ranked in (("abc", ["a"]), (["a"], "abc")):
        with pytest.raises(EvaluationError, match="expected several ids, got 'abc'"):
            log_rank_index(relevant, ranked, n=100)


# the mean over queries


QRELS = {"q1": {"a": 1, "b": 0}, "q2": {"b": 2}, "q3": {"a": 1}, "empty": {"a": 0}, "none": {}}
RUN = {"q1": ["a", "b", "c"], "q2": ["a", "b", "c"], "empty": ["a"], "extra": ["a"]}


def test_mean_counts_missing_queries_0_and_leaves_undefined_ones_out():
    mean = mean_log_rank_index(QRELS, RUN, n=3)
    assert mean.value == pytest.approx((1.0 + log_rank_score(2, n=3) + 0.0) / 3)
    assert mean.queries.defined == ("q1", "q2", "q3")
    assert mean.queries.undefined == ("empty", "none")
    assert mean.queries.missing == ("q3",)
    assert mean.queries.unjudged == ("extra",)
    assert mean.per_query["q2"] == log_rank_index(["b"], RUN["q2"], n=3)
    assert (mean.n_relevant, mean.n_unretrieved, mean.n_tied) == (3, 1, 0)
    assert "3 queries, 1 of them missing" in str(mean)
    assert "left out: 2 without a relevant piece, 1 unjudged" in str(mean)


@pytest.mark.parametrize("policy", ["last", "expected", "next"])
@pytest.mark.parametrize("n", [1, 2, 50])
def test_missing_query_is_0_under_every_policy(policy, n):
    mean = mean_log_rank_index({"q": {"a": 1}}, {}, n=n, unretrieved=policy)
    assert (mean.value, mean.per_query["q"].unretrieved, mean.per_query["q"].n_unretrieved) == (0.0, policy, 1)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=8))
def test_mean_keeps_the_geometric_identity(ranks):
    qrels = {f"q{index}": {names(20)[rank - 1]: 1} for index, rank in enumerate(ranks)}
    mean = mean_log_rank_index(qrels, dict.fromkeys(qrels, names(20)) | {"q0": names(20)[:1]}, n=20)
    assert mean.value == pytest.approx(1 - math.log(mean.geometric_mean_rank) / math.log(20), abs=1e-12)
    assert mean.value == pytest.approx(fmean(index.value or 0.0 for index in mean.per_query.values()), abs=1e-12)


@pytest.mark.parametrize("qrels", [{}, {"q": {}}, {"q": {"a": 0}}, {"q": {"a": -1}}])
def test_mean_without_a_defined_query_or_a_piece_is_undefined(qrels):
    mean = mean_log_rank_index(qrels, {"q": ["a"]} if qrels else {}, n=3)
    assert mean.value is mean.geometric_mean_rank is None
    assert mean.per_query == {}
    assert mean_log_rank_index({"q": {"a": 1}}, {}, n=0).value is None

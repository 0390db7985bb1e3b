"""Paired comparison: counted by hand, scipy's results as reference, laws of symmetry, and what it refuses."""

from __future__ import annotations

import itertools
import math
import random
from statistics import fmean, stdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.evaluation import bootstrap_interval, compare, holm, mean_score, randomisation_p
from catena.model import EvaluationError, ParameterError

small = st.lists(st.sampled_from([-0.5, -0.25, 0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=8)


def noisy(n: int, shift: float, seed: int = 3) -> list[float]:
    rng = random.Random(seed)
    return [rng.gauss(shift, 0.25) for _ in range(n)]


def test_exact_p_by_hand():
    assert randomisation_p([1.0, 1.0, 1.0]) == 2 / 8  # only +++ and --- are as far from 0
    assert randomisation_p([1.0, -1.0]) == 1.0
    assert randomisation_p([0.0]) == 1.0
    assert randomisation_p([0.1] * 20) == 2 / 2**20


@given(small)
def test_exact_p_counts_all_sign_patterns(differences):
    patterns = list(itertools.product((1, -1), repeat=len(differences)))
    far = sum(
        abs(sum(s * d for s, d in zip(signs, differences, strict=True))) >= abs(sum(differences))
        for signs in patterns
    )
    assert randomisation_p(differences) == far / len(patterns)


def test_sampled_p_is_that_of_scipy():
    # scipy 1.17.1, stats.permutation_test(permutation_type="samples", n_resamples=400_000)
    assert randomisation_p(noisy(40, 0.15), rounds=20_000) == pytest.approx(0.0183, abs=0.005)


def test_sampled_p_is_never_0():
    assert randomisation_p([1.0] * 50, rounds=999) == 1 / 1000


def test_interval_is_that_of_scipy():
    skewed = [value**4 for value in noisy(12, 0.3)]
    # scipy 1.17.1, stats.bootstrap(method="BCa", n_resamples=10_000, rng=default_rng(0)): the very same samples
    theirs = pytest.approx((0.028313436580630034, 0.1628464035381394), rel=1e-9)
    assert bootstrap_interval(skewed) == mean_score(skewed).interval == theirs
    a = dict(zip("abcdefghijkl", skewed, strict=True))
    assert compare(a, dict.fromkeys(a, 0.0)).interval == theirs


@pytest.mark.parametrize(
    ("ones", "n", "interval"), [(6, 20, (3 / 20, 11 / 20)), (3, 30, (1 / 30, 8 / 30)), (20, 40, (14 / 40, 26 / 40))]
)
def test_means_equal_to_the_mean_count_half(ones, n, interval):
    """Of values that are 0 or 1 many samples have the very mean: scipy 1.17.1's BCa, 100,000 samples."""
    assert bootstrap_interval([1.0] * ones + [0.0] * (n - ones), rounds=50_000) == pytest.approx(interval)


def test_samples_that_all_lie_on_one_side_have_no_bias_to_correct():
    assert bootstrap_interval([0.0] * 9 + [1.0], rounds=1) == (0.0, 0.0)
    assert bootstrap_interval([1.0] * 9 + [0.0], rounds=1) == (1.0, 1.0)


@settings(max_examples=30)
@given(small)
def test_swapping_the_systems_mirrors_the_comparison(differences):
    a = {f"q{index}": value for index, value in enumerate(differences)}
    b = dict.fromkeys(a, 0.0)
    one, other = compare(a, b, rounds=200), compare(b, a, rounds=200)
    assert (one.p, one.difference, one.wins, one.draws) == (other.p, -other.difference, other.losses, other.draws)
    assert one.interval[0] <= one.interval[1]


def test_comparison_by_hand():
    a = {"q1": 0.5, "q2": 0.75, "q3": 1.0, "q4": 0.0}
    b = {"q4": 0.25, "q3": 0.5, "q2": 0.75, "q1": 0.0}
    result = compare(a, b)
    differences = [0.5, 0.0, 0.5, -0.25]
    assert result.difference == fmean(differences)
    assert result.effect == pytest.approx(fmean(differences) / stdev(differences))
    assert (result.n, result.wins, result.draws, result.losses, result.exact) == (4, 2, 1, 1, True)
    assert result == compare(dict(reversed(a.items())), b)
    assert str(result).startswith("+0.188 [-0.125, +0.500], p 0.5000, 2 wins, 1 draws, 1 losses (n = 4)")
    many = {f"q{number}": 1.0 for number in range(21)}
    assert compare(many, dict.fromkeys(many, 0.0)).exact is False
    del many["q20"]
    assert compare(many, dict.fromkeys(many, 0.0)).exact is True


@pytest.mark.parametrize("value", [0.0, 0.3])
@pytest.mark.parametrize("n", [1, 5, 30])
def test_differences_that_do_not_vary(value, n):
    a = {f"q{index}": value for index in range(n)}
    result = compare(a, dict.fromkeys(a, 0.0), rounds=100)
    assert result.effect is None
    assert result.interval == (pytest.approx(value), pytest.approx(value))


def test_holm_by_hand():
    adjusted = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert adjusted == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})
    assert holm({}) == {}


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=6))
def test_holm_keeps_the_order_and_lies_between_p_and_bonferroni(p_values):
    adjusted = holm(p_values)
    assert list(adjusted) == list(p_values)
    for name, p in p_values.items():
        assert p <= adjusted[name] <= min(1.0, len(p_values) * max(q for q in p_values.values() if q <= p))
        assert all(adjusted[name] <= adjusted[other] for other, q in p_values.items() if p < q)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ({"q1": 1.0}, {"q2": 1.0}, "different queries, e.g. 'q1'"),
        ({"q1": 1.0, "q2": 0.0}, {"q1": 1.0}, "different queries, e.g. 'q2'"),
        ({}, {}, "at least one query"),
        ({"q": math.nan}, {"q": 1.0}, "a finite number for each"),
        ({"q": math.inf}, {"q": 1.0}, "a finite number for each"),
        ({1: 1.0}, {1: 1.0}, "queries of a: id 1 is of type int"),
    ],
)
def test_values_that_cannot_be_compared(a, b, message):
    with pytest.raises(EvaluationError, match=message):
        compare(a, b)


def test_parameters_outside_their_domains():
    with pytest.raises(ParameterError, match="rounds must be an integer >= 1, got 0"):
        randomisation_p([1.0], rounds=0)
    with pytest.raises(ParameterError, match=r"level must be a number > 0 and < 1, got 1"):
        bootstrap_interval([1.0], level=1)
    with pytest.raises(EvaluationError, match=r"p of 'a' must be in \[0, 1\], got 1.1"):
        holm({"a": 1.1})

"""Calibration rules: the published transform to 1e-12, closed forms, and what every rule keeps."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from math import asin, pi, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.model import ParameterError
from catena.segments import (
    COHERE,
    VOYAGE,
    BetaCalibration,
    BetaCDF,
    Calibration,
    Composed,
    Constant,
    Identity,
    Linear,
    Logistic,
    trigamma,
)
from catena.segments.calibration import incomplete_beta
from catena.segments.fitting import digamma
from conftest import needs_data

RULES: tuple[Calibration, ...] = (
    Identity(),
    Constant(0.8),
    COHERE,
    VOYAGE,
    BetaCDF(12.5, 0.03),
    BetaCalibration(0.7, 1.3, -2.0),
    BetaCalibration(0.0, 0.0, 0.4),
    Logistic(),
    Logistic(3.0, -1.0),
    Linear(-1.0, 1.0),
    Composed(Logistic(), COHERE),
    Composed(Linear(-1.0, 1.0), BetaCalibration(2.0, 0.0, -1.0)),
)
parameters = st.floats(0.05, 50.0)
unit = st.floats(0.0, 1.0)


@pytest.mark.parametrize("preset", [COHERE, VOYAGE], ids=["cohere", "voyage"])
def test_the_presets_agree_with_the_published_transform(preset: BetaCDF) -> None:
    oracle = json.loads(needs_data("segments_oracle.json").read_text(encoding="utf-8"))["beta_transform"]
    same = next(
        case for case in (oracle["cohere"], oracle["voyage"]) if (case["a"], case["b"]) == (preset.a, preset.b)
    )
    grid = np.asarray(same["grid"])
    assert np.abs(preset(grid[:, 0]) - grid[:, 1]).max() < 1e-12
    outside = np.asarray(oracle["out_of_range"])
    assert preset(outside[:, 0]).tolist() == outside[:, 1].tolist()


@pytest.mark.parametrize(
    ("preset", "expected"),
    [(COHERE, [0.094, 0.240, 0.500, 0.760]), (VOYAGE, [0.141, 0.435, 0.861, 0.994])],
    ids=["cohere", "voyage"],
)
def test_the_presets_at_four_scores(preset: BetaCDF, expected: list[float]) -> None:
    assert preset([0.01, 0.1, 0.5, 0.9]) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(
    ("a", "b", "closed_form"),
    [
        (1.0, 1.0, lambda x: x),
        (0.5, 0.5, lambda x: 2.0 / pi * asin(sqrt(x))),  # the arcsine law
        (3.0, 1.0, lambda x: x**3),
        (1.0, 4.0, lambda x: 1.0 - (1.0 - x) ** 4),
        (2.0, 2.0, lambda x: 3.0 * x**2 - 2.0 * x**3),
    ],
    ids=["identity", "arcsine", "power", "mirrored_power", "smoothstep"],
)
def test_the_incomplete_beta_function_has_its_closed_forms(
    a: float, b: float, closed_form: Callable[[float], float]
) -> None:
    grid = np.linspace(0.0, 1.0, 1_001)
    expected = np.asarray([closed_form(x) for x in grid])
    assert np.abs(incomplete_beta(grid, a, b) - expected).max() < 1e-13


@given(unit, parameters, parameters)
def test_the_incomplete_beta_function_is_symmetric(x: float, a: float, b: float) -> None:
    whole = np.asarray([x])
    mirrored = 1.0 - whole
    if 1.0 - mirrored[0] == x:  # 1 - x is exact, so the law is about the function and not about the subtraction
        assert incomplete_beta(whole, a, b)[0] == pytest.approx(1.0 - incomplete_beta(mirrored, b, a)[0], abs=1e-12)


def test_the_incomplete_beta_function_holds_at_the_ends_of_its_domain() -> None:
    ends = np.asarray([0.0, 5e-324, 1e-300, 1.0 - 2.0**-53, 1.0])
    for a, b in ((1e-6, 1e6), (1e6, 1e-6), (1e6, 1e6), (1e-6, 1e-6)):
        values = incomplete_beta(ends, a, b)
        assert np.all((values >= 0.0) & (values <= 1.0))
        assert values[0] == 0.0
        assert values[-1] == 1.0
    assert incomplete_beta(np.asarray([0.5]), 1e6, 1e6)[0] == pytest.approx(0.5, abs=1e-8)


def test_digamma_and_trigamma_at_known_points() -> None:
    euler = 0.5772156649015329
    assert digamma(1.0) == pytest.approx(-euler, abs=1e-14)
    assert digamma(0.5) == pytest.approx(-euler - 2.0 * np.log(2.0), abs=1e-14)
    assert trigamma(1.0) == pytest.approx(pi**2 / 6.0, rel=1e-14)
    assert trigamma(0.5) == pytest.approx(pi**2 / 2.0, rel=1e-14)


@given(st.lists(st.floats(-50.0, 50.0) | unit, max_size=30), st.sampled_from(RULES))
def test_every_rule_gives_probabilities_in_the_order_of_the_scores(scores: list[float], rule: Calibration) -> None:
    ordered = np.sort(np.asarray(scores, dtype=np.float64))
    found = rule(ordered)
    assert found.shape == ordered.shape
    assert np.all((found >= 0.0) & (found <= 1.0))
    assert np.all(np.diff(found) >= -1e-12)  # what rounding may do; `reranking` irons it out


def test_rules_by_hand() -> None:
    grid = np.linspace(0.001, 0.999, 99)
    assert BetaCalibration(1.0, 1.0, 0.0)(grid) == pytest.approx(grid, abs=1e-12)
    assert BetaCalibration(1.0, 1.0, 0.0)([-4.0, 7.0]) == pytest.approx((1e-6, 1.0 - 1e-6))  # certain of nothing
    assert Logistic()([-1e4, 0.0, 1e4, -np.inf]).tolist() == [0.0, 0.5, 1.0, 0.0]
    assert Composed(Logistic(), COHERE)(0.0) == pytest.approx(0.5)
    assert Linear(-1.0, 1.0)([-2.0, -1.0, 0.0, 0.5, 1.0, 2.0]).tolist() == [0.0, 0.0, 0.5, 0.75, 1.0, 1.0]
    assert len({rule.identity for rule in RULES}) == len(RULES)
    assert Composed(Logistic(), COHERE).identity == "logistic(1.0, 0.0), then beta-cdf(0.4, 0.4)"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.identity)
def test_a_rule_is_a_value(rule: Calibration) -> None:
    twin = pickle.loads(pickle.dumps(rule))
    assert twin == rule
    assert hash(twin) == hash(rule)
    assert isinstance(rule, Calibration)
    grid = np.linspace(0.0, 1.0, 7).reshape(7, 1)
    kept = grid.copy()
    assert twin(grid).tobytes() == rule(grid).tobytes()
    assert np.array_equal(grid, kept)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: BetaCDF(0.0, 1.0), "a must be a number > 0"),
        (lambda: BetaCDF(1.0, 2e6), "b must be a number > 0 and <= 1,000,000"),
        (lambda: BetaCDF("0.4", 1.0), "a must be a number > 0"),  # type: ignore[arg-type]
        (lambda: BetaCalibration(-0.1, 1.0, 0.0), "a must be a finite number >= 0"),
        (lambda: BetaCalibration(1.0, 1.0, float("inf")), "c must be"),
        (lambda: Logistic(0.0), "slope must be a finite number > 0"),
        (lambda: Linear(1.0, 1.0), "high must be above low"),
        (lambda: COHERE([0.1, float("nan")]), "scores must be numbers"),
        (lambda: Identity()(["much"]), "scores must be numbers"),
    ],
)
def test_what_is_out_of_domain_is_refused_by_name(make: Callable[[], object], named: str) -> None:
    with pytest.raises(ParameterError, match=named):
        make()

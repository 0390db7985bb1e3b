"""Calibration: the published transform, what every rule keeps, fits, how good they are, and files of them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from math import asin, pi, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from catena.model import CalibrationError, ParameterError
from catena.segments import (
    COHERE,
    VOYAGE,
    Artefact,
    BetaCalibration,
    BetaCDF,
    Calibration,
    Composed,
    Constant,
    Identity,
    LabelledFit,
    Linear,
    Logistic,
    fit_beta,
    fit_labelled,
    held_out,
    load,
    quality,
    reliability,
    standardizing,
    trigamma,
)
from catena.segments.calibration import incomplete_beta
from catena.segments.fitting import Quality, digamma
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


def test_the_presets_at_four_scores() -> None:
    for preset, expected in ((COHERE, [0.094, 0.240, 0.500, 0.760]), (VOYAGE, [0.141, 0.435, 0.861, 0.994])):
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
)
def test_the_incomplete_beta_function_has_its_closed_forms(a, b, closed_form: Callable[[float], float]) -> None:
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
        assert (values[0], values[-1]) == (0.0, 1.0)
    assert incomplete_beta(np.asarray([0.5]), 1e6, 1e6)[0] == pytest.approx(0.5, abs=1e-8)


def test_digamma_and_trigamma_at_known_points() -> None:
    euler = 0.5772156649015329
    assert [digamma(1.0), digamma(0.5)] == pytest.approx([-euler, -euler - 2.0 * np.log(2.0)], abs=1e-14)
    assert [trigamma(1.0), trigamma(0.5)] == pytest.approx([pi**2 / 6.0, pi**2 / 2.0], rel=1e-14)


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
    assert Identity()([-0.1, 0.0, 0.3, 1.0, 1.1]).tolist() == [0.0, 0.0, 0.3, 1.0, 1.0]
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


# Fits of calibrations, how good they are, and the files that keep them.

TRUE = BetaCalibration(1.5, 0.4, -1.0)


def even_scores(a: float, b: float, n: int) -> NDArray[np.float64]:
    """Return the n scores that cut Beta(a, b) into equal parts: a sample without chance, by bisection of the CDF."""
    low, high = np.zeros(n), np.ones(n)
    wanted = (np.arange(n) + 0.5) / n
    for _ in range(80):
        middle = (low + high) / 2.0
        below = BetaCDF(a, b)(middle) < wanted
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2.0


def labelled(n: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    draw = np.random.default_rng(seed)
    scores = draw.beta(0.5, 1.5, n)
    return scores, draw.random(n) < TRUE(scores)


def beta_of(fit: Any) -> tuple[float, float]:
    assert isinstance(fit.calibration, BetaCDF)
    return fit.calibration.a, fit.calibration.b


def slopes(rule: Any) -> tuple[float, float]:
    assert isinstance(rule, BetaCalibration)
    return rule.a, rule.b


@pytest.mark.parametrize(
    ("a", "b"), [(0.4, 0.4), (0.5, 1.8), (2.0, 5.0), (1.0, 1.0), (8.0, 3.0), (0.2, 0.9), (30.0, 60.0)]
)
def test_the_parameters_are_found_again_in_an_even_sample(a: float, b: float) -> None:
    fit = fit_beta(even_scores(a, b, 2_000))
    assert beta_of(fit) == pytest.approx((a, b), rel=0.005)
    assert (fit.n, fit.distance < 0.002) == (2_000, True)


@given(st.lists(st.integers(1, 999), min_size=20, max_size=60, unique=True))
def test_the_likelihood_has_no_slope_at_the_fit(thousandths: list[int]) -> None:
    scores = [each / 1_000 for each in thousandths]
    a, b = beta_of(fit_beta(scores))
    means = np.log(scores).mean(), np.log1p(-np.asarray(scores)).mean()
    assert means == pytest.approx([digamma(each) - digamma(a + b) for each in (a, b)], abs=1e-6)


def test_an_end_is_read_as_half_as_far_as_the_nearest_score_inside() -> None:
    inner = np.linspace(0.02, 0.96, 95)
    moved = beta_of(fit_beta([0.01, *inner, 0.98]))
    assert beta_of(fit_beta([0.0, *inner, 1.0])) == pytest.approx(moved, rel=1e-9)
    least, _ = beta_of(fit_beta([0.0] * 3 + [5e-324] * 20 + [0.5] * 20))  # half of it would be 0
    assert 0.0 < least < 0.01
    assert max(beta_of(fit_beta([1e-300] * 20 + [1.0 - 1e-16] * 20))) < 0.1
    for apart, size in ((6e-4, 0.25 / 6e-4**2), (4e-4, 0.25 / 4e-4**2)):  # a + b + 1 = mean (1 - mean) / variance
        assert beta_of(fit_beta([0.5 - apart, 0.5 + apart] * 15)) == pytest.approx((size / 2,) * 2, rel=1e-4)
    two_heaps = np.concatenate([np.linspace(0.30, 0.31, 500), np.linspace(0.90, 0.91, 500)])
    assert fit_beta(two_heaps).distance > 0.2  # no beta distribution describes them


def test_logits_are_fitted_after_a_sigmoid_and_the_sigmoid_stays_part_of_the_rule() -> None:
    scores = even_scores(2.0, 5.0, 500)
    logits = np.log(scores / (1.0 - scores))
    fit = fit_beta(logits, first=Logistic())
    assert fit.calibration == Composed(Logistic(), fit.calibration.then)  # type: ignore[attr-defined]
    assert fit.calibration(logits) == pytest.approx(fit_beta(scores).calibration(scores), abs=1e-9)
    assert fit_beta(scores, first=Identity()) == fit_beta(scores)


@pytest.mark.parametrize("seed", [1, 2])
def test_beta_calibration_finds_its_parameters_and_makes_the_probabilities_true(seed: int) -> None:
    fit = fit_labelled(*labelled(20_000, seed))
    assert (*slopes(fit.calibration), fit.calibration.c) == pytest.approx((TRUE.a, TRUE.b, TRUE.c), abs=0.15)
    assert (fit.folds, fit.before.ece > 0.1, fit.after.ece < 0.015) == (5, True, True)
    assert fit.after.log_loss < fit.before.log_loss
    assert fit.after.brier < fit.before.brier


def test_a_fit_to_well_separated_classes_stays_finite() -> None:
    scores = np.linspace(0.0, 1.0, 100)
    rule = fit_labelled(scores, scores > 0.5).calibration
    low, high = rule([0.1, 0.9])
    assert (low < 0.01, high > 0.99) == (True, True)
    assert max(slopes(rule)) < 50.0  # without the ridge there is no bound
    turned = fit_labelled(scores, scores < 0.3).calibration  # scores that point the wrong way: the share, everywhere
    assert slopes(turned) == (0.0, 0.0)
    assert turned([0.0, 0.5, 1.0]) == pytest.approx(0.3, abs=1e-9)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=40, max_size=80))
def test_every_fit_keeps_the_order_and_no_slope_is_negative(pairs: list[tuple[float, bool]]) -> None:
    scores = [score for score, _ in pairs]
    relevant = [*(label for _, label in pairs[10:]), *[True, False] * 5]
    rule = fit_labelled(scores, relevant).calibration
    assert min(slopes(rule)) >= 0
    assert np.all(np.diff(rule(np.sort(scores))) >= -1e-12)
    free = quality(rule(scores), relevant).log_loss
    share = np.mean(relevant)
    assert free <= quality([share] * len(scores), relevant).log_loss + 1e-6  # never worse than knowing nothing


def test_scores_of_one_group_are_judged_by_a_fit_without_them() -> None:
    scores, relevant = labelled(400)
    groups = [f"question {number // 40}" for number in range(400)]
    fit = fit_labelled(scores, relevant, groups=groups)
    assert fit.folds == 5
    assert fit.calibration == fit_labelled(scores, relevant).calibration
    assert fit.after != fit_labelled(scores, relevant).after
    assert fit_labelled(scores, relevant, groups=["one question"] * 400).folds == 0
    assert fit_labelled(np.linspace(0.01, 0.99, 24), [False] * 18 + [True] * 6).folds == 0  # judged on themselves
    probabilities, folds = held_out(scores, relevant, groups=groups)
    assert (quality(probabilities, relevant), folds) == (fit.after, 5)
    rule = standardizing([1.0, 3.0])
    assert (rule.slope, rule.shift) == (1.0, -2.0)
    far = fit_labelled(7.0 * scores - 3.0, relevant, first=standardizing(7.0 * scores - 3.0))
    assert far.after.log_loss == pytest.approx(fit_labelled(scores, relevant).after.log_loss, abs=0.02)


def test_no_score_is_judged_by_a_fit_that_saw_its_own_label() -> None:
    scores, relevant = labelled(400)
    groups = [number // 40 for number in range(400)]
    turned = relevant.copy()
    turned[:40] = ~turned[:40]
    before, _ = held_out(scores, relevant, groups=groups)
    after, _ = held_out(scores, turned, groups=groups)
    assert after[:40].tobytes() == before[:40].tobytes()
    assert not np.any(after[40:80] == before[40:80])


def test_reliability_by_hand() -> None:
    probabilities = [0.1, 0.1, 0.3, 0.3, 0.9, 0.9, 0.9, 0.9]
    happened = [0, 0, 0, 1, 1, 1, 1, 0]
    found = reliability(probabilities, happened, bins=2, binning="width")
    assert [(each.n, each.observed) for each in found.bins] == [(4, 0.25), (4, 0.75)]
    assert [each.predicted for each in found.bins] == pytest.approx([0.2, 0.9])
    assert found.ece == pytest.approx(0.5 * 0.05 + 0.5 * 0.15)
    assert (found.n, found.positives) == (8, 4)
    mass = reliability(probabilities, happened, bins=4, binning="mass")
    assert [(each.n, each.predicted) for each in mass.bins] == [(2, 0.1), (2, 0.3), (4, 0.9)]
    assert [each.n for each in reliability([0.95, 1.0], [0, 1], binning="width").bins] == [2]
    assert mass.ece == pytest.approx((2 * 0.1 + 2 * 0.2 + 4 * 0.15) / 8)


def test_quality_by_hand() -> None:
    found = quality([0.5, 0.8], [False, True])
    assert found.log_loss == pytest.approx((np.log(2.0) - np.log(0.8)) / 2.0)
    assert found.brier == pytest.approx((0.25 + 0.04) / 2.0)
    assert quality([0.0, 1.0], [1, 0]).log_loss == pytest.approx(-np.log(1e-6))
    assert quality([0.0, 1.0], [0, 1]).brier == 0.0


PAIRS = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]), st.booleans()), min_size=1, max_size=60)


@given(PAIRS, st.integers(1, 12), st.sampled_from(["mass", "width"]), st.randoms(use_true_random=False))
def test_reliability_counts_everything_once_in_any_order(pairs, bins, binning, draw) -> None:
    found = reliability([p for p, _ in pairs], [t for _, t in pairs], bins=bins, binning=binning)
    assert sum(each.n for each in found.bins) == len(pairs)
    assert len(found.bins) <= bins
    assert 0.0 <= found.ece <= 1.0
    assert all(one.predicted < other.predicted for one, other in zip(found.bins, found.bins[1:], strict=False))
    shuffled = draw.sample(pairs, len(pairs))
    again = reliability([p for p, _ in shuffled], [t for _, t in shuffled], bins=bins, binning=binning)
    assert again.ece == pytest.approx(found.ece, abs=1e-12)
    assert [each.n for each in again.bins] == [each.n for each in found.bins]


@pytest.mark.parametrize(
    ("fit", "named"),
    [
        (lambda: fit_beta([0.1, 0.2] * 9), "at least 20"),
        (lambda: fit_beta([0.5] * 30), "all about 0.5"),
        (lambda: fit_beta([0.4997, 0.5003] * 15), "spread out"),
        (lambda: fit_beta([0.0, 1.0] * 30), "labels already"),
        (lambda: fit_beta([-3.0, 4.0] * 30), r"first=Logistic\(\)"),
        (lambda: fit_beta([[0.1, 0.2]] * 30), "flat sequence"),
        (lambda: fit_beta(["a"] * 30), "numbers"),
        (lambda: standardizing([0.5]), "two different"),
        (lambda: fit_labelled([0.1, 0.9] * 15, [1] * 4 + [0] * 26), "at least 5 relevant and 5 others"),
        (lambda: fit_labelled([0.1, 0.9] * 15, [0, 1] * 15, groups=["q"]), "one per score"),
        (lambda: reliability([], []), "not empty"),
        (lambda: reliability([1.1], [1]), r"in \[0, 1\]"),
        (lambda: reliability([0.1], ["yes"]), "truth values"),
        (lambda: reliability([0.1], [1], bins=0), "bins"),
        (lambda: reliability([0.1], [1], binning="depth"), "binning"),
    ],
)
def test_what_cannot_be_fitted_or_judged_is_refused_with_the_reason(fit: Callable[[], object], named: str) -> None:
    with pytest.raises(ParameterError, match=named):
        fit()


SCORES, RELEVANT = labelled(200)
FITS = {
    "labelled": fit_labelled(SCORES, RELEVANT),
    "unlabelled": fit_beta(SCORES),
    "after_a_sigmoid": fit_beta(np.log(SCORES / (1.0 - SCORES)), first=Logistic(0.7, 0.1)),
    "after_a_line": fit_labelled(2.0 * SCORES - 1.0, RELEVANT, first=Linear(-1.0, 1.0)),
}


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS.keys())
def test_an_artefact_comes_back_exactly_as_it_was_saved(fit: LabelledFit, tmp_path: Path) -> None:
    artefact = Artefact(fit=fit, model="rerank-örtlich", data="200 pairs", date="2026-11-21")
    path = tmp_path / "calibration.json"
    artefact.save(path)
    back = load(path, model="rerank-örtlich")
    assert back == artefact
    assert back.calibration(SCORES).tobytes() == artefact.calibration(SCORES).tobytes()
    assert pickle.loads(pickle.dumps(back)) == artefact
    back.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    with pytest.raises(CalibrationError, match=r"'rerank-örtlich'.*'rerank-two'.*fit it again"):
        load(path, model="rerank-two")


GOOD = {"brier": 0.1, "ece": 0.1}
Q = Quality(log_loss=0.5, **GOOD)


def written(**changes: object) -> str:
    return json.dumps({**json.loads(Artefact(fit=FITS["labelled"], model="m").to_json()), **changes})


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (None, "No such file"),
        ("\udcff\udcfe", "not UTF-8"),
        ("", "damaged"),
        ('{"format": "catena-tuned-1"}', "another format"),
        (written(version=2), "version 2"),
        (written(kind="guessed"), "'guessed' is no kind"),
        (written(calibration={"rule": "step"}), "damaged"),
        (written(calibration={"rule": "beta-cdf", "a": -1.0, "b": 1.0}), "damaged"),
        (written(n="many"), "n must be an integer >= 0, got 'many'"),
        (written(positives=-1), "positives must be an integer >= 0, got -1"),
        (written(after={"log_loss": float("nan")} | GOOD), "log_loss must be a finite number >= 0, got nan"),
        (written(before={"log_loss": 0.1} | GOOD | {"ece": None}), "ece must be a finite number >= 0, got None"),
        ("[" * 100_000, "damaged"),
    ],
)
def test_a_damaged_artefact_is_refused_by_name(text: str | None, named: str, tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    if text is not None:
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(CalibrationError, match=named) as caught:
        load(path, model="m")
    assert str(path) in str(caught.value)


def test_a_folder_that_is_not_there_and_rules_of_others_are_named(tmp_path: Path) -> None:
    artefact = Artefact(fit=FITS["labelled"], model="m")
    with pytest.raises(CalibrationError, match="No such file"):
        artefact.save(tmp_path / "no folder" / "c.json")

    class Step:
        identity = "step"

        def __call__(self, scores: object) -> NDArray[np.float64]:
            return np.asarray(scores, dtype=np.float64)

    fit = LabelledFit(calibration=Step(), n=9, positives=4, before=Q, after=Q, folds=0)
    with pytest.raises(CalibrationError, match="step: no rule that a file can hold"):
        Artefact(fit=fit, model="m").to_json()

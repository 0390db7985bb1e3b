"""Fits of calibrations, how good they are, and the files that keep them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from catena.model import CalibrationError, ParameterError
from catena.segments import (
    Artefact,
    BetaCalibration,
    BetaCDF,
    Composed,
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
)
from catena.segments.fitting import Quality, digamma

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


@pytest.mark.parametrize(
    ("a", "b"), [(0.4, 0.4), (0.5, 1.8), (2.0, 5.0), (1.0, 1.0), (8.0, 3.0), (0.2, 0.9), (30.0, 60.0)]
)
def test_the_parameters_are_found_again_in_an_even_sample(a: float, b: float) -> None:
    fit = fit_beta(even_scores(a, b, 2_000))
    assert isinstance(fit.calibration, BetaCDF)
    assert fit.calibration.a == pytest.approx(a, rel=0.005)
    assert fit.calibration.b == pytest.approx(b, rel=0.005)
    assert (fit.n, fit.distance < 0.002) == (2_000, True)


@given(st.lists(st.integers(1, 999), min_size=20, max_size=60, unique=True))
def test_the_likelihood_has_no_slope_at_the_fit(thousandths: list[int]) -> None:
    scores = [each / 1_000 for each in thousandths]
    rule = fit_beta(scores).calibration
    assert isinstance(rule, BetaCDF)
    both = digamma(rule.a + rule.b)
    assert np.log(scores).mean() == pytest.approx(digamma(rule.a) - both, abs=1e-6)
    assert np.log1p(-np.asarray(scores)).mean() == pytest.approx(digamma(rule.b) - both, abs=1e-6)


def test_an_end_is_read_as_half_as_far_as_the_nearest_score_inside() -> None:
    inner = np.linspace(0.02, 0.96, 95)
    ended = fit_beta([0.0, *inner, 1.0])
    moved = fit_beta([0.01, *inner, 0.98])
    assert isinstance(ended.calibration, BetaCDF)
    assert isinstance(moved.calibration, BetaCDF)
    assert ended.calibration.a == pytest.approx(moved.calibration.a, rel=1e-9)
    assert ended.calibration.b == pytest.approx(moved.calibration.b, rel=1e-9)
    least = fit_beta([0.0] * 3 + [5e-324] * 20 + [0.5] * 20).calibration  # half of it would be 0
    assert isinstance(least, BetaCDF)
    assert 0.0 < least.a < 0.01
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
    rule = fit.calibration
    assert isinstance(rule, BetaCalibration)
    assert (rule.a, rule.b, rule.c) == pytest.approx((TRUE.a, TRUE.b, TRUE.c), abs=0.15)
    assert fit.folds == 5
    assert fit.before.ece > 0.1
    assert fit.after.ece < 0.015
    assert fit.after.log_loss < fit.before.log_loss
    assert fit.after.brier < fit.before.brier


def test_a_fit_to_well_separated_classes_stays_finite() -> None:
    scores = np.linspace(0.0, 1.0, 100)
    rule = fit_labelled(scores, scores > 0.5).calibration
    low, high = rule([0.1, 0.9])
    assert low < 0.01
    assert high > 0.99
    assert isinstance(rule, BetaCalibration)
    assert max(rule.a, rule.b) < 50.0  # without the ridge there is no bound


def test_scores_that_point_the_wrong_way_get_the_share_of_relevant_ones_everywhere() -> None:
    scores = np.linspace(0.0, 1.0, 100)
    rule = fit_labelled(scores, scores < 0.3).calibration
    assert isinstance(rule, BetaCalibration)
    assert (rule.a, rule.b) == (0.0, 0.0)
    assert rule([0.0, 0.5, 1.0]) == pytest.approx(0.3, abs=1e-9)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=40, max_size=80))
def test_every_fit_keeps_the_order_and_no_slope_is_negative(pairs: list[tuple[float, bool]]) -> None:
    scores = [score for score, _ in pairs]
    relevant = [*(label for _, label in pairs[10:]), *[True, False] * 5]
    rule = fit_labelled(scores, relevant).calibration
    assert isinstance(rule, BetaCalibration)
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
    assert mass.ece == pytest.approx((2 * 0.1 + 2 * 0.2 + 4 * 0.15) / 8)


def test_quality_by_hand() -> None:
    found = quality([0.5, 0.8], [False, True])
    assert found.log_loss == pytest.approx((np.log(2.0) - np.log(0.8)) / 2.0)
    assert found.brier == pytest.approx((0.25 + 0.04) / 2.0)
    assert quality([0.0, 1.0], [1, 0]).log_loss == pytest.approx(-np.log(1e-6))
    assert quality([0.0, 1.0], [0, 1]).brier == 0.0


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]), st.booleans()), min_size=1, max_size=60),
    st.integers(1, 12),
    st.sampled_from(["mass", "width"]),
    st.randoms(use_true_random=False),
)
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
        (lambda: fit_beta([0.5] * 30), "spread out"),
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


Q = Quality(log_loss=0.5, brier=0.25, ece=0.1)


def written(**changes: object) -> str:
    return json.dumps({**json.loads(Artefact(fit=FITS["labelled"], model="m").to_json()), **changes})


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "damaged"),
        ('{"format": "catena-tuned-1"}', "another format"),
        (written(version=2), "version 2"),
        (written(kind="guessed"), "'guessed' is no kind"),
        (written(calibration={"rule": "step"}), "damaged"),
        (written(calibration={"rule": "beta-cdf", "a": -1.0, "b": 1.0}), "damaged"),
        (written(n="many"), "n must be an integer >= 0, got 'many'"),
        (written(positives=-1), "positives must be an integer >= 0, got -1"),
        (
            written(after={"log_loss": float("nan"), "brier": 0.1, "ece": 0.1}),
            "log_loss must be a finite number >= 0, got nan",
        ),
        (written(before={"log_loss": 0.1, "brier": 0.1, "ece": None}), "ece must be a finite number >= 0, got None"),
        ("[" * 100_000, "damaged"),
    ],
)
def test_a_damaged_artefact_is_refused_by_name(text: str, named: str, tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CalibrationError, match=named) as caught:
        load(path, model="m")
    assert str(path) in str(caught.value)


def test_files_that_are_not_there_and_rules_of_others_are_named(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match="No such file"):
        load(tmp_path / "none.json", model="m")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    with pytest.raises(CalibrationError, match="not UTF-8"):
        load(tmp_path / "bytes.json", model="m")
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

"""Draw rankings: worth of ranks, recall, comparisons of systems, growth of a collection, probabilities that hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import log10
from pathlib import Path

from catena.evaluation import GAMMAS, MeanLogRankIndex, MeanScore, RecallCurve, RetrievalReport, score_curve
from catena.model import EvaluationError, ParameterError
from catena.segments import Reliability
from catena_view.plots.picture import (
    BACKGROUND,
    Axis,
    Bars,
    LineMark,
    Mark,
    Panel,
    Picture,
    finished,
    measured_line,
    one_panel,
)

_GRID = 120  # ranks at which a curve is drawn


def log_rank_curves(
    path: str | Path | None = None, *, n: int = 1_000, gammas: Sequence[float] = GAMMAS
) -> Picture | Path:
    """Draw what a piece at each rank earns: S(r) for several gamma, beside 1/r and nDCG's discount (HiQA, Figure 13).

    Args:
        path: a .png or .html to write; None returns the picture.
        n: number of pieces that were ranked, at least 2.
        gammas: at least one.

    Raises:
        ParameterError: n or a gamma is outside its domain, or the suffix is not known.
        EvaluationError: there is no gamma.
        MissingExtraError: the library that draws is not installed.
    """
    if n < 2:
        raise ParameterError("n", n, "2 or more: a single rank has no curve")
    _check_any(gammas, "gamma")
    ranks = [*(min(float(n), 10 ** (log10(n) * step / _GRID)) for step in range(_GRID)), float(n)]
    marks = [
        LineMark(x=ranks, y=score_curve(ranks, n=n, gamma=gamma), label=f"S(r), γ = {gamma:g}", series=number)
        for number, gamma in enumerate(gammas)
    ]
    discounts = [log10(2) / log10(rank + 1) for rank in ranks]
    rivals = (("1/r (reciprocal rank)", [1 / rank for rank in ranks]), ("1/log2(r + 1) (nDCG)", discounts))
    marks += [
        LineMark(x=ranks, y=values, label=label, series=BACKGROUND - at) for at, (label, values) in enumerate(rivals)
    ]
    ten = min(10, n)
    told = ", ".join(f"{score_curve([ten], n=n, gamma=gamma)[0]:.3f} (γ = {gamma:g})" for gamma in gammas)
    ticks = [(float(rank), text) for rank, text in _decades(n)]
    return one_panel(
        marks,
        Axis(label="rank r", ticks=ticks, logarithmic=True, limits=(1, float(n))),
        Axis(label="score of one piece", limits=(-0.02, 1.02)),
        path,
        title="What a rank earns in the Log-Rank Index",
        caption=f"S(r) = 1 − ln(1 + γ(r − 1)) / ln(1 + γ(N − 1)), N = {n:,}. Rank {ten} earns {told}.",
    )


def index_over_gamma(
    systems: Mapping[str, Sequence[MeanLogRankIndex]], path: str | Path | None = None
) -> Picture | Path:
    """Draw the mean Log-Rank Index of systems over gamma: does the order of the systems depend on it?

    Args:
        systems: by name, values of `evaluation.curves.index_over_gamma`.
        path: as in `log_rank_curves`.

    Raises:
        EvaluationError: there is no system, or an index is undefined.
        ParameterError, MissingExtraError: as in `log_rank_curves`.
    """
    _check_any(systems, "system")
    marks = []
    for number, (name, found) in enumerate(systems.items()):
        values = [_known(index.value, name) for index in found]
        marks.append(LineMark(x=[index.gamma for index in found], y=values, label=name, series=number, dotted=True))
    gammas = sorted({index.gamma for found in systems.values() for index in found})
    sizes = sorted({index.n for found in systems.values() for index in found})
    ends = "; ".join(f"{line.label} {line.y[0]:.3f} … {line.y[-1]:.3f}" for line in marks)
    return one_panel(
        marks,
        Axis(label="γ", ticks=[(gamma, f"{gamma:g}") for gamma in gammas], logarithmic=True),
        Axis(label="mean Log-Rank Index", limits=(0, 1.02)),
        path,
        title="Mean Log-Rank Index over γ",
        caption=f"N = {', '.join(map('{:,}'.format, sizes))}. From the first γ to the last: {ends}.",
    )


def recall_curve(systems: Mapping[str, RecallCurve], path: str | Path | None = None) -> Picture | Path:
    """Draw recall at every rank, on the axis on which the area below each curve is its Log-Rank Index.

    Args:
        systems: by name; all of one n and one gamma, or areas could not be compared.
        path: as in `log_rank_curves`.

    Raises:
        EvaluationError: there is no system, or n or gamma differ.
        ParameterError, MissingExtraError: as in `log_rank_curves`.
    """
    _check_any(systems, "system")
    if len({(curve.n, curve.gamma) for curve in systems.values()}) > 1:
        raise EvaluationError("recall curves of different n or gamma are no areas of one axis. Try: one n for all")
    curve = next(iter(systems.values()))
    marks = [
        LineMark(
            x=found.positions, y=found.recall, low=found.low, high=found.high, label=f"{name}: LRI {found.area:.3f}",
            series=number, step=True, filled=len(systems) == 1,
        )
        for number, (name, found) in enumerate(systems.items())
    ]  # fmt: skip
    ranks = [tick for tick, _ in _decades(curve.n)]
    places = [1 - score for score in score_curve(ranks, n=curve.n, gamma=curve.gamma)]
    areas = ", ".join(f"{name} {found.area:.3f}" for name, found in systems.items())
    sizes = ", ".join(sorted({f"{found.n_queries:,}" for found in systems.values()}))
    ticks = [(place, f"{rank:,}") for place, rank in zip(places, ranks, strict=True)]
    return one_panel(
        marks,
        Axis(label="rank k, at ln(1 + γ(k − 1)) / ln(1 + γ(N − 1))", ticks=ticks, limits=(0, 1)),
        Axis(label="recall@k", limits=(0, 1.02)),
        path,
        title="Recall over ranks; the area below is the Log-Rank Index",
        caption=(
            f"LRI: {areas}. N = {curve.n:,}, γ = {curve.gamma:g}, {sizes} queries; band: {curve.level:.0%} bootstrap "
            "interval over queries."
        ),
    )


def ablation(
    systems: Mapping[str, MeanScore],
    path: str | Path | None = None,
    *,
    measure: str = "Log-Rank Index",
    note: str = "",
) -> Picture | Path:
    """Draw a bar per system with its confidence interval, in the order given (HiQA, Table 2).

    Args:
        systems: by name.
        path: as in `log_rank_curves`.
        measure: what the bars are.
        note: what else the caption must say, e.g. "gamma 1, N = 6,221".

    Raises:
        EvaluationError: there is no system.
        ParameterError, MissingExtraError: as in `log_rank_curves`.
    """
    _check_any(systems, "system")
    caption = f"{measure} with {_level(systems.values())} intervals; {_sizes(systems.values())}. {note}".strip()
    rows = {name: {measure: score} for name, score in systems.items()}
    return _bar_chart(f"{measure} by system", caption, rows, measure, path)


def recall_by_kind(reports: Mapping[str, RetrievalReport], path: str | Path | None = None) -> Picture | Path:
    """Draw recall by kind of question, a bar per system, with intervals.

    Args:
        reports: by the name of the system, over the same questions.
        path: as in `log_rank_curves`.

    Raises:
        EvaluationError: there is no report.
        ParameterError, MissingExtraError: as in `log_rank_curves`.
    """
    _check_any(reports, "report")
    kinds = list(dict.fromkeys(kind for report in reports.values() for kind in report.measures))
    rows = {
        kind or "all": {
            name: report.measures[kind]["recall"].score for name, report in reports.items() if kind in report.measures
        }
        for kind in kinds
    }
    first = next(iter(reports.values()))
    scores = [score for row in rows.values() for score in row.values()]
    overall = ", ".join(
        f"{name}: recall {report.measures['']['recall'].score.value:.3f}, LRI "
        f"{report.measures['']['lri'].score.value:.3f} (γ = {report.gamma:g}, N = {report.n:,})"
        for name, report in reports.items()
    )
    caption = (
        f"Recall at max({first.k}, gold places), {_level(scores)} intervals. {overall}. {first.n_judged:,} questions."
    )
    return _bar_chart("Recall by kind of question", caption, rows, "recall", path)


def degradation(
    systems: Mapping[str, Sequence[tuple[int, MeanScore]]],
    path: str | Path | None = None,
    *,
    measure: str = "recall",
    unit: str = "documents",
) -> Picture | Path:
    """Draw a measure against the size of the collection, with bands (HiQA, Figure 2).

    Args:
        systems: by name, (size, score) with rising sizes of 1 or more.
        path: as in `log_rank_curves`.
        measure: what is drawn.
        unit: of the sizes.

    Raises:
        EvaluationError: there is no system, or one has no sizes, or a size is below 1.
        ParameterError, MissingExtraError: as in `log_rank_curves`.
    """
    _check_any(systems, "system")
    marks = []
    for number, (name, points) in enumerate(systems.items()):
        _check_any(points, f"size of {name!r}")
        if min(size for size, _ in points) < 1:
            raise EvaluationError(f"a size of {name!r} is below 1: sizes are drawn by their logarithms")
        rows = ((float(size), each.value, *(each.interval or (each.value, each.value))) for size, each in points)
        marks.append(measured_line(name, number, rows))
    sizes = sorted({size for points in systems.values() for size, _ in points})
    told = "; ".join(
        f"{name} {points[0][1].value:.3f} at {points[0][0]:,} → {points[-1][1].value:.3f} at {points[-1][0]:,}"
        for name, points in systems.items()
    )
    scores = [score for points in systems.values() for _, score in points]
    return one_panel(
        marks,
        Axis(label=unit, ticks=[(float(size), f"{size:,}") for size in sizes], logarithmic=True),
        Axis(label=measure, limits=(0, 1.02)),
        path,
        title=f"{measure[:1].upper()}{measure[1:]} as the collection grows",
        caption=f"{told} {unit}. Bands: {_level(scores)} intervals; {_sizes(scores)}.",
    )


def _bar_chart(
    title: str, caption: str, rows: Mapping[str, Mapping[str, MeanScore]], measure: str, path: str | Path | None
) -> Picture | Path:
    """Draw groups of bars, the first row at the top; within a row a bar for each series."""
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    thickness = 0.8 / len(names)
    marks = []
    for number, name in enumerate(names):
        held = [(place, row[name]) for place, row in enumerate(rows.values()) if name in row]
        shift = (number - (len(names) - 1) / 2) * thickness
        marks.append(
            Bars(
                y=[place + shift for place, _ in held], lengths=[score.value for _, score in held], label=name,
                series=number, thickness=thickness * 0.92, intervals=[score.interval for _, score in held],
            )
        )  # fmt: skip
    ends = [max(score.value, (score.interval or (0.0, 0.0))[1]) for row in rows.values() for score in row.values()]
    labels = [(float(place), _with_n(name, row)) for place, (name, row) in enumerate(rows.items())]
    x = Axis(label=measure, limits=(0, max(1.0, *ends) * 1.1))
    y = Axis(ticks=labels, limits=(len(rows) - 0.45, -0.55))
    height = max(2.8, 1.6 + 0.34 * sum(map(len, rows.values())) + 0.12 * len(rows))
    return one_panel(marks, x, y, path, title=title, caption=caption, height=height)


def _with_n(name: str, row: Mapping[str, MeanScore]) -> str:
    sizes = {score.n for score in row.values()}
    return f"{name} ({sizes.pop():,})" if len(sizes) == 1 else name


def _level(scores: Iterable[MeanScore]) -> str:
    return ", ".join(f"{level:.0%}" for level in sorted({score.level for score in scores}))


def _sizes(scores: Iterable[MeanScore]) -> str:
    return "n = " + ", ".join(f"{size:,}" for size in sorted({score.n for score in scores}))


def _decades(n: int) -> list[tuple[int, str]]:
    ranks = [10**power for power in range(len(str(n))) if 10**power <= n]
    last = [n] if n / ranks[-1] > 1.6 else []  # else its label would lie on the one before
    return [(rank, f"{rank:,}") for rank in [*ranks, *last]]


def _check_any(things: Mapping[str, object] | Sequence[object], noun: str) -> None:
    if not things:
        raise EvaluationError(f"a picture needs at least one {noun}")


def _known(value: float | None, name: str) -> float:
    if value is None:
        raise EvaluationError(f"{name!r}: the index is undefined, since no query has a relevant piece")
    return value


def reliability_diagram(
    curves: Mapping[str, Reliability],
    path: str | Path | None = None,
    *,
    title: str = "Reliability of the probabilities",
) -> Picture | Path:
    """Draw the observed share of relevant texts over the predicted probability, and how many scores each bin holds.

    On the diagonal, what is predicted happens; below it, scores promise too much.

    Args:
        curves: by name, as `catena.segments.fitting.reliability` gives them, e.g. before and after.
        path: a .png or .html to write; None returns the picture.
        title: of the picture.

    Raises:
        EvaluationError: there is no curve.
        ParameterError: the suffix is not known.
        MissingExtraError: the library that draws is not installed.
    """
    if not curves:
        raise EvaluationError("a reliability diagram needs at least one curve")
    most = max(max(each.predicted, each.observed) for curve in curves.values() for each in curve.bins)
    top = min(1.0, 1.05 * most) or 1.0
    shares: list[Mark] = [LineMark(x=[0.0, top], y=[0.0, top], label="perfect", series=BACKGROUND)]
    counts: list[Mark] = []
    for number, (name, curve) in enumerate(curves.items()):
        predicted = [each.predicted for each in curve.bins]
        label = f"{name} (ECE {curve.ece:.3f})"
        shares.append(
            LineMark(x=predicted, y=[each.observed for each in curve.bins], label=label, series=number, dotted=True)
        )
        held = [float(each.n) for each in curve.bins]
        counts.append(LineMark(x=predicted, y=held, label=label, series=number, dotted=True))
    fullest = max(each.n for curve in curves.values() for each in curve.bins)
    predicted_axis = Axis(label="predicted probability, mean of the bin", limits=(0.0, top))
    panels = [
        Panel(marks=shares, x=predicted_axis, y=Axis(label="observed share of relevant texts", limits=(0.0, top))),
        Panel(marks=counts, x=predicted_axis, y=Axis(label="scores in the bin", limits=(0.0, 1.1 * fullest))),
    ]
    return finished(Picture(title=title, caption=" ".join(map(_told, curves.items())), panels=panels), path)


def _told(named: tuple[str, Reliability]) -> str:
    name, curve = named
    kind = "about equal counts" if curve.binning == "mass" else "equal width"
    counts = ", ".join(f"{each.n:,}" for each in curve.bins)
    return (
        f"{name}: expected calibration error {curve.ece:.4f} over {len(curve.bins)} bins of {kind} ({counts}), "
        f"{curve.positives:,} relevant of {curve.n:,}."
    )

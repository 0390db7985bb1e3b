"""The picture of calibration: predicted probabilities against what happened, before and after on one page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from catena.model.errors import EvaluationError
from catena.plots.picture import BACKGROUND, Axis, Line, Mark, Panel, Picture, finished
from catena.segments.reliability_bins import Reliability


def reliability_diagram(
    curves: Mapping[str, Reliability],
    path: str | Path | None = None,
    *,
    title: str = "Reliability of the probabilities",
) -> Picture | Path:
    """Draw the observed share of relevant texts over the predicted probability, and how many scores each bin holds.

    On the diagonal, what is predicted happens; below it, scores promise too much.

    Args:
        curves: by name, as `catena.segments.reliability_bins.reliability` gives them, e.g. before and after.
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
    shares: list[Mark] = [Line(x=[0.0, top], y=[0.0, top], label="perfect", series=BACKGROUND)]
    counts: list[Mark] = []
    for number, (name, curve) in enumerate(curves.items()):
        predicted = [each.predicted for each in curve.bins]
        label = f"{name} (ECE {curve.ece:.3f})"
        shares.append(
            Line(x=predicted, y=[each.observed for each in curve.bins], label=label, series=number, dotted=True)
        )
        held = [float(each.n) for each in curve.bins]
        counts.append(Line(x=predicted, y=held, label=label, series=number, dotted=True))
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

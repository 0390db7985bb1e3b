"""Pictures of studies of the graph: lengths of chains, density, training of a scorer, degrees of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import isfinite
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from catena.graph import ChunkGraph, kinds_in_order
from catena.model import KEYWORD, EvaluationError, ParameterError
from catena_view.plots.picture import (
    BACKGROUND,
    Axis,
    LineMark,
    Mark,
    Panel,
    Picture,
    Points,
    decades,
    finished,
    measured_line,
    one_panel,
)

NEIGHBOURS = "neighbours"
"""The setting T: nearest chunks to which each has semantic edges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One point of a study.

    Attributes:
        name: of its line: a collection, a method or a measure.
        at: the value of the setting.
        value: a share in [0, 1], with its interval where known.
        setting: what was set: "length", or for the density "neighbours" (T) and "keyword" (K).
    """

    name: str
    at: float
    value: float
    low: float | None = None
    high: float | None = None
    setting: str = "length"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochMeasured:
    """One epoch of training, 0 being before it: its mean loss, and a measure on the questions held back."""

    epoch: int
    loss: float | None = None
    validation: float | None = None


Row: TypeAlias = Measured | Mapping[str, Any]
"""A point of a study, or a dict with the same keys."""


def path_lengths(
    rows: Sequence[Row],
    path: str | Path | None = None,
    *,
    measure: str = "match rate of the evidence",
    title: str = "How long a chain may be",
) -> Picture | Path:
    """Draw what chains find against their maximum length, a line for each name, a band for its interval.

    A length of 1 is the seeds alone.

    Args:
        rows: with `at` the maximum length in chunks (the paper: 1, 3, 5, 7).
        path: a .png or .html to write; None returns the picture.
        measure: that the values are of.
        title: of the picture.

    Raises:
        EvaluationError: there is no row, two are of one name and length, a length is not > 0, or a value no share.
        ParameterError: a row has other keys, or the suffix is not known.
        MissingExtraError: the library that draws is not installed.

    Source: IIER (arXiv 2408.02907), Table 3.
    """
    points = _measured(rows)
    told = "; ".join(_ends(name, held) for name, held in _by_name(points).items())
    banded = " Bands: intervals." if any(point.low is not None for point in points) else ""
    panel = _panel(points, list(_by_name(points)), "maximum length of a chain (chunks)", measure)
    caption = f"{measure[:1].upper()}{measure[1:]}: {told}.{banded}"
    return finished(Picture(title=title, caption=caption, panels=[panel]), path)


def graph_density(
    rows: Sequence[Row],
    path: str | Path | None = None,
    *,
    measure: str = "match rate of the evidence",
    title: str = "How dense the graph is",
) -> Picture | Path:
    """Draw what chains find against the two thresholds of the graph, a panel for each, on one scale.

    Args:
        rows: with `setting` "neighbours" (`at` = T, nearest chunks that get a semantic edge) or "keyword" (`at` = K,
            shared keywords that an edge needs more of).
        path: as in `path_lengths`.
        measure: that the values are of.
        title: of the picture.

    Raises:
        EvaluationError: as in `path_lengths`; or a setting is neither of the two.
        ParameterError, MissingExtraError: as in `path_lengths`.

    Source: IIER (arXiv 2408.02907), Figure 3.
    """
    points = _measured(rows, least=0.0)
    labels = {NEIGHBOURS: "nearest chunks with semantic edges, T", KEYWORD: "keywords shared by more than, K"}
    unknown = sorted({point.setting for point in points} - set(labels))
    if unknown:
        raise EvaluationError(f"settings of a density are 'neighbours' and 'keyword', got {unknown[0]!r}")
    names = list(_by_name(points))
    limits, panels, caption = _limits(points), [], "First to last value of each threshold, and the best."
    for setting, label in labels.items():
        if held := [point for point in points if point.setting == setting]:
            panels.append(_panel(held, names, label, measure, limits=limits))
            caption += f" {setting}: {'; '.join(_best(name, of_name) for name, of_name in _by_name(held).items())}."
    return finished(Picture(title=title, caption=caption, panels=panels), path)


def training_history(
    epochs: Sequence[EpochMeasured | Mapping[str, Any]],
    path: str | Path | None = None,
    *,
    measure: str = "validation",
    title: str = "Training of the scorer",
) -> Picture | Path:
    """Draw the loss and a measure of validation by epoch; the best epoch, the first one of equals, stands out.

    Args:
        epochs: in any order; a value that was not measured is None.
        path: as in `path_lengths`.
        measure: name of what was validated by; higher is better.
        title: of the picture.

    Raises:
        EvaluationError: there is nothing measured, an epoch is there twice, or a number is not finite.
        ParameterError, MissingExtraError: as in `path_lengths`.
    """
    held = sorted((_row(EpochMeasured, each) for each in epochs), key=lambda each: each.epoch)
    if len({each.epoch for each in held}) < len(held):
        raise EvaluationError("an epoch is there twice. Try: the history of one training")
    losses = [(each.epoch, each.loss) for each in held if each.loss is not None]
    series = {
        "loss": losses,
        measure: [(each.epoch, each.validation) for each in held if each.validation is not None],
    }
    if not any(series.values()):
        raise EvaluationError("a picture of training needs at least one epoch with a loss or a validation")
    if not all(isfinite(value) for values in series.values() for _, value in values):
        raise EvaluationError("losses and validations must be finite numbers")
    panels, told = [], []
    for number, (name, values) in enumerate(series.items()):
        if not values:
            continue
        x, y = zip(*values, strict=True)
        marks: list[Mark] = [LineMark(x=x, y=y, label=name, series=number, dotted=True)]
        told.append(f"{name} {values[0][1]:.3f} → {values[-1][1]:.3f} in epochs {values[0][0]}–{values[-1][0]}")
        if name == measure:
            at, best = max(values, key=lambda pair: (pair[1], -pair[0]))
            marks.append(Points(x=[at], y=[best], label=f"best: epoch {at}", series=3, large=True))
            told.append(f"best {best:.3f} at epoch {at}")
        every = max(1, -(-len(values) // 12))  # so that there are at most about twelve ticks
        ticks = [(float(at), str(at)) for at, _ in values[::every]]
        panels.append(Panel(marks=marks, x=Axis(label="epoch", ticks=ticks), y=Axis(label=name)))
    return finished(Picture(title=title, caption=f"{'; '.join(told)}.", panels=panels), path)


def graph_degrees(
    graph: ChunkGraph, path: str | Path | None = None, *, title: str = "How many neighbours nodes have"
) -> Picture | Path:
    """Draw how many nodes have at least so many neighbours, a line for each kind of edge, on logarithmic axes.

    Args:
        graph: to count in; a mention is counted at both of its ends.
        path: as in `path_lengths`.
        title: of the picture.

    Raises:
        EvaluationError: the graph has no edge.
        ParameterError, MissingExtraError: as in `path_lengths`.
    """
    counts = {"all kinds": graph.degrees(), **{kind: graph.degrees(kind) for kind in kinds_in_order(graph.kinds)}}
    if not len(graph) or not counts["all kinds"].any():
        raise EvaluationError("a picture of degrees needs a graph with at least one edge")
    marks: list[Mark] = []
    told = []
    for number, (name, degrees) in enumerate(counts.items()):
        steps, nodes = np.unique(degrees[degrees > 0], return_counts=True)
        if len(steps):
            reached = np.cumsum(nodes[::-1])[::-1]
            marks.append(
                LineMark(
                    x=[float(x) for x in steps], y=[float(y) for y in reached], label=name,
                    series=number - 1 if number else BACKGROUND, dotted=len(steps) == 1,
                )
            )  # fmt: skip
        told.append(
            f"{name} {degrees.mean():.1f} ({int((degrees == 0).sum()):,} have none, the most {degrees.max():,})"
        )
    most, size = float(max(counts["all kinds"].max(), 1)), float(len(graph))
    x = Axis(label="neighbours, at least", logarithmic=True, limits=(0.9, 1.2 * most), ticks=decades(1.0, most))
    y = Axis(label="nodes", logarithmic=True, limits=(0.8, 1.4 * size), ticks=decades(1.0, size))
    caption = f"{len(graph):,} nodes; neighbours on average: {', '.join(told)}."
    return one_panel(marks, x, y, path, title=title, caption=caption)


def _row(kind: type[Any], given: Any) -> Any:
    """Return a row as a value of its kind."""
    if isinstance(given, kind):
        return given
    allowed = [field.name for field in fields(kind)]
    try:
        return kind(**given)
    except TypeError as error:
        raise ParameterError("rows", given, f"{kind.__name__} or dicts with keys of {', '.join(allowed)}") from error


def _measured(rows: Sequence[Row], *, least: float = 1.0) -> list[Measured]:
    """Return the rows, checked, by name in the order given and by the value of the setting."""
    points: list[Measured] = [_row(Measured, row) for row in rows]
    if not points:
        raise EvaluationError("a picture of a study needs at least one row")
    if len({(point.name, point.setting, point.at) for point in points}) < len(points):
        raise EvaluationError("two rows are of one name and one setting. Try: another name for one of them")
    for point in points:
        low, high = _interval(point)
        if not (isfinite(point.at) and point.at >= least):
            raise EvaluationError(f"{point.name!r}: {point.setting} must be >= {least:g}, got {point.at!r}")
        if not 0 <= low <= point.value <= high <= 1:
            raise EvaluationError(
                f"{point.name!r} at {point.at:g}: values must be shares in [0, 1] with low <= value <= high, got "
                f"{point.value!r} in ({low!r}, {high!r})"
            )
    names = list(dict.fromkeys(point.name for point in points))
    return sorted(points, key=lambda point: (names.index(point.name), point.at))


def _interval(point: Measured) -> tuple[float, float]:
    return (point.value if point.low is None else point.low, point.value if point.high is None else point.high)


def _by_name(points: Sequence[Measured]) -> dict[str, list[Measured]]:
    return {name: [each for each in points if each.name == name] for name in dict.fromkeys(p.name for p in points)}


def _limits(points: Sequence[Measured]) -> tuple[float, float]:
    """Return a scale that all values and intervals fit on, no more of it than they need."""
    low, high = min(_interval(point)[0] for point in points), max(_interval(point)[1] for point in points)
    room = max(0.02, 0.15 * (high - low))
    return max(0.0, low - room), min(1.02, high + room)


def _panel(
    points: Sequence[Measured],
    names: Sequence[str],
    label: str,
    measure: str,
    *,
    limits: tuple[float, float] | None = None,
) -> Panel:
    lines = [
        measured_line(
            name,
            names.index(name),
            ((point.at, point.value, *_interval(point)) for point in held),
            banded=any(point.low is not None for point in held),
        )
        for name, held in _by_name(points).items()
    ]
    ticks = [(at, f"{at:g}") for at in sorted({point.at for point in points})]
    return Panel(
        marks=lines, x=Axis(label=label, ticks=ticks), y=Axis(label=measure, limits=limits or _limits(points))
    )


def _ends(name: str, held: Sequence[Measured]) -> str:
    told = f"{name} {held[0].value:.3f} at {held[0].at:g}"
    return told if len(held) == 1 else f"{told} → {held[-1].value:.3f} at {held[-1].at:g}"


def _best(name: str, held: Sequence[Measured]) -> str:
    best = max(held, key=lambda point: (point.value, -point.at))
    return f"{name} {held[0].value:.3f} → {held[-1].value:.3f}, best {best.value:.3f} at {best.at:g}"

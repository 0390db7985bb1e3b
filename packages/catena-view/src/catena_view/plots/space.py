"""Pictures of vectors: groups on a plane, shifts of tables, distances of questions; numbers beside each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import fsum, isfinite
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from catena.evaluation import CohesionStudy, Method, Projection, Shift, project
from catena.model import EvaluationError, ParameterError
from catena_view.plots.picture import (
    BACKGROUND,
    Arrows,
    Axis,
    LineMark,
    Mark,
    Panel,
    Picture,
    Points,
    finished,
    one_panel,
)

_MARGIN = 0.05  # of the width, around the points
_MOST_LINES = 200  # of more questions, lines would be a grey field


def cohesion(
    found: CohesionStudy,
    path: str | Path | None = None,
    *,
    method: Method = "pca",
    shown: int = 7,
    title: str = "Cohesion",
    perplexity: float = 30.0,
    seed: int = 0,
) -> Picture | Path:
    """Draw the pieces of a study on one plane, a panel for each way to write them, on the same axes.

    The largest groups have colours and shapes, the rest is grey. The numbers are of all groups (HiQA, Figures 7-9).

    Args:
        found: from `evaluation.cohesion.study`.
        path: a .png or .html to write; None returns the picture.
        method: "pca" or "t-sne".
        shown: how many groups are coloured, 1 to 7.
        title: of the picture.
        perplexity: of t-SNE.
        seed: of t-SNE.

    Raises:
        ParameterError: a parameter is outside its domain, or the suffix is not known.
        EvaluationError: there are fewer than 3 pieces.
        MissingExtraError: the library that draws, or scikit-learn for t-SNE, is not installed.
    """
    if not 1 <= shown <= 7:
        raise ParameterError("shown", shown, "1 to 7 groups: there are as many colours")
    plane = project(found.vectors, method=method, perplexity=perplexity, seed=seed)
    counts = Counter(label for label in found.labels if label is not None)
    largest = [label for label, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:shown]]
    x, y = _axes(plane)
    panels = [
        Panel(title=_measures_title(name, found), marks=_groups(plane.points[name], found.labels, largest), x=x, y=y)
        for name in found.vectors
    ]
    numbers = "; ".join(f"{name}: {measure}" for name, measure in found.measures.items())
    picture = Picture(title=title, caption=f"{plane.note}. {numbers}.", panels=panels)
    return finished(picture, path)


def embedding_shift(
    found: Shift, path: str | Path | None = None, *, title: str = "Leaving out the data of tables"
) -> Picture | Path:
    """Draw questions and their texts before and after a change, with an arrow for each (HiQA, Table 3, Figure 14).

    On the left the inner products themselves, on the right the vectors on their first two principal axes.

    Args:
        found: from `evaluation.closeness.embedding_shift`.
        path: as in `cohesion`.
        title: of the picture.

    Raises:
        ParameterError, MissingExtraError: as in `cohesion`.
    """
    pairs = len(found.before)
    rows = [float(number) for number in range(pairs)]
    order = sorted(range(pairs), key=lambda at: (found.after[at] - found.before[at], at))
    before, after = ([values[at] for at in order] for values in (found.before, found.after))
    left = Panel(
        title="inner product with the question",
        marks=[
            Arrows(tails=[*zip(before, rows, strict=True)], heads=[*zip(after, rows, strict=True)], label=""),
            Points(x=before, y=rows, label="before", series=1),
            Points(x=after, y=rows, label="after", series=0),
        ],
        x=Axis(label="⟨question, text⟩ of unit vectors"),
        y=Axis(label="pairs, by gain", ticks=[]),
    )
    plane = project({"points": found.points})
    points = plane.points["points"].reshape(pairs, 3, 2)
    old, new = ([(float(x), float(y)) for x, y in points[:, at]] for at in (1, 2))
    right = Panel(
        title="on the plane",
        marks=[
            Arrows(tails=old, heads=new, label=""),
            _points(points[:, 0], "question", 2),
            _points(points[:, 1], "before", 1),
            _points(points[:, 2], "after", 0),
        ],
        x=Axis(label="first axis"),
        y=Axis(label="second axis"),
    )
    better = found.comparison.wins
    caption = f"Mean {found}; nearer to the question after the change: {better} of {pairs}. Right: {plane.note}."
    return finished(Picture(title=title, caption=caption, panels=[left, right]), path)


def question_distances(
    distances: Mapping[str, Sequence[float]],
    path: str | Path | None = None,
    *,
    title: str = "How far questions are from their contexts",
) -> Picture | Path:
    """Draw the distance of each question to its context, for several ways to write the contexts (HiQA, Figure 10).

    Args:
        distances: by way, from `evaluation.closeness.question_distances`; one per question in each.
        path: as in `cohesion`.
        title: of the picture.

    Raises:
        EvaluationError: there is no way, or the ways have not one finite distance per question each.
        ParameterError, MissingExtraError: as in `cohesion`.
    """
    sizes = {len(values) for values in distances.values()}
    if len(sizes) != 1 or 0 in sizes:
        raise EvaluationError("distances need one number per question for every way, and at least one question")
    if not all(isfinite(value) for values in distances.values() for value in values):
        raise EvaluationError("distances must be finite numbers")
    n = sizes.pop()
    rows = [float(number) for number in range(len(distances))]
    lines = zip(*distances.values(), strict=True) if n <= _MOST_LINES else ()
    marks: list[Mark] = [LineMark(x=x, y=rows, label="one question", series=BACKGROUND - 3) for x in lines]
    marks += [
        Points(x=list(values), y=[rows[number]] * n, label=name, series=number)
        for number, (name, values) in enumerate(distances.items())
    ]
    means = {name: fsum(values) / n for name, values in distances.items()}
    marks.append(Points(x=list(means.values()), y=rows, label="mean", series=6, large=True))
    told = ", ".join(f"{name} {mean:.3f}" for name, mean in means.items())
    return one_panel(
        marks,
        Axis(label="cosine distance of question and context"),
        Axis(ticks=[*zip(rows, distances, strict=True)], limits=(len(rows) - 0.5, -0.5)),
        path,
        title=title,
        caption=f"Mean distance 1 − ⟨question, context⟩ of unit vectors: {told}; {n:,} questions.",
        height=max(2.8, 1.8 + 0.7 * len(distances)),
    )


def _groups(points: NDArray[np.float64], labels: Sequence[str | None], largest: Sequence[str]) -> list[Mark]:
    places = {label: number for number, label in enumerate(largest)}
    rest = [at for at, label in enumerate(labels) if label not in places]
    marks: list[Mark] = []
    if rest:
        names = [labels[at] or "" for at in rest]
        marks.append(_points(points[rest], "others", BACKGROUND, names if any(names) else ()))
    for label, number in places.items():
        held = [at for at, each in enumerate(labels) if each == label]
        marks.append(_points(points[held], _short(label), number, [label] * len(held)))
    return marks


def _points(points: NDArray[np.float64], label: str, series: int, names: Sequence[str] = ()) -> Points:
    return Points(
        x=[*map(float, points[:, 0])], y=[*map(float, points[:, 1])], label=label, series=series, names=names
    )


def _measures_title(name: str, found: CohesionStudy) -> str:
    measure = found.measures[name]
    shown = "undefined" if measure.silhouette is None else f"{measure.silhouette:.3f}"
    within = "" if measure.within is None else f", distance within {measure.within:.3f}"
    return f"{name}\nsilhouette {shown}{within}"


def _axes(plane: Projection) -> tuple[Axis, Axis]:
    """Return one pair of axes for all sets."""
    everything = np.concatenate(list(plane.points.values()))
    low, high = everything.min(axis=0), everything.max(axis=0)
    room = np.maximum((high - low) * _MARGIN, 1e-9)
    ends = [(float(low[at] - room[at]), float(high[at] + room[at])) for at in range(2)]
    names = ("first axis", "second axis") if plane.method == "pca" else ("t-SNE 1", "t-SNE 2")
    return Axis(label=names[0], limits=ends[0]), Axis(label=names[1], limits=ends[1])


def _short(label: str, most: int = 28) -> str:
    """Return a label cut in front: ids of documents differ at their ends."""
    return label if len(label) <= most else f"…{label[-most:]}"

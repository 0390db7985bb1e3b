"""The pictures of `catena-bench graph`, drawn from its flat figures: what was printed is what is seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from catena import plots
from catena.evaluation import MeanScore
from catena.plots import Measured

Figures = Mapping[str, float | str]
_LEVEL = 0.95  # of the intervals


def draw(figures: Figures, methods: Sequence[str], folder: Path) -> list[Path]:
    """Draw recall and all evidence at 5 by method, and each study that was made; return the files.

    Args:
        figures: of `graph.run`.
        methods: those that were measured, in the order of the rows.
        folder: made where it is not there.

    Raises:
        MissingExtraError: the library that draws is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawn: list[Path] = []
    note = f"{figures['n_questions']:,} questions over {figures['n_passages']:,} passages"
    for measure in ("recall_at_5", "all_at_5"):
        scores = {method: _score(figures, measure, method) for method in methods}
        if scores:
            drawn.append(folder / f"{measure}.png")
            plots.ablation(scores, drawn[-1], measure=measure.replace("_", " "), note=note)
    points = [_point(figures, key) for key in figures if key.startswith("match_rate.") and key.count(".") == 2]
    for name, settings, picture in (
        ("path_lengths", {"length"}, plots.path_lengths),
        ("graph_density", {"neighbours", "keyword"}, plots.graph_density),
    ):
        if rows := [point for point in points if point.setting in settings]:
            drawn.append(folder / f"{name}.png")
            picture(rows, drawn[-1])
    return drawn


def _score(figures: Figures, measure: str, method: str) -> MeanScore:
    ends = (_share(figures, f"{measure}.low.{method}"), _share(figures, f"{measure}.high.{method}"))
    return MeanScore(
        value=_share(figures, f"{measure}.{method}") or 0.0,
        interval=None if ends[0] is None or ends[1] is None else (ends[0], ends[1]),
        level=_LEVEL,
        n=int(figures["n_questions"]),
    )


def _point(figures: Figures, key: str) -> Measured:
    """Return the point of a figure named `match_rate.SETTING_AT.SCORER`."""
    measure, setting_at, scorer = key.split(".")
    setting, _, at = setting_at.rpartition("_")
    return Measured(
        name=scorer,
        at=float(at),
        value=_share(figures, key) or 0.0,
        low=_share(figures, f"{measure}.low.{setting_at}.{scorer}"),
        high=_share(figures, f"{measure}.high.{setting_at}.{scorer}"),
        setting=setting,
    )


def _share(figures: Figures, key: str) -> float | None:
    return float(figures[key]) / 100 if key in figures else None

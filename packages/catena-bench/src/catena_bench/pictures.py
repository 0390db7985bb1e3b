"""The pictures of benchmarks, drawn from their flat figures: what was printed is what is seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

from catena import plots
from catena.evaluation import MeanScore
from catena.plots import Picture
from catena.plots.picture import Axis, Line, Panel
from catena.segments import Bin, Reliability
from catena_bench.segments import BUDGETS, MEAN, USUAL
from catena_bench.segments_systems import HEADERS
from catena_bench.views_picture import views

Figures = Mapping[str, float]
_SYSTEMS = {"greedy": "Catena, greedy", "optimal": "Catena, optimal", "dsrag": "dsRAG"}
_LEVEL = 0.95  # of the intervals that the benchmarks give


def ablation(figures: Figures, path: Path) -> None:
    """Draw the mean Log-Rank Index of every row with its interval (HiQA, Table 2)."""
    rows = [key.removeprefix("lri.mean.") for key in figures if key.startswith("lri.mean.")]
    n = max(figures[key] for key in figures if key.startswith("n_chunks."))
    scores = {
        row: _score(figures, f"lri.mean.{row}", f"lri.low.{row}", f"lri.high.{row}") for row in _by_system(rows)
    }
    order = "holds" if figures["order.holds"] else "does not hold"
    note = f"gamma 1, N = {n:,.0f}. The paper's order full > no cascade ≥ no metadata > fixed {order}."
    plots.ablation(scores, path, note=note)


def degradation(figures: Figures, path: Path) -> None:
    """Draw recall against the number of documents (HiQA, Figure 2)."""
    systems: defaultdict[str, list[tuple[int, MeanScore]]] = defaultdict(list)
    for key in figures:
        measure, _, rest = key.partition(".")
        system, _, size = rest.rpartition(".")
        if measure == "recall" and size.isdecimal():
            systems[system].append((int(size), _score(figures, key, f"{key}.low", f"{key}.high")))
    plots.degradation({name: sorted(points, key=lambda point: point[0]) for name, points in systems.items()}, path)


def similar_docs(figures: Figures, path: Path) -> None:
    """Draw recall by method over all questions."""
    methods = [key.removeprefix("recall.") for key in figures if key.startswith("recall.") and key.count(".") == 1]
    n = round(figures["n_judged"])
    scores = {m: MeanScore(value=figures[f"recall.{m}"], interval=None, level=_LEVEL, n=n) for m in methods}
    plots.ablation(scores, path, measure="recall at max(5, gold sections)")


def calibration(figures: Figures, path: Path) -> None:
    """Draw the reliability of the cosines as they are, and calibrated."""
    curves = {}
    for method, name in (("raw", "cosine, as it is"), ("labelled", "calibrated on the train split")):
        keys = sorted(
            key.removesuffix(".n") for key in figures if key.startswith(f"bin.{method}.") and key.endswith(".n")
        )
        bins = tuple(
            Bin(
                predicted=figures[f"{key}.predicted"],
                observed=figures[f"{key}.observed"],
                n=round(figures[f"{key}.n"]),
            )
            for key in keys
        )
        if bins:
            curves[name] = Reliability.of(bins, "mass")
    plots.reliability_diagram(curves, path, title="Reliability on the dev split")


def segments(figures: Figures, path: Path) -> None:
    """Draw the recall of evidence against the tokens given, a panel for each collection."""
    names = [key.removeprefix("n.") for key in figures if key.startswith("n.")]
    panels = [
        Panel(
            title=name,
            marks=[_recall_line(figures, name, system, number) for number, system in enumerate(DRAWN)],
            x=Axis(label="tokens", ticks=[(float(b), f"{b:,}") for b in BUDGETS], logarithmic=True),
            y=Axis(label="recall of evidence", limits=(0, 1.02)),
        )
        for name in names
    ]
    told = "; ".join(
        f"{name} " + ", ".join(f"{system} {figures[_recall(name, system, MEAN)]:.3f}" for system in DRAWN)
        for name in names
    )
    caption = f"Mean over the budgets: {told}. Fused search; the reader's headers are counted."
    Picture(title="Evidence at equal tokens", caption=caption, panels=panels).save(path)


DRAWN = tuple(f"{name}{HEADERS}" for name in ("topk", "window", "section", "article", "greedy", "lent"))


def _recall(collection: str, system: str, budget: int | str) -> str:
    return f"recall.{collection}.fused.{USUAL}.{system}.{budget}"


def _recall_line(figures: Figures, collection: str, system: str, number: int) -> Line:
    y = [figures[_recall(collection, system, budget)] for budget in BUDGETS]
    return Line(x=[float(budget) for budget in BUDGETS], y=y, label=system, series=number, dotted=True)


def segment_speed(figures: Figures, path: Path) -> None:
    """Draw the milliseconds of each system over the number of chunks, a panel for each case."""
    cases: dict[str, dict[str, list[plots.Cost]]] = {}
    for key in figures:
        measure, _, rest = key.partition(".")
        name, _, size = rest.rpartition(".")
        if measure == "milliseconds" and size.isdecimal():
            case, _, system = name.partition(".")
            cost = plots.Cost(
                size=int(size), milliseconds=figures[key], low=figures[f"{key}.low"], high=figures[f"{key}.high"]
            )
            cases.setdefault(case.replace("_", " "), {}).setdefault(_SYSTEMS[system], []).append(cost)
    plots.cost_growth(cases, path, title="What segment extraction costs, for six queries")


PICTURES: Mapping[str, Callable[[Figures, Path], None]] = {
    "ablation": ablation,
    "degradation": degradation,
    "similar-docs": similar_docs,
    "segments": segments,
    "calibration": calibration,
    "segment-speed": segment_speed,
    "views": views,
}


def _score(figures: Figures, mean: str, low: str, high: str) -> MeanScore:
    n = round(figures["n_judged"])
    return MeanScore(value=figures[mean], interval=(figures[low], figures[high]), level=_LEVEL, n=n)


def _by_system(rows: list[str]) -> list[str]:
    """Return the rows with all routes first, then those without the keyword route."""
    return sorted(rows, key=lambda row: row.endswith("_words"))

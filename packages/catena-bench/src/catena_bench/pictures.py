"""Draw the pictures of benchmarks from their flat figures."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.table import Table

from catena.evaluation import MeanScore
from catena.segments import Bin, Reliability
from catena_bench.calibration import DRAWN as CURVES
from catena_bench.everyday import MEASURES
from catena_bench.segments import BUDGETS, HEADERS, MEAN, USUAL
from catena_bench.views import BUDGETS as READ_TOKENS
from catena_bench.views import CUTOFFS
from catena_view import plots
from catena_view.plots import Measured, Picture
from catena_view.plots.picture import Axis, LineMark, Panel

Figures = Mapping[str, float]
_SYSTEMS = {"greedy": "Catena, greedy", "optimal": "Catena, optimal", "dsrag": "dsRAG"}
_LEVEL = 0.95  # of the intervals that the benchmarks give


DRAWN = tuple(f"{name}{HEADERS}" for name in ("topk", "window", "section", "article", "greedy", "lent"))
VIEWS_DRAWN = ("fixed100", "fixed200", "fixed300", "sections", "passages", "views_exact", "default")
_ROW = re.compile(r"(?P<document>.+)\.(?P<retriever>\w+)\.(?P<method>\w+)\.tokens500")
_EVERYDAY = re.compile(r"(?P<set>.+)\.(?P<method>\w+)\.r1")
_COLUMNS = (*(f"k{k:g}" for k in CUTOFFS), *(f"tokens{budget}" for budget in READ_TOKENS))


def ablation(figures: Figures, path: Path) -> None:
    """Draw the mean Log-Rank Index of every row with its interval (HiQA, Table 2)."""
    rows = [key.removeprefix("lri.mean.") for key in figures if key.startswith("lri.mean.")]
    n = max(figures[key] for key in figures if key.startswith("n_chunks."))
    scores = {
        row: _score(figures, f"lri.mean.{row}", f"lri.low.{row}", f"lri.high.{row}")
        for row in sorted(rows, key=lambda row: row.endswith("_words"))  # those with all routes first
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


def everyday(figures: Figures, path: Path) -> None:
    """Draw the evidence found within 500 tokens by method, the mean over the sets."""
    keys = [key for key in figures if key.startswith("mean.") and key.endswith(".t500")]
    n = round(sum(value for key, value in figures.items() if key.endswith(".questions")))
    scores = {key.split(".")[1]: MeanScore(value=figures[key], interval=None, level=_LEVEL, n=n) for key in keys}
    plots.ablation(scores, path, measure="evidence within 500 tokens")


def calibration(figures: Figures, path: Path) -> None:
    """Draw the reliability of the cosines as they are, and calibrated."""
    curves = {}
    for method, name in CURVES.items():
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
    told = "; ".join(
        f"{name} " + ", ".join(f"{system} {figures[_recall(name, system, MEAN)]:.3f}" for system in DRAWN)
        for name in names
    )
    caption = f"Mean over the budgets: {told}. Fused search; the reader's headers are counted."
    panels = [
        _panel(name, "tokens", BUDGETS, Axis(label="recall of evidence", limits=(0, 1.02)), [
            _line(system, number, BUDGETS, [figures[_recall(name, system, budget)] for budget in BUDGETS])
            for number, system in enumerate(DRAWN)
        ])
        for name in names
    ]  # fmt: skip
    Picture(title="Evidence at equal tokens", caption=caption, panels=panels).save(path)


def _recall(collection: str, system: str, budget: int | str) -> str:
    return f"recall.{collection}.fused.{USUAL}.{system}.{budget}"


def _panel(title: str, label: str, budgets: Sequence[int], y: Axis, marks: list[LineMark]) -> Panel:
    ticks = [(float(budget), f"{budget:,}") for budget in budgets]
    return Panel(title=title, marks=marks, x=Axis(label=label, ticks=ticks, logarithmic=True), y=y)


def _line(label: str, number: int, budgets: Sequence[int], y: list[float], *ends: list[float]) -> LineMark:
    low, high = ends or ((), ())
    return LineMark(x=[*map(float, budgets)], y=y, low=low, high=high, label=label, series=number, dotted=True)


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


def _score(figures: Figures, mean: str, low: str, high: str) -> MeanScore:
    n = round(figures["n_judged"])
    return MeanScore(value=figures[mean], interval=(figures[low], figures[high]), level=_LEVEL, n=n)


def views(figures: Figures, path: Path) -> None:
    """Draw recall against the tokens that are read, a panel for each document; the band is the default's interval."""
    names = [key.removesuffix(".n_questions") for key in figures if key.endswith(".n_questions")]
    told = "; ".join(
        f"{name} "
        + ", ".join(f"{method} {figures[f'{name}.fused.{method}.tokens500']:.1f}" for method in VIEWS_DRAWN)
        for name in names
    )
    caption = f"Fused search, the last piece cut. At 500 tokens: {told}. Band: 95% of the default's mean."

    def line(name: str, method: str, number: int) -> LineMark:
        ends = ("", ".low", ".high") if method == "default" else ("",)
        values = [[figures[f"{name}.fused.{method}.tokens{n}{end}"] for n in READ_TOKENS] for end in ends]
        return _line(method, number, READ_TOKENS, *values)

    y = Axis(label="evidence covered, percent", limits=(0, 102))
    panels = [
        _panel(f"{name} ({figures[f'{name}.n_questions']:.0f} questions)", "tokens read", READ_TOKENS, y, [
            line(name, method, number) for number, method in enumerate(VIEWS_DRAWN)
        ])
        for name in names
    ]  # fmt: skip
    Picture(title="Answer scopes at equal tokens", caption=caption, panels=panels).save(path)


def views_table(title: str, figures: Figures) -> Table:
    """Return recall in percent by document, retriever and method, at every k and budget."""
    shown = Table("document", "retriever", "method", *_COLUMNS, title=title)
    for key in figures:
        if match := _ROW.fullmatch(key):
            values = (figures[key.replace("tokens500", column)] for column in _COLUMNS)
            shown.add_row(*match.groups(), *(f"{value:.1f}" for value in values))
    return shown


def everyday_table(title: str, figures: Figures) -> Table:
    """Return every measure by set and method."""
    shown = Table("set", "method", *MEASURES, title=title, box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for key in figures:
        if match := _EVERYDAY.fullmatch(key):
            values = (figures[key.removesuffix("r1") + measure] for measure in MEASURES)
            shown.add_row(*match.groups(), *(f"{value:.3f}" for value in values))
    return shown


def draw(figures: Mapping[str, float | str], methods: Sequence[str], folder: Path) -> list[Path]:
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
        scores = {method: _mean_score(figures, measure, method) for method in methods}
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


def _mean_score(figures: Mapping[str, float | str], measure: str, method: str) -> MeanScore:
    ends = (_share(figures, f"{measure}.low.{method}"), _share(figures, f"{measure}.high.{method}"))
    return MeanScore(
        value=_share(figures, f"{measure}.{method}") or 0.0,
        interval=None if ends[0] is None or ends[1] is None else (ends[0], ends[1]),
        level=_LEVEL,
        n=int(figures["n_questions"]),
    )


def _point(figures: Mapping[str, float | str], key: str) -> Measured:
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


def _share(figures: Mapping[str, float | str], key: str) -> float | None:
    return float(figures[key]) / 100 if key in figures else None


PICTURES: Mapping[str, Callable[[Figures, Path], None]] = {
    "ablation": ablation,
    "degradation": degradation,
    "similar-docs": similar_docs,
    "everyday": everyday,
    "segments": segments,
    "calibration": calibration,
    "segment-speed": segment_speed,
    "views": views,
}

"""The picture and the table of `catena-bench views`: a few methods side by side, out of its many figures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from rich.table import Table

from catena.plots import Picture
from catena.plots.picture import Axis, Line, Panel
from catena_bench.views_measures import BUDGETS, CUTOFFS

Figures = Mapping[str, float]

DRAWN = ("fixed100", "fixed200", "fixed300", "sections", "passages", "views_exact", "default")
_ROW = re.compile(r"(?P<document>.+)\.(?P<retriever>\w+)\.(?P<method>\w+)\.tokens500")
_COLUMNS = (*(f"k{k:g}" for k in CUTOFFS), *(f"tokens{budget}" for budget in BUDGETS))


def views(figures: Figures, path: Path) -> None:
    """Draw recall against the tokens that are read, a panel for each document; the band is the default's interval."""
    names = [key.removesuffix(".n_questions") for key in figures if key.endswith(".n_questions")]
    panels = [
        Panel(
            title=f"{name} ({figures[f'{name}.n_questions']:.0f} questions)",
            marks=[_line(figures, f"{name}.fused.{method}", method, number) for number, method in enumerate(DRAWN)],
            x=Axis(label="tokens read", ticks=[(float(each), f"{each:,}") for each in BUDGETS], logarithmic=True),
            y=Axis(label="evidence covered, percent", limits=(0, 102)),
        )
        for name in names
    ]
    told = "; ".join(
        f"{name} " + ", ".join(f"{method} {figures[f'{name}.fused.{method}.tokens500']:.1f}" for method in DRAWN)
        for name in names
    )
    caption = f"Fused search, the last piece cut. At 500 tokens: {told}. Band: 95% of the default's mean."
    Picture(title="Answer scopes at equal tokens", caption=caption, panels=panels).save(path)


def table(title: str, figures: Figures) -> Table:
    """Return recall in percent by document, retriever and method, at every k and budget."""
    shown = Table("document", "retriever", "method", *_COLUMNS, title=title)
    for key in figures:
        if match := _ROW.fullmatch(key):
            values = (figures[key.replace("tokens500", column)] for column in _COLUMNS)
            shown.add_row(*match.groups(), *(f"{value:.1f}" for value in values))
    return shown


def _line(figures: Figures, key: str, method: str, number: int) -> Line:
    def values(end: str = "") -> list[float]:
        return [figures[f"{key}.tokens{budget}{end}"] for budget in BUDGETS]

    banded = method == "default"
    return Line(
        x=[float(budget) for budget in BUDGETS],
        y=values(),
        low=values(".low") if banded else (),
        high=values(".high") if banded else (),
        label=method,
        series=number,
        dotted=True,
    )

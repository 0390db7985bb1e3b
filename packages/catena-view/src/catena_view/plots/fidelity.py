"""The picture of a conversion: how faithful the Markdown of each page is, as a strip of coloured cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any, Protocol

from catena.model import EvaluationError, ParameterError
from catena_view.plots.picture import Axis, Cells, Mark, Panel, Picture, Points, finished

_ROWS = ("recall", "precision", "order")
_TAKEN = "llm"  # the state of a page whose first answer was taken; nothing is drawn above it


class FidelityPage(Protocol):
    """A page of a report: shares in [0, 1], whose text it has in the end, and what was wrong on the way."""

    @property
    def page(self) -> int: ...
    @property
    def recall(self) -> float: ...
    @property
    def precision(self) -> float: ...
    @property
    def order(self) -> float: ...
    @property
    def state(self) -> str: ...
    @property
    def faults(self) -> Sequence[Any]: ...


class FidelityReportLike(Protocol):
    """A report over the pages of one document, as `catena.formatting.fidelity_check.FidelityReport` is."""

    @property
    def pages(self) -> Sequence[FidelityPage]: ...


def fidelity_strip(
    report: FidelityReportLike,
    path: str | Path | None = None,
    *,
    floor: float = 0.9,
    title: str = "Fidelity of the Markdown, page by page",
) -> Picture | Path:
    """Draw recall, precision and order of each page as coloured cells, and mark the pages not taken at once.

    Args:
        report: with at least one page.
        path: a .png or .html to write; None returns the picture.
        floor: share in [0, 1) at which the darkest colour begins; all that is worse is as dark.
        title: of the picture.

    Raises:
        EvaluationError: there is no page, or a share is not in [0, 1].
        ParameterError: floor is outside its domain, or the suffix is not known.
        MissingExtraError: the library that draws is not installed.
    """
    if not 0 <= floor < 1:
        raise ParameterError("floor", floor, "a share in [0, 1)")
    pages = list(report.pages)
    if not pages:
        raise EvaluationError("a fidelity strip needs at least one page")
    _check_shares(pages)
    places = [float(page.page) for page in pages]
    marks: list[Mark] = [
        Cells(
            values=[[float(getattr(page, row)) for page in pages] for row in _ROWS],
            x=places,
            names=[[_told(page, row) for page in pages] for row in _ROWS],
            low=floor,
            high=1.0,
            label=f"share (darkest: {floor:g} and less)",
        )
    ]
    states = [state for state in dict.fromkeys(page.state for page in pages) if state != _TAKEN]
    for number, state in enumerate(states):
        held = [page for page in pages if page.state == state]
        above, names = [3.35 + 0.3 * number] * len(held), [_told(page, "recall") for page in held]
        marks.append(
            Points(x=[float(page.page) for page in held], y=above, label=state, series=number + 1, names=names)
        )
    ticks = [(number + 0.5, row) for number, row in enumerate(reversed(_ROWS))]
    panel = Panel(
        marks=marks,
        x=Axis(label="page", limits=(places[0] - 0.5, places[-1] + 0.5), ticks=_page_ticks(pages)),
        y=Axis(ticks=ticks, limits=(0, 3.1 + 0.3 * len(states) + (0.1 if states else 0))),
    )
    return finished(Picture(title=title, caption=_caption(pages), panels=[panel], height=2.9), path)


def _check_shares(pages: Sequence[FidelityPage]) -> None:
    for page in pages:
        for row in _ROWS:
            share = getattr(page, row)
            if not (isfinite(share) and 0 <= share <= 1):
                raise EvaluationError(f"page {page.page}: {row} must be a share in [0, 1], got {share!r}")


def _caption(pages: Sequence[FidelityPage]) -> str:
    means = ", ".join(f"{row} {sum(getattr(page, row) for page in pages) / len(pages):.3f}" for row in _ROWS)
    worst = min(pages, key=lambda page: (min(getattr(page, row) for row in _ROWS), page.page))
    states = ", ".join(f"{count} {state}" for state, count in sorted(Counter(page.state for page in pages).items()))
    faults = sum(len(page.faults) for page in pages)
    least = min(getattr(worst, row) for row in _ROWS)
    return (
        f"Means over {len(pages):,} pages: {means}. Pages by source: {states}. Faults found in answers: {faults:,}. "
        f"Least faithful: page {worst.page} ({least:.3f})."
    )


def _told(page: FidelityPage, row: str) -> str:
    faults = f", {len(page.faults)} faults" if page.faults else ""
    return f"page {page.page}: {row} {getattr(page, row):.3f}, {page.state}{faults}"


def _page_ticks(pages: Sequence[FidelityPage]) -> list[tuple[float, str]]:
    """Return at most about 20 round page numbers, and the first page where there is room for it."""
    step = next(size for size in (1, 2, 5, 10, 20, 50, 100, 200, 500, 10**9) if len(pages) / size <= 20)
    shown = [page.page for page in pages if page.page % step == 0]
    first = pages[0].page
    if not shown or shown[0] - first > step / 2:
        shown.insert(0, first)
    return [(float(page), str(page)) for page in shown]

"""The picture of cost: time over size, on logarithmic axes, on which a straight line is a power of the size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, log
from pathlib import Path

from catena.model.errors import EvaluationError
from catena.plots.picture import Axis, Line, Panel, Picture, finished


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one size cost: the median time of several runs, with the least and the most, in milliseconds."""

    size: int
    milliseconds: float
    low: float
    high: float


def cost_growth(
    cases: Mapping[str, Mapping[str, Sequence[Cost]]],
    path: str | Path | None = None,
    *,
    unit: str = "chunks",
    title: str = "How cost grows",
) -> Picture | Path:
    """Draw milliseconds over size, a panel for each case and in it a line for each system, with its spread.

    The caption states each line's time at its largest size, and by what power of the size it grew from the first
    size to the last: `ln(t2 / t1) / ln(n2 / n1)`.

    Args:
        cases: by name, in each the costs by system.
        path: a .png or .html to write; None returns the picture.
        unit: of the sizes.
        title: of the picture.

    Raises:
        EvaluationError: there is no case, system or cost; or a size or time is not > 0, which no logarithm has.
        ParameterError: the suffix is not known.
        MissingExtraError: the library that draws is not installed.
    """
    if not cases or not all(cases.values()) or not all(costs for each in cases.values() for costs in each.values()):
        raise EvaluationError("a picture of costs needs at least one case, a system in each, and a cost of each")
    systems = list(dict.fromkeys(system for each in cases.values() for system in each))
    ordered = {
        case: {system: sorted(costs, key=lambda cost: cost.size) for system, costs in each.items()}
        for case, each in cases.items()
    }
    every = [cost for each in ordered.values() for costs in each.values() for cost in costs]
    for cost in every:
        if cost.size <= 0 or not all(isfinite(t) and t > 0 for t in (cost.milliseconds, cost.low, cost.high)):
            raise EvaluationError(f"sizes and times must be finite and > 0, got {cost!r}")
    sizes = (0.8 * min(cost.size for cost in every), 1.25 * max(cost.size for cost in every))
    times = (0.7 * min(cost.low for cost in every), 1.4 * max(cost.high for cost in every))
    panels = [
        Panel(
            title=case,
            marks=[
                Line(
                    x=[float(cost.size) for cost in costs], y=[cost.milliseconds for cost in costs],
                    low=[cost.low for cost in costs], high=[cost.high for cost in costs],
                    label=system, series=systems.index(system), dotted=True,
                )
                for system, costs in each.items()
            ],
            x=Axis(label=unit, limits=sizes, ticks=_decades(*sizes), logarithmic=True),
            y=Axis(label="milliseconds", limits=times, ticks=_decades(*times), logarithmic=True),
        )
        for case, each in ordered.items()
    ]  # fmt: skip
    told = "; ".join(
        f"{case}: " + ", ".join(_told(system, costs) for system, costs in each.items())
        for case, each in ordered.items()
    )
    caption = f"Median, with least and most. At the largest size, in milliseconds: {told}."
    return finished(Picture(title=title, caption=caption, panels=panels), path)


def _told(system: str, costs: Sequence[Cost]) -> str:
    first, last = costs[0], costs[-1]
    end = f"{system} {last.milliseconds:,.1f} ({last.low:,.1f}–{last.high:,.1f}) at {last.size:,}"
    if first.size == last.size:
        return end
    power = log(last.milliseconds / first.milliseconds) / log(last.size / first.size)
    return f"{end}, as size^{power:.2f}"


def _decades(low: float, high: float) -> list[tuple[float, str]]:
    """Return the powers of ten between two ends."""
    powers = (10.0**power for power in range(-9, 16))
    return [(power, f"{power:,.0f}" if power >= 1 else f"{power:g}") for power in powers if low <= power <= high]

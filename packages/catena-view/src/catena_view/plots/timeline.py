"""Draw time: what services and journal answered in runs, failures and cost over seconds; and cost over size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, log, nan
from pathlib import Path

from catena.effects import Budget, Clock, Event, EventKind
from catena.model import EvaluationError
from catena_view.plots.picture import (
    BACKGROUND,
    Axis,
    Labels,
    LineMark,
    Mark,
    Panel,
    Picture,
    finished,
    log_axis,
    measured_line,
    round_ticks,
)

_COUNTED: tuple[tuple[EventKind, str], ...] = (
    ("finished", "answered by a service"),
    ("cached", "answered by the journal"),
    ("retried", "tried again"),
    ("failed", "failed"),
)


_LEAST = 1 / 12  # of the axis, which also a run of no time takes: its name must have room


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Something happened to one request of a run.

    Attributes:
        seconds: since the run began, >= 0.
        kind: what happened, as in `Event`.
        cost: what the run had cost by then, in the currency of its tariff, >= 0.
    """

    seconds: float
    kind: EventKind
    cost: float = 0.0


class RunLog:
    """Keeps when what happened to the requests of one run: `library.index(paths, watch=log)`.

    Args:
        budget: whose spending is kept, too.
        clock: which says when.

    Attributes:
        moments: in the order in which they came.
    """

    def __init__(self, budget: Budget | None = None, clock: Clock | None = None) -> None:
        self.moments: list[Moment] = []
        self._budget, self._clock = budget, clock or Clock()
        self._began = self._clock.now()
        self._cost = budget.spent.cost if budget else 0.0  # of runs before this one

    def __call__(self, event: Event) -> None:
        """Keep one event; as `Services.progress` wants it."""
        cost = self._budget.spent.cost - self._cost if self._budget else 0.0
        self.moments.append(Moment(seconds=self._clock.now() - self._began, kind=event.kind, cost=cost))


def run_timeline(
    runs: Mapping[str, Sequence[Moment]], path: str | Path | None = None, *, title: str = "What the runs asked"
) -> Picture | Path:
    """Draw how many requests services and journal had answered at each moment, over runs one after the other.

    Counts go on from run to run, so that of a run that was killed and one that resumed it the sum is seen; each run's
    time begins where the one before it ended. Where anything cost something, a second panel shows the sum.

    Args:
        runs: by name, in their order, what happened in each, e.g. `RunLog.moments`.
        path: a .png or .html to write; None returns the picture.
        title: of the picture.

    Raises:
        EvaluationError: there is no run, nothing happened in any, or a time or a cost is not finite and >= 0.
        ParameterError: the suffix is not known.
        MissingExtraError: the library that draws is not installed.
    """
    if not any(runs.values()):
        raise EvaluationError("a timeline needs at least one run in which something happened. Try: watch=RunLog()")
    for moment in (moment for moments in runs.values() for moment in moments):
        if not all(isfinite(number) and number >= 0 for number in (moment.seconds, moment.cost)):
            raise EvaluationError(f"seconds and costs must be finite and >= 0, got {moment!r}")
    laid, ends = _end_to_end(runs)
    marks: list[Mark] = [
        line
        for number, (kind, label) in enumerate(_COUNTED)
        if (line := _counted(laid, kind, label, number, last=ends[-1])) is not None
    ]
    top = max((max(line.y) for line in marks if isinstance(line, LineMark)), default=1.0)
    begins = [begin + 0.004 * ends[-1] for begin in (0.0, *ends[:-1])]
    if len(runs) > 1:
        places = [place for end in ends[:-1] for place in (end, end, end)]
        heights = [0.0, 1.2 * top, nan] * (len(ends) - 1)
        marks.append(LineMark(x=places, y=heights, label="end of a run", series=BACKGROUND, hovers=False))
    marks.append(Labels(x=begins, y=[1.1 * top] * len(runs), texts=list(runs), names=list(runs), leading=True))
    time = Axis(label="seconds, runs one after the other", limits=(0.0, ends[-1] or 1.0))
    whole = [(at, text) for at, text in round_ticks(0.0, 1.2 * top) if at == round(at)]  # no half a request
    panels = [Panel(marks=marks, x=time, y=Axis(label="requests", limits=(0.0, 1.2 * top), ticks=whole))]
    costs = [max((moment.cost for moment in moments), default=0.0) for moments in runs.values()]
    if any(costs):
        panels.append(Panel(marks=[_cost(laid, costs)], x=time, y=Axis(label="cost", limits=(0.0, 1.1 * sum(costs)))))
    told = "; ".join(
        f"{name}: {_told(moments, cost)}" for (name, moments), cost in zip(runs.items(), costs, strict=True)
    )
    height = 3.6 if len(panels) == 1 else 5.6
    return finished(Picture(title=title, caption=f"{told}.", panels=panels, height=height, stacked=True), path)


def _end_to_end(runs: Mapping[str, Sequence[Moment]]) -> tuple[list[list[tuple[float, Moment]]], list[float]]:
    """Return the moments of each run with their places on the axis, and where each run ends."""
    laid, ends, begin = [], [], 0.0
    least = _LEAST * sum(max((moment.seconds for moment in moments), default=0.0) for moments in runs.values())
    for moments in runs.values():
        ordered = sorted(moments, key=lambda moment: moment.seconds)
        laid.append([(begin + moment.seconds, moment) for moment in ordered])
        begin += max(ordered[-1].seconds if ordered else 0.0, least)
        ends.append(begin)
    return laid, ends


def _counted(
    laid: Sequence[Sequence[tuple[float, Moment]]], kind: EventKind, label: str, number: int, *, last: float
) -> LineMark | None:
    places = [place for run in laid for place, moment in run if moment.kind == kind]
    if not places:
        return None
    counts = [float(count) for count in range(len(places) + 1)]
    return LineMark(x=[0.0, *places, last], y=[*counts, counts[-1]], label=label, series=number, step=True)


def _cost(laid: Sequence[Sequence[tuple[float, Moment]]], costs: Sequence[float]) -> LineMark:
    before = [sum(costs[:number]) for number in range(len(costs))]
    points = [(place, before[number] + moment.cost) for number, run in enumerate(laid) for place, moment in run]
    return LineMark(
        x=[0.0, *(place for place, _ in points)], y=[0.0, *(cost for _, cost in points)], label="cost so far",
        series=len(_COUNTED), step=True, filled=True,
    )  # fmt: skip


def _told(moments: Sequence[Moment], cost: float) -> str:
    counts = Counter(moment.kind for moment in moments)
    words = [f"{counts[kind]:,} {label}" for kind, label in _COUNTED if counts[kind]] or ["nothing asked"]
    return ", ".join(words) + (f", cost {cost:.4f}" if cost else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Time at one size: the median of several runs, with the least and the most, in milliseconds."""

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
                measured_line(
                    system,
                    systems.index(system),
                    ((float(cost.size), cost.milliseconds, cost.low, cost.high) for cost in costs),
                )
                for system, costs in each.items()
            ],
            x=log_axis(unit, *sizes),
            y=log_axis("milliseconds", *times),
        )
        for case, each in ordered.items()
    ]
    told = "; ".join(
        f"{case}: " + ", ".join(_cost_told(system, costs) for system, costs in each.items())
        for case, each in ordered.items()
    )
    caption = f"Median, with least and most. At the largest size, in milliseconds: {told}."
    return finished(Picture(title=title, caption=caption, panels=panels), path)


def _cost_told(system: str, costs: Sequence[Cost]) -> str:
    first, last = costs[0], costs[-1]
    end = f"{system} {last.milliseconds:,.1f} ({last.low:,.1f}–{last.high:,.1f}) at {last.size:,}"
    if first.size == last.size:
        return end
    power = log(last.milliseconds / first.milliseconds) / log(last.size / first.size)
    return f"{end}, as size^{power:.2f}"

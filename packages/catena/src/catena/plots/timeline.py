"""The picture of runs over time: what services and journal answered, what was tried again or failed, and the cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path

from catena.effects.budget import Budget
from catena.effects.services import Clock, Event, EventKind
from catena.model.errors import EvaluationError
from catena.plots.label_rows import round_ticks
from catena.plots.picture import BACKGROUND, Axis, Labels, Line, Mark, Panel, Picture, finished

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
    top = max((max(line.y) for line in marks if isinstance(line, Line)), default=1.0)
    begins = [begin + 0.004 * ends[-1] for begin in (0.0, *ends[:-1])]
    if len(runs) > 1:
        marks.append(_borders(ends[:-1], top))
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
) -> Line | None:
    places = [place for run in laid for place, moment in run if moment.kind == kind]
    if not places:
        return None
    counts = [float(count) for count in range(len(places) + 1)]
    return Line(x=[0.0, *places, last], y=[*counts, counts[-1]], label=label, series=number, step=True)


def _borders(ends: Sequence[float], top: float) -> Line:
    """Return upright lines where runs end."""
    places = [place for end in ends for place in (end, end, end)]
    heights = [height for _ in ends for height in (0.0, 1.2 * top, nan)]
    return Line(x=places, y=heights, label="end of a run", series=BACKGROUND, hovers=False)


def _cost(laid: Sequence[Sequence[tuple[float, Moment]]], costs: Sequence[float]) -> Line:
    before = [sum(costs[:number]) for number in range(len(costs))]
    points = [(place, before[number] + moment.cost) for number, run in enumerate(laid) for place, moment in run]
    return Line(
        x=[0.0, *(place for place, _ in points)], y=[0.0, *(cost for _, cost in points)], label="cost so far",
        series=len(_COUNTED), step=True, filled=True,
    )  # fmt: skip


def _told(moments: Sequence[Moment], cost: float) -> str:
    counts = Counter(moment.kind for moment in moments)
    words = [f"{counts[kind]:,} {label}" for kind, label in _COUNTED if counts[kind]] or ["nothing asked"]
    return ", ".join(words) + (f", cost {cost:.4f}" if cost else "")

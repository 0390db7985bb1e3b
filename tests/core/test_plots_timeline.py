"""The picture of runs over time: counts go on from run to run, and the caption states them."""

from __future__ import annotations

from itertools import pairwise
from math import inf, isnan, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_plots import marks

from catena.effects import Budget, Complete, Price, Services, Tariff, ask, run
from catena.model import EvaluationError, ServiceError
from catena.testing import FakeClock, FakeLLM, Flaky
from catena_view import plots
from catena_view.plots import Moment, RunLog
from catena_view.plots.picture import Labels, LineMark

KINDS = ("started", "finished", "failed", "retried", "cached")
moments = st.lists(
    st.builds(Moment, seconds=st.floats(0, 100), kind=st.sampled_from(KINDS), cost=st.floats(0, 9)), max_size=12
)


def moment(seconds, kind="finished", cost=0.0):
    return Moment(seconds=seconds, kind=kind, cost=cost)


def line(picture, label):
    found = (mark for panel in range(len(picture.panels)) for mark in marks(picture, LineMark, panel))
    return next(mark for mark in found if mark.label == label)


def test_a_killed_run_and_the_one_that_goes_on() -> None:
    killed = [moment(0, "started"), moment(2, cost=0.5), moment(4, cost=1.0), moment(5, "retried", 1.0)]
    resumed = [moment(0, "cached"), moment(0, "cached"), moment(3, cost=0.25), moment(4, "failed", 0.25)]
    made = plots.run_timeline({"killed": killed, "resumed": resumed})
    assert made.caption == (
        "killed: 2 answered by a service, 1 tried again, cost 1.0000; "
        "resumed: 1 answered by a service, 2 answered by the journal, 1 failed, cost 0.2500."
    )
    served = line(made, "answered by a service")
    assert (served.x, served.y) == ([0.0, 2, 4, 8, 9], [0.0, 1.0, 2.0, 3.0, 3.0])  # the second run begins at 5
    assert line(made, "answered by the journal").x == [0.0, 5, 5, 9]
    assert [at for at in line(made, "end of a run").x if not isnan(at)] == [5, 5, 5]
    assert line(made, "cost so far").y == [0.0, 0.0, 0.5, 1.0, 1.0, 1.0, 1.0, 1.25, 1.25]
    (names,) = marks(made, Labels)
    assert (names.x, names.texts) == ([pytest.approx(0.036), pytest.approx(5.036)], ["killed", "resumed"])
    timeless = plots.run_timeline({"at once": [moment(0)], "long": [moment(12)]})
    assert timeless.panels[0].x.limits == (0.0, 13.0)  # the name of the first has room


@given(st.dictionaries(st.text("abc", min_size=1), moments, min_size=1, max_size=4))
def test_every_answer_is_one_step_up_and_time_never_goes_back(runs: dict[str, list[Moment]]) -> None:
    if not any(runs.values()):
        with pytest.raises(EvaluationError, match=r"at least one run .* Try: watch=RunLog\(\)"):
            plots.run_timeline(runs)
        return
    made = plots.run_timeline(runs)
    for mark in marks(made, LineMark):
        if mark.label != "end of a run":
            assert all(one <= other for values in (mark.x, mark.y) for one, other in pairwise(values))
            kind = {"answered by a service": "finished", "answered by the journal": "cached"}.get(mark.label)
            if kind:
                assert mark.y[-1] == sum(each.kind == kind for of in runs.values() for each in of)


@pytest.mark.parametrize("wrong", [moment(-1.0), moment(nan), moment(1.0, cost=inf), moment(1.0, cost=-0.1)])
def test_times_and_costs_that_nothing_can_be_drawn_of(wrong: Moment) -> None:
    with pytest.raises(EvaluationError, match="seconds and costs must be finite and >= 0"):
        plots.run_timeline({"run": [wrong]})


def test_a_log_keeps_what_happened_when_and_at_which_cost() -> None:
    clock, budget = FakeClock(now=50.0), Budget(1.0, tariff=Tariff(prices={Complete: Price(call=0.25)}))
    model = Flaky(FakeLLM(), [ServiceError("fake", "busy", retry=True, retry_after=3.0)])
    seen = []
    for _ in range(2):  # each log counts its own run's time and cost
        log = RunLog(budget, clock)
        run(
            ask([Complete(prompt="?", purpose="question")]),
            Services(llm=model, budget=budget, progress=log, clock=clock),
        )
        seen.append([(each.kind, each.seconds, each.cost) for each in log.moments])
    assert seen[0] == [("started", 0.0, 0.0), ("retried", 0.0, 0.0), ("started", 3.0, 0.0), ("finished", 3.0, 0.25)]
    assert seen[1] == [("started", 0.0, 0.0), ("finished", 0.0, 0.25)]


@pytest.mark.parametrize("answered", [1, 2, 7, 40, 900])
def test_requests_are_counted_in_whole_numbers(answered):
    ticks = plots.run_timeline({"one": [moment(float(at)) for at in range(answered)]}).panels[0].y.ticks
    assert len(ticks) >= 2
    assert all(text == str(int(at)) for at, text in ticks)

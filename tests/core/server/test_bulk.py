"""Bulk calls: in batches, again where the server was busy, and whatever is refused is in the report."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.effects import Failed
from catena.model import ServerError
from catena_server import BulkOptions, Call, Pause, send
from catena_server.actions import Action
from catena_server.bulk import BulkReport

TO: Any = {"chunks": "b-bulk-chunks"}


def actions(n: int, size: int = 10) -> Iterator[Action]:
    return (Action(op="index", part="chunks", id=f"c{at:03}", source={"text": "x" * size}) for at in range(n))


def answer(call: Call, statuses: dict[str, list[int]], kind: str = "busy") -> dict[str, Any]:
    """Answer a bulk call; each sending of an id takes the next of its statuses, then 201."""
    items = []
    for line in (line for line in call.lines or () if "index" in line or "delete" in line):
        ((op, about),) = line.items()
        status = statuses[about["_id"]].pop(0) if statuses.get(about["_id"]) else 201
        error = {} if status < 300 else {"error": {"type": kind, "reason": "no", "caused_by": {"reason": "really"}}}
        items.append({op: {"status": status, **error}})
    return {"errors": True, "items": items}


def drive(
    step: Any, statuses: dict[str, list[int]] | None = None, replies: list[Any] | None = None
) -> tuple[BulkReport, list[Any]]:
    """Run a sending; whole calls are answered by `replies` first."""
    made: list[Any] = []
    given_replies = list(replies or ())
    requests = next(step)
    try:
        while True:
            made.append(requests)
            sent = []
            for request in requests:
                if isinstance(request, Pause):
                    sent.append(None)
                else:
                    sent.append(given_replies.pop(0) if given_replies else answer(request, statuses or {}))
            requests = step.send(sent)
    except StopIteration as done:
        return done.value, made


def ids(request: Call) -> list[str]:
    return [about["_id"] for line in request.lines or () for about in line.values() if isinstance(about, dict)]


def told(batches: list[Any]) -> list[Any]:
    """Return the ids of each call, and the seconds of each pause."""
    return [[ids(r) if isinstance(r, Call) else r.seconds for r in batch] for batch in batches]


def test_batches_are_cut_by_number_and_by_bytes_and_few_are_held() -> None:
    taken: list[str] = []

    def watched() -> Iterator[Action]:
        for action in actions(10):
            taken.append(action.id)
            yield action

    step = send(watched(), TO, BulkOptions(actions=2, in_flight=2))
    first = next(step)
    assert [ids(call) for call in first] == [["c000", "c001"], ["c002", "c003"]]
    assert len(taken) <= 5  # one beyond the batches shows that the second is full
    report, _ = drive(send(actions(10), TO, BulkOptions(actions=2)))
    assert report == BulkReport(done=10)
    _, made = drive(send(actions(6, size=1_000), TO, BulkOptions(bytes=2_500, in_flight=9)))
    assert [len(ids(call)) for call in made[0]] == [2, 2, 2]
    _, made = drive(send(actions(2, size=5_000), TO, BulkOptions(bytes=2_500, in_flight=9)))
    assert [len(ids(call)) for call in made[0]] == [1, 1]  # larger than allowed: alone


def test_a_call_names_alias_and_id_and_makes_no_index() -> None:
    both = [Action(op="index", part="chunks", id="a", source={"x": 1}), Action(op="delete", part="chunks", id="b")]
    _, ((call,),) = drive(send(both, TO))
    assert call.params["require_alias"] is True
    assert list(call.lines) == [
        {"index": {"_index": "b-bulk-chunks", "_id": "a"}}, {"x": 1},
        {"delete": {"_index": "b-bulk-chunks", "_id": "b"}},
    ]  # fmt: skip


def test_busy_items_are_sent_again_after_growing_pauses_and_no_others() -> None:
    report, made = drive(send(actions(3), TO, BulkOptions(base_seconds=1.0)), {"c001": [429, 503]})
    assert told(made) == [[["c000", "c001", "c002"]], [1.0], [["c001"]], [2.0], [["c001"]]]
    assert report == BulkReport(done=3, again=2)


def test_a_refused_item_is_reported_and_stops_nothing() -> None:
    statuses = {"c000": [400], "c002": [429] * 3}
    report, _ = drive(send(actions(4), TO, BulkOptions(attempts=3, actions=1)), statuses)
    assert report.done == 2
    assert [(f.id, f.status, f.kind, f.reason) for f in report.failures] == [
        ("c000", 400, "busy", "no (really)"), ("c002", 429, "busy", "no (really)"),
    ]  # fmt: skip
    with pytest.raises(ServerError, match=r"2 of 4 were refused, the first of them 'c000'.*all others are written"):
        report.check("a test")


def test_a_call_that_did_not_arrive_is_sent_again_as_it_was() -> None:
    lost = Failed(ServerError("s", "connection reset", retry=True, retry_after=7.0))
    report, made = drive(send(actions(2), TO, BulkOptions(actions=2)), replies=[lost])
    assert told(made) == [[["c000", "c001"]], [7.0], [["c000", "c001"]]]
    assert report == BulkReport(done=2, again=2)


@pytest.mark.parametrize("status", [None, 502, 503, 504])
def test_a_server_that_is_not_reached_to_the_last_ends_the_run(status: int | None) -> None:
    lost = ServerError("s", "no answer", retry=True, status=status)
    left = iter(actions(9))
    with pytest.raises(ServerError) as raised:
        drive(send(left, TO, BulkOptions(actions=1, in_flight=1, attempts=3)), replies=[Failed(lost)] * 3)
    assert raised.value is lost
    assert len(list(left)) >= 7  # nothing else was tried
    busy = Failed(ServerError("s", "busy", retry=True, status=429))
    report, _ = drive(send(actions(2), TO, BulkOptions(actions=1, in_flight=1, attempts=3)), replies=[busy] * 3)
    assert (report.done, [(f.id, f.status) for f in report.failures]) == (1, [("c000", 429)])


def test_a_call_too_large_for_the_server_goes_in_halves() -> None:
    large = Failed(ServerError("s", "too large", status=413))
    report, made = drive(send(actions(3), TO), replies=[large])
    assert told(made) == [[["c000", "c001", "c002"]], [["c000"], ["c001", "c002"]]]
    assert report.done == 3
    report, _ = drive(send(actions(1), TO), replies=[large])
    assert [(f.id, f.status) for f in report.failures] == [("c000", 413)]


def test_what_holds_for_every_call_is_raised() -> None:
    for status, kind in ((401, "security_exception"), (400, "parse_exception")):
        error = ServerError("s", "no", status=status, kind=kind)
        with pytest.raises(ServerError) as raised:
            drive(send(actions(1), TO), replies=[Failed(error)])
        assert raised.value is error
    with pytest.raises(ServerError, match="answered 0 of 1 writings"):
        drive(send(actions(1), TO), replies=[{"errors": True, "items": []}])


@pytest.mark.parametrize("status", [403, 429])
def test_a_full_disk_stops_the_run_with_what_is_kept_and_what_to_do(status: int) -> None:
    items = [{"index": {"status": status, "error": {"type": "cluster_block_exception", "reason": "read-only"}}}]
    whole = Failed(ServerError("s", "read-only", retry=True, status=status, kind="cluster_block_exception"))
    for reply in ({"errors": True, "items": items}, whole):
        with pytest.raises(ServerError, match=r"b-bulk-chunks: .*read-only.*is kept.*free space") as raised:
            drive(send(actions(1), TO), replies=[reply])
        again = pickle.loads(pickle.dumps(raised.value))
        assert (again.status, again.retry) == (status, False)


@settings(deadline=None)
@given(
    st.dictionaries(
        st.integers(0, 11).map("c{:03}".format), st.lists(st.sampled_from([429, 503, 400, 409]), max_size=4)
    ),
    st.integers(1, 5),
    st.integers(1, 3),
)
def test_every_action_is_done_or_in_the_report_once(
    statuses: dict[str, list[int]], size: int, in_flight: int
) -> None:
    options = BulkOptions(actions=size, in_flight=in_flight, attempts=3)
    refused = {
        i
        for i, each in statuses.items()
        if {400, 409} & set(each[:3]) or each[:3].count(429) + each[:3].count(503) == 3
    }
    report, made = drive(send(actions(12), TO, options), {i: list(each) for i, each in statuses.items()})
    assert {failure.id for failure in report.failures} == refused
    assert len(report.failures) == len(refused)
    assert report.done == 12 - len(refused)
    sent = Counter(i for batch in made for request in batch if isinstance(request, Call) for i in ids(request))
    assert set(sent) == {f"c{at:03}" for at in range(12)}
    assert max(sent.values()) <= 3
    assert all(len(batch) <= in_flight for batch in made)

"""What is asked again, and when: limits per minute, dead services, replies that were cut; in both worlds."""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from catena.effects import (
    Budget,
    Clock,
    Complete,
    Completion,
    Describe,
    Embed,
    Failed,
    Handler,
    Health,
    Rate,
    Retry,
    Schemas,
    Search,
    Services,
    Step,
    ask,
    ending_told,
    limit_setting,
    smaller,
    with_limit,
)
from catena.model import InvalidReplyError, ParameterError, Ranking, Scale, ServiceError
from catena.testing import FakeClock, FakeLLM, ScriptedLLM

Drive = Callable[[Step[Any], Services], Any]


def batch(requests: list[Any]) -> Step[list[Any]]:
    return list((yield requests))


def asking(count: int, **fields: Any) -> list[Any]:
    return [Complete(prompt=f"chunk {number}", purpose="test", **fields) for number in range(count)]


# Limits per minute


class Fast(Clock):
    """A clock on which a minute takes 0.12 s: calls side by side take time, too."""

    def now(self) -> float:
        return time.monotonic() * 500

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / 500)

    async def asleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 500)


class PerMinute:
    """Answers `limit` requests in each minute of the clock, and refuses the others without saying how long."""

    identity = "limited"

    def __init__(self, clock: Clock, limit: int) -> None:
        self.clock, self.limit, self.calls = clock, limit, 0
        self._taken: dict[int, int] = {}
        self._lock = threading.Lock()

    def complete(self, request: Complete) -> Completion:
        self.calls += 1
        minute = int(self.clock.now() // 60)
        with self._lock:
            self._taken[minute] = self._taken.get(minute, 0) + 1
            if self._taken[minute] > self.limit:
                raise ServiceError("limited", "429", retry=True, rate_limited=True)
        self.clock.sleep(5)
        return Completion(text="fine")


@pytest.mark.parametrize(("chunks", "limit"), [(40, 30), (12, 3)])
def test_no_request_is_lost_that_a_minute_would_have_saved(drive, chunks, limit):
    clock = Fast()
    llm = PerMinute(clock, limit)
    replies = drive(batch(asking(chunks)), Services(llm=llm, clock=clock))
    assert not [reply for reply in replies if isinstance(reply, Failed)]


@pytest.mark.parametrize("requests", [1, 10])
def test_a_service_that_only_refuses_is_given_up_after_a_minute_for_all_requests(drive, requests):
    clock = FakeClock()
    llm = PerMinute(clock, 0)
    services = Services(llm=llm, clock=clock, retry=Retry(jitter=0.0), max_concurrency=1)
    assert all(isinstance(reply, Failed) for reply in drive(batch(asking(requests)), services))
    assert clock.now() == 60
    assert llm.calls == 8 + (requests - 1)  # waits of 0.5, 1, 2, 4, 8, 16 and the rest; then one call each
    (once,) = drive(batch(asking(1)), Services(llm=llm, clock=clock, retry=Retry(attempts=1)))
    assert (once.error.retry, llm.calls) == (True, 9 + (requests - 1))
    clock.sleep(3600)
    llm.calls, llm.limit = 0, 1
    llm.complete(asking(1)[0])  # somebody else takes the only place of this minute
    (late,) = drive(batch(asking(1)), services)
    assert late.text == "fine"  # an hour later it is another limit


def test_the_wait_doubles_up_to_its_longest_less_a_random_share():
    times = dict.fromkeys(("max_seconds", "patience_seconds", "rate_limit_seconds"), 0.5)
    retry = Retry(base_seconds=0.25, jitter=0.25, random=lambda: 0.5, **times)
    assert [retry.wait(attempt) for attempt in (1, 2, 3, 5_000)] == [0.21875, 0.4375, 0.4375, 0.4375]


def test_a_wait_that_the_service_names_does_not_make_the_minute_longer_again_and_again(drive):
    clock = FakeClock()

    def refuse(request: Complete) -> Completion:
        raise ServiceError("limited", "429", retry=True, retry_after=61.0, rate_limited=True)

    llm = FakeLLM(refuse)
    drive(batch(asking(3)), Services(llm=llm, clock=clock, max_concurrency=1))
    assert (clock.now(), len(llm.calls)) == (61, 2 + 1 + 1)


# Dead services


class Route:
    """A store whose routes can be made dead, as by a broken connection."""

    identity = "store"
    routes = ("here", "gone")

    def __init__(self, clock: FakeClock, seconds: float = 0.0) -> None:
        self.clock, self.seconds, self.calls, self.dead = clock, seconds, [], {"gone"}

    def search(self, request: Search) -> Ranking:
        self.calls.append(request.route)
        self.clock.sleep(self.seconds)
        if request.route in self.dead:
            raise ConnectionError("refused")
        return Ranking((), Scale.RANK)


def searched(drive: Drive, services: Services, route: str = "gone") -> Any:
    (reply,) = drive(batch([Search(route=route, query="q", k=3)]), services)
    return reply


def test_a_dead_route_is_asked_twice_then_left_alone_then_tried_once(drive):
    clock = FakeClock()
    store = Route(clock)
    services = Services(store=store, clock=clock, health=Health(cool_down_seconds=30.0))
    assert "refused" in str(searched(drive, services).error)
    assert store.calls == ["gone"] * 2
    told = searched(drive, services).error
    assert "not asked" in str(told)
    assert "tried again in 30 s" in str(told)
    assert not told.retry
    assert isinstance(searched(drive, services, "here"), Ranking)  # the other route of the store
    assert store.calls == ["gone"] * 2 + ["here"]
    clock.sleep(29.75)
    assert "tried again in 1 s" in str(searched(drive, services).error)
    clock.sleep(0.25)
    assert "refused" in str(searched(drive, services).error)  # the trial
    assert "not asked" in str(searched(drive, services).error)
    clock.sleep(30)
    store.dead = set()
    assert isinstance(searched(drive, services), Ranking)
    assert isinstance(searched(drive, services), Ranking)
    assert store.calls == ["gone"] * 2 + ["here"] + ["gone"] * 3


def test_a_question_that_waited_long_for_one_call_does_not_wait_for_a_second(drive):
    clock = FakeClock()
    store = Route(clock, seconds=30.0)  # as of a server that sends half a header
    assert isinstance(searched(drive, Services(store=store, clock=clock)), Failed)
    assert clock.now() == pytest.approx(30.0)


def test_a_model_that_says_nothing_for_its_whole_time_is_asked_twice(drive):
    clock = FakeClock()

    def silent(request: Complete) -> Completion:
        clock.sleep(120)
        raise TimeoutError("no answer")

    llm = FakeLLM(silent)
    assert isinstance(drive(batch(asking(1)), Services(llm=llm, clock=clock, retry=Retry(jitter=0.0)))[0], Failed)
    assert clock.now() == pytest.approx(240.5)


def test_a_type_of_request_says_itself_that_a_question_waits_for_it_and_work_on_documents_has_no_circuit(drive):
    calls: list[str] = []

    @dataclass(frozen=True)
    class Mine:
        waited_for: ClassVar[bool] = True

    @dataclass(frozen=True)
    class Work:
        pass

    def die(request: Any) -> Any:
        calls.append(getattr(request, "kind", type(request).__name__))
        raise ConnectionError("refused")

    handlers = {kind: Handler(identity=kind.__name__, call=die) for kind in (Mine, Work, Rate, Embed)}
    services = Services(handlers=handlers, clock=FakeClock())
    question, work = (Embed(texts=("a",), kind=kind) for kind in ("query", "document"))  # type: ignore[arg-type]
    for request in (Mine(), Work(), Rate(query="q", texts=("a",)), question, work):
        drive(batch([request]), services)
        drive(batch([request]), services)
    assert Counter(calls) == {"Mine": 2, "Rate": 2, "Work": 8, "query": 2, "document": 8}


def test_health_without_a_cool_down_has_no_circuits_and_is_pickled_by_its_rule(drive):
    clock = FakeClock()
    store = Route(clock)
    services = Services(store=store, clock=clock, health=Health(cool_down_seconds=0))
    for _ in range(2):
        assert "refused" in str(searched(drive, services).error)
    assert len(store.calls) == 8
    inner = Services(store=store, clock=clock, retry=Retry(attempts=1))  # of a store inside another, which asks again
    assert ["refused" in str(searched(drive, inner).error) for _ in range(2)] == [True, True]
    assert pickle.loads(pickle.dumps(Health(5.0))).cool_down_seconds == 5.0
    with pytest.raises(ParameterError, match="cool_down_seconds"):
        Health(-1)


# Replies that were cut


class Thinking:
    """Spends 900 tokens that nobody sees, then writes ten."""

    identity = "thinking"

    def __init__(self) -> None:
        self.limits: list[int] = []

    def complete(self, request: Complete) -> Completion:
        self.limits.append(request.max_tokens)
        cut = request.max_tokens < 910
        thought = min(900, request.max_tokens)
        return Completion(
            text="" if cut else "the answer",
            finish_reason="length" if cut else "stop",
            output_tokens=min(910, request.max_tokens),
            reasoning_tokens=thought,
        )


def test_a_reply_that_was_cut_is_asked_for_once_with_more_and_thinking_gets_room_from_then_on(drive):
    llm = Thinking()
    services = Services(llm=llm, max_concurrency=1, budget=Budget(max_tokens=100_000))
    replies = drive(batch(asking(3, max_tokens=400)), services)
    assert [reply.text for reply in replies] == ["the answer"] * 3
    assert llm.limits == [400, 4_096, 2_200, 2_200]
    assert services.budget is not None
    assert services.budget.spent.output_tokens == 400 + 3 * 910  # the cut reply was paid for, too


def test_a_limit_that_was_set_holds_for_all_prompts_or_for_one(drive):
    llm = Thinking()
    (cut,) = drive(batch(asking(1, max_tokens=2_000)), Services(llm=llm, output_tokens=300))
    assert isinstance(cut.error, InvalidReplyError)
    assert "--max-output-tokens" in str(cut.error)
    given = (("section_summary/1", 400), ("section_title/1", 1_000))
    prompts = [Complete(prompt="a", purpose="p", prompt_version=name, max_tokens=most) for name, most in given]
    drive(batch(prompts), Services(llm=llm, output_tokens={"section_summary": 950}, max_concurrency=1))
    assert llm.limits == [300, 950, 2_800]
    llm = FakeLLM(lambda _: Completion(text="half", finish_reason="length"))
    two = [*asking(1, max_tokens=1_000), *asking(2, max_tokens=2_000)[1:]]
    drive(batch(two), Services(llm=llm, max_concurrency=1))
    assert [request.max_tokens for request in llm.calls] == [1_000, 4_096, 2_000, 8_000]
    assert Services(output_tokens=1).output_tokens == 1
    for wrong in (0, True, "50", {"sectionsummary": 50}, {"section_summary": True}):
        with pytest.raises(ParameterError, match="output_tokens"):
            Services(output_tokens=wrong)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="section_summary"):
        Services(output_tokens={"sectionsummary": 50})


def test_a_second_try_that_does_not_fit_the_budget_is_not_made_and_stops_nothing(drive):
    cut = Completion(text="half", finish_reason="length", output_tokens=100)
    llm = ScriptedLLM([cut, "whole"])
    services = Services(llm=llm, budget=Budget(max_tokens=500), max_concurrency=1)
    replies = drive(batch(asking(2, max_tokens=100)), services)
    assert isinstance(replies[0], Failed)
    assert replies[1].text == "whole"


BUSY = ServiceError("m", "503", retry=True)
LIMITED = ServiceError("m", "429", retry=True, rate_limited=True)
CUT = Completion(text="half", finish_reason="length", output_tokens=400)


@pytest.mark.parametrize(
    ("wider", "limits"),
    [
        ([BUSY, "whole"], [400, 4_096, 4_096]),
        ([LIMITED, LIMITED, "whole"], [400, 4_096, 4_096, 4_096]),
        ([ServiceError("m", "400: too much")], [400, 4_096]),  # final: the cut reply is judged
        ([CUT], [400, 4_096]),
        ([BUSY, ServiceError("m", "400: too much")], [400, 4_096, 4_096]),
        ([BUSY] * 4, [400] + [4_096] * 4),
    ],
)
def test_a_wider_call_that_meets_a_passing_fault_is_made_again(drive, wider, limits):
    llm = ScriptedLLM([CUT, *wider])
    (reply,) = drive(batch(asking(1, max_tokens=400)), Services(llm=llm, clock=FakeClock()))
    assert [request.max_tokens for request in llm.calls] == limits
    if wider[-1] == "whole":
        assert reply.text == "whole"
    else:
        assert isinstance(reply.error, InvalidReplyError) is (wider[-1] is not BUSY)


def test_a_caption_that_was_cut_is_asked_for_again_too(drive):
    class Captioner:
        identity = "captioner"

        def describe(self, request: Describe) -> Completion:
            cut = request.max_tokens < 1_000
            return Completion(text="half" if cut else "A pump.", finish_reason="length" if cut else "stop")

    assert drive(ask([Describe(image=b"x", prompt="what?")]), Services(captioner=Captioner())) == ["A pump."]  # type: ignore[arg-type]


def test_a_run_that_is_cut_short_by_the_budget_counts_what_a_model_spent_beyond_its_limit(drive):
    llm = FakeLLM(lambda request: Completion(text="long", output_tokens=6_000))
    services = Services(llm=llm, budget=Budget(max_tokens=1_000), max_concurrency=1)
    with pytest.raises(Exception, match="6002 spent"):
        drive(batch(asking(2, max_tokens=100)), services)
    assert len(llm.calls) == 1


# Models of frameworks


@pytest.mark.parametrize(
    ("said", "ending"),
    [
        ({"finish_reason": "stop"}, "stop"), ({"finish_reason": "length"}, "length"), ({}, "stop"),
        ({"finishReason": "MAX_TOKENS"}, "length"), ({"stop_reason": "end_turn"}, "stop"),
        ({"stopReason": "content_filtered"}, "content_filter"), ({"done_reason": "refusal"}, "refusal"),
        ({"status": "failed"}, "error"), ({"finish_reason": None, "completion_reason": "eos"}, "stop"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "completed", "incomplete_details": None}, "stop"), ({"finish_reason": "tool_calls"}, "stop"),
        ({"finish_reason": None, "stop_reason": "max_tokens"}, "length"),
        ({"finish_reason": "SAFETY"}, "content_filter"),
        ({"finish_reason": Enum("FinishReason", {"MAX_TOKENS": 2})(2)}, "length"),
    ],
)  # fmt: skip
def test_how_a_reply_ended_is_known_in_the_words_of_any_service(said, ending):
    assert ending_told(said) == ending


def test_a_limit_is_the_smaller_of_the_prompts_and_the_users_own():
    class Chat(BaseModel):
        max_tokens: int | None = 16

    class Bare(BaseModel):
        name: str = ""

    assert (limit_setting(Chat()), limit_setting(Bare())) == ("max_tokens", None)
    chats = (Chat(), Chat(max_tokens=20), Chat(max_tokens=80))
    told = [with_limit(chat, "max_tokens", 50).max_tokens for chat in chats]
    assert told == [50, 20, 50]  # a default is nobody's own
    bare = Bare()
    assert with_limit(bare, None, 50) is bare
    assert [smaller(own, 50) for own in (None, 0, -1, 1, 49, 51)] == [50, 50, 50, 1, 49, 50]


def test_a_schema_goes_out_until_a_reply_came_without_the_one_that_was_refused():
    (request,), refused = asking(1, schema="{}"), NotImplementedError()
    schemas = Schemas(True)
    assert schemas.go_with(request)
    assert not schemas.go_with(asking(1)[0])
    assert not Schemas(False).go_with(request)
    assert schemas.refusal(request, RuntimeError("busy"), "m") is None
    assert schemas.refusal(request, KeyError("x"), "m") is not None  # an adapter's own fault
    schemas.answered(request)
    assert schemas.go_with(request)
    told = schemas.refusal(request, refused, "m")
    assert (type(told).__name__, told.retry, "asked without" in str(told)) == ("SchemaRefusedError", True, True)
    assert schemas.go_with(request)
    schemas.answered(request)
    assert not schemas.go_with(request)

"""Steps driven by threads and by asyncio: the same results, errors, retries, limits and progress in both worlds."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from test_journal import all_fakes

from catena import Journal, Ranking, Scale, ServiceError, Services, arun, run
from catena.effects import (
    Budget,
    Cancel,
    CheckGraph,
    Complete,
    Completion,
    Describe,
    Embed,
    Event,
    Failed,
    FetchChunks,
    FetchDocuments,
    FetchNodes,
    FetchPlaces,
    FetchText,
    FindNames,
    Handler,
    Inspect,
    Limiter,
    NamesFound,
    Price,
    Rate,
    Recognise,
    Retry,
    Search,
    SearchFused,
    Step,
    Tariff,
    all_together,
    ask,
    redact,
    retry_after_seconds,
    service_error,
    together,
)
from catena.model import BudgetExceededError, CancelledError, InvalidReplyError, MissingServiceError, ParameterError
from catena.testing import FakeClock, FakeEmbedder, FakeLLM, FakeReranker, Flaky, ScriptedLLM
from catena.testing.fakes import FakeStore, Slow


def batch(*prompts: str, **fields: Any) -> Step[list[Any]]:
    """One round, failures as values."""
    return list((yield [Complete(prompt=prompt, purpose="test", **fields) for prompt in prompts]))


def texts(*prompts: str) -> Step[list[str]]:
    return [reply.text for reply in (yield from ask([Complete(prompt=p, purpose="test") for p in prompts]))]


def upper(request: Complete) -> str:
    return request.prompt.upper()


# What a step gets


def test_no_texts_give_no_rows_and_no_scores(drive):
    requests = [Embed(texts=()), Embed(texts=(), kind="query"), Rate(query="q", texts=())]
    found = drive(ask(requests), all_fakes())
    assert [getattr(each, "shape", each) for each in found] == [(0, 5), (0, 5), ()]


def test_a_store_that_lacks_a_part_has_nothing_to_say_of_it(drive):
    services = Services(store=FakeStore({}))
    spans = (("a", 0, 2), ("b", 1, 3))
    requests = [
        FindNames(query="q"),
        FetchChunks(spans=spans),
        FetchText(spans=spans),
        FetchDocuments(ids=("a", "b")),
    ]
    assert drive(ask(requests), services) == [NamesFound(), ((), ()), (None, None), (None, None)]


def test_a_service_that_lacks_what_it_is_for_is_refused():
    needed = {"llm": "complete", "reranker": "score", "captioner": "caption", "recognizer": "recognise"}
    needed |= {"store": "search", "graph": "expand nodes count_words chunks_by_id"}
    for name, methods in needed.items():
        for lacking in methods.split():
            service = SimpleNamespace(**{each: print for each in methods.split() if each != lacking})
            with pytest.raises(ParameterError, match="handler SimpleNamespace"):
                Services(**{name: service})


def test_queries_and_documents_are_embedded_each_in_their_way(drive):
    async def documents(texts: Any) -> Any:
        return [[1.0]] * len(texts)

    async def query(text: str) -> Any:
        return [2.0]

    only_async = SimpleNamespace(aembed_documents=documents, aembed_query=query, embed_query=None)
    blocking = SimpleNamespace(embed_documents=lambda texts: [[1.0]] * len(texts), embed_query=lambda text: [2.0])
    for embedder in (only_async, blocking):
        asked = [Embed(texts=("a", "b")), Embed(texts=("a", "b"), kind="query")]
        first, second = drive(ask(asked), Services(embedder=embedder))
        assert (first.tolist(), second.tolist()) == ([[1.0], [1.0]], [[2.0], [2.0]])


SPANS = {"spans": (("a", 0, 1),)}
EVERY = {
    Complete: {"prompt": "p"}, Embed: {"texts": ("a",)}, Rate: {"query": "q", "texts": ()},
    Describe: {"image": b"", "prompt": "p"}, Recognise: {"texts": ()}, Search: {"route": "r", "query": "q", "k": 1},
    FindNames: {"query": "q"}, FetchChunks: SPANS, FetchText: SPANS, FetchPlaces: SPANS, FetchDocuments: {"ids": ()},
    Inspect: {}, SearchFused: {"query": "q", "k": 1, "weights": ()}, FetchNodes: {"chunk_ids": ()}, CheckGraph: {},
}  # fmt: skip


def test_a_purpose_makes_no_other_request_and_questions_wait_for_what_is_searched():
    assert all(kind(**given, purpose="one") == kind(**given, purpose="two") for kind, given in EVERY.items())
    waited = {kind for kind, given in EVERY.items() if getattr(kind(**given, purpose="p"), "waited_for", False)}
    assert waited == {Rate, Search, SearchFused, FindNames, FetchChunks, FetchText, FetchNodes}


def test_a_missing_service_is_named_with_those_that_are_there(drive):
    with pytest.raises(MissingServiceError, match=r"no service answers Complete requests \(given: Rate\)"):
        drive(texts("a"), Services(reranker=FakeReranker()))


def test_together_shares_rounds_and_closes_what_a_stopped_run_leaves(drive):
    def two_rounds(name: str) -> Step[str]:
        (first,) = yield from texts(name)
        (second,) = yield from texts(first)
        return second

    llm = FakeLLM(lambda request: request.prompt + "'")
    assert drive(together([two_rounds("a"), two_rounds("b")]), Services(llm=llm)) == ["a''", "b''"]
    assert drive(together([]), Services()) == []

    closed = []

    def never_ends(name: str) -> Step[None]:
        try:
            while True:
                yield from texts(name)
        finally:
            closed.append(name)

    budget = Budget(max_tokens=5_000)
    steps = [never_ends("a"), never_ends("b")]  # held here, so that it is not their disposal that closes them
    with pytest.raises(BudgetExceededError):
        drive(together(steps), Services(llm=llm, budget=budget))
    assert sorted(closed) == ["a", "b"]


def test_all_together_raises_the_first_failure_once_all_are_done(drive):
    done: list[str] = []

    def step(name: str, *, fails: bool = False) -> Step[str]:
        yield from ask([])
        done.append(name)
        if fails:
            raise ParameterError(name, 1, "another")
        return name

    assert drive(all_together([step("a"), step("b")]), Services()) == ["a", "b"]
    with pytest.raises(ParameterError, match="c must be"):
        drive(all_together([step("c", fails=True), step("d", fails=True), step("e")]), Services())
    assert done == ["a", "b", "c", "d", "e"]


# Concurrency


class Gauge:
    """An LLM that measures how many calls are in flight."""

    identity = "gauge"

    def __init__(self, party: int) -> None:
        self.most = self.now = 0
        self.lock = threading.Lock()
        self.barrier = threading.Barrier(party)

    def complete(self, request: Complete) -> Completion:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.barrier.wait(20)  # passes only when `party` calls are really side by side
        with self.lock:
            self.now -= 1
        return Completion(text=request.prompt)


@pytest.mark.parametrize("width", [1, 3, 64])
def test_exactly_max_concurrency_calls_run_side_by_side(drive, width):
    gauge = Gauge(width)
    prompts = [str(i) for i in range(width * 3)]
    assert drive(texts(*prompts), Services(llm=gauge, max_concurrency=width)) == prompts
    assert gauge.most == width


def test_run_awaits_a_service_that_is_async_only_always_on_one_loop():
    loops: set[int] = set()

    async def acomplete(request: Complete) -> Completion:
        loops.add(id(asyncio.get_running_loop()))
        await asyncio.sleep(0)
        return Completion(text=request.prompt)

    llm = SimpleNamespace(identity="async-only", acomplete=acomplete)
    assert run(texts("a", "b", "c"), Services(llm=llm)) == ["a", "b", "c"]
    assert run(texts("d"), Services(llm=llm)) == ["d"]
    assert len(loops) == 1

    async def in_a_notebook() -> list[str]:
        return run(texts("e"), Services(llm=llm))

    assert asyncio.run(in_a_notebook()) == ["e"]


async def test_arun_never_blocks_the_event_loop(tmp_path):
    def step() -> Step[int]:
        replies = yield from ask([Complete(prompt=str(i), purpose="test") for i in range(6)])
        rows = yield from ask([Embed(texts=tuple(reply.text for reply in replies))])
        yield from ask([Search(route="r", query="q", k=1), Rate(query="q", texts=("a",))])
        return len(rows[0])

    with Journal.open(tmp_path / "journal.db") as journal:
        services = Services(
            llm=Slow(FakeLLM(), 0.002),
            embedder=Slow(FakeEmbedder(4), 0.002),
            reranker=Slow(FakeReranker(), 0.002),
            store=Slow(FakeStore({"r": Ranking((), Scale.RANK)}), 0.002),
            journal=journal,
            retry=Retry(base_seconds=0.001),
            budget=Budget(max_tokens=10**6),
            limiter=Limiter({Complete: 60_000}),
            progress=lambda event: None,
        )
        with blockbuster_ctx():
            with pytest.raises(Exception, match="Blocking call"):  # the guard itself works
                time.sleep(0.001)
            assert await arun(step(), services) == 6
            assert await arun(step(), services) == 6
        assert journal.count() == 8


def test_runs_inside_runs_do_not_starve():
    class Nested:
        identity = "nested"

        def complete(self, request: Complete) -> Completion:
            depth = int(request.prompt)
            if depth:
                inner = run(texts(*[str(depth - 1)] * 4), Services(llm=self, max_concurrency=4))
                return Completion(text="".join(inner))
            return Completion(text="x")

    assert run(texts("5"), Services(llm=Nested())) == ["x" * 4**5]


def test_context_variables_reach_the_services(drive):
    trace: contextvars.ContextVar[str] = contextvars.ContextVar("trace", default="lost")
    trace.set("callbacks of the caller")
    llm = FakeLLM(lambda request: trace.get())
    assert set(drive(texts(*"abcdef"), Services(llm=Slow(llm, 0.005)))) == {"callbacks of the caller"}

    async def acall(request: Complete) -> Completion:
        return Completion(text=trace.get())

    only_async = Services(handlers={Complete: Handler(identity="async-only", acall=acall)})
    assert set(drive(texts("a", "b"), only_async)) == {"callbacks of the caller"}


@settings(max_examples=15, deadline=None)
@given(st.lists(st.text("ab 1é\n", min_size=1).filter(str.strip), max_size=12), st.integers(1, 8), st.integers(0, 99))
def test_replies_come_in_the_order_of_the_requests_whichever_ends_first(prompts, width, seed):
    def step() -> Step[list[str]]:
        first = yield from texts(*prompts)
        return (yield from texts(*reversed(first)))

    llm = Slow(FakeLLM(lambda request: f"<{request.prompt}>"), 0.003, seed=seed)
    services = Services(llm=llm, max_concurrency=width)
    expected = [f"<<{prompt}>>" for prompt in reversed(prompts)]
    assert run(step(), services) == asyncio.run(arun(step(), services)) == expected


# Retries and limits


LESS = Retry(base_seconds=0.1, max_seconds=0.2, jitter=0.5, random=lambda: 0.5)


@pytest.mark.parametrize(
    ("failures", "retry", "naps", "said"),
    [
        (["busy"] * 3, LESS, [0.075, 0.15, 0.15], "A"),  # 0.1, 0.2 and again 0.2 seconds, less a quarter
        (["busy"] * 9, Retry(attempts=3, base_seconds=0.1, jitter=0.0), [0.1, 0.2], "m: busy"),  # none after the last
        (["401"], Retry(), [], "m: 401"),  # final
        (["429"], Retry(patience_seconds=60), [], "m: 429"),  # an hour is beyond patience
    ],
)
def test_a_failure_is_tried_again_after_waits_that_double(drive, failures, retry, naps, said):
    clock = FakeClock()
    faults = [ServiceError("m", f, retry=f != "401", retry_after=3_600.0 if f == "429" else None) for f in failures]
    llm = Flaky(FakeLLM(upper), faults)
    (reply,) = drive(batch("a"), Services(llm=llm, retry=retry, clock=clock))
    assert clock.naps == pytest.approx(naps)
    assert len(llm.calls) == len(naps) + 1
    assert (str(reply.error) if isinstance(reply, Failed) else reply.text) == said


@pytest.mark.parametrize(("attempts", "answered"), [(4, "abc"), (1, "bc")])  # also where the first gives up
def test_retry_after_is_obeyed_by_all_requests_of_the_type(drive, attempts, answered):
    clock, seen = FakeClock(), []
    told = FakeLLM(lambda request: seen.append((request.prompt, clock.now())) or request.prompt)
    llm = Flaky(told, [ServiceError("m", "429", retry=True, retry_after=7.0)])
    drive(batch("a", "b", "c"), Services(llm=llm, clock=clock, max_concurrency=1, retry=Retry(attempts=attempts)))
    assert seen == [(prompt, pytest.approx(7.0)) for prompt in answered]
    assert sum(clock.naps) == pytest.approx(7.0)


def test_requests_per_minute_are_spaced_over_runs_that_share_the_limiter(drive):
    clock, times = FakeClock(), []

    def reply(request: Complete) -> str:
        times.append(clock.now())
        return request.prompt

    services = Services(
        llm=FakeLLM(reply), reranker=FakeReranker(), limiter=Limiter({Complete: 30}), clock=clock, max_concurrency=1
    )
    drive(texts("a", "b"), services)
    drive(texts("c"), replace(services, retry=Retry()))
    assert times == pytest.approx([0.0, 2.0, 4.0])
    drive(ask([Rate(query="q", texts=("a",))] * 3), services)
    assert clock.now() == pytest.approx(4.0)  # other types are not limited


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0), (7, 7.0), ("0.5", 0.5), (" 12 ", 12.0), ("Wed, 21 Oct 2026 07:28:30 GMT", 30.0),
        ("Wed, 21 Oct 2026 07:27:00 GMT", 0.0), ("Wed, 21 Oct 2026 07:28:05 -0000", 5.0),
        ("Wednesday", None), ("-3", None), ("", None), (None, None),
    ],
)  # fmt: skip
def test_retry_after_is_read_as_seconds_and_as_date(value, seconds):
    assert retry_after_seconds(value, datetime(2026, 10, 21, 7, 28, tzinfo=UTC)) == seconds


# Foreign errors


class RateLimitError(Exception):  # as SDKs raise it
    def __init__(self, message: str, status: int, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.response = SimpleNamespace(status_code=status, headers=headers or {})


TimeoutException = type("TimeoutException", (Exception,), {})
ReadTimeout = type("ReadTimeout", (TimeoutException,), {})  # as httpx names it, with no text
ResourceExhausted = type("ResourceExhausted", (Exception,), {"code": 429})  # google.api_core's
ThrottlingException = type("ThrottlingException", (Exception,), {})  # botocore's
LIMITED = (
    "RateLimitError (status 429): slow", "RateLimitError (status 529)", "ResourceExhausted", "ThrottlingException",
)  # fmt: skip


@pytest.mark.parametrize(
    ("error", "retry", "retry_after", "what"),
    [
        (RateLimitError("slow down", 429, {"Retry-After": "3"}), True, 3.0, "RateLimitError (status 429): slow down"),
        (ResourceExhausted("slow"), True, None, "ResourceExhausted (status 429): slow"),
        (ThrottlingException("slow"), True, None, "ThrottlingException: slow"),
        (RateLimitError("overloaded", 529), True, None, "RateLimitError (status 529): overloaded"),
        (RateLimitError("insufficient_quota", 429), False, None, "(status 429): insufficient_quota"),
        (RateLimitError("bad key", 401), False, None, "(status 401): bad key"),
        (RateLimitError("context too long", 400), False, None, "(status 400)"),
        (ReadTimeout(), True, None, "ReadTimeout: no message"),
        (ConnectionResetError(104, "reset"), True, None, "ConnectionResetError: [Errno 104] reset"),
        (TimeoutError(), True, None, "TimeoutError: no message"),
        (KeyError("x"), False, None, "KeyError: 'x'"),
        (StopIteration(), False, None, "StopIteration: no message"),
    ],
)
def test_foreign_errors_are_mapped_and_named(error, retry, retry_after, what):
    mapped = service_error(error, "model-x")
    assert isinstance(mapped, ServiceError)
    assert (mapped.retry, mapped.retry_after, mapped.rate_limited) == (retry, retry_after, what.startswith(LIMITED))
    assert what in str(mapped)
    assert str(mapped).startswith("model-x: ")
    assert mapped.__cause__ is None  # its traceback may hold what the message hides


def test_a_status_that_may_pass_is_asked_again():
    passing = {status for status in range(100, 600) if service_error(RateLimitError("x", status), "m").retry}
    assert passing == {408, 409, 425, 429, 500, 502, 503, 504, 529}


@pytest.mark.parametrize("error", [KeyError("x"), StopIteration("x"), AssertionError(), RecursionError("deep")])
def test_no_foreign_exception_leaves_a_run(drive, error):
    first, second = drive(batch("a", "b"), Services(llm=Flaky(FakeLLM(upper), [error]), max_concurrency=1))
    assert isinstance(first.error, ServiceError)
    assert type(error).__name__ in str(first.error)
    assert second.text == "B"


SECRET = "sk-proj-Ab3dEf6hIj9lMn2pQr5t"


@pytest.mark.parametrize(
    "text",
    [
        f"GET https://api.example.com/v1?key={SECRET}&x=1 failed", f"https://user:{SECRET}@example.com/",
        f"Authorization: Bearer {SECRET}", f"{{'authorization': 'Bearer {SECRET}', 'x-api-key': '{SECRET}'}}",
        f'api_key="{SECRET}"', f"OPENAI_API_KEY={SECRET}", f"Incorrect API key provided: {SECRET}.",
        f"access_token: {SECRET}", f"password={SECRET}",
    ],
)  # fmt: skip
def test_secrets_are_redacted(text):
    assert SECRET not in redact(text)
    assert "***" in redact(text)


# What counts as a reply


@pytest.mark.parametrize(
    ("request_", "reply", "what"),
    [
        (Embed(texts=("a", "b")), [[1.0]], r"shape \(1, 1\) for 2 texts"),
        (Embed(texts=("a",)), [[[1.0]]], r"shape \(1, 1, 1\) for 1 texts"),
        (Embed(texts=("a",)), [[float("nan")]], "NaN"),
        (Embed(texts=("a",)), "words", "could not convert"),
        (Rate(query="q", texts=("a", "b")), [1.0], "1 scores for 2 texts"),
        (Rate(query="q", texts=("a",)), [float("inf")], "infinite"),
        (Describe(image=b"", prompt="p"), " ", "empty"),
        (Complete(prompt="p", purpose="test"), None, "AttributeError"),
        (Recognise(texts=("a", "b")), [["a"]], "entities of 1 texts for 2 texts"),
        (Recognise(texts=("HX",)), ["HX"], "not a list of strings"),
        (Recognise(texts=("HX",)), [[("HX", "product")]], "not a list of strings"),
    ],
)
def test_replies_of_the_wrong_form_are_failures(drive, request_, reply, what):
    form = all_fakes().handler(type(request_))
    services = Services(handlers={type(request_): replace(form, call=lambda _: reply, acall=None)})
    with pytest.raises(InvalidReplyError, match=what):
        drive(ask([request_]), services)


# Stopping


def test_cancel_lets_calls_in_flight_end_and_starts_no_other(drive):
    cancel, closed = Cancel(), []

    def reply(request: Complete) -> str:
        cancel.set()
        return request.prompt

    def step() -> Step[Any]:
        try:
            return (yield from texts("a", "b", "c"))
        finally:
            closed.append(True)

    llm = FakeLLM(reply)
    with pytest.raises(CancelledError, match="stopped by the caller"):
        drive(step(), Services(llm=llm, cancel=cancel, max_concurrency=1))
    assert [call.prompt for call in llm.calls] == ["a"]
    assert closed == [True]
    with pytest.raises(CancelledError):
        drive(texts("d"), Services(llm=llm, cancel=cancel))
    assert len(llm.calls) == 1


def test_cancel_is_noticed_by_requests_that_wait(drive):
    cancel = Cancel()

    class Impatient(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            cancel.set()

    clock = Impatient()
    llm = Flaky(FakeLLM(), [ServiceError("m", "429", retry=True, retry_after=100.0)])
    with pytest.raises(CancelledError):
        drive(texts("a"), Services(llm=llm, clock=clock, cancel=cancel))
    assert sum(clock.naps) < 1.0


def test_ctrl_c_closes_the_step_and_keeps_what_other_threads_were_paid_for(tmp_path):
    closed = []
    here = threading.current_thread()

    class Interrupted:
        identity = "interrupted"

        def __init__(self) -> None:
            self.both = threading.Barrier(2)

        def complete(self, request: Complete) -> Completion:
            self.both.wait(20)
            if threading.current_thread() is here:
                raise KeyboardInterrupt
            time.sleep(0.01)
            return Completion(text="paid for")

    def step() -> Step[Any]:
        try:
            return (yield from texts("a", "b", "c", "d"))
        finally:
            closed.append(True)

    with Journal.open(tmp_path / "journal.db") as journal:
        with pytest.raises(KeyboardInterrupt):
            run(step(), Services(llm=Interrupted(), journal=journal, max_concurrency=2))
        assert journal.count() == 1
    assert closed == [True]


async def test_a_cancelled_task_closes_the_step_and_its_calls():
    ended: list[str] = []

    async def acall(request: Complete) -> Completion:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(request.prompt)
        return Completion(text="never")

    def step() -> Step[Any]:
        try:
            return (yield from texts("a", "b"))
        finally:
            ended.append("step")

    budget = Budget(max_tokens=10**6)
    services = Services(handlers={Complete: Handler(identity="sleeper", acall=acall)}, budget=budget)
    task = asyncio.create_task(arun(step(), services))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(ended) == ["a", "b", "step"]
    assert budget._aside.tokens == 0  # every reservation was given back


# Budget

PRICED = Tariff(prices={Complete: Price(input=0.0, output=1_000.0)}, count=lambda text: len(text.split()))


TOLD = Completion(text="wxyz")


@pytest.mark.parametrize(
    ("asked", "reply", "most", "took"),
    [
        (Complete(system="ab", prompt="cde", purpose="p", max_tokens=500_000), TOLD, (5, 500_000), (5, 4)),
        (
            Complete(prompt="", purpose="p", max_tokens=9),
            replace(TOLD, input_tokens=3, output_tokens=2),
            (0, 9),
            (3, 2),
        ),
        (Embed(texts=("ab", "c")), None, (3, 0), (3, 0)),
        (Recognise(texts=("ab", "c")), None, (3, 0), (3, 0)),
        (Rate(query="ab", texts=("c", "de")), None, (7, 0), (7, 0)),
        (Describe(image=b"", prompt="ab", max_tokens=9), "wxyz", (1_502, 9), (1_502, 4)),
        (Search(route="r", query="ab", k=1), None, (0, 0), (0, 0)),
    ],
)
def test_what_a_request_takes_is_counted_by_its_type(asked, reply, most, took):
    tariff = Tariff(prices={type(asked): Price(input=0.25, output=2.0, call=0.5)}, count=len)
    for used, tokens in ((tariff.before(asked), most), (tariff.after(asked, reply), took)):
        assert (used.calls, used.input_tokens, used.output_tokens) == (1, *tokens)
        assert used.cost == 0.5 + (tokens[0] / 4 + tokens[1] * 2) / 1_000_000
    assert [Tariff().count(text) for text in ("", "abcd", "abcde", "日本語 ab")] == [0, 1, 2, 4]
    assert Budget(0.5, max_tokens=0, tariff=tariff).cap == 0.5


def test_the_budget_stops_before_the_call_that_would_pass_it(drive):
    budget = Budget(cap=1.0, tariff=PRICED)  # 1,000 output tokens; each call may take 400, and takes 1
    llm = FakeLLM(lambda request: "word")

    def step() -> Step[None]:
        for number in range(2_000):
            yield from ask([Complete(prompt=str(number), purpose="titles", max_tokens=400)])

    events: list[Event] = []
    with pytest.raises(BudgetExceededError, match=r"the cap of 1 would be passed .* by 'titles' .at most 401 tokens"):
        drive(step(), Services(llm=llm, budget=budget, progress=events.append))
    assert {event.kind for event in events} == {"started", "finished"}  # what was not asked has not failed
    assert len(llm.calls) == 601  # 601 tokens are spent, so that another 400 do not fit
    assert budget.spent.calls == 601
    assert budget.spent.cost == pytest.approx(0.601)


def test_calls_in_flight_never_pass_the_budget_and_their_replies_are_kept(drive, tmp_path):
    budget = Budget(cap=1.0, tariff=PRICED)
    llm = Slow(FakeLLM(lambda request: "word " * 100), 0.002, seed=5)
    with Journal.open(tmp_path / "journal.db") as journal:
        services = Services(llm=llm, budget=budget, journal=journal, max_concurrency=8)
        prompts = [Complete(prompt=str(number), purpose="titles", max_tokens=100) for number in range(50)]
        with pytest.raises(BudgetExceededError):
            drive(ask(prompts), services)
        assert journal.count() == len(llm.calls) == 10
        assert budget.spent.cost <= 1.0
        resumed = replace(services, budget=Budget(cap=4.0, tariff=PRICED))
        assert len(drive(ask(prompts), resumed)) == 50
    assert len(llm.calls) == 50


def test_invalid_replies_are_paid_for_and_failed_calls_are_not(drive):
    budget = Budget(max_tokens=1_000)
    half = Completion(text="half", finish_reason="length", input_tokens=3, output_tokens=9)
    services = Services(llm=ScriptedLLM([half, ServiceError("m", "no")]), budget=budget)
    replies = drive(batch("a", "a", max_tokens=100), services)
    assert all(isinstance(reply, Failed) for reply in replies)
    assert (budget.spent.input_tokens, budget.spent.output_tokens) == (3, 9)


def test_a_token_counter_that_fails_is_a_failed_request(drive):
    def broken(text: str) -> int:
        raise ZeroDivisionError("counter")

    budget = Budget(max_tokens=10, tariff=Tariff(count=broken))
    (reply,) = drive(batch("a"), Services(llm=FakeLLM(), budget=budget))
    assert "ZeroDivisionError: counter" in str(reply.error)


# Progress


def test_progress_counts_up_to_the_total(drive):
    events: list[Event] = []
    busy = ServiceError("m", "busy", retry=True)
    llm = Flaky(FakeLLM(), [None, busy, None, ServiceError("m", "no")])
    drive(batch("a", "b", "c"), Services(llm=llm, progress=events.append, clock=FakeClock(), max_concurrency=1))
    assert [(event.kind, event.attempt, event.done) for event in events] == [
        ("started", 1, 0), ("finished", 1, 1), ("started", 1, 1), ("retried", 1, 1), ("started", 2, 1),
        ("finished", 2, 2), ("started", 1, 2), ("failed", 1, 3),
    ]  # fmt: skip
    assert {(event.purpose, event.total) for event in events} == {("test", 3)}
    assert events[3].detail == "m: busy"


def test_progress_is_told_one_event_at_a_time():
    inside = threading.Lock()
    done = []

    def progress(event: Event) -> None:
        assert inside.acquire(blocking=False)
        done.append(event.done)
        inside.release()

    run(texts(*map(str, range(200))), Services(llm=FakeLLM(), progress=progress, max_concurrency=32))
    assert done == sorted(done)
    assert done[-1] == 200


def test_a_failing_progress_callback_is_logged_once_and_breaks_nothing(drive, caplog):
    def progress(event: Event) -> None:
        raise RuntimeError("terminal gone")

    assert drive(texts("a", "b"), Services(llm=FakeLLM(upper), progress=progress)) == ["A", "B"]
    assert caplog.messages == ["the progress callback failed; the run goes on without it"]


# Parameters


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: Services(max_concurrency=0), "max_concurrency"),
        (lambda: Retry(attempts=0), "attempts"),
        (lambda: Retry(jitter=1.5), "jitter"),
        (lambda: Retry(base_seconds=-1), "base_seconds"),
        (lambda: Retry(jitter=-0.5), "jitter"),
        (lambda: Limiter({Complete: 0}), "requests per minute of Complete"),
        (lambda: Limiter({Complete: -1}), "requests per minute of Complete"),
        (lambda: Handler(identity="x"), "handler x"),
        (lambda: Budget(max_tokens=-1), "max_tokens"),
        (lambda: Price(input=-1.0), "input"),
        (lambda: Budget(cap=1.0), "tariff"),
    ],
)
def test_parameters_outside_their_domain_are_named(build, name):
    with pytest.raises(ParameterError, match=name):
        build()


def test_importing_effects_starts_no_thread_and_loads_no_numpy():
    code = "import sys, threading, catena.effects; print('numpy' in sys.modules, threading.active_count())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "1"]


def test_a_forked_child_starts_its_own_threads():
    code = """
import asyncio, os
from catena.effects import Complete, Handler, Services, arun, ask, run
from catena.effects.ports import Completion
from catena.testing.fakes import FakeLLM
async def acall(request):
    return Completion(text=request.prompt)
sync, only_async = Services(llm=FakeLLM()), Services(handlers={Complete: Handler(identity="a", acall=acall)})
def step():
    return ask([Complete(prompt=p, purpose="t") for p in "abc"])
def go():
    one = ask([Complete(prompt="a", purpose="t")])  # first: for one call the parent's idle threads would seem enough
    rounds = [asyncio.run(arun(one, sync)), run(step(), sync), run(step(), only_async)]
    return [[reply.text for reply in replies] for replies in rounds]
go()
child = os.fork()
if child == 0:
    os._exit(0 if go() == [["a"], ["a", "b", "c"], ["a", "b", "c"]] else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "0"


def working(*, fails: bool = False) -> Any:
    """A step that blocks for a moment between its requests, and says on which thread."""
    threads = []
    for prompt in "ab":
        time.sleep(0.01)
        threads.append(threading.get_ident())
        (reply,) = yield [Complete(prompt=prompt, purpose="t")]
    if fails:
        raise ParameterError("fails", fails, "False")
    return reply.text, set(threads)


async def test_a_step_that_computes_does_so_in_threads():
    services = Services(llm=FakeLLM())
    with blockbuster_ctx(["catena"]):
        said, threads = await arun(working(), services, computes=True)
        with pytest.raises(ParameterError, match="fails"):
            await arun(working(fails=True), services, computes=True)
    assert said == run(working(), services)[0] == "b"
    assert threading.get_ident() not in threads


async def test_a_cancelled_step_that_computes_ends_with_its_piece_of_work():
    begun, go_on, told = threading.Event(), threading.Event(), []

    def step() -> Any:
        try:
            begun.set()
            go_on.wait(10)
            yield [Complete(prompt="never", purpose="t")]
        finally:
            told.append("closed")

    llm = FakeLLM()
    task = asyncio.create_task(arun(step(), Services(llm=llm), computes=True))
    await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()  # a second time changes nothing
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told == ["closed"]

"""Drives steps, with threads (`run`) or with asyncio (`arun`): the only place that knows about either.

All that happens to one request (journal, rate limit, budget, retries, progress) is written once, as the
generator `_Run.answer` that yields what has to be done, one `_Act` after the other. The two worlds differ in
how an act is done and in how the requests of a batch run side by side; nothing else exists twice.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from catena.errors import CancelledError, CatenaError, InvalidReplyError, ServiceError
from catena.faults import redact, service_error
from catena.services import Event, Handler, Services
from catena.steps import Failed, Request, Step

T = TypeVar("T")
_log = logging.getLogger(__name__)

MAX_THREADS = 256  # of the one pool of the process; started when first needed, shared by all runs
NOTICE_SECONDS = 0.25  # a waiting request sees within this time that the run was stopped


def run(step: Step[T], services: Services) -> T:
    """Drive a step with threads and return its result.

    Requests of a batch run side by side; this thread works too, so that a batch of one costs no thread and
    runs inside runs cannot starve each other. Works inside a running event loop (which it blocks: there,
    `await arun(...)` is better).

    Raises:
        CancelledError: `services.cancel` was set.
        BudgetExceededError: the next call would pass `services.budget`.
        JournalError: a reply could not be kept.
        CatenaError: whatever the step itself lets out.
    """
    state = _Run(services)

    def answers(requests: Sequence[Request]) -> list[Any]:
        todo, replies = state.begin(requests)

        def work() -> None:
            while (index := _next(todo)) is not None:
                replies[index] = _drive(state.answer(requests[index]), _do)

        helpers = [
            _pool().submit(copy_context().run, work) for _ in range(min(len(requests), services.max_concurrency) - 1)
        ]
        try:
            work()
        except BaseException:  # Ctrl-C in a call of this thread
            state.stop(CancelledError())
            raise
        finally:  # calls in flight end, and are kept; a second Ctrl-C gives up on them
            for helper in helpers:
                if not helper.cancel():
                    helper.result()
        state.raise_if_stopped()
        return replies

    return _drive(step, answers)


async def arun(step: Step[T], services: Services) -> T:
    """Drive a step with asyncio and return its result; as `run`, without ever blocking the event loop.

    Async twins of the services are awaited; services without one run in threads. When the task is
    cancelled, calls in flight are cancelled with it.
    """
    state = _Run(services)

    async def answers(requests: Sequence[Request]) -> list[Any]:
        todo, replies = state.begin(requests)

        async def work() -> None:
            while (index := _next(todo)) is not None:
                replies[index] = await _adrive(state.answer(requests[index]), _ado)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(len(requests), services.max_concurrency) - 1):
                group.create_task(work())
            await work()
        state.raise_if_stopped()
        return replies

    return await _adrive(step, answers)


@dataclass(frozen=True, slots=True)
class _Act:
    """One thing to do; where only one of the two ways is given, it serves both worlds."""

    do: Callable[[], Any] | None
    ado: Callable[[], Awaitable[Any]] | None = None


_Acts = Generator[_Act, Any, T]


class _Run:
    """What the requests of one run share, and what happens to each of them."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self._progress = services.progress
        self._stopped: CatenaError | None = None
        self._done = self._total = 0
        self._lock = threading.Lock()

    def begin(self, requests: Sequence[Request]) -> tuple[deque[int], list[Any]]:
        """Return the indexes still to do, for the workers to share, and the place for the replies."""
        self.raise_if_stopped()
        self._total += len(requests)
        return deque(range(len(requests))), [None] * len(requests)

    def stop(self, error: CatenaError) -> None:
        """Let calls in flight end and start no other; the first reason is the one reported."""
        with self._lock:
            self._stopped = self._stopped or error

    def stopped(self) -> CatenaError | None:
        if self._stopped is None and self.services.cancel is not None and self.services.cancel.is_set:
            self.stop(CancelledError())
        return self._stopped

    def raise_if_stopped(self) -> None:
        if (error := self.stopped()) is not None:
            raise error

    def answer(self, request: Request) -> _Acts[Any]:
        """Answer one request: with its reply, or with `Failed`."""
        if (error := self.stopped()) is not None:
            return Failed(error)
        try:
            handler = self.services.handler(type(request))
        except CatenaError as missing:
            return self._failed(request, missing)
        return (yield from self._called(request, handler))

    def _called(self, request: Request, handler: Handler) -> _Acts[Any]:
        """Call the service until it replies, or until it makes no sense to go on."""
        retry, clock = self.services.retry, self.services.clock
        for attempt in range(1, retry.attempts + 1):
            while (wait := self.services.limiter.take(type(request), clock.now())) > 0 and not self.stopped():
                yield from self._pause(wait)
            if (stopped := self.stopped()) is not None:
                return Failed(stopped)
            self._tell("started", request, attempt=attempt)
            reply = yield from self._attempt(request, handler)
            if not isinstance(reply, Failed):
                self._tell("finished", request, attempt=attempt)
                return reply
            error = reply.error
            again = isinstance(error, ServiceError) and error.retry and attempt < retry.attempts
            if not again or (error.retry_after or 0.0) > retry.patience_seconds:
                return self._failed(request, error, attempt)
            self._tell("retried", request, attempt=attempt, detail=str(error))
            if error.retry_after is not None:
                self.services.limiter.hold(type(request), clock.now() + error.retry_after)
            else:
                yield from self._pause(retry.wait(attempt))
        raise AssertionError("unreachable: the last attempt returns")

    def _attempt(self, request: Request, handler: Handler) -> _Acts[Any]:
        """Call the service once; return a clean reply, or `Failed` with one of our errors."""
        reply = yield _Act(
            partial(handler.call, request) if handler.call else None,
            partial(handler.acall, request) if handler.acall else None,
        )
        if isinstance(reply, Failed):
            return Failed(service_error(reply.error, handler.identity))
        return self._clean(request, handler, reply)

    def _clean(self, request: Request, handler: Handler, reply: Any) -> Any:
        if handler.form is None:
            return reply
        try:
            return handler.form.clean(request, reply)
        except Exception as error:  # whatever a reply of the wrong form, or the caller's `validate`, raises
            what = redact(str(error)) or "no reason given"
            named = what if isinstance(error, ValueError) else f"{type(error).__name__}: {what}"
            return Failed(InvalidReplyError(handler.identity, f"invalid reply to {_purpose(request)!r}: {named}"))

    def _pause(self, seconds: float) -> _Acts[None]:
        """Wait, in slices, so that a stop is noticed."""
        clock = self.services.clock
        until = clock.now() + seconds
        while (rest := until - clock.now()) > 0 and not self.stopped():
            nap = min(rest, NOTICE_SECONDS)
            yield _Act(partial(clock.sleep, nap), partial(clock.asleep, nap))

    def _failed(self, request: Request, error: Exception, attempt: int = 1) -> Failed:
        self._tell("failed", request, attempt=attempt, detail=str(error))
        return Failed(error)

    def _tell(self, kind: Any, request: Request, *, attempt: int = 1, detail: str = "") -> None:
        with self._lock:
            self._done += kind in ("finished", "failed", "cached")
            if self._progress is None:
                return
            event = Event(
                kind=kind,
                purpose=_purpose(request),
                done=self._done,
                total=self._total,
                attempt=attempt,
                detail=detail,
            )
            try:
                self._progress(event)
            except Exception:
                self._progress = None
                _log.exception("the progress callback failed; the run goes on without it")


def _purpose(request: Request) -> str:
    return str(getattr(request, "purpose", type(request).__name__))


def _next(todo: deque[int]) -> int | None:
    try:
        return todo.popleft()
    except IndexError:
        return None


# The two worlds, side by side.

Asked = TypeVar("Asked")


def _drive(generator: Generator[Asked, Any, T], perform: Callable[[Asked], Any]) -> T:
    with closing(generator):
        try:
            asked = next(generator)
            while True:
                asked = generator.send(perform(asked))
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


async def _adrive(generator: Generator[Asked, Any, T], perform: Callable[[Asked], Awaitable[Any]]) -> T:
    with closing(generator):
        try:
            asked = next(generator)
            while True:
                asked = generator.send(await perform(asked))
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


def _do(act: _Act) -> Any:
    try:
        if act.do is not None:
            return act.do()
        return asyncio.run_coroutine_threadsafe(_awaited(act), _private_loop()).result()
    except Exception as error:
        return Failed(error)


async def _ado(act: _Act) -> Any:
    try:
        if act.ado is not None:
            return await act.ado()
        return await asyncio.get_running_loop().run_in_executor(_pool(), copy_context().run, _do, act)
    except Exception as error:
        return Failed(error)


async def _awaited(act: _Act) -> Any:
    return await act.ado()  # type: ignore[misc]


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="catena")


@functools.cache
def _private_loop() -> asyncio.AbstractEventLoop:
    """Return the loop on which `run` awaits services that are async only: one, as their clients are bound to it."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="catena-loop", daemon=True).start()
    return loop


if hasattr(os, "register_at_fork"):  # threads do not survive a fork: the child starts its own
    os.register_at_fork(after_in_child=_pool.cache_clear)
    os.register_at_fork(after_in_child=_private_loop.cache_clear)

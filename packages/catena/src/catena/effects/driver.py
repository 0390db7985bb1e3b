"""Drive steps, with threads (`run`) or with asyncio (`arun`): the only place that knows about either.

All that happens to one request (journal, rate limit, budget, retries, progress) is written once, as the
generator `RequestPipeline.answer` that yields one `Effect` after the other. The two worlds differ in how an effect
is done and in how the requests of a batch run side by side; nothing else exists twice.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from catena.effects.requests import Effect, RequestPipeline
from catena.effects.services import Handler, Services
from catena.effects.steps import Failed, Request, Step
from catena.model.errors import CancelledError

T = TypeVar("T")
Asked = TypeVar("Asked")

MAX_THREADS = 256  # of the one pool of the process; started when first needed, shared by all runs


def run(step: Step[T], services: Services) -> T:
    """Drive a step with threads and return its result.

    All that it asks of a store that has snapshots, as the embedded library has, is answered from one state of it.

    Requests of a batch run side by side; this thread works too, so that a batch of one costs no thread and
    runs inside runs cannot starve each other. Works inside a running event loop (which it blocks: there,
    `await arun(...)` is better).

    Raises:
        CancelledError: `services.cancel` was set.
        BudgetExceededError: the next call would pass `services.budget`.
        JournalError: a reply could not be kept.
        CatenaError: whatever the step itself lets out.
    """
    state = RequestPipeline(services)

    def answers(requests: Sequence[Request]) -> list[Any]:
        batch = state.begin(requests)

        def work() -> None:
            while (index := batch.next()) is not None:
                batch.replies[index] = _drive(state.answer(requests[index]), _do)

        helpers: list[Future[None]] = []
        try:
            for _ in range(batch.width - 1):
                helpers.append(_pool().submit(copy_context().run, work))
            work()
            _finish(helpers)
        except BaseException:  # Ctrl-C: calls in flight end, and are kept; a second one gives up on them
            state.stop(CancelledError())
            _finish(helpers)
            raise
        return state.end(batch)

    with one_state(services):
        return _drive(step, answers)


async def arun(step: Step[T], services: Services, *, computes: bool = False) -> T:
    """Drive a step with asyncio and return its result; as `run`, without ever blocking the event loop.

    Async twins of the services are awaited; services without one run in threads. When the task is
    cancelled, calls in flight are cancelled with it.

    Args:
        step: any.
        services: who answers its requests.
        computes: the step works for long between its requests (clusters, say), or reads files there: that is done
            in threads, too. A cancelled task then ends when the piece of work does that is being done.
    """
    state = RequestPipeline(services)

    async def answers(requests: Sequence[Request]) -> list[Any]:
        batch = state.begin(requests)

        async def work() -> None:
            while (index := batch.next()) is not None:
                batch.replies[index] = await _adrive(state.answer(requests[index]), _ado)

        async with asyncio.TaskGroup() as group:
            for _ in range(batch.width - 1):
                group.create_task(work())
            await work()
        return state.end(batch)

    drive = _adrive_apart if computes else _adrive
    snapshot = services.snapshot()
    if snapshot is None:
        return await drive(step, answers)
    with snapshot.active():
        try:
            return await drive(step, answers)
        finally:
            if snapshot.is_open:  # its files are not for the event loop's thread to touch
                await _in_thread(snapshot.close)


def answered_by(identity: str, step: Callable[[Any], Step[Any]], services: Services) -> Handler:
    """Return the handler that answers a request by a step, driven with these services."""
    return Handler(
        identity=identity,
        call=lambda request: run(step(request), services),
        acall=lambda request: arun(step(request), services),
    )


@contextmanager
def one_state(services: Services) -> Iterator[None]:
    """Let all that is asked of the store until the block ends, in steps or else, see one state of it."""
    snapshot = services.snapshot()
    if snapshot is None:
        yield
        return
    with closing(snapshot), snapshot.active():
        yield


# The two worlds, side by side.


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


async def _adrive_apart(generator: Generator[Asked, Any, T], perform: Callable[[Asked], Awaitable[Any]]) -> T:
    """As `_adrive`; the generator's own code runs in threads, one piece after the other."""
    with closing(generator):
        moved = await _in_thread(lambda: _sent(generator, None))
        while not isinstance(moved, _Returned):
            reply = await perform(moved)
            moved = await _in_thread(lambda reply=reply: _sent(generator, reply))  # type: ignore[misc]
        return moved.value


@dataclass(frozen=True, slots=True)
class _Returned(Generic[T]):
    value: T


def _sent(generator: Generator[Asked, Any, T], reply: Any) -> Asked | _Returned[T]:
    try:
        return generator.send(reply)
    except StopIteration as done:  # which no future can hold
        return _Returned(done.value)


async def _in_thread(work: Callable[[], T]) -> T:
    """Return what is done in a thread; a task that is cancelled waits for it, since nobody can stop it."""
    doing = asyncio.get_running_loop().run_in_executor(_pool(), copy_context().run, work)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        while not doing.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([doing])
        if not doing.cancelled():
            doing.exception()  # nobody else asks for it
        raise


def _finish(helpers: Sequence[Future[None]]) -> None:
    """Wait for the helpers that have begun; the others have nothing left to do."""
    for helper in helpers:
        if not helper.cancel():
            helper.result()


def _do(effect: Effect) -> Any:
    try:
        if effect.do is not None:
            return effect.do()
        return asyncio.run_coroutine_threadsafe(_awaited(effect), _private_loop()).result()
    except Exception as error:
        return Failed(error)


async def _ado(effect: Effect) -> Any:
    try:
        if effect.ado is not None:
            return await effect.ado()
        return await asyncio.get_running_loop().run_in_executor(_pool(), copy_context().run, _do, effect)
    except Exception as error:
        return Failed(error)


async def _awaited(effect: Effect) -> Any:
    return await effect.ado()  # type: ignore[misc]


_starting = threading.Lock()


def _pool() -> ThreadPoolExecutor:
    with _starting:
        return _start_pool()


def _private_loop() -> asyncio.AbstractEventLoop:
    """Return the loop on which `run` awaits services that are async only: one, as their clients are bound to it."""
    with _starting:
        return _start_loop()


@functools.cache
def _start_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="catena")


@functools.cache
def _start_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="catena-loop", daemon=True).start()
    return loop


if hasattr(os, "register_at_fork"):  # threads do not survive a fork: the child starts its own
    os.register_at_fork(after_in_child=_start_pool.cache_clear)
    os.register_at_fork(after_in_child=_start_loop.cache_clear)

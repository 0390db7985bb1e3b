"""Process batches in worker processes: a killed process costs one retry, and an item that kills its process is found.

Processes are spawned, not forked: the same on every system, and safe beside the threads and clients of the caller. A
worker ends with its parent, however that ends: it listens at a pipe whose other end only the parent holds.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeAlias, TypeVar

from catena.effects import Cancel
from catena.model import CancelledError, CatenaError, ParameterError, ServiceError

T = TypeVar("T")
R = TypeVar("R")

Work: TypeAlias = Callable[[Sequence[T]], Iterable[R]]
"""Takes a batch and yields one result per item, in the order of the items, each as soon as it holds."""

OpenWork: TypeAlias = Callable[[Cancel], AbstractContextManager[Work[T, R]]]
"""Makes a worker's `Work`, in the worker and once: a picklable callable. The flag says when the caller stops."""

CANCEL_SECONDS = 0.1  # between two looks at the caller's flag
GRACE_SECONDS = 10.0  # for what a worker has begun when a run is stopped; then it is killed
STARTS = 3  # in a row at which workers may end before they are ready
SERVICE = "worker process"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The result of an item that ended its process, alone and twice: why."""

    reason: str


@dataclass(frozen=True, slots=True)
class _Task(Generic[T]):
    items: tuple[T, ...]
    deaths: int = 0  # of processes that had these items


@dataclass(slots=True)
class _Worker(Generic[T]):
    process: BaseProcess
    connection: Connection
    ready: bool = False
    task: _Task[T] | None = None
    done: int = 0  # items of the task whose results came


@dataclass(slots=True)
class _Pool(Generic[T]):
    open_work: OpenWork[T, Any]
    size: int
    batches: Iterator[tuple[T, ...]]
    queued: deque[_Task[T]] = field(default_factory=deque)
    workers: list[_Worker[T]] = field(default_factory=list)
    lost_starts: int = 0

    @property
    def done(self) -> bool:
        """Return whether nothing is left to do and no worker is busy."""
        return all(worker.task is None for worker in self.workers) and not self.has_tasks(1)

    def has_tasks(self, number: int) -> bool:
        """Return whether so many are waiting; no more batches than that are drawn."""
        while len(self.queued) < number and (items := next(self.batches, None)) is not None:
            self.queued.append(_Task(items))
        return len(self.queued) >= number

    def assign(self) -> None:
        """Give tasks to the workers that are free, and start workers for what is left."""
        for worker in self.workers:
            if worker.ready and worker.task is None and self.has_tasks(1):
                worker.task, worker.done = self.queued.popleft(), 0
                _send(worker.connection, worker.task.items)
        starting = sum(not worker.ready for worker in self.workers)
        while len(self.workers) < self.size and self.has_tasks(starting + 1):
            self.start()
            starting += 1

    def start(self) -> None:
        """Start one more worker; what it is to do is sent when it is ready."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self.open_work), daemon=True, name="catena-worker")
        try:
            process.start()
        except OSError as error:
            what = error.strerror or type(error).__name__
            raise ServiceError(SERVICE, f"it could not be started: {what}") from None
        finally:
            theirs.close()  # or its end would not be seen here
        self.workers.append(_Worker(process, ours))

    def bury(self, worker: _Worker[T]) -> Iterator[tuple[T, Lost]]:
        """Take leave of a worker that ended by itself; yield the item that ended it, if that is sure."""
        self.workers.remove(worker)
        worker.connection.close()
        worker.process.join()
        how = _ending(worker.process.exitcode)
        if not worker.ready:
            self.lost_starts += 1
            if self.lost_starts >= STARTS:
                hint = "a call under `if __name__ == '__main__':`, and factories that other processes can import"
                raise ServiceError(SERVICE, f"it {how} before it was ready, {STARTS} times. Try: {hint}")
        elif worker.task is not None and (rest := worker.task.items[worker.done :]):
            deaths = worker.task.deaths + 1
            if deaths > 1 and len(rest) == 1:
                yield rest[0], Lost(reason=f"the process that prepared it {how}, twice")
            else:
                self.queued.extendleft(reversed(_shared(rest, deaths)))

    def stop(self, seconds: float = GRACE_SECONDS) -> None:
        """End all workers: each ends what it cannot leave half done, or is killed after some time."""
        for worker in self.workers:
            _send(worker.connection, None)
        for worker in self.workers:
            worker.process.join(seconds)
            worker.process.kill()
            worker.process.join()
            worker.connection.close()
        self.workers.clear()


def through_processes(
    batches: Iterable[Sequence[T]], open_work: OpenWork[T, R], *, workers: int = 2, cancel: Cancel | None = None
) -> Generator[tuple[T, R | Lost], None, None]:
    """Yield every item with its result, as they come; batches are drawn when a worker is free for them.

    A batch whose process is killed is done once more, less the items whose results came. Where that is killed too, it
    is halved, until one item is alone with it: that item is `Lost`, and all others have results. Items may be worked
    on twice, so work must be repeatable.

    Args:
        batches: of picklable items.
        open_work: makes each worker's work.
        workers: processes at once, >= 1.
        cancel: another thread may stop the run with it.

    Raises:
        CancelledError: it did.
        CatenaError: the work of a batch raised it, or `open_work` did; what has results stays done.
        ServiceError: a worker raised something else, or none could be started.
    """
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise ParameterError("workers", workers, "a whole number >= 1")
    pool: _Pool[T] = _Pool(open_work, workers, (tuple(batch) for batch in batches if batch))
    try:
        yield from _results(pool, cancel)
    finally:
        pool.stop()


def _results(pool: _Pool[T], cancel: Cancel | None) -> Iterator[tuple[T, Any]]:
    while not pool.done:
        if cancel is not None and cancel.is_set:
            raise CancelledError
        pool.assign()
        by_connection = {worker.connection: worker for worker in pool.workers}
        for connection in wait(list(by_connection), None if cancel is None else CANCEL_SECONDS):
            yield from _heard(pool, by_connection[connection])  # type: ignore[index]


def _heard(pool: _Pool[T], worker: _Worker[T]) -> Iterator[tuple[T, Any]]:
    """Take one message of a worker, or its end."""
    try:
        kind, value = worker.connection.recv()
    except (EOFError, OSError):
        yield from pool.bury(worker)
        return
    if kind == "failed":
        raise value
    if kind == "result":
        assert worker.task is not None
        worker.done += 1
        yield worker.task.items[worker.done - 1], value
        return
    worker.ready, worker.task, pool.lost_starts = True, None, 0


def _shared(rest: tuple[T, ...], deaths: int) -> tuple[_Task[T], ...]:
    """Return the tasks that repeat a batch: all of it after the first death, which may be chance; then its halves."""
    if deaths == 1:
        return (_Task(rest, deaths),)
    half = len(rest) // 2
    return (_Task(rest[:half], 1), _Task(rest[half:], 1))


def _ending(code: int | None) -> str:
    if code is None or code >= 0:
        return f"ended with code {code}"
    if -code == getattr(signal, "SIGKILL", 9):
        return "was killed, most likely for its memory"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _send(connection: Connection, message: object) -> None:
    try:
        connection.send(message)
    except OSError:
        return  # the other end is gone: whoever listens to it notices


# In the worker.


def _serve(connection: Connection, open_work: OpenWork[Any, Any]) -> None:
    """Work on batches until there are none, or until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the parent says when to stop
    cancel, tasks = Cancel(), queue.SimpleQueue[Any]()
    threading.Thread(target=_listen, args=(connection, tasks, cancel), daemon=True).start()
    try:
        with open_work(cancel) as work:
            _send(connection, ("free", None))
            while (batch := tasks.get()) is not None and not cancel.is_set:
                for result in work(batch):
                    _send(connection, ("result", result))
                _send(connection, ("free", None))
    except CatenaError as error:
        _send(connection, ("failed", error))
    except Exception as error:
        _send(connection, ("failed", ServiceError(SERVICE, f"{type(error).__name__}: {error}")))
        raise


def _listen(connection: Connection, tasks: queue.SimpleQueue[Any], cancel: Cancel) -> None:
    """Pass on what the parent sends; end this process at once where the parent has ended without a word."""
    try:
        while (message := connection.recv()) is not None:
            tasks.put(message)
    except (EOFError, OSError):
        os._exit(1)
    cancel.set()
    tasks.put(None)

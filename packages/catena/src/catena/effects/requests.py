"""Answer one request: look into the journal, keep to rate limit and budget, call the service, retry, report progress.

All of it is one generator, which yields one `Effect` after the other to a driver that does it with threads or with
asyncio. `Tries` decides whether and when a request that failed is asked again.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from math import inf
from typing import Any, TypeAlias, TypeVar

from catena.effects.budget import Usage
from catena.effects.faults import service_error
from catena.effects.journal import Journal
from catena.effects.ports import Completion
from catena.effects.redaction import redact
from catena.effects.replies import Form, redacted
from catena.effects.services import Event, EventKind, Handler, Services
from catena.effects.steps import Failed, Request
from catena.model import InvalidReplyError, JournalError
from catena.model.errors import BudgetExceededError, CancelledError, CatenaError, SchemaRefusedError, ServiceError

T = TypeVar("T")
_log = logging.getLogger(__name__)

NOTICE_SECONDS = 0.25  # a waiting request sees within this time that the run was stopped
CALLS_OF_A_QUESTION = 2  # the first and one retry; then the service counts as dead
QUICK = 10.0  # seconds; a call that failed later is repeated once at most, that of a question not at all


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing to do; where only one of the two ways is given, it serves both worlds."""

    do: Callable[[], Any] | None
    ado: Callable[[], Awaitable[Any]] | None = None


Effects: TypeAlias = Generator[Effect, Any, T]


@dataclass(frozen=True, slots=True)
class RequestRound:
    """The requests of one round: what is still to do, for the workers to share, and the replies so far."""

    requests: Sequence[Request]
    answered_by: Sequence[int]  # per request, the index of the request whose reply it gets: mostly its own
    todo: deque[int]
    width: int  # workers
    replies: list[Any]

    def next(self) -> int | None:
        try:
            return self.todo.popleft()
        except IndexError:
            return None


class RequestPipeline:
    """Answer the requests of one run, with the state that they share: a stop, the progress, secrets to take out."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self._progress = services.progress
        self._stopped: CatenaError | None = None
        self._done = self._total = 0
        self._found_secrets: dict[int, frozenset[str]] = {}  # by the id of a handler, which the services hold
        self._lock = threading.Lock()

    def begin(self, requests: Sequence[Request]) -> RequestRound:
        self.raise_if_stopped()
        self._total += len(requests)
        answered_by = _first_of_equals(requests, self.services.keeps)
        todo = deque(index for index, first in enumerate(answered_by) if index == first)
        width = min(len(todo), self.services.max_concurrency)
        return RequestRound(requests, answered_by, todo, width, [None] * len(requests))

    def end(self, batch: RequestRound) -> list[Any]:
        """Return the replies in the order of the requests, unless the run was stopped."""
        self.raise_if_stopped()
        for index, first in enumerate(batch.answered_by):
            if index != first:
                self._tell("failed" if isinstance(batch.replies[first], Failed) else "cached", batch.requests[index])
        return [batch.replies[first] for first in batch.answered_by]

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

    def answer(self, request: Request) -> Effects[Any]:
        """Answer one request: with its reply, or with `Failed`; nothing is raised."""
        try:
            return (yield from self._answer(request))
        except Exception as error:  # of the caller's token counter, say
            return self._failed(request, service_error(error, f"{type(request).__name__} request"))

    def _answer(self, request: Request) -> Effects[Any]:
        if (error := self.stopped()) is not None:
            return Failed(error)
        try:
            handler = self.services.handler(type(request))
        except CatenaError as missing:
            return self._failed(request, missing)
        if self.services.journal is None or handler.form is None:
            return (yield from self._called(request, handler))
        return (yield from self._kept(request, handler, handler.form, self.services.journal))

    def _kept(self, request: Request, handler: Handler, form: Form, journal: Journal) -> Effects[Any]:
        """Answer from the journal, or else call the service and keep its reply."""
        found = yield Effect(partial(journal.find, handler.identity, request))
        if isinstance(found, Failed):
            return self._broken(request, found.error)
        key, payload = found
        if payload is not None:
            try:
                reply = form.revive(request, payload)
            except Exception:  # damaged, or no longer valid: asked for again
                if isinstance(forgotten := (yield Effect(partial(journal.forget, key))), Failed):
                    return self._broken(request, forgotten.error)
            else:
                self._tell("cached", request)
                return reply
        reply = yield from self._called(request, handler)
        if isinstance(reply, Failed):
            return reply
        kept = yield Effect(
            lambda: form.decode(journal.put(key, form.encode(redacted(reply, self._secrets(handler)))))
        )
        return self._broken(request, kept.error) if isinstance(kept, Failed) else kept

    def _broken(self, request: Request, error: Exception) -> Failed:
        """Stop the run when the journal fails: going on would pay for replies that are lost."""
        if isinstance(error, JournalError):
            self.stop(error)
        return self._failed(request, error)

    def _called(self, request: Request, handler: Handler) -> Effects[Any]:
        """Call the service until it replies, or until it makes no sense to go on."""
        tries = Tries(self.services, request, handler)
        if (dead := tries.refusal()) is not None:
            return self._failed(request, dead)
        for attempt in count(1):
            while (wait := tries.wait()) > 0 and not self.stopped():
                yield from self._pause(wait)
            if (stopped := self.stopped()) is not None:
                return Failed(stopped)
            self._tell("started", request, attempt=attempt)
            tries.called()
            try:
                reply = yield from self._attempt(request, handler, tries)
            finally:
                tries.ended()
            if not isinstance(reply, Failed):
                tries.answered()
                self._tell("finished", request, attempt=attempt)
                return reply
            error = reply.error
            if self._stopped is not None and isinstance(error, BudgetExceededError):
                return reply  # not this request's fault: it was not even asked
            if (pause := tries.pause(error)) is None:
                break
            self._tell("retried", request, attempt=attempt, detail=str(error))
            yield from self._pause(pause)
        return self._failed(request, error, attempt)

    def _attempt(self, request: Request, handler: Handler, tries: Tries) -> Effects[Any]:
        """Call the service, again with more room where its reply was cut; return a clean reply or `Failed`.

        A fault of the wider call that may pass leaves that call to the next attempt; another one, the cut reply.
        """
        if tries.cut is None:
            sized = self.services.sized(request, handler.identity)
            reply = yield from self._formed(sized, handler)
            wider = self.services.wider(sized, reply)
            if wider is None or self.stopped() is not None:
                return reply if isinstance(reply, Failed) else self._clean(request, handler, reply)
            self._tell("retried", request, detail=f"the reply was cut at {sized.max_tokens} tokens")
            tries.cut = reply, wider
        cut, wider = tries.cut
        reply = yield from self._formed(wider, handler, needed=False)
        if isinstance(reply, Failed):
            if isinstance(reply.error, ServiceError) and reply.error.retry:
                return reply
            reply = cut
        return self._clean(request, handler, reply)

    def _formed(self, request: Any, handler: Handler, *, needed: bool = True) -> Effects[Any]:
        """Call the service, again without the schema of the reply where that is what it refused."""
        reply = yield from self._paid(request, handler, needed=needed)
        if isinstance(reply, Failed) and isinstance(reply.error, SchemaRefusedError) and self.stopped() is None:
            self._tell("retried", request, detail=str(reply.error))
            reply = yield from self._paid(replace(request, schema=""), handler, needed=needed)
        return reply

    def _paid(self, request: Request, handler: Handler, *, needed: bool = True) -> Effects[Any]:
        """Call the service once, within the budget; return what it replied, or `Failed` with one of our errors.

        What does not fit into the budget stops the run where it is needed.
        """
        budget = self.services.budget
        try:
            reserved = budget.reserve(request) if budget is not None else Usage()
        except BudgetExceededError as error:
            if needed:
                self.stop(error)
            return Failed(error)
        used = Usage()
        try:
            reply = yield Effect(
                partial(handler.call, request) if handler.call else None,
                partial(handler.acall, request) if handler.acall else None,
            )
            failed = isinstance(reply, Failed)
            paid = getattr(reply.error, "paid", None) if failed else reply  # a reply of no use is paid for, too
            if isinstance(paid, Completion):
                self.services.health.thought(handler.identity, paid.reasoning_tokens)
            if budget is not None and not (failed and paid is None):
                used = budget.tariff.after(request, paid)
            if failed:
                return Failed(service_error(reply.error, handler.identity, secrets=self._secrets(handler)))
            return reply
        finally:
            if budget is not None:
                budget.settle(reserved, used)

    def _clean(self, request: Request, handler: Handler, reply: Any) -> Any:
        if handler.form is None:
            return reply
        try:
            return handler.form.clean(request, reply)
        except Exception as error:  # whatever a reply of the wrong form, or the caller's `validate`, raises
            what = redact(str(error), self._secrets(handler)) or "no reason given"
            named = what if isinstance(error, ValueError) else f"{type(error).__name__}: {what}"
            return Failed(InvalidReplyError(handler.identity, f"invalid reply to {_purpose(request)!r}: {named}"))

    def _secrets(self, handler: Handler) -> frozenset[str]:
        if id(handler) not in self._found_secrets:
            self._found_secrets[id(handler)] = handler.secrets
        return self._found_secrets[id(handler)]

    def _pause(self, seconds: float) -> Effects[None]:
        """Wait, in slices, so that a stop is noticed."""
        clock = self.services.clock
        until = clock.now() + seconds
        while (rest := until - clock.now()) > 0 and not self.stopped():
            nap = min(rest, NOTICE_SECONDS)
            yield Effect(partial(clock.sleep, nap), partial(clock.asleep, nap))

    def _failed(self, request: Request, error: Exception, attempt: int = 1) -> Failed:
        self._tell("failed", request, attempt=attempt, detail=str(error))
        return Failed(error)

    def _tell(self, kind: EventKind, request: Request, *, attempt: int = 1, detail: str = "") -> None:
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


def _first_of_equals(requests: Sequence[Request], keeps: Callable[[type[Request]], bool]) -> list[int]:
    """Return per request the index of the first one equal to it: what is kept is not asked twice at once either."""
    first: dict[Any, int] = {}
    indexes = list(range(len(requests)))
    for index, request in enumerate(requests):
        if keeps(type(request)):
            with suppress(TypeError):  # a field that cannot be hashed: counts as unlike all others
                indexes[index] = first.setdefault((request, getattr(request, "validate", None)), index)
    return indexes


class Tries:
    """The calls of one request: how many there are to be, and what they tell of the service.

    Args:
        services: their rules, limiter, circuits and clock.
        request: what is asked.
        handler: of whom.

    Attributes:
        cut: a reply that was cut, and the request with more room that is asked from then on.
    """

    def __init__(self, services: Services, request: Request, handler: Handler) -> None:
        self._retry, self._clock = services.retry, services.clock
        self._limiter, self._health = services.limiter, services.health
        self._kind = type(request)
        # a single attempt is that of a store inside another: who asks the outer one tries again, and has the circuit
        self._circuit = self._health.circuit(handler.identity, request) if self._retry.attempts > 1 else None
        self._began = self._called_at = self._clock.now()
        self._calls = 0
        self.cut: tuple[Any, Any] | None = None
        self._most = self._retry.attempts
        if self._circuit is not None:
            self._most = 1 if self._health.is_open(self._circuit) else min(self._most, CALLS_OF_A_QUESTION)

    def refusal(self) -> ServiceError | None:
        """Return why the request is not asked at all; None where it is."""
        return None if self._circuit is None else self._health.refusal(self._circuit, self._clock.now())

    def wait(self) -> float:
        """Return the seconds until the service may be called; 0 takes the slot."""
        return self._limiter.take(self._kind, self._clock.now())

    def called(self) -> None:
        """Note that a call begins."""
        self._calls += 1
        self._called_at = self._clock.now()
        self._limiter.begun(self._kind)

    def ended(self) -> None:
        """Note that the call ended, however it did."""
        self._limiter.ended(self._kind)

    def answered(self) -> None:
        """Note that the call was answered."""
        now = self._clock.now()
        self._limiter.replied(self._kind)
        if self._circuit is not None:
            self._health.answered(self._circuit, now)

    def pause(self, error: Exception) -> float | None:
        """Return the seconds to wait after a call that failed, beside what holds all of its type; None to give up."""
        if not isinstance(error, ServiceError):
            return None
        now = self._clock.now()
        if not error.retry or (error.retry_after or 0.0) > self._retry.patience_seconds:
            if self._circuit is not None:
                self._health.answered(self._circuit, now)
            return None
        quick = now - self._called_at <= QUICK
        worth = self._most if quick else min(self._most, 2 if self._circuit is None else 1)  # so many calls in all
        more, rest = self._calls < worth, inf
        if error.rate_limited and self._retry.attempts > 1 and (minute := self._retry.rate_limit_seconds):
            rest = self._limiter.patience(self._kind, now, minute)
            more = rest > 0
        if error.retry_after is not None and (more or not error.rate_limited):  # the others wait, too
            self._limiter.hold(self._kind, now + error.retry_after)
        elif error.rate_limited and more:
            self._limiter.refused(self._kind, now, lambda round: min(rest, self._retry.wait(round)))
        if more:
            return 0.0 if error.rate_limited or error.retry_after is not None else self._retry.wait(self._calls)
        if self._circuit is not None and not error.rate_limited:
            self._health.failed(self._circuit, error.what, began=self._began, now=now)
        return None

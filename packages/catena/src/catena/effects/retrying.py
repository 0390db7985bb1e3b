"""Whether one request is asked again, and when: by what its service answered, to it and to others."""

from __future__ import annotations

from math import inf
from typing import Any

from catena.effects.services import Handler, Services
from catena.effects.steps import Request
from catena.model.errors import ServiceError

CALLS_OF_A_QUESTION = 2  # the first and one retry; then the service counts as dead
QUICK = 10.0  # seconds; a call that failed later is repeated once at most, that of a question not at all


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
        more, rest = self._calls < self._worth_it(now), inf
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

    def _worth_it(self, now: float) -> int:
        """Return how many calls the request is worth after one that ended now."""
        if now - self._called_at <= QUICK:
            return self._most
        return min(self._most, 2 if self._circuit is None else 1)

"""Judge services by their last calls: which ones are dead, and how many tokens a model thinks before it writes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from catena.effects.steps import Request, Search
from catena.model.errors import ParameterError, ServiceError

COOL_DOWN_SECONDS = 30.0


@dataclass(slots=True)
class _Open:
    """An open circuit: not asked until `until`."""

    until: float
    why: str


class Health:
    """Keep a circuit for each service that questions wait for, shared by all runs that hold this object.

    A circuit opens when a request fails twice by what may pass (no connection, a timeout, an error of the server;
    not a refusal for too many requests), and the service has answered nothing meanwhile. While it is open, requests
    fail at once and say so, and a search goes on without the route. After `cool_down_seconds` one request tries the
    service: an answer closes the circuit, another failure keeps it open as long again.

    Only what a question waits for has a circuit, as the type of the request says (`waited_for`): stores, graphs,
    retrievers, rerankers and the embedding of queries. Work on documents is not given up for half a minute's fault.

    Args:
        cool_down_seconds: how long a dead service is left alone, >= 0; 0 for no circuits.

    Source: M. Nygard, Release It!, 2nd edition, 2018, section 5.2 (circuit breaker).
    """

    def __init__(self, cool_down_seconds: float = COOL_DOWN_SECONDS) -> None:
        if not cool_down_seconds >= 0:
            raise ParameterError("cool_down_seconds", cool_down_seconds, "a number >= 0")
        self.cool_down_seconds = cool_down_seconds
        self._open: dict[str, _Open] = {}
        self._answered: dict[str, float] = {}
        self._thought: dict[str, int] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Callable[[float], Health], tuple[float]]:
        return Health, (self.cool_down_seconds,)

    def circuit(self, service: str, request: Request) -> str | None:
        """Return the name of the circuit that a request goes through; None where it has none."""
        if not getattr(request, "waited_for", False) or not self.cool_down_seconds:
            return None
        parts = (request.route, request.view) if isinstance(request, Search) else ()
        return "/".join([service, *filter(None, parts)])

    def refusal(self, circuit: str, now: float) -> ServiceError | None:
        """Return why a service is not asked now; None where it is, and then others wait for what becomes of it."""
        with self._lock:
            if (found := self._open.get(circuit)) is None:
                return None
            if now >= found.until:
                found.until = now + self.cool_down_seconds  # this request is the trial
                return None
            again = f"it is tried again in {max(1, round(found.until - now))} s"
            return ServiceError(circuit, f"not asked, as it did not answer before; {again} ({found.why})")

    def is_open(self, circuit: str) -> bool:
        """Tell whether a service counts as dead."""
        return circuit in self._open

    def failed(self, circuit: str, why: str, *, began: float, now: float) -> None:
        """Note that a request that began at `began` was given up: the circuit opens, unless others were answered."""
        with self._lock:
            if self._answered.get(circuit, -1.0) < began:
                self._open[circuit] = _Open(now + self.cool_down_seconds, why)

    def answered(self, circuit: str, now: float) -> None:
        """Note that a service answered, if only by refusing: its circuit closes."""
        with self._lock:
            self._answered[circuit] = now
            self._open.pop(circuit, None)

    def room(self, service: str) -> int:
        """Return how many tokens beyond a reply's own a model needs to think: twice the most that it was seen to."""
        return 2 * self._thought.get(service, 0)

    def thought(self, service: str, tokens: int) -> None:
        """Note that a model spent so many tokens before it wrote."""
        with self._lock:
            self._thought[service] = max(tokens, self._thought.get(service, 0))

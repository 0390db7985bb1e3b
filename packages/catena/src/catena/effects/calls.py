"""Ask what is no service of the core: calls of a user's own objects as requests, and steps that answer requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from catena.effects.driver import arun, run
from catena.effects.services import Handler, Services
from catena.effects.steps import Request, Step, ask


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ForeignCall:
    """One call, by threads or by asyncio; the reply is what it returns. `calling` answers it.

    Attributes:
        do: makes it.
        ado: makes it on an event loop.
        purpose: in messages and progress.
        waited_for: whether a question waits for it.
    """

    do: Callable[[], Any]
    ado: Callable[[], Awaitable[Any]]
    purpose: str = "store"
    waited_for: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AwaitedCall:
    """One call of a coroutine function; without an event loop it is awaited on one of the core's."""

    ado: Callable[[], Awaitable[Any]]
    purpose: str = "store"


def calling(identity: str) -> Mapping[type[Request], Handler]:
    """Return the handlers of calls; what is raised comes back as a `ServiceError` under this name."""
    return {
        ForeignCall: Handler(identity=identity, call=lambda call: call.do(), acall=lambda call: call.ado()),
        AwaitedCall: Handler(identity=identity, acall=lambda call: call.ado()),
    }


def called(
    do: Callable[[], Any], ado: Callable[[], Awaitable[Any]], *, purpose: str = "store", waited_for: bool = False
) -> Step[Any]:
    """Make one call, see `ForeignCall`, and return its reply."""
    (reply,) = yield from ask([ForeignCall(do=do, ado=ado, purpose=purpose, waited_for=waited_for)])
    return reply


def answered_by(identity: str, step: Callable[[Any], Step[Any]], services: Services) -> Handler:
    """Return the handler that answers a request by a step, driven with these services."""
    return Handler(
        identity=identity,
        call=lambda request: run(step(request), services),
        acall=lambda request: arun(step(request), services),
    )

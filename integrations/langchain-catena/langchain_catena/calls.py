"""Calls of a user's own store or retriever as requests, so that what uses them is written once for both worlds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from catena.effects import Handler, Request, Step, ask

Do = Callable[[], Any]
Await = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """One call, by threads or by asyncio; the reply is what it returns."""

    do: Do
    ado: Await
    purpose: str = field(default="store", kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class _Awaited:
    """One call of a coroutine function; without an event loop it is awaited on one of the core's."""

    ado: Await
    purpose: str = field(default="store", kw_only=True)


def calling(identity: str) -> Mapping[type[Request], Handler]:
    """Return who answers calls; what a store raises comes back as a `ServiceError` under this name."""
    return {
        _Call: Handler(identity=identity, call=lambda call: call.do(), acall=lambda call: call.ado()),
        _Awaited: Handler(identity=identity, acall=lambda call: call.ado()),
    }


def called(do: Do | None, ado: Await, *, purpose: str = "store") -> Step[Any]:
    """Make one call and return its reply; `do` is None for what is a coroutine function alone."""
    call = _Awaited(ado, purpose=purpose) if do is None else _Call(do, ado, purpose=purpose)
    (reply,) = yield from ask([call])
    return reply

"""Calls of a user's own index, store or retriever as requests: what uses them is written once for both worlds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from catena.effects import Handler, Request, Step, ask


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """One call, by threads or by asyncio; the reply is what it returns."""

    do: Callable[[], Any]
    ado: Callable[[], Awaitable[Any]]
    purpose: str = field(default="store", kw_only=True)


def calling(identity: str) -> Mapping[type[Request], Handler]:
    """Return who answers calls; what a store raises comes back as a `ServiceError` under this name."""
    return {_Call: Handler(identity=identity, call=lambda call: call.do(), acall=lambda call: call.ado())}


def called(do: Callable[[], Any], ado: Callable[[], Awaitable[Any]], *, purpose: str = "store") -> Step[Any]:
    """Make one call and return its reply."""
    (reply,) = yield from ask([_Call(do, ado, purpose=purpose)])
    return reply

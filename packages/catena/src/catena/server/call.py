"""One request to a search server as a value, and who sends it: all that this package knows of the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

Method: TypeAlias = Literal["GET", "POST", "PUT", "DELETE", "HEAD"]
Flavour: TypeAlias = Literal["elasticsearch", "opensearch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Send one HTTP request to the server; the reply is the body of its answer, as JSON values.

    Attributes:
        path: with its leading "/"; names in it are quoted already (`quoted`).
        params: of the query string; True and False are sent as "true" and "false".
        body: sent as JSON; None for none.
        lines: sent as NDJSON, one value a line, instead of `body`.
        missing_ok: whether an answer 404 is the reply None instead of an error.
        seconds: after which the caller gives up; None for the client's own limit.
    """

    method: Method
    path: str
    params: Mapping[str, str | int | bool] = field(default_factory=dict)
    body: Mapping[str, Any] | None = field(default=None, repr=False)
    lines: Sequence[Mapping[str, Any]] | None = field(default=None, repr=False)
    missing_ok: bool = False
    seconds: float | None = None
    purpose: str = field(default="server", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Wait; the reply is None."""

    seconds: float
    purpose: str = field(default="pause", compare=False)


class Transport(Protocol):
    """Sends calls: a client of Elasticsearch or of OpenSearch, sync, async or both.

    Where it also has `aperform`, asyncio drivers await that; otherwise they run `perform` in a thread.
    """

    @property
    def identity(self) -> str:
        """Where calls go, without credentials: for messages."""
        ...

    @property
    def flavour(self) -> Flavour:
        """Which of the two dialects the server speaks."""
        ...

    def perform(self, call: Call) -> Any:
        """Return the body of the answer.

        Raises:
            ServerError: the server refused, or could not be reached; `status` and `kind` say how.
        """
        ...

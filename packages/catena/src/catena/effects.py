"""Steps: work that needs the outside world, written once and driven by threads or by asyncio.

A step is a generator that yields a batch of requests and receives the replies, in order; a request that
failed comes back as a `Failed` value. `yield from` composes steps as `await` composes coroutines.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

from catena.model import Where

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """Ask the language model; the reply is a `Completion`."""

    prompt: str
    purpose: str
    system: str = ""
    max_tokens: int = 1024
    prompt_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embed:
    """Turn texts into vectors; the reply has shape (len(texts), dim)."""

    texts: tuple[str, ...]
    kind: Literal["document", "query"] = "document"
    purpose: str = "embedding"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Score query and texts together; the reply is one raw score per text."""

    query: str
    texts: tuple[str, ...]
    purpose: str = "rerank"


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """Describe a picture; the reply is a string."""

    image: bytes
    prompt: str
    purpose: str = "caption"


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Ask a store for one route's ranking; the reply is a `Ranking`."""

    route: str
    query: str
    k: int
    vector: Any = None  # shape (dim,), for routes that compare vectors
    view: str | None = None  # kind of view to search; None leaves it to the route
    where: Where | None = None
    among: tuple[str, ...] | None = None  # rank these chunks (ids) and no others
    purpose: str = field(default="search", compare=False)


Request: TypeAlias = Complete | Embed | Rate | Describe | Search
Step: TypeAlias = Generator[Sequence[Request], Sequence[Any], T]


@dataclass(frozen=True, slots=True)
class Failed:
    """A request or a step that failed, as a value: the neighbours' replies are not lost."""

    error: Exception


def ask(requests: Sequence[Request]) -> Step[list[Any]]:
    """Return the replies in order; the first failure is raised here, inside the step."""
    replies = yield requests
    for reply in replies:
        if isinstance(reply, Failed):
            raise reply.error
    return list(replies)


def together(steps: Sequence[Step[T]]) -> Step[list[T | Failed]]:
    """Advance steps side by side, one shared batch a round; a failed step does not stop the rest."""
    results: dict[int, T | Failed] = {}
    replies: dict[int, Any] = dict.fromkeys(range(len(steps)))
    while True:
        pending: dict[int, Sequence[Request]] = {}
        for index, reply in replies.items():
            try:
                pending[index] = steps[index].send(reply)
            except StopIteration as done:
                results[index] = done.value
            except Exception as error:  # the caller decides what a failed step means
                results[index] = Failed(error)
        if not pending:
            return [results[index] for index in range(len(steps))]
        flat = iter((yield [request for batch in pending.values() for request in batch]))
        replies = {index: [next(flat) for _ in batch] for index, batch in pending.items()}

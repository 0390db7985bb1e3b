"""Deterministic services for tests: no network, no model, the same replies in every process.

Each records what it was asked in `calls`, in the order in which the calls began. `Flaky` and `Slow` wrap any
service (also real ones) to fail or to dawdle as told.
"""

from __future__ import annotations

import functools
import hashlib
import math
import random
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from catena.effects import Clock, Complete, Completion, Search
from catena.formatting import atom_keys, atoms_of, flat, planned_answer
from catena.model import Chunk, Hit, Ranking, Scale
from catena.model.errors import ServiceError
from catena.model.filters import compiled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_ASYNC_NAMES = frozenset(
    {"acomplete", "aembed_documents", "aembed_query", "ascore", "acaption", "arecognise", "asearch"}
)
_REST = re.compile(r"[^\w\n]*(?=\n|\Z)|[^\w\s]*")


class Recorder:
    """Keeps the calls of a fake, safely for threads."""

    def __init__(self, identity: str = "") -> None:
        if identity:
            self.identity = identity
        self.calls: list[Any] = []
        self._lock = threading.Lock()

    def record(self, call: Any) -> int:
        """Add a call and return its 0-based place."""
        with self._lock:
            self.calls.append(call)
            return len(self.calls) - 1


class FakeTokenizer:
    """One token per word."""

    identity = "fake-words"

    def count(self, text: str) -> int:
        """Return the number of words."""
        return len(text.split())


class FakeLLM(Recorder):
    """A model whose reply is a function of the prompt.

    Args:
        reply: a function of the request, or replies by prompt; without either, the prompt's first words.
        identity: service and model.
    """

    def __init__(
        self,
        reply: Callable[[Complete], str | Completion] | Mapping[str, str] | None = None,
        identity: str = "fake-llm",
    ) -> None:
        super().__init__(identity)
        self._reply = reply

    def complete(self, request: Complete) -> Completion:
        """Return the reply, with the words of prompt and reply as tokens."""
        self.record(request)
        reply = self._of(request)
        if isinstance(reply, Completion):
            return reply
        words = FakeTokenizer().count
        return Completion(
            text=reply, input_tokens=words(request.system + " " + request.prompt), output_tokens=words(reply)
        )

    def _of(self, request: Complete) -> str | Completion:
        if self._reply is None:
            return " ".join(request.prompt.split()[:8]) or "nothing"
        if callable(self._reply):
            return self._reply(request)
        if request.prompt not in self._reply:
            raise ServiceError(self.identity, f"no reply was given for the prompt {request.prompt[:80]!r}")
        return self._reply[request.prompt]


class ScriptedLLM(Recorder):
    """A model that replies from a list, in the order of the calls; an exception in it is raised."""

    def __init__(self, replies: Sequence[str | Completion | Exception], identity: str = "scripted-llm") -> None:
        super().__init__(identity)
        self._replies = tuple(replies)

    def complete(self, request: Complete) -> Completion:
        """Return the next reply."""
        place = self.record(request)
        if place >= len(self._replies):
            raise ServiceError(self.identity, f"call {place + 1}, but only {len(self._replies)} replies were given")
        reply = self._replies[place]
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, Completion) else Completion(text=reply)


class _RowEmbedder(Recorder, ABC):
    """An embedding model that makes the vector of each text by itself."""

    dim: int

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit rows, shape (len(texts), dim)."""
        import numpy as np

        self.record(tuple(texts))
        return np.array([self._row(text) for text in texts], dtype=np.float32).reshape(len(texts), self.dim)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return a unit vector, shape (dim,)."""
        import numpy as np

        self.record(text)
        return np.array(self._row(text), dtype=np.float32)

    @abstractmethod
    def _row(self, text: str) -> Sequence[float]:
        """Return the vector of a text."""


class FakeEmbedder(_RowEmbedder):
    """Texts that share words are near: each word adds its own pseudo-random direction; rows have unit length."""

    def __init__(self, dim: int = 64, identity: str = "") -> None:
        super().__init__(identity or f"fake-embedder-{dim}")
        self.dim = dim

    def _row(self, text: str) -> Sequence[float]:
        row = [0.0] * self.dim
        for word in re.findall(r"\w+", text.lower()) or [""]:
            row = [value + step for value, step in zip(row, _direction(word, self.dim), strict=True)]
        length = math.hypot(*row)
        return [value / length for value in row]


class AngleEmbedder(_RowEmbedder):
    """Geometry in two dimensions: the first number in a text is its angle in degrees; without one, 0."""

    dim = 2
    identity = "angles"

    def _row(self, text: str) -> Sequence[float]:
        number = re.search(r"-?\d+(?:\.\d+)?", text)
        angle = math.radians(float(number.group())) if number else 0.0
        return math.cos(angle), math.sin(angle)


class FakeReranker(Recorder):
    """Scores a text by the share of the query's words that it holds, in [0, 1], or by a function given."""

    def __init__(self, score: Callable[[str, str], float] | None = None, identity: str = "fake-reranker") -> None:
        super().__init__(identity)
        self._score = score or _shared_words

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score per text."""
        self.record((query, tuple(texts)))
        return [self._score(query, text) for text in texts]


class FakeCaptioner(Recorder):
    """Describes a picture by its bytes: equal pictures, equal captions."""

    def __init__(self, caption: Callable[[bytes, str], str] | None = None, identity: str = "fake-captioner") -> None:
        super().__init__(identity)
        self._caption = caption or _name_picture

    def caption(self, image: bytes, prompt: str) -> str:
        """Return the description."""
        self.record((image, prompt))
        return self._caption(image, prompt)


class FakeRecognizer(Recorder):
    """Finds given names where a text prints them, in the order of their first places.

    Args:
        names: by label; a request without labels asks for all of them.
        identity: service and model.
    """

    def __init__(self, names: Mapping[str, Sequence[str]], identity: str = "fake-recognizer") -> None:
        super().__init__(identity)
        self._names = {label: tuple(of_label) for label, of_label in names.items()}

    def recognise(self, texts: Sequence[str], labels: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Return the names of these labels in each text."""
        self.record((tuple(texts), tuple(labels)))
        wanted = {name for label in labels or self._names for name in self._names.get(label, ())}
        return tuple(
            tuple(sorted((name for name in wanted if name in text), key=lambda name: (text.index(name), name)))
            for text in texts
        )


class FakeStore(Recorder):
    """A store in memory that answers each route by a ranking, or by a function of the request.

    A route given as chunks ranks them by the share of the query's words that they hold. Filters and `among`
    are obeyed, but for a function, which sees the whole request.
    """

    def __init__(self, routes: Mapping[str, Ranking | Sequence[Chunk] | Callable[[Search], Ranking]]) -> None:
        super().__init__()
        self._routes = dict(routes)

    @property
    def routes(self) -> tuple[str, ...]:
        """The names of the routes, in the order given."""
        return tuple(self._routes)

    def search(self, request: Search) -> Ranking:
        """Return at most `request.k` hits."""
        self.record(request)
        if request.route not in self._routes:
            raise ServiceError("fake-store", f"no route {request.route!r} (there are: {', '.join(self._routes)})")
        route = self._routes[request.route]
        if callable(route):
            return route(request).top(request.k)
        if not isinstance(route, Ranking):
            hits = (Hit(chunk, _shared_words(request.query, chunk.text)) for chunk in route)
            route = Ranking.of((hit for hit in hits if hit.score > 0), Scale.SIMILARITY)
        allows = compiled(request.where or {})
        kept = (
            hit
            for hit in route.hits
            if (request.among is None or hit.chunk.id in request.among) and allows(_fields(hit.chunk))
        )
        return replace(route, hits=tuple(kept)).top(request.k)


def _fields(chunk: Chunk) -> dict[str, Any]:
    """Return what filters see of a chunk."""
    reserved = {"document_id": chunk.document_id, "chunk_id": chunk.id, "kind": chunk.kind, "path": chunk.path}
    return {**chunk.metadata, **reserved}


class _Wrapper(Recorder):
    """A service of which every method call is recorded and preceded by `before`."""

    def __init__(self, service: Any) -> None:
        super().__init__()
        self._service = service

    def before(self, place: int) -> None:
        """Do what this wrapper is for; `place` is the 0-based number of the call."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._service, name)
        if name.startswith("_") or not callable(value):
            return value
        if name in _ASYNC_NAMES:
            raise AttributeError(name)  # so that drivers use the sync method, in a thread

        def called(*arguments: Any) -> Any:
            self.before(self.record((name, *arguments)))
            return value(*arguments)

        return called


class Flaky(_Wrapper):
    """A service that fails at given calls, and otherwise works.

    Args:
        service: any service.
        failures: the exception for the first call, the second, …; None lets the call through, and so does the
            end of the list.
    """

    def __init__(self, service: Any, failures: Sequence[Exception | None]) -> None:
        super().__init__(service)
        self._failures = tuple(failures)

    def before(self, place: int) -> None:
        """Raise what was planned for this call."""
        failure = self._failures[place] if place < len(self._failures) else None
        if failure is not None:
            raise failure


class Slow(_Wrapper):
    """A service that takes its time: fixed seconds, or up to them in an order drawn from `seed`."""

    def __init__(self, service: Any, seconds: float, seed: int | None = None) -> None:
        super().__init__(service)
        self._seconds, self._seed = seconds, seed

    def before(self, place: int) -> None:
        """Sleep."""
        share = 1.0 if self._seed is None else random.Random(self._seed * 1_000_003 + place).random()
        time.sleep(self._seconds * share)


class FakeClock(Clock):
    """A clock whose sleepers wake at once, having moved it; `naps` keeps what they asked for, in seconds."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now
        self.naps: list[float] = []
        self._lock = threading.Lock()

    def now(self) -> float:
        """Return the time, in seconds."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Move the clock."""
        with self._lock:
            self.naps.append(seconds)
            self._now += seconds

    async def asleep(self, seconds: float) -> None:
        """Move the clock."""
        self.sleep(seconds)


@functools.lru_cache(maxsize=10_000)
def _direction(word: str, dim: int) -> tuple[float, ...]:
    draw = random.Random(hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest())
    return tuple(draw.gauss(0.0, 1.0) for _ in range(dim))


def _shared_words(query: str, text: str) -> float:
    asked, held = (set(re.findall(r"\w+", side.lower())) for side in (query, text))
    return len(asked & held) / len(asked) if asked else 0.0


def _name_picture(image: bytes, prompt: str) -> str:
    return f"picture {hashlib.sha256(image).hexdigest()[:8]} of {len(image)} bytes"


class FaithfulFormatter(Recorder):
    """Answers requests of `format_markdown` with the part of the truth that has exactly the words of the window.

    Every numbered heading is one of the first level, as the prompt asks.

    Args:
        truth: the whole file in Markdown.
        damage: (request, its true answer) -> what is answered instead.
        identity: service and model.
    """

    def __init__(
        self,
        truth: str,
        damage: Callable[[Complete, str], str | Completion] | None = None,
        identity: str = "faithful-formatter",
    ) -> None:
        super().__init__(identity)
        self._truth = flat(truth)
        self._spans = tuple(atoms_of(self._truth))
        self._keys = atom_keys(self._truth, self._spans)
        self._damage = damage

    def complete(self, request: Complete) -> Completion:
        """Return the Markdown of the words in the request's window."""
        self.record(request)
        answer = self.answer(planned_answer(request).text)
        damaged = self._damage(request, answer) if self._damage else answer
        return damaged if isinstance(damaged, Completion) else Completion(text=damaged)

    def answer(self, window: str) -> str:
        """Return the Markdown of a window.

        Raises:
            ServiceError: the truth does not have its words in this order.
        """
        keys = atom_keys(window, tuple(atoms_of(window)))
        for first in range(len(self._keys) - len(keys) + 1):
            if self._keys[first] == keys[0] and self._keys[first : first + len(keys)] == keys:
                return self._slice(first, first + len(keys))
        raise ServiceError(self.identity, f"the truth does not hold these words: {window[:200]!r}")

    def _slice(self, first: int, last: int) -> str:
        """Return the truth from one word to another, with the marks that belong to both ends."""
        start, end = self._spans[first][0], self._spans[last - 1][1]
        before = self._truth[self._spans[first - 1][1] if first else 0 : start]
        own_line = before.rpartition("\n")[2]
        opening = own_line if "\n" in before or not first else own_line.rpartition(" ")[2]
        rest = _REST.match(self._truth, end)
        return opening + self._truth[start : rest.end() if rest else end]

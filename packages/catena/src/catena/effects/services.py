"""Name the services that answer requests, and the rules of a run: concurrency, retries, limits, journal, budget."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from annotated_types import Ge, Le

from catena import prompts
from catena.effects import ports, steps
from catena.effects.budget import Budget
from catena.effects.journal import Journal
from catena.effects.models import as_core
from catena.effects.redaction import secrets_of
from catena.effects.replies import FORMS, Form
from catena.effects.steps import (
    AwaitedCall,
    Complete,
    Describe,
    Embed,
    ForeignCall,
    Holdings,
    Inspect,
    Request,
    Search,
)
from catena.model import Checked, MissingServiceError, ParameterError, Place, ServiceError, check_given

COOL_DOWN_SECONDS = 30.0
MORE = 4  # times the limit at which a reply was cut
LEAST_MORE = 4_096  # tokens

EventKind: TypeAlias = Literal["started", "finished", "failed", "retried", "cached", "read"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Progress of a run: something happened to one request, or, of the kind "read", a page of a file was read.

    Attributes:
        purpose: of the request, or the file.
        done, total: requests ended, and requests asked for so far; `total` grows with each batch. Or pages of a file.
        attempt: from 1.
        detail: why the request failed or is tried again.
    """

    kind: EventKind
    purpose: str
    done: int
    total: int
    attempt: int = 1
    detail: str = ""


class Cancel:
    """A flag by which any thread stops a run: calls in flight end and are kept, no new one starts."""

    def __init__(self) -> None:
        self._flag = threading.Event()

    def set(self) -> None:
        """Ask every run that was given this flag to stop."""
        self._flag.set()

    @property
    def is_set(self) -> bool:
        """True once somebody asked to stop."""
        return self._flag.is_set()


class Clock:
    """Time as the driver sees it; tests give one whose hours pass at once."""

    def now(self) -> float:
        """Return seconds on a clock that never goes back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block this thread."""
        time.sleep(seconds)

    async def asleep(self, seconds: float) -> None:
        """Suspend this task."""
        await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry(Checked):
    """When to try again: `wait = min(max_seconds, base_seconds * 2^(attempt - 1)) * (1 - jitter * u)`, u in [0, 1).

    A wait asked for by the service (Retry-After) is obeyed instead, by all requests of the type; one longer
    than `patience_seconds` counts as a failure at once.

    A request that is refused because there were too many (429) waits with all of its type, and is asked again,
    however many attempts that takes, until `rate_limit_seconds` have passed since the first of the type was refused
    and none was answered: limits are mostly per minute. Later ones then have one call each. A call that failed after
    more than 10 s, as by a time limit, is repeated once at most. What a question waits for is tried again once, and
    not after such a wait.
    """

    attempts: Annotated[int, Ge(1)] = 4  # calls in all, the first included
    base_seconds: Annotated[float, Ge(0)] = 0.5
    max_seconds: Annotated[float, Ge(0)] = 30.0
    jitter: Annotated[float, Ge(0), Le(1)] = 0.5  # share of the wait that is random
    patience_seconds: Annotated[float, Ge(0)] = 300.0
    rate_limit_seconds: Annotated[float, Ge(0)] = 60.0
    random: Callable[[], float] = random.random

    def wait(self, attempt: int) -> float:
        """Return the seconds between a failed attempt (from 1) and the next one."""
        longest = min(self.max_seconds, self.base_seconds * 2.0 ** min(attempt - 1, 60))
        return longest * (1 - self.jitter * self.random())


class Limiter:
    """Spaces out requests of a type, `60 / requests_per_minute` seconds apart, over all runs that share it."""

    def __init__(self, requests_per_minute: Mapping[type[Request], float] | None = None) -> None:
        self._per_minute = dict(requests_per_minute or {})
        for kind, rate in self._per_minute.items():
            if not rate > 0:
                raise ParameterError(f"requests per minute of {kind.__name__}", rate, "a number > 0")
        self._free_at: dict[type[Request], float] = {}
        self._refusals: dict[type[Request], int] = {}  # rounds of them since the last reply
        self._limited: dict[type[Request], tuple[float, float]] = {}  # first and last refusal since the last reply
        self._under_way: dict[type[Request], int] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Limiter], tuple[()]]:
        if self._per_minute:
            allowed = "without rates in what other processes are given: they would not count together"
            raise ParameterError("limiter", "requests per minute", allowed)
        return Limiter, ()

    @property
    def per_minute(self) -> Mapping[type[Request], float]:
        """Requests per minute, by their type; empty for no limit."""
        return dict(self._per_minute)

    def take(self, kind: type[Request], now: float) -> float:
        """Take the next slot and return 0, or return the seconds after which to ask again."""
        with self._lock:
            wait = self._free_at.get(kind, now) - now
            if wait > 0:
                return wait
            if kind in self._per_minute:
                self._free_at[kind] = now + 60.0 / self._per_minute[kind]
            return 0.0

    def hold(self, kind: type[Request], until: float) -> None:
        """Let no request of this type start before `until`: the service asked for a pause."""
        with self._lock:
            self._free_at[kind] = max(until, self._free_at.get(kind, until))

    def refused(self, kind: type[Request], now: float, wait: Callable[[int], float]) -> None:
        """Hold the type after a refusal that names no wait; those that come while it is held are of the same round.

        Args:
            kind: of the request that was refused.
            now: the time.
            wait: round, from 1 -> seconds.
        """
        with self._lock:
            if self._free_at.get(kind, now) > now:
                return
            self._refusals[kind] = self._refusals.get(kind, 0) + 1
            self._free_at[kind] = now + wait(self._refusals[kind])

    def begun(self, kind: type[Request]) -> None:
        """Note that a call of this type begins."""
        with self._lock:
            self._under_way[kind] = self._under_way.get(kind, 0) + 1

    def ended(self, kind: type[Request]) -> None:
        """Note that a call of this type ended."""
        with self._lock:
            self._under_way[kind] -= 1

    def replied(self, kind: type[Request]) -> None:
        """Note that a request of this type was answered: limits let some through."""
        with self._lock:
            self._refusals.pop(kind, None)
            self._limited.pop(kind, None)

    def patience(self, kind: type[Request], now: float, seconds: float) -> float:
        """Note a refusal for too many requests; return for how many seconds such are waited out, 0 or less for none.

        The time is that of the type, not of one request: `seconds` since its first refusal. A reply ends it, and so
        does as long without a call. Refusals come faster than replies: while other calls are under way, as long again
        is waited for theirs.
        """
        with self._lock:
            first, last = self._limited.get(kind, (now, now))
            if now - max(last, self._free_at.get(kind, last)) > seconds:
                first = now
            self._limited[kind] = first, now
            return first + seconds * (2 if self._under_way.get(kind) else 1) - now


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

    def __init__(self, cool_down_seconds: Annotated[float, Ge(0)] = COOL_DOWN_SECONDS) -> None:
        check_given({"cool_down_seconds": cool_down_seconds}, Health.__init__)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """The calls that answer one type of request: by threads, by asyncio, or both.

    Attributes:
        identity: service and model; replies kept under one identity are never served for another.
        call: request -> reply.
        acall: request -> awaitable of the reply.
        form: what a valid reply is; without it replies are neither checked nor kept in the journal.
        holder: the service itself, by default that whose methods are called; its secrets show in no error.
    """

    identity: str
    call: Callable[[Any], Any] | None = None
    acall: Callable[[Any], Awaitable[Any]] | None = None
    form: Form | None = None
    holder: object = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.call is None and self.acall is None:
            raise ParameterError(f"handler {self.identity}", None, "given `call`, `acall` or both")

    @property
    def secrets(self) -> frozenset[str]:
        """The keys, tokens and passwords that the service was given; looked for each time."""
        own = getattr(self.call or self.acall, "__self__", None)
        return secrets_of(own if self.holder is None else self.holder)


def calling(identity: str) -> Mapping[type[Request], Handler]:
    """Return the handlers of calls of a user's own objects; their errors are `ServiceError`s of this name."""
    return {
        ForeignCall: Handler(identity=identity, call=lambda call: call.do(), acall=lambda call: call.ado()),
        AwaitedCall: Handler(identity=identity, acall=lambda call: call.ado()),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The outside world of a run, and how to behave towards it.

    Attributes:
        llm, embedder, reranker, captioner, recognizer, store: answer `Complete`, `Embed`, `Rate`, `Describe`,
            `Recognise`, `Search`; a store also `SearchFused`, `FindNames`, `FetchChunks`, `FetchText`, `FetchPlaces`,
            `FetchDocuments` and `Inspect`, as far as it can.
        graph: answers `Expand`, `FetchNodes`, `CountWords` and `FetchById`; also `FindCovering`, `DescribeEdges`
            and `CheckGraph`, as far as it can.
        handlers: further types of request; a handler named here goes before the services above.
        max_concurrency: calls in flight at once, per run.
        limiter: requests per minute, shared by all runs that hold it.
        health: which services are dead for the moment, shared likewise.
        output_tokens: limits of replies in place of those that prompts ask for: one for all, or by the name of the
            prompt ("section_summary", "figure_caption"). Without one, a reply that is cut at its limit is asked for
            once again with four times as much, at least 4,096, and a model that is seen to think before it writes
            gets room for that beside each limit.
        journal: keeps every valid reply; nothing in it is asked or paid for again.
        budget: the cap that no run with it passes.
        progress: told of every event, one at a time, by whichever thread does the work; if it raises, that is
            logged once, and the run goes on without telling it anything more.
        cancel: a flag by which another thread stops the run.
    """

    llm: ports.LLM | None = None
    embedder: ports.Embedder | None = None
    reranker: ports.Reranker | None = None
    captioner: ports.Captioner | None = None
    recognizer: ports.EntityRecognizer | None = None
    store: ports.Store | None = None
    graph: ports.Graph | None = None
    handlers: Mapping[type[Request], Handler] = field(default_factory=dict)
    max_concurrency: int = 8
    retry: Retry = field(default_factory=Retry)
    limiter: Limiter = field(default_factory=Limiter)
    health: Health = field(default_factory=Health)
    output_tokens: int | Mapping[str, int] | None = None
    journal: Journal | None = None
    budget: Budget | None = None
    progress: Callable[[Event], None] | None = None
    cancel: Cancel | None = None
    clock: Clock = field(default_factory=Clock)
    _handlers: Mapping[type[Request], Handler] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.max_concurrency < 1:
            raise ParameterError("max_concurrency", self.max_concurrency, "at least 1")
        _check_limits(self.output_tokens)
        for model in ("llm", "embedder", "reranker", "captioner"):
            object.__setattr__(self, model, as_core(model, getattr(self, model)))
        known: dict[type[Request], Handler] = {}
        for name, methods in _METHODS.items():
            if (service := getattr(self, name)) is not None:
                for kind, method in methods.items():
                    known |= method.handlers(service, kind)
        if self.captioner is not None and Describe not in known:
            known |= _CAPTION.handlers(self.captioner, Describe)
        if self.embedder is not None:
            known[Embed] = _embedding(self.embedder)
            if not _INSPECT.is_in(self.store):  # what a store holds, or would hold, is at least of this embedder
                held = Holdings(embedder=_identity(self.embedder))
                known[Inspect] = Handler(identity=_identity(self.store), call=lambda request: held)
        object.__setattr__(self, "_handlers", {**known, **self.handlers})

    def __reduce__(self) -> tuple[Callable[[], Services], tuple[()]]:
        return partial(Services, **{each.name: getattr(self, each.name) for each in fields(self) if each.init}), ()

    def handler(self, kind: type[Request]) -> Handler:
        """Return who answers this type of request.

        Raises:
            MissingServiceError: nobody was given for it.
        """
        if kind not in self._handlers:
            raise MissingServiceError(kind.__name__, tuple(sorted(known.__name__ for known in self._handlers)))
        return self._handlers[kind]

    def sized(self, request: Any, service: str) -> Any:
        """Return a request with the limit that its reply is to have at this service."""
        if not isinstance(request, Complete | Describe):
            return request
        limit = self._own_limit(request) or request.max_tokens + self.health.room(service)
        return replace(request, max_tokens=limit)

    def wider(self, request: Any, reply: Any) -> Any:
        """Return the request with more room where its reply was cut at a limit that nobody set; else None."""
        cut = isinstance(reply, ports.Completion) and reply.finish_reason == "length"
        if not cut or not isinstance(request, Complete | Describe) or self._own_limit(request):
            return None
        return replace(request, max_tokens=max(MORE * request.max_tokens, LEAST_MORE))

    def _own_limit(self, request: Complete | Describe) -> int | None:
        if isinstance(self.output_tokens, Mapping):
            return self.output_tokens.get(request.prompt_version.split("/")[0])
        return self.output_tokens

    def snapshot(self) -> ports.StoreSnapshot | None:
        """Return one state of the store for a whole run; None where it has none, or the run sees one already."""
        begin = getattr(self.store, "snapshot", None)
        return None if begin is None else begin()

    def keeps(self, kind: type[Request]) -> bool:
        """Return whether replies to this type of request are kept in the journal."""
        return self.journal is not None and kind in self._handlers and self._handlers[kind].form is not None


def _check_limits(own: int | Mapping[str, int] | None) -> None:
    for name in own if isinstance(own, Mapping) else ():
        try:
            prompts.load(name)
        except ParameterError as unknown:
            raise ParameterError("a prompt of output_tokens", name, unknown.allowed) from None
    for limit in own.values() if isinstance(own, Mapping) else () if own is None else (own,):
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise ParameterError("output_tokens", limit, "an integer >= 1, or such by the name of a prompt")


class _Method(NamedTuple):
    """The method, or its async twin, with which a service answers a type of request.

    A store gets no form: what it holds changes, so its rankings are never kept.

    Attributes:
        otherwise: the reply where the service has no such method; without one, nobody answers the request.
        needed: whether a service without the method is refused.
    """

    name: str
    arguments: Callable[[Any], tuple[Any, ...]] = lambda request: (request,)
    otherwise: Callable[[Any], Any] | None = None
    needed: bool = False

    def is_in(self, service: object) -> bool:
        return hasattr(service, self.name) or hasattr(service, f"a{self.name}")

    def handlers(self, service: Any, kind: type[Request]) -> dict[type[Request], Handler]:
        if not self.is_in(service) and not self.needed:
            if self.otherwise is None:
                return {}
            return {kind: Handler(identity=_identity(service), call=self.otherwise)}
        call, acall = getattr(service, self.name, None), getattr(service, f"a{self.name}", None)
        handler = Handler(
            identity=_identity(service),
            call=None if call is None else lambda request: call(*self.arguments(request)),
            acall=None if acall is None else lambda request: acall(*self.arguments(request)),
            form=FORMS.get(kind),
            holder=service,
        )
        return {kind: handler}


_INSPECT = _Method("inspect", otherwise=lambda request: Holdings())
_CAPTION = _Method("caption", lambda request: (request.image, request.prompt), needed=True)
_METHODS: Mapping[str, Mapping[type[Request], _Method]] = {
    "llm": {Complete: _Method("complete", needed=True)},
    "reranker": {steps.Rate: _Method("score", lambda request: (request.query, request.texts), needed=True)},
    "captioner": {Describe: _Method("describe")},  # which tells why a caption ended
    "recognizer": {
        steps.Recognise: _Method("recognise", lambda request: (request.texts, request.labels), needed=True)
    },
    "store": {
        Inspect: _INSPECT,
        Search: _Method("search", needed=True),
        steps.SearchFused: _Method("search_fused", otherwise=lambda request: None),
        steps.FindNames: _Method("names", otherwise=lambda request: steps.NamesFound()),
        steps.FetchChunks: _Method("chunks", otherwise=lambda request: ((),) * len(request.spans)),
        steps.FetchText: _Method("texts", otherwise=lambda request: (None,) * len(request.spans)),
        steps.FetchPlaces: _Method(
            "places", lambda request: (request.spans,), lambda request: (Place(),) * len(request.spans)
        ),
        steps.FetchDocuments: _Method(
            "whole", lambda request: (request.ids,), lambda request: (None,) * len(request.ids)
        ),
    },
    "graph": {
        steps.Expand: _Method("expand", needed=True),
        steps.FetchNodes: _Method("nodes", needed=True),
        steps.CountWords: _Method("count_words", needed=True),
        steps.FetchById: _Method("chunks_by_id", needed=True),
        steps.FindCovering: _Method("covering"),
        steps.DescribeEdges: _Method("describe_edges"),
        steps.CheckGraph: _Method("check", otherwise=lambda request: None),
    },
}


def _embedding(embedder: Any) -> Handler:
    """Answer `Embed`; the queries of one request are embedded one after the other."""

    def call(request: Embed) -> Any:
        if request.kind == "document" or not request.texts:
            return embedder.embed_documents(request.texts)
        return [embedder.embed_query(text) for text in request.texts]

    async def acall(request: Embed) -> Any:
        if request.kind == "document" or not request.texts:
            return await embedder.aembed_documents(request.texts)
        return [await embedder.aembed_query(text) for text in request.texts]

    return Handler(
        identity=_identity(embedder),
        call=call if hasattr(embedder, "embed_documents") and hasattr(embedder, "embed_query") else None,
        acall=acall if hasattr(embedder, "aembed_documents") and hasattr(embedder, "aembed_query") else None,
        form=FORMS[Embed],
        holder=embedder,
    )


def _identity(service: Any) -> str:
    return str(getattr(service, "identity", type(service).__name__))

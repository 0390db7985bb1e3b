"""Send many writings in few calls: in batches, again when the server was too busy, and report each that failed.

Every action has an id, so that doing it twice is doing it once: whatever was not acknowledged is sent again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any, TypeAlias, TypeVar

from annotated_types import Ge, Lt

from catena.effects import Failed, Step
from catena.model import Checked, ServerError, ServiceError
from catena_server.actions import Action
from catena_server.calls import Call, Pause
from catena_server.index_layout import Part

T = TypeVar("T")

_BUSY = frozenset({429, 502, 503, 504})
_TOO_LARGE = 413
_TOO_MANY = 429
_BLOCKED = "cluster_block_exception"
_FLOAT = 21  # bytes of a float32 in JSON, about
_PUNCTUATION = 4  # bytes around a value in JSON, about
_LINE = 100  # bytes that say what is to be done with a document, about


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOptions(Checked):
    """Limits of one bulk call and of the waiting for a busy server.

    Attributes:
        actions, bytes: in one call, at most; an action that is larger goes alone.
        in_flight: calls side by side.
        attempts: for one action, the first included.
        base_seconds, max_seconds: the pause before attempt n + 1 is `min(max_seconds, base_seconds * 2^(n - 1))`, or
            as long as the server asks for.
    """

    actions: Annotated[int, Ge(1)] = 500
    bytes: Annotated[int, Ge(1)] = 10_000_000
    in_flight: Annotated[int, Ge(1)] = 2
    attempts: Annotated[int, Ge(1)] = 8
    base_seconds: Annotated[float, Ge(0), Lt(inf)] = 0.5
    max_seconds: Annotated[float, Ge(0), Lt(inf)] = 30.0

    def pause(self, attempt: int) -> float:
        """Return the seconds between an attempt, from 1, and the next."""
        return min(self.max_seconds, self.base_seconds * 2.0 ** min(attempt - 1, 60))


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkFailure:
    """An action that the server refused, or was too busy for to the last; `kind` is the server's word for why."""

    part: Part
    id: str
    status: int | None
    kind: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkReport:
    """Results of the actions.

    Attributes:
        done: acknowledged, those repeated counted once.
        again: sendings of an action beyond its first.
        failures: in the order in which they were known.
    """

    done: int = 0
    again: int = 0
    failures: tuple[BulkFailure, ...] = ()

    def check(self, doing: str) -> None:
        """Raise `ServerError` naming the first failure, where there is one."""
        if self.failures:
            first = self.failures[0]
            what = (
                f"{doing}: {len(self.failures)} of {self.done + len(self.failures)} were refused, the first of them"
                f" {first.id!r} of the {first.part} ({first.kind}: {first.reason}); all others are written"
            )
            raise ServerError("search server", what, status=first.status, kind=first.kind)


@dataclass(frozen=True, slots=True)
class _Sending:
    action: Action
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Name the reason for which a bulk call was not acknowledged."""

    status: int | None
    kind: str
    reason: str
    busy: bool  # the same may succeed later
    seconds: float = 0.0  # to wait before, as the server asked
    unreached: ServiceError | None = None  # of the whole call: no server took it

    @property
    def blocked(self) -> bool:
        """Return whether the index refuses writing until someone frees space or lifts the block."""
        return self.kind == _BLOCKED and self.status in (403, 429)

    @property
    def too_large(self) -> bool:
        return self.status == _TOO_LARGE


_Batch: TypeAlias = "list[_Sending]"
_Answer: TypeAlias = "tuple[_Sending, _Refusal | None]"


def send(
    actions: Iterable[Action], targets: Mapping[Part, str], options: BulkOptions | None = None
) -> Step[BulkReport]:
    """Send actions in batches, and return what became of them.

    Actions are taken as they are needed: no more than `in_flight` batches are held. An action that was answered with
    429, 502, 503 or 504, alone or with its whole call, is sent again after a growing pause, while nothing else is. A
    call that is too large for the server is sent in halves. What is refused for good is in the report. A call that
    reaches no server to the last attempt ends the run: the next would wait as long.

    Args:
        actions: each id of a part once; they are done in no certain order.
        targets: alias of each part; one that is not there is not made.
        options: None for the defaults.

    Raises:
        ServerError: nobody may write there, a part may not be written for lack of disk space, or no server was
            reached for too long.
    """
    options = options or BulkOptions()
    sendings = map(_Sending, actions)
    fresh = batched(
        sendings, lambda each: _LINE + _size(each.action.source), most=options.actions, size=options.bytes
    )
    waiting = deque[_Batch]()
    done = again = 0
    failures: list[BulkFailure] = []
    while batches := _round(waiting, fresh, options.in_flight):
        again += sum(sending.attempt > 1 for batch in batches for sending in batch)
        replies = yield [_call(batch, targets) for batch in batches]
        seconds = 0.0
        for batch, reply in zip(batches, replies, strict=True):
            answers = _answers(batch, reply)
            _stop_if_blocked(answers, targets)
            done += sum(refusal is None for _, refusal in answers)
            busy, split, refused = _sorted_out(answers, options)
            failures.extend(refused)
            waiting.extend(part for part in (*split, [sending for sending, _ in busy]) if part)
            seconds = max([seconds, *(max(r.seconds, options.pause(s.attempt - 1)) for s, r in busy)])
        if seconds:
            yield [Pause(seconds=seconds, purpose="the server is busy")]
    return BulkReport(done=done, again=again, failures=tuple(failures))


def batched(items: Iterable[T], size_of: Callable[[T], int], *, most: int, size: int) -> Iterator[list[T]]:
    """Yield items in lists of so many, and of such a size in all, at most; a larger item is alone."""
    batch: list[T] = []
    so_far = 0
    for item in items:
        more = size_of(item)
        if batch and (len(batch) >= most or so_far + more > size):
            yield batch
            batch, so_far = [], 0
        batch.append(item)
        so_far += more
    if batch:
        yield batch


def _round(waiting: deque[_Batch], fresh: Iterator[_Batch], most: int) -> list[_Batch]:
    """Return the next batches: those that wait first, and new ones only when nothing waits."""
    taken = [waiting.popleft() for _ in range(min(most, len(waiting)))]
    return taken or [batch for _, batch in zip(range(most), fresh, strict=False)]


def _call(batch: _Batch, targets: Mapping[Part, str]) -> Call:
    lines: list[Mapping[str, Any]] = []
    for sending in batch:
        action = sending.action
        lines.append({action.op: {"_index": targets[action.part], "_id": action.id}})
        if action.source is not None:
            lines.append(action.source)
    answer = "errors,items.*.status,items.*.error"
    return Call(
        method="POST",
        path="/_bulk",
        params={"require_alias": True, "filter_path": answer},
        lines=lines,
        purpose="bulk",
    )


def _answers(batch: _Batch, reply: Any) -> list[_Answer]:
    """Return for each sending None where it was acknowledged, else why not.

    Raises:
        ServiceError: the whole call was refused, for a reason that holds for any other call too.
    """
    if isinstance(reply, Failed):
        error = reply.error
        if not isinstance(error, ServiceError):
            raise error
        status, kind = getattr(error, "status", None), getattr(error, "kind", "")
        busy = error.retry or status in _BUSY
        unreached = error if busy and status != _TOO_MANY else None
        refusal = _Refusal(status, kind, error.what, busy, error.retry_after or 0.0, unreached)
        if not (busy or refusal.too_large or refusal.blocked):
            raise error
        return [(sending, refusal) for sending in batch]
    if reply.get("errors") is False:
        return [(sending, None) for sending in batch]
    items = reply.get("items") or ()
    if len(items) != len(batch):
        raise ServerError("search server", f"it answered {len(items)} of {len(batch)} writings of one call")
    return [(sending, _refusal(next(iter(item.values())))) for sending, item in zip(batch, items, strict=True)]


def _refusal(answer: Mapping[str, Any]) -> _Refusal | None:
    error, status = answer.get("error"), answer.get("status")
    if error is None:  # a deletion of what is not there has the status 404 and no error
        return None
    about: Mapping[str, Any] = error if isinstance(error, Mapping) else {"reason": error}
    reason, cause = str(about.get("reason", "")), about.get("caused_by")
    if isinstance(cause, Mapping) and cause.get("reason"):
        reason = f"{reason} ({cause['reason']})"
    return _Refusal(status, str(about.get("type", "")), reason, status in _BUSY)


def _sorted_out(
    answers: Sequence[_Answer], options: BulkOptions
) -> tuple[list[tuple[_Sending, _Refusal]], list[_Batch], list[BulkFailure]]:
    """Return what is sent again later, what is sent again in smaller calls, and what has failed.

    Raises:
        ServiceError: no server was reached to the last attempt.
    """
    busy: list[tuple[_Sending, _Refusal]] = []
    failed: list[BulkFailure] = []
    large = [sending for sending, refusal in answers if refusal is not None and refusal.too_large]
    for sending, refusal in answers:
        if refusal is None or (refusal.too_large and len(large) > 1):
            continue
        if refusal.busy and sending.attempt < options.attempts:
            busy.append((_Sending(sending.action, sending.attempt + 1), refusal))
        elif refusal.unreached is not None:
            raise refusal.unreached
        else:
            action = sending.action
            failed.append(
                BulkFailure(
                    part=action.part, id=action.id, status=refusal.status, kind=refusal.kind, reason=refusal.reason
                )
            )
    middle = len(large) // 2
    return busy, [large[:middle], large[middle:]] if middle else [], failed


def _stop_if_blocked(answers: Sequence[_Answer], targets: Mapping[Part, str]) -> None:
    for sending, refusal in answers:
        if refusal is not None and refusal.blocked:
            what = (
                f"the server lets nothing be written there ({refusal.reason}). Most often its disk is nearly full."
                " All that was acknowledged is kept. Try: free space; the block lifts by itself then, and the same"
                " again writes what is missing, nothing twice"
            )
            index = targets[sending.action.part]
            raise ServerError(f"index {index}", what, status=refusal.status, kind=refusal.kind)


def _size(source: Mapping[str, Any] | None) -> int:
    """Return about how many bytes a document has in JSON; an exact count would take as long as to write it."""
    size, waiting = 0, [source]
    while waiting:
        value: Any = waiting.pop()
        if isinstance(value, str):
            size += _PUNCTUATION + (len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass")))
        elif isinstance(value, dict):
            size += _PUNCTUATION * len(value) + sum(map(len, value))
            waiting.extend(value.values())
        elif not isinstance(value, (list, tuple)) or not value:
            size += _FLOAT
        elif isinstance(value[0], float):
            size += _FLOAT * len(value)
        elif isinstance(value[0], str) and isinstance(value[-1], str):  # such lists are of strings, or short
            size += _PUNCTUATION * len(value) + len("".join(map(str, value)))
        else:
            waiting.extend(value)
    return size

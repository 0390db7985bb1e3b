"""Turn foreign errors into ours: what a service or a foreign step raised, as a `ServiceError` without secrets.

No SDK is imported here: what their exceptions have in common (a status code, response headers, the names of
the timeout classes) is looked up on the object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from catena.effects.redaction import redact, secrets_of, without_secrets
from catena.effects.steps import Step
from catena.model.errors import CatenaError, ParameterError, ServiceError

RETRY_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})  # 529: overloaded
# Names under which httpx, requests, aiohttp and the model SDKs know a connection that may work next time.
_TRANSIENT_NAMES = frozenset({
    "APIConnectionError", "APITimeoutError", "ClientConnectionError", "ClientPayloadError", "Timeout",
    "TimeoutException", "TransportError",
})  # fmt: skip
_TOO_MANY_STATUS = frozenset({429, 529})
# Names under which SDKs know a refusal for too many requests, where they tell no status.
_TOO_MANY_NAMES = frozenset({"RateLimitError", "ResourceExhausted", "ThrottlingException", "TooManyRequestsError"})
_NO_CREDIT = re.compile(r"insufficient[_ ]quota|exceeded your current quota|billing|credit balance", re.IGNORECASE)
LONGEST_WORDS = 2_000  # characters of what a service says: some answer with a page


def retry_after_seconds(value: str | float | None, now: datetime | None = None) -> float | None:
    """Return the wait that a Retry-After header asks for, in seconds.

    Args:
        value: seconds ("7"), or an HTTP date ("Wed, 21 Oct 2026 07:28:00 GMT").
        now: the time to count a date from; the present when not given.

    Returns:
        Seconds >= 0, or None when the header is missing or is neither of the two.

    Source: RFC 9110, section 10.2.3.
    """
    text = str(value).strip() if value is not None else ""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - (now or datetime.now(UTC))).total_seconds())


def service_error(
    error: Exception,
    service: str,
    said: str | None = None,
    *,
    holder: object = None,
    secrets: Collection[str] | None = None,
) -> CatenaError:
    """Return what a service raised as one of our errors, without secrets; ours stay what they are.

    Timeouts, broken connections and the statuses of `RETRY_STATUS` may be retried; everything else, and a quota that
    is used up, is final. The message names the foreign type and is never empty.

    Args:
        error: what was raised.
        service: its identity.
        said: what the service said, where that is not the text of the error.
        holder: the service; the secrets that it was given are taken out letter by letter.
        secrets: these, where they are known already.
    """
    if secrets is None:
        secrets = secrets_of(holder)
    if isinstance(error, CatenaError):
        return without_secrets(error, secrets)
    name = type(error).__name__
    status = status_of(error)
    text = redact((str(error) if said is None else said).strip(), secrets)[:LONGEST_WORDS] or "no message"
    what = f"{name}: {text}" if status is None else f"{name} (status {status}): {text}"
    too_many = status in _TOO_MANY_STATUS or (status is None and _is_named(error, _TOO_MANY_NAMES))
    passes = isinstance(error, TimeoutError | ConnectionError) or _is_named(error, _TRANSIENT_NAMES)
    retry = too_many or (passes if status is None else status in RETRY_STATUS)
    if retry and _NO_CREDIT.search(text):
        retry = too_many = False
    return ServiceError(service, what, retry, retry_after_seconds(_header(error, "retry-after")), too_many)


@contextmanager
def errors_of(
    identity: str, holder: object, said: Callable[[Exception], CatenaError | None] | None = None
) -> Iterator[None]:
    """Raise what a model or store raises as an error of ours, from nothing; `said` makes one of it where it can."""
    try:
        yield
    except Exception as error:
        raise (said and said(error)) or service_error(error, identity, holder=holder) from None


def status_of(error: Exception) -> int | None:
    """Return the HTTP status that an SDK's error tells, under any of the names that are in use."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "http_status", "code"):
            value = getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
                return int(value)
    return None


def _header(error: Exception, name: str) -> str | None:
    for holder in (error, getattr(error, "response", None)):
        headers = getattr(holder, "headers", None)
        if isinstance(headers, Mapping):
            for key, value in headers.items():
                if str(key).lower() == name:
                    return str(value)
    return None


def _is_named(error: Exception, names: frozenset[str]) -> bool:
    return any(base.__name__ in names for base in type(error).__mro__)


def guarded(begin: Callable[[], object], name: str) -> Step[Any]:
    """Go through a step that anybody wrote, and return what it returns; nobody has looked at that yet.

    Args:
        begin: calls the code that is to give a step.
        name: whose code it is, for errors.

    Raises:
        ParameterError: it is no step, or yields something else than requests.
        ServiceError: its code raised an error that is none of ours.
        CatenaError: what its code let out of ours.
    """
    try:
        step: Any = begin()
    except CatenaError:
        raise
    except Exception as error:
        raise service_error(error, name) from error
    if not isinstance(step, Generator):
        raise ParameterError(f"what {name} makes", type(step).__name__, "a step: a generator that yields requests")
    replies: Any = None
    with closing(step):
        while True:
            try:
                requests = step.send(replies)
            except StopIteration as done:
                return done.value
            except CatenaError:
                raise
            except Exception as error:
                raise service_error(error, name) from error
            if not isinstance(requests, Sequence) or isinstance(requests, str):
                raise ParameterError(f"what {name} yields", type(requests).__name__, "a list of requests")
            replies = yield requests

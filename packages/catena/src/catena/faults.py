"""Foreign errors become ours: what a service raised, as a `ServiceError` without secrets.

No SDK is imported here: what their exceptions have in common (a status code, response headers, the names of
the timeout classes) is looked up on the object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from catena.errors import CatenaError, ServiceError

RETRY_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})  # 529: overloaded
# Names under which httpx, requests, aiohttp and the model SDKs know a connection that may work next time.
_TRANSIENT_NAMES = frozenset(
    {
        "APIConnectionError",
        "APITimeoutError",
        "ClientConnectionError",
        "ClientPayloadError",
        "Timeout",
        "TimeoutException",
        "TransportError",
    }
)
_NO_CREDIT = re.compile(r"insufficient[_ ]quota|exceeded your current quota|billing|credit balance", re.IGNORECASE)
_SECRETS = (
    # "Authorization: Bearer abc", {'x-api-key': 'abc'}, api_key="abc", ?key=abc&
    (
        re.compile(
            r"""(?ix) ( \b (?: (?: proxy-)? authorization
            | [\w-]*? (?: api[-_]?key | token | secret | password | passwd )
            | (?<=[?&]) (?: key | sig | signature ) ) \b ["']? \s* [:=] \s* ["']? ) (?: (?: bearer | basic ) \s+ )?
            [^\s"'&,;)}\]]+"""
        ),
        r"\1***",
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}"), r"\1 ***"),
    (re.compile(r"(?<=://)[^/\s@]+@"), "***@"),  # https://user:password@host
    (re.compile(r"\b(?:sk|pk|rk|pa|hf|gsk|xai|ghp|AIza)[-_]?[A-Za-z0-9_-]{16,}"), "***"),
)


def redact(text: str) -> str:
    """Return the text without keys, tokens and passwords, as far as their form gives them away."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


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


def service_error(error: Exception, service: str, said: str | None = None) -> CatenaError:
    """Return what a service raised as one of our errors; ours are returned as they are.

    `said` is what the service said, where that is not the text of the error. Timeouts, broken connections and the
    statuses of `RETRY_STATUS` may be retried; everything else, and a quota that is used up, is final. The message
    names the foreign type, is never empty, and holds no secret.
    """
    if isinstance(error, CatenaError):
        return error
    name = type(error).__name__
    status = _status(error)
    text = redact((str(error) if said is None else said).strip()) or "no message"
    what = f"{name}: {text}" if status is None else f"{name} (status {status}): {text}"
    retry = _transient(error) if status is None else status in RETRY_STATUS
    if retry and _NO_CREDIT.search(text):
        retry = False
    return ServiceError(service, what, retry, retry_after_seconds(_header(error, "retry-after")))


def _status(error: Exception) -> int | None:
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "http_status"):
            value = getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool):
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


def _transient(error: Exception) -> bool:
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    return any(base.__name__ in _TRANSIENT_NAMES for base in type(error).__mro__)

"""The one redactor: takes keys, tokens and passwords out of what is shown, by their value and by their form."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import suppress
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from urllib.parse import quote

from catena.errors import CatenaError

_FORMS = (
    # "Authorization: Bearer abc", {'x-api-key': 'abc'}, api_key="abc", ?key=abc&, Incorrect API key provided: abc
    (
        re.compile(
            r"""(?ix) ( (?: \b (?: proxy-)? authorization
            | (?<![\w-]) [\w-]*? (?: api[-_]?key | token | secret | password | passwd
                | (?: subscription | access | account | private ) [-_]? key )
            | \b (?: api | access | secret | subscription ) [ ] key (?: [ ] provided )?
            | (?<=[?&]) (?: key | sig | signature ) ) \b ["']? \s* [:=] \s* ["']? ) (?: (?: bearer | basic ) \s+ )?
            [^\s"'&,;)}\]]+"""
        ),
        r"\1***",
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}"), r"\1 ***"),
    (re.compile(r"(?<=://)[^/\s@]+@"), "***@"),  # https://user:password@host
    (re.compile(r"\b(?:sk|pk|rk|pa|hf|gsk|xai|gh[opsu]|github_pat|AIza|xox[abp])[-_]?[A-Za-z0-9_-]{16,}"), "***"),
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"), "***"),  # access keys of AWS
    (re.compile(r"(?<![\w-])eyJ[\w-]{10,}\.[\w-]{10,}(?:\.[\w-]*)?"), "***"),  # JSON web tokens
)
_NAME = re.compile(
    r"(?i)(?:api|access|secret|subscription|account|private|auth)[-_]?key$|^_*key$|(?:^|[-_])token$"
    r"|secret|password|passwd|credential|authorization|(?:^|[-_])auth$"
)
_SHORTEST = 4  # characters; what is shorter, or one of the words below, stands for no key
_NO_SECRETS = frozenset({"none", "null", "true", "false", "basic", "bearer"})
_MOST_OBJECTS = 2_000  # that are looked at: the service, then what it holds, then what these hold
_MOST_ITEMS = 50  # of a list or mapping
_OPAQUE = (type, ModuleType, FunctionType, MethodType, BuiltinFunctionType, str, bytes, int, float)


def redact(text: str, secrets: Collection[str] = ()) -> str:
    """Return the text without these secrets, as they are and as in an address, and without what looks like one."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***").replace(quote(secret, safe=""), "***")
    for pattern, replacement in _FORMS:
        text = pattern.sub(replacement, text)
    return text


def secrets_of(holder: object) -> frozenset[str]:
    """Return the keys, tokens and passwords that a service was given, as far as they can be known as such.

    These are what is wrapped as a secret (pydantic's `SecretStr`), what stands under the name of one ("api_key",
    "Authorization") in the service, in the models and clients that it holds and in their options, and those of the
    environment.
    """
    found = {value for name, value in os.environ.items() if _NAME.search(name) and len(value) >= 8}
    waiting: deque[tuple[str, object]] = deque([("", holder)])
    seen: set[int] = set()
    while waiting and len(seen) < _MOST_OBJECTS:
        name, value = waiting.popleft()
        reveal = getattr(type(value), "get_secret_value", None)
        if callable(reveal):
            name, value = "secret", reveal(value)
        if isinstance(value, str):
            found.update(_values(value) if _NAME.search(name) else ())
        elif value is not None and not isinstance(value, _OPAQUE) and id(value) not in seen:
            seen.add(id(value))
            with suppress(Exception):  # a stranger's attributes may do anything; the failure at hand is to be told
                waiting.extend(_parts(value, name))
    return frozenset(found)


def _values(value: str) -> list[str]:
    """Return what is secret of a value: of "Bearer abc" also what stands behind the scheme."""
    parts = {value, value.rpartition(" ")[2]}
    return [part for part in parts if len(part) >= _SHORTEST and part.lower() not in _NO_SECRETS]


def _parts(value: object, name: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        yield from ((str(key), inner) for key, inner in list(value.items())[:_MOST_ITEMS])
    elif isinstance(value, list | tuple):
        yield from ((name, inner) for inner in value[:_MOST_ITEMS])
    else:
        for store in ("__dict__", "__pydantic_private__"):
            if isinstance(named := getattr(value, store, None), dict):
                yield from ((str(key), inner) for key, inner in list(named.items()))
        for slot in _slots(value):
            yield slot, getattr(value, slot, None)


def _slots(value: object) -> Iterator[str]:
    for base in type(value).__mro__:
        slots = vars(base).get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


def without_secrets(error: CatenaError, secrets: Collection[str]) -> CatenaError:
    """Return one of our errors without secrets in its arguments, and cut off from foreign causes that hold some."""
    if _shows(error, secrets):
        arguments = [redact(each, secrets) if isinstance(each, str) else each for each in error.args]
        error = type(error)(*arguments).with_traceback(error.__traceback__)
    link: BaseException = error
    seen = {id(error)}  # an error that a client raises twice may be its own cause
    while (cause := link.__cause__ or link.__context__) is not None and id(cause) not in seen:
        seen.add(id(cause))
        if _shows(cause, secrets):
            link.__cause__ = link.__context__ = None
            break
        link = cause
    return error


def _shows(error: BaseException, secrets: Collection[str]) -> bool:
    text = f"{error} {error!r}"
    return redact(text, secrets) != text

"""The one redactor: takes keys, tokens and passwords out of what is shown, by their value and by their form."""

from __future__ import annotations

import json
import os
import re
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice, repeat
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from catena.model.errors import CatenaError

_FORMS = (
    # "Authorization: Bearer abc", {'x-api-key': 'abc'}, api_key="abc", ?key=abc&, Incorrect API key provided: abc
    (
        re.compile(
            r"""(?ix) ( (?: \b (?: proxy-)? authorization
            | (?<![\w-]) [\w-]*? (?: api[-_]?key | token | secret | password | passwd
                | passphrase | (?: subscription | access | account | private | functions ) [-_]? key )
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
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")  # of accessToken
_NAME = re.compile(
    r"(?:api|access|secret|subscription|account|private|auth|functions)_?keys?$|^_*key$|(?:^|_)(?:access_|auth_)tokens$"
    r"|(?:^|_)(?:token|auth|auth_header|bearer|jwt|pat|cookies?)$"
    r"|secret|password|passwd|passphrase|credential|authorization"
)
_SETTING = re.compile(r"(?:pad|[be]os|unk|sep|cls|mask|stop|start|end|special|image)_token$")  # of a vocabulary
# https://user:password@host; Server=db;Password=...
_PASSWORD = re.compile(
    r"://[^/\s:@]{0,200}:([^/\s@]{1,400})@|\b(?i:password|pwd|accountkey|sharedaccesskey)=([^\s;&'\"]{1,400})"
)
_SHORTEST = 4  # characters; what is shorter, or one of the words below, stands for no key
_SHORTEST_IN_TEXT = 8  # characters, in a reply or in the environment: what is shorter may be a word like others
_NO_SECRETS = frozenset({
    "none", "null", "true", "false", "basic", "bearer", "empty", "password", "passwd", "secret", "token",
})  # fmt: skip
_MOST_OBJECTS = 2_000  # that are looked at: the service, then what it holds, then what these hold
_MOST_ITEMS = 200  # of a list, a mapping or an object
_LONGEST = 4_000  # characters of a value that is looked into
_OPAQUE = (ModuleType, FunctionType, BuiltinFunctionType, int, float)


def redact(text: str, secrets: Collection[str] = ()) -> str:
    """Return the text without these secrets, in any of their spellings, and without what looks like one."""
    text = _without(text, secrets)
    for pattern, replacement in _FORMS:
        text = pattern.sub(replacement, text)
    return text


def redact_reply(text: str, secrets: Collection[str]) -> str:
    """Return what a model says without these secrets; all else stays, also what only looks like a secret."""
    return _without(text, [secret for secret in secrets if len(secret) >= _SHORTEST_IN_TEXT])


def _without(text: str, secrets: Collection[str]) -> str:
    spellings = {spelling for secret in secrets for spelling in _spellings(secret)}
    for spelling in sorted(spellings, key=lambda each: (-len(each), each)):
        text = text.replace(spelling, "***")
    return text


def _spellings(secret: str) -> Iterator[str]:
    """Yield a secret as it stands in a text, an address, JSON, a `repr`, and in the base64 of more than itself."""
    yield from (secret, quote(secret, safe=""), quote_plus(secret), repr(secret)[1:-1])
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    data = secret.encode("utf-8", "surrogatepass")
    yield repr(data)[2:-1]
    for before in range(3):  # bytes: what stands before it decides which letters it becomes
        whole = (before + len(data)) * 8 // 6  # letters that what follows it cannot change
        letters = b64encode(b"\0" * before + data)[(0, 2, 3)[before] : whole].decode()
        if len(letters) >= _SHORTEST_IN_TEXT:
            yield from (letters, letters.translate({ord("+"): "-", ord("/"): "_"}))


def secrets_of(holder: object) -> frozenset[str]:
    """Return the keys, tokens and passwords that a service was given, as far as they can be known as such.

    These are what is wrapped as a secret (pydantic's `SecretStr`), what stands under the name of one ("api_key",
    "accessToken", "Authorization") in the service, in the models and clients that it holds and in their options, the
    passwords in addresses there, and those of the environment. Values that only a closure holds are not found.

    Cost: at most 2,000 objects, the nearest first.
    """
    secrets = (each for name, value in os.environ.items() for each in _secrets_in(name, value))
    found = {each for each in secrets if len(each) >= _SHORTEST_IN_TEXT}
    waiting: deque[tuple[str, object]] = deque([("", holder)])
    seen: set[int] = set()
    while waiting and len(seen) < _MOST_OBJECTS:
        name, value = waiting.popleft()
        with suppress(Exception):  # a stranger's attributes may do anything; the failure at hand is to be told
            if callable(reveal := getattr(type(value), "get_secret_value", None)):
                name, value = "secret", reveal(value)
            if isinstance(value, str | bytes):
                found.update(_secrets_in(name, _text(value)))
            elif value is not None and not isinstance(value, _OPAQUE) and id(value) not in seen:
                seen.add(id(value))
                waiting.extend(_parts(value, name))
    return frozenset(found)


def _text(value: object) -> str:
    return value[:_LONGEST].decode(errors="replace") if isinstance(value, bytes) else str(value)


def _names_secret(name: str) -> bool:
    own = name.rpartition("__")[2] or name  # _Client__key is what a class calls __key
    plain = _HUMP.sub("_", own).replace("-", "_").lower()
    return _NAME.search(plain) is not None and not _SETTING.search(plain)


def _secrets_in(name: str, value: str) -> Iterator[str]:
    """Yield what is secret of a value: of "Bearer abc" also what stands behind the scheme."""
    parts = [part for found in _PASSWORD.findall(value[:_LONGEST]) for part in found]
    if _names_secret(name):
        credentials = value.rpartition(" ")[2]
        parts += [value, credentials, *(pair.partition("=")[2] for pair in value[:_LONGEST].split("; "))]
        with suppress(ValueError):
            parts.append(b64decode(credentials, validate=True).decode().partition(":")[2])
    for each in {*parts, *map(unquote, parts)}:
        if len(each) >= _SHORTEST and each.lower() not in _NO_SECRETS:
            yield each


def _parts(value: Any, name: str) -> Iterator[tuple[str, object]]:
    secret = _names_secret(name)
    if isinstance(value, type):
        every = ((key, inner) for base in value.__mro__ for key, inner in vars(base).items())
        yield from ((key, inner) for key, inner in every if _is_plain(inner) and _names_secret(key))
    elif isinstance(value, dict) or (isinstance(value, Mapping) and not hasattr(value, "__dict__")):
        items = list(value.items()) if isinstance(value, dict) else value.items()
        yield from ((name if secret else _text(key), inner) for key, inner in islice(items, _MOST_ITEMS))
    elif type(value) is tuple and len(value) in (2, 3) and isinstance(value[0], str | bytes) and not secret:
        yield _text(value[0]), value[-1]  # ("Authorization", "Bearer abc"), as headers are listed
        yield from ((name, inner) for inner in value[1:-1])
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from zip(getattr(value, "_fields", repeat(name)), islice(value, _MOST_ITEMS), strict=False)
    elif isinstance(value, partial):
        yield from ((name, inner) for inner in (value.func, value.args, value.keywords))
    elif isinstance(value, MethodType):
        yield name, value.__self__
    else:
        yield "", type(value)
        for store in ("__dict__", "__pydantic_private__"):
            if isinstance(named := getattr(value, store, None), dict):
                yield from ((str(key), inner) for key, inner in islice(list(named.items()), _MOST_ITEMS))
        for slot in _slots(value):
            yield slot, getattr(value, slot, None)


def _is_plain(value: object) -> bool:
    return isinstance(value, str | bytes) or hasattr(type(value), "get_secret_value")


def _slots(value: object) -> Iterator[str]:
    for base in type(value).__mro__:
        slots = vars(base).get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


def without_secrets(error: CatenaError, secrets: Collection[str]) -> CatenaError:
    """Return one of our errors without secrets in its arguments, and cut off from foreign causes that hold some."""
    if _shows(error, secrets):
        clean = type(error).__new__(type(error), *(_shown(each, secrets) for each in error.args))
        clean.__dict__.update({name: _shown(value, secrets) for name, value in vars(error).items()})
        error = clean.with_traceback(error.__traceback__)  # not by its constructor, which may refuse texts
    link: BaseException = error
    seen = {id(error)}  # an error that a client raises twice may be its own cause
    while (cause := link.__cause__ or link.__context__) is not None and id(cause) not in seen:
        seen.add(id(cause))
        if _shows(cause, secrets):
            link.__cause__ = link.__context__ = None
            break
        link = cause
    return error


def _shown(value: Any, secrets: Collection[str]) -> Any:
    """Return a value without secrets; one that is no text, and shows some, as the text that shows it."""
    if isinstance(value, str):
        return redact(value, secrets)
    if isinstance(value, list):  # of notes
        return [_shown(each, secrets) for each in value]
    text = repr(value)
    return value if (clean := redact(text, secrets)) == text else clean


def _shows(error: BaseException, secrets: Collection[str]) -> bool:
    told: list[str] = []
    for tell in (repr, str, _notes):
        with suppress(Exception):  # a message that cannot be made of arguments of the wrong type
            told.append(tell(error))
    text = "\n".join(told)
    return redact(text, secrets) != text


def _notes(error: BaseException) -> str:
    # ours make their notes when they are first asked for them, which is not to be now
    return "\n".join([*vars(error).get("__notes__", ()), *vars(error).get("_notes", ())])

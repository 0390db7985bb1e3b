"""Declare options as fields of a dataclass (type, range, choices, help), check them, and read the declarations."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, wraps
from inspect import Parameter, iscoroutinefunction, signature
from math import inf, isnan
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from annotated_types import Ge, Gt, Le, Lt

from catena.model.errors import ParameterError

P = ParamSpec("P")
T = TypeVar("T")
_BOUNDS: dict[type, tuple[Callable[[Any, Any], bool], str, str]] = {
    Ge: (operator.ge, "ge", ">="),
    Gt: (operator.gt, "gt", ">"),
    Le: (operator.le, "le", "<="),
    Lt: (operator.lt, "lt", "<"),
}
_NAMED: dict[Any, tuple[Any, str]] = {
    bool: (bool, "True or False"),
    int: (Integral, "an integer"),
    float: (Real, "a number"),
    str: (str, "a string"),
    NoneType: (NoneType, "None"),
}


@dataclass(frozen=True, slots=True)
class Doc:
    """Say in the annotation of a field what the option does: `Annotated[int, Ge(0), Doc("Join so many.")]`."""

    text: str


class DeclaredOption(NamedTuple):
    """One option, as the field of a dataclass declares it.

    Attributes:
        kind: its type without metadata and None: `int`, `float`, `bool`, `str`, `Literal[...]`.
        default: of the field; None where it has none.
        help: the text of its `Doc`, "" where it has none.
        low, high: the least and the greatest value; None where there is none, or where it is a `Gt` or `Lt`.
    """

    kind: Any
    default: Any
    help: str
    low: float | None
    high: float | None


def declared(options: type, name: str) -> DeclaredOption:
    """Return what the field `name` of a dataclass of options declares."""
    field = next(each for each in fields(options) if each.name == name)
    kind, metadata = _bare(_hints(cast("Hashable", options))[name])
    bounds: dict[type, Any] = {type(each): each for each in metadata}
    return DeclaredOption(
        kind=kind,
        default=None if field.default is MISSING else field.default,
        help=bounds[Doc].text if Doc in bounds else "",
        low=bounds[Ge].ge if Ge in bounds else None,
        high=bounds[Le].le if Le in bounds else None,
    )


def _bare(hint: Any) -> tuple[Any, tuple[object, ...]]:
    """Return a type without metadata and None, and all of the metadata."""
    if get_origin(hint) is Annotated:
        kind, metadata = _bare(hint.__origin__)
        return kind, (*metadata, *hint.__metadata__)
    if get_origin(hint) in (Union, UnionType):
        others = [each for each in get_args(hint) if each is not NoneType]
        return _bare(others[0]) if len(others) == 1 else (hint, ())
    return hint, ()


def check_options(options: object) -> None:
    """Raise where a field of a dataclass holds what its annotation does not allow.

    Annotations say the type (`int`, `float | None`, `Literal["a", "b"]`, a class, `Callable[...]`) and with
    `Annotated[int, Ge(1), Le(100)]` the range. True and False are no numbers, and not-a-number is in no range. Of
    containers the kind is checked, and of tuples of any length (`tuple[str, ...]`) what is in them.

    Raises:
        ParameterError: names the field, its value and what is allowed.
    """
    hints = _hints(cast("Hashable", type(options)))
    for name in (field.name for field in fields(cast("Any", options))):
        value = getattr(options, name)
        if not _holds(value, hints[name]):
            raise ParameterError(name, value, _allowed(hints[name]))


class Checked:
    """Let a dataclass of options refuse, when it is made, what its annotations do not allow: see `check_options`."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check_options(self)


def as_tuples(options: object, *names: str) -> None:
    """Put a tuple in place of a list, or of what else is iterated over, in fields of a frozen dataclass.

    What is none, or is text or a mapping, stays as it is, for `check_options` to refuse.
    """
    for name in names:
        value = getattr(options, name)
        if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
            object.__setattr__(options, name, tuple(value))


def check_given(options: Mapping[str, object], declared: type | Callable[..., object]) -> None:
    """Raise where an option that was given is not what a `TypedDict`, or the function that takes it, declares.

    Raises:
        ParameterError: names the option, its value and what is allowed.
    """
    hints = _hints(cast("Hashable", declared))
    for name, value in options.items():
        if name in hints and not _holds(value, hints[name]):
            raise ParameterError(name, value, _allowed(hints[name]))


@cache
def _hints(kind: Hashable) -> Mapping[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _holds(value: object, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin is Annotated:
        return _holds(value, hint.__origin__) and all(_within(value, bound) for bound in hint.__metadata__)
    if origin in (Union, UnionType):
        return any(_holds(value, each) for each in get_args(hint))
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in get_args(hint))
    kind = _NAMED[hint][0] if hint in _NAMED else origin or hint
    return kind is Any or (isinstance(value, kind) and not _is_misread(value, kind) and _holds_items(value, hint))


def _is_misread(value: Any, kind: type) -> bool:
    """Return whether a value counts as of a kind to Python, but is not meant: True as 1, NaN, text as a sequence."""
    if kind is Sequence:
        return isinstance(value, str | bytes)
    if kind is not Real:
        return kind is Integral and isinstance(value, bool)
    try:
        return isinstance(value, bool) or isnan(value)
    except OverflowError:  # an integer that no float is as large as
        return True


def _holds_items(value: Any, hint: Any) -> bool:
    return not _is_of_any_length(hint) or all(_holds(each, get_args(hint)[0]) for each in value)


def _is_of_any_length(hint: Any) -> bool:
    return get_origin(hint) is tuple and get_args(hint)[1:] == (...,)


def _within(value: Any, bound: object) -> bool:
    """Return whether a value is in a range; all are where this is no bound, and None, which has none."""
    return value is None or all(compare(value, getattr(bound, name)) for compare, name, _ in _bound(bound))


def _bound(bound: object) -> Iterable[tuple[Callable[[Any, Any], bool], str, str]]:
    """Return how to compare with a bound, the name of its limit and its sign; nothing where it is no bound."""
    return (_BOUNDS[type(bound)],) if type(bound) in _BOUNDS else ()


def _allowed(hint: Any) -> str:
    origin = get_origin(hint)
    if origin is Annotated:
        bounds = [(sign, getattr(each, name)) for each in hint.__metadata__ for _, name, sign in _bound(each)]
        said = " and ".join(f"{sign} {limit:,}" for sign, limit in bounds if abs(limit) != inf)
        words = _allowed(hint.__origin__)
        is_finite = any(abs(limit) == inf for _, limit in bounds)
        return f"{words.replace('a number', 'a finite number') if is_finite else words} {said}".rstrip()
    if origin in (Union, UnionType):
        *others, last = map(_allowed, get_args(hint))
        return f"{', '.join(others)} or {last}"
    if origin is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    if hint in _NAMED:
        return _NAMED[hint][1]
    if _is_of_any_length(hint):
        return f"a tuple, each item {_allowed(get_args(hint)[0])}"
    name = getattr(origin or hint, "__name__", hint)
    return "a function" if origin is Callable else f"{name}(...)" if is_dataclass(hint) else f"of type {name}"


# what others call it -> what it is called here
_ELSEWHERE = {
    **dict.fromkeys(("top_k", "topk", "n", "n_results", "num_results", "limit", "size", "similarity_top_k"), "k"),
    **dict.fromkeys(("filter", "filters", "metadata_filter", "metadata_filters"), "where"),
}


def checked_names(more: Collection[str] = ()) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Have a method refuse names that it has no place for; Python would name the function that it calls in turn.

    Args:
        more: names that it takes besides its own, as the keys of the `TypedDict` of its `**options`.
    """

    def decorated(method: Callable[P, T]) -> Callable[P, T]:
        named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        own = [each.name for each in signature(method).parameters.values() if each.kind in named]
        known = (*own[1:], *more)  # the first is self

        if iscoroutinefunction(method):

            @wraps(method)
            async def checked_async(*args: P.args, **kwargs: P.kwargs) -> Any:
                _refuse_unknown(f"{type(args[0]).__name__}.{method.__name__}", kwargs, known)
                return await method(*args, **kwargs)

            return cast("Callable[P, T]", checked_async)

        @wraps(method)
        def checked(*args: P.args, **kwargs: P.kwargs) -> T:
            _refuse_unknown(f"{type(args[0]).__name__}.{method.__name__}", kwargs, known)
            return method(*args, **kwargs)

        return checked

    return decorated


def _refuse_unknown(owner: str, given: Collection[str], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            here = _ELSEWHERE.get(name.lower())
            told = f" (here it is called {here!r})" if here in known else ""
            raise ParameterError(f"argument of {owner}", name, f"one of {', '.join(map(repr, known))}{told}")

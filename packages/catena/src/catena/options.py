"""Check the options of a dataclass against what its fields declare: type, range, choices."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from math import isnan
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

from catena.errors import ParameterError

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


def check_options(options: object) -> None:
    """Raise where a field of a dataclass holds what its annotation does not allow.

    Annotations say the type (`int`, `float | None`, `Literal["a", "b"]`, a class, `Callable[...]`) and with
    `Annotated[int, Ge(1), Le(100)]` the range. True and False are no numbers, and not-a-number is in no range. Of
    containers the kind is checked, not what is in them.

    Raises:
        ParameterError: names the field, its value and what is allowed.
    """
    for name, hint in _hints(cast("Hashable", type(options))).items():
        value = getattr(options, name)
        if not _holds(value, hint):
            raise ParameterError(name, value, _allowed(hint))


def check_given(options: Mapping[str, object], declared: type) -> None:
    """Raise where an option that was given is not what a class of options (a `TypedDict`) declares it to be.

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
    no_number = kind in (Integral, Real) and (isinstance(value, bool) or (isinstance(value, float) and isnan(value)))
    no_sequence = kind is Sequence and isinstance(value, str | bytes)
    return kind is Any or (isinstance(value, kind) and not no_number and not no_sequence)


def _within(value: Any, bound: object) -> bool:
    """Return whether a value is in a range; all are where this is no bound, and None, which has none."""
    if value is None or type(bound) not in _BOUNDS:
        return True
    compare, name, _ = _BOUNDS[type(bound)]
    return compare(value, getattr(bound, name))


def _allowed(hint: Any) -> str:
    origin = get_origin(hint)
    if origin is Annotated:
        bounds = [(_BOUNDS[type(each)], each) for each in hint.__metadata__ if type(each) in _BOUNDS]
        said = " and ".join(f"{sign} {getattr(each, name)}" for (_, name, sign), each in bounds)
        return f"{_allowed(hint.__origin__)} {said}".rstrip()
    if origin in (Union, UnionType):
        return " or ".join(map(_allowed, get_args(hint)))
    if origin is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    if hint in _NAMED:
        return _NAMED[hint][1]
    return "a function" if origin is Callable else f"of type {getattr(origin or hint, '__name__', hint)}"

"""Constructors that refuse what they have no place for, naming what they have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec

from catena.model import ParameterError

P = ParamSpec("P")


def checked_arguments(init: Callable[P, None]) -> Callable[P, None]:
    """Have a constructor refuse arguments that it has no place for; the error names the nearest it has.

    Fields of a pydantic model are known, those of subclasses too: pydantic itself passes over what it does not know,
    and a mistyped `max_tokns` would be the default without a word.
    """
    return checked_with()(init)


def checked_with(more: Collection[str] = ()) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """As `checked_arguments`, for a constructor that passes arguments of these names on."""

    def decorated(init: Callable[P, None]) -> Callable[P, None]:
        parameters = list(signature(init).parameters.values())[1:]
        own = {each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
        has_fields = not more and any(each.kind is Parameter.VAR_KEYWORD for each in parameters)

        @wraps(init)
        def checked(*args: P.args, **kwargs: P.kwargs) -> None:
            made = type(args[0])
            fields = getattr(made, "model_fields", {}) if has_fields else {}
            if "library" in kwargs and "source" in own - {"library", *kwargs}:  # as LangChain's retrievers call it
                kwargs["source"] = kwargs.pop("library")
            refuse_unknown(made.__name__, kwargs, {*own, *more, *fields})
            held = vars(args[0])
            is_first = issubclass(made, Remade) and "_made_of" not in held  # not of a class above it
            if is_first:
                held["_made_of"] = (args[1:], kwargs)
            init(*args, **kwargs)
            if is_first:
                held["_as_made"] = dict(held)

        return checked

    return decorated


class Remade:
    """Pickled as what it was made of, and what was set on it since: stores and connections are opened anew.

    The constructor is one of `checked_with`. Names that begin with "_" are its own to make.
    """

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        held = vars(self)
        (args, kwargs), made = held["_made_of"], held["_as_made"]
        public = {name: value for name, value in held.items() if not name.startswith("_")}
        fresh = {name: value for name, value in public.items() if _is_plain(value) or value is not made.get(name)}
        return _remade, (type(self), args, kwargs), fresh


def _remade(made: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    return made(*args, **kwargs)


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool | dict | list | tuple)


def refuse_unknown(owner: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise `ParameterError` for a name that is not known, with those that are."""
    for name in given:
        if name not in known:
            raise ParameterError(f"argument of {owner}", name, f"one of {', '.join(map(repr, sorted(known)))}")

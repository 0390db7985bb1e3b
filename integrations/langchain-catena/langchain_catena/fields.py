"""Fields of models and options of calls, with the nearest name for a mistyped one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from catena.model import ParameterError, meant

_OF_LANGCHAIN = frozenset({"run_id", "verbose"})  # what a retriever's `invoke` takes besides its own options


class NamedFields(BaseModel):
    """A model that refuses a field it does not have, and says which one was meant."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, given: Any) -> Any:
        known = cls.model_fields
        for name in given if isinstance(given, Mapping) else ():
            if name not in known:
                raise ValueError(f"{cls.__name__} has no field {name!r}{meant(name, known) or listed(known)}")
        return given


def check_options(who: object, given: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise where a call is given an option that nobody reads.

    Raises:
        ParameterError: the message names the option, those that there are, and the nearest of them.
    """
    names = tuple(known)
    for name in given:
        if name not in names and name not in _OF_LANGCHAIN:
            what = f"an option of {type(who).__name__}.invoke"
            raise ParameterError(what, name, f"one of {', '.join(names)}")


def listed(names: Iterable[str]) -> str:
    """Return the names in words, for the end of a message."""
    return f". There are: {', '.join(sorted(names))}"

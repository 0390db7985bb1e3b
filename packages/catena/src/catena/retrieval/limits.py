"""Limit what one question may cost before anything is asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import Ge

from catena.errors import FilterError, ParameterError
from catena.model import Where
from catena.options import check_options

_SHOWN = 40  # characters of a question in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionLimits:
    """What one question may hold; more is refused by name before anything is searched.

    Attributes:
        characters: of the question.
        conditions: of the filter: comparisons and the values in their lists, each of which is asked of each chunk.
    """

    characters: Annotated[int, Ge(1)] = 100_000
    conditions: Annotated[int, Ge(1)] = 10_000

    def __post_init__(self) -> None:
        check_options(self)

    def check(self, question: str, where: Where | None) -> None:
        """Raise where a question or its filter is past the limits.

        Raises:
            ParameterError: the question is longer.
            FilterError: the filter has more conditions.
        """
        if (found := len(question)) > self.characters:
            said = f"{question[:_SHOWN]}… ({found:,} characters)"
            advice = f"a shorter question, or limits=QuestionLimits(characters={found})"
            raise ParameterError("query", said, f"at most {self.characters:,} characters long", advice)
        if where is not None and (found := _conditions(where)) > self.conditions:
            advice = f"several questions, or limits=QuestionLimits(conditions={found})"
            raise FilterError("…", f"it has {found:,} conditions, more than {self.conditions:,}. Try: {advice}")


def _conditions(where: object) -> int:
    """Return the number of comparisons and of values in their lists, of a filter that may be malformed."""
    count = 0
    waiting: list[Any] = [where]
    while waiting:
        part = waiting.pop()
        for key, value in part.items() if isinstance(part, Mapping) else ():
            if key in ("$and", "$or", "$not"):
                waiting += value if isinstance(value, list | tuple) else [value]
                continue
            operands = value.values() if isinstance(value, Mapping) else (value,)
            count += sum(len(one) if isinstance(one, list | tuple | set | frozenset) else 1 for one in operands)
    return count

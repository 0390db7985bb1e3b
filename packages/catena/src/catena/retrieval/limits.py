"""Check the arguments of a question, and limit its cost, before anything is asked for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from annotated_types import Ge

from catena.model import Where
from catena.model.errors import FilterError, ParameterError
from catena.model.filters import DEEPEST, check
from catena.model.options import check_options
from catena.retrieval.fusion import Fusion, RankFusion, ScoreFusion
from catena.retrieval.routes import ROUTES, Route

OnUnknown: TypeAlias = Literal["empty", "keep"]

_SHOWN = 40  # characters of a question in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionLimits:
    """The limits of one question; more is refused by name before anything is searched.

    Attributes:
        characters: of the question.
        conditions: of the filter: branches, comparisons and the values in their lists, all asked of each chunk.
    """

    characters: Annotated[int, Ge(1)] = 100_000
    conditions: Annotated[int, Ge(1)] = 10_000

    def __post_init__(self) -> None:
        check_options(self)

    def check(self, question: str, where: Where | None) -> None:
        """Raise where a question or its filter is past the limits.

        Raises:
            ParameterError: the question is longer.
            FilterError: the filter has more conditions, or is nested too deeply.
        """
        if (found := len(question)) > self.characters:
            said = f"{question[:_SHOWN]}… ({found:,} characters)"
            advice = f"a shorter question, or limits=QuestionLimits(characters={found})"
            raise ParameterError("query", said, f"at most {self.characters:,} characters long", advice)
        if where is not None and _has_more(where, self.conditions):
            advice = "several questions, or limits=QuestionLimits(conditions=...) with more"
            raise FilterError("…", f"it has more than {self.conditions:,} conditions. Try: {advice}")


def _has_more(where: object, most: int) -> bool:
    """Return True where a filter, even a malformed one, has more branches, comparisons and listed values than `most`.

    Raises:
        FilterError: it is nested too deeply, as one that holds itself is.
    """
    count = 0
    waiting: list[tuple[Any, int]] = [(where, 0)]
    while waiting and count <= most:
        part, depth = waiting.pop()
        if depth > DEEPEST:
            raise FilterError("…", f"nested more than {DEEPEST} deep")
        for key, value in part.items() if isinstance(part, Mapping) else ():
            if key in ("$and", "$or", "$not"):
                branches = value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else (value,)
                count += len(branches)
                waiting += ((branch, depth + 1) for branch in branches[: most + 1])
            else:
                operands = value.values() if isinstance(value, Mapping) else (value,)
                count += sum(len(one) if isinstance(one, list | tuple | set | frozenset) else 1 for one in operands)
    return count > most


def check_question(
    query: object,
    k: object,
    depth: object,
    entities: object,
    *,
    fusion: object,
    where: Where | None,
    on_route_error: object,
    on_unknown: object,
) -> None:
    """Raise for arguments that are of another type or out of range; nothing was asked yet."""
    are_strings = isinstance(entities, Sequence) and all(isinstance(entity, str) for entity in entities)
    if isinstance(entities, str) or not are_strings:
        raise ParameterError("entities", entities, "a sequence of strings")
    if not isinstance(query, str):
        raise ParameterError("query", query, "a string")
    if not isinstance(k, int) or k < 0:
        raise ParameterError("k", k, "an integer >= 0")
    if not isinstance(depth, int) or depth < k:
        raise ParameterError("depth", depth, f"an integer >= k ({k})")
    if fusion is not None and not isinstance(fusion, ScoreFusion | RankFusion):
        raise ParameterError("fusion", fusion, "ScoreFusion(...), RankFusion(...) or None")
    if on_unknown not in ("empty", "keep"):
        raise ParameterError("on_unknown", on_unknown, "'empty' or 'keep'")
    if on_route_error not in ("raise", "degrade"):
        raise ParameterError("on_route_error", on_route_error, "'raise' or 'degrade'")
    if where is not None:
        check(where)


def check_weights(fusion: Fusion, table: Mapping[str, Route]) -> None:
    """Refuse a weight for a route that is neither asked nor known: a mistyped one would change nothing."""
    weighed = fusion.weights or {} if isinstance(fusion, RankFusion) else {}
    for name in weighed:
        if name not in table and name not in ROUTES:
            raise ParameterError("weights", name, f"names of routes, one of {', '.join(map(repr, table))}")

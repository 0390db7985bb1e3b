"""Translate LlamaIndex's metadata filters: every retriever takes both grammars, as `filters` and as `where`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from catena import ParameterError
from catena.model import Where, check

Filters: TypeAlias = Where | MetadataFilters | MetadataFilter | Sequence[MetadataFilter]
"""A filter in Catena's grammar, or LlamaIndex's; of a list all must hold."""

_NAMED_ALIKE = ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "contains")
_OPERATORS = {FilterOperator[name.upper()]: f"${name}" for name in _NAMED_ALIKE}
_OPERATORS |= {FilterOperator.ANY: "$in", FilterOperator.TEXT_MATCH: "$contains"}


def where_of(*given: Filters | None) -> Where | None:
    """Return what all of these filters ask, in Catena's grammar; None where nothing is filtered.

    Raises:
        ParameterError: one has an operator that Catena's grammar has no counterpart for.
        FilterError: one is malformed.
    """
    told = [_all_of(own) if (own := own_filters(each)) else cast("Where | None", each) for each in given]
    parts = [each for each in told if each is not None]
    for each in parts:
        check(each)
    return parts[0] if len(parts) == 1 else {"$and": parts} if parts else None


def own_filters(given: Filters | None) -> MetadataFilters | None:
    """Return LlamaIndex's filters as one; None for a filter of another grammar, or none."""
    if isinstance(given, MetadataFilter):
        return MetadataFilters(filters=[given])
    if isinstance(given, Sequence) and given and all(isinstance(each, MetadataFilter) for each in given):
        return MetadataFilters(filters=list(given))
    return given if isinstance(given, MetadataFilters) else None


def _all_of(filters: MetadataFilters) -> Where | None:
    parts = [part for each in filters.filters if (part := _one(each)) is not None]
    if not parts:
        return None
    if filters.condition == FilterCondition.NOT:
        return {"$not": {"$or": parts}}
    return {"$or" if filters.condition == FilterCondition.OR else "$and": parts}


def _one(part: MetadataFilter | MetadataFilters) -> Where | None:
    if isinstance(part, MetadataFilters):
        return _all_of(part)
    if part.operator == FilterOperator.ALL and isinstance(part.value, list) and part.value:
        return {"$and": [{part.key: value} for value in part.value]}
    if part.operator not in _OPERATORS:
        allowed = f"one of {', '.join(known.value for known in (*_OPERATORS, FilterOperator.ALL))}"
        raise ParameterError("filter operator", part.operator.value, allowed)
    return {part.key: {_OPERATORS[part.operator]: part.value}}

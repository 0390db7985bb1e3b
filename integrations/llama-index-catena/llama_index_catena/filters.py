"""LlamaIndex's metadata filters in Catena's grammar: every retriever takes both, as `filters` and as `where`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from catena.errors import ParameterError
from catena.filters import check
from catena.model import Where

Filters: TypeAlias = Where | MetadataFilters
"""A filter in Catena's grammar, or LlamaIndex's."""

_OPERATORS: Mapping[FilterOperator, Callable[[Any], Mapping[str, Any]]] = {
    FilterOperator.EQ: lambda value: {"$eq": value},
    FilterOperator.NE: lambda value: {"$ne": value},
    FilterOperator.GT: lambda value: {"$gt": value},
    FilterOperator.GTE: lambda value: {"$gte": value},
    FilterOperator.LT: lambda value: {"$lt": value},
    FilterOperator.LTE: lambda value: {"$lte": value},
    FilterOperator.IN: lambda value: {"$in": value},
    FilterOperator.NIN: lambda value: {"$nin": value},
    FilterOperator.CONTAINS: lambda value: {"$contains": value},
    FilterOperator.TEXT_MATCH: lambda value: {"$contains": value},
}


def where_of(*given: Filters | None) -> Where | None:
    """Return what all of these filters ask, in Catena's grammar; None where nothing is filtered.

    Raises:
        ParameterError: one has an operator that only an index can obey.
        FilterError: one is malformed.
    """
    told = [_all_of(each) if isinstance(each, MetadataFilters) else each for each in given]
    parts = [each for each in told if each is not None]
    for each in parts:
        check(each)
    return parts[0] if len(parts) == 1 else {"$and": parts} if parts else None


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
    if part.operator not in _OPERATORS:
        allowed = f"one of {', '.join(known.value for known in _OPERATORS)}"
        raise ParameterError("filter operator", part.operator.value, allowed)
    return {part.key: _OPERATORS[part.operator](part.value)}

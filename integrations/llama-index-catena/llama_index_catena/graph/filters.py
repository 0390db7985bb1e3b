"""LlamaIndex's metadata filters in Catena's grammar, so that a graph obeys what the index obeys."""

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


def where_of(filters: Filters | None) -> Where | None:
    """Return a filter in Catena's grammar; None where nothing is filtered.

    Raises:
        ParameterError: it has an operator that the graph cannot obey.
        FilterError: it is malformed.
    """
    where = _all_of(filters) if isinstance(filters, MetadataFilters) else filters
    if where is not None:
        check(where)
    return where


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
        allowed = f"one of {', '.join(known.value for known in _OPERATORS)}, where a graph obeys the filter, too"
        raise ParameterError("filter operator", part.operator.value, allowed)
    return {part.key: _OPERATORS[part.operator](part.value)}

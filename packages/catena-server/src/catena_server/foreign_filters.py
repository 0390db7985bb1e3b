"""Write a filter as a clause over the metadata of an index that others have made; refuse what it cannot express."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from catena.model import FilterError, Where, check, matches
from catena_server.filters import ALL, NONE, Clause, all_of, any_of, negated
from catena_server.foreign_fields import NO_DOCUMENT, FieldType, ForeignFields

_FIXED: Final[Mapping[str, Any]] = {"kind": "text"}  # of every chunk whose metadata do not say it
_RANGES = ("$gt", "$gte", "$lt", "$lte")
_OPPOSITES: Final[Mapping[str, str]] = {"$ne": "$eq", "$nin": "$in"}
IDS: Final = ("chunk_id", "document_id")
"""Fields of filters that are no metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterFields:
    """The places of the fields of filters in an index.

    Attributes:
        prefix: before the names of metadata, as "metadata."; "" where they stand at the top.
        document: the field that holds the document's id; None where hits are documents of their own.
    """

    fields: ForeignFields
    prefix: str
    document: str | None


def foreign_filter(where: Where, at: FilterFields) -> Clause:
    """Return a filter as a clause for the filter context.

    As `catena.model.filters` defines it, with what a foreign mapping makes of values: dates are compared as times, in
    the forms that the index takes.

    Raises:
        FilterError: it is malformed, or the index does not hold what it asks for.
    """
    check(where)
    return _Writer(where, at).filter(where)


@dataclass(frozen=True, slots=True)
class _Writer:
    whole: Where
    at: FilterFields

    def filter(self, where: Where) -> Clause:
        return all_of([self.item(key, value) for key, value in where.items()])

    def item(self, key: str, value: Any) -> Clause:
        if key == "$and":
            return all_of([self.filter(part) for part in value])
        if key == "$or":
            return any_of([self.filter(part) for part in value])
        if key == "$not":
            return negated(self.filter(value))
        operations = value if isinstance(value, Mapping) else {"$eq": value}
        return all_of([self.operation(key, name, operand) for name, operand in operations.items()])

    def operation(self, key: str, operator: str, operand: Any) -> Clause:
        if operator in _OPPOSITES:
            return negated(self.operation(key, _OPPOSITES[operator], operand))
        if operator == "$contains":
            raise self.refused(key, "$contains cannot be obeyed: the index does not tell one string from several")
        if operator == "$eq":
            operator, operand = "$in", (operand,)
        if key in IDS:
            return self.of_id(key, operator, operand)
        around = self.at.fields.enclosing(f"{self.at.prefix}{key}")
        if around is not None:
            raise self.refused(key, f"it lies inside a field of the type {around.type}")
        found = self.at.fields.get(f"{self.at.prefix}{key}")
        if found is None:
            return self.of_absent(key, operator, operand)
        if operator == "$exists":
            there: Clause = {"exists": {"field": f"{self.at.prefix}{key}"}}
            return there if operand else negated(there)
        return self.of_values(key, operator, tuple(operand) if operator == "$in" else (operand,), found)

    def of_absent(self, key: str, operator: str, operand: Any) -> Clause:
        """Return the clause for a field that no document has."""
        if key in _FIXED:
            return ALL if matches({key: {operator: operand}}, _FIXED) else NONE
        if key == "path":
            raise self.refused(key, "it does not hold the headings above its texts")
        if self.at.fields.is_hidden(f"{self.at.prefix}{key}"):
            raise self.refused(key, "the index keeps such fields without indexing them (dynamic or enabled: false)")
        return ALL if operator == "$exists" and not operand else NONE

    def of_values(self, key: str, operator: str, operands: tuple[Any, ...], found: FieldType) -> Clause:
        """Return the clause for values that are compared: those of another kind than the field's equal none of it."""
        if not found.searchable or found.kind not in ("string", "number", "boolean", "date"):
            raise self.refused(
                key, f"its type in the index is {found.type}{'' if found.searchable else ', not indexed'}"
            )
        alike = [value for value in operands if _is_like(value, found)]
        for value in alike:
            self.check_value(key, operator, value, found)
        if not alike:
            return NONE
        field = found.whole if found.kind == "string" else f"{self.at.prefix}{key}"
        return _terms(field, alike) if operator == "$in" else {"range": {field: {operator[1:]: alike[0]}}}

    def of_id(self, key: str, operator: str, operand: Any) -> Clause:
        """Return the clause for a chunk's id, which is the hit's, or for its document's."""
        if operator == "$exists":
            return ALL if operand else NONE
        if operator != "$in":
            raise self.refused(key, f"{operator} cannot be obeyed: ids are not ordered in the index")
        ids = [value for value in operand if isinstance(value, str)]
        return documents_clause(ids, self.at, self.whole) if key == "document_id" else ids_clause(ids)

    def check_value(self, key: str, operator: str, value: Any, found: FieldType) -> None:
        if isinstance(value, float) and not isfinite(value):
            raise self.refused(key, "an index compares with finite numbers only")
        if found.kind != "string":
            return
        if not found.whole:
            raise self.refused(key, f"its type in the index is {found.type}, words without a keyword beside them")
        if found.folded:
            raise self.refused(key, f"{found.whole} does not hold strings as they are (it has a normalizer)")
        if found.longest is None:
            return
        if operator in _RANGES:
            raise self.refused(key, f"{found.whole} lacks strings of more than {found.longest} characters")
        if _units(value) > found.longest:
            raise self.refused(key, f"{found.whole} holds strings of up to {found.longest} characters")

    def refused(self, key: str, why: str) -> FilterError:
        return FilterError(self.whole, f"field {key!r} of the index {self.at.fields.index}: {why}")


def documents_clause(ids: Sequence[str], at: FilterFields, where: Where) -> Clause:
    """Return the clause for the hits of given documents; a hit that names none is a document of its own.

    Raises:
        FilterError: the index does not hold the documents' ids as they are.
    """
    if at.document is None:
        return ids_clause(ids)
    found = at.fields.types[at.document]
    if found.kind != "string" or not found.whole or found.folded:
        raise FilterError(where, f"{at.document} of the index {at.fields.index} does not hold ids as they are")
    longest = found.longest
    if longest is not None and any(_units(value) > longest for value in ids):
        raise FilterError(where, f"{found.whole} of {at.fields.index} holds ids of up to {longest} characters")
    named = [value for value in ids if value != NO_DOCUMENT]
    unnamed = any_of([negated({"exists": {"field": at.document}}), _terms(found.whole, [NO_DOCUMENT])])
    return any_of([*([_terms(found.whole, named)] if named else []), all_of([unnamed, ids_clause(ids)])])


def ids_clause(ids: Iterable[str]) -> Clause:
    """Return the clause for given hits."""
    values = sorted(set(ids))
    return {"ids": {"values": values}} if values else NONE


def _is_like(value: Any, found: FieldType) -> bool:
    """Return whether a value is of the kind that the field holds: others never equal any of it."""
    if isinstance(value, bool):
        return found.kind == "boolean"
    if isinstance(value, str):
        return found.kind in ("string", "date")
    return found.kind == "number"


def _terms(field: str, values: Iterable[Any]) -> Clause:
    distinct = sorted(set(values), key=str)
    return {"term": {field: distinct[0]}} if len(distinct) == 1 else {"terms": {field: distinct}}


def _units(text: str) -> int:
    """Return the length of a string as servers count it: in units of UTF-16."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2

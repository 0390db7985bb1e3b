"""Filters on metadata: one grammar that every route obeys, as pure functions over plain values.

A filter is a mapping; all of its items must hold:

- `{"field": value}`: the field equals the value;
- `{"field": {operator: operand, …}}`: every operator holds: `$eq $ne $in $nin $gt $gte $lt $lte $exists $contains`;
- `{"$and": [filter, …]}`, `{"$or": [filter, …]}`, `{"$not": filter}`.

Values are strings, numbers and truth values; 1 equals 1.0, but True is no number. A field that holds
several values (`path`) fulfils `$eq`, `$in` and the comparisons when one of them does; `$ne` and `$nin` are the
exact opposites of `$eq` and `$in`, so they hold for a missing field. Comparisons of a number with a string
never hold. `$contains` looks for a part of a string, or for one of several values. Besides the metadata
of document and chunk, the fields in `RESERVED` are always there and come before metadata of the same name.
Field names are only ever looked up in a mapping: nothing of a filter becomes part of a query language.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import isnan
from typing import Any, TypeAlias

from catena.errors import FilterError
from catena.model import Chunk, Where
from catena.nearest import meant

RESERVED = ("document_id", "chunk_id", "title", "source", "kind", "path", "page", "last_page")

Test: TypeAlias = Callable[[Mapping[str, Any]], bool]

_MISSING = object()
_SHOWN = 12  # fields in a message
_DEEPEST = 50  # nested filters; more is a mistake or an attack


def matches(where: Where, fields: Mapping[str, Any]) -> bool:
    """Return whether the fields of one chunk fulfil the filter.

    Raises:
        FilterError: the filter is malformed.
    """
    return compiled(where)(fields)


def check(where: Where) -> None:
    """Raise `FilterError` when the filter is malformed, whatever the data."""
    compiled(where)


def check_fields(where: Where, known: Collection[str]) -> None:
    """Raise where a filter holds for nothing, because it asks for a field that nothing has.

    Nothing is refused that could be found: `$ne`, `$nin`, `$exists: false` and `$not` may speak of any field, and of
    the branches of an `$or` one with known fields is enough.

    Args:
        where: a filter.
        known: the fields of all that is searched; those of `RESERVED` are known anyway.

    Raises:
        FilterError: the filter is malformed, or asks for a field that is nowhere; the message says the nearest.
    """
    check(where)
    fields = sorted({*known, *RESERVED})
    missing = _nowhere(where, fields)
    if missing:
        more = ", …" if len(fields) > _SHOWN else ""
        hint = meant(missing[0], fields) or f"; known: {', '.join(fields[:_SHOWN])}{more}"
        raise FilterError(where, f"no chunk and no document here has the field {missing[0]!r}{hint}")


def fields_of(chunk: Chunk) -> dict[str, Any]:
    """Return what filters see of a chunk that stands alone; its title and source are those in its metadata."""
    pages = {} if chunk.pages is None else {"page": chunk.pages[0], "last_page": chunk.pages[1]}
    reserved = {"document_id": chunk.document_id, "chunk_id": chunk.id, "kind": chunk.kind, "path": chunk.path}
    return {**chunk.metadata, **reserved, **pages}


def compiled(where: Where) -> Test:
    """Return the filter as a function of a chunk's fields, for use on many chunks.

    Raises:
        FilterError: unknown operator, or an operand of the wrong type.
    """
    return _compile(where, where, 0)


def _nowhere(where: Where, known: Collection[str]) -> list[str]:
    """Return the fields for lack of which a well-formed filter holds for nothing."""
    found: list[str] = []
    for key, value in where.items():
        if key == "$and":
            found += (name for part in value for name in _nowhere(part, known))
        elif key == "$or":
            parts = [_nowhere(part, known) for part in value]
            found += (name for part in parts for name in part) if all(parts) else ()
        elif key != "$not" and key not in known and _needs_field(value):
            found.append(key)
    return found


def _needs_field(condition: object) -> bool:
    """Return whether a condition never holds for a field that is missing."""
    if not isinstance(condition, Mapping):
        return True
    return not all(_OPERATORS[name][0](_MISSING, operand) for name, operand in condition.items())


def _compile(where: object, whole: Where, depth: int) -> Test:
    if not isinstance(where, Mapping):
        raise FilterError(whole, f"a filter is a mapping, not {where!r}")
    if depth > _DEEPEST:
        raise FilterError("…", f"nested more than {_DEEPEST} deep")
    tests = [_item(key, value, whole, depth) for key, value in where.items()]
    return tests[0] if len(tests) == 1 else lambda fields: all(test(fields) for test in tests)


def _item(key: object, value: object, whole: Where, depth: int) -> Test:
    if not isinstance(key, str):
        raise FilterError(whole, f"a field name is a string, not {key!r}")
    if key in ("$and", "$or"):
        if not isinstance(value, Sequence) or isinstance(value, (str, bytes)) or not value:
            raise FilterError(whole, f"{key} takes a list of at least one filter, not {value!r}")
        tests = [_compile(part, whole, depth + 1) for part in value]
        together = all if key == "$and" else any
        return lambda fields: together(test(fields) for test in tests)
    if key == "$not":
        inner = _compile(value, whole, depth + 1)
        return lambda fields: not inner(fields)
    if key.startswith("$"):
        known = meant(key, ("$and", "$or", "$not"))
        raise FilterError(whole, f"unknown operator {key!r}; known here: $and, $or, $not{known}")
    operations = value if isinstance(value, Mapping) else {"$eq": value}
    if not operations:
        raise FilterError(whole, f"field {key!r} has no condition")
    tests = [_field(key, name, operand, whole) for name, operand in operations.items()]
    return tests[0] if len(tests) == 1 else lambda fields: all(test(fields) for test in tests)


def _field(key: str, name: object, operand: object, whole: Where) -> Test:
    if name not in _OPERATORS:
        known = ", ".join(_OPERATORS) + meant(name, _OPERATORS)
        raise FilterError(whole, f"unknown operator {name!r} for field {key!r}; known: {known}")
    operator, valid, allowed = _OPERATORS[str(name)]
    if not valid(operand):
        raise FilterError(whole, f"{name} of field {key!r} takes {allowed}, not {operand!r}")
    return lambda fields: operator(fields.get(key, _MISSING), operand)


def _is_scalar(value: object) -> bool:
    return isinstance(value, (str, int, float, bool)) and not (isinstance(value, float) and isnan(value))


def _is_scalars(value: object) -> bool:
    return isinstance(value, (list, tuple, set, frozenset)) and all(map(_is_scalar, value))


def _is_comparable(value: object) -> bool:
    return _is_scalar(value) and not isinstance(value, bool)


def _several(value: Any) -> Sequence[Any]:
    """Return the values of a field: none, one or several."""
    if value is _MISSING:
        return ()
    return value if isinstance(value, (list, tuple)) else (value,)


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _eq(value: Any, operand: Any) -> bool:
    return any(_same(one, operand) for one in _several(value))


def _in(value: Any, operand: Any) -> bool:
    return any(_eq(value, one) for one in operand)


def _contains(value: Any, operand: Any) -> bool:
    if isinstance(value, str):
        return isinstance(operand, str) and operand in value
    return isinstance(value, (list, tuple)) and _eq(value, operand)


def _compares(holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(value: Any, operand: Any) -> bool:
        return any(
            isinstance(one, str) == isinstance(operand, str) and _is_comparable(one) and holds(one, operand)
            for one in _several(value)
        )

    return compare


_SCALAR, _SCALARS = "a string, number or truth value", "a list of strings, numbers or truth values"

# operator -> (what it does, whether an operand is valid, the valid operands in words)
_OPERATORS: dict[str, tuple[Callable[[Any, Any], bool], Callable[[object], bool], str]] = {
    "$eq": (_eq, _is_scalar, _SCALAR),
    "$ne": (lambda value, operand: not _eq(value, operand), _is_scalar, _SCALAR),
    "$in": (_in, _is_scalars, _SCALARS),
    "$nin": (
        lambda value, operand: not _in(value, operand),
        _is_scalars,
        "a list of strings, numbers or truth values",
    ),
    "$gt": (_compares(lambda one, other: one > other), _is_comparable, "a string or a number"),
    "$gte": (_compares(lambda one, other: one >= other), _is_comparable, "a string or a number"),
    "$lt": (_compares(lambda one, other: one < other), _is_comparable, "a string or a number"),
    "$lte": (_compares(lambda one, other: one <= other), _is_comparable, "a string or a number"),
    "$exists": (
        lambda value, operand: (value is not _MISSING) == operand,
        lambda value: isinstance(value, bool),
        "true or false",
    ),
    "$contains": (_contains, _is_scalar, _SCALAR),
}

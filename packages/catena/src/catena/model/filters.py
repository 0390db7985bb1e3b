"""Filters on metadata: one grammar that every route obeys, as pure functions over plain values.

A filter is a mapping; all of its items must hold:

- `{"field": value}`: the field equals the value;
- `{"field": {operator: operand, …}}`: every operator holds: `$eq $ne $in $nin $gt $gte $lt $lte $exists $contains`;
- `{"$and": [filter, …]}`, `{"$or": [filter, …]}`, `{"$not": filter}`.

Values are strings, numbers and truth values; what metadata keep as one of these (dates, paths, NumPy's numbers: see
`catena.model.plain_metadata`) is compared as it is kept. 1 equals 1.0, but True is no number. A field that holds
several values (`path`) fulfils `$eq`, `$in` and the comparisons when one of them does; `$ne` and `$nin` are the
exact opposites of `$eq` and `$in`, so they hold for a missing field. Comparisons of a number with a string
never hold. `$contains` looks for a part of a string, or for one of several values. Besides the metadata
of document and chunk, the fields in `RESERVED` are always there and come before metadata of the same name.
Strings are compared exactly here; a question's filter is first written as its library's values are, see `spelled`.
Field names are only ever looked up in a mapping: nothing of a filter becomes part of a query language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from math import isnan
from typing import Any, TypeAlias

from catena.model import PATH_SEPARATOR, Chunk, Where, plain_value
from catena.model.errors import FilterError, ParameterError
from catena.model.near_names import meant, some_of

RESERVED = ("document_id", "chunk_id", "title", "source", "kind", "path", "page", "last_page", "page_label")

EXACT = ("document_id", "chunk_id", "source", "page_label")
"""Fields whose values may differ by their case alone."""

MOST_VALUES = 5_000  # different ones of a field that are told; those of a field with more are compared exactly

ALIASES = {"first_page": "page", "heading_path": "path", "header_path": "path", "headings": "path"}
"""What hits call a field in the frameworks' metadata -> the field."""

_ONLY_SHOWN = frozenset(
    ("first_line", "last_line", "last_page_label", "position", "section", "start_index", "end_index", "citation",
     "text", "score", "relevance_score")
)  # fmt: skip
_SPELLED = frozenset(("$eq", "$ne", "$in", "$nin", "$contains"))
_ORDERED = frozenset(("$gt", "$gte", "$lt", "$lte"))
COMPARING = _SPELLED | _ORDERED
_CALLED = {
    **dict.fromkeys(("file", "filename", "file_name", "file_path"), "source"),
    **dict.fromkeys(("id", "doc", "doc_id", "document"), "document_id"),
}  # what people call a field that is nowhere -> the field that they mean

Test: TypeAlias = Callable[[Mapping[str, Any]], bool]

# of a path as LlamaIndex's "/A/B/", where "/" and "\" in a heading stand behind "\"
_TOKEN = re.compile(r"\\.|/|[^\\/]++", re.DOTALL)
_MISSING = object()
_SHOWN = 12  # fields in a message
DEEPEST = 50  # nested filters; more is a mistake or an attack


def matches(where: Where, fields: Mapping[str, Any]) -> bool:
    """Return whether the fields of one chunk fulfil the filter.

    Raises:
        FilterError: the filter is malformed.
    """
    return compiled(where)(fields)


def check(where: Where) -> None:
    """Raise `FilterError` when the filter is malformed, whatever the data."""
    compiled(where)


def checked(where: Where | None, known: Collection[str]) -> Where | None:
    """Return a filter by the names that the library has for fields, after looking whether it can find anything.

    Nothing is refused that could be found: `$ne`, `$nin`, `$exists: false` and `$not` may speak of any field, and of
    the branches of an `$or` one with known fields is enough.

    Args:
        where: a filter; an alias in it, such as "first_page", becomes the field, unless something has a field of that
            name. The aliases of "path" take a whole path, too, as hits show it.
        known: the fields of all that is searched; those of `RESERVED` are known anyway. Where none are given it is
            not known which there are: the filter is only checked for its form.

    Raises:
        FilterError: the filter is malformed, or asks for a field that is nowhere; the message says the nearest.
    """
    if where is None:
        return None
    check(where)
    where = _mapped(where, _plain_item)
    if not known:
        return where
    aliases = {alias: name for alias, name in ALIASES.items() if alias not in known}
    where = _mapped(where, partial(_renamed_item, aliases))
    fields = [*RESERVED, *sorted(set(known) - set(RESERVED))]
    missing = _nowhere(where, lambda key, condition: key not in fields and _needs_field(condition))
    if missing:
        name = missing[0][0]
        hint = _hint(name, fields, aliases)
        raise FilterError(where, f"no chunk and no document here has the field {name!r}{hint}")
    return where


def compared_in(where: Where, operators: Collection[str] = _SPELLED) -> tuple[str, ...]:
    """Return the fields that a well-formed filter compares by one of these operators, each once, in their order."""
    found: list[str] = []
    for key, value in where.items():
        if key in ("$and", "$or"):
            found += (name for part in value for name in compared_in(part, operators))
        else:
            wants = any(name in operators for name in _operations(value))
            found += compared_in(value, operators) if key == "$not" else [key] * wants
    return tuple(dict.fromkeys(found))


def spelled(
    where: Where, values: Mapping[str, Sequence[Any]], equal_to: Callable[[str, str], Callable[[str], bool]]
) -> Where:
    """Return a filter with the values that a library has in place of what is typed for them, for `$eq $ne $in $nin`.

    What nothing there is equal to stays as it is. `$contains` is written as the values that have such a part, be
    they one of several. A number is equal to its digits where a field has the one and not the other.

    Args:
        where: a well-formed filter.
        values: of each field all that there are; others are left alone, as are those of `EXACT`.
        equal_to: from a field and what is typed to a test of its values.
    """

    def item(key: str, condition: Any) -> Where:
        if key in EXACT or not (known := values.get(key)):
            return {key: condition}
        parts = [_spelled(key, *operation, known, equal_to) for operation in _operations(condition).items()]
        return parts[0] if len(parts) == 1 else {"$and": parts}

    return _mapped(where, item)


def nowhere_in_filter(where: Where, values: Mapping[str, Sequence[Any]]) -> str:
    """Return which value of a well-formed filter stands nowhere, so that it holds for nothing, and which there are.

    Which there are is not said where another condition may hide them.

    Args:
        where: a filter, as `spelled` returns it.
        values: of each field all that there are; others are not known. "" where all stand somewhere.
    """

    def lacks(key: str, condition: Any) -> bool:
        known = values.get(key, ())
        tests = [partial(_in, keys=_keyed(wanted)) for wanted in _wanted(condition)]
        tests += [partial(_contains, operand=part) for part in _parts(condition)]
        return bool(known) and any(not any(map(test, known)) for test in tests)

    def unlike(key: str, condition: Any) -> list[Any]:
        """Return what the condition orders the field by that is a text where its values are numbers, or else."""
        ordered = [operand for name, operand in _operations(condition).items() if name in _ORDERED]
        kinds = {isinstance(each, str) for each in values.get(key, ())}
        return [operand for operand in ordered if kinds and isinstance(operand, str) not in kinds]

    for key, condition in _nowhere(where, lambda *item: bool(unlike(*item))):
        kind = "text" if isinstance(values[key][0], str) else "number"
        return f"{key} is a {kind} here, as {values[key][0]!r}, and is compared with {unlike(key, condition)[0]!r}"
    for key, condition in _nowhere(where, lacks):
        wanted = [*(one for several in _wanted(condition) for one in several), *_parts(condition)]
        told = f"nothing here has the {key} {' or '.join(map(repr, wanted[:_SHOWN]))}"
        if list(where) != [key]:
            return told
        known = values[key]
        there = some_of([*map(repr, known)], _SHOWN)
        return f"{told}; there are {there}{meant(wanted, map(str, known))}"
    return ""


def _operations(condition: Any) -> Mapping[str, Any]:
    return condition if isinstance(condition, Mapping) else {"$eq": condition}


def _wanted(condition: Any) -> list[list[Any]]:
    """Return the values of which a field has to have one, for each operator that asks for some."""
    told = {name: operand for name, operand in _operations(condition).items() if name in ("$eq", "$in")}
    return [list(operand) if name == "$in" else [operand] for name, operand in told.items()]


def _parts(condition: Any) -> list[str]:
    """Return the text of which a field has to have a part."""
    return [part for name, part in _operations(condition).items() if name == "$contains" and isinstance(part, str)]


def _spelled(
    key: str, name: str, operand: Any, known: Sequence[Any], equal_to: Callable[[str, str], Callable[[str], bool]]
) -> Where:
    """Return one condition on a field with the values in it as `known` has them."""
    if name == "$contains":
        typed = re.compile(re.escape(str(operand)), re.IGNORECASE)
        found = [value for value in known if isinstance(value, str) and typed.search(value)]
        return {key: {"$in": found} if found else {name: operand}}  # a part of any of several values, too
    if name not in _SPELLED:
        return {key: {name: operand}}

    def alike(one: Any) -> list[Any]:
        if isinstance(one, bool):
            return [one]
        test = equal_to(key, str(one))
        found = [each for each in known if not isinstance(each, bool) and (each == one or test(str(each)))]
        return [each for each in found if isinstance(each, str) == isinstance(one, str)] or found or [one]

    several = [each for one in (operand if name.endswith("in") else [operand]) for each in alike(one)]
    return {key: {"$in" if name in ("$eq", "$in") else "$nin": several}}


def _hint(name: str, fields: Sequence[str], aliases: Collection[str]) -> str:
    """Return what to say of a field that is nowhere: which one is meant, or which there are."""
    if name in _ONLY_SHOWN:
        return ": hits show it, filters do not know it"
    if name in _CALLED:
        return f". Did you mean {_CALLED[name]!r}?"
    return meant(name, [*fields, *aliases]) or f"; known: {some_of(fields, _SHOWN)}"


def _plain_item(key: str, value: Any) -> Where:
    """Return the condition on a field with operands as they are kept."""
    is_operations = isinstance(value, Mapping)
    return {key: {name: _operand(operand) for name, operand in value.items()} if is_operations else _operand(value)}


def _mapped(where: Where, item: Callable[[str, Any], Where]) -> Where:
    """Return a filter with each condition on a field as `item` gives it, at any depth."""
    parts: list[Where] = []
    for key, value in where.items():
        if key in ("$and", "$or"):
            parts.append({key: [_mapped(part, item) for part in value]})
        else:
            parts.append({key: _mapped(value, item)} if key == "$not" else item(key, value))
    whole = {key: value for part in parts for key, value in part.items()}
    return whole if len(whole) == len(parts) else {"$and": parts}


def _operand(operand: Any) -> Any:
    """Return an operand as metadata keep it; one that they do not keep stays as it is."""
    if isinstance(operand, (list, tuple, set, frozenset)):
        return [_operand(each) for each in operand]
    try:
        return plain_value(operand, "operand")
    except ParameterError:
        return operand


def surely(where: Where, fields: Mapping[str, Any], *, holds: bool) -> bool:
    """Return whether a well-formed filter surely holds, or surely fails, where only some fields are known.

    Args:
        where: a filter.
        fields: what is known; any other field may have any value.
        holds: whether it is to hold, or to fail.
    """
    told = (_surely(key, value, fields, holds) for key, value in where.items())
    return all(told) if holds else any(told)


def fields_of(chunk: Chunk) -> dict[str, Any]:
    """Return what filters see of a chunk that stands alone; its title and source are those in its metadata."""
    reserved = {"document_id": chunk.document_id, "chunk_id": chunk.id, "kind": chunk.kind, "path": chunk.path}
    return {**chunk.metadata, **reserved, **page_fields(chunk.pages, chunk.page_labels)}


def page_fields(pages: Sequence[int] | None, labels: Sequence[str] | None = None) -> dict[str, int | str]:
    """Return what filters see of the pages of a chunk: the first and the last, and what is printed on the first."""
    if not pages:
        return {}
    return {"page": pages[0], "last_page": pages[1], "page_label": labels[0] if labels else str(pages[0])}


def compiled(where: Where) -> Test:
    """Return the filter as a function of a chunk's fields, for use on many chunks.

    Raises:
        FilterError: unknown operator, or an operand of the wrong type.
    """
    return _compile(where, where, 0)


def _surely(key: str, value: Any, fields: Mapping[str, Any], holds: bool) -> bool:
    if key == "$not":
        return surely(value, fields, holds=not holds)
    if key in ("$and", "$or"):
        told = (surely(part, fields, holds=holds) for part in value)
        return all(told) if (key == "$and") == holds else any(told)
    return key in fields and matches({key: value}, fields) == holds


def _under(value: Any) -> Where:
    """Return a filter on the headings of a path that may be written as hits show it: "A › B" or "/A/B/"."""
    is_operation = isinstance(value, Mapping) and len(value) == 1
    operator, operand = next(iter(value.items())) if is_operation else ("$eq", value)
    if operator in ("$ne", "$nin"):
        return {"$not": _under({"$eq" if operator == "$ne" else "$in": operand})}
    if operator == "$in" and isinstance(operand, Sequence):
        return {"$or": [_under(each) for each in operand]}
    if operator != "$eq" or not isinstance(operand, str):
        return {"path": value}
    first, *rest = _steps(operand) or operand.split(PATH_SEPARATOR)
    if not rest:
        return {"path": first}
    # a path that is shown may begin with the title of the document
    return {"$and": [{"$or": [{"path": first}, {"title": first}]}, *({"path": heading} for heading in rest)]}


def _steps(written: str) -> list[str]:
    """Return the headings of a path that is written as "/A/B/"; nothing of another text."""
    steps = [""]
    for token in _TOKEN.findall(written):
        if token == "/":
            steps.append("")
        else:
            steps[-1] += token[1:] if token.startswith("\\") else token
    before, *within, after = (*steps, "") if len(steps) < 2 else steps
    return within if not before and not after and all(within) else []


def _renamed_item(names: Mapping[str, str], key: str, value: Any) -> Where:
    """Return the condition on a field under the name that it has here."""
    return _under(value) if names.get(key) == "path" else {names.get(key, key): value}


def _nowhere(where: Where, lacks: Callable[[str, Any], bool]) -> list[tuple[str, Any]]:
    """Return fields and conditions for lack of which a well-formed filter holds for nothing."""
    found: list[tuple[str, Any]] = []
    for key, value in where.items():
        if key == "$and":
            found += (each for part in value for each in _nowhere(part, lacks))
        elif key == "$or":
            parts = [_nowhere(part, lacks) for part in value]
            found += (each for part in parts for each in part) if all(parts) else ()
        elif key != "$not" and lacks(key, value):
            found.append((key, value))
    return found


def _needs_field(condition: object) -> bool:
    """Return whether a condition never holds for a field that is missing."""
    if not isinstance(condition, Mapping):
        return True
    return not all(_OPERATORS[name][0](_MISSING, operand) for name, operand in condition.items())


def _compile(where: object, whole: Where, depth: int) -> Test:
    if not isinstance(where, Mapping):
        raise FilterError(whole, f"a filter is a mapping, not {where!r}")
    if depth > DEEPEST:
        raise FilterError("…", f"nested more than {DEEPEST} deep")
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
    operations = _operations(value)
    if not operations:
        raise FilterError(whole, f"field {key!r} has no condition")
    tests = [_field(key, name, operand, whole) for name, operand in operations.items()]
    return tests[0] if len(tests) == 1 else lambda fields: all(test(fields) for test in tests)


def _field(key: str, name: object, operand: object, whole: Where) -> Test:
    if name not in _OPERATORS:
        known = ", ".join(_OPERATORS) + meant(name, _OPERATORS)
        raise FilterError(whole, f"unknown operator {name!r} for field {key!r}; known: {known}")
    operator, valid, allowed = _OPERATORS[str(name)]
    operand = _operand(operand)
    if not valid(operand):
        raise FilterError(whole, f"{name} of field {key!r} takes {allowed}, not {operand!r}")
    if isinstance(operand, list):
        operand = _keyed(operand)
    return lambda fields: operator(fields.get(key, _MISSING), operand)


def _is_scalar(value: object) -> bool:
    return isinstance(value, (str, int, float, bool)) and not (isinstance(value, float) and isnan(value))


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_scalars(value: object) -> bool:
    return isinstance(value, (list, tuple, set, frozenset)) and all(map(_is_scalar, value))


def _is_comparable(value: object) -> bool:
    return _is_scalar(value) and not isinstance(value, bool)


def distinct(held: Iterable[Any]) -> tuple[Any, ...]:
    """Return the values that fields hold, one or several each, every one once, sorted as text."""
    found = {(isinstance(one, bool), one): one for value in held for one in _several(value) if _is_scalar(one)}
    return tuple(sorted(found.values(), key=lambda one: (str(one), isinstance(one, str))))


def _several(value: Any) -> Sequence[Any]:
    """Return the values of a field: none, one or several."""
    if value is _MISSING:
        return ()
    return value if isinstance(value, (list, tuple)) else (value,)


def _eq(value: Any, operand: Any) -> bool:
    return any(bool(one == operand) and isinstance(one, bool) == isinstance(operand, bool) for one in _several(value))


def _keyed(values: Iterable[Any]) -> frozenset[tuple[bool, Any]]:
    """Return scalars as `_in` looks them up: True is not 1."""
    return frozenset((isinstance(one, bool), one) for one in values)


def _in(value: Any, keys: Any) -> bool:
    return any(_is_scalar(one) and (isinstance(one, bool), one) in keys for one in _several(value))


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
    "$nin": (lambda value, operand: not _in(value, operand), _is_scalars, _SCALARS),
    "$gt": (_compares(lambda one, other: one > other), _is_comparable, "a string or a number"),
    "$gte": (_compares(lambda one, other: one >= other), _is_comparable, "a string or a number"),
    "$lt": (_compares(lambda one, other: one < other), _is_comparable, "a string or a number"),
    "$lte": (_compares(lambda one, other: one <= other), _is_comparable, "a string or a number"),
    "$exists": (lambda value, operand: (value is not _MISSING) == operand, _is_bool, "true or false"),
    "$contains": (_contains, _is_scalar, _SCALAR),
}

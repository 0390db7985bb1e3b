"""Write the filter fields of a chunk, and a filter as a clause of the server's query language.

Of each field that filters see of a chunk, `facets` holds the values by what they are, so that the server compares
like with like, as `catena.model.filters` does, and exactly:

    has          the keys of all fields, whatever their values
    many         the keys of the fields that hold several values, of which `$contains` looks for whole ones
    s.KEY        strings of up to `LONGEST` characters
    long.KEY     longer strings, which a server does not index: their beginning, and a hash of the whole
    parts.KEY    the same in parts that overlap, for `$contains`
    n.KEY        numbers that a double holds exactly
    i.KEY        other numbers (large integers, the infinities), as strings that are ordered as they are
    b.KEY        truth values

A string is indexed as valid Unicode: lone surrogates, which servers replace, are written in characters that are never
assigned, in a way that keeps what is equal, what is ordered and what is part of what.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import ceil, floor, isinf, isnan
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from catena import Chunk, Document
from catena.model import FilterError, Where, check, digest, page_fields
from catena_server.index_layout import FACETS, safe_key

Clause: TypeAlias = dict[str, Any]

ALL: Final[Clause] = {"match_all": {}}
NONE: Final[Clause] = {"match_none": {}}


LONGEST = 4_000  # characters of an indexed string: at most twice as many UTF-16 units, of which `mapping` takes 8,191
CONTAINED = 256  # characters that `$contains` may look for: a server refuses to look for long repetitive strings
DEEPEST = 12  # clauses inside each other; servers take 20 or 30, and the filter stands inside a query
_MOST_TERMS = 65_536  # in one clause, the default of servers
_LONGEST_KEY = 500  # characters of a field name
_LARGEST = float.fromhex("0x1.fffffffffffffp+1023")
_OUTSIDE = re.compile("[\ud7fc-\udfff]")  # surrogates, and the four characters of which their replacements are made
_WILDCARDS = re.compile(r"[*?\\]")


def fields_seen(document: Document, chunk: Chunk) -> dict[str, Any]:
    """Return what filters see of a chunk and its document; reserved fields come before metadata of their names."""
    return {
        **document.metadata,
        **chunk.metadata,
        "document_id": document.id,
        "chunk_id": chunk.id,
        "title": document.title,
        "source": document.source,
        "kind": chunk.kind,
        "path": chunk.path,
        **page_fields(chunk.pages, chunk.page_labels),
    }


def facet_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is indexed under `facets` of the fields that filters see of a chunk.

    Args:
        fields: key -> string, number, truth value, or a list of them; of any other value only that it is there.
    """
    groups: dict[str, dict[str, dict[Any, None]]] = {}  # values in order, each once
    for key, value in fields.items():
        for one in value if isinstance(value, (list, tuple)) else (value,):
            for group, indexed in _indexed(one):
                groups.setdefault(group, {}).setdefault(_key(key), {})[indexed] = None
    several = [_key(key) for key, value in fields.items() if isinstance(value, (list, tuple))]
    return {
        "has": sorted(map(_key, fields)),
        **({"many": sorted(several)} if several else {}),
        **{
            group: {
                key: next(iter(values)) if len(values) == 1 else list(values)
                for key, values in sorted(groups[group].items())
            }
            for group in FACETS
            if group in groups
        },
    }


def filter_query(where: Where) -> Clause:
    """Return a filter as a clause for the filter context: it holds where `catena.model.filters` lets a chunk pass.

    Raises:
        FilterError: the filter is malformed, or one of its operators asks for more than a server can do.
    """
    check(where)
    try:
        clause = written(where, lambda key, name, operand: _OPERATORS[name](_key(key), operand))
    except _Refused as refused:
        raise FilterError(where, str(refused)) from None
    if (depth := _depth(clause)) > DEEPEST:
        raise FilterError(where, f"$and, $or and $not nested {depth} deep; a server takes {DEEPEST}")
    return clause


def field_of(key: str) -> str | None:
    """Return the field of a key of `facets.has`; None where its name was so long that a digest stands for it."""
    if key.startswith("%%"):
        return None
    return "" if key == "%" else unquote(key, errors="surrogatepass")


def facets_of(name: str) -> dict[str, str]:
    """Return by group the facets in which a field's values stand, whole or not."""
    return {group: f"facets.{group}.{_key(name)}" for group in FACETS if group != "parts"}


def facet_value(group: str, indexed: Any) -> Any:
    """Return the value that a facet holds; None where it does not hold the whole."""
    if group in ("long", "i") or (isinstance(indexed, str) and "\ud7ff" in indexed):
        return None
    if group == "b":
        return bool(indexed)
    return int(indexed) if group == "n" and float(indexed).is_integer() else indexed


class _Refused(Exception):
    """A filter asks for something that a server cannot do; the message says what."""


def _key(key: str) -> str:
    safe = safe_key(key)
    return safe if len(safe) <= _LONGEST_KEY else f"%%{digest(key, length=64)}"  # no safe key holds "%%"


def _indexed(value: object) -> Iterator[tuple[str, str | float | bool]]:
    """Yield the groups in which a value stands, and how it is written there."""
    if isinstance(value, bool):
        yield "b", value
    elif isinstance(value, str):
        text = _valid(value)
        if len(text) <= LONGEST:
            yield "s", text
        else:
            yield "long", text[: LONGEST - 64] + digest(text, length=64)
            step = LONGEST - CONTAINED
            yield from (("parts", text[at : at + LONGEST]) for at in range(0, len(text) - CONTAINED, step))
    elif isinstance(value, int) or (isinstance(value, float) and not isnan(value)):
        nearest = _nearest(value)
        yield ("n", nearest) if nearest == value and not isinf(nearest) else ("i", _ordered(value))


def _nearest(value: float) -> float:
    """Return the double that is nearest to a number, 0.0 for -0.0, which servers hold for less."""
    try:
        return float(value) + 0.0
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _ordered(number: float) -> str:
    """Return an integer or an infinity as a string: of two, the smaller number has the smaller string."""
    if isinstance(number, float) and isinf(number):
        return "4" if number > 0 else "0"
    digits = f"{abs(int(number)):x}"
    if number >= 0:
        return f"3{len(digits):08x}{digits}"
    complement = "".join(f"{15 - int(digit, 16):x}" for digit in digits)
    return f"1{0xFFFFFFFF - len(digits):08x}{complement}"


def _valid(text: str) -> str:
    r"""Return any string as valid Unicode, so that equality, order and containment stay.

    Surrogates stand between U+D7FF and U+E000, where there is nothing else: one is written as U+D7FF and seven digits
    to the base 3, U+D7FC to U+D7FE; so are these four characters themselves, which Unicode never assigned.
    """
    return _OUTSIDE.sub(lambda match: _written(ord(match.group()) - 0xD7FC), text)


def _written(number: int) -> str:
    return "\ud7ff" + "".join(chr(0xD7FC + number // 3**place % 3) for place in range(6, -1, -1))


def written(where: Where, operation: Callable[[str, str, Any], Clause]) -> Clause:
    """Return a filter as one clause; `operation(key, operator, operand)` writes what it says of a field."""

    def item(key: str, value: Any) -> Clause:
        if key in {"$and", "$or"}:
            return (all_of if key == "$and" else any_of)(written(part, operation) for part in value)
        if key == "$not":
            return negated(written(value, operation))
        operations = value if isinstance(value, Mapping) else {"$eq": value}
        return all_of(operation(key, name, operand) for name, operand in operations.items())

    return all_of(item(key, value) for key, value in where.items())


def _in(key: str, operands: Iterable[Any]) -> Clause:
    groups: dict[str, list[Any]] = {}
    for operand in operands:
        group, indexed = next(_indexed(operand))
        groups.setdefault(group, []).append(indexed)
    return any_of(
        terms_clause(f"facets.{group}.{key}", values[at : at + _MOST_TERMS])
        for group, values in sorted((group, sorted(set(values))) for group, values in groups.items())
        for at in range(0, len(values), _MOST_TERMS)
    )


def terms_clause(field: str, values: Sequence[Any]) -> Clause:
    """Return the clause for a field that holds one of these values."""
    return {"term": {field: values[0]}} if len(values) == 1 else {"terms": {field: values}}


def _compares(operator: str) -> Callable[[str, Any], Clause]:
    def compare(key: str, operand: Any) -> Clause:
        ranges = _text_ranges if isinstance(operand, str) else _number_ranges
        return any_of({"range": {f"facets.{group}.{key}": bounds}} for group, bounds in ranges(operator, operand))

    return compare


def _text_ranges(operator: str, operand: str) -> Iterator[tuple[str, Clause]]:
    text = _valid(operand)
    if len(text) > LONGEST - 64:
        raise _Refused(f"${operator} compares with at most {LONGEST - 64} characters on a server, not {len(text)}")
    return ((group, {operator: text}) for group in ("s", "long"))


def _number_ranges(operator: str, operand: float) -> Iterator[tuple[str, Clause]]:
    """Yield the bounds for numbers that are doubles and for those that are not."""
    up, nearest = operator.startswith("g"), _nearest(operand)
    if nearest == operand and not isinf(nearest):
        yield "n", {operator: nearest}
    elif isinf(nearest):
        if up == (nearest < 0):  # all doubles are on the asked side of it
            yield "n", {"gte": -_LARGEST} if up else {"lte": _LARGEST}
    else:  # between two doubles
        beyond = nearest > operand if up else nearest < operand
        yield "n", {operator[:2] + "e" * beyond: nearest}
    if isinstance(operand, int) or isinf(operand) or operand == floor(operand):
        yield "i", {operator: _ordered(operand)}
    else:
        yield "i", {operator[:2]: _ordered(floor(operand) if up else ceil(operand))}


def _contains(key: str, operand: Any) -> Clause:
    several: Clause = {"term": {"facets.many": key}}
    whole = all_of((several, _in(key, (operand,))))
    if not isinstance(operand, str):
        return whole
    text = _valid(operand)
    if len(text) > CONTAINED:
        raise _Refused(f"$contains looks for at most {CONTAINED} characters on a server, not {len(text)}")
    pattern = f"*{_WILDCARDS.sub(lambda match: chr(92) + match.group(), text)}*" if text else "*"
    parts = ({"wildcard": {f"facets.{group}.{key}": {"value": pattern}}} for group in ("s", "parts"))
    return any_of((*({"bool": {"filter": [part], "must_not": [several]}} for part in parts), whole))


def _exists(key: str, operand: bool) -> Clause:
    there: Clause = {"term": {"facets.has": key}}
    return there if operand else negated(there)


_OPERATORS: dict[str, Callable[[str, Any], Clause]] = {
    "$eq": lambda key, operand: _in(key, (operand,)),
    "$ne": lambda key, operand: negated(_in(key, (operand,))),
    "$in": _in,
    "$nin": lambda key, operands: negated(_in(key, operands)),
    "$gt": _compares("gt"),
    "$gte": _compares("gte"),
    "$lt": _compares("lt"),
    "$lte": _compares("lte"),
    "$exists": _exists,
    "$contains": _contains,
}


def all_of(clauses: Iterable[Clause]) -> Clause:
    """Return the clause for all of these: one level for clauses that are joined in the same way."""
    parts = [part for clause in clauses for part in _parts_of(clause, "filter") if part != ALL]
    return parts[0] if len(parts) == 1 else {"bool": {"filter": parts}} if parts else ALL


def any_of(clauses: Iterable[Clause]) -> Clause:
    """Return the clause for one or more of these."""
    parts = [part for clause in clauses for part in _parts_of(clause, "should")]
    if len(parts) <= 1:
        return parts[0] if parts else NONE
    return {"bool": {"should": parts, "minimum_should_match": 1}}


def negated(clause: Clause) -> Clause:
    """Return the clause for all that another one does not hold for."""
    inner = clause.get("bool", {})
    return inner["must_not"][0] if list(inner) == ["must_not"] else {"bool": {"must_not": [clause]}}


def _parts_of(clause: Clause, together: str) -> list[Clause]:
    """Return the parts of a clause that joins them in the same way, else the clause itself: fewer levels."""
    inner = clause.get("bool", {})
    others = {"minimum_should_match"} if together == "should" else set()
    return inner[together] if together in inner and set(inner) - others == {together} else [clause]


def _depth(clause: Clause) -> int:
    inner = [part for parts in clause.get("bool", {}).values() if isinstance(parts, list) for part in parts]
    return 1 + max(map(_depth, inner), default=0)

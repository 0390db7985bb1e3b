"""Find what a question names: documents of the library, and names that are none of its."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from catena.effects.steps import FindNames, NamesFound
from catena.model import Name, Unknown
from catena.store.records import chunks_of
from catena.store.vectors import Scored
from catena.text.names import (
    NameIndex,
    all_as_written,
    codes_in,
    is_measure,
    other_forms,
    pattern_of,
    says_something,
    unspaced,
)
from catena.text.tables import table_values
from catena.text.words import is_border, normalise_query, normalise_term

if TYPE_CHECKING:
    from numpy.typing import NDArray


_FEW = 1_000  # up to so many allowed chunks no others are read
_CARRIERS = "SELECT chunk, count(*) FROM terms WHERE term IN (SELECT value FROM json_each(?))"
_CARRIERS_AMONG = f"{_CARRIERS} AND chunk IN (SELECT value FROM json_each(?))"
# Passages in which a name is looked for among the values, besides one for each of its documents.
LOOKED_AT: Final = 200
LONGEST_NAME: Final = 300  # characters of a question that are looked up as one name
MOST_SPANS: Final = 60_000  # of a question that are looked up, the shortest: of 300 words all, of a pasted log enough


def vocabulary(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Return all critical terms, sorted."""
    return tuple(row[0] for row in connection.execute("SELECT DISTINCT term FROM terms ORDER BY term"))


def carriers(
    connection: sqlite3.Connection, terms: Sequence[str], allowed: NDArray[np.int64] | None = None
) -> Scored:
    """Return the chunks that carry any of the terms, and the sum of the weights of those that each carries.

    Args:
        connection: sees one state of the library.
        terms: normalised.
        allowed: keys of the chunks to look at, ascending; all when None.
    """
    if not terms or (allowed is not None and not len(allowed)):
        return Scored.nothing()
    select, values = _CARRIERS, [json.dumps(list(terms))]
    if allowed is not None and len(allowed) <= _FEW:
        select, values = _CARRIERS_AMONG, [*values, json.dumps(allowed.tolist())]
    rows = connection.execute(f"{select} GROUP BY chunk", values).fetchall()
    found = Scored(np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], np.float64))
    return found.among(allowed)


class DocumentNameSearch:
    """The names of one generation's documents."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        # of two paths the answer is JSON, which a title with lone surrogates survives: it is not valid as text
        rows = connection.execute("SELECT id, json_extract(header, '$.title', '$.id') FROM documents")
        self._index = NameIndex({document_id: json.loads(found)[0] for document_id, found in rows})
        terms = vocabulary(connection)
        self._terms = "\n".join(terms)
        self._unspaced = frozenset(map(unspaced, terms))
        self._properties: dict[str, bool] = {}

    def find(self, connection: sqlite3.Connection, request: FindNames) -> NamesFound:
        """Return the documents that a question names, and what looks like a name but is none."""
        return names_found(
            request,
            known=self._index.known_in(request.query),
            near=self._index.near_in(request.query),
            is_term=self._is_term,
            is_property=partial(self._is_property, connection),
        )

    def _is_term(self, name: str) -> bool:
        normal = normalise_term(name)
        return normal in self._terms or unspaced(normal) in self._unspaced

    def _is_property(self, connection: sqlite3.Connection, name: Name) -> bool:
        if name.text not in self._properties:
            self._properties[name.text] = _documents_with_value(connection, name) >= len(name.documents)
        return self._properties[name.text]


def _documents_with_value(connection: sqlite3.Connection, name: Name) -> int:
    """Return in how many documents, of those that carry a name and do not bear it, it is a value of a table."""
    rows = connection.execute(
        "SELECT DISTINCT chunk FROM terms JOIN chunks USING (chunk) JOIN documents USING (doc)"
        " WHERE term = ? AND json_extract(body, '$[3]') = 'table'"
        " AND documents.id NOT IN (SELECT value FROM json_each(?)) LIMIT ?",
        (name.text, json.dumps(name.documents), LOOKED_AT + len(name.documents)),
    )
    found = chunks_of(connection, [key for (key,) in rows]).values()
    return len({chunk.document_id for chunk in found if is_value_in(name.text, chunk.text)})


def names_found(
    request: FindNames,
    *,
    known: Iterable[Name],
    near: Iterable[Unknown],
    is_term: Callable[[str], bool],
    is_property: Callable[[Name], bool],
) -> NamesFound:
    """Return what a question names.

    Args:
        request: with the question.
        known: names of documents that the question says, in order.
        near: what it says that is such a name but for its digits, in order.
        is_term: whether a name is a critical term, or part of one: "F407VE" where there is an STM32F407VE.
        is_property: whether a name is a value in the tables of as many other documents as bear it, or of more:
            "ESP32" in the titles of some boards and in the tables of more of them tells no board from the others; a
            product that other manuals mention, or that labels a row of theirs, is still a product.
    """
    missing = [unknown for unknown in near if not is_term(unknown.text)]
    missed = [normalise_term(unknown.text) for unknown in missing]
    known = tuple(known)
    inside = _inside((name.text for name in known), missed)
    said = [name for name in known if name.text not in inside]
    others = _others(request, [*missed, *(name.text for name in said)], is_term)
    properties = tuple(name for name in said if is_property(name))
    return NamesFound(
        known=tuple(name for name in said if name not in properties),
        properties=properties,
        unknown=(*missing, *others),
    )


def _others(request: FindNames, covered: Iterable[str], is_term: Callable[[str], bool]) -> Iterator[Unknown]:
    """Yield what else looks like a name, and no form of which is a term or stands in what is covered."""
    forms = {name: other_forms(name) for name in names_besides(request)}
    stand = _inside(chain.from_iterable(forms.values()), covered)
    names = [name for name in forms if not any(form in stand or is_term(form) for form in forms[name])]
    yield from map(Unknown, all_as_written(request.query, names).values())


def _inside(forms: Iterable[str], covered: Iterable[str]) -> frozenset[str]:
    """Return those of the forms that stand anywhere inside one of the texts, in one pass over each text."""
    looked_for, texts = sorted(set(forms) - {""}), tuple(dict.fromkeys(covered))
    if not looked_for or not texts:
        return frozenset({""} if texts else ())
    from daachorse import CharwiseDoubleArrayAhoCorasick

    automaton = CharwiseDoubleArrayAhoCorasick(looked_for)
    return frozenset({"", *(looked_for[key] for text in texts for _, _, key in automaton.find_overlapping(text))})


def names_besides(request: FindNames) -> tuple[str, ...]:
    """Return the codes of a question, and the names that it is said to contain, normalised, each once."""
    codes = (code for code in map(normalise_term, codes_in(request.query)) if not is_measure(code))
    return tuple(filter(says_something, dict.fromkeys((*codes, *map(normalise_term, request.also)))))


def is_value_in(name: str, text: str) -> bool:
    """Return whether a normalised name is a value of a table in a text."""
    return name in map(normalise_term, table_values(text))


def possible_names(query: str) -> tuple[str, ...]:
    """Return every part of a question that may be the name of a document: normalised, from border to border."""
    return tuple(filter(says_something, _spans(normalise_query(query))))


def possible_patterns(query: str) -> tuple[str, ...]:
    """Return every part of a question that may be the pattern of a name, as `catena.text.patterns_of` gives it."""
    return tuple(filter(_is_masked, _spans(pattern_of(normalise_query(query)))))


def _is_masked(span: str) -> bool:
    return pattern_of(span) == span and any(map(str.isdigit, span))


def _spans(text: str) -> list[str]:
    """Return the parts of a text between borders that begin and end as a name does, each once, the shortest first."""
    borders = [place for place in range(len(text) + 1) if is_border(text, place)]
    starts = [place for place in borders[:-1] if normalise_term(text[place])]
    ends = [place for place in borders[1:] if normalise_term(text[place - 1])]
    found: dict[str, None] = {}
    first = 0
    for start in starts:
        while first < len(ends) and ends[first] <= start:
            first += 1
        for end in ends[first:]:
            if end - start > LONGEST_NAME:
                break
            found[text[start:end]] = None
    return sorted(found, key=len)[:MOST_SPANS]

"""What a question names, as far as a library knows: its documents, and names that are none of its."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator

from catena.effects import FindNames, NamesFound
from catena.indexing.keywords import vocabulary
from catena.indexing.records import chunks_of
from catena.model import Name, Unknown
from catena.names import NameIndex, as_written, codes_in, is_measure, other_forms, says_something, unspaced
from catena.table_cells import table_values
from catena.text import normalise_term

_LOOKED_AT = (
    200  # passages in which a name is looked for among the values, besides one for each document that bears it
)


class DocumentNames:
    """The names of one generation's documents."""

    def __init__(self, connection: sqlite3.Connection, generation: int) -> None:
        self.generation = generation
        titles = connection.execute("SELECT id, json_extract(header, '$.title') FROM documents")
        self._index = NameIndex(dict(titles.fetchall()))
        terms = vocabulary(connection)
        self._terms = "\n".join(terms)
        self._unspaced = frozenset(map(unspaced, terms))
        self._properties: dict[str, bool] = {}

    def find(self, connection: sqlite3.Connection, request: FindNames) -> NamesFound:
        """Return the documents that a question names, and what looks like a name but is none.

        What is part of a critical term is known: "F407VE" where there is an STM32F407VE.
        """
        near = [unknown for unknown in self._index.near_in(request.query) if not self._is_term(unknown.text)]
        missed = [normalise_term(unknown.text) for unknown in near]
        known = [name for name in self._index.known_in(request.query) if not any(name.text in one for one in missed)]
        covered = [*missed, *(name.text for name in known)]
        others = self._others(request, covered)
        properties = tuple(name for name in known if self._is_property(connection, name))
        return NamesFound(
            known=tuple(name for name in known if name not in properties),
            properties=properties,
            unknown=(*near, *others),
        )

    def _others(self, request: FindNames, covered: Iterable[str]) -> Iterator[Unknown]:
        """Yield the codes of the question, and the names that it is said to contain, that are no terms here."""
        codes = (code for code in map(normalise_term, codes_in(request.query)) if not is_measure(code))
        for name in dict.fromkeys((*codes, *map(normalise_term, request.also))):
            known = (self._is_term(form) or any(form in one for one in covered) for form in other_forms(name))
            if says_something(name) and not any(known):
                yield Unknown(as_written(request.query, name))

    def _is_term(self, name: str) -> bool:
        normal = normalise_term(name)
        return normal in self._terms or unspaced(normal) in self._unspaced

    def _is_property(self, connection: sqlite3.Connection, name: Name) -> bool:
        """Return whether a name is a value in the tables of as many other documents as bear it, or of more.

        "ESP32" in the titles of some boards and in the tables of more of them tells no board from the others; a
        product that other manuals mention, or that labels a row of theirs, is still a product.
        """
        if name.text not in self._properties:
            self._properties[name.text] = _documents_with_value(connection, name) >= len(name.documents)
        return self._properties[name.text]


def _documents_with_value(connection: sqlite3.Connection, name: Name) -> int:
    """Return in how many documents, of those that carry a name and do not bear it, it is a value of a table."""
    rows = connection.execute(
        "SELECT DISTINCT chunk FROM terms JOIN chunks USING (chunk) JOIN documents USING (doc)"
        " WHERE term = ? AND json_extract(body, '$[3]') = 'table'"
        " AND documents.id NOT IN (SELECT value FROM json_each(?)) LIMIT ?",
        (name.text, json.dumps(name.documents), _LOOKED_AT + len(name.documents)),
    )
    found = chunks_of(connection, [key for (key,) in rows]).values()
    return len({chunk.document_id for chunk in found if name.text in map(normalise_term, table_values(chunk.text))})

"""What a question names, as far as a library knows: its documents, and names that are none of its."""

from __future__ import annotations

import json
import sqlite3
from functools import partial

from catena.effects import FindNames, NamesFound
from catena.model import Name
from catena.store.keywords import vocabulary
from catena.store.question_names import LOOKED_AT, is_value_in, names_found
from catena.store.records import chunks_of
from catena.text.names import NameIndex, unspaced
from catena.text.words import normalise_term


class DocumentNames:
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

"""Find what a question names: documents of the library, and names that are none of its."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from catena.effects.steps import FindNames, NamesFound
from catena.model import Name, Unknown
from catena.store.records import chunks_of
from catena.store.vectors import Scored
from catena.text.headers import BEGINNING, HeaderNames, header_of, without_wider
from catena.text.names import (
    NameIndex,
    TermMatcher,
    all_as_written,
    as_written,
    codes_in,
    is_measure,
    names_by_case,
    other_forms,
    pattern_of,
    says_something,
    unspaced,
)
from catena.text.periods import is_period
from catena.text.tables import table_values
from catena.text.words import is_border, normalise_query, normalise_term

if TYPE_CHECKING:
    from numpy.typing import NDArray


_CARRYING = (
    "SELECT DISTINCT chunks.id, json_extract(body, '$[4]') FROM terms JOIN chunks USING (chunk)"
    " JOIN documents USING (doc) WHERE term = ? AND documents.id NOT IN (SELECT value FROM json_each(?)) ORDER BY 1"
)  # chunks with a term, and their headings
_FEW = 1_000  # up to so many allowed chunks no others are read
_CARRIERS = "SELECT chunk, count(*) FROM terms WHERE term IN (SELECT value FROM json_each(?))"
_CARRIERS_AMONG = f"{_CARRIERS} AND chunk IN (SELECT value FROM json_each(?))"
# Passages in which a name is looked for among the values, besides one for each of its documents.
LOOKED_AT: Final = 200
_ELSEWHERE = 10  # passages of those that bear a name for each passage that prints it elsewhere
_MOST_PARTS = 50  # of headers, that are looked for in one question
_PRINTED = 5  # passages elsewhere at most
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


Printed: TypeAlias = Callable[[str, int, Sequence[str], bool], Sequence[str]]
"""Return the texts of the best passages for some words: (words, how many, documents, whether of all others)."""


class DocumentNameSearch:
    """The names of one generation's documents."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        # of two paths the answer is JSON, which a title with lone surrogates survives: it is not valid as text
        rows = connection.execute(
            "SELECT id, json_extract(header, '$.title', '$.source'), substr(text, 1, ?) FROM documents ORDER BY id",
            (4 * BEGINNING,),
        )
        held = {name: (*json.loads(found), text.decode("utf-8", "replace")) for name, found, text in rows}
        self._index = NameIndex({document_id: title for document_id, (title, *_) in held.items()})
        self._headers = HeaderNames({document_id: header_of(*shown) for document_id, shown in held.items()})
        self._sure: dict[tuple[Name, bool], bool] = {}
        terms = vocabulary(connection)
        self._terms = "\n".join(terms)
        self._unspaced = frozenset(map(unspaced, terms))
        self._properties: dict[str, bool] = {}
        self._headings: dict[Name, tuple[str, ...]] = {}

    def find(self, connection: sqlite3.Connection, request: FindNames, printed: Printed) -> NamesFound:
        """Return the documents that a question names, and what looks like a name but is none."""
        found = names_found(
            request,
            known=self._index.known_in(request.query),
            near=self._index.near_in(request.query),
            is_term=self._is_term,
            is_property=partial(self._is_property, connection),
        )
        known = tuple(replace(name, headed=self._headed(connection, name)) for name in found.known)
        return replace(found, known=known, parts=tuple(self._parts(request, found, printed)))

    def _headed(self, connection: sqlite3.Connection, name: Name) -> tuple[str, ...]:
        """Return the ids of the chunks of documents without a name that stand under a heading with it."""
        if name not in self._headings:
            rows = connection.execute(_CARRYING, (name.text, json.dumps(name.documents)))
            matcher = TermMatcher([name.text])
            self._headings[name] = tuple(
                chunk_id for chunk_id, path in rows if matcher.all_in("\n".join(json.loads(path)))
            )
        return self._headings[name]

    def _parts(self, request: FindNames, found: NamesFound, printed: Printed) -> Iterator[Name]:
        """Yield the parts of headers that a question says and that tell, first where they are of its periods."""
        said = dict.fromkeys(name for text in (request.query, *request.also) for name in self._headers.names_in(text))
        missed = [normalise_term(unknown.text) for unknown in found.unknown if unknown.near]
        whole = (name.text for name in (*found.known, *found.properties))
        covered = _inside((name.text for name in said), [*missed, *whole])
        single = not found.known  # beside a whole name, one word in another's header tells little
        asked = (name for name in said if name.text not in covered and (single or " " in name.text))
        sure = [name for name in islice(asked, _MOST_PARTS) if self._is_sure(name, request.query, printed)]
        for name in without_wider(sure, found.known):
            if of_periods := self._headers.of_periods(name, request.query):
                yield Name(f"{name.text}, of that period", of_periods)
            yield name

    def _is_sure(self, name: Name, query: str, printed: Printed) -> bool:
        """Return whether there are ten passages of its documents that print a name for each one of others.

        Where the question writes a word with a capital inside a sentence, and no word beside it, only what is printed
        so counts: "Block".
        """
        cased, written = names_by_case(query), as_written(query, name.text)
        beside = any(f"{one} {written}" in query or f"{written} {one}" in query for one in cased)
        is_cased = written in cased and not beside
        if (name, is_cased) not in self._sure:
            matcher = TermMatcher([name.text])

            def passages(k: int, of_others: bool) -> int:
                texts = [text for text in printed(name.text, k, name.documents, of_others) if matcher.all_in(text)]
                return sum(not (is_cased and as_written(text, name.text).islower()) for text in texts)

            elsewhere = passages(_PRINTED + 1, True)
            finds = elsewhere or printed(name.text, 1, name.documents, False)  # some words find nothing
            self._sure[name, is_cased] = bool(finds) and (
                _ELSEWHERE * elsewhere <= passages(_ELSEWHERE * min(elsewhere, _PRINTED), False)
            )
        return self._sure[name, is_cased]

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
    also = (name for name in map(normalise_term, request.also) if not is_period(name))
    return tuple(filter(says_something, dict.fromkeys((*codes, *also))))


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

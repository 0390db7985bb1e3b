"""Find contradictions of passages: different values of one labelled field, between documents or within one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, TypeAlias

from catena.answering.fields import Field, are_variants, fields_in, same_section
from catena.answering.quantities import differ
from catena.answering.quotes import Citable, NumberedPassage, sources
from catena.model.places import TITLE, document_name
from catena.text import codes_in, is_measure, normalise_term

ConflictKind: TypeAlias = Literal["between_documents", "within_document"]

_FEWEST_RECORDS = 3  # values of one field in one document that make it a list of records

DATED = ("version", "edition", "revision", "date")
"""Metadata keys that may date a document; they are told with its value."""


@dataclass(frozen=True, slots=True)
class Stated:
    """The value that one passage states for a field.

    Attributes:
        number: of the passage.
        document: its title, or else its id.
        value: as printed.
        pages: of the passage, from 1; line: of the value in its document, from 1.
        dated: what the document's metadata say of its age, "" for nothing.
    """

    number: int
    document_id: str
    document: str
    value: str
    pages: tuple[int, int] | None
    line: int | None
    citation: str
    dated: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A field for which passages print values that cannot both hold.

    Attributes:
        label: of the field, as first printed.
        stated: what contradicts something else here, by passage number and line.
        expected: whether the titles name different products (HX200, HX210), which may well differ: then the value
            of the one that is asked for counts, and nothing is wrong.
    """

    label: str
    kind: ConflictKind
    stated: tuple[Stated, ...]
    expected: bool = False

    @property
    def numbers(self) -> tuple[int, ...]:
        """Return the numbers of the passages, each once."""
        return tuple(dict.fromkeys(each.number for each in self.stated))

    @property
    def note(self) -> str:
        """Return a line for a prompt: Passages [1] and [3] give different values for 'Mass': 2 kg [1] / 3 kg [3]."""
        *others, last = (f"[{number}]" for number in self.numbers)
        who = f"Passages {', '.join(others)} and {last} give" if others else f"Passage {last} gives"
        return f"{who} different values for {self.said}{self._whose}."

    @property
    def said(self) -> str:
        """Return label and values, with the passages that print them: 'Mass': 2 kg [1] / 3 kg [3]."""
        values: dict[str, dict[str, None]] = {}
        for each in self.stated:
            where = f"[{each.number}]{f' ({_plain(each.dated)})' if each.dated else ''}"
            values.setdefault(_plain(each.value), {})[where] = None
        return f"'{_plain(self.label)}': " + " / ".join(f"{value} {', '.join(values[value])}" for value in values)

    @property
    def documents(self) -> tuple[str, ...]:
        """Return the names of the documents, each once."""
        return tuple(dict.fromkeys(_plain(each.document) for each in self.stated))

    @property
    def _whose(self) -> str:
        return f" (different products: {'; '.join(self.documents)})" if self.expected else ""


@dataclass(frozen=True, slots=True)
class _Found:
    """A field with its passage."""

    source: NumberedPassage
    field: Field
    line: int | None

    @property
    def place(self) -> tuple[int, int]:
        return self.source.number, self.field.line

    @property
    def row(self) -> object:
        """Equal for what stands in one line of a document."""
        return self.place if self.line is None else self.line


def conflicts(passages: Sequence[Citable], *, expected: bool = True) -> tuple[Conflict, ...]:
    """Return the fields for which the passages print values that cannot both hold.

    A field is a cell of a table (by the row's label and the column's name), a line "Label: value" or "Label = value",
    or a plain sentence "The X is 5 mm.". Values are compared as quantities in any unit of one dimension, dates, codes
    or short words (`catena.answering.quantities.differ`); a doubtful pair is no conflict: precision comes first.

    Two fields are of one thing where their labels are equal but for case, spacing and units in brackets, and where
    their sections are no siblings ("Channel 1", "Channel 2"); a label of one word, or of no letters, must also stand
    under equal headings. Within a document only what is measured is compared (quantities, dates, codes). A field with
    three values or more in one document labels entries of a list there, and contradicts nothing.

    Args:
        passages: e.g. `IntegratedContext.passages`; numbered from 1, or with numbers of their own.
        expected: whether to report also what differs between documents on different products.

    Returns:
        Conflicts within documents and between them, by the place of what is said first.

    Raises:
        ParameterError: two passages have one number.
    """
    by_key: dict[tuple[str, ...], list[_Found]] = defaultdict(list)
    for found in _fields(sources(passages)):
        by_key[found.field.key].append(found)
    made: list[tuple[tuple[int, int], Conflict]] = []
    for fields in map(_without_records, by_key.values()):
        pairs = [(one, other) for one, other in combinations(fields, 2) if _contradict(one, other)]
        within = [pair for pair in pairs if _document(pair[0]) == _document(pair[1])]
        between = [pair for pair in pairs if _document(pair[0]) != _document(pair[1])]
        for document in sorted({_document(one) for one, _ in within}):
            made.append(_conflict("within_document", [pair for pair in within if _document(pair[0]) == document]))
        for are_expected in (False, True):
            of_kind = [pair for pair in between if _on_different(*pair) == are_expected]
            if of_kind and (expected or not are_expected):
                made.append(_conflict("between_documents", of_kind, expected=are_expected))
    made.sort(key=lambda placed: (placed[0], placed[1].kind, placed[1].expected, placed[1].label))
    return tuple(conflict for _, conflict in made)


def _fields(cited: Sequence[NumberedPassage]) -> list[_Found]:
    """Return the fields of all passages; what several passages show of one place counts once."""
    found: dict[object, _Found] = {}
    for source in cited:
        chunk = source.found
        for field in fields_in(chunk.text, chunk.path[-1] if chunk.path else ""):
            each = _Found(source, field, None if chunk.lines is None else chunk.lines[0] + field.line)
            found.setdefault((chunk.document_id, each.row, field.key, field.value.printed), each)
    return list(found.values())


def _without_records(fields: Sequence[_Found]) -> list[_Found]:
    """Return fields of one key without those of a document in which it labels the entries of a list."""
    printed: dict[str, set[str]] = defaultdict(set)
    for found in fields:
        printed[_document(found)].add(found.field.value.printed)
    return [found for found in fields if len(printed[_document(found)]) < _FEWEST_RECORDS]


def _contradict(one: _Found, other: _Found) -> bool:
    if _document(one) == _document(other):
        are_measured = one.field.value.is_measured and other.field.value.is_measured
        if one.row == other.row or not are_measured:  # a row of several pairs; words of two tables of one form
            return False
    titles = one.field.title, other.field.title
    if not all(titles):
        comparable = True
    elif _is_specific(one.field):
        comparable = not are_variants(*titles)
    else:
        comparable = same_section(*titles)
    return comparable and differ(one.field.value, other.field.value)


def _is_specific(field: Field) -> bool:
    """Say whether a label names its subject by itself: "supply voltage" does, "size" and "3" do not."""
    words = " ".join(field.key).split()
    return len(words) > 1 and any(map(str.isalpha, field.key[-1]))


def _document(found: _Found) -> str:
    return found.source.found.document_id


def _on_different(one: _Found, other: _Found) -> bool:
    """Say whether the documents' titles name different products."""
    codes = [
        {normalise_term(code) for code in codes_in(str(found.source.found.metadata.get(TITLE, "")))}
        for found in (one, other)
    ]
    codes = [{code for code in of if not is_measure(code)} for of in codes]  # "v2" is a version
    return all(codes) and not codes[0] & codes[1]


def _conflict(
    kind: ConflictKind, pairs: Sequence[tuple[_Found, _Found]], *, expected: bool = False
) -> tuple[tuple[int, int], Conflict]:
    distinct = {id(found): found for pair in pairs for found in pair}
    ordered = sorted(distinct.values(), key=lambda found: found.place)
    stated = tuple(map(_stated, ordered))
    return ordered[0].place, Conflict(label=ordered[0].field.label, kind=kind, stated=stated, expected=expected)


def _stated(found: _Found) -> Stated:
    chunk = found.source.found
    lines = None if found.line is None else (found.line, found.line)
    said = [f"{key} {chunk.metadata[key]}" for key in DATED if chunk.metadata.get(key)]
    return Stated(
        number=found.source.number,
        document_id=chunk.document_id,
        document=document_name(chunk),
        value=found.field.value.printed,
        pages=chunk.pages,
        line=found.line,
        citation=found.source.cited(replace(chunk.place, lines=lines)),
        dated=", ".join(said),
    )


def _plain(text: str) -> str:
    return " ".join(text.replace("<", "‹").replace(">", "›").split())

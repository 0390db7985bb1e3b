"""Find critical terms: the names by which people tell look-alike documents and their parts apart; no model is asked.

A term is a title, a product code, a row label or a short value of a table, or a word of the caller's expert
list. The keyword route matches them exactly in the query; |C| of a chunk is the sum of the weights of the
query's terms that it carries.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from pathlib import Path
from typing import Annotated

from annotated_types import Ge

from catena.model import Chunk, Document, ParameterError, check_options, digest
from catena.text import TermMatcher, codes_in, names_of, normalise_term, regular_file, says_something, table_cells

COLUMNS = ("term", "aliases", "weight")
ALIAS_SEPARATOR = ";"


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalTermOptions:
    """The options of critical terms.

    Attributes:
        title_weight: how much the document's own title, and each code in it, counts in |C|; every other
            term counts 1. Above 1, a document that the query names comes before one that merely holds two
            rare words of it.
        codes: take words that mix letters and digits.
        cells: take the cells of tables, header rows left out, of at most `max_words` words.
        expert: further terms, found in every chunk; a sequence is made ready once, as `ExpertTerms`.
    """

    title_weight: Annotated[int, Ge(1)] = 2
    codes: bool = True
    cells: bool = True
    max_words: Annotated[int, Ge(1)] = 5
    expert: ExpertTerms | Sequence[str | ExpertTerm] = ()

    def __post_init__(self) -> None:
        check_options(self)
        object.__setattr__(self, "expert", _ready(self.expert))


def critical_terms(
    document: Document, chunks: Sequence[Chunk], options: CriticalTermOptions | None = None
) -> tuple[tuple[str, ...], ...]:
    """Return the critical terms of each chunk, normalised and sorted; a term of weight w occurs w times.

    The document's title, and every code in it, belongs to every chunk of it: so "torque of
    the HX210" find the HX210's page though the page never says HX210.

    Args:
        document: gives the title.
        chunks: of that document, in order.
        options: what counts as a term.

    Returns:
        One tuple per chunk, as `Entry.terms` takes it.
    """
    options = options or CriticalTermOptions()
    of_title = names_of(document.title)  # the title, and the codes in it
    names = dict.fromkeys(of_title if options.codes else of_title[:1], options.title_weight)
    expert = _ready(options.expert)
    terms = []
    for text in (chunk.text for chunk in chunks):
        found = {term for raw in _candidates(text, options) if says_something(term := normalise_term(raw))}
        terms.append((Counter(found) | Counter(expert.carried(text)) | Counter(names)).elements())
    return tuple(tuple(sorted(each)) for each in terms)


def merge_terms(*lists: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Return per chunk all terms that any of the lists holds for it, each as often as the list with the most.

    So a title that weighs 2 and is also found by a model still weighs 2. An empty list says nothing.

    Args:
        lists: each empty, or as long as there are chunks; terms normalised, a term of weight w occurring w times.

    Raises:
        ParameterError: two lists that are not empty differ in length.
    """
    said = [terms for terms in lists if terms]
    if len({len(terms) for terms in said}) > 1:
        raise ParameterError("lengths of the lists of terms", [len(terms) for terms in said], "equal, or 0")
    merged: Iterator[Counter[str]] = (reduce(or_, map(Counter, of_chunk)) for of_chunk in zip(*said, strict=True))
    return tuple(tuple(sorted(counts.elements())) for counts in merged)


def _ready(expert: ExpertTerms | Sequence[str | ExpertTerm]) -> ExpertTerms:
    return expert if isinstance(expert, ExpertTerms) else ExpertTerms(expert)


def _candidates(text: str, options: CriticalTermOptions) -> Iterable[str]:
    if options.codes:
        yield from codes_in(text)
    if options.cells:
        yield from (cell for cell in table_cells(text) if len(cell.split()) <= options.max_words)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertTerm:
    """One thing that an expert names.

    Attributes:
        name: as people write it; compared without regard to case, width, and the kind of dash or space.
        aliases: other spellings and names of the same thing: "HX200" for "HX-200", "DSC" for its long form.
        weight: how much it counts in |C|.
    """

    name: str
    aliases: tuple[str, ...] = ()
    weight: int = 1

    def __post_init__(self) -> None:
        for spelling in (self.name, *self.aliases):
            if not normalise_term(spelling):
                raise ParameterError("expert term", spelling, "text with more than punctuation in it")
        if self.weight < 1:
            raise ParameterError(f"weight of the expert term {self.name!r}", self.weight, "an integer >= 1")

    @property
    def spellings(self) -> tuple[str, ...]:
        """The name and its aliases."""
        return (self.name, *self.aliases)


class ExpertTerms:
    """A list of expert terms, made ready once to be found in any number of texts.

    A text that holds one spelling of a term carries all of them: asked for "HX200", a chunk that says "HX-200" is
    found. Terms inside longer ones are found, too.

    Args:
        terms: names, or `ExpertTerm`s where a name has aliases or a weight.

    Raises:
        ParameterError: a term is empty, or `terms` is one string.
    """

    def __init__(self, terms: Iterable[str | ExpertTerm] = ()) -> None:
        if isinstance(terms, str):
            raise ParameterError("expert terms", terms, "a sequence of terms")
        self.terms = tuple(ExpertTerm(name=term) if isinstance(term, str) else term for term in terms)

    @classmethod
    def read(cls, path: str | Path) -> ExpertTerms:
        """Read a list: one term a line, then its aliases and its weight where it has any.

        In a `.csv` file the fields stand between commas, in any other file (UTF-8) between tabs. Aliases are
        separated by ";". A first line that begins with "term" names the columns. Empty lines, and in a file
        without commas those that begin with "#", are passed over.

        Raises:
            ParameterError: the file cannot be read, or a line is not of this form; the message names the line.
        """
        file = Path(path)
        rows = _csv_rows(file) if file.suffix.lower() == ".csv" else _tabbed_rows(file)
        return cls(_term(fields, f"line {number} of {file.name}") for number, fields in _in_order(rows, file.name))

    def carried(self, text: str) -> Mapping[str, int]:
        """Return all spellings of the terms in a text, normalised, with their weights."""
        found: dict[str, int] = {}
        for spelling in self._matcher.all_in(text):
            for other, weight in self._carries[spelling].items():
                found[other] = max(weight, found.get(other, 0))
        return found

    def named_in(self, query: str) -> tuple[str, ...]:
        """Return the terms in a question, normalised as it spells them: the longest at each place."""
        return self._matcher.longest_in(query)

    @cached_property
    def _carries(self) -> Mapping[str, Mapping[str, int]]:
        """Per spelling, what a text with it carries; a spelling shared by two terms carries both."""
        carries: dict[str, dict[str, int]] = {}
        for term in self.terms:
            spellings = dict.fromkeys(map(normalise_term, term.spellings), term.weight)
            for spelling in spellings:
                known = carries.setdefault(spelling, {})
                known.update({other: max(weight, known.get(other, 0)) for other, weight in spellings.items()})
        return carries

    @cached_property
    def _matcher(self) -> TermMatcher:
        return TermMatcher(self._carries)

    @cached_property
    def _digest(self) -> str:
        return digest(*map(repr, self.terms))

    def __len__(self) -> int:
        return len(self.terms)

    def __eq__(self, other: object) -> bool:
        return self.terms == other.terms if isinstance(other, ExpertTerms) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._digest)

    def __repr__(self) -> str:
        """Name the list by its content, not by all its terms: it is part of fingerprints."""
        return f"ExpertTerms({len(self)} terms, {self._digest})" if self.terms else "ExpertTerms()"


Row = tuple[int, list[str]]  # the number of a line, from 1, and its fields


def _text(file: Path) -> str:
    try:
        return regular_file(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = "not UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror or type(error).__name__
        raise ParameterError("expert list", f"{file.name} ({why})", "a file of UTF-8 text that can be read") from None


def _tabbed_rows(file: Path) -> Iterator[Row]:
    for number, line in enumerate(_text(file).splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            yield number, line.split("\t")


def _csv_rows(file: Path) -> Iterator[Row]:
    reader = csv.reader(_text(file).splitlines(keepends=True), strict=True)
    end = 0  # the line before this row's first: a quoted field may hold line breaks
    try:
        for fields in reader:
            number, end = end + 1, reader.line_num
            if any(field.strip() for field in fields):
                yield number, fields
    except csv.Error as error:
        raise ParameterError(f"line {end + 1} of {file.name}", str(error), "a line of CSV") from None


def _in_order(rows: Iterator[Row], name: str) -> Iterator[Row]:
    """Leave out the line that names the columns, and bring the fields into the order of `COLUMNS`."""
    order = list(range(len(COLUMNS)))
    for at, (number, fields) in enumerate(rows):
        where = f"line {number} of {name}"
        names = [field.strip().lower() for field in fields]
        if at == 0 and names[0] == COLUMNS[0]:
            if not set(names) <= set(COLUMNS) or len(set(names)) < len(names):
                raise ParameterError(f"columns in {where}", names, f"some of {', '.join(COLUMNS)}, once each")
            order = [COLUMNS.index(name) for name in names]
            continue
        if len(fields) > len(order):
            columns = ", ".join(COLUMNS[column] for column in order)
            raise ParameterError(where, fields, f"at most {len(order)} fields: {columns}")
        placed = dict(zip(order, fields, strict=False))
        yield number, [placed.get(column, "").strip() for column in range(len(COLUMNS))]


def _term(fields: list[str], where: str) -> ExpertTerm:
    name, aliases, weight = fields
    if weight and not weight.isdecimal():
        raise ParameterError(f"weight in {where}", weight, "an integer >= 1")
    others = tuple(alias.strip() for alias in aliases.split(ALIAS_SEPARATOR) if alias.strip())
    try:
        return ExpertTerm(name=name, aliases=others, weight=int(weight or 1))
    except ParameterError as error:
        raise ParameterError(f"{error.name} in {where}", error.value, error.allowed) from None

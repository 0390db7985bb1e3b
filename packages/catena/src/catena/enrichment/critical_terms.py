"""Critical terms: the names by which people tell look-alike documents and their parts apart, found offline.

A term is a title, a product code, a row label or a short value of a table, or a word of the caller's expert
list. The keyword route matches them exactly in the query; |C| of a chunk is the sum of the weights of the
query's terms that it carries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from catena.errors import ParameterError
from catena.model import Chunk, Document
from catena.text import is_border, normalise_query, normalise_term

# letters and digits in one word, with inner marks: STM32F103R4, HX-200, ATmega168P/PA, 3.3V
# (the look-ahead for a digit never goes back, or a long word without one would cost its length squared)
_CODE = re.compile(r"(?<![^\W_])(?=[^\W\d_]*+(?:[./+\-_][^\W\d_]*+)?\d)[^\W_]+(?:[./+\-_][^\W_]+)*(?![^\W_])")
_LETTER_AND_DIGIT = re.compile(r"(?=.*\d)(?=.*[^\W\d_])")
_RULE = re.compile(r"\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")
_CELL_BORDER = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalTermOptions:
    """What counts as a critical term.

    Attributes:
        title_weight: how much the document's own title, and each code in it, counts in |C|; every other
            term counts 1. Above 1, a document that the query names comes before one that merely holds two
            rare words of it.
        codes: take words that mix letters and digits.
        cells: take the cells of tables, header rows left out, of at most `max_words` words.
        expert: further terms, matched in every chunk.
    """

    title_weight: int = 2
    codes: bool = True
    cells: bool = True
    max_words: int = 5
    expert: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.title_weight < 1:
            raise ParameterError("title_weight", self.title_weight, "an integer >= 1")
        if self.max_words < 1:
            raise ParameterError("max_words", self.max_words, "an integer >= 1")


def critical_terms(
    document: Document, chunks: Sequence[Chunk], options: CriticalTermOptions | None = None
) -> tuple[tuple[str, ...], ...]:
    """Return the critical terms of each chunk, normalised and sorted; a term of weight w occurs w times.

    The document's title, and every code in it, belongs to every chunk of it: that is what makes "torque of
    the HX210" find the HX210's page though the page never says HX210.

    Args:
        document: gives the title.
        chunks: of that document, in order.
        options: what counts as a term.

    Returns:
        One tuple per chunk, as `Entry.terms` takes it.
    """
    options = options or CriticalTermOptions()
    names = _names(document.title, options)
    expert = {term for word in options.expert if (term := normalise_term(word))}
    return tuple(_of_chunk(chunk, names, expert, options) for chunk in chunks)


def _of_chunk(chunk: Chunk, names: set[str], expert: set[str], options: CriticalTermOptions) -> tuple[str, ...]:
    found = {term for raw in _candidates(chunk.text, options) if _worth(term := normalise_term(raw))}
    if expert:
        text = normalise_query(chunk.text)
        found |= {term for term in expert if _stands_in(term, text)}
    return tuple(sorted([*(found - names), *(name for name in names for _ in range(options.title_weight))]))


def _names(title: str, options: CriticalTermOptions) -> set[str]:
    """Return what people may call a document: its title, and the codes in it."""
    codes = _codes(title) if options.codes else ()
    return {name for raw in (title, *codes) if _worth(name := normalise_term(raw))}


def _stands_in(term: str, text: str) -> bool:
    """Return whether a term occurs in a text with a word border on both sides; both normalised."""
    at = text.find(term)
    while at >= 0:
        if is_border(text, at) and is_border(text, at + len(term)):
            return True
        at = text.find(term, at + 1)
    return False


def _candidates(text: str, options: CriticalTermOptions) -> Iterable[str]:
    if options.codes:
        yield from _codes(text)
    if options.cells:
        yield from (cell for cell in table_cells(text) if len(cell.split()) <= options.max_words)


def _codes(text: str) -> tuple[str, ...]:
    return tuple(code for code in _CODE.findall(text) if _LETTER_AND_DIGIT.match(code))


def _worth(term: str) -> bool:
    """Return whether a term says anything: two characters at least, one of them a letter."""
    return len(term) >= 2 and any(character.isalpha() for character in term)


def table_cells(text: str) -> tuple[str, ...]:
    """Return the cells of the Markdown tables in a text, header rows and rules left out, in order."""
    lines = [line.strip() for line in text.split("\n")]
    cells: list[str] = []
    for index, line in enumerate(lines):
        following = lines[index + 1] if index + 1 < len(lines) else ""
        if not line.startswith("|") or _RULE.match(line) or (following.startswith("|") and _RULE.match(following)):
            continue
        cells.extend(cell.replace("\\|", "|").strip(" *_`") for cell in _CELL_BORDER.split(line.strip("|")))
    return tuple(cell for cell in cells if cell)

"""Critical terms: the names by which people tell look-alike documents and their parts apart, found offline.

A term is a title, a product code, a row label or a short value of a table, or a word of the caller's expert
list. The keyword route matches them exactly in the query; |C| of a chunk is the sum of the weights of the
query's terms that it carries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from catena.enrichment.expert_terms import ExpertTerm, ExpertTerms
from catena.model import Chunk, Document
from catena.model.errors import ParameterError
from catena.model.options import check_options
from catena.text.cells import table_cells
from catena.text.names import codes_in, names_of, says_something
from catena.text.words import normalise_term


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalTermOptions:
    """What counts as a critical term.

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
    names = dict.fromkeys(_names(document.title, options), options.title_weight)
    expert = _ready(options.expert)
    return tuple(
        tuple(sorted((_found(chunk.text, options) | Counter(expert.carried(chunk.text)) | Counter(names)).elements()))
        for chunk in chunks
    )


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
    return tuple(tuple(sorted(_most(of_chunk).elements())) for of_chunk in zip(*said, strict=True))


def _most(of_chunk: Iterable[Sequence[str]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for terms in of_chunk:
        counts |= Counter(terms)
    return counts


def _ready(expert: ExpertTerms | Sequence[str | ExpertTerm]) -> ExpertTerms:
    return expert if isinstance(expert, ExpertTerms) else ExpertTerms(expert)


def _found(text: str, options: CriticalTermOptions) -> Counter[str]:
    """Return the terms that the text itself gives away, each once."""
    return Counter({term for raw in _candidates(text, options) if says_something(term := normalise_term(raw))})


def _names(title: str, options: CriticalTermOptions) -> tuple[str, ...]:
    """Return what people may call a document: its title, and the codes in it."""
    return names_of(title) if options.codes else names_of(title)[:1]


def _candidates(text: str, options: CriticalTermOptions) -> Iterable[str]:
    if options.codes:
        yield from codes_in(text)
    if options.cells:
        yield from (cell for cell in table_cells(text) if len(cell.split()) <= options.max_words)

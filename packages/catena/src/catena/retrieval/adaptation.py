"""Weights of the ranking formula from the shape of a corpus: HiQA calls them adaptive, the rule for it is ours.

Two statements of the paper are turned into numbers: the more structure the documents have, the more alpha; the more
documents there are per average page, the more beta.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum, isfinite, sqrt

from catena.model import Entry
from catena.model.errors import ParameterError
from catena.retrieval.fusion import ScoreFusion

PAGE = 3_000  # characters of a printed page of text: the stand-in where a source has no pages

LEAST_ALPHA, MORE_ALPHA = 0.5, 0.2
MOST_BETA = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusStatistics:
    """The shape of a corpus.

    Attributes:
        documents: how many, >= 0.
        average_pages: of a document, > 0; a source without pages has `characters / 3000`, at least 1.
        structure: mean over the chunks of `1 - 2^-d`, d headings above the chunk: 0 for plain text, 1/2 where there
            are titles only, 3/4 with chapters; in [0, 1].
    """

    documents: int
    average_pages: float
    structure: float

    def __post_init__(self) -> None:
        if self.documents < 0:
            raise ParameterError("documents", self.documents, "a number >= 0")
        if not (isfinite(self.average_pages) and self.average_pages > 0):
            raise ParameterError("average_pages", self.average_pages, "a finite number > 0")
        if not 0 <= self.structure <= 1:
            raise ParameterError("structure", self.structure, "a share in [0, 1]")

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> CorpusStatistics:
        """Return the statistics of documents as they are stored, in any order."""
        pages: list[float] = []
        structure: list[float] = []
        for entry in entries:
            pages.append(float(len(entry.document.page_starts)) or max(1.0, len(entry.document.text) / PAGE))
            structure.extend(1 - 0.5 ** len(chunk.path) for chunk in entry.chunks)
        return cls(
            documents=len(pages),
            average_pages=fsum(pages) / len(pages) if pages else 1.0,
            structure=fsum(structure) / len(structure) if structure else 0.0,
        )


REFERENCE = CorpusStatistics(documents=25, average_pages=25.0, structure=0.75)
"""As many documents as an average one has pages, all with a title and chapters: here the weights are the defaults."""


def adapted(statistics: CorpusStatistics) -> ScoreFusion:
    """Return the formula with weights for a corpus of this shape.

    `alpha = 0.5 + 0.2 * structure`: headings are part of what is embedded, so that a vector says where a passage
    stands; without any, both routes weigh the same.

    `beta = 0.6 q / (1 + q)`, `q = sqrt(documents / average_pages)`: in many short look-alikes a name is what tells
    them apart; in one long book nearly every chunk carries the names that a question has, and they tell nothing.

    alpha lies in [0.5, 0.7] and beta in [0, 0.6]; both grow and never jump. For a corpus like `REFERENCE` they are
    the defaults of `ScoreFusion`, which are a compromise between the two kinds of corpus.

    Source: HiQA (arXiv 2402.01767), on its hyperparameters, says what raises alpha and beta; the curves are ours.
    """
    per_page = sqrt(statistics.documents / statistics.average_pages)
    return ScoreFusion(
        alpha=LEAST_ALPHA + MORE_ALPHA * statistics.structure,
        beta=MOST_BETA * per_page / (1 + per_page),
    )

"""What a reader with a budget of tokens is given of whole sections: the passages of the first hits, best first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from catena.effects import Embedder, Services
from catena.effects import run as drive
from catena.evaluation import Span, spans_of
from catena.model import Chunk
from catena.retrieval import ReadingOptions, rank_passages
from catena.structure import passages_of
from catena_bench.views_data import AskedDocument
from catena_bench.views_ranking import ranking
from catena_bench.views_retrievers import Scores

BY_WORDS, BY_MEANING = ReadingOptions(alpha=0.0), ReadingOptions(alpha=1.0)


def passages_read(
    asked: AskedDocument,
    scores: Scores,
    chunks: Sequence[Chunk],
    embedder: Embedder | None,
    options: ReadingOptions | None = None,
) -> Iterator[tuple[Span, ...]]:
    """Yield for each question the passages of its first hits, in the order in which they are read.

    Args:
        asked: the document.
        scores: shape (questions, chunks).
        chunks: sections, or anything long.
        embedder: compares passages with the question; None where only their words count.
        options: as the library has them by default.
    """
    services = Services(embedder=embedder)

    @cache
    def passages(chunk: Chunk) -> tuple[Chunk, ...]:
        return passages_of(chunk, document=asked.document)

    for question, row in zip(asked.questions, scores, strict=True):
        step = rank_passages(question.text, ranking(row, chunks), passages, options)
        yield spans_of(hit.chunk for hit in drive(step, services).hits)

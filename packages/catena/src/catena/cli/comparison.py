"""What the demo measures: where the right passage stands, by plain vector search and by Catena.

Plain vector search is what most programs begin with: the same chunks, embedded as they are, ranked by the cosine
with the question. It has the same embedding model and the same chunks as Catena; what differs is the ranking.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from catena.model import Chunk, Hit, Provenance, Ranking, Scale

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from catena.effects.ports import Embedder
    from catena.library import Library


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A passage that a question needs: a file's name and words that stand in the passage."""

    document: str
    words: str

    def is_in(self, chunk: Chunk) -> bool:
        """Return whether a chunk holds the passage; white space does not count."""
        return PurePath(chunk.document_id).name == self.document and self.words in " ".join(chunk.text.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question with its answer and the passages that one must read to give it."""

    text: str
    answer: str
    why_hard: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One question, ranked both ways.

    Attributes:
        plain, catena: rankings of all chunks.
        plain_rank, catena_rank: how far one must read, from 1, until all evidence was seen; None where a
            passage is not in the ranking.
    """

    question: Question
    plain: Ranking
    catena: Ranking
    plain_rank: int | None
    catena_rank: int | None

    @property
    def is_won(self) -> bool:
        """Whether Catena puts the right passages first, and plain vector search does not."""
        best = len(self.question.evidence)
        return self.catena_rank == best and self.plain_rank != best


class PlainVectorSearch:
    """The baseline: cosines of the question with the chunks' own texts, without headings, words or terms."""

    def __init__(self, chunks: Sequence[Chunk], embedder: Embedder) -> None:
        self._chunks, self._embedder = tuple(chunks), embedder
        self._vectors = embedder.embed_documents([chunk.text for chunk in self._chunks])

    def search(self, question: str) -> Ranking:
        """Return all chunks, best first."""
        scores = (self._vectors @ self._embedder.embed_query(question)).tolist()
        ranking = Ranking.of(map(Hit, self._chunks, scores), Scale.SIMILARITY)
        found = (
            Hit(hit.chunk, hit.score, (Provenance(route="dense", rank=rank, score=hit.score, view="raw"),))
            for rank, hit in enumerate(ranking.hits, start=1)
        )
        return Ranking(tuple(found), Scale.SIMILARITY)


def questions_of(file: Traversable) -> tuple[Question, ...]:
    """Read the questions that come with the demo's documents."""
    return tuple(map(_question, json.loads(file.read_text(encoding="utf-8"))))


def _question(row: Mapping[str, Any]) -> Question:
    needed = [row, row["also"]] if "also" in row else [row]
    evidence = tuple(Evidence(document=each["document"], words=each["evidence"]) for each in needed)
    return Question(text=row["question"], answer=row["answer"], why_hard=row["why_hard"], evidence=evidence)


def chunks_of(library: Library) -> tuple[Chunk, ...]:
    """Return all chunks of a library."""
    return tuple(chunk for info in library.documents() for chunk in library.get(info.id).chunks)


def compare(library: Library, embedder: Embedder, questions: Sequence[Question]) -> tuple[Comparison, ...]:
    """Ask every question both ways over all chunks of a library."""
    chunks = chunks_of(library)
    baseline = PlainVectorSearch(chunks, embedder)
    return tuple(
        _compared(question, baseline.search(question.text), library.search(question.text, k=len(chunks)))
        for question in questions
    )


def _compared(question: Question, plain: Ranking, catena: Ranking) -> Comparison:
    return Comparison(
        question=question,
        plain=plain,
        catena=catena,
        plain_rank=rank_of(question.evidence, [hit.chunk for hit in plain.hits]),
        catena_rank=rank_of(question.evidence, [hit.chunk for hit in catena.hits]),
    )


def rank_of(evidence: Sequence[Evidence], found: Sequence[Chunk]) -> int | None:
    """Return the rank, from 1, at which the last piece of evidence is seen; None where one is missing."""
    ranks = [
        next((rank for rank, chunk in enumerate(found, start=1) if each.is_in(chunk)), None) for each in evidence
    ]
    return None if None in ranks else max((rank for rank in ranks if rank is not None), default=None)

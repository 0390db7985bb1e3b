"""Collections of look-alike documents, read from any directory of the layout `similar_docs`.

`documents.json`, `sections.jsonl` and `questions.jsonl` name the Markdown files and what answers each question. Gold
is a section's character span, so any chunker can be judged; the same text in another document is a miss, because its
citation would be wrong.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from catena.evaluation import GoldSpan, Ranked, chunks_of_items, item_recall, log_rank_index, ranked_ids
from catena.library import Library
from catena.model import Chunk, ParameterError

MIN_CUTOFF = 5  # recall is taken at max(5, number of gold sections)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, and the sections that answer it (none: it has no answer in the collection)."""

    id: str
    text: str
    kind: str
    gold: tuple[str, ...]

    @property
    def cutoff(self) -> int:
        """How many hits recall looks at."""
        return max(MIN_CUTOFF, len(self.gold))


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Files by document id, gold sections as spans, and the questions."""

    files: Mapping[str, Path]
    sections: Mapping[str, GoldSpan]
    questions: tuple[Question, ...]

    def documents_of(self, question: Question) -> frozenset[str]:
        """Return the documents that hold a question's gold sections."""
        return frozenset(self.sections[name].document_id for name in question.gold if name in self.sections)


def read_collection(data: Path) -> Collection:
    """Read a directory of the layout.

    Raises:
        ParameterError: a file of the layout is missing, or a row lacks a field.
    """
    try:
        documents = json.loads((data / "documents.json").read_text(encoding="utf-8"))
        sections, questions = (_rows(data / name) for name in ("sections.jsonl", "questions.jsonl"))
        return Collection(
            files={row["doc_id"]: data / row["path"] for row in documents},
            sections={
                row["section_id"]: GoldSpan(
                    item=row["section_id"], document_id=row["doc_id"], start=row["start"], end=row["end"]
                )
                for row in sections
            },
            questions=tuple(
                Question(
                    id=row["qid"],
                    text=row["question"],
                    kind=row.get("kind") or "other",
                    gold=tuple(dict.fromkeys(row["gold"])),
                )
                for row in questions
            ),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = (
            f"a directory with documents.json, sections.jsonl and questions.jsonl ({type(error).__name__}: {error})"
        )
        raise ParameterError("data", str(data), what) from None


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def some_of_each_kind(questions: Iterable[Question], most: int | None) -> tuple[Question, ...]:
    """Return the first `most` questions of each kind, in their order; all of them for None."""
    taken: defaultdict[str, list[Question]] = defaultdict(list)
    for question in questions:
        taken[question.kind].append(question)
    return tuple(question for group in taken.values() for question in group[:most])


def chunks_in(library: Library, collection: Collection) -> list[Chunk]:
    """Return all chunks of a library that was indexed from a collection, under the collection's document ids."""
    return [
        replace(chunk, document_id=document_id)
        for document_id, path in collection.files.items()
        for chunk in library.get(library.document_id(path)).chunks
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """What rankings of one set of chunks are worth.

    Attributes:
        items: per gold section, the chunks that hold it.
        n: the N of the Log-Rank Index; the same for all that shall be compared.
    """

    items: Mapping[str, frozenset[str]]
    n: int

    @classmethod
    def of(cls, collection: Collection, chunks: Sequence[Chunk], *, n: int | None = None) -> Judge:
        """Return the judge of the chunks of a collection; n is their number by default."""
        return cls(items=chunks_of_items(chunks, collection.sections.values()), n=len(chunks) if n is None else n)

    def recall(self, question: Question, ranked: Ranked) -> float:
        """Return the share of the question's gold sections of which a chunk is among the first max(5, gold)."""
        return item_recall(ranked, self._gold(question), question.cutoff)

    def log_rank(self, question: Question, ranked: Ranked) -> float:
        """Return the Log-Rank Index: gamma 1, mid-ranks, a section at the rank of its first chunk."""
        first = _first_chunks(ranked, self._gold(question))
        return log_rank_index(first, ranked, n=self.n).value or 0.0

    def _gold(self, question: Question) -> dict[str, frozenset[str]]:
        return {name: self.items.get(name, frozenset()) for name in question.gold}


def _first_chunks(ranked: Ranked, gold: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return for each gold section the chunk by which it was found first; any of its chunks when none was."""
    place = {chunk_id: number for number, chunk_id in enumerate(ranked_ids(ranked))}
    last = len(place)
    return frozenset(
        min(ids, key=lambda chunk_id: (place.get(chunk_id, last), chunk_id)) if ids else f"lost:{name}"
        for name, ids in gold.items()
    )

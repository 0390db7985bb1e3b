"""Read collections of look-alike documents from any directory of their layout, and judge rankings of them.

`documents.json`, `sections.jsonl` and `questions.jsonl` name the Markdown files and what answers each question. Gold
is a section's character span, so any chunker can be judged; the same text in another document is a miss, because its
citation would be wrong.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from catena import Chunk, Entry, Library, ParameterError
from catena import run as run_step
from catena.evaluation import GoldSpan, Ranked, chunks_of_items, item_recall, log_rank_index, ranked_ids
from catena.library import Preparation, embed, prepare, read

_TOGETHER = 200  # documents written in one transaction
MIN_CUTOFF = 5  # recall is taken at max(5, number of gold sections)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionQuestion:
    """A question, and the sections that answer it (none: it has no answer in the collection)."""

    id: str
    text: str
    kind: str
    gold: tuple[str, ...]

    @property
    def cutoff(self) -> int:
        """Return the number of hits that recall looks at."""
        return max(MIN_CUTOFF, len(self.gold))


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarDocuments:
    """Files by document id, gold sections as spans, and the questions."""

    files: Mapping[str, Path]
    sections: Mapping[str, GoldSpan]
    questions: tuple[CollectionQuestion, ...]

    def documents_of(self, question: CollectionQuestion) -> frozenset[str]:
        """Return the documents that hold a question's gold sections."""
        return frozenset(self.sections[name].document_id for name in question.gold if name in self.sections)


def read_collection(data: Path) -> SimilarDocuments:
    """Read a directory of the layout.

    Raises:
        ParameterError: a file of the layout is missing, or a row lacks a field.
    """
    with of_layout(data, "a directory with documents.json, sections.jsonl and questions.jsonl"):
        documents = json.loads((data / "documents.json").read_text(encoding="utf-8"))
        sections, questions = (list(rows(data / name)) for name in ("sections.jsonl", "questions.jsonl"))
        return SimilarDocuments(
            files={row["doc_id"]: data / row["path"] for row in documents},
            sections={
                row["section_id"]: GoldSpan(
                    item=row["section_id"], document_id=row["doc_id"], start=row["start"], end=row["end"]
                )
                for row in sections
            },
            questions=tuple(
                CollectionQuestion(
                    id=row["qid"],
                    text=row["question"],
                    kind=row.get("kind") or "other",
                    gold=tuple(dict.fromkeys(row["gold"])),
                )
                for row in questions
            ),
        )


@contextmanager
def of_layout(data: Path, allowed: str) -> Iterator[None]:
    """Raise ParameterError, which says what is allowed, where reading files finds another layout."""
    try:
        yield
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ParameterError("data", str(data), f"{allowed} ({type(error).__name__}: {error})") from None


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a `.jsonl` or `.jsonl.gz` file."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def stored(folder: Path, name: str) -> Path | None:
    """Return the file `name.jsonl.gz` or `name.jsonl` of a folder, where it is there."""
    return next((path for end in ("jsonl.gz", "jsonl") if (path := folder / f"{name}.{end}").is_file()), None)


def stored_rows(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of the file `name.jsonl.gz` or `name.jsonl` of a folder; none where it is not there."""
    path = stored(folder, name)
    return rows(path) if path is not None else iter(())


def some_of_each_kind(questions: Iterable[CollectionQuestion], most: int | None) -> tuple[CollectionQuestion, ...]:
    """Return the first `most` questions of each kind, in their order; all of them for None."""
    taken: defaultdict[str, list[CollectionQuestion]] = defaultdict(list)
    for question in questions:
        taken[question.kind].append(question)
    return tuple(question for group in taken.values() for question in group[:most])


def answered(collection: SimilarDocuments, most: int | None) -> list[CollectionQuestion]:
    """Return the first `most` questions of each kind that have an answer.

    Raises:
        ParameterError: none has.
    """
    judged = [question for question in some_of_each_kind(collection.questions, most) if question.gold]
    if not judged:
        raise ParameterError("questions", f"{len(collection.questions)} without gold", "some that have an answer")
    return judged


def entry_of(document_id: str, path: Path) -> Entry:
    """Return a file of a collection, read and cut as the library does by default."""
    how = Preparation()
    return prepare(read(path, how, document_id=document_id).document, how)


@contextmanager
def library_of(entries: Iterable[Entry], **how: Any) -> Iterator[Library]:
    """Open a library of the entries that have chunks, in a folder that is gone afterwards; `how`: `Library.open`."""
    filled = iter(entry for entry in entries if entry.chunks)
    with (
        TemporaryDirectory(prefix="catena-bench-") as folder,
        Library.open(Path(folder) / "library", **how) as library,
    ):
        while some := list(islice(filled, _TOGETHER)):
            library.store.add([(entry, run_step(embed(entry), library.services)) for entry in some])
        yield library


def chunks_in(library: Library, collection: SimilarDocuments) -> list[Chunk]:
    """Return all chunks of a library that was indexed from a collection, under the collection's document ids."""
    return [
        replace(chunk, document_id=document_id)
        for document_id, path in collection.files.items()
        for chunk in library.get(library.document_id(path)).chunks
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Judge the rankings of one set of chunks.

    Attributes:
        items: per gold section, the chunks that hold it.
        n: the N of the Log-Rank Index; the same for all that shall be compared.
    """

    items: Mapping[str, frozenset[str]]
    n: int

    @classmethod
    def of(cls, collection: SimilarDocuments, chunks: Sequence[Chunk], *, n: int | None = None) -> Judge:
        """Return the judge of the chunks of a collection; n is their number by default."""
        return cls(items=chunks_of_items(chunks, collection.sections.values()), n=len(chunks) if n is None else n)

    def recall(self, question: CollectionQuestion, ranked: Ranked) -> float:
        """Return the share of the question's gold sections of which a chunk is among the first max(5, gold)."""
        return item_recall(ranked, self._gold(question), question.cutoff)

    def log_rank(self, question: CollectionQuestion, ranked: Ranked) -> float:
        """Return the Log-Rank Index: gamma 1, mid-ranks, a section at the rank of its first chunk."""
        first = _first_chunks(ranked, self._gold(question))
        return log_rank_index(first, ranked, n=self.n).value or 0.0

    def _gold(self, question: CollectionQuestion) -> dict[str, frozenset[str]]:
        return {name: self.items.get(name, frozenset()) for name in question.gold}


def _first_chunks(ranked: Ranked, gold: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return for each gold section the chunk by which it was found first; any of its chunks when none was."""
    place = {chunk_id: number for number, chunk_id in enumerate(ranked_ids(ranked))}
    last = len(place)
    return frozenset(
        min(ids, key=lambda chunk_id: (place.get(chunk_id, last), chunk_id)) if ids else f"lost:{name}"
        for name, ids in gold.items()
    )

"""Passages asked as one corpus, and questions whose evidence is several of them: `{dev,train}_corpus`, `…_questions`.

A row of `SPLIT_corpus.jsonl` (or `.jsonl.gz`) is `{id, title, text}`, of `SPLIT_questions.jsonl` `{id, question,
supporting, answers}` with `supporting` the ids of passages; a passage without a title is its text alone, and accepted
answers are read where there are any. What else stands in a row is not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catena.enrichment import critical_terms
from catena.model import SOURCE, TITLE, Chunk, Document, Entry, ParameterError, Section, digest, lines_in, span_id
from catena.structure import headed_views
from catena_bench.segments_data import rows, stored

DEV, TRAIN = "dev", "train"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question, the ids of the chunks that are its evidence, and the accepted answers, where they are known."""

    id: str
    text: str
    evidence: tuple[str, ...]
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A corpus of passages, each one chunk of a document of its own, and the questions asked of all of it.

    Attributes:
        chunks: by ascending id. Ids are digests: in the order of the file, evidence may come first, and ties would
            go to it.
        documents: in the order of the chunks.
        questions: those that have evidence, in the order of the file.
        unknown: how many pieces of evidence are in no row of the corpus; they count as not found.
    """

    name: str
    documents: tuple[Document, ...]
    chunks: tuple[Chunk, ...]
    questions: tuple[Asked, ...]
    unknown: int

    def entries(self) -> Iterator[Entry]:
        """Yield what a library stores of each passage."""
        for document, chunk in zip(self.documents, self.chunks, strict=True):
            size = len(document.text)
            section = Section(
                id=span_id(document.id, "section", 0, size), document_id=document.id, position=0, level=0, title="",
                path=(), start=0, body_start=0, end=size, tree_end=size,
            )  # fmt: skip
            yield Entry(
                document=document,
                sections=(section,),
                chunks=(chunk,),
                views=headed_views(document, (chunk,)),
                terms=critical_terms(document, (chunk,)),
            )


def has_split(data: Path, split: str) -> bool:
    """Return whether both files of a split are there."""
    return all(stored(data, f"{split}_{part}") is not None for part in ("corpus", "questions"))


def read_split(data: Path, split: str = DEV, most: int | None = None) -> Split:
    """Read one split of a folder of the layout.

    Args:
        data: the folder.
        split: "dev" or "train".
        most: keep only so many questions, those whose ids have the lowest digests; the corpus is always whole.

    Raises:
        ParameterError: a file is not there or not of the layout, two passages have one id, or no question has
            evidence.
    """
    if not has_split(data, split):
        allowed = f"a folder with {split}_corpus.jsonl and {split}_questions.jsonl (or .jsonl.gz)"
        raise ParameterError("data", str(data), allowed)
    try:
        passages = [_passage(row) for row in _rows(data, f"{split}_corpus")]
        ids = {document.id: chunk.id for document, chunk in passages}
        asked = [_asked(row, ids) for row in _rows(data, f"{split}_questions")]
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        allowed = f"rows with all fields of the layout ({type(error).__name__}: {error})"
        raise ParameterError("data", str(data), allowed) from None
    if len(ids) < len(passages):
        raise ParameterError(f"{split}_corpus", f"{len(passages)} rows with {len(ids)} ids", "one row for each id")
    judged = [question for question in asked if question.evidence]
    if not judged or not passages:
        raise ParameterError("data", str(data), "passages, and questions with at least one supporting passage each")
    if most is not None:
        lowest = set(sorted((question.id for question in judged), key=digest)[:most])
        judged = [question for question in judged if question.id in lowest]
    known = set(ids.values())
    ordered = sorted(passages, key=lambda pair: pair[1].id)
    return Split(
        name=f"{data.resolve().name} {split}",
        documents=tuple(document for document, _ in ordered),
        chunks=tuple(chunk for _, chunk in ordered),
        questions=tuple(judged),
        unknown=sum(chunk_id not in known for question in judged for chunk_id in question.evidence),
    )


def _rows(data: Path, name: str) -> Iterator[dict[str, Any]]:
    path = stored(data, name)
    assert path is not None  # asked of `has_split` before
    return rows(path)


def _passage(row: Mapping[str, Any]) -> tuple[Document, Chunk]:
    title = str(row.get("title") or "")
    text = f"{title}\n{row['text']}" if title else str(row["text"])
    document = Document(id=str(row["id"]), title=title, text=text, media_type="text/plain")
    chunk = Chunk(
        id=span_id(document.id, "chunk", 0, len(text)),
        document_id=document.id,
        position=0,
        start=0,
        end=len(text),
        text=text,
        path=(title,) if title else (),
        lines=lines_in(text, 0, len(text)),
        metadata={TITLE: title, SOURCE: document.id},
    )
    return document, chunk


def _asked(row: Mapping[str, Any], ids: Mapping[str, str]) -> Asked:
    """Return a question; evidence that is in no row of the corpus keeps an id that no chunk has."""
    supporting = dict.fromkeys(map(str, row.get("supporting") or ()))
    evidence = tuple(ids.get(passage, f"not in the corpus: {passage}") for passage in supporting)
    answers = tuple(map(str, row.get("answers") or ()))
    return Asked(id=str(row["id"]), text=str(row["question"]), evidence=evidence, answers=answers)

"""Data sets of documents with sections and of questions with answer scopes: two files of JSON lines in a folder.

`documents.jsonl.gz`: {"id", "title", "text", "sections": [{"start", "body_start", "end", "level", "path"}, …]}
`questions.jsonl.gz`: {"id", "doc_id", "question", "evidence": [{"start", "end"}, …], "answer", "type"}

Both may as well lie there unpacked, as `.jsonl`. Offsets are 0-based code points into the text, half-open.
"""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from catena.evaluation.question_rows import document_of_row, document_row, question_of_row, question_row
from catena.evaluation.question_scope import ScopeQuestion
from catena.model import Document, Section
from catena.model.errors import EvaluationError, ParameterError
from catena.text.json_lines import read_objects

DOCUMENTS, QUESTIONS = "documents", "questions"
_ENDINGS = (".jsonl.gz", ".jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeDataset:
    """Documents, their sections by document id, and questions about them.

    Every question is about one of the documents, its evidence lies in the text, and ids are unique.
    """

    documents: tuple[Document, ...]
    sections: Mapping[str, tuple[Section, ...]] = field(hash=False)
    questions: tuple[ScopeQuestion, ...]

    def __post_init__(self) -> None:
        lengths = {document.id: len(document.text) for document in self.documents}
        if len(lengths) < len(self.documents) or set(self.sections) != set(lengths):
            raise ParameterError("documents", sorted(lengths), "each once, and each with its sections")
        for name, sections in self.sections.items():
            if any(section.end > lengths[name] for section in sections):
                raise ParameterError("sections", name, f"spans within the {lengths[name]} characters of its text")
        seen: set[str] = set()
        for question in self.questions:
            if question.id in seen:
                raise ParameterError("question", question.id, "an id that no other question has")
            seen.add(question.id)
            if problem := _problem(question, lengths):
                raise ParameterError("question", question.id, problem)

    @classmethod
    def of(
        cls, documents: Iterable[tuple[Document, Sequence[Section]]], questions: Iterable[ScopeQuestion]
    ) -> ScopeDataset:
        """Return the data set of documents with their sections, and of questions about them.

        Raises:
            ParameterError: an id occurs twice, a question is about none of the documents, or a span is outside.
        """
        given = [(document, tuple(sections)) for document, sections in documents]
        return cls(
            documents=tuple(document for document, _ in given),
            sections={document.id: sections for document, sections in given},
            questions=tuple(questions),
        )

    def document(self, name: str) -> Document:
        """Return the document of this id.

        Raises:
            EvaluationError: there is none.
        """
        found = next((document for document in self.documents if document.id == name), None)
        if found is None:
            raise EvaluationError(f"the data set has no document {name!r}")
        return found


def write_scope_dataset(path: str | Path, dataset: ScopeDataset, *, overwrite: bool = False) -> None:
    """Write the two files, packed, into a folder that is made where it is missing.

    Equal data sets give equal bytes. Both files are complete on disk before the first of them takes its place, so
    that whatever breaks off leaves no half file; the questions take theirs last.

    Args:
        path: the folder.
        dataset: what to write.
        overwrite: whether files of a data set that lie there already are replaced.

    Raises:
        EvaluationError: there is a data set already, or the folder cannot be written.
    """
    folder = Path(path)
    there = [found for name in (DOCUMENTS, QUESTIONS) for found in _stored(folder, name)]
    if there and not overwrite:
        raise EvaluationError(
            f"{folder.name} holds {there[0].name} already; nothing was written. "
            "Try: another folder, or overwrite=True"
        )
    rows = {
        DOCUMENTS: [document_row(document, dataset.sections[document.id]) for document in dataset.documents],
        QUESTIONS: [question_row(question) for question in dataset.questions],
    }
    drafts: dict[str, str] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, of_file in rows.items():
            draft = folder / f".{name}.{os.getpid()}.tmp"  # made as any file: a temporary one is its owner's alone
            drafts[name] = str(draft)
            draft.write_bytes(_packed(of_file))
        for name, drafted in drafts.items():
            os.replace(drafted, folder / (name + _ENDINGS[0]))
        for old in there:
            if not old.name.endswith(_ENDINGS[0]):
                old.unlink()  # read in place of the new one where both lie there, it would be an old data set
    except OSError as error:
        raise EvaluationError(f"cannot write {folder.name}: {error.strerror or type(error).__name__}") from None
    finally:
        for drafted in drafts.values():
            with suppress(OSError):
                os.unlink(drafted)


def read_scope_dataset(path: str | Path) -> ScopeDataset:
    """Read a folder of this layout; answers, types, titles and sections may be missing.

    A document without sections has one: the whole of it.

    Raises:
        EvaluationError: a file is missing or unreadable, or a row is not of the layout; with file and line.
    """
    folder = Path(path)
    documents: dict[str, Document] = {}
    sections: dict[str, tuple[Section, ...]] = {}
    for where, row in _rows(folder, DOCUMENTS):
        document, of_document = document_of_row(row, where)
        if document.id in documents:
            raise EvaluationError(f"{where}: document {document.id!r} stands twice")
        documents[document.id], sections[document.id] = document, of_document
    lengths = {name: len(document.text) for name, document in documents.items()}
    questions: dict[str, ScopeQuestion] = {}
    for where, row in _rows(folder, QUESTIONS):
        question = question_of_row(row, where)
        if question.id in questions:
            raise EvaluationError(f"{where}: question {question.id!r} stands twice")
        if problem := _problem(question, lengths):
            raise EvaluationError(f"{where}: question {question.id!r} must have {problem}")
        questions[question.id] = question
    return ScopeDataset(documents=tuple(documents.values()), sections=sections, questions=tuple(questions.values()))


def _problem(question: ScopeQuestion, lengths: Mapping[str, int]) -> str:
    if question.document not in lengths:
        return f"a document of the data set, not {question.document!r}"
    if question.evidence[-1][1] > lengths[question.document]:
        return f"evidence within the {lengths[question.document]} characters of its document"
    return ""


def _packed(rows: Iterable[Mapping[str, Any]]) -> bytes:
    # ASCII: lone surrogates, which broken files contain, have no UTF-8
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as file:
        file.write(lines.encode("ascii"))
    return packed.getvalue()


def _stored(folder: Path, name: str) -> list[Path]:
    return [path for path in (folder / (name + ending) for ending in _ENDINGS) if path.exists()]


def _rows(folder: Path, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place for messages, object) of each line that is not blank; lines are counted from 1."""
    stored = _stored(folder, name)
    if not stored:
        raise EvaluationError(f"{folder.name} holds no {name}{_ENDINGS[0]} and no {name}{_ENDINGS[1]}")
    yield from read_objects(stored[0])

"""Read and write data sets of documents with sections and questions with answer scopes: two files of JSON lines.

`documents.jsonl.gz`: {"id", "title", "text", "sections": [{"start", "body_start", "end", "level", "path"}, …]}
`questions.jsonl.gz`: {"id", "doc_id", "question", "evidence": [{"start", "end"}, …], "answer", "type"}

Both may as well lie there unpacked, as `.jsonl`. Offsets are 0-based code points into the text, half-open.
"""

from __future__ import annotations

import gzip
import io
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from catena import Document, Section
from catena.evaluation import Span
from catena.model import EvaluationError, ParameterError, span_id
from catena.text import normalise_term, read_objects

Row: TypeAlias = Mapping[str, Any]
_MEDIA_TYPE = "text/plain"  # the sections are given: headings are not looked for again
DOCUMENTS, QUESTIONS = "documents", "questions"
_ENDINGS = (".jsonl.gz", ".jsonl")


@dataclass(frozen=True, slots=True)
class QuestionType:
    """A type of question: its name, as rows carry it, and what a model is told of it."""

    name: str
    meaning: str

    def __post_init__(self) -> None:
        if not normalise_term(self.name):
            raise ParameterError("type of question", self.name, "a name with letters in it")


EIGHT_TYPES = (
    QuestionType(
        "narrative and plot",
        "asks for details or for the order of events in a story, a life or a history that only the whole of it tells",
    ),
    QuestionType(
        "summarisation",
        "asks for the essence of a long passage, of an argument or of a process, with nothing that matters left out",
    ),
    QuestionType(
        "inferential", "asks for what is implied and nowhere said: an intention, a mood, what follows from an action"
    ),
    QuestionType(
        "synthesis",
        "asks for something whose parts stand far from each other in the passage and have to be put together",
    ),
    QuestionType(
        "cause and effect",
        "asks why something came about or what it led to, where several circumstances have to be weighed",
    ),
    QuestionType(
        "comparative",
        "asks how ideas, people, things or events differ or are alike, where each of them has to be understood",
    ),
    QuestionType(
        "explanatory",
        "asks how something works or what a difficult idea means, where the explanation takes several sentences",
    ),
    QuestionType(
        "themes and motifs",
        "asks for what runs through the whole: its central message, or a pattern that comes again",
    ),
)
"""The types of MC-indexing, appendix B.1, in our own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeQuestion:
    """A question about one document, and where its answer stands.

    Attributes:
        document: id of the document, the only one that is searched.
        evidence: [start, end) offsets into `Document.text`, ascending; at least one.
        answer: the gold answer, "" where none is known.
        type: the name of its type, "" where it has none.
    """

    id: str
    document: str
    text: str
    evidence: tuple[Span, ...]
    answer: str = ""
    type: str = ""

    def __post_init__(self) -> None:
        spans = self.evidence
        if not spans or list(spans) != sorted(spans) or any(not 0 <= start < end for start, end in spans):
            raise ParameterError("evidence", spans, "one or more spans [start, end), ascending, none of them empty")


@dataclass(frozen=True, slots=True)
class TypeShare:
    """The number of questions of one type, and its share of all."""

    count: int
    share: float


def type_distribution(
    questions: Iterable[ScopeQuestion], types: Sequence[QuestionType] = ()
) -> Mapping[str, TypeShare]:
    """Return how many questions are of each type: Figure 5 of MC-indexing.

    Args:
        questions: a question without a type counts under "".
        types: named first and in this order, also where there is no question of them; others follow, the most
            frequent first, then by name.
    """
    counts = Counter(question.type for question in questions)
    total = counts.total()
    known = [each.name for each in types]
    others = sorted(set(counts) - set(known), key=lambda name: (-counts[name], name))
    return MappingProxyType(
        {name: TypeShare(counts[name], counts[name] / total if total else 0.0) for name in (*known, *others)}
    )


def document_row(document: Document, sections: Sequence[Section]) -> dict[str, Any]:
    """Return a document with its sections as a row."""
    return {
        "id": document.id,
        "title": document.title,
        "text": document.text,
        "sections": [
            {
                "start": section.start,
                "body_start": section.body_start,
                "end": section.end,
                "level": section.level,
                "path": list(section.path),
            }
            for section in sections
        ],
    }


def question_row(question: ScopeQuestion) -> dict[str, Any]:
    """Return a question as a row."""
    return {
        "id": question.id,
        "doc_id": question.document,
        "question": question.text,
        "evidence": [{"start": start, "end": end} for start, end in question.evidence],
        "answer": question.answer,
        "type": question.type,
    }


def document_of_row(row: Row, where: str) -> tuple[Document, tuple[Section, ...]]:
    """Return the document of a row and its sections: the whole of it as one, where the row has none.

    Raises:
        EvaluationError: the row is not of the layout, or its sections do not follow each other within the text.
    """
    text = row.get("text")
    if not isinstance(text, str):
        raise EvaluationError(f"{where}: 'text' must be a text, got {str(text)[:60]!r}")
    title = row.get("title")
    document = Document(
        id=_string(row, "id", where), text=text, title=title if isinstance(title, str) else "", media_type=_MEDIA_TYPE
    )
    return document, _sections(document, row.get("sections") or [], where)


def question_of_row(row: Row, where: str) -> ScopeQuestion:
    """Return the question of a row.

    Raises:
        EvaluationError: the row is not of the layout.
    """
    given = row.get("evidence")
    if not isinstance(given, list) or not given or not all(isinstance(span, dict) for span in given):
        raise EvaluationError(f"{where}: 'evidence' must be a list of objects with start and end")
    spans: list[Span] = sorted((_offset(span, "start", where), _offset(span, "end", where)) for span in given)
    try:
        return ScopeQuestion(
            id=_string(row, "id", where),
            document=_string(row, "doc_id", where),
            text=_string(row, "question", where),
            evidence=tuple(spans),
            answer=str(row.get("answer") or ""),
            type=str(row.get("type") or ""),
        )
    except ParameterError as error:
        raise EvaluationError(f"{where}: {error}") from None


def _sections(document: Document, rows: object, where: str) -> tuple[Section, ...]:
    if not isinstance(rows, list):
        raise EvaluationError(f"{where}: 'sections' must be a list, got {str(rows)[:60]!r}")
    size = len(document.text)
    given = rows or [{"start": 0, "body_start": 0, "end": size, "level": 0, "path": []}]
    spans: list[tuple[int, int, int, int, tuple[str, ...]]] = []
    for number, row in enumerate(given, start=1):
        here = f"{where}, section {number}"
        path = row.get("path") if isinstance(row, dict) else None
        if not isinstance(path, list) or not all(isinstance(title, str) for title in path):
            raise EvaluationError(f"{here}: expected an object with a 'path' of texts, got {str(row)[:60]!r}")
        start, body_start, end, level = (_offset(row, key, here) for key in ("start", "body_start", "end", "level"))
        if not (spans[-1][2] if spans else 0) <= start <= body_start <= end <= size:
            raise EvaluationError(
                f"{here}: spans must follow each other with start <= body_start <= end <= {size}, "
                f"got {start}, {body_start}, {end}"
            )
        spans.append((start, body_start, end, level, tuple(path)))
    return tuple(_section(document.id, spans, position) for position in range(len(spans)))


def _section(name: str, spans: Sequence[tuple[int, int, int, int, tuple[str, ...]]], position: int) -> Section:
    start, body_start, end, level, path = spans[position]
    inside = position  # the last section that stands below this one
    while level and inside + 1 < len(spans) and spans[inside + 1][3] > level:
        inside += 1
    above = (place for place in range(position - 1, -1, -1) if 0 < spans[place][3] < level)
    return Section(
        id=span_id(name, "section", start, end),
        document_id=name,
        position=position,
        level=level,
        title=path[-1] if path and level else "",
        path=path,
        start=start,
        body_start=body_start,
        end=end,
        tree_end=spans[inside][2],
        parent=next(above, None),
    )


def _offset(row: Row, key: str, where: str) -> int:
    value = row.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise EvaluationError(f"{where}: {key!r} must be a whole number >= 0, got {str(value)[:60]!r}")
    return value


def _string(row: Row, key: str, where: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise EvaluationError(f"{where}: {key!r} must be a text that is not empty, got {str(value)[:60]!r}")
    return value


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


def is_divided(sections: Sequence[Section]) -> bool:
    """Return whether a document was given sections; one without any has the whole of it as its only one."""
    return len(sections) > 1 or any(section.level for section in sections)


def write_scope_dataset(path: str | Path, dataset: ScopeDataset, *, overwrite: bool = False) -> None:
    """Write the two files, packed, into a folder that is made where it is missing.

    Equal data sets give equal bytes. Both files are complete on disk before the first of them takes its place, so
    that a write that breaks off leaves no half file; the questions take theirs last.

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

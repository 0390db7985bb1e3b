"""Documents and questions with answer scopes as rows of JSON lines, and back, with every row checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from catena.evaluation.answer_scope import Span
from catena.evaluation.question_scope import ScopeQuestion
from catena.model import Document, Section
from catena.model.errors import EvaluationError, ParameterError
from catena.model.ids import span_id

Row: TypeAlias = Mapping[str, Any]

_MEDIA_TYPE = "text/plain"  # the sections are given: nobody is to look for headings again


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
        id=_string(row, "id", where),
        text=text,
        title=title if isinstance(title, str) else "",
        media_type=_MEDIA_TYPE,
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

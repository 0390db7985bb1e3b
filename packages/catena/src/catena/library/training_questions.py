"""Training questions as people write them: their evidence by ids of chunks, or quoted from documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catena.effects.steps import FetchById
from catena.evaluation.question_bank import DocumentNames, Gold, chunks_of_gold
from catena.graph.training import TrainingQuestion
from catena.model.errors import EvaluationError
from catena.text.json_lines import read_objects

if TYPE_CHECKING:
    from catena.effects.ports import Graph
    from catena.model import Entry

_HELD = 64  # documents kept in memory, since questions about one document tend to stand together


def read_supported_questions(
    path: str | Path, document_ids: Iterable[str], get: Callable[[str], Entry], graph: Graph
) -> tuple[TrainingQuestion, ...]:
    """Read JSON lines `{"question": "…", "supporting": [evidence, …]}`; other fields are not looked at.

    Evidence is the id of a chunk, or `{"document": "manual.pdf", "text": "a quote"}` ("source" will do, too): then
    the chunks that hold the quote, or at least half of it, but for white space. Without a document it is looked for
    in all. No evidence marks a question that is of no use here.

    Args:
        path: of a file, packed by gzip if it ends in ".gz".
        document_ids: of the library.
        get: a document with its chunks, by id.
        graph: in which the chunks must be.

    Raises:
        EvaluationError: the file cannot be read or holds no question, a line is of another layout, or evidence is
            found nowhere; the line is named.
    """
    path = Path(path)
    ids = tuple(document_ids)
    names, fetch = DocumentNames(ids), lru_cache(maxsize=_HELD)(get)
    found: list[TrainingQuestion] = []
    for where, row in read_objects(path):
        text, supporting = _row(row, where)
        chunks: list[str] = []
        for each in supporting:
            if isinstance(each, str):
                chunks.append(each)
            else:
                chunks.extend(_quoted(each, where, names, ids, fetch))
        _check_held([each for each in supporting if isinstance(each, str)], graph, where)
        found.append(TrainingQuestion(question=text, supporting=tuple(dict.fromkeys(chunks))))
    if not found:
        raise EvaluationError(f"{path.name} holds no question")
    return tuple(found)


def _row(row: dict[str, Any], where: str) -> tuple[str, list[Any]]:
    question, supporting = row.get("question"), row.get("supporting") or []
    if not isinstance(question, str) or not question.strip():
        raise EvaluationError(f"{where}: 'question' must be a text that is not empty, got {str(question)[:60]!r}")
    if not isinstance(supporting, list) or not all(each and isinstance(each, str | dict) for each in supporting):
        layout = 'a list of ids of chunks, or of {"document": "…", "text": "…"}'
        raise EvaluationError(f"{where}: 'supporting' must be {layout}, got {str(supporting)[:60]!r}")
    return question, supporting


def _quoted(
    place: dict[str, Any], where: str, names: DocumentNames, ids: Sequence[str], get: Callable[[str], Entry]
) -> list[str]:
    text, name = place.get("text"), place.get("document", place.get("source", ""))
    if not isinstance(text, str) or not text.strip() or not isinstance(name, str):
        raise EvaluationError(f"{where}: evidence needs a 'text' and may have a 'document', got {str(place)[:60]!r}")
    document = names.find(name) if name else None
    if name and document is None:
        raise EvaluationError(f"{where}: there is no document {name!r} in the library")
    gold = Gold(name=text, document=document or "", text=text)
    wanted = ids if document is None else (document,)
    chunks = sorted(chunk for each in wanted for chunk in chunks_of_gold(gold, [get(each)]))
    if not chunks:
        inside = f"in {document!r}" if document else "in any document"
        raise EvaluationError(f"{where}: no chunk {inside} holds the quote {text[:60]!r}, or half of it")
    return chunks


def _check_held(ids: Sequence[str], graph: Graph, where: str) -> None:
    chunks = graph.chunks_by_id(FetchById(chunk_ids=tuple(ids)))
    for lost in (name for name, chunk in zip(ids, chunks, strict=True) if chunk is None):
        raise EvaluationError(f"{where}: there is no chunk {lost[:60]!r} in the graph")

"""Questions with gold: read from JSON lines, and matched to the chunks of a library, whatever its chunking."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catena.evaluation.evidence import MIN_OVERLAP, GoldSpan, relevant_chunks
from catena.model import Chunk, Entry, EvaluationError
from catena.text import read_objects, same_words

KIND = "other"  # of a question that names none


@dataclass(frozen=True, slots=True, kw_only=True)
class Gold:
    """One thing that a reader must find; of several places that would do, any.

    Attributes:
        name: for messages and counts, unique within its question.
        document: its id, path or file name; "" searches every document, for a gold text only.
        span: 0-based characters [start, end) of the document's text.
        page: 1-based.
        heading: of the section, or of one above it.
        text: as it stands in the document, but for white space.

    Of span, page, heading and text at most one is given; with none, any part of the document will do.
    """

    name: str
    document: str = ""
    span: tuple[int, int] | None = None
    page: int | None = None
    heading: str | None = None
    text: str | None = None

    def __str__(self) -> str:
        page = "" if self.page is None else f"page {self.page}"
        named = [f"{key} {value[:40]!r}" for key, value in (("heading", self.heading), ("text", self.text)) if value]
        span = "" if self.span is None else f"characters {self.span[0]} to {self.span[1]}"
        return ", ".join(part for part in (self.document, page, *named, span) if part) or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class BankQuestion:
    """A question of a bank.

    Attributes:
        gold: what must be found; empty for a question without an answer in the collection, or without known gold.
        answer: the gold answer, "" if none is known.
    """

    id: str
    text: str
    kind: str = KIND
    gold: tuple[Gold, ...] = ()
    answer: str = ""


class DocumentNames:
    """Finds documents by what people call them: an id, a path in any folder, a file name with or without its type."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = frozenset(ids)
        self._by_tail: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
        for document_id in self._ids:
            parts = _parts(document_id)
            for spelled in {parts, (*parts[:-1], Path(parts[-1]).stem)} if parts else ():
                for start in range(len(spelled)):
                    self._by_tail[spelled[start:]].add(document_id)

    def find(self, name: str) -> str | None:
        """Return the id of the one document whose path ends as the name does, or None.

        Leading folders of the name are left out until some document's path ends with the rest.

        Raises:
            EvaluationError: several documents fit equally well.
        """
        if name in self._ids:
            return name
        parts = _parts(name)
        for start in range(len(parts)):
            found = self._by_tail.get(parts[start:], set())
            if len(found) == 1:
                return next(iter(found))
            if found:
                some = ", ".join(sorted(found)[:3])
                raise EvaluationError(f"document {name!r} may be any of {len(found)}: {some}. Try: more of its path")
        return None


def read_questions(path: str | Path) -> tuple[BankQuestion, ...]:
    """Read a file of JSON lines, in one of two layouts; ids are the row numbers where a row names none.

    - Simple: `{"question": "…", "gold": {"document": "manual.pdf", "page": 3}}`. Gold is one place or a list of
      them, each with "document" (or "source") and at most one of "page", "heading", "text"; a "text" without a
      document is looked for in every one. No gold, null or [] marks a question that the collection does not
      answer. Also read: "id", "kind", "answer".
    - With sections: `{"qid": …, "question": …, "kind": …, "gold": [section ids]}`, beside it `sections.jsonl` with
      section_id, doc_id, start and end, and if there is one `documents.json` with doc_id and path.

    Raises:
        EvaluationError: a file cannot be read, a row is not of the layout, or an id occurs twice.
    """
    path = Path(path)
    questions: dict[str, BankQuestion] = {}
    sections: dict[str, Gold] | None = None
    for where, row in read_objects(path):
        gold = row.get("gold")
        if isinstance(gold, list) and gold and all(isinstance(each, str) for each in gold):
            sections = _sections(path.parent) if sections is None else sections
            places = tuple(_section(each, sections, where) for each in gold)
        else:
            rows = [] if gold is None else gold if isinstance(gold, list) else [gold]
            places = tuple(_place(each, f"gold {number}", where) for number, each in enumerate(rows, start=1))
        question = BankQuestion(
            id=str(row.get("qid") or row.get("id") or f"row {len(questions) + 1}"),
            text=_string(row, "question", where),
            kind=str(row.get("kind") or KIND),
            gold=places,
            answer=str(row.get("answer") or ""),
        )
        if question.id in questions:
            raise EvaluationError(f"{where}: the id {question.id!r} stands twice")
        questions[question.id] = question
    if not questions:
        raise EvaluationError(f"{path.name} holds no question")
    return tuple(questions.values())


def chunks_of_gold(gold: Gold, entries: Iterable[Entry], *, min_overlap: float = MIN_OVERLAP) -> frozenset[str]:
    """Return the ids of the chunks that hold a gold place; none where the place is not in these documents.

    Args:
        gold: its document name is not looked at.
        entries: the document that it names, or all of them where it names none.
        min_overlap: of chunk and span, as in `chunks_of_items`.

    Raises:
        ParameterError: min_overlap is not in (0, 1].
    """
    found: set[str] = set()
    for entry in entries:
        if gold.span is not None:
            found |= _covering(entry, [gold.span], min_overlap)
        elif gold.text is not None:
            found |= _covering(entry, _occurrences(gold.text, entry.document.text), min_overlap)
        else:
            found |= {chunk.id for chunk in entry.chunks if _holds(chunk, gold)}
    return frozenset(found)


def _covering(entry: Entry, spans: Sequence[tuple[int, int]], min_overlap: float) -> frozenset[str]:
    golds = [GoldSpan(item="gold", document_id=entry.document.id, start=start, end=end) for start, end in spans]
    return relevant_chunks(entry.chunks, golds, min_overlap=min_overlap)


def _occurrences(text: str, document: str) -> list[tuple[int, int]]:
    """Return every place of a text, with white space of any kind and length between its words."""
    words = text.split()
    pattern = r"\s+".join(map(re.escape, words))
    return [match.span() for match in re.finditer(pattern, document)] if words else []


def _holds(chunk: Chunk, gold: Gold) -> bool:
    if gold.page is not None:
        return chunk.pages is not None and chunk.pages[0] <= gold.page <= chunk.pages[1]
    if gold.heading is not None:
        return any(same_words(title, gold.heading) for title in chunk.path)
    return True


def _parts(name: str) -> tuple[str, ...]:
    return tuple(part for part in name.replace("\\", "/").split("/") if part not in ("", ".", ".."))


def _sections(folder: Path) -> dict[str, Gold]:
    """Return the gold sections beside a file of questions, by section id."""
    documents = folder / "documents.json"
    paths: dict[str, str] = {}
    if documents.exists():
        try:
            paths = {row["doc_id"]: row["path"] for row in json.loads(documents.read_text(encoding="utf-8"))}
        except (OSError, ValueError, KeyError, TypeError) as error:
            what = f"documents.json is no list of objects with doc_id and path ({type(error).__name__})"
            raise EvaluationError(what) from None
    sections: dict[str, Gold] = {}
    for where, row in read_objects(folder / "sections.jsonl"):
        name, document = _string(row, "section_id", where), _string(row, "doc_id", where)
        start, end = row.get("start"), row.get("end")
        if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start < end:
            raise EvaluationError(f"{where}: start and end must be offsets with 0 <= start < end")
        sections[name] = Gold(name=name, document=str(paths.get(document, document)), span=(start, end))
    return sections


def _section(name: str, sections: Mapping[str, Gold], where: str) -> Gold:
    if name not in sections:
        raise EvaluationError(f"{where}: the gold section {name!r} is not in sections.jsonl")
    return sections[name]


def _place(row: object, name: str, where: str) -> Gold:
    if not isinstance(row, dict):
        raise EvaluationError(f"{where}: gold must be an object or a list of objects, got {str(row)[:60]!r}")
    document = str(row.get("document") or row.get("source") or "")
    given = [key for key in ("page", "heading", "text") if row.get(key) is not None]
    if len(given) > 1:
        raise EvaluationError(f"{where}: {name} has {' and '.join(given)}. Try: one of them")
    if not document and given != ["text"]:
        raise EvaluationError(f'{where}: {name} names no document. Try: {{"document": "manual.pdf", "page": 3}}')
    page = row.get("page")
    if page is not None and (not isinstance(page, int) or isinstance(page, bool) or page < 1):
        raise EvaluationError(f"{where}: the page of {name} must be 1 or more, got {page!r}")
    heading, text = (_string(row, key, f"{where}, {name}") if key in given else None for key in ("heading", "text"))
    return Gold(name=name, document=document, page=page, heading=heading, text=text)


def _string(row: Mapping[str, Any], key: str, where: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise EvaluationError(f"{where}: {key!r} must be a text that is not empty, got {str(value)[:60]!r}")
    return value

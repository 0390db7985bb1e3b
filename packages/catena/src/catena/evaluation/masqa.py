"""Question banks in the layout of MasQA, HiQA's data: QA and QAC tables as CSV or xlsx, in English and Chinese.

The bank itself has no licence and is not part of Catena; what is read here is its layout, as far as it is known.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catena.evaluation.grading import choice_letters
from catena.evaluation.question_bank import KIND, BankQuestion, Gold
from catena.model.errors import EvaluationError, MissingExtraError

COLUMNS = {
    "question": ("question", "questions", "q", "query", "问题", "题目", "提问"),
    "answer": ("answer", "answers", "a", "gold", "ground truth", "correct answer", "答案", "回答", "正确答案"),
    "context": ("context", "contexts", "c", "segment", "target segment", "上下文", "原文", "段落", "片段", "出处"),
    "kind": ("type", "kind", "question type", "category", "类型", "题型", "问题类型"),
    "id": ("id", "no", "no.", "number", "index", "编号", "序号"),
}
"""Names under which a column is recognised, compared without case, white space around, "_" and "-"."""

_OPTION = re.compile(
    r"(?:^|(?<=[\s()（）;；,，.。?？]))([A-H])\s*+[:：.、,，)）]\s*+(\S[^\n]*?)(?=(?<!\s)\s++[A-H]\s*+[:：.、,，)）]|$)",
    re.M,
)


@dataclass(frozen=True, slots=True)
class Remark:
    """Something of a row that a person should look at; rows are counted from 1, as a spreadsheet does."""

    row: int
    question: str  # its id
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MasqaBank:
    """The questions of one table, in order, and what is not as it should be.

    Attributes:
        has_contexts: whether it is a QAC table; the gold of each question is then its context, as a text.
        remarks: missing answers and contexts, empty questions, and answers that name a letter which is no option of
            the question or whose words are those of another option.
    """

    questions: tuple[BankQuestion, ...]
    has_contexts: bool
    remarks: tuple[Remark, ...]


def read_masqa(path: str | Path) -> MasqaBank:
    """Read a QA or QAC table: .csv in UTF-8 (with or without a byte-order mark) or GB18030, or .xlsx.

    Columns are found by their names (`COLUMNS`), in any order; others are left alone. A table without a known header
    is taken to be question, answer and, if there is a third column, context. Of a workbook the first sheet is read.
    A row without a question is left out and remarked; every other row is kept.

    Raises:
        EvaluationError: the file cannot be read, is no table, or has no row with a question; the row is named.
        MissingExtraError: an .xlsx without openpyxl.
    """
    path = Path(path)
    rows = list(_workbook(path) if path.suffix.lower() == ".xlsx" else _csv(path))
    if not rows:
        raise EvaluationError(f"{path.name} holds no rows")
    columns = _columns(rows[0][1])
    if columns is None:
        width = max(len(cells) for _, cells in rows)
        if width < 2:
            raise EvaluationError(
                f"{path.name}, row {rows[0][0]}: no columns for question and answer. "
                "Try: a header with 'question', 'answer' and, if known, 'context'"
            )
        columns = dict(zip(("question", "answer", "context"), range(width), strict=False))
    else:
        rows = rows[1:]
    return _bank(path, rows, columns)


def _bank(path: Path, rows: Sequence[tuple[int, list[str]]], columns: dict[str, int]) -> MasqaBank:
    questions: list[BankQuestion] = []
    remarks: list[Remark] = []
    taken: set[str] = set()
    for number, cells in rows:
        if not any(cells):
            continue
        values = {name: cells[at] if at < len(cells) else "" for name, at in columns.items()}
        question_id = values.get("id") or f"row {number}"
        if question_id in taken:
            raise EvaluationError(f"{path.name}, row {number}: the id {question_id!r} stands twice")
        taken.add(question_id)
        found = [Remark(number, question_id, what) for what in _faults(values)]
        remarks += found
        if values["question"]:
            questions.append(_question(question_id, values))
    if not questions:
        raise EvaluationError(f"{path.name}: no row has a question")
    return MasqaBank(questions=tuple(questions), has_contexts="context" in columns, remarks=tuple(remarks))


def _question(question_id: str, values: dict[str, str]) -> BankQuestion:
    context = values.get("context", "")
    return BankQuestion(
        id=question_id,
        text=values["question"],
        kind=values.get("kind") or KIND,
        gold=(Gold(name="context", text=context),) if context else (),
        answer=values.get("answer", ""),
    )


def _faults(values: dict[str, str]) -> Iterator[str]:
    if not values["question"]:
        yield "the question is missing; the row is left out"
        return
    answer = values.get("answer", "")
    if not answer:
        yield "the answer is missing"
    if "context" in values and not values["context"]:
        yield "the context is missing"
    yield from _contradictions(values["question"], answer)


def _contradictions(question: str, answer: str) -> Iterator[str]:
    """Yield where the letters of an answer are no options of the question, or its words are another option's."""
    options = {match[1]: match[2].strip(" .。;；,，") for match in _OPTION.finditer(question)}
    letters = choice_letters(answer) if len(options) > 1 else None
    for letter in sorted(letters or ()):
        if letter not in options:
            yield f"the answer names {letter}, the options are {', '.join(sorted(options))}"
    for match in _OPTION.finditer(answer) if letters else ():
        letter, words = match[1], _plain(match[2])
        others = [other for other, text in options.items() if other != letter and _plain(text) == words]
        if letter in options and _plain(options[letter]) != words and others:
            yield f"the answer says {letter} with the words of {', '.join(others)}"


def _plain(text: str) -> str:
    return "".join(text.split()).casefold().strip(".。;；,，")


def _columns(header: Sequence[str]) -> dict[str, int] | None:
    """Return the places of the known columns, or None where the row names no question and answer."""
    names = [" ".join(re.sub(r"[_-]", " ", cell).split()).casefold() for cell in header]
    found: dict[str, int] = {}
    for column, spellings in COLUMNS.items():
        at = next((names.index(spelled) for spelled in spellings if spelled in names), None)
        if at is not None:
            found[column] = at
    return found if "question" in found else None


def _csv(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield (row from 1, cells); a cell may hold line breaks, so a row may be several lines."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EvaluationError(f"cannot read {path.name}: {error.strerror or 'unreadable'}") from None
    reader = csv.reader(io.StringIO(_decoded(path, data), newline=""), strict=True)
    try:
        for number, cells in enumerate(reader, start=1):
            yield number, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise EvaluationError(f"{path.name}, line {reader.line_num}: not CSV ({error})") from None


def _decoded(path: Path, data: bytes) -> str:
    for encoding in ("utf-8-sig", "gb18030"):  # what Chinese spreadsheets write where they do not write UTF-8
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise EvaluationError(f"{path.name} is neither UTF-8 nor GB18030. Try: saving it as UTF-8")


def _workbook(path: Path) -> Iterator[tuple[int, list[str]]]:
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise MissingExtraError("openpyxl", "eval") from error
    try:
        book = load_workbook(path, read_only=True, data_only=True)
        rows: list[Any] = [*book.worksheets[0].iter_rows(values_only=True)] if book.worksheets else []
        book.close()
    except Exception as error:  # openpyxl lets through what zip, XML and its own checks raise
        raise EvaluationError(f"cannot read {path.name} as a workbook ({type(error).__name__})") from None
    for number, cells in enumerate(rows, start=1):
        yield number, ["" if cell is None else str(cell).strip() for cell in cells]

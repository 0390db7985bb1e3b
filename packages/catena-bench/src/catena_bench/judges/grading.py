"""Grade choice and judgement questions without a judge; read grades, ranks and question banks (MasQA) from files.

The bank itself has no licence and is not part of Catena; what is read here is its layout, as far as it is known.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypeAlias

from catena.evaluation import BankQuestion, Gold
from catena.evaluation.question_bank import KIND
from catena.model import EvaluationError, ParameterError

ClosedKind: TypeAlias = Literal["single", "multiple", "judgement"]

_GAP = r"(?:[\s,，、;；/&+()（）\[\]*.]|\band\b|和|与)*"  # between letters, and around them
_LETTERS = re.compile(rf"(?P<letters>[A-H](?:{_GAP}[A-H])*)(?![A-Za-z0-9'])")  # more options no bank has
_ONLY_LETTERS = re.compile(rf"{_GAP}{_LETTERS.pattern}{_GAP}")
_MARK = re.compile(
    r"(?:\b(?i:answers?|options?|choices?|choose|select)(?:\s+(?i:is|are|options?))*\b|答案(?:是|为)?|选择?)[\s:：*(（\[]*"
)
_LABEL = re.compile(r"(?:^|[;；])(?:[^\S\n]|[(（\[*])*+(?P<letters>[A-H])[)）\]*]*\s*(?:[:：.、)）]|$)", re.MULTILINE)
_TRUE = r"true|yes|correct|right|t|y|对|正确|是|真|√|✓"
_FALSE = r"false|no|incorrect|wrong|f|n|错误?|不正确|不对|不是|否|假|×|✗"
_VERDICT = re.compile(
    r"\W*(?:(?:the\s+)?(?:statement|answer)\s+is\s+|(?:该|此)?(?:说法|陈述|答案)(?:是|为)?[:：]?\s*)?"
    rf"(?:(?P<false>{_FALSE})|(?P<true>{_TRUE}))(?![A-Za-z/]|\s+or\b)",
    re.IGNORECASE,
)


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


def choice_letters(answer: str) -> frozenset[str] | None:
    """Return the option letters that an answer names, or None if it names none clearly.

    Read in this order, capital letters A to H only:

    1. the whole answer is letters and separators: "B", "(B)", "ABD", "A, B and D", "A、B";
    2. the letters behind a mark: "The answer is B", "Options: A, D", "答案：AB", "选C";
    3. the labels at line starts and behind semicolons: "A: Electronic warfare; B: Satellite".

    The article of "A NCO is …" is none of these. A letter that is named twice counts once.
    """
    if found := _ONLY_LETTERS.fullmatch(answer.strip()):
        return _set_of(found["letters"])
    for mark in _MARK.finditer(answer):
        found = _LETTERS.match(answer, mark.end())
        if found and answer[found.end() : found.end() + 1] not in (":", "："):
            return _set_of(found["letters"])
        if found:  # the first of several labels
            return frozenset(label["letters"] for label in _LABEL.finditer(answer[mark.end() :])) or None
    return frozenset(label["letters"] for label in _LABEL.finditer(answer)) or None


def verdict(answer: str) -> bool | None:
    """Return whether an answer begins by saying true (yes, correct, 对) or false (no, wrong, 错), or None.

    Only the first word, or the first one after "the statement is", is believed: in "not entirely correct" a word
    further on would say the opposite of the answer.
    """
    match = _VERDICT.match(answer)
    return None if match is None else match["true"] is not None


def closed_grade(given: str, correct: str, kind: ClosedKind) -> float | None:
    """Return the grade of an answer to a closed question: 1, 0.5 or 0; None where a person must look.

    - single: 1 if exactly the correct letter is named, else 0.
    - multiple: 1 if exactly the correct letters are named; 0.5 if some of them and no wrong one; else 0.
    - judgement: 1 if the verdicts are the same, else 0.

    An empty answer is wrong. One whose letters or verdict are not clear is None: neither right nor wrong is guessed.

    Args:
        given: what a method answered.
        correct: the gold answer.
        kind: of the question.

    Raises:
        ParameterError: the kind is not one of the three.
        EvaluationError: the gold answer names no letter or verdict, or several for a single choice.
    """
    if kind == "judgement":
        truth, said = verdict(correct), verdict(given)
        if truth is None:
            raise EvaluationError(f"the gold answer {correct!r} is neither true nor false")
        return _unless_empty(given, None if said is None else float(said == truth))
    if kind not in ("single", "multiple"):
        raise ParameterError("kind", kind, "one of single, multiple, judgement")
    right, named = choice_letters(correct), choice_letters(given)
    if right is None or (kind == "single" and len(right) != 1):
        raise EvaluationError(f"the gold answer {correct!r} does not name the letter of a {kind} choice")
    if named is None:
        return _unless_empty(given, None)
    if named == right:
        return 1.0
    return 0.5 if kind == "multiple" and named < right else 0.0


def _unless_empty(given: str, grade: float | None) -> float | None:
    return grade if given.strip() else 0.0


def _set_of(letters: str) -> frozenset[str]:
    return frozenset(re.sub(_GAP, "", letters))


def read_grades(path: str | Path) -> tuple[dict[str, float], dict[str, str]]:
    """Read a table with the columns question, grade and, if there is one, kind; in any order, others are left alone.

    Returns:
        The grade of each question, and its kind (empty where there is no such column).

    Raises:
        EvaluationError: the file is no such table, a grade is no number, or a question is graded twice; with the row.
    """
    grades: dict[str, float] = {}
    kinds: dict[str, str] = {}
    for where, row in _rows(Path(path), ("question", "grade")):
        question = row["question"]
        if question in grades:
            raise EvaluationError(f"{where}: question {question!r} is graded twice")
        grades[question] = _number(row["grade"], where, "grade")
        if "kind" in row:
            kinds[question] = row["kind"]
    return grades, kinds


def read_ranks(path: str | Path) -> dict[str, dict[str, float]]:
    """Read a table with the columns question, method and rank, a row for each answer that was ranked.

    Returns:
        Ranks by question and method.

    Raises:
        EvaluationError: the file is no such table, a rank is no number, or a method is ranked twice for a question.
    """
    ranks: dict[str, dict[str, float]] = {}
    for where, row in _rows(Path(path), ("question", "method", "rank")):
        of_question = ranks.setdefault(row["question"], {})
        if row["method"] in of_question:
            raise EvaluationError(f"{where}: method {row['method']!r} is ranked twice for {row['question']!r}")
        of_question[row["method"]] = _number(row["rank"], where, "rank")
    return ranks


def _rows(path: Path, needed: tuple[str, ...]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (place for messages, cells by column); rows are counted from 1, the header is the first."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or "unreadable") if isinstance(error, OSError) else "not UTF-8"
        raise EvaluationError(f"cannot read {path.name}: {reason}") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [cell.strip().casefold() for cell in next(reader, [])]
        if missing := [name for name in needed if name not in header]:
            raise EvaluationError(f"{path.name}: no column {missing[0]!r}; it needs {', '.join(needed)}")
        for number, cells in enumerate(reader, start=2):
            if not any(cell.strip() for cell in cells):
                continue
            where = f"{path.name}, row {number}"
            if len(cells) != len(header):
                raise EvaluationError(f"{where}: {len(cells)} cells under {len(header)} columns")
            row = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
            if empty := [name for name in needed if not row[name]]:
                raise EvaluationError(f"{where}: the {empty[0]} is missing")
            yield where, row
    except csv.Error as error:
        raise EvaluationError(f"{path.name}, line {reader.line_num}: not CSV ({error})") from None


def _number(text: str, where: str, name: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise EvaluationError(f"{where}: the {name} must be a number, got {text!r}")
    return number


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
    from openpyxl import load_workbook

    try:
        book = load_workbook(path, read_only=True, data_only=True)
        rows: list[Any] = [*book.worksheets[0].iter_rows(values_only=True)] if book.worksheets else []
        book.close()
    except Exception as error:  # openpyxl lets through what zip, XML and its own checks raise
        raise EvaluationError(f"cannot read {path.name} as a workbook ({type(error).__name__})") from None
    for number, cells in enumerate(rows, start=1):
        yield number, ["" if cell is None else str(cell).strip() for cell in cells]

"""Grades and ranks that people gave, read from CSV: what `accuracy` and `adequacy` take."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from math import isfinite
from pathlib import Path

from catena.model.errors import EvaluationError


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

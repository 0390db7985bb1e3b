"""TREC qrels and run files: read with the line named in every error, written so that any tool agrees on the order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from catena.evaluation.judgements import Qrels, Run, check_ids, match_queries, ranked_ids
from catena.model.errors import EvaluationError

FilePath: TypeAlias = str | PathLike[str]

_INTEGER = re.compile(r"[+-]?[0-9]{1,6}")  # int() and float() would also take 1_000 and digits of other scripts
_DECIMAL = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")


def read_qrels(path: FilePath) -> dict[str, dict[str, int]]:
    """Read judgements: lines of `query iteration piece grade`, split at white space; the iteration is not used.

    Raises:
        EvaluationError: the file cannot be read, a line has not four fields, a grade is not an integer, or a piece is
            judged twice for one query.
    """
    qrels: dict[str, dict[str, int]] = {}
    for where, (query, _, piece, grade) in _rows(path, ("query", "iteration", "piece", "grade")):
        if not _INTEGER.fullmatch(grade):
            raise EvaluationError(f"{where}: the grade must be a small integer, got {grade!r}")
        if piece in qrels.setdefault(query, {}):
            raise EvaluationError(f"{where}: piece {piece!r} is judged twice for query {query!r}")
        qrels[query][piece] = int(grade)
    return qrels


def read_run(path: FilePath) -> dict[str, dict[str, float]]:
    """Read a run: lines of `query Q0 piece rank score tag`, split at white space.

    As in trec_eval, only the score orders the pieces; rank and tag are not used. Pieces of equal score are ordered by
    id, lowest first (trec_eval: highest first), and are ties to the Log-Rank Index.

    Returns:
        Scores by query and piece, best first.

    Raises:
        EvaluationError: the file cannot be read, a line has not six fields, a score is not a finite number, or a
            piece is ranked twice for one query.
    """
    run: dict[str, dict[str, float]] = {}
    for where, (query, _, piece, _, score, _) in _rows(path, ("query", "Q0", "piece", "rank", "score", "tag")):
        if piece in run.setdefault(query, {}):
            raise EvaluationError(f"{where}: piece {piece!r} is ranked twice for query {query!r}")
        run[query][piece] = _score(score, where)
    return {
        query: dict(sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))) for query, scores in run.items()
    }


def write_qrels(qrels: Qrels, path: FilePath) -> None:
    """Write judgements, sorted by query and piece; a query without judgements cannot be written and is refused.

    Raises:
        EvaluationError: an id is empty, holds white space or is not a string, a grade is not an integer, a query has
            no judgement, or the file cannot be written. Nothing is written then.
    """
    match_queries(qrels, {})  # checks ids and grades
    lines = []
    for query in sorted(qrels):
        if not qrels[query]:
            raise EvaluationError(
                f"query {query!r} has no judgement, and qrels files cannot say so. Try: grade a piece 0"
            )
        for piece, grade in sorted(qrels[query].items()):
            lines.append(f"{_field(query)} 0 {_field(piece)} {int(grade)}\n")
    _write(path, lines)


def write_run(run: Run, path: FilePath, *, tag: str = "catena") -> None:
    """Write a run, sorted by query, best piece first.

    The scores written are k, k-1, …, 1 for a ranking of k pieces: the format's readers sort by score again and break
    ties each in its own way (and in single precision), so scores of the ranking itself could change its order. A
    query for which nothing was returned has no line.

    Raises:
        EvaluationError: an id or the tag is empty or holds white space, an id is not a string or is ranked twice, or
            the file cannot be written. Nothing is written then.
    """
    check_ids(run, "queries of the run")
    name = _field(tag)
    lines = []
    for query in sorted(run):
        ids = ranked_ids(run[query], f"query {query!r}")
        for rank, piece in enumerate(ids, start=1):
            lines.append(f"{_field(query)} Q0 {_field(piece)} {rank} {len(ids) - rank + 1} {name}\n")
    _write(path, lines)


def _rows(path: FilePath, fields: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """Yield (place for messages, fields) of each line that is not blank; lines are counted from 1."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise EvaluationError(f"cannot read {Path(path).name}: {_reason(error)}") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{Path(path).name}, line {number}"
        row = line.split()
        if len(row) != len(fields):
            raise EvaluationError(f"{where}: expected {len(fields)} fields ({' '.join(fields)}), got {len(row)}")
        yield where, row


def _score(text: str, where: str) -> float:
    if not _DECIMAL.fullmatch(text) or not isfinite(float(text)):
        raise EvaluationError(f"{where}: the score must be a finite number, got {text!r}")
    return float(text)


def _field(name: str) -> str:
    if not name or any(character.isspace() for character in name):
        raise EvaluationError(
            f"{name!r} cannot stand in a TREC file: its fields are separated by white space. "
            "Try: ids without white space, e.g. the ids Catena derives"
        )
    return name


def _write(path: FilePath, lines: list[str]) -> None:
    try:
        data = "".join(lines).encode("utf-8")
        Path(path).write_bytes(data)
    except (OSError, UnicodeEncodeError) as error:
        raise EvaluationError(f"cannot write {Path(path).name}: {_reason(error)}") from error


def _reason(error: OSError | UnicodeDecodeError | UnicodeEncodeError) -> str:
    """Return what went wrong without the path, which is not for every reader of a message."""
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else f"not UTF-8 ({error.reason})"

"""Read and check what metrics are computed from: judgements (qrels) and rankings (runs) of the same queries.

Ids are strings on both sides. TREC files and JSON turn numbers into strings silently, and a run of int ids against
qrels of str ids scores 0 everywhere without a word; here it is an error.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, isnan
from numbers import Integral
from operator import itemgetter
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from catena.model import EvaluationError, Ranking

Qrels: TypeAlias = Mapping[str, Mapping[str, int]]  # query id -> piece id -> grade; 1 and above is relevant
Ranked: TypeAlias = Ranking | Mapping[str, float] | Sequence[str]  # best first, or a score per piece id
Run: TypeAlias = Mapping[str, Ranked]  # query id -> what was returned for it

_MAX_GRADE = 1_000  # trec_eval counts each possible grade, and seems to hang on one of a million
FilePath: TypeAlias = str | PathLike[str]
_INTEGER = re.compile(r"[+-]?[0-9]{1,6}")  # int() and float() would also take 1_000 and digits of other scripts
_DECIMAL = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")


def relevant_ids(grades: Mapping[str, int]) -> frozenset[str]:
    """Return the ids of grade 1 and above; grade 0 is judged irrelevant, a negative one is junk."""
    return frozenset(piece for piece, grade in grades.items() if grade >= 1)


def scored_ids(ranked: Ranked, where: str = "ranking") -> tuple[tuple[str, float], ...]:
    """Return (id, score) pairs, best first.

    Args:
        ranked: a `Ranking` keeps its order; a mapping is sorted by score, highest first, then by id, lowest first;
            a sequence of ids is best first and gets the strictly falling scores 0, -1, -2, …
        where: names the ranking in messages.

    Raises:
        EvaluationError: an id is not a string or occurs twice, a score is not a number, or a `Ranking` is not
            best first.
    """
    if isinstance(ranked, Ranking):
        pairs = [(hit.chunk.id, float(hit.score)) for hit in ranked.hits]
        if any(later[1] > earlier[1] for earlier, later in pairwise(pairs)):
            what = f"{where}: hits are not best first. Try: Ranking.of(hits, scale), which orders them"
            raise EvaluationError(what)
    elif isinstance(ranked, Mapping):
        check_ids(ranked, where)
        pairs = sorted(zip(ranked, _numbers(ranked.values(), where), strict=True))
        pairs.sort(key=itemgetter(1), reverse=True)  # stable: ties stay ordered by id
    else:
        if not isinstance(ranked, Sequence):
            got, allowed = type(ranked).__name__, "a Ranking, scores by id, or a list of ids, best first"
            raise EvaluationError(f"{where}: expected {allowed}; got {got}")
        check_ids(ranked, where)
        pairs = [(piece, -float(index)) for index, piece in enumerate(ranked)]
    if len({piece for piece, _ in pairs}) != len(pairs):
        seen: set[str] = set()
        twice = next(piece for piece, _ in pairs if piece in seen or seen.add(piece))  # type: ignore[func-returns-value]
        raise EvaluationError(f"{where}: piece {twice!r} is ranked twice. Try: keep its best rank only")
    return tuple(pairs)


def ranked_ids(ranked: Ranked, where: str = "ranking") -> tuple[str, ...]:
    """Return the ids, best first; order and errors as in `scored_ids`."""
    return tuple(piece for piece, _ in scored_ids(ranked, where))


def check_ids(ids: Iterable[object], where: str) -> None:
    """Raise `EvaluationError` unless every id is a string, and the ids are not one string themselves."""
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise EvaluationError(f"{where}: expected several ids, got {ids!r}. Try: [{ids!r}]")
    for piece in ids:
        if not isinstance(piece, str):
            raise EvaluationError(
                f"{where}: id {piece!r} is of type {type(piece).__name__}, not str; judgements and rankings must "
                "name pieces and queries by the same strings. Try: str(id) on both sides"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySet:
    """The queries that judgements and a run share, and those of one alone; every tuple is sorted by query id.

    Attributes:
        defined: queries with at least one relevant piece: a mean is taken over exactly these.
        undefined: judged queries without a relevant piece: excluded from means, and counted.
        missing: defined queries that the run does not hold: they count 0.
        unjudged: queries of the run that have no judgements: ignored, and counted.
    """

    defined: tuple[str, ...]
    undefined: tuple[str, ...]
    missing: tuple[str, ...]
    unjudged: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{len(self.defined)} queries, {len(self.missing)} of them missing from the run and counted 0; "
            f"left out: {len(self.undefined)} without a relevant piece, {len(self.unjudged)} unjudged"
        )


def match_queries(qrels: Qrels, run: Run) -> QuerySet:
    """Return how the queries match, after a check of every id in the judgements and of the run's query ids.

    Raises:
        EvaluationError: an id is not a string, a grade is not an integer, or the run is not empty and none of its
            queries is judged (usually another naming of the queries).
    """
    check_ids(qrels, "queries of the qrels")
    check_ids(run, "queries of the run")
    for query, grades in qrels.items():
        _check_grades(query, grades)
    if run and qrels and not any(query in qrels for query in run):
        raise EvaluationError(
            f"no query of the run is judged: the run has {min(run)!r}, the qrels have {min(qrels)!r}. "
            "Try: the same query ids in both"
        )
    defined = {query for query, grades in qrels.items() if relevant_ids(grades)}
    return QuerySet(
        defined=tuple(sorted(defined)),
        undefined=tuple(sorted(set(qrels) - defined)),
        missing=tuple(sorted(defined - set(run))),
        unjudged=tuple(sorted(set(run) - set(qrels))),
    )


@contextmanager
def named(owner: str) -> Iterator[None]:
    """Say of an `EvaluationError` whose it is."""
    try:
        yield
    except EvaluationError as error:
        raise EvaluationError(f"{owner}: {error}") from None


def as_relevant(relevant: Collection[str]) -> frozenset[str]:
    """Return the relevant ids as a set, after the check of their types."""
    check_ids(relevant, "relevant ids")
    return frozenset(relevant)


def _check_grades(query: str, grades: Mapping[str, int]) -> None:
    if not isinstance(grades, Mapping):
        raise EvaluationError(f"qrels, query {query!r}: expected a mapping of piece id to grade, got {grades!r}")
    check_ids(grades, f"qrels, query {query!r}")
    for piece, grade in grades.items():
        if not isinstance(grade, Integral) or abs(grade) > _MAX_GRADE:
            raise EvaluationError(
                f"qrels, query {query!r}: the grade of {piece!r} must be an integer within ±{_MAX_GRADE:,}, "
                f"got {grade!r}"
            )


def _numbers(values: Collection[object], where: str) -> list[float]:
    try:
        numbers = [float(value) for value in values]  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError) as error:
        raise EvaluationError(f"{where}: every score must be a number ({error})") from error
    if any(map(isnan, numbers)):
        raise EvaluationError(f"{where}: every score must be a number, not NaN")
    return numbers


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
        if not _DECIMAL.fullmatch(score) or not isfinite(float(score)):
            raise EvaluationError(f"{where}: the score must be a finite number, got {score!r}")
        run[query][piece] = float(score)
    return {query: dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))) for query, found in run.items()}


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
            what = f"query {query!r} has no judgement, and qrels files cannot say so. Try: grade a piece 0"
            raise EvaluationError(what)
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


def _field(name: str) -> str:
    if not name or any(character.isspace() for character in name):
        raise EvaluationError(
            f"{name!r} cannot stand in a TREC file: its fields are separated by white space. "
            "Try: ids without white space, e.g. the ids Catena derives"
        )
    return name


def _write(path: FilePath, lines: list[str]) -> None:
    try:
        Path(path).write_bytes("".join(lines).encode("utf-8"))
    except (OSError, UnicodeEncodeError) as error:
        raise EvaluationError(f"cannot write {Path(path).name}: {_reason(error)}") from error


def _reason(error: OSError | UnicodeDecodeError | UnicodeEncodeError) -> str:
    """Return what went wrong without the path, which is not for every reader of a message."""
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else f"not UTF-8 ({error.reason})"

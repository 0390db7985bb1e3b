"""What metrics are computed from: judgements (qrels), rankings (runs), and whether the two can be compared.

Ids are strings on both sides. TREC files and JSON turn numbers into strings silently, and a run of int ids against
qrels of str ids scores 0 everywhere without a word; here it is an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isnan
from numbers import Integral
from operator import itemgetter
from typing import TypeAlias

from catena.model import Ranking
from catena.model.errors import EvaluationError

Qrels: TypeAlias = Mapping[str, Mapping[str, int]]  # query id -> piece id -> grade; 1 and above is relevant
Ranked: TypeAlias = Ranking | Mapping[str, float] | Sequence[str]  # best first, or a score per piece id
Run: TypeAlias = Mapping[str, Ranked]  # query id -> what was returned for it

_MAX_GRADE = 1_000  # trec_eval counts each possible grade, and seems to hang on one of a million


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
            raise EvaluationError(
                f"{where}: hits are not best first. Try: Ranking.of(hits, scale), which orders them"
            )
    elif isinstance(ranked, Mapping):
        check_ids(ranked, where)
        pairs = sorted(zip(ranked, _numbers(ranked.values(), where), strict=True))
        pairs.sort(key=itemgetter(1), reverse=True)  # stable: ties stay ordered by id
    else:
        _check_sequence(ranked, where)
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
    """How the queries of judgements and of a run match; every tuple is sorted by query id.

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


def as_relevant(relevant: Collection[str]) -> frozenset[str]:
    """Return the relevant ids as a set, after the check of their types."""
    check_ids(relevant, "relevant ids")
    return frozenset(relevant)


def _check_sequence(ids: object, where: str) -> None:
    if not isinstance(ids, Sequence):
        got = type(ids).__name__
        raise EvaluationError(f"{where}: expected a Ranking, scores by id, or a list of ids, best first; got {got}")
    check_ids(ids, where)


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

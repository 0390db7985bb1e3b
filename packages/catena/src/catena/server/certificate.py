"""Whether a ranking of a formula is the one that scoring every chunk would give: pure, over the parts that were seen.

Words and terms are exact for every chunk that a server returns; only the vectors of the nearest k are compared. So a
chunk whose vector was not has at most the score of its words and terms, and the part of the k-th neighbour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from heapq import nsmallest
from math import inf, log1p

from catena.server.formula import DENSE, KEYWORD, LEXICAL

_ROUNDING = 1e-6  # of a sum of a server's floats of 32 bits
_HALF_UNIT = 0.5e-4  # by which rounding changes a BM25


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What is known of one chunk's score, each part in the raw unit of its route.

    Attributes:
        cosine: None where it has no vector, or where that was not compared.
        is_compared: whether nothing of it is left to be known.
    """

    cosine: float | None = None
    bm25: float = 0.0
    count: int = 0
    is_compared: bool = False

    def raw(self) -> dict[str, float]:
        """Return the raw score by each route that found it, in the order of the routes' names."""
        dense = {} if self.cosine is None else {DENSE: self.cosine}
        keyword = {KEYWORD: float(self.count)} if self.count else {}
        return {**dense, **keyword, **({LEXICAL: self.bm25} if self.bm25 > 0 else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """The formula with its weights; `best` is the BM25 that counts as 1, 0 where none does."""

    dense: float
    lexical: float
    keyword: float
    best: float

    def score(self, parts: Parts) -> float:
        """Return a chunk's score from what is known of it, summed in the order of the embedded library."""
        shares = []
        if parts.cosine is not None:
            shares.append(self.dense * half(parts.cosine))
        if parts.count:
            shares.append(self.keyword * log1p(parts.count))
        if parts.bm25 > 0 and self.best > 0:
            shares.append(self.lexical * (parts.bm25 / self.best))
        return sum(shares)

    @property
    def slack(self) -> float:
        """By how much a score may differ from the server's, which does not round its BM25."""
        return _ROUNDING + (self.lexical * _HALF_UNIT / self.best if self.best > 0 else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All that was seen of one ranking so far.

    Attributes:
        parts: by chunk id.
        farthest: the most that a vector which was not compared can add; 0 where all were.
        last: server's score of the last row of the whole formula; -inf where every chunk that matches was a row.
        spoken: the same of words and terms alone; inf before they were asked.
    """

    parts: Mapping[str, Parts]
    farthest: float
    last: float
    spoken: float = inf

    def with_parts(self, parts: Mapping[str, Parts]) -> Seen:
        """Return all that was seen with more chunks; what is compared already stays."""
        fresh = {one: found for one, found in parts.items() if one not in self.parts or found.is_compared}
        return replace(self, parts={**self.parts, **fresh})

    def unseen(self) -> float:
        """Return the most that a chunk can score that was no row.

        One whose vector was compared comes after the last row of the formula; one whose vector was not comes, without
        it, after the last row of either request, or has neither words nor terms.
        """
        if not self.farthest:
            return self.last
        return max(self.last, max(min(self.last, self.spoken), 0.0) + self.farthest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The best chunks as far as known, and what might still displace one.

    Attributes:
        best: (chunk id, score), best first, ties by id.
        threshold: score of the last of them; -inf where there are fewer than asked.
        unseen: the most that a chunk can score that was not seen.
        lacking: ids of chunks whose vectors were not compared and may lift them to the threshold, likeliest first.
        gap: threshold, less the most that any chunk can have which is not sure to be below.
    """

    best: tuple[tuple[str, float], ...]
    threshold: float
    unseen: float
    lacking: tuple[str, ...]
    gap: float

    @property
    def is_exact(self) -> bool:
        """Whether no other chunk can score more than the last of the best."""
        return self.gap >= 0


def judge(seen: Seen, scoring: Scoring, k: int) -> Verdict:
    """Return the k best of the chunks that were seen, and how sure that is.

    Args:
        seen: rows of the requests so far.
        scoring: the formula.
        k: length of the ranking, >= 1.
    """
    scores = {chunk_id: scoring.score(parts) for chunk_id, parts in seen.parts.items()}
    ordered = nsmallest(k + 1, scores.items(), key=lambda item: (-item[1], item[0]))
    best = tuple(ordered[:k])
    threshold = best[-1][1] if len(best) == k else -inf
    most = {one: scores[one] + seen.farthest for one, parts in seen.parts.items() if not parts.is_compared}
    lacking = [one for one in most if seen.farthest and most[one] >= threshold]
    lacking.sort(key=lambda one: (-most[one], one))
    unseen = seen.unseen() + scoring.slack
    others = [unseen, *(most[one] for one in lacking[:1]), *(score for _, score in ordered[k:])]
    gap = threshold - max(0.0, *others) if threshold > -inf else 0.0  # fewer than k match: none is left out
    return Verdict(best=best, threshold=threshold, unseen=unseen, lacking=tuple(lacking), gap=gap)


def half(cosine: float) -> float:
    """Return the part of a vector: `(1 + cos) / 2`, in [0, 1]."""
    return min(max((1.0 + cosine) / 2.0, 0.0), 1.0)

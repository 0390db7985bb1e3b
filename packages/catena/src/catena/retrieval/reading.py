"""From long hits to what fits into a budget: the passages of the first hits, best first, under one count of tokens.

A whole section is what a reader understands best; where the budget holds one or two of them, the passages that a
question is about say more for the same number of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Le

from catena.effects import Embed, Step, ask
from catena.model import Chunk, Hit, Provenance, Ranking, Scale
from catena.model.errors import ParameterError
from catena.model.options import check_options
from catena.model.places import SEPARATOR
from catena.retrieval.in_memory_bm25 import Bm25Scorer
from catena.retrieval.normalization import Bounds, by_maximum, half_cosine

_DECIMALS = 9  # of a score: what differs by less differs by the order in which a machine sums


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingOptions:
    """How passages of hits are ranked.

    Attributes:
        hits: how many of the first hits are looked into, >= 1; where embeddings cost money, fewer cost less.
        alpha: share of the cosine against BM25 in a passage's own score, in [0, 1]; at 0 nothing is embedded.
        whole: share of the hit's score in that of its passages, in [0, 1].
    """

    hits: Annotated[int, Ge(1)] = 20
    alpha: Annotated[float, Ge(0), Le(1)] = 0.5
    whole: Annotated[float, Ge(0), Le(1)] = 0.5

    def __post_init__(self) -> None:
        check_options(self)


def rank_passages(
    query: str,
    ranking: Ranking,
    passages: Callable[[Chunk], Sequence[Chunk]],
    options: ReadingOptions | None = None,
) -> Step[Ranking]:
    """Rank the passages of the first hits: `whole * h + (1 - whole) * (alpha * v + (1 - alpha) * r)`.

    h is the score of the passage's hit over the best hit's, v the cosine of question and passage as `(1 + cos) / 2`,
    r its BM25 over the best BM25, with the statistics of these passages. Each passage is compared under the titles
    above it. Where only the order of the hits is known (`Scale.RANK`), h is `1 / rank`.

    Args:
        query: as typed.
        ranking: of long chunks, whole sections say; any scale.
        passages: the slices of a chunk, as `catena.structure.passages.passages_of` cuts them.
        options: how much each part counts, and how many hits are looked into.

    Returns:
        One hit per passage, in `Scale.NORMALIZED`, ties by id; its provenance is that of its chunk, and then what it
        is worth itself.
    """
    how = options or ReadingOptions()
    hits = ranking.hits[: how.hits]
    found = [(hit, passage) for hit in hits for passage in passages(hit.chunk)]
    if not found:
        return Ranking((), Scale.NORMALIZED, ranking.degraded, ranking.unknown)
    texts = [SEPARATOR.join(passage.path) + "\n" + passage.text for _, passage in found]
    words = [max(score, 0.0) for score in Bm25Scorer(texts).score(query).tolist()]  # -inf where no word is shared
    cosines = (yield from _cosines(query, texts)) if how.alpha else [0.0] * len(texts)
    bounds = Bounds(low=0.0, high=max(words))
    worth = _worth(hits, ranking.scale)
    scored: list[Hit] = []
    for (hit, passage), cosine, word in zip(found, cosines, words, strict=True):
        own = how.alpha * half_cosine(cosine, bounds) + (1.0 - how.alpha) * by_maximum(word, bounds)
        score = round(how.whole * worth[hit.chunk.id] + (1.0 - how.whole) * own, _DECIMALS)
        itself = Provenance(route="reading", rank=None, score=own, view="passage")
        scored.append(Hit(passage, score, (*hit.provenance, itself)))
    ranked = Ranking.of(scored, Scale.NORMALIZED, ranking.degraded)
    return Ranking(ranked.hits, ranked.scale, ranked.degraded, ranking.unknown)


def check_budget(budget: object) -> None:
    """Raise `ParameterError` unless the budget is a number of tokens: before anything is searched or paid."""
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 0:
        raise ParameterError("budget", budget, "a whole number of tokens >= 0")


def within_tokens(ranking: Ranking, budget: int, count: Callable[[str], int]) -> Ranking:
    """Return the hits that fit into a budget, in order; one that does not fit is passed over for shorter ones.

    Args:
        ranking: best first.
        budget: tokens of all texts together, >= 0.
        count: tokens of a text.

    Raises:
        ParameterError: the budget is negative, or no whole number.
    """
    check_budget(budget)
    kept: list[Hit] = []
    for hit in ranking.hits:
        tokens = count(hit.chunk.text)
        if tokens <= budget:
            kept.append(hit)
            budget -= tokens
    return Ranking(tuple(kept), ranking.scale, ranking.degraded, ranking.unknown)


def _cosines(query: str, texts: Sequence[str]) -> Step[list[float]]:
    """Return the dot products of the query's vector with those of the texts."""
    asked = Embed(texts=(query,), kind="query", purpose="query embedding")
    replies: list[Any] = yield from ask([asked, Embed(texts=tuple(texts), purpose="passage embedding")])
    rows, vector = np.asarray(replies[1], dtype=np.float64), np.asarray(replies[0][0], dtype=np.float64)
    return [float(each) for each in rows @ vector]


def _worth(hits: Sequence[Hit], scale: Scale) -> dict[str, float]:
    """Return what each hit is worth beside the best one, in [0, 1]."""
    if scale is Scale.RANK:
        return {hit.chunk.id: 1.0 / rank for rank, hit in enumerate(hits, start=1)}
    bounds = Bounds(low=0.0, high=max(hit.score for hit in hits))
    return {hit.chunk.id: by_maximum(hit.score, bounds) for hit in hits}

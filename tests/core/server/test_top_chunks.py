"""A ranking that is called exact is the one that scoring every chunk gives, by the embedded library's scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, log1p

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.model import Chunk, Hit, Ranking, Scale
from catena.retrieval import ScoreFusion, weighted_sum
from catena_server import FormulaWeights, ScoreParts, SeenChunks, top_chunks
from catena_server.fused_search import half

SCORING = FormulaWeights(dense=0.65, lexical=0.35, keyword=0.3, best=8.0)


@dataclass(frozen=True, slots=True)
class Index:
    """Every chunk with all its parts, and what a server shows of it."""

    chunks: dict[str, ScoreParts]

    def seen(self, neighbours: int, rows: int) -> SeenChunks:
        """Return what one request of the formula shows."""
        cosines = {one: parts.cosine for one, parts in self.chunks.items() if parts.cosine is not None}
        near = sorted(cosines, key=lambda one: (-cosines[one], one))[:neighbours]
        shown = {
            one: parts if one in near else replace(parts, cosine=None, is_compared=False)
            for one, parts in self.chunks.items()
            if one in near or parts.bm25 or parts.count
        }
        scores = {one: SCORING.score(parts) for one, parts in shown.items()}
        ordered = sorted(scores, key=lambda one: (-scores[one], one))[:rows]
        last = scores[ordered[-1]] if len(ordered) == rows else -inf
        in_rows = [cosines[one] for one in near if one in ordered]
        farthest = 0.0
        if len(near) == neighbours:
            farthest = SCORING.dense * (half(min(in_rows)) if in_rows else 1.0)
        return SeenChunks(parts={one: shown[one] for one in ordered}, farthest=farthest, last=last)


_PARTS = st.builds(
    ScoreParts,
    cosine=st.one_of(st.none(), st.floats(-1.0, 1.0)),
    bm25=st.sampled_from([0.0, 0.0, 1.0, 4.0, 8.0]),
    count=st.sampled_from([0, 0, 0, 1, 3]),
    is_compared=st.just(True),
)
_INDEXES = st.lists(_PARTS, min_size=1, max_size=30).map(
    lambda parts: Index({f"c{at:02}": one for at, one in enumerate(parts)})
)


@given(_INDEXES, st.integers(1, 5), st.integers(0, 5), st.integers(0, 10))
def test_what_is_called_exact_is_what_scoring_every_chunk_gives(
    index: Index, k: int, neighbours: int, rows: int
) -> None:
    top = top_chunks(index.seen(k + neighbours, k + neighbours + rows), SCORING, k)
    whole = {one: SCORING.score(parts) for one, parts in index.chunks.items() if SCORING.score(parts) > 0}
    wanted = sorted(whole.values(), reverse=True)[:k]
    if top.is_exact:
        assert [score for _, score in top.best if score > 0] == pytest.approx(wanted)
    assert top.is_exact == (top.gap >= 0)


@given(_INDEXES, st.integers(1, 5))
def test_where_all_was_seen_the_ranking_is_exact(index: Index, k: int) -> None:
    top = top_chunks(index.seen(100, 100), SCORING, k)
    assert top.is_exact
    assert top.lacking == ()


@given(st.lists(_PARTS.filter(lambda parts: bool(parts.raw())), min_size=1, max_size=8))
def test_scores_are_those_of_the_embedded_library(parts: list[ScoreParts]) -> None:
    routes: dict[str, list[Hit]] = {}
    for at, one in enumerate(parts):
        chunk = Chunk(id=f"c{at}", document_id="d", position=at, start=0, end=1, text="x")
        for route, raw in one.raw().items():
            routes.setdefault(route, []).append(Hit(chunk, raw))
    rankings = {route: Ranking(tuple(hits), Scale.SIMILARITY) for route, hits in routes.items()}
    best = max((hit.score for hit in routes.get("lexical", ())), default=0.0)
    expected = {hit.chunk.id: hit.score for hit in weighted_sum(rankings, ScoreFusion().parts).hits}
    scoring = FormulaWeights(dense=0.65, lexical=1 - 0.65, keyword=0.3, best=best)
    assert {f"c{at}": scoring.score(one) for at, one in enumerate(parts)} == expected


def test_what_may_still_come_in_is_named_with_by_how_much() -> None:
    seen = SeenChunks(
        parts={
            "near": ScoreParts(cosine=0.6, is_compared=True),  # 0.52
            "said": ScoreParts(count=1),  # 0.2079, and at most 0.455 more
            "also": ScoreParts(count=3),  # 0.4159, and at most 0.455 more
            "tail": ScoreParts(cosine=0.4, is_compared=True),
        },
        farthest=0.65 * 0.7,
        last=0.05,
    )
    top = top_chunks(seen, SCORING, 1)
    assert top.best == (("near", pytest.approx(0.52)),)
    assert top.lacking == ("also", "said")
    assert top.unseen == pytest.approx(0.05 + 0.455, abs=1e-5)
    assert top.gap == pytest.approx(0.52 - (0.3 * log1p(3) + 0.455))
    compared = seen.with_parts(
        {"also": ScoreParts(cosine=-1.0, count=3, is_compared=True), "said": ScoreParts(count=1, is_compared=True)}
    )
    assert top_chunks(compared, SCORING, 1).gap == pytest.approx(0.52 - 0.505, abs=1e-5)
    assert top_chunks(replace(compared, last=0.4), SCORING, 1).gap < 0
    assert top_chunks(replace(compared, last=0.4, by_words=0.01), SCORING, 1).is_exact


def test_equal_scores_go_by_id_and_may_lie_on_both_sides_of_the_cut() -> None:
    parts = {one: ScoreParts(cosine=0.5, is_compared=True) for one in ("b", "c", "a")}
    top = top_chunks(SeenChunks(parts=parts, farthest=0.0, last=-inf), SCORING, 2)
    assert [one for one, _ in top.best] == ["a", "b"]
    assert (top.is_exact, top.gap) == (True, 0.0)

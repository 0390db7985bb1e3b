"""Reading the passages of long hits: a hand-calculated order, the formula's laws, and budgets that hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.effects import Services, run
from catena.model import Chunk, Degraded, Hit, ParameterError, Provenance, Ranking, Scale, Unknown
from catena.retrieval import Bm25Scorer, ReadingOptions, rank_passages
from catena.retrieval.section_search import within_tokens
from catena.testing import FakeEmbedder


def chunk(name: str, text: str, start: int = 0) -> Chunk:
    return Chunk(id=name, document_id="d", position=0, start=start, end=start + len(text), text=text, path=("Care",))


def halves(whole: Chunk) -> tuple[Chunk, ...]:
    """Cut at the bar, which belongs to neither side."""
    parts, at = [], whole.start
    for number, text in enumerate(whole.text.split("|")):
        parts.append(chunk(f"{whole.id}{number}", text, at))
        at += len(text) + 1
    return tuple(parts)


def ranked(*texts: str, scale: Scale = Scale.NORMALIZED) -> Ranking:
    hits = (
        Hit(
            chunk("abcdef"[place], text), 1.0 / (place + 1), (Provenance(route="lexical", rank=place + 1, score=1.0),)
        )
        for place, text in enumerate(texts)
    )
    return Ranking(tuple(hits), scale)


def read(query: str, ranking: Ranking, options: ReadingOptions | None = None) -> Ranking:
    return run(rank_passages(query, ranking, halves, options), Services(embedder=FakeEmbedder(8)))


def test_reading_keeps_what_failed_and_what_is_unknown() -> None:
    failed, unknown = (Degraded("route dense", "down"),), (Unknown("HX-9"),)
    for hits in (ranked("oil pump|seal").hits, ()):
        given_ = Ranking(hits, Scale.NORMALIZED, failed, unknown)
        for found in (read("oil", given_), within_tokens(given_, 99, len)):
            assert (found.degraded, found.unknown) == (failed, unknown)


def test_the_formula_by_hand() -> None:
    found = read("oil", ranked("oil pump|seal", "oil|valve weekly"), ReadingOptions(alpha=0.0, whole=0.25))
    scores = Bm25Scorer(["Care\noil pump", "Care\nseal", "Care\noil", "Care\nvalve weekly"]).score("oil")
    words = [max(score, 0.0) for score in scores]
    own = [score / max(words) for score in words]
    expected = {"a0": 0.25 + 0.75 * own[0], "a1": 0.25, "b0": 0.125 + 0.75 * own[2], "b1": 0.125}
    assert {hit.chunk.id: hit.score for hit in found.hits} == pytest.approx(expected)
    assert [hit.chunk.id for hit in found.hits] == ["a0", "b0", "a1", "b1"]
    assert found.scale is Scale.NORMALIZED
    by_rank = read(
        "oil", ranked("seal", "valve", "oil", scale=Scale.RANK), ReadingOptions(alpha=0.0, whole=1.0, hits=2)
    )
    assert [(hit.chunk.id, hit.score) for hit in by_rank.hits] == [("a0", 1.0), ("b0", 0.5)]
    assert read("oil", ranked()).hits == ()
    for name, value in (("hits", 0), ("alpha", 1.5), ("alpha", float("nan")), ("whole", -0.1)):
        with pytest.raises(ParameterError, match=f"^{name} must be"):
            ReadingOptions(**{name: value})
    with pytest.raises(ParameterError, match="budget must be a whole number of tokens >= 0, got -1"):
        within_tokens(ranked("x"), -1, len)


def test_meaning_counts_as_much_as_alpha_says_and_costs_nothing_at_zero() -> None:
    embedder = FakeEmbedder(8)
    services = Services(embedder=embedder)
    run(rank_passages("oil", ranked("oil|seal"), halves, ReadingOptions(alpha=0.0)), services)
    assert embedder.calls == []
    found = run(rank_passages("seal", ranked("oil|seal"), halves, ReadingOptions(alpha=1.0, whole=0.0)), services)
    query = embedder.embed_query("seal")
    rows = embedder.embed_documents(["Care\noil", "Care\nseal"])
    assert {hit.chunk.id: hit.score for hit in found.hits} == pytest.approx(
        {f"a{place}": (1 + float(row @ query)) / 2 for place, row in enumerate(rows)}, abs=1e-6
    )


def test_a_passage_says_how_its_chunk_was_found_and_what_it_is_worth_itself() -> None:
    (hit,) = read("oil", ranked("oil"), ReadingOptions(alpha=0.0)).hits
    assert [(way.route, way.rank, way.view) for way in hit.provenance] == [
        ("lexical", 1, "raw"),
        ("reading", None, "passage"),
    ]
    assert hit.provenance[1].score == 1.0


@given(st.lists(st.text(alphabet="ab |", min_size=1).filter(lambda text: text.strip(" |")), max_size=5))
def test_every_passage_comes_once_best_first_in_zero_to_one(texts: list[str]) -> None:
    ranking = ranked(*texts)
    found = read("a b", ranking)
    assert sorted(hit.chunk.id for hit in found.hits) == sorted(
        part.id for hit in ranking.hits for part in halves(hit.chunk)
    )
    scores = [hit.score for hit in found.hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


@given(st.lists(st.integers(1, 9), max_size=6), st.integers(0, 30))
def test_a_budget_holds_and_is_not_left_empty_by_one_long_passage(lengths: list[int], budget: int) -> None:
    ranking = ranked(*("x" * length for length in lengths))
    kept = within_tokens(ranking, budget, len).hits
    used = sum(len(hit.chunk.text) for hit in kept)
    assert used <= budget
    assert [hit for hit in ranking.hits if hit in kept] == list(kept)
    assert all(len(hit.chunk.text) > budget - used for hit in ranking.hits if hit not in kept)

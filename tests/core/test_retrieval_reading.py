"""Reading within a budget: the formula by hand, its laws, and budgets that hold and are used."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.effects import Services, run
from catena.model import Chunk, Degraded, Hit, ParameterError, Provenance, Ranking, Scale, Unknown
from catena.retrieval import Bm25Scorer, ReadingOptions, rank_passages, read_passages, within_tokens
from catena.testing import FakeEmbedder
from catena.text.words import count_tokens


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
    ways = [(Provenance(route="lexical", rank=rank, score=1.0),) for rank in range(1, len(texts) + 1)]
    hits = [Hit(chunk("abcdef"[at], text), 1 / (at + 1), ways[at]) for at, text in enumerate(texts)]
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
    found = read("oil valve", ranked("oil pump|seal", "oil|valve weekly"), ReadingOptions(alpha=0.0, whole=0.25))

    def shares(*texts: str) -> list[float]:
        words = [max(score, 0.0) for score in Bm25Scorer(texts).score("oil valve")]
        return [score / max(words) for score in words]

    own = shares("Care oil pump", "Care seal", "Care oil", "Care valve weekly")
    around = shares(*["Care oil pump seal"] * 2, *["Care oil valve weekly"] * 2)
    words = [(one + other) / 2 for one, other in zip(own, around, strict=True)]
    whole = [0.25, 0.25, 0.125, 0.125]
    expected = {name: h + 0.75 * r for name, h, r in zip(("a0", "a1", "b0", "b1"), whole, words, strict=True)}
    assert {hit.chunk.id: hit.score for hit in found.hits} == pytest.approx(expected)
    assert [hit.chunk.id for hit in found.hits] == ["b1", "b0", "a0", "a1"]
    assert found.scale is Scale.NORMALIZED
    two = ReadingOptions(alpha=0.0, whole=1.0, hits=2)
    by_rank = read("oil", ranked("seal", "valve", "oil", scale=Scale.RANK), two)
    assert [(hit.chunk.id, hit.score) for hit in by_rank.hits] == [("a0", 1.0), ("b0", 0.5)]
    assert read("oil", ranked()).hits == ()
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
    wanted = {f"a{place}": (1 + float(row @ query)) / 2 for place, row in enumerate(rows)}
    assert {hit.chunk.id: hit.score for hit in found.hits} == pytest.approx(wanted, abs=1e-6)


def test_a_passage_says_how_its_chunk_was_found_and_what_it_is_worth_itself() -> None:
    (hit,) = read("oil", ranked("oil"), ReadingOptions(alpha=0.0)).hits
    ways = [(way.route, way.rank, way.view) for way in hit.provenance]
    assert ways == [("lexical", 1, "raw"), ("reading", None, "passage")]
    assert hit.provenance[1].score == 1.0


@given(st.lists(st.text(alphabet="ab |", min_size=1).filter(lambda text: text.strip(" |")), max_size=5))
def test_every_passage_comes_once_best_first_in_zero_to_one(texts: list[str]) -> None:
    ranking = ranked(*texts)
    found = read("a b", ranking)
    parts = [part.id for hit in ranking.hits for part in halves(hit.chunk)]
    assert sorted(hit.chunk.id for hit in found.hits) == sorted(parts)
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


def test_a_word_is_found_in_another_form_and_counts_once_however_often_it_is_asked() -> None:
    ranking = ranked("the bearings of the pump|the valves of the pump")
    first, second = read("which bearing has the pump", ranking, ReadingOptions(whole=0.0)).hits
    assert (first.chunk.id, first.score > second.score) == ("a0", True)
    assert read("which bearing has the pump", ranking) == read("which bearing, bearings, has the pump", ranking)


# sentences

OIL = "Oil the bearing of the pump once a week with a few drops of thin oil."
GREASE = "Never put any grease into the housing, since it blocks the valve for good."
SEAL = "The seal of the shaft is checked once a month by the operator on duty."
DROPS = "Replace the seal when more than three drops fall within one minute."


def laid_out(*texts: str) -> Ranking:
    """Return the chunks of a document, the first found first."""
    starts = [sum(len(text) + 2 for text in texts[:place]) for place in range(len(texts))]
    chunks = [chunk("abcd"[place], text, starts[place]) for place, text in enumerate(texts)]
    ways = (Provenance(route="lexical", rank=1, score=1.0),)
    return Ranking(tuple(Hit(each, 1 / (n + 1), ways) for n, each in enumerate(chunks)), Scale.NORMALIZED)


def sentences(query: str, budget: int, *texts: str) -> tuple[Hit, ...]:
    return run(read_passages(query, laid_out(*texts), budget_tokens=budget), Services()).hits


def test_few_tokens_give_the_best_sentence_more_its_neighbours_and_many_whole_chunks() -> None:
    texts = (f"{OIL} {GREASE}", f"{SEAL} {DROPS}")
    asked = "When is the seal to be replaced?"
    assert [hit.chunk.text for hit in sentences(asked, 20, *texts)] == [DROPS]
    (both,) = sentences(asked, count_tokens(SEAL) + count_tokens(DROPS), *texts)  # an exact fit
    assert both.chunk == laid_out(*texts).hits[1].chunk
    assert [way.route for way in both.provenance] == ["lexical", "reading"]
    assert [hit.chunk.id for hit in sentences(asked, 500, *texts)] == ["b", "a"]
    gap = sentences("oil or seal", 500, f"{OIL} {GREASE}"), sentences("oil", 35, f"{OIL} {SEAL} {OIL}")
    assert [len(hits) for hits in gap] == [1, 2]  # what does not stand side by side stays apart
    assert [hit.chunk.text for hit in gap[1]] == [OIL, OIL]


def test_a_sentence_longer_than_the_budget_gives_its_first_words() -> None:
    assert [hit.chunk.text for hit in sentences("oil", 5, OIL)] == ["Oil the bearing of the"]
    assert sentences("oil", 0, OIL) == sentences("油", 1, "油" * 30) == ()


def test_nothing_in_common_with_the_question_is_read_from_the_beginning() -> None:
    (hit,) = sentences("Wie oft?", 20, f"{OIL} {GREASE} {SEAL}", DROPS)
    assert hit.chunk.text == OIL


blocks = st.sampled_from(
    [OIL, GREASE, SEAL, DROPS, "## Care", "- oil", "| a | b |\n|---|---|\n| 1 | oil |", "x" * 900]
)
chunks = st.lists(blocks, min_size=1, max_size=4).map("\n\n".join)


@given(st.lists(chunks, max_size=4), st.integers(0, 150), st.integers(0, 150))
def test_a_budget_holds_and_a_larger_one_reads_the_same_and_more(texts: list[str], budget: int, more: int) -> None:
    document = "\n\n".join(texts)

    def places(tokens: int) -> set[int]:
        hits = sentences("oil the seal", tokens, *texts)
        assert hits == sentences("oil the seal", tokens, *texts)
        assert all(document[hit.chunk.start : hit.chunk.end] == hit.chunk.text for hit in hits)
        assert sum(count_tokens(hit.chunk.text) for hit in hits) <= tokens
        assert all(one.score >= other.score for one, other in pairwise(hits))
        read = [at for hit in hits for at in range(hit.chunk.start, hit.chunk.end)]
        assert len(read) == len(set(read))
        return set(read)

    assert places(budget) <= places(budget + more)
    assert {hit.chunk.id for hit in sentences("oil the seal", 5_000, *texts)} == set("abcd"[: len(texts)])

"""Extraction: what is fetched, how segments are made and explained, and what holds for any ranking and store."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from math import exp
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk

from catena import ParameterError
from catena.effects import FetchChunks, FetchText, Handler, Services, run
from catena.model import Chunk, Degraded, Hit, MissingServiceError, Ranking, Scale, ScaleError, ServiceError, Unknown
from catena.segments import (
    BALANCED,
    Explanation,
    Extraction,
    ExtractionParams,
    explain,
    extract,
    greedy,
    hits_by_place,
    lay_out,
    optimal,
)
from catena.segments.adjacency import common_path, joined, segment_of
from catena.segments.extraction import Worth
from catena.segments.sequence import with_tokens
from catena.testing.fakes import FakeStore

PLAIN = replace(BALANCED, length_adjustment="off")


def words(text: str) -> int:
    return len(text.split())


class Store:
    """Documents of equal paragraphs, with their chunks; it notes what it is asked for."""

    def __init__(self, sizes: dict[str, int], *, texts: bool = True, without: Sequence[tuple[str, int]] = ()) -> None:
        self.asked: list[object] = []
        self.texts: dict[str, str] = {}
        self.chunks: dict[tuple[str, int], Chunk] = {}
        for name, size in sizes.items():
            parts = [f"Paragraph {number} of {name}: " + "word " * (number % 4) + "end." for number in range(size)]
            self.texts[name], start = "\n\n".join(parts), 0
            for n, part in enumerate(parts):
                self.chunks[name, n] = chunk(
                    f"{name}-{n}", part, start=start, document_id=name, position=n, path=(name, f"Part {n // 5}"),
                    pages=(n // 3 + 1,) * 2, lines=(2 * n + 1,) * 2, metadata={"title": name.title(), "number": n},
                )  # fmt: skip
                start += len(part) + 2
        self.has_texts, self.held = texts, {key: each for key, each in self.chunks.items() if key not in without}
        calls: dict[Any, Any] = {FetchChunks: self._neighbours, FetchText: self._slices}
        handlers: dict[Any, Any] = {kind: Handler(identity="store", call=call) for kind, call in calls.items()}
        self.services = Services(handlers=handlers)

    def _neighbours(self, request: FetchChunks) -> Any:
        self.asked.append(request)
        return tuple(
            tuple(self.held[name, number] for number in range(first, end) if (name, number) in self.held)
            for name, first, end in request.spans
        )

    def _slices(self, request: FetchText) -> Any:
        self.asked.append(request)
        return tuple(self.texts[name][start:end] if self.has_texts else None for name, start, end in request.spans)

    def ranking(self, *found: tuple[str, int, float]) -> Ranking:
        hits = tuple(Hit(self.chunks[name, number], score) for name, number, score in found)
        return Ranking(hits, Scale.PROBABILITY)

    def extract(self, *rankings: Ranking, params: ExtractionParams = PLAIN, **more: Any) -> Extraction:
        return run(extract(rankings, params=params, **more), self.services)


def places(extraction: Extraction) -> list[tuple[str, int, int]]:
    """Return document, first and last position of each segment."""
    return [(hit.segment.document_id, *(hit.segment.positions or ())) for hit in extraction.segments]  # type: ignore[misc]


# What is asked for, and what comes back.


def test_only_gaps_that_a_segment_could_cross_are_fetched() -> None:
    store = Store({"a": 60})
    scores = {3: 0.9, 6: 0.9, 7: 0.85, 20: 0.1, 24: 0.1, 30: 0.99, 44: 0.9, 59: 0.9}
    extraction = store.extract(store.ranking(*(("a", number, score) for number, score in scores.items())))
    assert store.asked[0] == FetchChunks(spans=(("a", 4, 6), ("a", 31, 44)))  # 44 to 59 has 16 chunks
    assert places(extraction) == [("a", 3, 7), ("a", 30, 30), ("a", 44, 44), ("a", 59, 59)]
    found = store.ranking(("a", 3, 0.9), ("a", 10, 0.9), ("a", 40, 0.9))
    free = store.extract(found, params=replace(PLAIN, irrelevance_penalty=0.0))
    assert places(free) == [("a", 3, 10), ("a", 40, 40)]  # without a penalty gaps cost nothing
    other = Store({"a": 5})
    assert places(other.extract(other.ranking(("a", 2, 0.9)))) == [("a", 2, 2)]
    for rankings in ((), (Ranking((), Scale.PROBABILITY),), (other.ranking(("a", 0, 0.1)),)):
        for params in (PLAIN, replace(PLAIN, selection="optimal")):
            assert other.extract(*rankings, params=params).segments == ()
    assert other.asked == []  # no gap and no joint


def test_what_is_lent_to_neighbours_is_fetched_and_explained() -> None:
    store = Store({"a": 60, "b": 3})
    params = replace(PLAIN, lending=0.5)
    found = store.ranking(("a", 0, 0.9), ("a", 30, 0.9), ("a", 50, 0.3), ("b", 1, 0.9))
    extraction = store.extract(found, params=params)
    spans = (("a", 1, 2), ("a", 29, 30), ("a", 31, 32), ("b", 0, 1), ("b", 2, 3))
    assert store.asked[0] == FetchChunks(spans=spans)
    assert places(extraction) == [("a", 29, 31), ("b", 0, 2), ("a", 0, 1)]
    assert extraction.segments[2].value == pytest.approx(0.9 - 0.18 + 0.45 - 0.18)
    (before,) = (chunk for chunk in explain(extraction).chunks if chunk.position == 29)
    (worth,) = before.worths
    assert (worth.rank, worth.lent) == (None, pytest.approx(0.45 * 0.9672161))
    assert worth.value == pytest.approx((max(worth.probability * worth.decay, worth.lent) - 0.18) * worth.factor)


def test_a_segment_is_the_exact_slice_with_what_its_chunks_have_in_common() -> None:
    store = Store({"a": 20})
    extraction = store.extract(store.ranking(("a", 6, 0.95), ("a", 4, 0.95)))
    (found,) = extraction.segments
    segment = found.segment
    assert segment.text == store.texts["a"][segment.start : segment.end]
    assert "Paragraph 5 of a" in segment.text
    assert segment.chunk_ids == ("a-4", "a-5", "a-6")
    assert (segment.path, segment.positions, segment.pages, segment.lines) == (("a",), (4, 6), (2, 3), (9, 13))
    assert segment.metadata == {"title": "A"}
    assert found.value == pytest.approx(0.95 - 0.18 - 0.18 + 0.95 * 0.9672161 - 0.18)
    (hit,) = extraction.ranking().hits
    assert (extraction.ranking().scale, hit.chunk.text, hit.score) == (Scale.VALUE, segment.text, found.value)
    for texts in ({}, {"a": "Another version. " + store.texts["a"]}):  # none, or one that does not agree
        other = Store({"a": 9}, texts=bool(texts))
        other.texts |= texts
        (joined_,) = other.extract(other.ranking(("a", 3, 0.95), ("a", 4, 0.95))).segments
        assert joined_.segment.text == store.texts["a"][joined_.segment.start : joined_.segment.end]
    assert common_path([(), ("a",)]) == common_path([("a",), ("b",)]) == ()
    paged = segment_of([piece(0, "one", 0, pages=(2, 3)), piece(3, "two", 1)])
    assert (paged.pages, paged.lines, paged.positions) == ((2, 3), None, (0, 1))


def test_a_chunk_that_the_store_does_not_have_is_a_wall() -> None:
    found = (("a", 3, 0.95), ("a", 5, 0.95), ("a", 6, 0.95))
    assert places(Store({"a": 9}).extract(Store({"a": 9}).ranking(*found))) == [("a", 3, 6)]
    store = Store({"a": 9}, without=[("a", 4)])
    assert places(store.extract(store.ranking(*found))) == [("a", 5, 6), ("a", 3, 3)]


def test_segments_that_touch_are_merged_with_both_their_queries() -> None:
    store = Store({"a": 40})
    one = store.ranking(*(("a", number, 0.9) for number in range(5, 10)))
    two = store.ranking(*(("a", number, 0.9) for number in range(10, 15)))
    (merged,) = store.extract(one, two).segments
    apart = store.extract(one, two, params=replace(PLAIN, merge=False))
    assert (merged.segment.positions, merged.queries) == ((5, 14), (0, 1))
    assert [hit.queries for hit in apart.segments] == [(0,), (1,)]
    assert merged.value == pytest.approx(sum(hit.value for hit in apart.segments)) == apart.value


def test_the_order_is_by_score_by_place_or_as_picked() -> None:
    store = Store({"a": 60, "b": 60})
    one = store.ranking(("b", 50, 0.99), ("a", 9, 0.8))
    two = store.ranking(("b", 1, 0.9))

    def ordered(order: Any) -> list[tuple[str, int, int]]:
        return places(store.extract(one, two, params=replace(PLAIN, order=order)))

    assert ordered("score") == [("b", 50, 50), ("b", 1, 1), ("a", 9, 9)]
    assert ordered("reading") == [("b", 1, 1), ("b", 50, 50), ("a", 9, 9)]
    assert ordered("picked") == [("b", 50, 50), ("b", 1, 1), ("a", 9, 9)]


def test_a_budget_in_tokens_counts_chunks_and_headers() -> None:
    store = Store({"a": 40})
    found = store.ranking(*(("a", number, 0.9) for number in (0, 10, 20, 30)))
    each = words(store.chunks["a", 0].text) + 3  # paragraphs 0, 10, 20, 30 have 5, 7, 5, 7 words

    def picked(budget: int, header: Callable[[Any], str] | None = None) -> list[tuple[str, int, int]]:
        params = replace(PLAIN, overall_max_tokens=budget)
        return places(store.extract(found, params=params, count=words, header=header))

    assert len(picked(1_000)) == 4
    assert picked(each + 4, lambda chunk: "Title of document") == [("a", 0, 0)]
    assert picked(each + 4) == [("a", 0, 0), ("a", 10, 10)]
    one_segment = replace(PLAIN, max_tokens=5)
    assert places(store.extract(found, params=one_segment, count=words)) == [("a", 0, 0), ("a", 20, 20)]


def test_what_rankings_say_besides_hits_is_kept() -> None:
    store = Store({"a": 3})
    ranking = replace(store.ranking(("a", 1, 0.9)), degraded=(Degraded("dense", "down"),), unknown=(Unknown("X9"),))
    extraction = store.extract(ranking, ranking)
    assert (extraction.degraded, extraction.unknown) == (ranking.degraded, ranking.unknown)
    assert extraction.ranking().degraded == ranking.degraded


# Texts of chunks without a document's text.


def piece(start: int, text: str, position: int = 0, document: str = "d", **more: Any) -> Chunk:
    made = chunk(f"p{position}", text, start=start, position=position, document_id=document)
    return replace(made, **more)


@pytest.mark.parametrize(
    ("chunks", "text"),
    [
        ([piece(0, "one"), piece(3, "two")], "onetwo"),
        ([piece(0, "one"), piece(4, "two")], "one two"),
        ([piece(0, "one"), piece(5, "two")], "one\n\ntwo"),
        ([piece(0, "one two"), piece(4, "two three")], "one two three"),
        ([piece(0, "one two"), piece(4, "six three")], "one two\n\nsix three"),  # they do not agree on the overlap
        ([piece(0, "one"), piece(0, "two")], "one\n\ntwo"),  # no offsets at all
        ([piece(0, "same"), piece(0, "same")], "same\n\nsame"),
        ([piece(0, "one"), piece(0, "one two")], "one two"),  # a splitter's overlap took in the whole of the first
        ([piece(9, "one"), piece(2, "two")], "one\n\ntwo"),
        ([piece(0, "one"), piece(103, "two")], "one" + "\n" * 100 + "two"),  # the widest gap that is white space
        ([piece(0, "one"), piece(104, "two")], "one\n\ntwo"),  # what lies between is text that is not there
        ([piece(0, ""), piece(0, "two")], "two"),
    ],
)
def test_chunks_are_joined_by_their_offsets_or_by_a_blank_line(chunks: list[Chunk], text: str) -> None:
    assert joined(chunks) == text
    segment = segment_of(chunks)
    assert (segment.start, segment.text) == (chunks[0].start, text)


def test_what_joins_chunks_is_counted_and_is_a_blank_line_where_offsets_are_of_no_use() -> None:
    for starts, tokens, heads in (((0, 3, 7), [3, 3, 4], [3, 3, 2]), ((0, 0, 3), [3, 5, 5], [3, 1, 1])):
        chunks = [piece(start, "one", number) for number, start in enumerate(starts)]
        counted = with_tokens(lay_out(chunks, [{}], PLAIN), len, lambda chunk: "T")
        assert counted.tokens is not None
        assert counted.heads is not None
        assert (counted.tokens.tolist(), counted.heads.tolist()) == (tokens, heads)


def test_a_wide_gap_is_no_reason_to_lose_the_slice_where_the_text_is_at_hand() -> None:
    heading = "## " + "A heading without text below it " * 5
    whole = f"one\n\n{heading}\n\ntwo"
    chunks = [piece(0, "one", 0), piece(len(whole) - 3, "two", 1)]
    ranking = Ranking(tuple(Hit(chunk, 0.9) for chunk in chunks), Scale.PROBABILITY)

    def ended(text: str | None) -> Extraction:
        handlers: dict[Any, Handler] = {FetchText: Handler(identity="text", call=lambda request: (text,))}
        return run(extract([ranking], params=PLAIN), Services(handlers=handlers))

    (hit,) = ended(whole).segments
    assert (hit.segment.start, hit.segment.end, hit.segment.text) == (0, len(whole), whole)
    assert ended(None).segments[0].segment.text == "one\n\ntwo"
    assert ended(whole.replace("two", "six")).segments[0].segment.text == "one\n\ntwo"


PART = st.tuples(st.sampled_from((0, 0, 1, 3, 40)), st.integers(1, 6), st.floats(0, 1))


@given(
    st.lists(PART, min_size=1, max_size=12), st.integers(1, 80), st.booleans(), st.sampled_from(("greedy", "optimal"))
)
def test_what_is_read_never_exceeds_the_tokens_and_headings_between_chunks_count(parts, budget, headed, selection):
    """Of each part: words of the headings before it that are in no chunk, words of its own, its probability."""
    whole, hits = "", []
    for number, (skipped, length, probability) in enumerate(parts):
        whole += "## " + " ".join(["skipped"] * skipped) + "\n\n" if skipped else ""
        text = " ".join([f"word{number}"] * length)
        hits.append(Hit(piece(len(whole), text, number), probability))
        whole += text + "\n\n"
    ranking = Ranking.of(hits, Scale.PROBABILITY)

    def slices(request: FetchText) -> Any:
        return tuple(whole[start:end] for _, start, end in request.spans)

    def header(found: object) -> str:
        return "A header of five words" if headed else ""

    params = replace(PLAIN, overall_max_tokens=budget, minimum_value=0.0, decay_rate=1e9, selection=selection)
    services = Services(handlers={FetchText: Handler(identity="text", call=slices)})
    extraction = run(extract([ranking], params=params, count=words, header=header), services)
    segments = [hit.segment for hit in extraction.segments]
    assert all(segment.text == whole[segment.start : segment.end] for segment in segments)
    read = sum(words(header(segment)) + words(segment.text) for segment in segments)
    assert read <= explain(extraction).used <= budget


# What is refused.


def test_what_is_no_ranking_of_probabilities_or_has_no_count_is_refused() -> None:
    with pytest.raises(ScaleError, match="rerank and calibrate first"):
        Store({}).extract(Ranking((), Scale.SIMILARITY))
    with pytest.raises(ParameterError, match="rankings must be a sequence of them, one per query"):
        run(extract(Ranking((), Scale.PROBABILITY)), Store({}).services)  # type: ignore[arg-type]
    for name in ("max_tokens", "overall_max_tokens"):
        with pytest.raises(ParameterError, match="count must be given where max_tokens or overall_max_tokens is"):
            Store({}).extract(params=replace(PLAIN, **{name: 100}))
    one, two = piece(0, "one", 3), replace(piece(9, "two", 3), id="other")
    with pytest.raises(ParameterError, match=r"chunk 'other' must be its own place.*'p3' has it too, got 3"):
        Store({}).extract(Ranking((Hit(one, 0.9), Hit(two, 0.8)), Scale.PROBABILITY))


def test_a_store_that_fails_or_is_not_there_is_an_error_and_not_a_shorter_segment() -> None:
    store = Store({"a": 9})
    ranking = store.ranking(("a", 3, 0.95), ("a", 5, 0.95))

    def broken(request: object) -> Any:
        raise ServiceError("store", "it fell over")

    with pytest.raises(ServiceError, match="it fell over"):
        run(extract([ranking], params=PLAIN), Services(handlers={FetchChunks: Handler(identity="s", call=broken)}))
    with pytest.raises(MissingServiceError, match="FetchChunks"):
        run(extract([ranking], params=PLAIN), Services())


# Laws.


Question = tuple[Store, list[Ranking], ExtractionParams]


@st.composite
def questions(draw: st.DrawFn) -> Question:
    store = Store({name: draw(st.integers(1, 12)) for name in "abc"})
    rankings = []
    for _ in range(draw(st.integers(1, 3))):
        known = draw(st.lists(st.sampled_from(sorted(store.chunks)), unique=True, max_size=10))
        scores = draw(st.lists(st.integers(0, 20), min_size=len(known), max_size=len(known)))
        found = [(name, number, score / 20) for (name, number), score in zip(known, scores, strict=True)]
        rankings.append(store.ranking(*sorted(found, key=lambda row: (-row[2], row[:2]))))
    params = ExtractionParams(
        max_chunks=draw(st.integers(1, 8)),
        overall_max_chunks=draw(st.integers(1, 12)),
        extension=draw(st.integers(0, 3)),
        minimum_value=draw(st.sampled_from([0.0, 0.2, 0.5])),
        top_k=draw(st.integers(1, 4)),
        length_adjustment=draw(st.sampled_from(["scale", "floor", "boost_only", "off"])),
        lending=draw(st.sampled_from([0.0, 0.3, 0.7])),
        reference_length=40,
        selection=draw(st.sampled_from(["greedy", "optimal"])),
        order=draw(st.sampled_from(["score", "reading", "picked"])),
        max_tokens=draw(st.none() | st.integers(1, 40)),
        overall_max_tokens=draw(st.none() | st.integers(1, 60)),
    )
    return store, rankings, params


def head(found: Any) -> str:
    return "Title: " + " / ".join(found.path)


@given(questions())
def test_segments_are_disjoint_exact_and_within_every_budget(question: Question) -> None:
    store, rankings, params = question
    before = [ranking.hits for ranking in rankings]
    extraction = store.extract(*rankings, params=params, count=words, header=head)
    segments = [hit.segment for hit in extraction.segments]
    for segment in segments:
        assert segment.text == store.texts[segment.document_id][segment.start : segment.end]
        first, last = segment.positions or (0, -1)
        assert segment.chunk_ids == tuple(f"{segment.document_id}-{number}" for number in range(first, last + 1))
    ordered = sorted((segment.document_id, *(segment.positions or ())) for segment in segments)
    assert all(one[0] != other[0] or one[2] + 1 < other[1] for one, other in pairwise(ordered))
    assert all(hit.value >= params.minimum_value - 1e-9 for hit in extraction.segments)
    if params.overall_max_tokens is None:
        assert sum(len(segment.chunk_ids) for segment in segments) <= params.budget_in_chunks(len(rankings))
    else:
        used = sum(words(head(segment) + "\n\n" + segment.text) for segment in segments)
        assert used <= params.overall_max_tokens
    assert [ranking.hits for ranking in rankings] == before
    told = explain(extraction)
    json.dumps(told.as_dict())
    shown = {chunk.chunk_id for chunk in told.chunks if chunk.segment is not None}
    assert shown == {name for segment in segments for name in segment.chunk_ids}
    assert told.used <= told.budget


@given(questions())
def test_fetching_only_the_gaps_that_matter_changes_nothing(question: Question) -> None:
    """The same selection over all chunks of the considered documents, as if every one had been fetched."""
    store, rankings, params = question
    params = replace(params, max_tokens=None, overall_max_tokens=None, merge=False, order="picked")
    extraction = store.extract(*rankings, params=params)
    documents = extraction.considered.documents
    chunks = [chunk for name in documents for (of, _), chunk in sorted(store.chunks.items()) if of == name]
    track = lay_out(chunks, hits_by_place(rankings, documents), params).sequence
    limits = extraction.considered.limits
    if params.selection == "greedy":
        picks = [(chunks[pick.start], chunks[pick.end - 1]) for pick in greedy(track, limits)]
        assert places(extraction) == [(first.document_id, first.position, last.position) for first, last in picks]
    else:  # where two selections are worth the same, either will do
        assert extraction.value == pytest.approx(sum(pick.value for pick in optimal(track, limits)), abs=1e-9)


SHORT = replace(BALANCED, length_adjustment="off", max_chunks=3)


def explained(*found: tuple[str, int, float], params: ExtractionParams = SHORT) -> Explanation:
    hits = (Hit(piece(9 * n, "words", n, name, id=f"{name}{n}"), score) for name, n, score in found)
    ranking = Ranking(tuple(hits), Scale.PROBABILITY)
    return explain(run(extract([ranking], params=params, count=len), Services(store=FakeStore({}))))  # holds nothing


def test_every_chunk_shows_what_made_its_value() -> None:
    twice = explained(("a", 4, 0.9), ("b", 1, 0.8), ("a", 4, 0.7)).chunks[0].worths[0]
    assert (twice.rank, twice.probability) == (0, 0.9)
    told = explained(("a", 4, 0.9), ("a", 5, 0.8))
    rows = [(row.document_id, row.position, row.segment, row.why) for row in told.chunks]
    assert rows == [("a", 4, 0, ""), ("a", 5, 0, "")]
    (worth,) = told.chunks[1].worths
    assert (worth.query, worth.rank, worth.probability, worth.penalty, worth.factor) == (0, 1, 0.8, 0.18, 1.0)
    assert worth.decay == pytest.approx(exp(-1 / 30))
    assert worth.value == pytest.approx(0.8 * exp(-1 / 30) - 0.18)
    assert (told.spans, told.used, told.budget) == ((("a", 4, 6, pytest.approx(0.72 + worth.value)),), 2, 30)


def reason(told: Explanation, name: str, number: int) -> str:
    (row,) = [row for row in told.chunks if (row.document_id, row.position) == (name, number)]
    assert row.segment is None
    return row.why


def test_every_reason_is_given_where_it_holds() -> None:
    told = explained(("a", 9, 0.9), ("a", 0, 0.4), ("a", 20, 0.1), ("b", 0, 0.9), params=replace(SHORT, top_k=3))
    assert reason(told, "a", 0) == "the best segment with it is worth 0.207, less than the minimum of 0.5"
    assert reason(told, "a", 20) == "worth less than 0 to every query, and no segment gains by crossing it"
    assert reason(told, "b", 0) == "its document is not among those of the first 3 chunks of a ranking"
    told = explained(("a", 0, 0.9), ("a", 9, 0.85), params=replace(SHORT, overall_max_chunks=1))
    assert reason(told, "a", 9) == "within the budget, other segments are worth more"
    told = explained(("a", 0, 0.9), params=replace(SHORT, max_tokens=4))
    assert reason(told, "a", 0) == "alone more than the 4 tokens that there is room for"
    told = explained(("a", 0, 0.9), ("b", 0, 0.9), params=replace(SHORT, top_k=1))
    (worth,) = told.chunks[-1].worths
    terms = {"probability": 0.9, "decay": pytest.approx(exp(-1 / 30)), "lent": 0.0, "penalty": 0.18, "factor": 1.0}
    assert worth == Worth(query=0, rank=1, **terms, value=None)
    told = explained(("a", 4, 0.9), params=replace(SHORT, overall_max_tokens=50))
    assert (told.in_tokens, told.used, told.budget) == (True, 5, 50)


def test_it_is_a_table_and_json() -> None:
    told = explained(("a", 4, 0.9), ("a", 5, 0.8), ("b", 1, 0.2))
    head, first, *others = told.table().splitlines()
    columns = "document chunk query rank P decay lent penalty length factor value segment"
    assert " ".join(head.split()) == columns
    assert first.split() == ["a", "4", "0", "0", "0.900", "1.000", "-", "0.18", "5", "1.00", "+0.720", "0"]
    assert len(others) == 2
    again = json.loads(json.dumps(told.as_dict()))
    assert again["chunks"][0]["worths"][0]["value"] == pytest.approx(0.72)
    assert again["params"]["irrelevance_penalty"] == 0.18

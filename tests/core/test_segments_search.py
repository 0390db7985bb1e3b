"""From a question to segments and an answer over them: the composition, and the library that offers it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from catena import Library
from catena.effects import Services, Step, run
from catena.model import ParameterError, Ranking, Scale, ServiceError, citation
from catena.segments import BALANCED, COHERE, Constant, Identity, SegmentSearch, find_segments
from catena.structure import segment_header
from catena.testing import FakeLLM, FakeReranker, Flaky
from catena.testing.fakes import Slow
from catena.text import count_tokens

MANUAL = """# {name} manual

## 1 Mounting

Mount the {name} upright, away from heat.

## 2 Cover

The cover is of cast aluminium. Before it is closed, the seal must lie in its groove.

Tighten the cover screws of the {name} to {torque} N·m, crosswise, in two passes.

## 3 Fuse

The fuse is slow.

Rating of the fuse: {fuse} mA

## 4 Cleaning

Clean the housing with a damp cloth. Never use solvents.
"""


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    for name, torque, fuse in (("HX200", "1.8", "250"), ("HX210", "2.4", "400")):
        (tmp_path / f"{name}.md").write_text(MANUAL.format(name=name, torque=torque, fuse=fuse), encoding="utf-8")
    services = Services(reranker=FakeReranker())
    with Library.open(tmp_path / "library", llm=FakeLLM(quoting), services=services) as library:
        library.index([tmp_path])
        yield library


def quoting(request) -> str:
    """Write queries where they are asked for, else an answer that quotes the passage on the torque."""
    if request.purpose == "search queries":
        return '["cover screws torque", "fuse rating"]'
    for number, body in re.findall(r'<passage number="(\d+)".*?>\n(.*?)</passage>', request.prompt, re.DOTALL):
        if found := re.search(r"Tighten the cover screws of the HX210 to [\d.]+ N·m", body):
            return f'Tighten them to 2.4 N·m [{number}].\n\n[{number}] "{found[0]}"'
    return "The passages do not say."


LOOSE = replace(BALANCED, minimum_value=0.0)  # the chunks of these manuals are far below the reference length
QUESTION = "What is the tightening torque of the HX210 cover screws?"


def test_segments_are_exact_slices_of_the_right_document(library: Library) -> None:
    found = library.segments(QUESTION, SegmentSearch(extraction=replace(BALANCED, overall_max_chunks=3)))
    best = found.segments[0].segment
    entry = library.get(best.document_id)
    assert best.document_id == "HX210.md"
    assert entry.document.text[best.start : best.end] == best.text
    assert "2.4 N·m" in best.text
    assert best.place == entry.document.place_of(best.start, best.end)
    assert found.ranking().scale is Scale.VALUE
    assert citation(best).startswith("HX210 manual")
    how = SegmentSearch(queries_by="decomposition")
    assert asyncio.run(library.asegments(QUESTION, how)).segments == library.segments(QUESTION, how).segments
    assert asyncio.run(library.aanswer(QUESTION, how)) == library.answer(QUESTION, how)
    tight = SegmentSearch(extraction=replace(BALANCED, overall_max_tokens=60, minimum_value=0.0))
    both = library.segments(QUESTION, tight), library.segments(QUESTION, replace(tight, header=None))
    with_headers, without = (sum(len(hit.segment.text) for hit in found.segments) for found in both)
    assert 0 < with_headers < without  # a budget in tokens counts headers


def test_without_settings_the_budget_decides_and_a_calibrated_reranker_takes_the_preset(library: Library) -> None:
    by_order = library.segments(QUESTION, SegmentSearch(budget_tokens=150))
    assert by_order.degraded == ()
    values = set()
    for budget in range(60, 400, 20):
        hits = library.segments(QUESTION, SegmentSearch(budget_tokens=budget)).segments
        found = [hit.segment for hit in hits]
        assert 0 < sum(count_tokens(each.text) + count_tokens(segment_header(each)) for each in found) <= budget
        values |= {hit.value == 0.0 for hit in hits}
        assert {hit.queries for hit in hits} == {(0,)}
    assert values == {True, False}  # what is left of a budget is filled with sentences
    assert (by_order.params.minimum_value, by_order.params.lending) == (0.0, 0.5)
    rated = library.segments(QUESTION, SegmentSearch(rerank=True, calibration=COHERE, budget_tokens=150))
    assert rated.params == replace(BALANCED, overall_max_tokens=150)


@pytest.mark.parametrize(
    ("scale", "calibration", "by_order"),
    [
        (Scale.SIMILARITY, Identity(), False),
        (Scale.SIMILARITY, Constant(), True),
        (Scale.PROBABILITY, Constant(), False),
        (Scale.RANK, Identity(), True),
    ],
)
def test_only_where_scores_say_nothing_else_the_order_alone_is_believed(scale, calibration, by_order: bool) -> None:
    def ranked(query: str) -> Step[Ranking]:
        yield from ()
        return Ranking((), scale)

    found = run(find_segments("a", SegmentSearch(calibration=calibration), ranked=ranked), Services())
    assert found.params.lending == (0.5 if by_order else BALANCED.lending)


def test_the_reranker_reads_headers_and_its_scores_are_calibrated(library: Library) -> None:
    reranker = FakeReranker()
    services = replace(library.services, reranker=reranker)
    run(find_segments(QUESTION, SegmentSearch(rerank=True, calibration=COHERE)), services)
    (query, texts) = reranker.calls[0]
    assert query == QUESTION
    assert all(text.startswith("Document context: ") for text in texts)
    by_identity = run(find_segments(QUESTION, SegmentSearch(rerank=True, calibration=Identity())), services)
    by_beta = run(find_segments(QUESTION, SegmentSearch(rerank=True, calibration=COHERE)), services)
    assert by_identity.value != by_beta.value


@pytest.mark.parametrize(("by", "queries"), [("question", 1), ("decomposition", 2), ("llm", 3)])
def test_queries_come_from_where_they_are_asked_of(library: Library, by, queries: int) -> None:
    question = "What is the torque of the HX210? What is its fuse?"
    assert library.segments(question, SegmentSearch(queries_by=by, most_queries=1)).considered.valued.ranks.size
    found = library.segments(question, SegmentSearch(queries_by=by))
    assert found.considered.valued.ranks.shape[0] == queries


def test_a_model_that_writes_no_queries_and_a_reranker_that_fails_cost_only_these(library: Library) -> None:
    down = Flaky(FakeReranker(), [ServiceError("broken", "it is down")] * 9)
    services = replace(library.services, llm=FakeLLM(lambda request: "no"), reranker=down)
    how = SegmentSearch(extraction=LOOSE, queries_by="llm", rerank=True, on_failure="rank")
    found = run(find_segments("The torque and the fuse of the HX210?", how), services)
    assert found.segments
    assert [part.what for part in found.degraded] == ["search queries", "reranker"]
    with pytest.raises(ServiceError, match="it is down"):
        run(find_segments(QUESTION, SegmentSearch(rerank=True)), services)


def test_what_stands_nowhere_gives_no_segments_and_no_call(library: Library) -> None:
    found = library.segments("What is the torque of the HX250 cover screws?")
    assert (found.segments, [name.text for name in found.unknown]) == ((), ["HX250"])
    assert library.answer("What is the torque of the HX250 cover screws?").answer is None
    assert library.services.llm.calls == []


def test_an_answer_is_proved_by_its_source(library: Library) -> None:
    answered = library.answer(QUESTION)
    (cited,) = answered.answer.citations
    assert cited.quote.state == "exact"
    document = library.get(cited.quote.document_id).document
    assert document.text[cited.quote.start : cited.quote.end] == cited.quote.text
    assert answered.answer.coverage == 1.0
    prompt = library.services.llm.calls[-1].prompt
    assert all(conflict.note in prompt for conflict in answered.conflicts)


def test_the_best_segment_is_returned_though_it_is_worth_little_and_that_is_said(library: Library) -> None:
    found = library.segments(QUESTION, SegmentSearch(extraction=BALANCED))
    (best,) = found.segments
    assert best.value < BALANCED.minimum_value
    assert [part.what for part in found.degraded] == ["segments"]
    every = library.segments(QUESTION, SegmentSearch(extraction=LOOSE))
    assert best.value == max(hit.value for hit in every.segments)
    assert every.degraded == ()
    assert library.segments(QUESTION, SegmentSearch(extraction=BALANCED, never_empty=False)).segments == ()


def test_the_order_in_which_answers_come_changes_nothing(library: Library) -> None:
    how = SegmentSearch(rerank=True, queries_by="decomposition")
    question = "What is the torque of the HX200? Its fuse? The torque of the HX210? The fuse of the HX210?"
    for seed in range(3):
        reranker = FakeReranker()
        late = run(find_segments(question, how), replace(library.services, reranker=Slow(reranker, 0.02, seed=seed)))
        assert late.segments == library.segments(question, how).segments
        assert len(late.asked) == 4
        assert {query for query, _ in reranker.calls} == set(late.asked)  # each ranking by its own query


def test_a_constant_is_believed_of_shares_of_names_too(library: Library) -> None:
    question = "Which fuse is fitted in the HX200 and the HX210?"
    assert library.search(question).scale is Scale.RANK
    believed, doubted = (SegmentSearch(extraction=LOOSE, calibration=Constant(share)) for share in (0.9, 0.5))
    assert library.segments(question, believed).value > library.segments(question, doubted).value


def test_bad_options_and_models_that_were_not_given_are_named(tmp_path: Path) -> None:
    for name, value in {"queries_by": "chance", "extraction": "precision", "calibration": "cohere"}.items():
        with pytest.raises(ParameterError, match=name):
            SegmentSearch(**{name: value})  # type: ignore[arg-type]
    with Library.open(tmp_path / "library") as library:
        for how, name in ((SegmentSearch(rerank=True), "reranker"), (SegmentSearch(queries_by="llm"), "llm")):
            with pytest.raises(ParameterError, match=f"{name} must be given to"):
                library.segments("Which fuse?", how)

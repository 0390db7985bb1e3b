"""Whole sections in a library: found by passages and views, read within a budget, re-indexed where they changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from typing import Any

import pytest

from catena import Library
from catena.effects import Complete, Services, Step, run
from catena.enrichment import Keywords, MadeViews, Summaries, with_views
from catena.library import FixedLength, Preparation, embed, prepare
from catena.model import DEFAULT, Chunk, Document, ParameterError, ParseError, Scale
from catena.retrieval import ExactUnion, ViewSearch, found_by, retrieve
from catena.store.checks import problems_of
from catena.structure import SectionChunkOptions
from catena.testing import FakeEmbedder, FakeLLM
from catena.text import count_tokens

FILLER = "The housing is made of cast iron and stands on four rubber feet. " * 12
PUMP = (
    f"# Pump\n\n## Housing\n\n{FILLER}\n\nThe drain plug takes 14 mm keys.\n\n## Seal\n\nReplace the seal yearly.\n"
)
SECTIONS = Preparation(chunks=SectionChunkOptions())
PREPARED = prepare(Document(id="d", text=PUMP, title="Pump"), SECTIONS)


@pytest.fixture
def manual(tmp_path: Path) -> Path:
    path = tmp_path / "pump.md"
    path.write_text(PUMP)
    return path


@pytest.fixture
def library(tmp_path: Path, manual: Path) -> Iterator[Library]:
    how = Preparation(
        chunks=SectionChunkOptions(), views=(Keywords(by="offline"), Summaries(by="offline", over_tokens=5))
    )
    with Library.open(tmp_path / "library", preparation=how) as opened:
        opened.index(manual)
        yield opened


def llm() -> FakeLLM:
    def reply(request: Complete) -> str:
        return '["plug", "feet"]' if request.purpose == "view keywords" else "It says what the pump is made of."

    return FakeLLM(reply)


def test_a_section_is_one_chunk_and_is_found_by_its_best_passage(library: Library) -> None:
    best = library.search("Which keys does the drain plug take?", k=2).hits[0]
    assert best.chunk.path == ("Pump", "Housing")
    assert count_tokens(best.chunk.text) > 150
    assert {(way.route, way.view) for way in best.provenance} >= {("lexical", "passage"), ("dense", "passage")}


def test_what_is_longer_than_a_vector_can_say_has_a_vector_per_passage() -> None:
    step = embed(PREPARED)
    (request,) = next(step)
    with pytest.raises(StopIteration) as done:
        step.send([FakeEmbedder(4).embed_documents(request.texts)])
    vectors = done.value.value
    assert set(vectors.kinds) == {DEFAULT}
    assert vectors.chunks.count(0) > 1
    assert vectors.chunks.count(1) == 1
    assert max(map(count_tokens, request.texts)) <= 100 + count_tokens("Pump › Housing")


def test_what_is_known_is_not_embedded_again() -> None:
    embedder = FakeEmbedder(4)
    step = embed(PREPARED)
    (request,) = next(step)
    with pytest.raises(StopIteration) as done:
        step.send([embedder.embed_documents(request.texts)])
    first = done.value.value
    known = {(kind, name): row for kind, name, row in zip(first.kinds, first.digests, first.rows, strict=True)}
    dropped = next(iter(known))
    left = {name: row for name, row in known.items() if name != dropped}
    step = embed(PREPARED, known=left)
    (request,) = next(step)
    assert len(request.texts) == 1
    with pytest.raises(StopIteration) as again:
        step.send([embedder.embed_documents(request.texts)])
    assert (again.value.value.rows == first.rows).all()


def test_each_view_finds_and_says_so(library: Library) -> None:
    found = library.search_views("Which keys does the drain plug take?", k=3)
    assert found.scale is Scale.RANK
    assert set(found_by(found.hits[0])) == {"headed", "keywords", "summary"}
    alone = library.search_views("seal", ViewSearch(views=("keywords",), rule=ExactUnion()), k=1)
    assert [hit.chunk.path[-1] for hit in alone.hits] == ["Seal"]
    (best, *_) = library.search_views("Which keys does the plug take?", ViewSearch(views=("passage",))).hits
    assert {way.route for way in best.provenance} == {"dense", "lexical", "dense+lexical"}
    usual = {"routes": ("dense", "lexical"), "by_name": False}  # without passages: fused by the usual formula
    assert library.search("drain plug", **usual) == run(retrieve("drain plug", **usual), library.services)


def test_passages_fill_a_budget_with_exact_slices(library: Library, manual: Path) -> None:
    found = library.passages("Which keys does the drain plug take?", budget_tokens=120)
    assert "drain plug takes 14 mm" in found.hits[0].chunk.text
    assert sum(count_tokens(hit.chunk.text) for hit in found.hits) <= 120
    text = library.get(found.hits[0].chunk.document_id).document.text
    for hit in found.hits:
        assert text[hit.chunk.start : hit.chunk.end] == hit.chunk.text
        assert hit.chunk.metadata["title"] == "Pump"


def test_passages_of_a_section_of_several_pages_have_their_own(tmp_path: Path) -> None:
    pages = [f"# Pump\n\n{FILLER}\n\n", f"{FILLER}\n\n", "The drain plug takes 14 mm keys.\n"]
    starts = tuple(sum(map(len, pages[:at])) for at in range(3))
    with Library.open(tmp_path / "library", preparation=SECTIONS) as library:
        library.add(Document(id="pump", text="".join(pages), page_starts=starts))
        document = library.get("pump").document
        for found in (library.read("keys", budget_tokens=60), asyncio.run(library.aread("keys", budget_tokens=60))):
            assert {hit.chunk.pages for hit in found.hits} & {(2, 3), (3, 3)}
            assert all(hit.chunk.place == document.place_of(hit.chunk.start, hit.chunk.end) for hit in found.hits)


def test_equal_sections_are_asked_about_once_and_views_stand_as_in_a_new_library(tmp_path: Path) -> None:
    how = Preparation(chunks=SectionChunkOptions(), views=(Keywords(), Summaries(over_tokens=5)))
    twice = PUMP + "\n## Seal\n\nReplace the seal yearly.\n"
    with Library.open(tmp_path / "library", preparation=how, llm=(model := llm())) as library:
        for text in (twice, twice.replace("14 mm", "15 mm")):
            before = paid(model)
            library.replace(Document(id="pump", text=text))
            assert paid(model) - before <= 2 * 2
            with Library.open(tmp_path / f"new {len(text)} {before}", preparation=how, llm=llm()) as new:
                new.add(Document(id="pump", text=text))
                assert library.get("pump") == new.get("pump")


def test_short_chunks_stay_without_passages_and_their_fingerprint_stays() -> None:
    entry = prepare(Document(id="d", text=PUMP, title="Pump"))
    assert {view.kind for view in entry.views} == {"headed"}
    assert Preparation().fingerprint("x") == Preparation(passage_tokens=50).fingerprint("x")
    others = (SECTIONS, Preparation(chunks=FixedLength()), Preparation(views=(Keywords(by="offline"),)))
    prints = {how.fingerprint("x") for how in (Preparation(), *others)}
    assert len(prints) == 4
    assert SECTIONS.fingerprint("x") != Preparation(chunks=SectionChunkOptions(), passage_tokens=50).fingerprint("x")


# What a change costs


def paid(model: FakeLLM) -> int:
    return len(model.calls)


def test_a_changed_section_is_asked_about_and_no_other(tmp_path: Path, manual: Path) -> None:
    how = Preparation(chunks=SectionChunkOptions(), views=(Keywords(by="llm"), Summaries(by="llm", over_tokens=1)))
    model, embedder = llm(), FakeEmbedder(8)
    with Library.open(tmp_path / "library", preparation=how, llm=model, embedder=embedder) as library:
        library.index(manual)
        assert paid(model) == 4
        embedder.calls.clear()
        manual.write_text("A new first line.\n\n" + PUMP.replace("yearly", "every two years"))
        planned, _ = library.plan(manual)
        library.index(manual)
        assert planned.total.calls == paid(model) - 4 == 4, "two of the first line, two of the changed section"
        entry = library.get(library.document_id(manual))
        assert {view.kind for view in entry.views} == {"headed", "passage", "keywords", "summary"}
        old = "What is embedded of the section about the housing stayed as it was"
        assert not any("Housing" in text for call in embedder.calls for text in call), old
        assert library.verify() == ()


def test_what_another_model_wrote_is_not_taken_over(tmp_path: Path, manual: Path) -> None:
    how = Preparation(chunks=SectionChunkOptions(), views=(Keywords(by="llm"),))
    with Library.open(tmp_path / "library", preparation=how, llm=llm()) as library:
        library.index(manual)
    other = FakeLLM(lambda request: '["other"]', identity="another/1")
    with Library.open(tmp_path / "library", preparation=how, llm=other) as library:
        library.index(manual)
        views = library.get(library.document_id(manual)).views
    assert paid(other) == 2
    assert {view.text for view in views if view.kind == "keywords"} == {"other"}


def test_a_view_that_fails_is_said_and_asked_for_again(tmp_path: Path, manual: Path) -> None:
    how = Preparation(chunks=SectionChunkOptions(), views=(Keywords(by="llm"),))
    broken = FakeLLM(lambda request: "no list" if "seal yearly" in request.prompt else '["plug"]')
    with Library.open(tmp_path / "library", preparation=how, llm=broken) as library:
        (outcome,) = library.index(manual)
        assert outcome.state == "indexed"
        assert "views that could not be made: 1" in outcome.reason
        first = paid(broken)
        library.index(manual)
        assert paid(broken) > first, "the failed one again"
        assert len([v for v in library.get(library.document_id(manual)).views if v.kind == "keywords"]) == 1


@dataclass(frozen=True, slots=True)
class Shouted:
    """A maker of one's own."""

    kind: str = "shouted"
    asks_model: bool = False
    version: str = "1"

    def make(self, chunks: tuple[Chunk, ...], title: str) -> Step[MadeViews]:
        yield from ()
        return MadeViews(texts=tuple((f"{title}: {chunk.text.upper()}",) for chunk in chunks))


def test_a_part_of_a_long_section_that_failed_is_asked_for_again_alone(tmp_path: Path, manual: Path) -> None:
    how = Preparation(chunks=SectionChunkOptions(), views=(Keywords(by="llm", part_tokens=120),))
    broken = FakeLLM(lambda request: "no list" if "drain plug" in request.prompt else '["feet"]')
    with Library.open(tmp_path / "library", preparation=how, llm=broken) as library:
        library.index(manual)
        entry = library.get(library.document_id(manual))
        stamped = {view.chunk_id: bool(view.made) for view in entry.views if view.kind == "keywords"}
        assert stamped == {entry.chunks[0].id: False, entry.chunks[1].id: True}
        before = paid(broken)
        library.index(manual)
        assert "Replace the seal" not in "".join(call.prompt for call in broken.calls[before:])
        assert paid(broken) > before


def test_what_is_left_out_on_purpose_is_no_contradiction(tmp_path: Path) -> None:
    text = "---\n\n# Pump\n\nIt pumps.\n\n## Notes\n\nNobody reads them.\n\n## Ruled\n\n<!-- later -->\n\n---\n"
    how = Preparation(chunks=SectionChunkOptions(leave_out=["notes"]))  # type: ignore[arg-type]
    with Library.open(tmp_path / "library", preparation=how) as library:
        library.add(Document(id="pump", text=text, media_type="text/markdown"))
        assert library.verify() == ()
        entry = library.get("pump")
        assert [chunk.path for chunk in entry.chunks] == [("Pump",)]
        assert [entry.sections[at].title for at in entry.left_out] == ["", "Notes", "Ruled"]
        with pytest.raises(ParseError, match="all its sections are left out"):
            library.replace(Document(id="notes", text="# Notes\n\nNothing else.", media_type="text/markdown"))


def test_what_should_have_a_chunk_and_has_none_is_a_contradiction() -> None:
    entry = prepare(Document(id="pump", text=PUMP, media_type="text/markdown"), SECTIONS)
    lacking = replace(entry, chunks=entry.chunks[:1], terms=entry.terms[:1])
    assert any("no chunk holds 'Replace the seal yearly" in problem for problem in problems_of(lacking))
    left_out = replace(entry, left_out=(entry.chunks[0].section,))
    assert f"section {entry.chunks[0].section} is left out, and has a chunk" in list(problems_of(left_out))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Preparation(chunks="sections"), r"chunks must be ChunkOptions\(...\), SectionChunkOptions"),
        (lambda: Preparation(passage_tokens=nan), "passage_tokens must be an integer >= 1, got nan"),
        (lambda: Preparation(views="keywords"), "views must be a tuple, each item of type ViewMaker"),
        (lambda: Preparation(views=(Keywords,)), "views must be makers of views that are made"),
        (lambda: Preparation(views=(Shouted(kind="passage"),)), "none that Catena takes: .*passage"),
        (lambda: FixedLength(tokens=0), "tokens must be an integer >= 1, got 0"),
        (lambda: SectionChunkOptions(leave_out=(1,)), "leave_out must be a tuple, each item a string"),
        (lambda: ViewSearch(views="headed"), "views must be a tuple, each item a string"),
        (lambda: ViewSearch(routes=()), "routes must be a sequence of at least one name"),
        (lambda: ViewSearch(rule=ExactUnion), "rule must be PaperQuota"),
        (lambda: run(with_views(PREPARED, ["keywords"]), Services()), "view maker must be an object with kind"),
    ],
)
def test_wrong_options_are_named_where_they_are_made(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()


def test_wrong_questions_are_named_before_anything_is_searched(library: Library) -> None:
    wrong: Any
    for wrong in (-1, nan, 1.5, "100", True):
        with pytest.raises(ParameterError, match="budget must be a whole number of tokens >= 0"):
            library.passages("drain plug", budget_tokens=wrong)
        with pytest.raises(ParameterError, match="budget must be a whole number of tokens >= 0"):
            library.read("drain plug", budget_tokens=wrong)
    with pytest.raises(ParameterError, match="how must be ViewSearch"):
        library.search_views("drain plug", "headed")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="reading must be ReadingOptions"):
        library.passages("drain plug", reading="fast")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"views must be kinds of view that this library holds \(headed, keyw"):
        library.search_views("seal", ViewSearch(views=("headed", "questions")))

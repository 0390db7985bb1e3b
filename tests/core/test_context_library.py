"""A library with titles and summaries: found, kept, planned, asked for again where they failed, and left out."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from drawn_pages import diagram, pdf, prose, text

from catena import Library
from catena.effects import Complete, Journal, Price, Services, Tariff
from catena.enrichment import ContextOptions
from catena.library import UNCHANGED, Preparation, prepare
from catena.model import Document, ParameterError, ServiceError, View, digest
from catena.parsing import usual_engine
from catena.parsing.figure_shapes import Box
from catena.structure import CONTEXT, DOCUMENT_SUMMARY, SECTION_SUMMARY, chunk_header
from catena.structure.views import context_search_views
from catena.testing import FakeCaptioner, FakeEmbedder, FakeLLM

PUMP = "# Pump\n\nThe pump turns at 40 rpm.\n\n## Seals\n\nChange the seals after 900 hours of work.\n"
NOTES = "It rained on Monday and on Tuesday. Nothing else is to be told.\n\nOn Friday the sun came out.\n"
BY_MODEL = Preparation(context=ContextOptions(embed=True))
OFFLINE = Preparation(context=ContextOptions(by="offline", embed=True))
ANSWERS = {
    "document title": "Weather diary",
    "section title": "A week of rain",
    "document summary": "This document is about: rain and machines.",
    "section summary": "This section is about: one part of it.",
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "notes.txt").write_text(NOTES)
    (folder / "pump.md").write_text(PUMP)
    return folder


@pytest.fixture
def opened(tmp_path: Path):
    with ExitStack() as stack:
        journal = stack.enter_context(Journal.open(tmp_path / "journal.db"))

        def make(preparation: Preparation, *, llm=None, **services) -> Library:
            how = Services(journal=journal, **services)
            place = tmp_path / "lib"
            return stack.enter_context(
                Library.open(place, embedder=FakeEmbedder(16), preparation=preparation, llm=llm, services=how)
            )

        yield make


def model(answers=ANSWERS) -> FakeLLM:
    return FakeLLM(lambda request: answers[request.purpose])


def by_source(library: Library) -> dict[str, str]:
    return {outcome.source.rpartition("/")[2]: outcome.reason for outcome in library.ledger()}


def test_what_a_model_made_comes_with_every_hit_and_nothing_is_asked_twice(opened, files):
    llm = model()
    library = opened(BY_MODEL, llm=llm)
    assert [(o.state, o.reason) for o in library.index(files)] == [("indexed", "")] * 2
    assert len(llm.calls) == 4 + 3
    hits = library.search("When are the seals changed?").hits
    assert {hit.chunk.document_id for hit in hits} == {"files/notes.txt", "files/pump.md"}
    for hit in hits:
        assert hit.chunk.metadata[DOCUMENT_SUMMARY] == ANSWERS["document summary"]
        assert hit.chunk.metadata[SECTION_SUMMARY] == ANSWERS["section summary"]
    assert library.verify() == ()
    assert {o.reason for o in library.index(files)} == {UNCHANGED}
    library.delete("files/pump.md")
    library.index(files)
    assert len(llm.calls) == 7  # the journal had it


def test_a_title_that_was_made_is_a_title_everywhere(opened, files):
    library = opened(BY_MODEL, llm=model())
    library.index(files)
    entry = library.get("files/notes.txt")
    assert entry.document.title == "Weather diary"
    titled = {(chunk.path, chunk.metadata["title"]) for chunk in entry.chunks}
    assert titled == {(("A week of rain",), "Weather diary")}
    views = {view.kind: view.text for view in entry.views}
    assert views["headed"].startswith("Weather diary › A week of rain\n")
    assert views[CONTEXT] == f"{chunk_header(entry.chunks[0])}\n\n{entry.chunks[0].text}"
    assert library.search("weather diary", routes=["keyword"]).hits
    assert library.search("rain", routes=["lexical"]).hits[0].chunk.document_id == "files/notes.txt"


def test_the_dense_route_compares_the_view_in_context_or_else_the_headed_one(opened, files, tmp_path):
    opened(OFFLINE).index(files)
    (hit, *_) = opened(OFFLINE).search("seals", routes=["dense"]).hits
    assert hit.provenance[0].view == CONTEXT
    entry = opened(OFFLINE).get(hit.chunk.document_id)
    in_context = {view.chunk_id: view.text for view in entry.views if view.kind == CONTEXT}
    exact = opened(OFFLINE).search(in_context[hit.chunk.id], routes=["dense"]).hits[0]
    assert (exact.chunk.id, round(exact.provenance[0].score, 3)) == (hit.chunk.id, 1.0)
    headed = Preparation(context=ContextOptions(by="offline"))
    with Library.open(tmp_path / "other", embedder=FakeEmbedder(16), preparation=headed) as library:
        library.index(files)
        (hit, *_) = library.search("seals", routes=["dense"]).hits
        assert hit.provenance[0].view == "headed"
        assert {view.kind for view in library.get("files/pump.md").views} == {"headed"}
        assert SECTION_SUMMARY in hit.chunk.metadata


def test_fingerprints_of_older_libraries_stay_and_other_options_index_anew(opened, files):
    how = Preparation(engine="pypdf")
    before = (how.chunks, how.terms, how.layout, how.engine, how.ruled_tables, how.embed_tables)  # there was context
    assert how.fingerprint(b"x") == digest(b"x", repr(before))
    assert Preparation().fingerprint(b"x") == Preparation(engine=usual_engine()).fingerprint(b"x")
    library = opened(Preparation())
    library.index(files)
    assert {o.reason for o in opened(Preparation(), llm=model()).index(files)} == {UNCHANGED}
    other = Preparation(context=ContextOptions(by="offline", section_summaries=False))
    another = model()
    another.identity = "another"
    for options, llm in ((OFFLINE, None), (other, None), (BY_MODEL, model()), (BY_MODEL, another)):
        assert {o.state for o in opened(options, llm=llm).index(files)} == {"indexed"}


def test_what_is_asked_is_known_before(opened, files):
    assert BY_MODEL.asks == {Complete}
    assert OFFLINE.asks == frozenset()
    none = ContextOptions(document_title=False, document_summary=False, section_titles=False, section_summaries=False)
    assert Preparation(context=none).asks == frozenset()
    with pytest.raises(ParameterError, match="llm must be given"):
        opened(BY_MODEL).index(files)


def test_a_plan_counts_the_calls_that_are_made(opened, files):
    llm = model()
    library = opened(BY_MODEL, llm=llm)
    found, outcomes = library.plan(files, tariff=Tariff(prices={Complete: Price(call=1.0)}))
    assert (llm.calls, [o.reason for o in outcomes]) == ([], ["", ""])
    planned = {purpose: usage.calls for purpose, usage in found.by_purpose.items()}
    assert planned == dict(zip(ANSWERS, (1, 1, 2, 3), strict=True))
    library.index(files)
    assert len(llm.calls) == found.total.calls == found.total.cost
    assert library.plan(files)[0].total.calls == 0
    assert opened(OFFLINE).plan(files)[0].total.calls == 0


def test_a_summary_that_fails_costs_itself_is_told_and_asked_for_again(opened, files):
    broken = [True]

    def reply(request: Complete) -> str:
        if broken[0] and "Heading of the section: Pump › Seals\n" in request.prompt:
            raise ServiceError("llm", "the line is dead")
        return ANSWERS[request.purpose]

    llm = FakeLLM(reply)
    library = opened(BY_MODEL, llm=llm)
    library.index(files)
    first = "summary of section 1 of files/pump.md: llm: the line is dead"
    assert by_source(library) == {"notes.txt": "", "pump.md": f"missing of titles and summaries: 1 (first: {first})"}
    told = {chunk.section: chunk.metadata.get(SECTION_SUMMARY) for chunk in library.get("files/pump.md").chunks}
    assert told == {0: ANSWERS["section summary"], 1: None}
    asked = len(llm.calls)
    broken[0] = False
    assert [(o.state, o.reason) for o in library.index(files)] == [("skipped", UNCHANGED), ("indexed", "")]
    assert len(llm.calls) == asked + 1
    assert {o.reason for o in library.index(files)} == {UNCHANGED}


def test_a_document_that_is_parsed_already_is_asked_about_again_too(opened):
    library = opened(BY_MODEL, llm=model({**ANSWERS, "section summary": "Sure! Here you are."}))
    library.add(Document(id="a", text=PUMP))
    assert library.replace(Document(id="a", text=PUMP)) == ("a",)


def test_sections_that_were_cut_are_told(opened, files):
    library = opened(Preparation(context=ContextOptions(section_tokens=3)), llm=model())
    library.index(files)
    cut = {name: reason.rpartition(": ")[2] for name, reason in by_source(library).items()}
    assert cut == {"notes.txt": "0", "pump.md": "0, 1"}
    assert {o.reason for o in library.index(files)} == {UNCHANGED}


def test_figures_keep_their_views_where_a_title_is_made(opened, tmp_path):
    def page(canvas):
        prose(canvas, 60, 80, 470, 5)
        diagram(canvas, Box(120, 200, 360, 280))
        text(canvas, "Figure 1: Path of the signal", 60, 306)

    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.pdf").write_bytes(pdf(page))
    captioner = FakeCaptioner(lambda image, prompt: "A box with an arrow.")
    how = Preparation(context=ContextOptions(embed=True), figures=True, engine="pypdfium2")
    library = opened(how, llm=model(), captioner=captioner)
    assert [(o.state, o.reason) for o in library.index(tmp_path / "files")] == [("indexed", "")]
    (hit, *_) = library.search_figures("path of the signal").hits
    assert library.figure(hit).caption == "A box with an arrow."
    assert hit.chunk.metadata["title"] == "Weather diary"
    assert hit.chunk.metadata[DOCUMENT_SUMMARY] == ANSWERS["document summary"]
    dense = library.search("A box with an arrow.", routes=["dense"]).hits
    assert {each.provenance[0].view for each in dense if each.chunk.id == hit.chunk.id} == {"caption"}
    assert library.verify() == ()


def test_a_table_of_contents_is_compared_by_its_header_and_a_torn_table_has_its_columns():
    contents = "# Book\n\n## Contents\n\nOne ...... 1\nTwo ...... 2\nThree ...... 3\n"
    rows = "".join(f"| part {number} | {number} mm of steel and of brass |\n" for number in range(200))
    entry = prepare(Document(id="b", text=f"{contents}\n## Sizes\n\n| part | size |\n|---|---|\n{rows}"))
    views: list[View] = list(context_search_views(entry.chunks))
    first, *_, last = views
    assert first.text == chunk_header(entry.chunks[0])
    assert "| part | size |" in last.text
    assert "| part | size |" not in entry.chunks[-1].text
    assert last.text.startswith(chunk_header(entry.chunks[-1]) + "\n\n| part")

"""A library that asks models while it indexes: pages, sections, entities, resumption, plans, what failures cost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from drawn_pages import diagram, pdf, prose, text

from catena import Journal, Library, ParameterError, ServiceError, run
from catena.effects import Complete, Completion, Event, Limiter, Price, Retry, Services, Tariff, plan
from catena.enrichment import (
    CodeDetector,
    ContextOptions,
    Detected,
    ExpertDetector,
    ExpertTerms,
    LLMDetector,
    RecognizerDetector,
    StaticEmbedder,
    Summaries,
)
from catena.formatting import FormatOptions, planned_answer, with_figures
from catena.library import PLANNED_ANSWERS, UNCHANGED, Preparation, ingest_document
from catena.model import GENERATED_TITLE, Document, MissingServiceError, citation
from catena.parsing.figure_shapes import Box
from catena.structure import EmbeddingOptions, SectionChunkOptions, SegmentOptions
from catena.testing import FaithfulFormatter, FakeEmbedder, FakeLLM, Flaky
from catena.testing.fakes import FakeRecognizer
from catena_bench.generated_pdfs import PdfStyle, render_pdf

PUMP = "# 1 Pump\n\nThe pump turns at 40 rpm.\n\n## 1.1 Seals\n\nChange the seals after 900 h of work.\n"
VALVE = "# 1 Valve\n\nThe valve opens at 6 bar.\n\n## 1.1 Springs\n\nChange the spring after 300 h of work.\n"
FORMAT = Preparation(format_with_llm=FormatOptions())
NAMES = Preparation(detectors=(LLMDetector(),))
DIVIDE = Preparation(segmentation=SegmentOptions())


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for name, truth in (("pump", PUMP), ("valve", VALVE)):
        (folder / f"{name}.pdf").write_bytes(render_pdf(truth, PdfStyle(running=False)).pdf)
    return folder


@pytest.fixture
def opened(tmp_path: Path):
    """Open libraries beside the files, with a journal where one is wanted."""
    held: list[Any] = []

    def make(preparation: Preparation, *, journal: bool = True, llm: Any = None, **services: Any) -> Library:
        if journal:
            held.append(services.setdefault("journal", Journal.open(tmp_path / "journal.db")))
        given = Services(**services)
        embedder = FakeEmbedder(16)
        path = tmp_path / "lib"
        held.append(Library.open(path, embedder=embedder, preparation=preparation, llm=llm, services=given))
        return held[-1]

    yield make
    for each in reversed(held):
        each.close()


def truths(answer: Callable[[Complete, str], str] = lambda request, said: said) -> FakeLLM:
    models = [FaithfulFormatter(PUMP), FaithfulFormatter(VALVE)]

    def reply(request: Complete) -> str | Completion:
        window = planned_answer(request).text
        return answer(request, models["alve" in window or "pring" in window].answer(window))

    return FakeLLM(reply)


def naming(*names: str) -> FakeLLM:
    """A model that finds these names where a passage prints them."""

    def reply(request: Complete) -> str:
        passages = request.prompt.split('<passage number="')[1:]
        return json.dumps([[name for name in names if name in passage] for passage in passages])

    return FakeLLM(reply)


def states(library: Library, files: Path) -> set[tuple[str, str]]:
    return {(outcome.state, outcome.reason) for outcome in library.index(files)}


def named(library: Library, query: str) -> set[str]:
    return {hit.chunk.document_id for hit in library.search(query, routes=["keyword"]).hits}


DONE, SKIPPED = {("indexed", "")}, {("skipped", UNCHANGED)}


# pages


def test_a_model_writes_the_pages_and_nothing_is_asked_twice(opened, files):
    llm = truths()
    library = opened(FORMAT, llm=llm)
    assert states(library, files) == DONE
    assert library.get("files/pump.pdf").document.text.split() == PUMP.split()
    assert len(llm.calls) == 2
    assert states(library, files) == SKIPPED
    library.delete("files/pump.pdf")
    library.index(files)
    assert len(llm.calls) == 2  # the journal had it
    assert library.verify() == ()
    other = truths()
    other.identity = "another"
    assert states(opened(FORMAT, llm=other), files) == DONE
    assert len(other.calls) == 2
    assert states(opened(FORMAT, llm=other), files) == SKIPPED
    assert states(opened(Preparation(), llm=other), files) == DONE


def test_pages_come_from_the_layout_where_the_model_was_not_faithful_or_gave_no_answer(opened, files):
    def broken(request: Complete, said: str) -> str:
        if "seals" in said and how == "dead":
            raise ServiceError("llm", "the line is dead")
        return said.replace("900 h", "800 h") if how == "wrong" else said

    how = "dead"
    library = opened(FORMAT, llm=truths(broken))
    told = "pages as the layout gives them: 1 (1 of 1; {})"
    pump, _ = library.index(files)
    assert pump.reason == told.format("no answer came for all of them")
    assert "900 h" in library.get("files/pump.pdf").document.text
    how = "wrong"  # a page without an answer is asked for again by the next run
    pump, valve = library.index(files)
    assert (pump.state, valve.state) == ("indexed", "skipped")
    assert pump.reason == told.format("the model's text was not faithful")
    assert "900 h" in library.get("files/pump.pdf").document.text
    assert states(library, files) == SKIPPED  # its answers are final
    assert {o.source.rpartition("/")[2]: o.reason for o in library.ledger()}["pump.pdf"] == pump.reason


def test_a_model_that_nobody_asks_changes_no_fingerprint(opened, files):
    expert = Preparation(detectors=(ExpertDetector(terms=ExpertTerms(["seals"])), CodeDetector()))
    for how in (Preparation(), expert):
        assert states(opened(how), files) == DONE
        assert states(opened(how, llm=truths()), files) == SKIPPED


# sections by meaning

PUMPS = "The pump moves water from the well to the tank. Its impeller turns at 2900 rpm and needs no grease."
TAXES = "Taxes are due in March. Whoever pays late pays interest of two percent for each month begun."
TEXT = "\n\n".join([PUMPS] * 4 + [TAXES] * 4) + "\n"
LETTERS = Document(id="d", text=TEXT, title="Letters of the works", source="letters.txt", media_type="text/plain")


def two_sections(request: Complete) -> str:
    if "Divide lines" not in request.prompt:
        return "Said in short."
    first, last = map(int, re.findall(r"Divide lines (\d+) to (\d+)", request.prompt)[-1])
    middle = (first + last + 1) // 2
    return json.dumps([{"title": "Pumps", "start": first}, {"title": "Taxes", "start": middle}])


def ingested(how: Preparation | None = None, llm: FakeLLM | None = None, document: Document = LETTERS) -> Any:
    return run(ingest_document(document, how), Services(llm=llm, embedder=StaticEmbedder()))


def test_a_model_or_the_embedding_divides_what_has_no_headings() -> None:
    entry = ingested(DIVIDE, FakeLLM(two_sections)).entry
    assert [section.title for section in entry.sections] == ["Pumps", "Taxes"]
    assert "".join(TEXT[section.start : section.end] for section in entry.sections) == TEXT
    assert {chunk.path for chunk in entry.chunks} == {("Pumps",), ("Taxes",)}
    assert all(chunk.metadata[GENERATED_TITLE] == chunk.path[-1] for chunk in entry.chunks)
    assert all(TEXT[chunk.start : chunk.end] == chunk.text for chunk in entry.chunks)
    assert citation(entry.chunks[0]).startswith("Letters of the works › [Pumps], line")
    assert entry.fingerprint
    entry = ingested(Preparation(segmentation=EmbeddingOptions(shortest=200))).entry
    assert TEXT.index(TAXES) in {section.start for section in entry.sections}
    assert "".join(TEXT[section.start : section.end] for section in entry.sections) == TEXT
    printed = replace(LETTERS, text=f"# Letters\n\n{PUMPS}\n\n## Taxes\n\n{TAXES}\n", media_type="text/markdown")
    assert not any(GENERATED_TITLE in chunk.metadata for chunk in ingested(document=printed).entry.chunks)


def test_where_a_model_fails_paragraphs_do_and_the_next_run_asks_again() -> None:
    done = ingested(Preparation(segmentation=SegmentOptions(attempts=1)), FakeLLM(lambda request: "I cannot."))
    assert done.entry.chunks
    assert done.entry.fingerprint == ""
    assert "divided at headings and paragraphs" in done.notes[-1]


def test_a_library_divides_once_and_options_are_part_of_the_fingerprint(opened, tmp_path) -> None:
    path = tmp_path / "letters.txt"
    path.write_text(TEXT, encoding="utf-8")
    llm = FakeLLM(two_sections)
    library = opened(DIVIDE, llm=llm)
    assert states(library, path) == DONE
    assert library.search("When are taxes due?", k=1).hits[0].chunk.path == ("Taxes",)
    assert states(library, path) == SKIPPED
    asked = len(llm.calls)
    library.delete("letters.txt")
    assert states(library, path) == DONE
    assert len(llm.calls) == asked
    by_embedding = [EmbeddingOptions(), EmbeddingOptions(), EmbeddingOptions(reach=3)]
    one, same, other = (Preparation(segmentation=each).fingerprint("x") for each in by_embedding)
    assert one == same != other
    assert Preparation().fingerprint("x") not in {one, other}


# entities


def test_entities_of_every_kind_of_detector_are_found_by_the_keyword_route(opened, files):
    detectors = (LLMDetector(), RecognizerDetector(), ExpertDetector(terms=ExpertTerms(["work"])))
    recognizer = FakeRecognizer({"PART": ["spring", "seals"]})
    library = opened(Preparation(detectors=detectors), llm=naming("rpm", "Baikal"), recognizer=recognizer)
    assert states(library, files) == DONE
    pump, valve = "files/pump.pdf", "files/valve.pdf"
    assert [named(library, name) for name in ("rpm", "seals", "spring")] == [{pump}, {pump}, {valve}]
    assert named(library, "work") == {pump, valve}
    assert states(library, files) == SKIPPED
    lake = Document(id="a", text="# Lake\n\nBaikal is deep.\n")  # parsed already
    library.add(lake)
    assert named(library, "Baikal") == {"a"}
    assert library.replace(lake) == ()


def test_a_detector_that_fails_costs_its_terms_only_and_is_asked_again(opened, files):
    def reply(request: Complete) -> str:
        if not mended:
            raise ServiceError("llm", "the line is dead")
        return said.complete(request).text

    mended: list[bool] = []
    said = naming("rpm")
    library = opened(NAMES, llm=FakeLLM(reply))
    lacking = "2 of 2 chunks lack the entities of a detector (llm: the line is dead); they have all others"
    assert states(library, files) == {("indexed", lacking)}
    assert library.search("seals").hits
    assert not named(library, "rpm")
    mended.append(True)
    assert states(library, files) == DONE
    assert named(library, "rpm")
    said = FakeLLM(lambda request: '[["Zeppelin"], ["Zeppelin"]]')  # names that the text does not print: for good
    library.delete("files/pump.pdf")
    assert states(library, files) == {("indexed", ""), ("skipped", UNCHANGED)}
    assert not named(library, "Zeppelin")


@dataclass(frozen=True)
class Shouted:
    """A detector of one's own: words in capitals."""

    name: str = "shouted"

    def detect(self, texts):
        yield from ()
        return Detected(tuple(tuple(sorted({w.lower() for w in t.split() if w.isupper()})) for t in texts))


class Asking:
    name = "asking"

    def detect(self, texts):
        return (yield from LLMDetector().detect(texts))


def test_a_detector_of_ones_own_works_and_is_part_of_the_fingerprint(opened, tmp_path):
    path = tmp_path / "a.md"
    path.write_text("# A\n\nBEWARE of the dog.\n")
    library = opened(Preparation(detectors=(Shouted(),)))
    assert states(library, path) == DONE
    assert named(library, "beware")
    assert states(library, path) == SKIPPED
    assert states(opened(Preparation(detectors=(Shouted("other"),))), path) == DONE
    asking = Preparation(detectors=(Asking(),))
    with pytest.raises(MissingServiceError, match="Complete"):  # which nobody answers: it ends the run by name
        opened(asking).index(path)
    assert states(opened(asking, llm=naming("rpm")), path) == DONE
    assert states(opened(asking, llm=naming("rpm")), path) == SKIPPED


async def test_detectors_find_names_in_questions_where_asked_to(opened, files):
    recognizer = FakeRecognizer({"PART": ["Gasket", "seals"]})
    library = opened(Preparation(detectors=(RecognizerDetector(),)), recognizer=recognizer)
    library.index(files)
    asked = "How long does a Gasket last?"
    assert library.search(asked).unknown == ()
    assert [each.text for each in library.search(asked, detect=True).unknown] == ["Gasket"]
    assert library.search("When are the seals changed?", detect=True).unknown == ()
    both = library.search("Does the Gasket fit the flange?", detect=True, entities=("flange",)).unknown
    assert [each.text for each in both] == ["flange", "Gasket"]
    ranking = await opened(NAMES, llm=FakeLLM({})).asearch("seals", detect=True)
    assert ranking.hits
    assert ranking.degraded[0].what == "language model at the question"
    with pytest.raises(ParameterError, match="without Preparation"):
        opened(Preparation()).search("seals", detect=True)


# plan, budget, stop, pace


def test_a_plan_counts_what_would_be_asked_and_asks_nothing(opened, files):
    llm = truths()
    library = opened(Preparation(format_with_llm=FormatOptions(), detectors=(LLMDetector(),)), llm=llm)
    found, outcomes = library.plan(files, tariff=Tariff(prices={Complete: Price(input=2.0, output=8.0)}))
    assert not llm.calls
    assert {outcome.state for outcome in outcomes} == {"indexed"}
    calls = {purpose: usage.calls for purpose, usage in found.by_purpose.items()}
    assert calls == {"Markdown format": 2, "critical entities": 2}
    total = found.total
    assert total.cost == pytest.approx((2 * total.input_tokens + 8 * total.output_tokens) / 1e6)
    assert library.documents() == ()
    how = Preparation(segmentation=SegmentOptions(), context=ContextOptions(by="llm"))
    services = Services(llm=FakeLLM(two_sections), embedder=StaticEmbedder())
    found = plan(ingest_document(LETTERS, how), services, stand_ins=PLANNED_ANSWERS)
    assert not found.stopped_by
    calls = {purpose: usage.calls for purpose, usage in found.by_purpose.items()}
    assert calls == {"segmentation": 1, "document summary": 1, "section summary": 2}


def test_ctrl_c_keeps_what_was_paid(opened, files):
    def interrupted(request: Complete, said: str) -> str:
        if "spring" in said and not again:
            raise KeyboardInterrupt
        return said

    again: list[bool] = []
    llm = truths(interrupted)
    library = opened(Preparation(format_with_llm=FormatOptions(window=10, padding=5)), llm=llm)
    with pytest.raises(KeyboardInterrupt):
        library.index(files)
    paid = len(llm.calls)
    again.append(True)
    library.index(files)
    assert {outcome.state for outcome in library.ledger()} == {"indexed"}
    assert len(llm.calls) - paid < 4  # of the four windows, one at least was kept


def test_a_model_that_is_missing_is_named_before_anything_is_read(opened, files):
    recognised = Preparation(detectors=(RecognizerDetector(),))
    for how, name in ((FORMAT, "llm"), (NAMES, "llm"), (DIVIDE, "llm"), (recognised, "recognizer")):
        library = opened(how)
        for call in (library.index, library.plan, library.add):
            with pytest.raises(ParameterError, match=f"{name} must be given to Library.open"):
                call(files / "pump.pdf")
        assert library.ledger() == ()


def test_models_are_asked_at_the_pace_that_was_given(opened, tmp_path: Path) -> None:
    limiter, asked = Limiter({Complete: 60_000}), []
    slow_down = [ServiceError("fake", "too many requests", retry=True), *[None] * 9]
    model = Flaky(FakeLLM(lambda request: asked.append(request) or "Seals and springs of pumps."), slow_down)
    sections = Preparation(chunks=SectionChunkOptions(), views=(Summaries(over_tokens=0),))
    (tmp_path / "pump.md").write_text(PUMP)
    pace = {"max_concurrency": 1, "limiter": limiter, "retry": Retry(attempts=1)}
    library = opened(sections, llm=model, journal=False, **pace)
    assert library.services.limiter is limiter
    events: list[Event] = []
    library.index([tmp_path / "pump.md"], watch=events.append)
    order = [event.kind for event in events]  # the last is the embedder
    assert order == ["started", "failed", *["started", "finished"] * (len(asked) + 1)]
    with pytest.raises(ParameterError, match="max_concurrency must be at least 1, got 0"):
        Services(max_concurrency=0)


# figures


def test_figures_stay_where_a_model_wrote_the_text(opened, tmp_path):
    def page(canvas):
        prose(canvas, 60, 80, 470, 5)
        diagram(canvas, Box(120, 200, 360, 280))
        text(canvas, "Figure 1: Path of the signal", 60, 306)
        prose(canvas, 60, 340, 470, 5)

    (tmp_path / "a.pdf").write_bytes(pdf(page))
    echo = FakeLLM(lambda request: planned_answer(request).text)
    how = Preparation(format_with_llm=FormatOptions(), figures=True, engine="pypdfium2")
    library = opened(how, llm=echo)
    assert states(library, tmp_path / "a.pdf") == DONE
    best = library.search_figures("path of the signal").hits[0]
    assert library.figure(best).title == "Figure 1: Path of the signal"
    assert library.verify() == ()


LINK = "![Figure 1: Path of the signal](figures/0123456789abcdef-p0001-1.png)"


def document(*pages: str) -> Document:
    starts = [len("".join(pages[:number])) for number in range(len(pages))]
    return Document(id="d", text="".join(pages), page_starts=tuple(starts))


def test_a_figure_stands_before_its_caption_else_at_the_end_of_its_page():
    caption = "Words.\n\n**Figure 1:** Path of the signal\n\n"
    printed = document("Words.\n\n" + LINK + "\n\nFigure 1: Path of the signal\n\n", "More.\n")
    for first, second, whole in (
        (caption, "More.\n", caption.replace("**Fig", f"{LINK}\n\n**Fig")),
        ("Words.\n\n", "More.\n", f"Words.\n\n{LINK}\n\n"),
        ("Words.\n\nA sentence that ", "goes on.\n", f"Words.\n\n{LINK}\n\nA sentence that "),
    ):
        done = with_figures(document(first, second), printed)
        assert (done.text, done.text[done.page_starts[1] :]) == (whole + second, second)
    at_end = document("Words.\n\n", LINK + "\n")
    assert with_figures(at_end, at_end) == at_end
    assert with_figures(document("Words.\n\n", "End."), at_end).text == f"Words.\n\nEnd.\n\n{LINK}\n"

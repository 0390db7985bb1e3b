"""A library that asks models while it indexes: pages, entities, resumption, plans, and what failures cost."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from drawn_pages import diagram, pdf, prose, text

from catena import Library
from catena.effects import (
    Budget,
    Cancel,
    Complete,
    Completion,
    Event,
    Journal,
    Limiter,
    Price,
    Retry,
    Services,
    Tariff,
)
from catena.enrichment import (
    CodeDetector,
    Detected,
    ExpertDetector,
    ExpertTerms,
    LLMDetector,
    RecognizerDetector,
    Summaries,
)
from catena.formatting import FormatOptions, planned_answer, with_figures
from catena.library import UNCHANGED, Preparation
from catena.model import (
    BudgetExceededError,
    CancelledError,
    Document,
    MissingServiceError,
    ParameterError,
    ServiceError,
)
from catena.parsing.figure_shapes import Box
from catena.structure import SectionChunkOptions
from catena.testing import FaithfulFormatter, FakeEmbedder, FakeLLM, Flaky
from catena.testing.fakes import FakeRecognizer
from catena_bench.generated_pdfs import PdfStyle, render_pdf

PUMP = "# 1 Pump\n\nThe pump turns at 40 rpm.\n\n## 1.1 Seals\n\nChange the seals after 900 h of work.\n"
VALVE = "# 1 Valve\n\nThe valve opens at 6 bar.\n\n## 1.1 Springs\n\nChange the spring after 300 h of work.\n"
FORMAT = Preparation(format_with_llm=FormatOptions())
NAMES = Preparation(detectors=(LLMDetector(),))


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
    held = []

    def make(preparation: Preparation, *, journal: bool = True, llm=None, **services) -> Library:
        if journal:
            held.append(services.setdefault("journal", Journal.open(tmp_path / "journal.db")))
        held.append(
            Library.open(
                tmp_path / "lib",
                embedder=FakeEmbedder(16),
                preparation=preparation,
                llm=llm,
                services=Services(**services),
            )
        )
        return held[-1]

    yield make
    for each in reversed(held):
        each.close()


def truths(answer=lambda request, said: said) -> FakeLLM:
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


# pages


def test_a_model_writes_the_pages_and_nothing_is_asked_twice(opened, files):
    llm = truths()
    library = opened(FORMAT, llm=llm)
    assert [(o.state, o.reason) for o in library.index(files)] == [("indexed", "")] * 2
    assert library.get("files/pump.pdf").document.text.split() == PUMP.split()
    assert len(llm.calls) == 2
    assert {o.reason for o in library.index(files)} == {UNCHANGED}
    library.delete("files/pump.pdf")
    library.index(files)
    assert len(llm.calls) == 2  # the journal had it
    assert library.verify() == ()


def test_unfaithful_pages_come_from_the_layout_and_the_ledger_says_so(opened, files):
    llm = truths(lambda request, said: said.replace("900 h", "800 h"))
    library = opened(FORMAT, llm=llm)
    pump, valve = library.index(files)
    assert (pump.state, valve.state, valve.reason) == ("indexed", "indexed", "")
    assert pump.reason == "pages as the layout gives them: 1 (1 of 1; the model's text was not faithful)"
    assert "900 h" in library.get("files/pump.pdf").document.text
    assert {o.reason for o in library.index(files)} == {UNCHANGED}  # its answers are final
    assert {o.source.rpartition("/")[2]: o.reason for o in library.ledger()}["pump.pdf"] == pump.reason


def test_pages_that_got_no_answer_are_asked_for_again_by_the_next_run(opened, files):
    def broken(request: Complete, said: str) -> str:
        if "seals" in said and not mended:
            raise ServiceError("llm", "the line is dead")
        return said

    mended: list[bool] = []
    library = opened(FORMAT, llm=truths(broken))
    pump, _ = library.index(files)
    assert pump.reason == "pages as the layout gives them: 1 (1 of 1; no answer came for all of them)"
    assert "900 h" in library.get("files/pump.pdf").document.text
    mended.append(True)
    assert [(o.state, o.reason) for o in library.index(files)] == [("indexed", ""), ("skipped", UNCHANGED)]


def test_another_model_or_other_options_write_anew(opened, files):
    opened(FORMAT, llm=truths()).index(files)
    other = truths()
    other.identity = "another"
    assert {o.state for o in opened(FORMAT, llm=other).index(files)} == {"indexed"}
    assert len(other.calls) == 2
    assert {o.reason for o in opened(FORMAT, llm=other).index(files)} == {UNCHANGED}
    assert {o.state for o in opened(Preparation(), llm=other).index(files)} == {"indexed"}


def test_a_model_that_nobody_asks_changes_no_fingerprint(opened, files):
    opened(Preparation()).index(files)
    assert {o.reason for o in opened(Preparation(), llm=truths()).index(files)} == {UNCHANGED}
    expert = Preparation(detectors=(ExpertDetector(terms=ExpertTerms(["seals"])), CodeDetector()))
    assert {o.state for o in opened(expert).index(files)} == {"indexed"}
    assert {o.reason for o in opened(expert, llm=truths()).index(files)} == {UNCHANGED}


# entities


def test_entities_of_every_kind_of_detector_are_found_by_the_keyword_route(opened, files):
    detectors = (LLMDetector(), RecognizerDetector(), ExpertDetector(terms=ExpertTerms(["work"])))
    library = opened(
        Preparation(detectors=detectors), llm=naming("rpm"), recognizer=FakeRecognizer({"PART": ["spring", "seals"]})
    )
    assert {o.state for o in library.index(files)} == {"indexed"}
    for name, document in (("rpm", "pump"), ("seals", "pump"), ("spring", "valve")):
        hits = library.search(f"what about the {name}", routes=["keyword"]).hits
        assert {hit.chunk.document_id for hit in hits} == {f"files/{document}.pdf"}
    assert len(library.search("work", routes=["keyword"]).hits) == 2
    assert {o.reason for o in library.index(files)} == {UNCHANGED}


def test_a_detector_that_fails_costs_its_terms_only_and_is_asked_again(opened, files):
    def broken(request: Complete) -> str:
        if not mended:
            raise ServiceError("llm", "the line is dead")
        return said.complete(request).text

    mended: list[bool] = []
    said = naming("rpm")
    library = opened(NAMES, llm=FakeLLM(broken))
    outcomes = library.index(files)
    lacking = "2 of 2 chunks lack the entities of a detector (llm: the line is dead); they have all others"
    assert {(o.state, o.reason) for o in outcomes} == {("indexed", lacking)}
    assert library.search("seals").hits
    assert not library.search("rpm", routes=["keyword"]).hits
    mended.append(True)
    assert [o.reason for o in library.index(files)] == ["", ""]
    assert library.search("rpm", routes=["keyword"]).hits


def test_names_that_the_text_does_not_print_are_refused_for_good(opened, files):
    library = opened(NAMES, llm=FakeLLM(lambda request: '[["Zeppelin"], ["Zeppelin"]]'))
    assert {o.reason for o in library.index(files)} == {""}
    assert {o.reason for o in library.index(files)} == {UNCHANGED}
    assert not library.search("Zeppelin", routes=["keyword"]).hits


def test_documents_that_are_parsed_already_get_entities_too(opened):
    library = opened(NAMES, llm=naming("Baikal"))
    library.add(Document(id="a", text="# Lake\n\nBaikal is deep.\n"))
    assert library.search("Baikal", routes=["keyword"]).hits
    assert library.replace(Document(id="a", text="# Lake\n\nBaikal is deep.\n")) == ()


@dataclass(frozen=True)
class Shouted:
    """A detector of one's own: words in capitals."""

    name: str = "shouted"

    def detect(self, texts):
        yield from ()
        return Detected(tuple(tuple(sorted({w.lower() for w in t.split() if w.isupper()})) for t in texts))


def test_a_detector_of_ones_own_works_and_is_part_of_the_fingerprint(opened, tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.md").write_text("# A\n\nBEWARE of the dog.\n")
    library = opened(Preparation(detectors=(Shouted(),)))
    library.index(tmp_path / "files")
    assert library.search("beware", routes=["keyword"]).hits
    assert library.index(tmp_path / "files")[0].reason == UNCHANGED
    assert opened(Preparation(detectors=(Shouted("other"),))).index(tmp_path / "files")[0].state == "indexed"


def test_a_detector_of_ones_own_that_asks_nobody_ends_the_run_by_name(opened, files):
    class Asking:
        name = "asking"

        def detect(self, texts):
            return (yield from LLMDetector().detect(texts))

    with pytest.raises(MissingServiceError, match="Complete"):
        opened(Preparation(detectors=(Asking(),))).index(files)
    other = opened(Preparation(detectors=(Asking(),)), llm=naming("rpm"))
    assert {o.state for o in other.index(files)} == {"indexed"}
    assert {o.reason for o in other.index(files)} == {UNCHANGED}


# questions


def test_detectors_find_names_in_questions_where_asked_to(opened, files):
    recognizer = FakeRecognizer({"PART": ["Gasket", "seals"]})
    library = opened(Preparation(detectors=(RecognizerDetector(),)), recognizer=recognizer)
    library.index(files)
    asked = "How long does a Gasket last?"
    assert library.search(asked).unknown == ()
    assert [each.text for each in library.search(asked, detect=True).unknown] == ["Gasket"]
    assert library.search("When are the seals changed?", detect=True).unknown == ()
    both = library.search("Does the Gasket fit the flange?", detect=True, entities=("flange",)).unknown
    assert [each.text for each in both] == ["flange", "Gasket"]


async def test_the_async_search_detects_too_and_a_failure_is_told(opened, files):
    library = opened(NAMES, llm=FakeLLM({}))
    library.index(files)
    ranking = await library.asearch("seals", detect=True)
    assert ranking.hits
    assert ranking.degraded[0].what == "language model at the question"


def test_nothing_is_detected_without_detectors(opened, files):
    with pytest.raises(ParameterError, match="without Preparation"):
        opened(Preparation()).search("seals", detect=True)


# plan, budget, stop


def test_a_plan_counts_what_would_be_asked_and_asks_nothing(opened, files):
    llm = truths()
    both = Preparation(format_with_llm=FormatOptions(), detectors=(LLMDetector(),))
    tariff = Tariff(prices={Complete: Price(input=2.0, output=8.0)})
    library = opened(both, llm=llm)
    found, outcomes = library.plan(files, tariff=tariff)
    assert not llm.calls
    assert {o.state for o in outcomes} == {"indexed"}
    assert {purpose: usage.calls for purpose, usage in found.by_purpose.items()} == {
        "Markdown format": 2,
        "critical entities": 2,
    }
    total = found.total
    assert total.cost == pytest.approx((2 * total.input_tokens + 8 * total.output_tokens) / 1e6)
    assert library.documents() == ()
    opened(FORMAT, llm=llm).index(files)
    later, _ = library.plan(files)
    assert (later.kept, later.total.calls) == (2, 2)


def test_a_plan_of_files_that_are_there_is_empty_and_names_those_that_cannot_be_read(opened, files):
    library = opened(FORMAT, llm=truths())
    library.index(files)
    found, outcomes = library.plan([files, "gone.pdf"])
    assert (found.total.calls, [o.state for o in outcomes]) == (0, ["skipped", "skipped", "failed"])


def test_the_budget_stops_the_run_and_keeps_what_was_paid(opened, files):
    llm = truths()
    tariff = Tariff(prices={Complete: Price(call=1.0)})
    library = opened(FORMAT, llm=llm, budget=Budget(1.5, tariff=tariff))
    with pytest.raises(BudgetExceededError):
        library.index(files)
    assert len(llm.calls) == 1
    assert {o.state for o in opened(FORMAT, llm=llm).index(files)} == {"indexed"}
    assert len(llm.calls) == 2


def test_ctrl_c_keeps_what_was_paid(opened, files):
    def interrupted(request: Complete, said: str) -> str:
        if "spring" in said and not again:
            raise KeyboardInterrupt
        return said

    again: list[bool] = []
    llm = truths(interrupted)
    small = Preparation(format_with_llm=FormatOptions(window=10, padding=5))
    library = opened(small, llm=llm)
    with pytest.raises(KeyboardInterrupt):
        library.index(files)
    paid = len(llm.calls)
    again.append(True)
    library.index(files)
    plain = truths()
    opened(small, llm=plain, journal=False).index(files)
    assert {o.state for o in library.ledger()} == {"indexed"}
    assert len(llm.calls) - paid < 4  # of the four windows, one at least was kept


def test_a_flag_stops_the_run_between_requests(opened, files):
    cancel = Cancel()
    events: list[Event] = []

    def watch(event: Event) -> None:
        events.append(event)
        if event.kind == "finished":
            cancel.set()

    library = opened(FORMAT, llm=truths())
    with pytest.raises(CancelledError):
        library.index(files, watch=watch, cancel=cancel)
    assert {event.purpose for event in events} == {"Markdown format"}
    assert library.documents() == ()


@pytest.mark.parametrize(
    ("preparation", "name"),
    [(FORMAT, "llm"), (NAMES, "llm"), (Preparation(detectors=(RecognizerDetector(),)), "recognizer")],
)
def test_a_model_that_is_missing_is_named_before_anything_is_read(opened, files, preparation, name):
    library = opened(preparation)
    for call in (library.index, library.plan, library.add):
        with pytest.raises(ParameterError, match=f"{name} must be given to Library.open"):
            call(files / "pump.pdf")
    assert library.ledger() == ()


# weights


def test_adapted_weights_grow_with_the_library(opened, tmp_path):
    library = opened(Preparation())
    library.add(Document(id="0", text="# Book\n\n## One\n\nText.\n"))
    few = library.adapted()
    library.add(*(Document(id=str(number), text=f"# Note {number}\n\nText.\n") for number in range(1, 30)))
    many = library.adapted()
    assert many.beta > few.beta
    assert 0.5 <= many.alpha <= few.alpha <= 0.7
    assert library.search("text", fusion=many).hits


# figures


def test_figures_stay_where_a_model_wrote_the_text(opened, tmp_path):
    def page(canvas):
        prose(canvas, 60, 80, 470, 5)
        diagram(canvas, Box(120, 200, 360, 280))
        text(canvas, "Figure 1: Path of the signal", 60, 306)
        prose(canvas, 60, 340, 470, 5)

    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.pdf").write_bytes(pdf(page))
    echo = FakeLLM(lambda request: planned_answer(request).text)
    how = Preparation(format_with_llm=FormatOptions(), figures=True, engine="pypdfium2")
    library = opened(how, llm=echo)
    (outcome,) = library.index(tmp_path / "files")
    assert (outcome.state, outcome.reason) == ("indexed", "")
    best = library.search_figures("path of the signal").hits[0]
    assert library.figure(best).title == "Figure 1: Path of the signal"
    assert library.verify() == ()


LINK = "![Figure 1: Path of the signal](figures/0123456789abcdef-p0001-1.png)"


def document(*pages: str) -> Document:
    starts = [len("".join(pages[:number])) for number in range(len(pages))]
    return Document(id="d", text="".join(pages), page_starts=tuple(starts))


def test_a_figure_stands_before_its_caption_else_at_the_end_of_its_page():
    printed = document("Words.\n\n" + LINK + "\n\nFigure 1: Path of the signal\n\n", "More.\n")
    captioned = document("Words.\n\n**Figure 1:** Path of the signal\n\n", "More.\n")
    done = with_figures(captioned, printed)
    assert done.text == f"Words.\n\n{LINK}\n\n**Figure 1:** Path of the signal\n\nMore.\n"
    assert done.text[done.page_starts[1] :] == "More.\n"
    bare = with_figures(document("Words.\n\n", "More.\n"), printed)
    assert bare.text == f"Words.\n\n{LINK}\n\nMore.\n"
    assert bare.text[bare.page_starts[1] :] == "More.\n"
    torn = with_figures(document("Words.\n\nA sentence that ", "goes on.\n"), printed)
    assert torn.text == f"Words.\n\n{LINK}\n\nA sentence that goes on.\n"
    assert torn.text[torn.page_starts[1] :] == "goes on.\n"


def test_figures_that_are_there_are_left_alone_and_the_last_page_ends_with_one():
    printed = document("Words.\n\n", LINK + "\n")
    assert with_figures(printed, printed) == printed
    assert with_figures(document("Words.\n\n", "End."), printed).text == f"Words.\n\nEnd.\n\n{LINK}\n"


def test_models_are_asked_at_the_pace_that_was_given(tmp_path: Path) -> None:
    limiter, asked = Limiter({Complete: 60_000}), []
    slow_down = [ServiceError("fake", "too many requests", retry=True), *[None] * 9]
    model = Flaky(FakeLLM(lambda request: asked.append(request) or "Seals and springs of pumps."), slow_down)
    sections = Preparation(chunks=SectionChunkOptions(), views=(Summaries(over_tokens=0),))
    (tmp_path / "pump.md").write_text(PUMP)
    once = {"max_concurrency": 1, "limiter": limiter, "retry": Retry(attempts=1)}
    with Library.open(
        tmp_path / "lib", embedder=FakeEmbedder(16), preparation=sections, llm=model, services=Services(**once)
    ) as library:
        assert library.services.limiter is limiter
        events: list[Event] = []
        library.index([tmp_path / "pump.md"], watch=events.append)
    order = [event.kind for event in events]  # the last is the embedder
    assert order == ["started", "failed", *["started", "finished"] * (len(asked) + 1)]
    with pytest.raises(ParameterError, match="max_concurrency must be at least 1, got 0"):
        Library.open(tmp_path / "other", services=Services(max_concurrency=0))

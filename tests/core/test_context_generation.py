"""Titles and summaries: what a model is asked, which answers are taken, and the same from texts and chunks alone."""

from __future__ import annotations

import contextlib
import re
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from case_files import rows_of
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.effects import Complete, Completion, Services, run
from catena.enrichment import (
    ContextOptions,
    DocumentContext,
    Guidance,
    context_by_llm,
    context_of_chunks,
    context_offline,
    titled_sections,
    versions,
    with_context,
)
from catena.enrichment.chunk_context import joined_document
from catena.enrichment.context import first_line, most_central, printed_title
from catena.enrichment.context_llm import LONGEST_TITLE, PLANNED, beginning, clean_summary, clean_title
from catena.library import prepare
from catena.model import Chunk, Document, Entry, MissingServiceError, ParameterError, ServiceError, View
from catena.structure import CONTEXT, DOCUMENT_SUMMARY, SECTION_SUMMARY, ChunkOptions, cut, outline, prose
from catena.testing import FakeEmbedder, FakeLLM, strategies
from catena.testing.fakes import AngleEmbedder
from catena.text import count_tokens

TITLED = (
    "# HX210 Pump\n\nThe HX210 moves water.\n\n## Seals\n\nChange the seals after 900 h.\n\n"
    "## Empty\n\n## Motor\n\nIt turns.\n"
)
BARE = "The HX210 moves water. It is old.\n\nMore of it.\n"


def entry_of(text: str, **told) -> Entry:
    return prepare(Document(id="files/a.md", text=text, **told))


def said(request: Complete) -> str:
    """An answer of the asked form, made of the prompt alone."""
    mark = re.sub(r"\W", "", request.prompt)[-12:].replace("alone", "") + str(len(request.prompt))
    kind = request.purpose
    return f"A title {mark}" if "title" in kind else f"This {kind.split()[0]} is about: {mark}."


def made(text: str, llm=None, *, options: ContextOptions | None = None, **told) -> DocumentContext:
    entry = entry_of(text, **told)
    llm = llm or FakeLLM(said)
    return run(context_by_llm(entry.document, entry.sections, options, count=count_tokens), Services(llm=llm))


# calls


def test_titles_are_asked_first_where_none_is_printed_and_the_summaries_know_them():
    titles = {"document title": "Pump HX210", "section title": "What it does"}
    llm = FakeLLM(lambda request: titles.get(request.purpose) or said(request))
    found = made(BARE, llm)
    assert {request.purpose for request in llm.calls[:2]} == {"document title", "section title"}
    assert (found.title, found.section_titles) == ("Pump HX210", ("What it does",))
    summaries = {request.purpose: request.prompt for request in llm.calls[2:]}
    assert "Title of the document: Pump HX210\n" in summaries["document summary"]
    assert "Heading of the section: What it does\n" in summaries["section summary"]


PARTS = ("document_title", "document_summary", "section_titles", "section_summaries")


@pytest.mark.parametrize("kept", [PARTS[1:], PARTS[:2], PARTS[::2], ()])
def test_every_part_is_optional(kept):
    llm = FakeLLM(said)
    made(BARE, llm, options=ContextOptions(**{part: part in kept for part in PARTS}))
    purposes = {"section_titles": "section title", "section_summaries": "section summary"}
    assert sorted(request.purpose for request in llm.calls) == sorted(
        purposes.get(part, part.replace("_", " ")) for part in kept
    )


@pytest.mark.parametrize(
    ("told", "title"),
    [
        ({"title": "files/hx-210.pdf"}, ""), ({"title": "hx-210"}, ""),
        ({"title": "HX 210", "source": "HX_210.pdf"}, ""), ({"title": "Pump"}, "Pump"),
        ({"title": " HX210 Pump ", "source": "x.pdf"}, "HX210 Pump"), ({}, ""),
    ],
)  # fmt: skip
def test_the_name_of_a_file_is_no_printed_title(told, title):
    document = Document(id="files/hx-210.pdf", text="Words.", **told)
    assert printed_title(document) == title
    headed = entry_of("Words.\n\n# Pump\n\nMore.\n", title="a")  # the name of the file, and a heading
    assert printed_title(replace(headed.document, title="Pump", id="pump.md"), headed.sections) == "Pump"


LINES = st.lists(st.sampled_from(["# One", "## Two", "Some words.", "", "## Three", "| a |\n|---|"]), max_size=8)


@given(LINES)
def test_the_number_of_calls_is_known_before(lines):
    text = "Words.\n\n" + "\n\n".join(lines)
    entry = entry_of(text)
    llm = FakeLLM(said)
    run(context_by_llm(entry.document, entry.sections, count=count_tokens), Services(llm=llm))
    filled = [s for s in entry.sections if text[s.body_start : s.end].strip()]
    untitled = [s for s in filled if not s.title]
    assert len(llm.calls) == (not printed_title(entry.document, entry.sections)) + 1 + len(untitled) + len(filled)
    blank = run(context_by_llm(Document(id="a", text=" \n"), (), count=count_tokens), Services(llm=FakeLLM()))
    assert blank == DocumentContext()


# what a model is told


def test_prompts_carry_guidance_language_and_titles():
    llm = FakeLLM(said)
    guidance = Guidance(document_summary="Name the year.", section_summary="Name {the} part.")
    made("# A\n\nWords.\n\n## B\n\nMore.\n", llm, options=ContextOptions(guidance=guidance, language="French"))
    prompts = {request.purpose: request for request in llm.calls}
    assert "The user adds: Name the year." in prompts["document summary"].prompt
    assert "The user adds: Name {the} part." in prompts["section summary"].prompt
    assert all("Answer in French." in request.prompt for request in llm.calls)
    assert any("Heading of the section: A › B\n" in request.prompt for request in llm.calls)
    assert {request.prompt_version for request in llm.calls} <= set(versions())
    made(TITLED, own := FakeLLM(said))
    assert "Answer in the language that the content is written in." in own.calls[0].prompt


def test_a_model_is_told_where_it_sees_the_beginning_alone_and_so_is_the_caller():
    long = "word " * 16_001 + "\n\n## Short\n\nFew words.\n"
    found = made(long, llm := FakeLLM(said))
    given_ = {r.purpose: r.prompt for r in llm.calls if "longer: only its beginning is given" in r.prompt}
    for purpose, size in {"section title": 4_000, "document summary": 8_000, "section summary": 16_000}.items():
        assert f"The {purpose.split()[0]} is longer" in given_[purpose]
        assert f"about {size} tokens of it." in given_[purpose]
        assert size - 9 < given_[purpose].count("word ") <= size
    assert found.cut == (0,)
    assert any("The section is given whole." in r.prompt for r in llm.calls)


@given(st.text(alphabet="ab \n的é.", max_size=400), st.integers(1, 30))
def test_a_beginning_is_one_and_fits(text, limit):
    found = beginning(text, limit, count_tokens)
    assert text.startswith(found.text)
    assert count_tokens(found.text) <= limit
    assert found.cut == (count_tokens(text) > limit)
    assert found.cut or found.text == text
    if found.cut and found.text:
        longer = text[: len(found.text) + 220]
        assert count_tokens(longer) >= limit or len(longer) == len(text)


# answers


@pytest.mark.parametrize(
    ("reply", "title"),
    [
        ('"HX210 Pump"', "HX210 Pump"), ("  **HX210  Pump**\n", "HX210 Pump"), ("Title: “HX210 Pump”", "HX210 Pump"),
        ("The 'HX' and the 'HY'", "The 'HX' and the 'HY'"), ("《水泵手册》", "水泵手册"), ("I, Robot", "I, Robot"),
        ("Titre : La pompe HX210", "La pompe HX210"), ("标题：水泵手册", "水泵手册"),
        ("<title>HX210 Pump</title>", "HX210 Pump"), ("None of Your Business", "None of Your Business"),
        ("Your job title: a guide", "Your job title: a guide"),
    ],
)  # fmt: skip
def test_titles_that_are_taken(reply, title):
    assert clean_title(reply) == title


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("HX210\n\nI chose this title because", "several lines"), ("Sure! The title is HX210", "talks about"),
        ("I'm sorry, there is no title", "talks about"), ('""', "no title"), ("—", "no title"), ("N/A", "no title"),
        ("No title found.", "no title"), ("x" * (LONGEST_TITLE + 1), "201 characters"),
    ],
)  # fmt: skip
def test_titles_that_are_refused(reply, why):
    with pytest.raises(ValueError, match=why):
        clean_title(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "This document is about: the HX210 pump.", "this document is about: the income of Apple Inc. during 2023.",
        "This document is about: the U.S. Treasury, its debts (p. 3) and No. 5 of the series.",
        "Ce document traite de : la pompe HX210.", "Dieses Dokument handelt von: der Pumpe HX210, Bauj. 1990.",
        "本文档的内容是：HX210水泵的安装。",
    ],
)  # fmt: skip
def test_summaries_that_are_taken_without_what_models_write_around_them(reply):
    for around in (' "{}"\n', "<summary>{}</summary>", "Here is the summary:\n{}\n\nLet me know!"):
        assert clean_summary(around.format(reply), "document") == reply


@pytest.mark.parametrize(("reply", "why"), rows_of("cases_no_document_summaries.txt"))
def test_summaries_that_are_refused(reply, why):
    with pytest.raises(ValueError, match=re.escape(why)):
        clean_summary(reply, "document")


@given(st.text(max_size=60))
def test_cleaning_refuses_or_gives_one_line(text):
    for clean in (clean_title, lambda reply: clean_summary(reply, "section")):
        with contextlib.suppress(ValueError):
            cleaned = clean(text)
            assert cleaned == " ".join(cleaned.split()) != ""


@pytest.mark.parametrize("purpose", PLANNED)
def test_the_stand_ins_of_a_dry_run_are_answers_that_would_be_taken(purpose):
    part, kind = purpose.split()
    clean_title(PLANNED[purpose]) if kind == "title" else clean_summary(PLANNED[purpose], part)


# failures


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (Completion(text="This section is about: half", finish_reason="length"), "did not end by itself"),
        (Completion(text="Sure! Here you go."), "talks about a summary"),
        (ServiceError("llm", "the line is dead"), "the line is dead"),
    ],
)
def test_an_answer_that_fails_costs_itself_alone_and_is_told(bad, why):
    def reply(request: Complete) -> str | Completion:
        if request.purpose == "section summary" and "Change the seals" in request.prompt:
            if isinstance(bad, Exception):
                raise bad
            return bad
        return said(request)

    found = made(TITLED, FakeLLM(reply))
    assert [bool(text) for text in found.section_summaries] == [True, False, False, True]
    assert found.summary
    (degraded,) = found.degraded
    assert degraded.what == "summary of section 1 of files/a.md"
    assert why in degraded.why


def test_without_a_title_the_summaries_go_on():
    found = made(BARE, FakeLLM(lambda request: "" if request.purpose == "document title" else said(request)))
    assert (found.title, [each.what for each in found.degraded]) == ("", ["title of files/a.md"])
    assert all((found.summary, *found.section_summaries))


# into the entry


def test_with_context_writes_metadata_and_views_and_leaves_the_entry_as_it_was():
    entry = entry_of(TITLED)
    entry = replace(entry, views=(*entry.views, View(chunk_id=entry.chunks[0].id, kind="abstract", text="x")))
    before = deepcopy(entry)
    context = made(TITLED)
    done = with_context(entry, context)
    assert tuple(view for view in done.views if view.kind != CONTEXT) == entry.views
    assert entry == before
    assert [chunk.text for chunk in done.chunks] == [chunk.text for chunk in entry.chunks]
    for chunk in done.chunks:
        assert chunk.metadata[DOCUMENT_SUMMARY] == context.summary
        assert chunk.metadata[SECTION_SUMMARY] == context.section_summaries[chunk.section]
    views = {view.chunk_id: view.text for view in done.views if view.kind == CONTEXT}
    assert all(context.summary in views[chunk.id] and chunk.text in views[chunk.id] for chunk in done.chunks)
    assert list(views) == [chunk.id for chunk in entry.chunks]
    assert done.fingerprint != entry.fingerprint
    assert with_context(done, context) == done
    assert with_context(entry, DocumentContext(), views=False) is entry


def test_titles_that_were_made_stand_in_document_sections_and_paths():
    done = with_context(entry_of(BARE), DocumentContext(title="Pump", section_titles=("What it does",)))
    assert (done.document.title, {chunk.metadata["title"] for chunk in done.chunks}) == ("Pump", {"Pump"})
    assert {chunk.path for chunk in done.chunks} == {("What it does",)}
    (section,) = done.sections
    assert (section.path, section.start, section.end) == ((section.title,), 0, len(BARE))
    printed = entry_of(TITLED)
    assert titled_sections(printed.sections, ["X"] * 4) == printed.sections
    for wrong in ({"section_summaries": ("a",)}, {"section_titles": ("a", "b")}):  # of another document
        with pytest.raises(ParameterError, match="4 sections"):
            with_context(printed, DocumentContext(**wrong))


def test_options_that_cannot_be_obeyed_are_refused():
    for wrong in (
        {"by": "offline", "language": "French"}, {"by": "offline", "guidance": Guidance(section_title="x")},
        {"by": "offline", "replace_title": True}, {"document_title": False, "replace_title": True},
    ):  # fmt: skip
        with pytest.raises(ParameterError):
            ContextOptions(**wrong)


# offline


def offline(text: str, embedder=None, options: ContextOptions | None = None, **told) -> DocumentContext:
    entry = entry_of(text, **told)
    step = context_offline(entry.document, entry.sections, prose(entry.document, entry.sections), options)
    return run(step, Services(embedder=embedder or FakeEmbedder(32)))


def test_a_sentence_of_wide_characters_is_long_enough_with_half_as_many():
    chinese = offline("水泵的维护。每年更换密封件一次，不得用水清洗。注意安全。")
    assert chinese.summary == "每年更换密封件一次，不得用水清洗。"
    assert offline("Short one. Another.").summary == ""
    for size, found in ((19, False), (20, True), (300, True), (301, False)):
        assert bool(offline(f"{'x' * (size - 1)}.").summary) == found
    for size, found in ((9, False), (10, True), (150, True), (151, False)):  # of full width
        assert bool(offline(f"{'Ａ' * (size - 1)}。").summary) == found


ANGLES = """# Angles

The first of all says 10 degrees. The second one says 20 degrees. The third one says 60 degrees.

## Table

| a | b |
|---|---|
| 80 degrees are written | in this very long table |

## Contents

One thing ........ 3
Another ......... 4
A third ......... 5

## Twice

These words say 40 degrees. Those words say 40 degrees.
"""


def test_a_summary_is_the_most_central_sentence_of_the_text():
    found = offline(ANGLES, AngleEmbedder())
    # By hand, with the direction of the mean: the vectors of 10, 20 and 60 degrees point to 29.6 degrees, so that 20
    # is nearest; all five (10, 20, 60, 40, 40) to 34.2: nearest is the first of the two that say 40.
    assert found.section_summaries == ("The second one says 20 degrees.", "", "", "These words say 40 degrees.")
    assert found.summary == "These words say 40 degrees."
    assert (found.title, found.degraded) == ("", ())


def test_most_central_takes_the_first_of_equal_rows_and_only_among_those_allowed():
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert [most_central(rows), most_central(rows, among=1), most_central(np.zeros((3, 2)))] == [1, 0, 0]


def test_offline_a_document_is_summed_up_by_one_of_its_first_twenty_sentences():
    for first, angle in ((20, "0"), (21, "90")):  # what most of the text is about begins there
        angles = [90, -90] * 10 + [0] * 10 if first == 21 else [90, -90] * 9 + [90] + [0] * 10
        lines = [f"Part {chr(97 + n)} stands at {each} degrees." for n, each in enumerate(angles)]
        assert f"at {angle} degrees" in offline("\n\n".join(lines), AngleEmbedder()).summary


def test_offline_asks_the_embedder_for_each_sentence_once_and_no_more_than_256_at_a_time():
    embedder = FakeEmbedder(8)
    text = "# T\n\n" + "".join(f"Sentence number {number} of many here.\n\n" for number in range(300))
    offline(text + "## U\n\nSentence number 7 of many here.\n", embedder)
    assert sorted(map(len, embedder.calls)) == [44, 256]


def test_offline_makes_nothing_of_what_is_switched_off():
    embedder = FakeEmbedder(8)
    none = ContextOptions(by="offline", document_summary=False, section_summaries=False)
    found = offline(BARE, embedder, none)
    assert (embedder.calls, found.summary, found.section_summaries) == ([], "", ("",))
    parts = dict.fromkeys(set(PARTS) - {"document_summary"}, False)
    whole = offline(BARE, None, ContextOptions(by="offline", **parts))
    assert (whole.title, whole.section_titles, whole.section_summaries) == ("", ("",), ("",))
    assert whole.summary == "The HX210 moves water."


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# The pump\n\nWords.\n\n## One\n\nMore.\n", "The pump"),
        ("# One\n\nWords.\n\n# Two\n\nMore.\n", ""),
        ("Rev. 3\n\nWords.\n", ""),
    ],
)
def test_offline_a_files_name_gives_way_to_the_one_first_heading_alone(text, title):
    assert offline(text, title="a").title == title


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("HX210 Manual\n\nWords.", "HX210 Manual"), ("\n---\n\n  **HX210 Manual**  \nWords.", "HX210 Manual"),
        ("A sentence is no title.\nHX210", ""), ("![Logo](logo.png)\n", ""), ("| a | b |\n", ""),
        ("x" * 120, "x" * 120), ("x" * 121, ""),
        ("123\n\nPump", "Pump"), ("", ""),
    ],
)  # fmt: skip
def test_a_title_is_a_first_line_that_is_no_sentence(text, title):
    assert first_line(text) == title


BLOCKS = [
    "# One", "Some words say this much.", "* an item that says something", "Few.", "## B", "| a |\n|---|",
    "还有一些别的句子，写在这里的中文句子足够长，不是吗。第二句也在这里写着，同样也很长，没有别的。",
]  # fmt: skip


@given(st.lists(st.sampled_from(BLOCKS), max_size=9))
def test_offline_summaries_are_sentences_of_their_own_section(lines):
    text = "\n\n".join(["# First", *lines])
    found = offline(text)
    for section, summary in zip(entry_of(text).sections, found.section_summaries, strict=True):
        assert summary in text[section.start : section.end]
        assert not summary.startswith(("#", "*", "|"))
    assert found.summary in text
    assert found == offline(text)


def test_prose_keeps_to_sections_that_cut_through_a_paragraph():
    text = "One sentence here. Another one.\nA third is here. And the end."
    document = Document(id="p", text=text, media_type="text/plain")
    (section,) = prepare(document).sections
    cut = document.text.index("A third")
    halves = (replace(section, end=cut), replace(section, start=cut, body_start=cut, position=1))
    assert prose(document, halves) == (("One sentence here.", "Another one."), ("A third is here.", "And the end."))
    with pytest.raises(ParameterError, match="2 sections"):  # as many lists of sentences as sections are needed
        run(context_offline(document, halves, [["A."]]), Services(embedder=FakeEmbedder(8)))


# Titles and summaries for chunks whose document is not at hand.

OFFLINE = ContextOptions(by="offline")
SERVICES = Services(embedder=FakeEmbedder())
TEXT = """# Manual

## Seal

The seal keeps the oil inside the housing.

## Cover

The cover takes four screws made of steel.
"""


def chunks_of(text: str = TEXT, id_: str = "d") -> tuple[Chunk, ...]:
    document = Document(id=id_, text=text)
    return cut(document, outline(document), options=ChunkOptions(min_tokens=0))


def plain(text: str, start: int, id_: str = "d") -> Chunk:
    return Chunk(id=f"{id_}{start}", document_id=id_, position=start, start=start, end=start + len(text), text=text)


def told(chunks) -> list[tuple[object, object, object]]:
    keys = ("title", "document_summary", "section_summary")
    return [tuple(chunk.metadata.get(key) for key in keys) for chunk in chunks]


SEAL, COVER = "The seal keeps the oil inside the housing.", "The cover takes four screws made of steel."


def test_sections_are_those_that_the_chunks_count_or_of_the_text_else_of_the_paths() -> None:
    def summaries(chunks):
        found = told(run(context_of_chunks(chunks, OFFLINE), SERVICES).chunks)
        return [(title, summary) for title, _, summary in found]

    def of_paths(*paths):
        parts = zip((plain(SEAL, 0), plain(COVER, 50)), paths, strict=True)
        return [replace(chunk, path=path) for chunk, path in parts]

    expected = [("Manual", SEAL), ("Manual", COVER)]
    assert summaries(chunks_of()[1:]) == expected
    uncounted = [replace(chunk, section=0, path=()) for chunk in chunks_of()]
    assert [summary for _, summary in summaries(uncounted)][1:] == [SEAL, COVER]
    assert summaries(of_paths(("Manual", "Seal"), ("Manual", "Cover"))) == expected
    assert [title for title, _ in summaries(of_paths(("Seal",), ("Cover",)))] == [None, None]  # side by side


def test_documents_are_described_apart_and_chunks_come_back_in_their_order() -> None:
    first, second = chunks_of(), chunks_of(TEXT.replace("Manual", "Handbook"), "e")
    mixed = [chunk for pair in zip(first, second, strict=True) for chunk in pair]
    found = run(context_of_chunks(mixed, OFFLINE), SERVICES).chunks
    assert [chunk.id for chunk in found] == [chunk.id for chunk in mixed]
    assert [title for title, _, _ in told(found)] == ["Manual", "Handbook"] * 3


def test_only_metadata_and_paths_are_new_and_what_a_model_does_not_give_is_reported() -> None:
    given_ = chunks_of()
    found = run(context_of_chunks(given_, OFFLINE), SERVICES).chunks
    assert tuple(replace(chunk, metadata=old.metadata) for chunk, old in zip(found, given_, strict=True)) == given_
    assert run(context_of_chunks([], OFFLINE), SERVICES).chunks == ()
    silent = run(context_of_chunks(given_), Services(llm=FakeLLM("Sure! Here you are.")))
    assert {part.what for part in silent.degraded} >= {"summary of d"}
    with pytest.raises(MissingServiceError):
        run(context_of_chunks(given_), Services())


@settings(max_examples=50)
@given(st.text(alphabet="ab .\n", min_size=1, max_size=60), st.integers(1, 12), st.integers(0, 6))
def test_overlapping_chunks_give_their_text_back(text: str, size: int, overlap: int) -> None:
    step = max(1, size - overlap)
    pieces = [plain(text[start : start + size], start) for start in range(0, max(1, len(text) - overlap), step)]
    document, starts = joined_document(pieces)
    for piece, start in zip(pieces, starts, strict=True):
        assert document.text[start : start + len(piece.text)] == piece.text
    if overlap and size > overlap:
        assert document.text == text


@pytest.mark.parametrize(
    ("before", "after", "start", "text"),
    [
        ("seal ab", "seal ab", 0, "seal ab"),
        ("seal ab", "ab", 5, "seal ab"),
        ("seal ab", "al", 2, "seal ab\n\nal"),  # it ends before the other does
        ("seal ab", "ab cd", 7, "seal ab\n\nab cd"),
        ("seal ab", "ab c", 9, "seal ab\n\nab c"),  # a gap
        ("seal ab", "xb c", 5, "seal ab\n\nxb c"),  # not the same there
    ],
)
def test_only_what_a_chunk_repeats_to_its_end_is_once_in_the_text(before: str, after: str, start: int, text: str):
    document, starts = joined_document([plain(before, 0), plain(after, start)])
    assert (document.text, starts) == (text, (0, text.rindex(after)))


@given(strategies.texts())
def test_chunks_stand_where_it_says(text: str) -> None:
    if chunks := chunks_of(text):
        document, starts = joined_document(chunks)
        assert all(document.text.startswith(chunk.text, start) for chunk, start in zip(chunks, starts, strict=True))

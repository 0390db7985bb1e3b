"""From a parsed document to an entry: sections by meaning, marked where their titles are made, asked for once."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from catena import Library
from catena.effects import Complete, Journal, Services, plan, run
from catena.enrichment import ContextOptions, StaticEmbedder
from catena.library import PLANNED_ANSWERS, Preparation, ingest_document
from catena.model import GENERATED_TITLE, Document, ParameterError, citation
from catena.structure import EmbeddingOptions, SegmentOptions
from catena.testing import FakeLLM

PUMPS = "The pump moves water from the well to the tank. Its impeller turns at 2900 rpm and needs no grease."
TAXES = "Taxes are due in March. Whoever pays late pays interest of two percent for each month begun."
TEXT = "\n\n".join([PUMPS] * 4 + [TAXES] * 4) + "\n"
DOCUMENT = Document(id="d", text=TEXT, title="Letters of the works", source="letters.txt", media_type="text/plain")


def two_sections(request: Complete) -> str:
    first, last = map(int, re.findall(r"Divide lines (\d+) to (\d+)", request.prompt)[-1])
    middle = (first + last + 1) // 2
    return json.dumps([{"title": "Pumps", "start": first}, {"title": "Taxes", "start": middle}])


def services(llm: FakeLLM | None = None, **given: object) -> Services:
    return Services(llm=llm, embedder=StaticEmbedder(), **given)


def test_a_model_divides_what_has_no_headings() -> None:
    llm = FakeLLM(two_sections)
    entry = run(ingest_document(DOCUMENT, Preparation(segmentation=SegmentOptions())), services(llm)).entry
    assert [section.title for section in entry.sections] == ["Pumps", "Taxes"]
    assert "".join(TEXT[section.start : section.end] for section in entry.sections) == TEXT
    assert {chunk.path for chunk in entry.chunks} == {("Pumps",), ("Taxes",)}
    assert all(chunk.metadata[GENERATED_TITLE] == chunk.path[-1] for chunk in entry.chunks)
    assert all(TEXT[chunk.start : chunk.end] == chunk.text for chunk in entry.chunks)
    assert citation(entry.chunks[0]).startswith("Letters of the works › [Pumps], line")
    assert entry.fingerprint


def test_the_embedding_divides_without_a_model() -> None:
    entry = run(ingest_document(DOCUMENT, Preparation(segmentation=EmbeddingOptions(shortest=200))), services()).entry
    border = TEXT.index(TAXES)
    assert border in {section.start for section in entry.sections}
    assert "".join(TEXT[section.start : section.end] for section in entry.sections) == TEXT


def test_printed_headings_are_not_marked_as_made() -> None:
    text = f"# Letters\n\n{PUMPS}\n\n## Taxes\n\n{TAXES}\n"
    entry = run(ingest_document(replace(DOCUMENT, text=text, media_type="text/markdown")), services()).entry
    assert not any(GENERATED_TITLE in chunk.metadata for chunk in entry.chunks)


def test_where_a_model_fails_paragraphs_do_and_the_next_run_asks_again() -> None:
    done = run(
        ingest_document(DOCUMENT, Preparation(segmentation=SegmentOptions(attempts=1))),
        services(FakeLLM(lambda request: "I cannot do that.")),
    )
    assert done.entry.chunks
    assert done.entry.fingerprint == ""
    assert "divided at headings and paragraphs" in done.notes[-1]


def test_a_plan_counts_sections_and_summaries() -> None:
    how = Preparation(segmentation=SegmentOptions(), context=ContextOptions(by="llm"))
    found = plan(ingest_document(DOCUMENT, how), services(FakeLLM(two_sections)), stand_ins=PLANNED_ANSWERS)
    assert not found.stopped_by
    assert {purpose: usage.calls for purpose, usage in found.by_purpose.items()} == {
        "segmentation": 1, "document summary": 1, "section summary": 2,
    }  # fmt: skip


def test_a_library_divides_once_and_says_what_it_cannot_do_without(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text(TEXT, encoding="utf-8")
    how = Preparation(segmentation=SegmentOptions())
    llm = FakeLLM(two_sections)
    with Journal.open(tmp_path / "journal") as journal:
        with Library.open(
            tmp_path / "library", preparation=how, llm=llm, services=Services(journal=journal)
        ) as library:
            (outcome,) = library.index([tmp_path / "letters.txt"])
            assert outcome.state == "indexed"
            assert library.search("When are taxes due?", k=1).hits[0].chunk.path == ("Taxes",)
            (again,) = library.index([tmp_path / "letters.txt"])
            assert again.state == "skipped"
        asked = len(llm.calls)
        with Library.open(
            tmp_path / "other", preparation=how, llm=llm, services=Services(journal=journal)
        ) as library:
            library.index([tmp_path / "letters.txt"])
        assert len(llm.calls) == asked
    with (
        Library.open(tmp_path / "third", preparation=how) as library,
        pytest.raises(ParameterError, match="llm must be given"),
    ):
        library.index([tmp_path / "letters.txt"])


def test_segmentation_is_part_of_the_fingerprint() -> None:
    plain, by_embedding = Preparation(), Preparation(segmentation=EmbeddingOptions())
    assert plain.fingerprint("x") != by_embedding.fingerprint("x")
    assert by_embedding.fingerprint("x") == Preparation(segmentation=EmbeddingOptions()).fingerprint("x")
    assert Preparation(segmentation=EmbeddingOptions(reach=3)).fingerprint("x") != by_embedding.fingerprint("x")

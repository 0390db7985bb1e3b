"""The bench of segments: what is counted, what fits into a budget, what is lent, and how collections are read."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk
from typer.testing import CliRunner
from written_rows import write_rows

from catena.evaluation import GoldSpan
from catena.library import prepare
from catena.model import Chunk, Document, Entry, Hit, ParameterError, Ranking, Scale
from catena.store.checks import problems_of
from catena_bench.cli import app
from catena_bench.collection import library_of
from catena_bench.segments import (
    BUDGETS,
    INDEXES,
    MEAN,
    PAIRS,
    SYSTEMS,
    MeasuredDocuments,
    Reading,
    evidence,
    fill,
    reported,
    run,
    searched,
    with_neighbours,
    with_section,
)
from catena_bench.segments_data import EvidenceQuestion, read_long_documents


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals are tested where they are made; here they only take time."""
    monkeypatch.setattr("catena_bench.segments.ROUNDS", 20)


WORDS = 6  # of each paragraph below: its tokens, with the full stop


def book(paragraphs: int, *, document_id: str = "d", sections: int = 1) -> Entry:
    """A document of sections with one-sentence paragraphs; each paragraph is a chunk of its own."""
    said = [f"One two three four five{n}." for n in range(paragraphs)]
    text = "\n\n".join("\n\n".join([f"# Part {section}", *said]) for section in range(sections))
    starts = [found.start() for found in re.finditer("One", text)]
    chunks = []
    for n, start in enumerate(starts):
        section, place = divmod(n, paragraphs)
        placed = {"document_id": document_id, "position": n, "section": section, "path": (f"Part {section}",)}
        chunks.append(chunk(f"{document_id}{n:02}", said[place], start=start, **placed))
    entry = replace(prepare(Document(id=document_id, text=text)), chunks=tuple(chunks))
    return replace(entry, views=INDEXES["context"](entry).views)


def ranked(entry: Entry, positions: Sequence[int]) -> Ranking:
    hits = (Hit(entry.chunks[place], 1.0 / (1 + rank)) for rank, place in enumerate(positions))
    return Ranking(tuple(hits), Scale.SIMILARITY)


def places(runs: Sequence[tuple[str, range]]) -> list[tuple[int, int]]:
    return [(run.start, run.stop) for _, run in runs]


def header(chunk: Chunk) -> str:
    return "From a book"  # three tokens


def gold(start: int, end: int, document_id: str = "d") -> GoldSpan:
    return GoldSpan(item=f"{start}", document_id=document_id, start=start, end=end)


def test_evidence_counts_each_character_once() -> None:
    spans = [("d", 0, 10), ("d", 5, 20), ("e", 0, 10)]
    assert evidence(spans, [gold(15, 25), gold(18, 35)]) == (5 / 20, 5 / 30)
    assert evidence([], [gold(0, 5)]) == (0.0, 0.0)
    assert evidence([("e", 0, 10)], [gold(0, 10)]) == (0.0, 0.0), "equal offsets in another document are a miss"


def test_what_does_not_fit_is_passed_over_and_neighbours_are_one_passage() -> None:
    entry = book(6)
    known = MeasuredDocuments.of([entry])
    assert places(fill(known, ranked(entry, [4, 1, 5, 0]), 2 * WORDS)) == [(1, 2), (4, 5)]
    assert places(fill(known, ranked(entry, [4, 1, 5, 0]), 3 * WORDS)) == [(1, 2), (4, 6)]
    assert fill(known, ranked(entry, [4]), WORDS - 1) == ()


def test_a_joined_passage_pays_for_one_header() -> None:
    entry = book(6)
    known = MeasuredDocuments.of([entry])
    ranking = ranked(entry, [2, 3])
    assert places(fill(known, ranking, 2 * WORDS + 3, header=header)) == [(2, 4)]
    assert places(fill(known, ranking, 2 * WORDS + 5, header=header, joined=False)) == [(2, 3)]
    assert places(fill(known, ranking, 2 * WORDS + 6, header=header, joined=False)) == [(2, 3), (3, 4)]


def test_windows_and_sections_fall_back_to_the_chunk() -> None:
    entry = book(3, sections=2)
    known = MeasuredDocuments.of([entry])
    ranking = ranked(entry, [1])
    assert places(fill(known, ranking, 3 * WORDS, take=with_neighbours)) == [(0, 3)]
    assert places(fill(known, ranking, 3 * WORDS - 1, take=with_neighbours)) == [(1, 2)]
    assert places(fill(known, ranked(entry, [4]), 3 * WORDS, take=with_section)) == [(3, 6)]
    over_the_border = fill(known, ranked(entry, [2]), 99, take=with_neighbours)
    between = known.tokens(over_the_border, None) - 3 * WORDS
    assert between == 3, "the heading between two chunks is read too: #, Part and 1"


some_positions = st.lists(st.integers(0, 9), unique=True, max_size=10)
some_takes = st.sampled_from([{}, {"take": with_neighbours}, {"take": with_section}])


@given(some_positions, st.integers(0, 90), some_takes, st.sampled_from([header, None]))
def test_no_budget_is_passed(positions, budget, take, chosen) -> None:
    entry = book(5, sections=2)
    known = MeasuredDocuments.of([entry])
    runs = fill(known, ranked(entry, positions), budget, header=chosen, **take)
    assert known.tokens(runs, chosen) <= budget
    assert all(first.stop < second.start for (_, first), (_, second) in pairwise(runs))


SENTENCES = [f"The {colour} valve opens at {n} bar and closes at {n + 1} bar in the long tube." for n, colour in
             enumerate(["red", "blue", "green", "grey", "white", "black"], start=2)]  # fmt: skip
PAGES = {
    "guide/a.md": "# Filling\n\n```\nan open fence\n\n## not a heading\n",
    "guide/b.md": "# Draining\n\n## The valve\n\nThe drain valve opens at 12 bar.\n\n",
    "other/c.md": "# Cleaning\n\nUse water.\n",
}


@pytest.fixture(scope="module")
def collections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two collections below one folder: given sections with spans, and pages."""
    root = tmp_path_factory.mktemp("collections")
    text = "Valves\n" + "\n\n".join(SENTENCES)
    sections = [{"start": 0, "body_start": 7, "end": len(text), "level": 1, "path": ["Valves"]}]
    write_rows(root / "deep" / "spans" / "documents.jsonl.gz", [{"id": "v", "text": text, "sections": sections}])
    questions = []
    for n, sentence in enumerate(SENTENCES):
        span = {"start": text.index(sentence), "end": text.index(sentence) + len(sentence)}
        asked = f"When does the {sentence.split()[1]} valve open?"
        questions.append({"id": f"q{n}", "doc_id": "v", "question": asked, "evidence": [span]})
    write_rows(root / "deep" / "spans" / "questions.jsonl.gz", questions)
    pages = [{"id": name, "guide": name.split("/")[0], "text": text} for name, text in PAGES.items()]
    write_rows(root / "pages" / "pages.jsonl", pages)
    asked = [{"id": f"p{n}", "question": "When does the drain valve open?", "page": "guide/b.md"} for n in range(6)]
    write_rows(root / "pages" / "questions.jsonl", [*asked, {"id": "p9", "question": "?", "page": "gone.md"}])
    write_rows(root / "paragraphs" / "train_corpus.jsonl", [])
    return root


def test_pages_stand_in_their_guide_and_do_not_reach_into_each_other(collections: Path) -> None:
    read = read_long_documents(collections / "pages")
    guide, other = read.entries
    assert (guide.document.id, other.document.id) == ("guide", "other")
    assert [list(problems_of(entry)) for entry in read.entries] == [[], []]
    assert [chunk.path for chunk in guide.chunks] == [("Filling",), ("Draining", "The valve")]
    assert all(guide.document.text[each.start : each.end] == each.text for each in guide.chunks)
    (span,) = read.questions[0].gold
    assert guide.document.text[span.start : span.end] == PAGES["guide/b.md"].strip()
    assert len(read.questions) == 6, "a page that is not there cannot be found"


def test_only_the_half_that_does_not_tune_is_reported_and_what_is_of_no_layout_is_named(tmp_path: Path) -> None:
    questions = [EvidenceQuestion(id=str(n), text="?", gold=()) for n in range(40)]
    chosen = reported(questions, 7)
    assert len(chosen) == 7
    assert not any(question.tunes for question in chosen)
    assert reported(questions[::-1], 7) == chosen
    with pytest.raises(ParameterError, match="that report"):
        reported([question for question in questions if question.tunes], 7)
    write_rows(tmp_path / "pages.jsonl", [{"id": "a"}])
    write_rows(tmp_path / "questions.jsonl", [])
    with pytest.raises(ParameterError, match="KeyError: 'text'"):
        read_long_documents(tmp_path)
    with pytest.raises(ParameterError, match="layouts"):
        read_long_documents(tmp_path / "nowhere")


def test_indexes_differ_in_what_a_chunk_is_found_under_alone(collections: Path) -> None:
    entry = read_long_documents(collections / "pages").entries[0]
    shown = {name: INDEXES[name](entry).views[1].text for name in INDEXES}
    assert shown["raw"] == "## The valve\n\nThe drain valve opens at 12 bar."
    assert shown["headed"] == "guide › Draining › The valve\nThe drain valve opens at 12 bar."
    assert shown["context"].startswith("Document context: the following excerpt is from a document titled 'guide'.")
    assert {INDEXES[name](entry).chunks for name in INDEXES} == {entry.chunks}


def test_every_system_keeps_to_the_budget_and_finds_the_valve(collections: Path) -> None:
    read = read_long_documents(collections / "deep" / "spans")
    known = MeasuredDocuments.of(read.entries)
    with library_of(read.entries) as library:
        for question in read.questions[:2]:
            ranking = searched(library, question, "dense")
            for name, system in SYSTEMS.items():
                reading = Reading(known=known, services=library.services, ranking=ranking, budget=400)
                runs = system(reading, None)
                assert known.tokens(runs, None) <= 400, name
                if name == "article":
                    assert runs == (), "500 characters at rank 0 are worth (0.8 - 0.18) 500 / 700, below the minimum"
                else:
                    assert evidence(known.spans(runs), question.gold)[0] == 1.0, name


@pytest.mark.slow
def test_the_command_gives_every_cell_draws_them_and_gives_the_same_again(collections: Path, tmp_path: Path) -> None:
    target, picture = tmp_path / "f.json", tmp_path / "f.html"
    command = ["segments", "--data", str(collections), "--collection", "spans", "--collection", "gone"]
    done = CliRunner().invoke(app, [*command, "--json", str(target), "--plot", str(picture)])
    assert done.exit_code == 0, done.output
    assert "without gone: needs data" in done.output
    assert "paragraphs" in done.output
    figures = json.loads(target.read_text())
    cell = "spans.fused.headed.lent_headers"
    assert {f"recall.{cell}.{budget}" for budget in (*BUDGETS, MEAN)} <= figures.keys()
    assert all(f"difference.recall.spans.dense.headed.{a}-{b}.{MEAN}" in figures for a, b in PAIRS)
    assert "difference.precision.spans.fused.topk.context-raw.1000" in figures
    wider, narrow = (figures[f"recall.spans.dense.headed.{name}.250"] for name in ("window", "topk"))
    assert figures["difference.recall.spans.dense.headed.window-topk.250"] == pytest.approx(wider - narrow)
    assert figures["recall.all.fused.headed.topk.mean"] == figures["recall.spans.fused.headed.topk.mean"]
    assert figures == run(collections, collection=["spans"])
    assert "spans" in picture.read_text(encoding="utf-8")

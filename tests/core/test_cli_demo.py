"""`catena demo`: real work on the bundled PDFs, an honest baseline, a showcase that the data choose."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli_calls import call, plain, value

from catena.cli.demo import (
    Comparison,
    DemoQuestion,
    DemoRun,
    Evidence,
    PlainVectorSearch,
    own_command,
    rank_of,
    report,
    report_place,
    way_of,
)
from catena.model import Chunk, Hit, Ranking, Scale
from catena.store import LibraryStats
from catena.testing import FakeEmbedder


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    patch = pytest.MonkeyPatch()
    patch.chdir(folder)
    patch.setenv("COLUMNS", "100")
    shown = call("demo", "--library", "lib").stdout
    told = value("demo", "--library", "lib")
    patch.undo()
    return folder, shown, told


def test_the_demo_reads_every_bundled_pdf_and_leaves_a_report_beside_the_library(ran):
    folder, shown, found = ran
    assert "3 files: 3 indexed" in shown
    assert max(map(len, shown.splitlines())) <= 100
    assert str(folder) not in shown
    assert "site-packages" not in shown
    assert found["holds"]["documents"] == 3
    assert sorted(path.suffix for path in (folder / "lib-documents").iterdir()) == [".pdf"] * 3
    assert found["report"] == "lib-report.html"
    assert "lib-report.html" in shown
    assert found["showcase"] in (folder / "lib-report.html").read_text(encoding="utf-8")
    assert sorted(path.name for path in folder.iterdir()) == ["lib", "lib-documents", "lib-report.html"]


def test_the_demo_shows_a_question_that_plain_vector_search_gets_wrong_and_all_others(ran):
    _, printed, told = ran
    wins = [each for each in told["questions"] if each["rank"]["catena"] == 1 and each["rank"]["plain"] != 1]
    assert told["showcase"] == wins[0]["question"]
    assert told["showcase"] in printed
    shown = plain(printed.partition("All ")[2])
    for each in told["questions"]:
        assert all(each["rank"].values())
        assert all(word in shown for word in each["question"].split())


def test_the_demo_finds_both_products_of_a_comparison_and_says_when_one_is_none(ran):
    _, printed, told = ran
    nowhere = [{"text": "HX220", "near": ["HX200", "HX210"]}]
    assert (told["nowhere"]["hits"], told["nowhere"]["unknown"]) == (0, nowhere)
    first = told["both"]["first"]
    assert sorted(cited[:5] for cited in first) == ["HX200", "HX210"]
    assert all("4.4 Closing the cover" in cited for cited in first)
    shown = plain(printed)
    assert "0 passages: 'HX220' stands nowhere in the documents; near it: HX200, HX210" in shown
    assert shown.count("4.4 Closing the cover") >= 3


def test_the_showcase_is_asked_in_five_ways(ran):
    _, printed, told = ran
    ways = {each["way"]: each for each in told["ways"]}
    assert list(ways) == ["Plain vectors", "HiQA", "TextRAG", "MC-indexing", "IIER"]
    shown = next(each for each in told["questions"] if each["question"] == told["showcase"])
    ranks = (ways["Plain vectors"]["rank"], ways["HiQA"]["rank"])
    assert ranks == (shown["rank"]["plain"], shown["rank"]["catena"])
    assert ways["HiQA"]["first"] == shown["first"]["catena"]
    assert all(each["tokens"] > 0 and each["milliseconds"] >= 0 and each["first"] for each in ways.values())
    assert all(each["right"] for each in ways.values() if each["rank"] == 1)
    table = printed.partition("asked in five ways")[2].partition("All ")[0]
    assert all(name in table for name in ways)


def test_the_log_rank_indices_are_computed_and_honest_about_eight_questions(ran):
    told, shown = ran[2]["log_rank_index"], plain(ran[1])
    difference = told["difference"]
    assert difference["n"] == told["plain"]["n"] == told["catena"]["n"] == 8
    assert difference["exact"]
    assert difference["difference"] == pytest.approx(told["catena"]["value"] - told["plain"]["value"])
    verdict = "can" if difference["p"] < 0.05 else "cannot"
    assert f"p {difference['p']:.3f}: 8 questions {verdict} tell them apart" in shown
    low, high = told["plain"]["interval"]
    assert f"plain {told['plain']['value']:.3f} [{low:.3f}, {high:.3f}]" in shown


def test_what_is_said_of_ranks_is_what_was_counted(ran):
    ranks = [each["rank"] for each in ran[2]["questions"]]
    best = [1] * 7 + [2]  # the last question needs two passages
    counts = [
        sum(rank[name] <= least + more for rank, least in zip(ranks, best, strict=True))
        for more in (0, 2)
        for name in ("plain", "catena")
    ]
    said = "Right passage first: plain {} of 8, Catena {} of 8. Among the first three: plain {}, Catena {}."
    assert said.format(*counts) in plain(ran[1])


def test_without_a_library_the_report_is_kept_in_a_folder_for_passing_things(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    page = report_place(None)
    assert (page.name, page.parent.parent) == ("report.html", tmp_path)
    assert page.parent.is_dir()
    assert report_place(Path("kept/lib")) == Path("kept/lib-report.html")


# the comparison


def chunk(place: int, text: str, document: str = "folder/a.pdf") -> Chunk:
    return Chunk(id=f"c{place}", document_id=document, position=place, start=0, end=len(text), text=text)


CHUNKS = (
    chunk(0, "one two"),
    chunk(1, "the right\n  words"),
    chunk(2, "three"),
    chunk(3, "the right words", "b.pdf"),
)
RIGHT = Evidence(document="a.pdf", words="right words")


def ranked(*places: int) -> Ranking:
    return Ranking(tuple(Hit(CHUNKS[place], 1.0 / rank) for rank, place in enumerate(places, 1)), Scale.RANK)


def found(*places: int) -> list[Chunk]:
    return [CHUNKS[place] for place in places]


def test_evidence_is_words_of_one_file_whatever_the_white_space():
    assert [RIGHT.is_in(each) for each in CHUNKS] == [False, True, False, False]


def test_a_rank_is_how_far_one_must_read():
    other = Evidence(document="a.pdf", words="three")
    assert rank_of([RIGHT], found(0, 3, 1)) == 3
    assert rank_of([RIGHT, other], found(1, 0, 2)) == 3
    assert rank_of([RIGHT, other], found(1, 0)) is None


def test_plain_vector_search_ranks_all_chunks_by_the_cosine_of_their_own_texts():
    embedder = FakeEmbedder()
    ranking = PlainVectorSearch(CHUNKS, embedder).search("the right words")
    expected = embedder.embed_documents([each.text for each in CHUNKS]) @ embedder.embed_query("the right words")
    assert [hit.score for hit in ranking.hits] == pytest.approx(np.sort(expected)[::-1].tolist())
    assert {hit.chunk for hit in ranking.hits} == set(CHUNKS)
    assert [hit.provenance[0].rank for hit in ranking.hits] == [1, 2, 3, 4]
    assert ranking.hits[0].provenance[0].view == "raw"


QUESTION = DemoQuestion(text="q?", answer="a", why_hard="w", evidence=(RIGHT,))


def compared(plain: int, catena: int) -> Comparison:
    """Return rankings in which the right chunk has these ranks."""
    others = (0, 2, 3)
    by_plain, by_catena = (ranked(*others[: rank - 1], 1, *others[rank - 1 :]) for rank in (plain, catena))
    return Comparison(question=QUESTION, plain=by_plain, catena=by_catena)


def test_a_way_is_told_by_what_must_be_read_until_the_answer():
    late = way_of("W", "passages", found(0, 1, 2), QUESTION, 3.0)
    assert (late.rank, late.tokens, late.is_right) == (2, 5, False)
    assert late.first == CHUNKS[0]
    never = way_of("W", "passages", found(0, 2), QUESTION, 3.0)
    assert (never.rank, never.tokens) == (None, 3)
    nothing = way_of("W", "passages", [], QUESTION, 3.0)
    assert (nothing.rank, nothing.tokens, nothing.first, nothing.is_right) == (None, 0, None, False)


def test_a_demo_that_wins_nothing_says_so():
    counts = dict.fromkeys(("documents", "sections", "chunks", "terms", "generation", "dim", "bytes"), 1)
    holds = LibraryStats(**counts, views={}, embedder="e")
    found = {"nowhere": ranked(0), "both": ranked(0), "index_seconds": 1.0, "ask_seconds": 1.0}
    run = DemoRun(outcomes=(), holds=holds, comparisons=(compared(1, 2),), **found)
    texts = [str(part) for part in report(run, None)]
    assert any("no question that plain vector search gets wrong" in text for text in texts)
    assert any("plain 1 of 1, Catena 0 of 1" in text for text in texts)


@pytest.mark.parametrize(
    ("started", "session", "found", "shown"),
    [
        (".nox/demo/bin/catena", "demo", True, ".nox/demo/bin/catena"),
        (".nox/demo/bin/catena", "", False, ".nox/demo/bin/catena"),
        ("my bin/catena", "", False, "'my bin/catena'"),
        ("bin/catena", "", True, "catena"),
        ("catena/__main__.py", "demo", False, "catena"),
    ],
)
def test_what_to_try_next_is_called_as_a_shell_finds_it(tmp_path, monkeypatch, *, started, session, found, shown):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(Path.cwd() / started), "demo"])
    monkeypatch.setattr("shutil.which", lambda name: name if found else None)
    monkeypatch.delenv("NOX_CURRENT_SESSION", raising=False)
    if session:
        monkeypatch.setenv("NOX_CURRENT_SESSION", session)
    assert own_command() == shown

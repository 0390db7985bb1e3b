"""The report page without a browser: what is gathered, how it is written, and what is said of what is missing."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import cli_calls
import pytest
from cli_calls import call, filled, value
from hypothesis import given, settings
from hypothesis import strategies as st

import catena
from catena.evaluation import read_questions
from catena.formatting import FidelityReport
from catena.formatting.fidelity_check import Fault, PageFidelity
from catena.model import TITLE, Chunk, EvaluationError, FilterError, Hit, ParameterError, Provenance, Scale
from catena_view.plots.graph_view import links_among
from catena_view.report import Missing, Report, ReportContents, ReportOptions, read_fidelity, report
from catena_view.report.graph import discs_of_documents
from catena_view.report.ranking import parts_of, preview_of
from catena_view.report.reporting import data_of
from catena_view.report.values import Curves, GraphShown, GroupMark, Hits, Strips, Studies, Tree

PLAIN = "Text before any heading.\n\n# Notes\n\n## Storage\n\nKeep the fuse dry and the cover shut.\n"
MANUALS = {**{name: cli_calls.MANUALS[name] for name in ("hx200.md", "hx210.md")}, "plain.md": PLAIN}
QUESTION = "How is the fuse rated?"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & \u2028 \ud800"


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = filled(tmp_path_factory.mktemp("shelf"), MANUALS)
    shutil.copytree(folder / "lib", folder / "walked")
    with catena.Library.open(folder / "walked") as library:
        library.build_graph()
    (folder / "q.jsonl").write_text(
        json.dumps({"question": QUESTION, "gold": {"document": "hx200.md", "heading": "Fuse"}}), encoding="utf-8"
    )
    return folder


@pytest.fixture(scope="module")
def walked(shelf: Path) -> Report:
    with catena.Library.open(shelf / "walked", create=False) as library:
        return report(library, QUESTION, name="walked")


# The ranking.


def test_parts_of_a_score_are_those_of_the_formula() -> None:
    chunk = Chunk(id="c", document_id="d", position=0, start=0, end=1, text="x")
    ways = (
        Provenance(route="dense", rank=2, score=0.5, share=0.4),
        Provenance(route="lexical", rank=1, score=6.0, share=0.3),
        Provenance(route="lexical", rank=4, score=1.0, view="passage", share=0.2),
        Provenance(route="name", rank=1, score=0.9, view="hx200"),
    )
    found = {part.route: part.value for part in parts_of(Hit(chunk, 0.9, ways))}
    assert found == {"dense": 0.4, "lexical": 0.3, "passages": 0.2}


@pytest.mark.parametrize("question", [QUESTION, "Keep the cover shut and dry", "tighten 2.4 N·m slow rated"])
def test_the_parts_of_each_hit_add_up_to_its_score(shelf: Path, question: str) -> None:
    with catena.Library.open(shelf / "lib", create=False) as library:
        contents = report(library, question).contents
    found = contents.ranking
    assert found.scale == Scale.NORMALIZED.value
    assert found.hits
    ranked = list(dict.fromkeys(hit.document for hit in found.hits))  # those with hits come first in the tree
    assert [document.id for document in contents.tree.documents][: len(ranked)] == ranked
    for hit in found.hits:
        assert hit.whole == pytest.approx(hit.score, abs=1e-6)


# What a hit shows before it is opened.

ROWS = "\n".join(f"| P{number} | {number}.5 N·m |" for number in range(1, 9))
TABLE = f"# Torques\n\nTighten by hand first.\n\n| Part | Torque |\n| --- | --- |\n{ROWS}\n| Cover bolt | 24 N·m |\n"
MUCH = "Nothing here matters much. " * 30
LONG = f"Nothing here needs a torque. {MUCH}The foot bolts need 18 N·m each. " + "Oil it once a year. " * 30


def test_of_a_table_the_rows_that_match_are_shown_and_of_a_long_text_the_part_from_its_sentence_on() -> None:
    shown = preview_of(TABLE, "Which torque has the bolt of the cover?")
    assert shown.header == ("Part", "Torque")
    assert shown.rows == (("Cover bolt", "24 N·m"),)
    assert (shown.more, shown.text) == (8, "Tighten by hand first.")
    part = preview_of(LONG, "What torque do the foot bolts need?").text
    assert "The foot bolts need 18 N·m each." in part
    assert (part[:2], part[-2:]) == ("… ", " …")
    assert preview_of(LONG, "What is asdf?").text.startswith("Nothing here")


def test_a_short_text_is_shown_whole_but_for_its_headings() -> None:
    assert preview_of("# Fuse\n\n## Rating\n\n250 mA.\n", "rating").text == "250 mA."
    assert preview_of("# Fuse\n", "fuse").text == "# Fuse"
    assert preview_of("| no table, a pipe\n", "pipe").text == "| no table, a pipe"


@given(st.text(max_size=900), st.text(max_size=30))
def test_any_text_has_a_preview_that_invents_nothing(text: str, question: str) -> None:
    shown = preview_of(text, question)
    assert len(shown.text) <= 364
    assert shown.text.removeprefix("… ").removesuffix(" …") in text or "|" in text
    assert all(cell in text.replace("\\|", "|") for row in shown.rows for cell in row)


# The tree.


def test_documents_with_hits_come_first_and_hits_are_marked_at_their_sections(walked: Report) -> None:
    tree, hits = walked.contents.tree, walked.contents.ranking.hits
    order = [document.id for document in tree.documents]
    assert order[0] == hits[0].document
    assert sorted(order) == sorted(MANUALS)
    for document in tree.documents:
        marked = [rank for section in document.sections or () for rank in section.hits]
        assert sorted(marked) == sorted(document.hits) == [hit.rank for hit in hits if hit.document == document.id]
    plain = next(document for document in tree.documents if document.id == "plain.md")
    assert [section.title for section in plain.sections or ()] == ["Before the first heading", "Notes", "Storage"]


# Segments, graph.


def test_bars_stand_in_reading_order_and_segments_over_their_own_bars(walked: Report) -> None:
    found = walked.contents.segments
    assert isinstance(found, Curves)
    assert 0 < found.used <= found.budget
    assert min(bar.rank for curve in found.curves for bar in curve.bars if bar.rank is not None) == 1
    for curve in found.curves:
        places = [bar.place for bar in curve.bars]
        assert places == sorted(set(places))
        for bar in curve.bars:
            over = [span.number for span in curve.spans if span.first < bar.place < span.last]
            assert over == ([] if bar.segment is None else [bar.segment])


def test_the_graph_has_every_node_and_every_edge_once(shelf: Path, walked: Report) -> None:
    found = walked.contents.graph
    assert isinstance(found, GraphShown)
    with catena.Library.open(shelf / "walked", create=False) as library:
        ids, links = sorted(library.graph.ids), links_among(library.graph, list(library.graph.ids))
    assert found.whole
    assert len(found.nodes) == len(ids)
    numbers = {chunk_id: number for number, chunk_id in enumerate(ids)}
    shown = {frozenset(kind.edges[at : at + 2]) for kind in found.kinds for at in range(0, len(kind.edges), 3)}
    assert shown == {frozenset((numbers[link.one], numbers[link.two])) for link in links}
    assert all(0 <= node.x <= 1 and 0 <= node.y <= 1 for node in found.nodes)
    first = found.chains[0][0]
    assert (first.came_from, first.reasons) == (None, ("from the first ranking",))


@settings(max_examples=20)
@given(st.lists(st.integers(min_value=1, max_value=30), min_size=2, max_size=6))
def test_discs_of_documents_share_no_place_and_stay_on_the_page(sizes: list[int]) -> None:
    chunks = [
        Chunk(id=f"{d}-{n}", document_id=str(d), position=n, start=n, end=n + 1, text="x")
        for d, size in enumerate(sizes)
        for n in range(size)
    ]
    groups = {str(d): GroupMark(title="", tone=0, x=d % 2, y=d % 3 / 2, nodes=n) for d, n in enumerate(sizes)}
    places = discs_of_documents(chunks, groups)
    assert len(set(places)) == len(chunks)
    assert places == discs_of_documents(chunks, groups)
    assert all(0 <= x <= 1 and 0 <= y <= 1 for x, y in places)


def test_without_a_graph_the_page_says_how_to_build_one(shelf: Path) -> None:
    with catena.Library.open(shelf / "lib", create=False) as library:
        made = report(library, QUESTION)
    gone = made.contents.graph, made.contents.fidelity, made.contents.studies
    assert all(isinstance(each, Missing) for each in gone)
    assert "catena graph build" in gone[0].hint
    assert "no chunk-interaction graph" in made.html


# Fidelity, questions.

PAGE = PageFidelity(page=1, recall=1.0, precision=0.5, order=1.0)
KEPT = FidelityReport(document_id="a", source="folder/a.pdf", pages=(PAGE,))


def test_fidelity_is_read_as_it_was_kept(tmp_path: Path) -> None:
    dropped = Fault(kind="dropped", detail="'x'")
    pages = (*KEPT.pages, replace(KEPT.pages[0], page=2, recall=0.9, state="layout", faults=(dropped,)))
    kept = replace(KEPT, pages=pages).as_json()
    (tmp_path / "one.json").write_text(json.dumps(kept))
    (tmp_path / "two.json").write_text(json.dumps([kept, kept]))
    (one,) = read_fidelity(tmp_path / "one.json")
    assert [(page.page, page.recall, page.state) for page in one.pages] == [(1, 1.0, "llm"), (2, 0.9, "layout")]
    assert one.pages[1].faults == (dropped,)
    assert len(read_fidelity(tmp_path / "two.json")) == 2


@pytest.mark.parametrize("text", ["", "{", "3", '{"pages": []}', '{"source": "x", "pages": [{"page": 1}]}', "[null]"])
def test_what_is_no_fidelity_report_is_said_with_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "kept.json").write_text(text)
    with pytest.raises(EvaluationError, match=r"kept\.json is no fidelity report.* Try: ") as caught:
        read_fidelity(tmp_path / "kept.json")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_fidelity_and_questions_reach_the_page(shelf: Path) -> None:
    told: list[tuple[int, ...]] = []
    given = {"questions": read_questions(shelf / "q.jsonl"), "fidelity": [KEPT]}
    with catena.Library.open(shelf / "lib", create=False) as library:
        made = report(library, QUESTION, **given, progress=lambda *step: told.append(step)).contents
    assert isinstance(made.fidelity, Strips)
    assert made.fidelity.strips[0].title == "a.pdf"
    assert isinstance(made.studies, Studies)
    assert told == [(1, 1)]
    assert made.studies.columns[:4] == ("kind", "questions", "recall", "LRI")
    assert [figure.image[:22] for figure in made.studies.figures] == ["data:image/png;base64,"] * 4
    assert all(re.search(r"\d", figure.caption) for figure in made.studies.figures)


# The page.


def test_the_policy_allows_this_script_and_this_style_and_nothing_else(walked: Report) -> None:
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', walked.html)
    script = re.findall(r"<script>(.*?)</script>", walked.html, re.DOTALL)
    style = re.findall(r"<style>(.*?)</style>", walked.html, re.DOTALL)
    assert policy is not None
    hashes = [b64encode(sha256(text.encode()).digest()).decode() for text in (*script, *style)]
    assert policy[1] == (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    addresses = set(re.findall(r"https?://[^\s\"'<]+", walked.html))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # a namespace, never asked


def test_equal_libraries_and_questions_give_equal_pages(shelf: Path, walked: Report) -> None:
    with catena.Library.open(shelf / "walked", create=False) as library:
        assert report(library, QUESTION, name="walked").html == walked.html


def nothing(question: str) -> ReportContents:
    gone = Missing(missing=HOSTILE)
    return ReportContents(
        question=question, name=HOSTILE, facts={HOSTILE: HOSTILE},
        ranking=Hits(scale="rank", formula="", hits=(), degraded=(), unknown=()), tree=Tree(documents=(), more=0),
        segments=gone, graph=gone, fidelity=gone, studies=gone,
    )  # fmt: skip


@given(st.text(st.characters(exclude_categories=())))
def test_no_text_can_leave_the_data(text: str) -> None:
    data = data_of(nothing(text + HOSTILE))
    assert not set(data) & set("<>&")
    assert data.isascii()
    assert json.loads(data)["question"] == text + HOSTILE


def test_hostile_texts_of_documents_are_data_only(tmp_path: Path) -> None:
    text = f"# A {HOSTILE[:-4]}\n\n## Fuse\n\nThe fuse {HOSTILE[:-4]} is rated.\n"
    (tmp_path / "a.md").write_text(text, encoding="utf-8")
    with catena.Library.open(tmp_path / "lib") as library:
        library.index(tmp_path / "a.md")
        made = report(library, f"fuse {HOSTILE}", name=HOSTILE)
    assert made.html.count("<script") == 2
    assert "<img" not in made.html
    assert made.save(tmp_path / "page.html").read_bytes().decode()  # a lone surrogate is no obstacle
    assert made.contents.ranking.hits[0].citation.startswith(str(made.contents.tree.documents[0].title))
    assert TITLE not in made.contents.facts


def test_a_page_is_saved_as_html_only(walked: Report, tmp_path: Path) -> None:
    assert walked.save(tmp_path / "page.html").read_text(encoding="utf-8") == walked.html
    with pytest.raises(ParameterError, match=r"\.html"):
        walked.save(tmp_path / "page.pdf")
    with pytest.raises(EvaluationError, match=r"cannot write page\.html: .* Try: "):
        walked.save(tmp_path / "absent" / "page.html")


def test_a_notebook_shows_the_page_in_a_frame_that_reaches_nothing(walked: Report) -> None:
    shown = walked._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts" srcdoc="&lt;!doctype html&gt;')
    assert "<script" not in shown


@pytest.mark.parametrize(
    ("name", "value"),
    [("k", 0), ("documents", -1), ("curves", True), ("nodes", 5_001), ("depth", 1.5), ("gamma", 0.0)],
)
def test_options_outside_their_domain_are_named(name: str, value: object) -> None:
    with pytest.raises(ParameterError, match=name):
        ReportOptions(**{name: value})


def test_what_cannot_be_asked_is_refused(shelf: Path) -> None:
    with catena.Library.open(shelf / "lib", create=False) as library:
        with pytest.raises(ParameterError, match="question"):
            report(library, "  ")
        with pytest.raises(ParameterError, match="ReportOptions"):
            report(library, QUESTION, {"k": 3})  # type: ignore[arg-type]
        with pytest.raises(FilterError):
            report(library, QUESTION, ReportOptions(where={"page": {"$near": 3}}))


# The command.


def test_the_command_writes_the_page_and_says_what_it_lacks(shelf: Path, tmp_path: Path) -> None:
    result = call("report", QUESTION, "--library", shelf / "lib", "--out", tmp_path / "r.html", "--nodes", 5)
    assert "r.html" in result.stdout
    assert "without the graph: This library has no chunk-interaction graph" in result.stderr
    assert "fidelity" not in result.stderr
    assert (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    told = value("report", QUESTION, "-l", shelf / "walked", "-o", tmp_path / "s.html")
    assert (told["hits"], sorted(told["missing"])) == (6, ["fidelity", "measures"])

"""The library as users meet it: files in, cited passages out; what fails is named and loses nothing."""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer
from hypothesis import given
from hypothesis import strategies as st

from catena import Document, FilterError, Hit, LibraryError, ModelMismatchError, ParameterError, ParseError, Ranking
from catena.effects import Budget, Cancel, Complete, Handler, Journal, Limiter, Retry, Services
from catena.enrichment import Keywords
from catena.library import UNCHANGED, Library, Preparation, Progress, discover, prepare
from catena.library.discovery import is_gone
from catena.library.file_ingestion import _reason as pages_told
from catena.model import CancelledError, DuplicateDocumentError, Scale, ServiceError, UnknownDocumentError, citation
from catena.model.layout import PageNote
from catena.parsing import parse, parse_bytes
from catena.parsing.protocol import Unreadable
from catena.parsing.worker import bytes_of
from catena.structure import ChunkOptions, SectionChunkOptions
from catena.testing import FakeEmbedder, FakeLLM
from catena_server import ServerLibrary

ALPHA = "# Alpha manual\n\n## Mounting\n\nTighten the screws to 3 Nm.\n\n## Empty\n\n## Wiring\n\nUse red wire.\n"
OMEGA = ALPHA.replace("Alpha", "Omega").replace("3 Nm", "5 Nm")
on_both = pytest.mark.parametrize("kind", ["embedded", "server"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    manuals = tmp_path / "manuals"
    manuals.mkdir()
    (manuals / "alpha.md").write_text(ALPHA)
    (manuals / "omega.md").write_text(OMEGA)
    return manuals


def opened(folder: Path, kind: str = "embedded", **given: Any) -> Any:
    if kind == "server":
        return ServerLibrary.open(FakeServer(), "w-set", home=folder, embedder=FakeEmbedder(16), **given)
    return Library.open(folder / "library", **{"embedder": FakeEmbedder(16), **given})


@pytest.fixture
def library(tmp_path: Path):
    with opened(tmp_path) as made:
        yield made


def states(outcomes) -> list[tuple[str, str]]:
    return [(Path(outcome.source).name, outcome.state) for outcome in outcomes]


BOTH = [("alpha.md", "indexed"), ("omega.md", "indexed")]


def test_files_become_cited_chunks_and_a_second_run_does_nothing(library: Library, folder: Path) -> None:
    told: list[Progress] = []
    outcomes = library.index([folder], progress=told.append)
    assert states(outcomes) == BOTH
    assert [(progress.done, progress.total) for progress in told] == [(1, 2), (2, 2)]
    assert tuple(progress.outcome for progress in told) == outcomes
    best = library.search("How tight are the screws of the Omega manual?").hits[0]
    assert best.chunk.text == "## Mounting\n\nTighten the screws to 5 Nm."
    assert best.chunk.document_id == "manuals/omega.md"
    assert best.chunk.path == ("Omega manual", "Mounting")
    assert best.chunk.lines == (3, 5)
    assert library.verify() == ()
    before, ledger = library.stats(), library.ledger()
    assert before.generation == 1  # both were written at once
    again = library.index([folder])
    assert [(outcome.state, outcome.reason) for outcome in again] == [("skipped", UNCHANGED)] * 2
    assert (library.stats(), library.ledger()) == (before, ledger)


def test_a_changed_file_replaces_its_old_version_once_it_can_be_read(library: Library, folder: Path) -> None:
    library.index([folder])
    (folder / "alpha.md").write_text(ALPHA.replace("red", "green"))
    assert states(library.index([folder])) == [("alpha.md", "indexed"), ("omega.md", "skipped")]
    texts = {hit.chunk.text for hit in library.search("red green wire", k=10).hits}
    assert "## Wiring\n\nUse green wire." in texts
    assert {info.id for info in library.documents()} == {"manuals/alpha.md", "manuals/omega.md"}
    (folder / "alpha.md").write_text("  ")
    assert states(library.index([folder]))[0] == ("alpha.md", "failed")
    assert library.get("manuals/alpha.md").document.text == ALPHA.replace("red", "green")


def test_other_options_cut_anew_and_another_model_is_refused(tmp_path: Path, folder: Path) -> None:
    with opened(tmp_path) as library:
        library.index([folder])
    with opened(tmp_path, preparation=Preparation(chunks=ChunkOptions(max_tokens=5, min_tokens=0))) as library:
        assert states(library.index([folder])) == BOTH
    with pytest.raises(ModelMismatchError, match=r"'fake-embedder-16'.*'second'"):
        opened(tmp_path, embedder=FakeEmbedder(16, identity="second"))
    with pytest.raises(LibraryError, match="there is nothing"):
        opened(tmp_path / "none", create=False)
    assert not (tmp_path / "none").exists()


def test_a_bad_file_loses_nothing_of_the_others(library: Library, folder: Path) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 nothing else")
    (folder / "blank.md").write_text(" \n\n")
    (folder / "picture.xyz").write_bytes(b"\x00\x01")
    outcomes = library.index([folder, folder / "missing.md"])
    assert states(outcomes) == [
        ("alpha.md", "indexed"), ("blank.md", "failed"), ("broken.pdf", "failed"), ("omega.md", "indexed"),
        ("picture.xyz", "skipped"), ("missing.md", "failed"),
    ]  # fmt: skip
    assert all(outcome.reason for outcome in outcomes if outcome.state != "indexed")
    assert "no such file" in outcomes[-1].reason
    assert dict(states(library.ledger())) == dict(states(outcomes))


def test_add_replace_get_delete(library: Library, folder: Path) -> None:
    note = Document(id="note", text="# Note\n\nOne line.\n")
    assert library.add(folder / "alpha.md", note) == ("manuals/alpha.md", "note")
    entry = library.get("manuals/alpha.md")  # sections of a heading alone are in the tree, and no chunks
    assert [section.title for section in entry.sections] == ["Alpha manual", "Mounting", "Empty", "Wiring"]
    assert [chunk.path[-1] for chunk in entry.chunks] == ["Mounting", "Wiring"]
    with pytest.raises(DuplicateDocumentError, match="'note' is there already"):
        library.add(note)
    assert library.replace(note) == ()
    assert library.replace(Document(id="note", text="# Note\n\nAnother line.\n")) == ("note",)
    assert library.get("note").document.text.endswith("Another line.\n")
    library.delete("note")
    with pytest.raises(UnknownDocumentError, match="no document 'note'"):
        library.get("note")
    assert library.verify() == ()


def test_add_takes_all_or_nothing_and_says_what_to_make_of_a_parsed_file(library: Library, folder: Path) -> None:
    with pytest.raises(ParseError, match=r"missing\.md"):
        library.add(folder / "alpha.md", folder / "missing.md")
    with pytest.raises(ParameterError, match=r"source must be a path, or a Document, .*format_layout.* got 'Parsed'"):
        library.add(parse(folder / "alpha.md"))
    with pytest.raises(ParseError, match="nothing: empty: there is no text in it"):
        library.add(Document(id="nothing", text=" \n"))
    assert library.documents() == ()


def test_sections_are_whole_and_come_once_with_their_best_hit(tmp_path: Path, folder: Path) -> None:
    (folder / "long.md").write_text("# Long\n\n## One\n\n" + "\n\n".join(f"Red wire {n}." for n in range(9)))
    with opened(tmp_path, preparation=Preparation(chunks=ChunkOptions(max_tokens=8, min_tokens=0))) as library:
        library.index([folder])
        ranking = library.search("red wire", k=20)
        sections = library.sections(ranking)
        whole = library.section(library.get("manuals/alpha.md").chunks[0], descendants=True)
        assert whole.text == "## Mounting\n\nTighten the screws to 3 Nm."
        best = library.search("use red wire", where={"document_id": "manuals/alpha.md"}).hits[0]
        assert library.section(best).text == "## Wiring\n\nUse red wire."
        assert asyncio.run(library.asearch("screws", k=3)) == library.search("screws", k=3)
        for routes in (("lexical",), ("dense",), ("keyword",), ("lexical", "dense", "keyword")):
            found = library.search("the Alpha manual", k=9, routes=routes, where={"title": "Omega manual"})
            assert {hit.chunk.document_id for hit in found.hits} <= {"manuals/omega.md"}
    ids = [segment.id for segment, _ in sections]
    assert len(ids) == len(set(ids)) < len(ranking.hits)
    assert [hit.score for _, hit in sections] == sorted((hit.score for _, hit in sections), reverse=True)
    assert all(segment.start <= hit.chunk.start < segment.end for segment, hit in sections)


def test_a_stopped_run_keeps_what_it_did_and_goes_on(library: Library, folder: Path) -> None:
    cancel = Cancel()
    with pytest.raises(CancelledError):  # at once, between two requests of a file
        library.index([folder], watch=lambda event: event.kind == "finished" and cancel.set(), cancel=cancel)
    assert library.documents() == ()
    cancel = Cancel()
    with pytest.raises(CancelledError):
        library.index([folder], progress=lambda _: cancel.set(), cancel=cancel)
    assert [info.id for info in library.documents()] == ["manuals/alpha.md"]
    assert states(library.index([folder])) == [("alpha.md", "skipped"), ("omega.md", "indexed")]


def test_pages_without_text_are_told_in_three_runs_and_the_rest_is_counted() -> None:
    states = {7: "blank"}
    whys = {1: "a", 2: "a", 4: "a", 5: "b", 6: "c", 7: "c", 8: "c"}
    notes = [PageNote(page=page, state=states.get(page, "no-text"), why=why) for page, why in whys.items()]
    told = "pages 1-2: a; page 4: a; page 5: b"
    assert (pages_told(notes[:4]), pages_told(notes)) == (told, f"{told}; and 2 more pages")


def test_vectors_that_were_paid_for_are_not_paid_for_again(tmp_path: Path, folder: Path) -> None:
    embedder = FakeEmbedder(16)
    with Journal.open(tmp_path / "journal") as journal:
        for name in ("one", "two"):
            with opened(tmp_path / name, embedder=embedder, services=Services(journal=journal)) as library:
                library.index([folder])
    assert len(embedder.calls) == 2  # one per document, in the first run


def test_a_project_can_be_moved_as_a_whole(tmp_path: Path, folder: Path) -> None:
    with opened(tmp_path) as library:
        library.index([folder])
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("manuals", "library"):
        shutil.move(tmp_path / name, moved / name)
    with opened(moved) as library:
        assert {outcome.state for outcome in library.index([moved / "manuals"])} == {"skipped"}


# paths


def test_what_is_discovered_is_sorted_and_neither_hidden_nor_the_library_itself(folder: Path) -> None:
    for name in ("b.md", ".hidden.md", "sub/c.md", ".git/d.md"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(ALPHA)
    found = [path.relative_to(folder).as_posix() for path, _ in discover([folder, folder / "b.md"])]
    assert found == ["alpha.md", "b.md", "omega.md", "sub/c.md"]
    assert [path.name for path, _ in discover(str(folder / "sub"))] == ["c.md"]
    with opened(folder) as library:
        assert len(library.index([folder])) == 4
        assert states(library.index(str(folder / "alpha.md"))) == [("alpha.md", "skipped")]


def test_a_folder_that_may_not_be_listed_is_a_failure_not_a_silence(
    library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = folder / "closed"
    closed.mkdir()
    listed = os.scandir

    def scandir(path):
        if Path(path) == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)  # a superuser may list any
    assert states(library.index([folder])) == [*BOTH, ("closed", "failed")]
    monkeypatch.setattr(os, "access", lambda *_: False)  # the reading process, which said why, is not patched
    with pytest.raises(Unreadable, match="you may not read it"):
        bytes_of(str(closed), 10)


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes are Linux's")
def test_names_that_are_no_text_or_of_no_file_stop_nothing(
    library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(os.path.join(os.fsencode(folder), b"bad\xff\xfe.md"), "wb") as file:
        file.write(ALPHA.encode())
    assert [outcome.state for outcome in library.index(folder)] == ["indexed"] * 3
    assert r"manuals/bad\xff\xfe.md" in {info.id for info in library.documents()}
    parsed = parse_bytes(b"Only text.", "bad\udcff\udcfe.md")
    assert parsed.document.title == r"bad\xff\xfe"
    assert {outcome.state for outcome in library.index(folder)} == {"skipped"}
    monkeypatch.chdir(folder)
    bad = ["x" * 300 + ".md", "y" * 5_000, "\ud800.md", "a\0b.md", "/dev/null"]
    outcomes = library.index([*bad, "omega.md"])
    assert [outcome.state for outcome in outcomes] == ["failed"] * len(bad) + ["skipped"]
    assert all(outcome.reason.startswith(("missing: no file can have", "unsupported")) for outcome in outcomes[:-1])
    assert len(library.ledger()) == 3 + len(bad)
    assert library.verify() == ()


@pytest.mark.parametrize("path", [None, 5, b"a.md", ["a.md"], ""])
def test_what_is_no_path_is_refused_by_name(library: Library, path: object) -> None:
    calls = [lambda: library.index([path]), lambda: library.plan([path]), lambda: parse(path)]
    for call in [*calls, lambda: library.document_id(path)]:
        with pytest.raises(ParameterError, match="path must be a string"):
            call()
    with pytest.raises(ParameterError):
        Document(id=None, text="x")


@on_both
def test_an_id_that_no_document_can_have_is_an_unknown_one(tmp_path: Path, kind: str) -> None:
    with opened(tmp_path, kind) as library:
        library.add(Document(id="note", text="A note.\n"))
        for name in ("\ud800.md", "a\0b", "z" * 100_000, None, 5, b"x"):
            for call in (library.get, library.delete):
                with pytest.raises(UnknownDocumentError):
                    call(name)
            if isinstance(name, str):
                assert isinstance(library.document_id(name), str)
                assert kind == "server" or library.search(name).hits is not None
            else:
                with pytest.raises(ParameterError):
                    library.document_id(name)
        assert library.get("note").document.text == "A note.\n"


# files that are gone


def test_files_that_are_gone_are_named(library: Library, folder: Path) -> None:
    library.index(folder)
    library.add(Document(id="note", text="Not from a file.\n"))
    assert library.vanished() == ()
    (folder / "omega.md").unlink()
    assert library.vanished() == library.vanished(folder) == library.vanished([folder / "omega.md"])
    assert library.vanished(folder / "alpha.md") == ()
    assert library.vanished() == ("manuals/omega.md",)
    library.delete("manuals/omega.md")
    assert library.vanished() == ()


@pytest.mark.parametrize("moved", ["library", "manuals"])
def test_what_was_moved_stands_under_its_new_name_alone_and_what_changed_as_well_is_named(
    tmp_path: Path, folder: Path, moved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # so that the file has one source, and by the library's new place another id
    shutil.copy("manuals/alpha.md", "manuals/twin.md")
    with opened(Path()) as library:
        library.index("manuals")
    Path("else").mkdir()
    shutil.move(moved, f"else/{moved}")
    home, files = (Path("else"), "manuals") if moved == "library" else (Path(), "else/manuals")
    Path(files, "omega.md").write_text(OMEGA.replace("5 Nm", "6 Nm"))
    embedder = FakeEmbedder(16)
    with Library.open(home / "library", embedder=embedder) as library:
        assert library.plan(files)[1][0].state == "indexed"
        outcomes = library.index(files)
        new = {outcome.document_id for outcome in outcomes}
        assert len(new) == 3
        assert [outcome.moved_from for outcome in outcomes] == [
            ("manuals/alpha.md", "manuals/twin.md"), (), ("manuals/alpha.md", "manuals/twin.md")
        ]  # fmt: skip
        assert library.vanished() == ("manuals/omega.md",)
        assert {info.id for info in library.documents()} == {*new, "manuals/omega.md"}
        assert {outcome.document_id for outcome in library.ledger()} == {*new, "manuals/omega.md"}
        assert {outcome.state for outcome in library.index(files)} == {"skipped"}
        assert library.verify() == ()
    assert not [text for call in embedder.calls for text in call if "3 Nm" in text]  # alpha was embedded before


def test_a_file_that_cannot_be_read_where_it_is_now_is_found_as_it_was(tmp_path: Path, folder: Path) -> None:
    with opened(tmp_path) as library:
        library.index(folder)
        shutil.move(folder, tmp_path / "moved")
        (tmp_path / "moved" / "alpha.md").write_text(" ")
        assert [(each.state, each.moved_from) for each in library.index(tmp_path / "moved")] == [
            ("failed", ()), ("indexed", ("manuals/omega.md",))
        ]  # fmt: skip
        assert library.vanished() == ("manuals/alpha.md",)


def test_files_of_one_source_in_two_folders_have_a_line_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "a.md").write_text(ALPHA)
        monkeypatch.chdir(tmp_path / place)
        with opened(tmp_path) as library:
            library.index("a.md")
    (tmp_path / "one" / "a.md").unlink()
    with opened(tmp_path) as library:
        lines = [(each.source, each.document_id) for each in library.ledger()]
        assert lines == [("a.md", "one/a.md"), ("a.md", "two/a.md")]
        assert library.vanished() == ("one/a.md",)
    with sqlite3.connect(tmp_path / "library" / "library.sqlite") as connection:
        connection.execute("DELETE FROM ledger WHERE document_id = 'one/a.md'")  # as ledgers by source had lost it
    connection.close()
    with opened(tmp_path) as library:
        assert library.vanished() == ("one/a.md",)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes, and the locale says what they mean")
def test_no_file_is_taken_for_gone_under_another_locale(tmp_path: Path) -> None:
    manuals = tmp_path / "ünï 文档"
    manuals.mkdir()
    for name in ("größe.md", "old.md"):
        (manuals / name).write_text("# Manual\n\nThe torque is 2.4 N·m.\n", encoding="utf-8")
    with Library.open(tmp_path / "lib") as library:
        library.index(manuals)
    (manuals / "old.md").unlink()
    code = "import catena, sys; print(ascii(catena.Library.open(sys.argv[1], create=False).vanished()))"
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    call = [sys.executable, "-c", code, tmp_path / "lib"]
    done = subprocess.run(call, capture_output=True, text=True, env=ascii_only, check=False)
    assert done.stdout.strip() == ascii(("ünï 文档/old.md",)), done.stderr


def test_what_cannot_be_looked_at_or_lies_beside_a_linked_folder_is_not_gone(tmp_path: Path) -> None:
    (tmp_path / "link.md").symlink_to(tmp_path / "nowhere.md")  # the walk finds it, and says that it cannot be read
    names = ("link.md", "a" * 5_000, "a\0b", "lost/file.md", "lost.md")
    assert [is_gone(name, tmp_path) for name in names] == [False, False, False, True, True]
    (tmp_path / "deep" / "real").mkdir(parents=True)
    (tmp_path / "linked").symlink_to(tmp_path / "deep" / "real")
    (tmp_path / "note.md").write_text("# Note\n\nA sentence.\n")
    with opened(tmp_path / "linked") as library:
        library.index(tmp_path / "note.md")
        assert library.vanished() == ()
        (tmp_path / "note.md").unlink()
        assert library.vanished() == (library.ledger()[0].document_id,)


# questions with mistakes in them


REPORTS = [("PFIZER INC.", "2023 Q2", 2023), ("Pfizer, Inc", "2023", 2023), ("AMCOR PLC", "2022", 2022)]


@on_both
def test_filters_say_values_in_any_spelling_and_what_stands_nowhere_is_told(tmp_path: Path, kind: str) -> None:
    library = opened(tmp_path, kind)
    for number, row in enumerate(REPORTS):
        metadata = {**dict(zip(("company", "period", "year"), row, strict=True)), "# of rows": number}
        text = f"# {number + 1} Sales of the year\n\nNet sales.\n"
        library.add(Document(id=str(number), text=text, metadata=metadata))

    def found(**where: object) -> str:
        return "".join(sorted(hit.chunk.document_id for hit in library.search("sales", where=where).hits))

    assert {found(company=said) for said in ("pfizer", "Pfizer  inc", "The Pfizer Company")} == {"01"}
    assert found(company="AMCOR") == "2"
    assert [found(period=said) for said in ("2023", 2023, "FY2023", "Q2 2023", "q2")] == [*["01"] * 3, "0", "0"]
    assert (found(year="2022"), found(**{"# of rows": "1"})) == ("2", "1")
    assert found(company={"$contains": "fizer"}) == found(company={"$in": ["x", "pfizer"]}) == "01"
    assert (found(path={"$contains": "sales of"}), found(path={"$contains": "3 s"})) == ("012", "2")
    assert found(company={"$ne": "pfizer"}) == "2"
    assert library.values("company") == ("AMCOR PLC", "PFIZER INC.", "Pfizer, Inc")
    assert library.values("year") == (2022, 2023)
    with pytest.raises(ParameterError, match=r"one of # of rows, chunk_id, .* 'compny'"):
        library.values("compny")
    told = "nothing here has the company 'Pfizr'; there are 'AMCOR PLC', 'PFIZER INC.', 'Pfizer, Inc'. Did you mean"
    asked = {"where": {"company": "Pfizr"}}
    results = [library.search("sales", **asked), library.segments("sales", **asked), library.read("sales", **asked)]
    for result in (*results, library.search_figures("sales", **asked)):
        assert [(each.what, each.why.startswith(told)) for each in result.degraded] == [("filter", True)]
    assert library.search("sales", where={"year": {"$gte": "2022"}}).degraded[0].why == (
        "year is a number here, as 2022, and is compared with '2022'"
    )


def test_a_mistyped_field_of_a_filter_is_named_and_the_nearest(library: Library, folder: Path) -> None:
    assert library.search("screws", where={"vendor": "Acme"}).hits == ()  # an empty library has no fields to mistype
    library.add(Document(id="note", text="A note on screws.\n", metadata={"vendor": "Acme"}))
    library.index(folder)
    for name in ("search", "passages", "segments", "search_figures"):
        with pytest.raises(FilterError, match="Did you mean 'vendor'"):
            getattr(library, name)("screws", where={"vendr": "Acme"})
        with pytest.raises(FilterError, match="Did you mean 'vendor'"):
            asyncio.run(getattr(library, f"a{name}")("screws", where={"vendr": "Acme"}))
    assert [hit.chunk.document_id for hit in library.search("screws", where={"vendor": "Acme"}).hits] == ["note"]
    library.delete("note")  # the fields are those of what is held now
    with pytest.raises(FilterError, match="has the field 'vendor'"):
        library.search("screws", where={"vendor": "Acme"})


@pytest.mark.parametrize(
    ("method", "name", "told"),
    [
        ("search", "top_k", "here it is called 'k'"),
        ("search", "filter", "here it is called 'where'"),
        ("search", "fuson", "Did you mean 'fusion'?"),
        ("read", "budget_token", "Did you mean 'budget_tokens'?"),
        ("segments", "route", "Did you mean 'routes'?"),
        ("answer", "answring", "Did you mean 'answering'?"),
        ("search_views", "top_k", "here it is called 'k'"),
        ("search_graph", "filters", "here it is called 'where'"),
        ("search_figures", "wher", "Did you mean 'where'?"),
    ],
)
def test_an_unknown_argument_is_refused_with_the_nearest(library: Library, method: str, name: str, told: str) -> None:
    with pytest.raises(ParameterError) as caught:
        getattr(library, method)("torque", **{name: 3})
    assert f"argument of Library.{method} must be one of '" in str(caught.value)
    assert f"got '{name}'" in str(caught.value)
    assert told in str(caught.value)
    with pytest.raises(ParameterError, match=f"argument of Library.a{method} "):
        asyncio.run(getattr(library, f"a{method}")("torque", **{name: 3}))


def test_what_a_library_cannot_answer_is_said_and_no_hits_asked_for_are_none(library: Library) -> None:
    library.add(Document(id="note", text="# Note\n\nThe torque is 2.4 N·m.\n"))
    with pytest.raises(ParameterError) as caught:
        library.segments("torque", top_k=3)  # it has no k: a budget says how much comes
    assert "here it is called" not in str(caught.value)
    for ask in (library.search, library.search_figures, library.passages):
        assert ask("torque", k=0).hits == ()
    assert len(library.search("torque", k=1).hits) == 1
    with pytest.raises(ParameterError, match=r"llm must be given to Library\.open, as llm=a_language_model"):
        library.answer("torque")


def test_a_library_shows_its_name_and_how_much_is_in_it(tmp_path: Path) -> None:
    with opened(tmp_path) as library:
        for number, told in enumerate(("0 documents", "1 document", "2 documents")):
            assert repr(library) == f"<Library 'library': {told}>"
            library.add(Document(id=f"{number}", text="Oil.\n"))
    assert repr(library) == "<Library 'library': closed, or not readable>"


def test_an_embedder_that_lacks_something_is_refused_with_what(tmp_path: Path) -> None:
    class Foreign:
        dim = 3

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [[1.0, 0.0, 0.0] for _ in texts]

    for embedder, told in ((Foreign(), "Foreign, which lacks identity, embed_query"), (FakeEmbedder, "a class")):
        with pytest.raises(ParameterError, match=told):
            opened(tmp_path, embedder=embedder)
    assert list(tmp_path.iterdir()) == []


# documents of loaders, and what models fail at


@on_both
def test_what_a_model_failed_at_is_said_of_documents_as_of_files(tmp_path: Path, kind: str) -> None:
    def down(request: Complete) -> str:
        raise ServiceError("fake", "down")

    file = tmp_path / "a.md"
    file.write_text("# A\n\nZebra text.")
    how = Preparation(chunks=SectionChunkOptions(), views=(Keywords(),))
    once = Services(retry=Retry(attempts=1))
    with opened(tmp_path, kind, preparation=how, llm=FakeLLM(down), services=once) as library:
        (of_file,) = library.index([file])
        given = Document(id=of_file.document_id, text=file.read_text(), title="A")
        of_document, empty, twice = library.index([given, Document(id="nothing", text=" \n"), given])
        assert "views that could not be made: 1" in of_file.reason
        assert of_document == replace(of_file, source=of_file.document_id)
        assert library.index([given]) == (of_document,), "asked for again, never unchanged"
    assert (empty.state, empty.reason) == ("failed", "there is no text in it")
    assert (twice.state, "has the same id" in twice.reason) == ("failed", True)


@on_both
def test_a_document_that_is_gone_gives_the_chunk_itself_as_section(tmp_path: Path, folder: Path, kind: str) -> None:
    with opened(tmp_path, kind) as library:
        library.index([folder])
        chunks = [chunk for info in library.documents() for chunk in library.get(info.id).chunks]
        hits = tuple(Hit(chunk=chunk, score=1 / n) for n, chunk in enumerate(chunks, 1))
        ranking = Ranking(hits=hits, scale=Scale.SIMILARITY)
        gone = chunks[0].document_id
        whole = {hit: segment for segment, hit in library.sections(ranking) if hit.chunk.document_id != gone}
        library.delete(gone)
        chunk_itself = {hit: hit.chunk.as_segment() for hit in hits if hit.chunk.document_id == gone}
        assert {hit: segment for segment, hit in library.sections(ranking)} == chunk_itself | whole
        assert library.section(chunks[0]) == chunks[0].as_segment()
        other, moved = chunks[-2:]
        library.replace(Document(id=other.document_id, text="# New\n\n" + OMEGA.replace("## Mounting", "## Fitting")))
        assert library.section(other) == other.as_segment()  # there is no section of its headings any more
        found = library.section(moved)
        start = moved.start + len("# New\n\n") + len("Fitting") - len("Mounting")
        assert (found.text, found.start) == (moved.text, start)


@given(st.text(min_size=1).filter(str.strip), st.text(max_size=20))
def test_preparing_loses_nothing_but_bare_headings(text: str, title: str) -> None:
    entry = prepare(Document(id="d", text=text, title=title))
    assert entry == prepare(Document(id="d", text=text, title=title))
    assert entry.document.title
    assert len(entry.views) == len(entry.terms) == len(entry.chunks) > 0
    assert [chunk.position for chunk in entry.chunks] == list(range(len(entry.chunks)))
    assert all(text[chunk.start : chunk.end] == chunk.text for chunk in entry.chunks)
    assert all(chunk.metadata["title"] == entry.document.title for chunk in entry.chunks)


def test_a_title_is_what_its_heading_shows() -> None:
    text = '# RDS Proxy<a name="rds-proxy"></a>\n\nPool connections with **RDS Proxy**.\n'
    entry = prepare(Document(id="d", text=text, title='RDS Proxy<a name="rds-proxy"></a>'))
    assert entry.document.title == "RDS Proxy"
    assert citation(entry.chunks[0]).startswith("RDS Proxy, line")
    plain = prepare(Document(id="d", text="It is raw.", title="a <b> c", media_type="text/plain"))
    assert plain.document.title == "a <b> c"
    untitled = prepare(Document(id="folder/d", text="Words.\n\n## Deep\n\nText.\n\n# High\n\nText.\n"))
    assert untitled.document.title == "High"
    assert prepare(Document(id="d", text="Words.", source="manuals/pump.md")).document.title == "pump"


# in another process


def test_a_library_opens_again_where_it_is_unpickled(tmp_path: Path, folder: Path) -> None:
    sections = Preparation(chunks=SectionChunkOptions())
    with (
        Journal.open(tmp_path / "journal.db") as journal,
        Library.open(tmp_path / "library", preparation=sections, services=Services(journal=journal)) as library,
    ):
        library.index(folder)
        with pickle.loads(pickle.dumps(library)) as other:
            assert other.store is not library.store
            assert other.preparation == library.preparation
            assert other.search("screws") == library.search("screws")
            kept = other.services.journal
            journal.put("ab" * 32, b"reply")
            assert kept is not journal
            assert kept.get("ab" * 32) == b"reply"
            kept.close()


def test_a_library_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    with Library.open(tmp_path / "library") as library:
        pickled = pickle.dumps(library)
    (tmp_path / "library").rename(tmp_path / "elsewhere")
    with pytest.raises(LibraryError):
        pickle.loads(pickled)


def test_engine_and_pace_go_along_but_no_cap_and_no_limit_that_would_not_count_together(tmp_path: Path) -> None:
    pytest.importorskip("rank_bm25")
    paced = Services(max_concurrency=2, retry=Retry(attempts=7))
    with (
        Library.open(tmp_path / "library", lexical="rank-bm25", services=paced) as library,
        pickle.loads(pickle.dumps(library)) as other,
    ):
        assert other.store.lexical == "rank-bm25"
        assert (other.services.max_concurrency, other.services.retry.attempts) == (2, 7)
    for name, counting in (("budget", Budget(max_tokens=10)), ("limiter", Limiter({Complete: 60}))):
        capped = Services(**{name: counting})
        with Library.open(tmp_path / "library", services=capped) as library:
            for held, message in ((library, f"{name} must be None"), (capped, "they would not count together")):
                with pytest.raises(ParameterError, match=message):
                    pickle.dumps(held)


def test_services_are_made_again_from_what_they_were_given() -> None:
    services = Services(handlers={Complete: Handler(identity="words", call=len)}, max_concurrency=3)
    again = pickle.loads(pickle.dumps(services))
    assert again.max_concurrency == 3
    assert again.handler(Complete) == services.handler(Complete)

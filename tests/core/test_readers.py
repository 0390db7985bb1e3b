"""Readers that users add: registered or installed, run in the same process and under the same limits as ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from catena import Library
from catena.model import ParameterError, ParseError
from catena.parsing import FileKind, FileText, Limits, parse, parse_bytes, readers, register, supported_suffixes
from catena.testing import FakeEmbedder


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., FileKind]]:
    """Yield what makes a kind of files that a function of `user_readers` reads; what it registers is forgotten."""
    monkeypatch.setattr(readers, "_added", [])
    yield lambda name, *suffixes, **more: FileKind(
        suffixes=suffixes or (".ini",), reader=f"user_readers:{name}", **more
    )
    readers._installed.cache_clear()


def test_a_registered_reader_reads_its_files_and_another_version_reads_them_again(kind, tmp_path):
    file = tmp_path / "pump.ini"
    file.write_text("[Limits]\npressure = 16 bar\n")
    with Library.open(tmp_path / "shelf", embedder=FakeEmbedder(8)) as library:
        assert library.index(file)[0].reason == "files of type .ini are not read"
        register(kind("read_ini"))
        register(kind("read_ini"))  # once more does no harm
        assert ".ini" in supported_suffixes()
        assert [library.index(tmp_path)[0].state for _ in range(2)] == ["indexed", "skipped"]
        (hit,) = library.search("pressure").hits
        assert (hit.chunk.path, hit.chunk.metadata["by"]) == (("Limits",), "me")
        register(kind("read_ini", version="2"))
        assert [library.index(file)[0].state for _ in range(2)] == ["indexed", "skipped"]
        notes = tmp_path / "notes.md"
        notes.write_text("# Notes")
        assert library.index(notes)[0].state == "indexed"
        register(kind("read_ini", ".md"))
        assert [library.index(notes)[0].state for _ in range(2)] == ["indexed", "skipped"]
    assert parse(file).document.title == "Settings"


def test_the_latest_reader_of_a_suffix_takes_its_files_and_its_places_are_told(kind, tmp_path):
    register(kind("read_slides", ".deck", ".md"))
    assert parse_bytes(b"PK\3\4 of its own", "x.deck").document.page_labels == ("slide 1", "slide 2")
    document = parse_bytes(b"# Markdown", "x.md").document
    assert (document.text[:5], document.pages_of(14, 20).page_labels) == ("# One", ("slide 2", "slide 2"))
    assert parse_bytes(b"# Markdown", "x.markdown").document.text == "# Markdown"
    assert parse_bytes(b"<!doctype html><p>page", "x.md").document.text[:5] == "# One"  # its name is trusted


def test_a_signature_finds_files_under_other_names_and_the_rest_is_refused_as_ours_is(kind):
    register(kind("read_ini", ".cfg", signature=rb"\A\[Limits\]"))
    assert parse_bytes(b"[Limits]\na = 1", "no_suffix").document.title == "Settings"
    assert parse_bytes(b"[Other]\na = 1", "other.cfg").document.title == "Settings"
    with pytest.raises(ParseError, match=r"unsupported: it is a PNG image, whatever its name \(\.cfg\) says"):
        parse_bytes(b"\x89PNG", "x.cfg")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("read_nothing", "empty: it holds no text"),
        ("read_wrong", "unsupported: its reader, user_readers:read_wrong, gave dict and no FileText"),
        (
            "read_badly_placed",
            r"its reader, user_readers:read_badly_placed, which was registered, raised .*ascending",
        ),
        ("read_without", r"cannot be loaded \(ModuleNotFoundError.*Try: pip install 'its-package'"),
        ("read_that_is_not_there", "unsupported: .*cannot be loaded"),
        ("read_for_ever", "timeout: it was not read within 1 s"),
        ("read_too_much", "memory: "),
    ],
)
def test_a_reader_that_fails_costs_its_file_and_says_why(kind, name: str, told: str) -> None:
    register(kind(name, install="its-package"))
    with pytest.raises(ParseError, match=told):
        parse_bytes(b"[a]", "x.ini", limits=Limits(seconds=1))
    assert parse_bytes(b"# A", "x.md").document.text == "# A"


def test_an_installed_package_adds_its_readers(kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "their_kinds.py").write_text(
        "from catena.parsing import FileKind\nINI = FileKind(suffixes=('.ini',), reader='user_readers:read_ini')\n"
    )
    (tmp_path / "theirs-1.0.dist-info").mkdir()
    (tmp_path / "theirs-1.0.dist-info" / "METADATA").write_text("Name: theirs\nVersion: 1.0\n")
    names = tmp_path / "theirs-1.0.dist-info" / "entry_points.txt"
    names.write_text("[catena.readers]\nini = their_kinds:INI\n")
    readers._installed.cache_clear()
    assert parse_bytes(b"[Limits]\na = 1", "x.ini").document.title == "Settings"
    names.write_text("[catena.readers]\nini = their_kinds:FileKind\n")
    readers._installed.cache_clear()
    with pytest.raises(ParameterError, match=r"the entry point 'ini' of 'catena.readers' must be a catena.parsing.F"):
        supported_suffixes()


@pytest.mark.parametrize(
    "wrong",
    [
        {"suffixes": "ini"},
        {"suffixes": (".INI",)},
        {"reader": "no function"},
        {"signature": b"("},
        {"signature": "a"},
    ],
)
def test_a_kind_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        FileKind(**{"suffixes": (".ini",), "reader": "a:b", **wrong})  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"kind must be a catena\.parsing\.FileKind"):
        register("a:b")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="page_labels"):
        FileText(text="a", page_starts=(0,), page_labels=("1", "2"))

"""Markdown and plain text are kept as they are; what a file is, its bytes say before its name."""

from __future__ import annotations

import codecs
import json
import os
from pathlib import Path
from typing import Any

import pytest
from case_files import cases_of
from hypothesis import given
from hypothesis import strategies as st

from catena import Library
from catena.model import CatenaError, ParameterError, ParseError, digest
from catena.parsing import FileKind, Limits, file_bytes, parse, parse_bytes, supported_suffixes
from catena.parsing.protocol import Unreadable
from catena.parsing.readers import HEAD, kind_of, kinds
from catena.parsing.text import MarkdownBlocks, decode
from catena.parsing.worker import bytes_of
from catena.text.encodings import is_visible, marked

printable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")).filter(str.strip)


def state_of(data: bytes, name: str, **settings: Any) -> str:
    with pytest.raises(ParseError) as caught:
        parse_bytes(data, name, **settings)
    assert caught.value.source == name
    return caught.value.state


@given(printable, st.sampled_from(["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]))
def test_utf_8_is_kept_to_the_last_line_end_and_a_byte_order_mark_decides_and_is_not_text(text, encoding):
    text = "a" + text
    assert parse_bytes(text.encode(), "x.md").document.text == text
    document = parse_bytes(f"\ufeff{text}".encode(encoding), "x.md").document
    assert (document.text, document.metadata["encoding"]) == (text, encoding)
    if encoding.startswith("utf-16"):  # without a mark it is known by its zero bytes
        assert parse_bytes("Grüße aus Köln".encode(encoding), "x.txt").document.text == "Grüße aus Köln"


ENCODED = cases_of("cases_encodings.txt")
JAPANESE, CHINESE, GERMAN = (
    f"{case.values[0]}\n" for case in ENCODED if case.id in {"japanese", "chinese", "german"}
)


@pytest.mark.parametrize(("text", "encodings"), ENCODED)
def test_what_is_not_utf_8_is_known_by_its_letters(text: str, encodings: str) -> None:
    for encoding in encodings.split():
        for printed in (f"{text}\n", f"{text}\n" * 2_000):
            found = decode(printed.encode(encoding))
            assert found.text == printed
            assert not found.doubt or encoding in {"cp273", "hz"}  # of which its sisters and plain text look the same


@pytest.mark.parametrize("text", ["(format t ~{~a~}~%)", "~{a b~}", "a~{~}b", "\x1b$ is no escape", "\x1b[0m"])
def test_text_of_seven_bits_that_only_resembles_an_encoding_is_utf_8(text: str) -> None:
    assert decode(text.encode()) == (text, "utf-8", "")


def test_utf_16_without_a_mark_is_known_by_zero_bytes_on_one_side() -> None:
    written = (b"a\0b\0", b"\0a\0b", b"a\0b\0c\0defg", b"a\0b\0cdefgh", b"a\0\0b", b"a\0b\0c", b"ab", b"")
    names = [found and found[0] for found in map(marked, written)]
    assert names == ["utf-16-le", "utf-16-be", "utf-16-le", None, None, None, None, None]


@pytest.mark.parametrize("text", [JAPANESE, CHINESE])
def test_a_long_line_without_ascii_is_known_by_its_beginning(text: str) -> None:
    line = "".join(each for each in text if not each.isascii()) * 2_000
    for encoding in ("shift_jis", "euc_jp") if text is JAPANESE else ("gb18030",):
        assert decode(line.encode(encoding)).text == line


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (bytes(range(1, 256)), "its encoding is a guess: latin-1, confidence 0.00"),
        ("насос".encode("cp1251"), "its encoding is a guess: windows-1251, confidence 1.00; windows-1255"),
        ("คู่มือการใช้งานปั๊มน้ำ\n".encode("cp874"), "its encoding is a guess"),
        (CHINESE.encode()[:-2], "1 place is not UTF-8"),
        (GERMAN.encode() * 20 + b"\xff", "1 place is not UTF-8"),
        ("# 题目\n\n泵盖螺钉紧固力矩为 2.4 Nm\n".encode("gb18030"), "its encoding is a guess: cp949"),
        ("が流れ、弁が開いてい".encode("shift_jis"), "its encoding is a guess: shift_jis, confidence 1.00; cp949"),
        (CHINESE.encode("hz"), "its encoding is a guess: hz"),
    ],
)
def test_a_guess_is_told(data: bytes, why: str) -> None:
    assert decode(data).doubt.startswith(why)
    for name in ("x.md", "x.txt", "x.html", "x.tex"):
        read = parse_bytes(data, name)
        assert (read.state, read.notes[0].why[: len(why)]) == ("partial", why)


@pytest.mark.parametrize(
    "unseen",
    [
        "\x01\x02\x07\x1b", "\u200b\u200d\ufeff", "\u202a\u202e\u2066\u2069", "\xad" * 9, "\u0301\u0327 ",
        "\u3164\u2800",
    ],
)  # fmt: skip
def test_a_file_of_nothing_visible_is_a_failure(unseen: str) -> None:
    assert [is_visible(text) for text in (unseen, f"{unseen}+", "\u0661", "§")] == [False, True, True, True]
    for name in ("x.md", "x.txt", "x.html", "x.tex"):
        assert state_of((unseen * 3).encode(), name) == "empty"
        assert parse_bytes((unseen * 3 + "a").encode(), name).state == "parsed"


@pytest.mark.parametrize(("text", "title"), cases_of("cases_titles.txt"))
def test_the_title_is_stated_or_the_first_heading_or_the_name_and_plain_text_has_no_headings(text, title) -> None:
    document = parse_bytes(text.encode(), "folder/notes.md").document
    assert (document.title, document.text, document.media_type) == (title, text, "text/markdown")
    document = parse_bytes(f"{text}\r\n".encode(), "notes.txt").document
    assert (document.title, document.text, document.media_type) == ("notes", f"{text}\r\n", "text/plain")


@pytest.mark.parametrize(
    ("data", "name", "state"),
    [
        (b"", "x.md", "empty"),
        (b" \n\t\n", "x.md", "empty"),
        (codecs.BOM_UTF8, "x.md", "empty"),
        (b"one\0two", "x.md", "malformed"),
        (codecs.BOM_UTF16_LE + b"a\0b", "x.md", "malformed"),
        (b"half \xed\xa0\x80 pair", "x.md", "malformed"),
        (b"PK\x03\x04 rest", "x.zip", "unsupported"),
        (b"PK\x03\x04 rest", "x.pdf", "unsupported"),
        (b"\x89PNG\r\n\x1a\n", "x.md", "unsupported"),
        (b"\x00\x01\x02", "x.bin", "unsupported"),
        (b"just words", "x.pdf", "malformed"),
    ],
)
def test_what_cannot_be_read_has_a_state(data: bytes, name: str, state: str) -> None:
    assert state_of(data, name) == state


PDF, PAGE = b"\nmail\n%PDF-1.7", b"\xef\xbb\xbf<?xml?><!-- saved -->\n<html><p>page"
SOURCE = b"% x\n\\documentclass{article}"


@pytest.mark.parametrize(
    ("data", "names", "reader"),
    [
        (PDF, ["x.pdf", "x.md", "x.htm", "x.tex", "x.zip", "x"], "read_pdf"),  # over every name
        (b"PK\x03\x04 %PDF-1.7", ["x.pdf", "x.docx"], "read_pdf"),  # and over every other mark
        (b"x" * HEAD + PDF, ["x", "x.csv"], "read_plain"),
        (PAGE, ["x.pdf", "x.xhtml", "x.TEX", "x"], "read_html"),  # but source text stays what its name says
        (PAGE, ["x.txt"], "read_plain"),
        (PAGE, ["x.markdown"], "read_markdown"),
        (SOURCE, ["x.ltx", "x", "x.cls"], "read_latex"),
        (SOURCE, ["x.html"], "read_html"),
        (SOURCE, ["x.pdf"], "read_pdf"),  # its name alone says so
        (SOURCE, ["x.text"], "read_plain"),
        (b"<p>page", ["x.htm"], "read_html"),
        (b"BM is no bitmap here", ["x.txt", "x"], "read_plain"),
        (b"key,value\n1,2\n", ["x.csv"], "read_plain"),
    ],
)
def test_content_decides_where_it_says_what_it_is(data: bytes, names: list[str], reader: str) -> None:
    for name in names:
        assert kind_of(data, name).load().__name__ == reader, name


@pytest.mark.parametrize(("data", "name"), [(b"%!PS\n\\documentclass{", "x"), (b"%!PS", "x.tex"), (b"BM\0", "x.md")])
def test_marks_of_other_formats_are_refused(data: bytes, name: str) -> None:
    with pytest.raises(Unreadable) as caught:
        kind_of(data, name)
    told = f"whatever its name ({name[1:]}) says" in caught.value.what
    assert (caught.value.state, told) == ("unsupported", name != "x")


def test_every_suffix_has_one_reader_and_every_reader_is_there() -> None:
    suffixes = [suffix for kind in kinds() for suffix in kind.suffixes]
    assert len(suffixes) == len(set(suffixes)) == len(supported_suffixes())
    assert all(callable(kind.load()) and set(kind.overrules) <= supported_suffixes() for kind in kinds())
    assert [FileKind.revived(json.loads(json.dumps(kind.told))) for kind in kinds()] == list(kinds())


def test_a_file_is_named_as_the_caller_named_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.md").write_text("# A", encoding="utf-8")
    document = parse("a.md").document
    assert (document.source, document.id) == ("a.md", digest("document", "a.md"))
    named = parse("a.md", source="shelf/a", document_id="7").document
    assert (named.source, named.id) == ("shelf/a", "7")
    Path("b.md").write_bytes(b"")
    with pytest.raises(ParseError) as caught:
        parse("b.md")
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize("name", ["absent.md", "absent/a.md", "file/a.md", "zero\0byte.md", "x" * 5000, "."])
def test_what_is_no_file_has_a_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_bytes(b"")
    with pytest.raises(ParseError) as caught:
        parse(name)
    assert caught.value.state == ("unsupported" if name == "." else "missing")


@pytest.mark.parametrize("name", [f"{chr(0xD800)}.md", f"{chr(0xDCFF)}.md"])
def test_an_error_about_a_name_that_is_no_text_can_be_printed(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").touch()
    for refuse in (
        lambda: parse(tmp_path / name),
        lambda: parse_bytes(b"", name),
        lambda: parse(tmp_path / "empty", source=name),
        lambda: Library.open(tmp_path / name, create=False),
    ):
        with pytest.raises(CatenaError) as refused:
            refuse()
        assert str(refused.value).encode()


@pytest.mark.parametrize(
    "wrong",
    [
        {"limits": None}, {"limits": 5}, {"figure_dpi": "x"}, {"figure_dpi": float("nan")}, {"figure_dpi": 5000},
        {"source": 5}, {"document_id": 5}, {"password": 5}, {"engine": "acrobat"}, {"data": "abc"}, {"data": None},
        {"name": None}, {"hidden_text": "no"}, {"figures": "x"}, {"ruled_tables": "x"},
    ],
)  # fmt: skip
def test_what_the_reading_does_not_take_is_refused_by_name(tmp_path: Path, wrong: dict[str, Any]) -> None:
    (name,) = wrong
    (tmp_path / "a.md").write_text("# A")
    with pytest.raises(ParameterError, match=f"^{name} must be"):
        parse_bytes(**{"data": b"# A", "name": "a.md"} | wrong)
    if name not in {"data", "name"}:
        with pytest.raises(ParameterError, match=f"^{name} must be"):
            parse(tmp_path / "a.md", **wrong)


def test_a_file_that_may_not_be_read_or_is_too_large_or_is_a_device_says_so(tmp_path, monkeypatch) -> None:
    path, limits = tmp_path / "a.md", Limits(bytes=100)
    path.write_bytes(b"x" * 101)
    for read in (lambda: parse(path, limits=limits), lambda: parse_bytes(b"x" * 101, "a.md", limits=limits)):
        with pytest.raises(ParseError, match="101 bytes, more than 100") as caught:
            read()
        assert caught.value.state == "limit"
    with pytest.raises(ParseError, match="not a file") as caught:
        file_bytes(os.devnull, source="a.md")
    assert (caught.value.source, caught.value.state) == ("a.md", "unsupported")

    def refuse(*_: object) -> None:  # root may read everything, so that modes cannot show it
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("catena.parsing.worker.os.open", refuse)
    with pytest.raises(Unreadable, match="you may not read it") as caught:
        bytes_of(str(path), 1_000)
    assert caught.value.state == "malformed"


def test_the_lines_of_a_block_stand_below_the_first_word_of_its_item() -> None:
    blocks = MarkdownBlocks()
    blocks.quotes = 1
    blocks.open_list(9)
    for _ in range(2):
        blocks.item()
        blocks.code(["a"])
    blocks.open_list()
    blocks.item()
    blocks.paragraph("one")
    blocks.paragraph("1. two")
    expected = ["> 9. ```", ">    a", ">    ```", "> 10. ```", ">     a", ">     ```"]
    assert blocks.lines == [*expected, ">    - one", "", ">       1\\. two"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("# {}\n\ntext", "x.md"),
        ("---\ntitle: {}\n---\n\ntext", "x.md"),
        ("<h1>{}</h1><p>text", "x.html"),
        ("<title>{}</title><p>text", "x.html"),
    ],
)
def test_an_endless_title_is_cut_for_it_is_repeated_with_each_chunk(text: str, name: str) -> None:
    title = parse_bytes(text.format("long " * 1000).encode(), name).document.title
    assert title == ("long " * 200).strip()

"""Office files, e-books and e-mail, written by other libraries: structure kept, places told, hostile ones refused."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from email.message import EmailMessage
from io import BytesIO
from typing import Any
from unicodedata import normalize

import docx
import openpyxl
import pptx
import pytest
from docx.oxml.ns import qn
from hypothesis import given
from hypothesis import strategies as st
from odf.opendocument import OpenDocumentText
from odf.table import Table, TableCell, TableRow
from odf.text import H, List, ListItem, Note, NoteBody, NoteCitation, P
from pptx.util import Inches

from catena import Library
from catena.library import read
from catena.model import ParseError, citation, pages_in_words
from catena.parsing import Limits, parse_bytes, supported_suffixes
from catena.parsing.office import read_docx, read_odt
from catena.parsing.protocol import Unreadable
from catena.testing import FakeEmbedder

ROWS = [["Part", "Torque", "Unit"], ["Cover | lid", "12", "Nm"], ["Base", "30", "Nm"]]
GRID = "| Part | Torque | Unit |\n| --- | --- | --- |\n| Cover \\| lid | 12 | Nm |\n| Base | 30 | Nm |"


def saved(document: Any) -> bytes:
    file = BytesIO()
    document.save(file)
    return file.getvalue()


def word(rows: Sequence[Sequence[str]] = ROWS) -> bytes:
    document = docx.Document()
    document.core_properties.title, document.core_properties.author = "Pump manual", "Ada"
    document.sections[0].header.paragraphs[0].text = "running header"
    document.add_heading("Mounting", 1)
    document.add_heading("Torque values", 2)
    filled(document.add_table(len(rows), len(rows[0])), rows)
    document.add_paragraph("first", style="List Bullet")
    document.add_paragraph("second", style="List Bullet")
    merged = document.add_table(2, 3)
    merged.cell(0, 0).merge(merged.cell(0, 1)).text = "both"
    filled(merged, [[], ["left", "middle", "right"]])
    return saved(document)


def filled(table: Any, rows: Sequence[Sequence[str]]) -> None:
    for row, cells in enumerate(rows):
        for column, text in enumerate(cells):
            table.cell(row, column).text = text


def slides() -> bytes:
    show = pptx.Presentation()
    for number in (1, 2, 3):
        slide = show.slides.add_slide(show.slide_layouts[5])
        slide.shapes.title.text = f"Topic {number}"
    slide.notes_slide.notes_text_frame.text = "mention the plant"
    filled(slide.shapes.add_table(3, 3, Inches(1), Inches(2), Inches(6), Inches(1)).table, ROWS)
    return saved(show)


def sheets() -> bytes:
    book = openpyxl.Workbook()
    book.active.title = "Costs & more"
    for row in [["Costs of the plant"], ["Part", "Torque", "Unit"], *ROWS[1:], [], ["Other", "2023"], ["Rent", 7.5]]:
        book.active.append(row)
    book.create_sheet("Blank")
    hidden = book.create_sheet("Back")
    hidden.append(["a", "b"])
    hidden.sheet_state = "hidden"
    return saved(book)


def element(kind: Callable[..., Any], *inside: Any, **attributes: Any) -> Any:
    made = kind(**attributes)
    for each in inside:
        made.addElement(each)
    return made


def open_document() -> bytes:
    document = OpenDocumentText()
    note = element(Note, NoteCitation(text="1"), element(NoteBody, P(text="as of May")), noteclass="footnote")
    items = [element(ListItem, P(text=said)) for said in ("first", "second")]
    rows = [element(TableRow, *(element(TableCell, P(text=said)) for said in cells)) for cells in ROWS]
    document.text.addElement(H(outlinelevel=2, text="Torque <values>"))
    for part in (element(P, note, text="See the table"), element(List, *items), element(Table, *rows, name="t")):
        document.text.addElement(part)
    return saved(document)


def packed(members: Mapping[str, str | bytes]) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


CONTAINER = '<c xmlns="urn:x"><rootfile full-path="OPS/book.opf"/><rootfile full-path="other"/></c>'
PACKAGE = """<package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>A book</dc:title></metadata>
<manifest><item id="n" href="nav.xhtml" properties="nav"/><item id="two" href="2.xhtml"/>
<item id="one" href="a%20b.xhtml"/></manifest>
<spine><itemref idref="n"/><itemref idref="one"/><itemref idref="two"/><itemref idref="gone"/></spine></package>"""
CHAPTER = "<html><head><title>no text</title></head><body><h1>Chapter {0}</h1><p>Text {0}.</p></body></html>"


def book(**changed: str) -> bytes:
    return packed({
        "mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER, "OPS/book.opf": PACKAGE,
        "OPS/nav.xhtml": "<h1>Contents</h1>", "OPS/a b.xhtml": CHAPTER.format(1), "OPS/2.xhtml": CHAPTER.format(2),
        **changed,
    })  # fmt: skip


def mail(html: bool = False) -> bytes:
    message = EmailMessage()
    message["Subject"], message["From"] = "Pumpe – Maße", "Jürgen <j@x.org>"
    message["Date"] = "Tue, 03 Mar 2026 10:00:00 +0100"
    message.set_content("Sie hat 12 bar.\n# keine Überschrift\n\nGrüße", charset="iso-8859-15")
    if html:
        message.set_content("<p>Sie hat <b>12 bar</b>.</p>", subtype="html")
    message.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="plan.pdf")
    return bytes(message)


def test_a_word_file_keeps_headings_lists_and_tables_and_leaves_out_running_lines() -> None:
    document = parse_bytes(word(), "manual.docx").document
    assert document.text.split("\n\n") == [
        "# Mounting", "## Torque values", GRID, "- first\n- second",
        "| both | both |  |\n| --- | --- | --- |\n| left | middle | right |\n",
    ]  # fmt: skip
    assert (document.title, document.metadata["author"], document.page_starts) == ("Pump manual", "Ada", ())


@pytest.mark.parametrize(
    ("stated", "title"), [("", "Supply agreement"), ("Document1", "Supply agreement"), ("S", "S")]
)
def test_the_title_is_the_one_stated_else_the_paragraph_that_is_styled_so(stated: str, title: str) -> None:
    document = docx.Document()
    document.core_properties.title = stated
    document.styles["Title"].element.set(qn("w:styleId"), "Titel")  # as a German Word names it inside
    for said, style in (("Of 2023", "Subtitle"), (" ", "Title"), ("Supply  agreement", "Title"), ("Annex", "Title")):
        document.add_paragraph(said, style=style)
    document.add_heading("Scope", 1)
    assert parse_bytes(saved(document), "a.docx").document.title == title
    assert parse_bytes(word(), "a.docx").document.title == "Pump manual"


cells = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=12).map(str.strip)


@given(st.integers(2, 4).flatmap(lambda n: st.lists(st.lists(cells, min_size=n, max_size=n), min_size=2, max_size=4)))
def test_no_cell_of_a_table_is_lost(rows: list[list[str]]) -> None:
    def squeezed(text: str) -> str:  # ligatures are taken apart
        return "".join(normalize("NFKC", text).replace("\\", "").split())

    read_back = squeezed(read_docx(word(rows)).text)
    assert all(squeezed(said) in read_back for row in rows for said in row)


def test_slides_are_places_with_what_their_speakers_say(tmp_path) -> None:
    file = tmp_path / "show.pptx"
    file.write_bytes(slides())
    document = read(file).document
    assert document.page_labels == ("slide 1", "slide 2", "slide 3")
    titles = [document.text[start:].partition("\n")[0] for start in document.page_starts]
    assert titles == ["## Topic 1", "## Topic 2", "## Topic 3"]
    assert document.text.endswith(f"## Topic 3\n\n{GRID}\n\nSpeaker notes:\n\nmention the plant\n")
    with Library.open(tmp_path / "shelf", embedder=FakeEmbedder(8)) as library:
        library.index(tmp_path)
        hit = library.search("torque of the base").hits[0]
        assert citation(hit.chunk) == "Topic 1 › Topic 3, slide 3"  # nobody sees the lines of its text


def test_sheets_are_places_and_blank_rows_end_tables() -> None:
    document = parse_bytes(sheets(), "plant.xlsx").document
    assert (document.title, document.page_labels) == ("plant", ("sheet Costs & more", "sheet Back (hidden)"))
    first = document.text[: document.page_starts[1]]
    parts = ["# Costs & more", "Costs of the plant", GRID, "| Other | 2023 |", "| Rent | 7.5 |"]
    places = [first.index(part) for part in parts]
    assert places == sorted(places)
    assert pages_in_words(document.pages_of(places[-1], places[-1] + 1)) == "sheet Costs & more"


def test_an_open_document_is_read_with_its_notes_in_brackets() -> None:
    text = parse_bytes(open_document(), "x.odt").document.text
    assert text.split("\n\n") == [
        "## Torque <values>", "See the table [as of May]", "- first\n- second", GRID + "\n"
    ]  # fmt: skip


ODT = """<d xmlns:t="t" xmlns:s="s" xmlns:b="b"><s:style s:name="up"><s:text-properties s:text-position="super 58%"/>
</s:style><s:style s:name="down"><s:text-properties s:text-position="sub 58%"/></s:style><s:style s:name="b"/>
<t:tracked-changes><t:p>gone</t:p></t:tracked-changes>
<t:h t:outline-level="0">Zero</t:h><t:h t:outline-level="1">One</t:h><t:h t:outline-level="9">Nine</t:h>
<t:p>m<t:span t:style-name="up">2</t:span><t:span t:style-name="b"> bold <t:span t:style-name="up">3</t:span> on
</t:span><t:span t:style-name="down">4</t:span>a<t:s/>b<t:tab/>c<t:line-break/>d</t:p><b:table>
<b:table-row><b:table-cell b:number-columns-spanned="2">wide</b:table-cell><b:table-cell>x</b:table-cell>
</b:table-row><b:table-row><b:table-cell b:number-rows-spanned="2"><t:p>high</t:p></b:table-cell>
<b:table-cell>y</b:table-cell><b:table-cell>z</b:table-cell></b:table-row></b:table></d>"""
META = '<m xmlns:d="d"><d:title>On  pumps</d:title><d:initial-creator>Ada</d:initial-creator></m>'


def test_an_open_document_keeps_levels_raised_digits_and_merged_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    data = packed({"content.xml": ODT, "meta.xml": META})
    monkeypatch.setattr("catena.parsing.office.MAX_UNPACKED", len(ODT) + len(META))
    found = read_odt(data)
    assert found.text == (
        "# Zero\n\n# One\n\n###### Nine\n\nm² bold ³ on 4a b c\nd\n\n"
        "| wide | wide | x |\n| --- | --- | --- |\n| high | y | z |\n"
    )
    assert (found.title, found.metadata["author"]) == ("On pumps", "Ada")
    monkeypatch.setattr("catena.parsing.office.MAX_UNPACKED", len(ODT) + len(META) - 1)
    with pytest.raises(Unreadable, match="unpacks to more"):
        read_odt(data)


def test_a_book_is_its_chapters_in_their_order() -> None:
    document = parse_bytes(book(), "x.epub").document
    assert (document.title, document.text) == ("A book", "# Chapter 1\n\nText 1.\n\n# Chapter 2\n\nText 2.\n")


TOLD = "# Pumpe – Maße\n\nFrom: Jürgen <j@x.org>\n\nDate: Tue, 03 Mar 2026 "


@pytest.mark.parametrize("html", [False, True])
def test_a_message_is_read_below_its_subject_and_attachments_are_told(html: bool) -> None:
    read = parse_bytes(mail(html), "x.eml")
    assert read.document.text.startswith(f"{TOLD}10:00:00 +0100\n\nSie hat 12 bar.")
    assert read.document.title == "Pumpe – Maße"
    assert read.document.metadata["date"] == "2026-03-03T10:00:00+01:00"
    assert html or read.document.text.endswith("\\# keine Überschrift\n\nGrüße\n")
    assert (read.state, [note.why for note in read.notes]) == ("partial", ["its attachments are not read: plan.pdf"])


def outlook(streams: Mapping[str, bytes | Mapping[str, bytes]]) -> bytes:
    """Write a compound file of short streams: header, the two tables, directory, and the streams end to end."""
    entries: list[list[Any]] = [["Root Entry", 5, -1, -1, b""]]  # name, kind, next one, first one inside, content

    def put(parent: int, inside: Mapping[str, Any]) -> None:
        first = entries[parent][3] = len(entries)
        entries.extend([name, 2, first + n, -1, held] for n, (name, held) in enumerate(inside.items(), start=1))
        entries[-1][2] = -1
        for entry in range(first, len(entries)):
            if isinstance(held := entries[entry][4], Mapping):
                entries[entry][1], entries[entry][4] = 1, b""
                put(entry, held)

    def entry(name: str, kind: int, *places: int) -> bytes:
        return struct.pack("<64sHBBiii36xiQ", name.encode("utf-16-le"), 2 * len(name) + 2, kind, 1, -1, *places)

    def chained(start: int, size: int, unit: int) -> list[int]:
        count = -(-size // unit)
        return [*range(start + 1, start + count), -2] if count else []

    put(0, streams)
    small: list[int] = []
    rows, held = b"", b""
    for name, kind, right, inside, content in entries[1:]:
        start, size = len(small) if content else -2, len(content)
        small += chained(start, size, 64)
        held += content.ljust(-(-size // 64) * 64, b"\0")
        rows += entry(name, kind, right, inside, start, size)
    table = [-3, -2, *chained(2, 128 * len(entries), 512)]
    root = entry("Root Entry", 5, -1, 1, len(table), len(held))
    table += chained(len(table), len(held), 512)
    mark = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
    head = struct.pack("<8s16x5H6x10i", mark, 0x3E, 3, 0xFFFE, 9, 6, 0, 1, 2, 0, 4096, 1, 1, -2, 0, 0)
    tables = [struct.pack(f"<{len(each)}i", *each) for each in (table, small)]
    parts = [*(part.ljust(512, b"\xff") for part in (head, *tables)), root + rows, held]
    return b"".join(part.ljust(-(-len(part) // 512) * 512, b"\0") for part in parts)


ROW = b"\x40\x00\x39\x00" + bytes(4) + ((1_772_528_400 + 11_644_473_600) * 10**7).to_bytes(8, "little")
SENT = bytes(32) + b"\3" + bytes(15) + b"\xff" + bytes(15) + ROW
OUTLOOK = {
    "__properties_version1.0": SENT,
    "__substg1.0_0037001F": "Pumpe – Maße".encode("utf-16-le"),
    "__substg1.0_0C1A001E": "Jürgen".encode("cp1252"),
    "__substg1.0_5D01001F": "j@x.org".encode("utf-16-le"),
    "__attach_version1.0_#00000000": {"__substg1.0_3707001F": "plan.pdf".encode("utf-16-le")},
}


@pytest.mark.parametrize(
    ("body", "text", "notes"),
    [
        ({"__substg1.0_1000001F": "Sie hat 12 bar.\r\n\r\n# keine".encode("utf-16-le")}, "12 bar.\n\n\\# keine", ""),
        ({"__substg1.0_10130102": b"<p>Sie hat <b>12 bar</b>.</p>"}, "Sie hat 12 bar.", ""),
        ({"__substg1.0_10090102": b"packed"}, "+0000", "its text is RTF, which is not read; "),
    ],
)
def test_a_message_of_outlook_is_read_as_any_other(body: dict[str, bytes], text: str, notes: str) -> None:
    read = parse_bytes(outlook({**OUTLOOK, **body}), "x.msg")
    assert read.document.text.startswith(f"{TOLD}09:00:00 +0000")
    assert read.document.text.rstrip().endswith(text)
    assert "; ".join(note.why for note in read.notes) == f"{notes}its attachments are not read: plan.pdf"
    headers = b"Microsoft Mail Internet Headers\r\nFrom: Ada <a@x.org>\r\nSubject: =?utf-8?q?Ma=C3=9Fe?=\r\n\r\n"
    sent = parse_bytes(outlook({**OUTLOOK, **body, "__substg1.0_007D001E": headers}), "x.msg").document
    assert (sent.title, sent.metadata["from"]) == ("Maße", "Ada <a@x.org>")


WRITERS: Mapping[str, Callable[[], bytes]] = {
    "docx": word, "pptx": slides, "xlsx": sheets, "odt": open_document, "epub": book,
}  # fmt: skip
BOMB = packed({"content.xml": bytes(1_000_000) * 205})
ENTITIES = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><x>&b;</x>'


@pytest.mark.parametrize("suffix", WRITERS)
def test_what_is_cut_or_no_archive_is_refused_by_name(suffix: str) -> None:
    whole = WRITERS[suffix]()
    for data in (whole[: len(whole) // 2], b"PK\3\4", b"no archive at all"):
        with pytest.raises(ParseError, match=r"malformed: it is no whole ZIP archive"):
            parse_bytes(data, f"x.{suffix}")
    with pytest.raises(ParseError, match=rf"it is a PNG image, whatever its name \(\.{suffix}\) says"):
        parse_bytes(b"\x89PNG\r\n", f"x.{suffix}")


@pytest.mark.parametrize("name", ["x.xlsx", "x.epub", "x.pdf", "x.md", "x"])
def test_an_office_file_of_another_name_is_read_as_what_it_is(name: str) -> None:
    assert parse_bytes(word(), name).document.text == parse_bytes(word(), "x.docx").document.text
    assert parse_bytes(b"<html><p>As exported</p></html>", "x.xlsx").document.text == "As exported\n"


def test_a_broken_office_file_is_advised_as_one() -> None:
    with pytest.raises(ParseError, match=r"Try: opening it in its program and saving it anew"):
        parse_bytes(packed({"ppt/presentation.xml": "<a>"}), "x.pptx")


@pytest.mark.parametrize(
    ("data", "suffix", "told"),
    [
        *((BOMB, suffix, "bomb: it unpacks to more than") for suffix in ("docx", "pptx", "xlsx", "odt")),
        (packed({"content.xml": ENTITIES}), "odt", "bomb: its XML declares entities"),
        (packed({"content.xml": "<a><b></a>"}), "odt", "malformed: its XML is broken"),
        (packed({"content.xml": "<a>cut"}), "odt", "malformed: its XML is broken"),
        (packed({"mimetype": "x"}), "epub", "malformed: there is no META-INF/container.xml in it"),
        (book(**{"OPS/book.opf": ENTITIES}), "epub", "bomb: its XML declares entities"),
        (packed({"word/document.xml": "<a>" * 100_000}), "docx", "malformed: "),
        (b"\xd0\xcf\x11\xe0" + bytes(600), "xlsx", "encrypted: it is encrypted, or of an older format"),
        (saved(openpyxl.Workbook()), "xlsx", "empty: "),
        (b"\n\n", "eml", "empty: "),
        (b"no message", "msg", "malformed: it is no whole Outlook message"),
        (outlook(OUTLOOK)[:1100], "msg", "malformed: it is no whole Outlook message"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # archives hold the time of their making
)
def test_hostile_files_end_with_a_name(data: bytes, suffix: str, told: str) -> None:
    with pytest.raises(ParseError, match=told):
        parse_bytes(data, f"x.{suffix}", limits=Limits(seconds=30))


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {".docx", ".pptx", ".xlsx", ".odt", ".epub", ".eml", ".msg"} <= supported_suffixes()
    monkeypatch.setitem(__import__("sys").modules, "office_oxide", None)
    with pytest.raises(ImportError):  # which the reading process tells, with `FileKind.install`
        read_docx(word())


@pytest.mark.parametrize(
    ("rows", "columns", "formula", "told"),
    [
        (10_002, 1, "", "2 rows are not read"),
        (2, 203, "", "3 columns are not read"),
        (2, 2, "B2", "sheet Costs: 1 formula has no value (in cell B2), for"),
        (2, 200, "B2 C2", "sheet Costs: 2 formulas have no value (in cell B2 first), for"),
    ],
)
def test_cells_of_a_sheet_that_give_no_text_are_told(rows: int, columns: int, formula: str, told: str) -> None:
    book = openpyxl.Workbook()
    book.active.title = "Costs"
    for row in range(rows):
        book.active.append([f"{row}, {column}" for column in range(columns)])
    for cell in formula.split():
        book.active[cell] = "=A1"
    found = parse_bytes(saved(book), "book.xlsx")
    assert found.state == "partial"
    assert [told in note.why for note in found.notes] == [True]
    assert "not shown" not in found.document.text

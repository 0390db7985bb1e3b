"""Write the three PDFs and the questions that `catena demo` runs on.

The words lie in `scripts/demo_pdfs`: one manuscript for both manuals, whose `$names` are filled in from
`values.json`, one for the report, and the questions with the evidence that answers each. The company and
its products are invented. Equal manuscripts give equal bytes.

Usage: python scripts/make_demo_pdfs.py [FOLDER]
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

from demo_pdfs import figures
from pypdf import PdfReader
from reportlab.lib.enums import TA_JUSTIFY
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import (
    BaseDocTemplate,
    Flowable,
    Frame,
    FrameBreak,
    KeepTogether,
    ListFlowable,
    ListItem,
    NextPageTemplate,
    PageBreak,
    PageTemplate,
    Paragraph,
    Spacer,
    Table,
    TableStyle,
)
from reportlab.platypus.tableofcontents import TableOfContents

HERE = Path(__file__).parent
SOURCES = HERE / "demo_pdfs"
TARGET = HERE.parent / "packages" / "catena" / "src" / "catena" / "data" / "demo"
COMPANY = "Halden Instruments"
WIDTH, HEIGHT = A4
FRONT_PAGES = 3  # title, imprint, contents: counted i to iii, so that chapter 1 begins on page 1
HYPHENATED = """
ac-cu-rate al-lowed ap-pli-ca-tion au-to-mat-ic cal-i-bra-tion cer-tif-i-cate cer-tifi-cate com-par-i-son
com-mis-sioned com-plaints con-den-sate con-nec-tion con-trol cus-tom-er cus-tom-ers de-part-ment
de-vi-a-tion di-a-phragm di-a-phragms dif-fer-ence dis-trib-u-tors elec-tri-cians elec-tron-ics en-vi-ron-ment
ex-change ex-pe-ri-ence fac-to-ry fail-ure fail-ures firm-ware hous-ing hous-ings im-prove-ment in-de-pen-dent
in-stal-la-tion in-stalled in-ter-face in-ter-vals main-te-nance man-i-fold mea-sured mea-sure-ment mea-sur-ing
mois-ture over-pres-sure pa-ram-e-ter pa-ram-e-ters per-mit-ted po-si-tion-er pop-u-la-tion pos-si-ble
pres-sure pre-ven-tive pro-por-tion pro-ces-sor prod-uct prod-ucts rec-om-mend reg-u-la-tions re-mem-bered
re-paired re-place re-placed re-port-ed re-quire-ments set-tings sta-tion-ary sup-plied sup-ply tem-per-a-ture
ter-mi-nal ter-mi-nals thun-der-storms trans-mit-ter trans-mit-ters un-cer-tain-ty vi-bra-tion volt-age
"""
SYLLABLES = {word.replace("-", ""): word.split("-") for word in HYPHENATED.split()}


def hyphenate(word: str) -> Iterator[tuple[str, str]]:
    """Yield the ways to break a word, longest head first; words that are not listed stay whole."""
    parts = SYLLABLES.get(word, [])
    for cut in range(len(parts) - 1, 0, -1):
        yield "".join(parts[:cut]), "".join(parts[cut:])


def style(name: str, **settings: Any) -> ParagraphStyle:
    """Return a paragraph style in the colour of the text."""
    return ParagraphStyle(name, textColor=figures.INK, **settings)


def body_style(size: float) -> ParagraphStyle:
    """Return the style of running text: justified, with words broken at line ends."""
    return style(
        "Body", fontName="Helvetica", fontSize=size, leading=1.42 * size, spaceAfter=0.65 * size,
        alignment=TA_JUSTIFY, hyphenationLang=hyphenate, hyphenationMinWordLength=6,
    )  # fmt: skip


def heading_styles(sizes: Sequence[float]) -> list[ParagraphStyle]:
    """Return one bold style per level; headings stay with the text below them."""
    return [
        ParagraphStyle(
            f"Heading{level}", fontName="Helvetica-Bold", fontSize=size, leading=1.25 * size, keepWithNext=1,
            textColor=figures.ACCENT if level < 3 else figures.INK, spaceBefore=0.95 * size, spaceAfter=0.45 * size,
        )
        for level, size in enumerate(sizes, start=1)
    ]  # fmt: skip


@dataclass
class Manuscript:
    """Turns a manuscript into flowables and counts its headings, tables and figures as it goes.

    Blocks are parted by empty lines. A block opens with `#` (a heading, numbered here), `- ` or `1. ` (a list),
    `!grade` (a warning), `@table` or `@plain` (a table with or without rules, closed by `@end`), `@figure`;
    everything else is a paragraph.
    """

    width: float  # of the column
    body: ParagraphStyle
    headings: Sequence[ParagraphStyle]
    _numbers: list[int] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=lambda: {"Table": 0, "Figure": 0})

    def flowables(self, text: str) -> list[Flowable]:
        """Return the story of a whole manuscript."""
        return [flowable for block in re.split(r"\n\s*\n", text.strip()) for flowable in self._block(block)]

    def _block(self, block: str) -> list[Flowable]:
        if block.startswith("#"):
            return [self._heading(block)]
        if block.startswith(("- ", "1. ")):
            return [self._list(block)]
        if block.startswith("!"):
            return [self._warning(block)]
        if block.startswith("@figure"):
            return [self._figure(block)]
        if block.startswith("@"):
            return [self._table(block)]
        return [Paragraph(block, self.body)]

    def _heading(self, block: str) -> Flowable:
        marks, title = block.split(" ", 1)
        level = len(marks)
        above = [*self._numbers, 0, 0, 0][:level]
        self._numbers = [*above[:-1], above[-1] + 1]
        number = ".".join(map(str, self._numbers))
        paragraph = Paragraph(f"{number}&nbsp;&nbsp;{title}", self.headings[level - 1])
        paragraph.heading = (level, f"{number} {title}")
        return paragraph

    def _list(self, block: str) -> Flowable:
        lines = block.splitlines()
        tight = ParagraphStyle("Item", self.body, spaceAfter=0.3 * self.body.fontSize)
        items = [ListItem(Paragraph(line.split(" ", 1)[1], tight)) for line in lines]
        numbered = lines[0].startswith("1")
        return ListFlowable(
            items, bulletType="1" if numbered else "bullet", bulletFormat="%s." if numbered else None,
            start=1 if numbered else "•", bulletFontName="Helvetica", bulletFontSize=self.body.fontSize,
            bulletDedent=14, leftIndent=18, spaceAfter=self.body.spaceAfter,
        )  # fmt: skip

    def _warning(self, block: str) -> Flowable:
        grade, text = block[1:].split(" ", 1)
        paragraph = Paragraph(
            f"<b>{grade.capitalize()}:</b> {text}", ParagraphStyle("Warning", self.body, spaceAfter=0)
        )
        bar = TableStyle([("LINEBEFORE", (0, 0), (0, -1), 3, figures.AMBER), ("LEFTPADDING", (0, 0), (-1, -1), 9)])
        return Table([[paragraph]], colWidths=[self.width], style=bar, spaceBefore=2, spaceAfter=9)

    def _caption(self, kind: str, title: str) -> Flowable:
        self._counts[kind] += 1
        size = self.body.fontSize - 1
        caption = style(kind, fontName="Helvetica", fontSize=size, leading=1.3 * size, spaceBefore=5, spaceAfter=5)
        return Paragraph(f"<b>{kind} {self._counts[kind]}.</b> {title}", caption)

    def _figure(self, block: str) -> Flowable:
        _, name, title = block.split(" ", 2)
        drawing = figures.FIGURES[name]()
        drawing.hAlign = "CENTER"
        return KeepTogether([Spacer(1, 4), drawing, self._caption("Figure", title), Spacer(1, 6)])

    def _table(self, block: str) -> Flowable:
        first, *lines = block.removesuffix("@end").strip().splitlines()
        kind, rest = first.split(" ", 1)
        title, widths = (part.strip() for part in rest.split("|"))
        shares = [float(share) for share in widths.split()]
        narrow = self.width < 300
        size = self.body.fontSize - (2.6 if narrow else 1)
        cell = style("Cell", fontName="Helvetica", fontSize=size, leading=1.28 * size)
        head, *rows = [[part.strip() for part in line.split("|")] for line in lines]
        cells = [[Paragraph(part, cell) for part in row] for row in ([f"<b>{part}</b>" for part in head], *rows)]
        table = Table(
            cells, colWidths=[self.width * share / sum(shares) for share in shares], repeatRows=1,
            style=RULED if kind == "@table" else PLAIN, spaceAfter=10,
        )  # fmt: skip
        if narrow:
            table.setStyle(TableStyle([("LEFTPADDING", (0, 0), (-1, -1), 3), ("RIGHTPADDING", (0, 0), (-1, -1), 2)]))
        return KeepTogether([self._caption("Table", title), table])


SIDES = ("LEFT", "RIGHT", "TOP", "BOTTOM")
_PADDING = [
    ("TOPPADDING", (0, 0), (-1, -1), 3),
    ("BOTTOMPADDING", (0, 0), (-1, -1), 3.5),
    ("VALIGN", (0, 0), (-1, -1), "TOP"),
]
RULED = TableStyle(
    [*_PADDING, ("GRID", (0, 0), (-1, -1), 0.5, figures.GREY), ("BACKGROUND", (0, 0), (-1, 0), figures.PALE)]
)
PLAIN = TableStyle([*_PADDING, ("LEFTPADDING", (0, 0), (-1, -1), 0)])


class Book(BaseDocTemplate):
    """A document that remembers where its headings fell, and writes outline and contents if it has them."""

    def __init__(self, target: io.BytesIO, *, outline: bool, front_pages: int = 0, **settings: Any) -> None:
        super().__init__(target, pagesize=A4, invariant=1, allowSplitting=1, author=COMPANY, **settings)
        self.outline, self.front_pages = outline, front_pages
        self.found: list[tuple[int, str, int]] = []  # level, title, page from 1

    def beforeDocument(self) -> None:
        """Start anew: a document with contents is laid out several times."""
        self.found = []

    def afterFlowable(self, flowable: Flowable) -> None:
        """Note a heading when it has been placed."""
        if not hasattr(flowable, "heading"):
            return
        level, title = flowable.heading
        self.found.append((level, title, self.page))
        if self.outline:
            key = f"heading-{len(self.found)}"
            self.canv.bookmarkPage(key, fit="XYZ", top=self.frame._y + flowable.height)
            self.canv.addOutlineEntry(title, key, level=level - 1, closed=level == 1)
            if level < 3:
                self.notify("TOCEntry", (level - 1, title, self.page - self.front_pages, key))


def roman(number: int) -> str:
    """Return a number from 1 to 8 in small Roman digits."""
    return ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii")[number - 1]


def running_lines(left: str, right: str, foot: str, label: Callable[[int], str]) -> Callable[[Canvas, Book], None]:
    """Return what draws header and footer of a page; `label` turns a physical page into its printed number."""

    def draw(canvas: Canvas, book: Book) -> None:
        canvas.saveState()
        canvas.setFont("Helvetica", 8)
        canvas.setFillColor(figures.GREY)
        canvas.setStrokeColor(figures.GREY)
        canvas.setLineWidth(0.4)
        canvas.drawString(25 * mm, HEIGHT - 16 * mm, left)
        canvas.drawRightString(WIDTH - 25 * mm, HEIGHT - 16 * mm, right)
        canvas.line(25 * mm, HEIGHT - 18 * mm, WIDTH - 25 * mm, HEIGHT - 18 * mm)
        canvas.drawString(25 * mm, 13 * mm, foot)
        canvas.drawRightString(WIDTH - 25 * mm, 13 * mm, label(book.page))
        canvas.restoreState()

    return draw


def full_frame() -> Frame:
    """The text area of a page with one column."""
    return Frame(25 * mm, 21 * mm, WIDTH - 50 * mm, HEIGHT - 45 * mm, 0, 0, 0, 0, id="full")


def title_page(values: Mapping[str, str]) -> list[Flowable]:
    """The first page of a manual."""
    name = style("Name", fontName="Helvetica-Bold", fontSize=34, leading=40)
    kind = style("Kind", fontName="Helvetica", fontSize=17, leading=24)
    small = style("Small", fontName="Helvetica", fontSize=10, leading=15)
    picture = figures.cover()
    picture.hAlign = "CENTER"
    return [
        Paragraph(COMPANY, ParagraphStyle("Brand", small, textColor=figures.ACCENT, fontSize=13)),
        Spacer(1, 60),
        Paragraph(values["product"], name),
        Paragraph("Pressure Transmitter", kind),
        Spacer(1, 6),
        Paragraph("Operating Manual", ParagraphStyle("Manual", kind, textColor=figures.ACCENT)),
        Spacer(1, 34),
        picture,
        Spacer(1, 40),
        Paragraph(f"Document {values['number']}<br/>{values['published']}<br/>Translation of the original", small),
    ]


def imprint(values: Mapping[str, str], body: ParagraphStyle) -> list[Flowable]:
    """The second page of a manual: what it covers and to whom it belongs."""
    texts = [
        f"This manual covers the pressure transmitter {values['product']} from serial number 2512-00001. Earlier "
        f"devices differ in their terminals and are described in an older edition.",
        f"{COMPANY} and all products named here are invented. They exist only so that software for the "
        "retrieval of passages can be shown at work. Nothing in this document may be used to install, operate or "
        "repair a real device.",
        "Licensed under the Apache License, version 2.0.",
        f"Document {values['number']}, {values['published']}.",
    ]
    return [Spacer(1, 380), *(Paragraph(text, body) for text in texts)]


def contents() -> TableOfContents:
    """Return the table of contents of a manual, two levels deep."""
    chapter = style("Chapter", fontName="Helvetica-Bold", fontSize=9.5, leading=13, spaceBefore=5)
    section = style("Section", fontName="Helvetica", fontSize=9, leading=12.2, leftIndent=14)
    tight = TableStyle(
        [("VALIGN", (0, 0), (-1, -1), "TOP"), *((f"{side}PADDING", (0, 0), (-1, -1), 0) for side in SIDES)]
    )
    return TableOfContents(levelStyles=[chapter, section], dotsMinLevel=0, tableStyle=tight)


def manual(values: Mapping[str, str]) -> tuple[bytes, list[tuple[int, str, int]]]:
    """Return a manual as PDF, and its headings with their pages."""
    product, target = values["product"], io.BytesIO()
    title = f"{product} Pressure Transmitter: Operating Manual"
    book = Book(target, outline=True, front_pages=FRONT_PAGES, title=title, subject="Operating manual")
    left, foot = f"{product} Pressure Transmitter", f"{COMPANY} · {values['number']}"
    front = running_lines(left, "Operating Manual", foot, roman)
    inside = running_lines(left, "Operating Manual", foot, lambda page: str(page - FRONT_PAGES))

    def first(canvas: Canvas, _: Book) -> None:
        canvas.addPageLabel(0, style="ROMAN_LOWER", start=1)
        canvas.addPageLabel(FRONT_PAGES, style="ARABIC", start=1)
        canvas.setFillColor(figures.ACCENT)
        canvas.rect(0, HEIGHT - 9 * mm, WIDTH, 9 * mm, stroke=0, fill=1)

    book.addPageTemplates(
        [
            PageTemplate("title", [full_frame()], onPage=first),
            PageTemplate("front", [full_frame()], onPage=front),
            PageTemplate("inside", [full_frame()], onPage=inside),
        ]
    )
    body = body_style(10)
    manuscript = Manuscript(WIDTH - 50 * mm, body, heading_styles([18, 13, 10.5]))
    unlisted = ParagraphStyle("Contents", manuscript.headings[0])
    text = Template((SOURCES / "manual.txt").read_text(encoding="utf-8")).substitute(values)
    story = [
        *title_page(values), NextPageTemplate("front"), PageBreak(), *imprint(values, body), PageBreak(),
        Paragraph("Contents", unlisted), contents(), NextPageTemplate("inside"), PageBreak(),
        *manuscript.flowables(text),
    ]  # fmt: skip
    book.multiBuild(story)
    return target.getvalue(), book.found


def report() -> tuple[bytes, list[tuple[int, str, int]]]:
    """Return the report as PDF with two columns and no outline, and its headings with their pages."""
    title, target = "Field Reliability Report 2025", io.BytesIO()
    book = Book(target, outline=False, title=title, subject="Reliability of devices in service")
    lines = running_lines(title, COMPANY, "Department of Quality · QR-2025-11", str)
    gap, banner = 7 * mm, 52 * mm
    width = (WIDTH - 50 * mm - gap) / 2

    def columns(height: float) -> list[Frame]:
        lefts = (25 * mm, 25 * mm + width + gap)
        return [Frame(left, 21 * mm, width, height, 0, 0, 0, 0, id=f"column {left:.0f}") for left in lefts]

    tall = HEIGHT - 45 * mm
    top = Frame(25 * mm, 21 * mm + tall - banner, WIDTH - 50 * mm, banner, 0, 0, 0, 0, id="banner")
    book.addPageTemplates(
        [
            PageTemplate("first", [top, *columns(tall - banner)], onPage=lines),
            PageTemplate("later", columns(tall), onPage=lines),
        ]
    )
    body = body_style(10)
    manuscript = Manuscript(width, body, heading_styles([14, 11.3]))
    large = style("Title", fontName="Helvetica-Bold", fontSize=25, leading=31)
    under = style("Under", fontName="Helvetica", fontSize=10.5, leading=16)
    story = [
        Spacer(1, 14), Paragraph(title, large),
        Paragraph("Pressure transmitters HX150, HX200 and HX210, valve positioner HV40", under),
        Paragraph(f"{COMPANY}, Department of Quality, November 2025", under),
        NextPageTemplate("later"), FrameBreak(),
        *manuscript.flowables((SOURCES / "report.txt").read_text(encoding="utf-8")),
    ]  # fmt: skip
    book.build(story)
    return target.getvalue(), book.found


def heading_path(found: Sequence[tuple[int, str, int]], title: str) -> list[str]:
    """Return the titles from the chapter down to `title`."""
    path: dict[int, str] = {}
    for level, name, _ in found:
        path = {**{above: path[above] for above in path if above < level}, level: name}
        if name == title:
            return [path[above] for above in sorted(path)]
    raise LookupError(f"no heading {title!r}")


def page_of(pdf: bytes, found: Sequence[tuple[int, str, int]], title: str, evidence: str) -> int:
    """Return the page, from 1, on which the evidence stands: the first at or after its heading."""
    start = next(page for _, name, page in found if name == title)
    for number, page in enumerate(PdfReader(io.BytesIO(pdf)).pages, start=1):
        text = " ".join(page.extract_text().split())
        if number >= start and evidence in text:
            return number
    raise LookupError(f"{evidence!r} is not on or after page {start}")


def main(target: Path) -> None:
    """Write the PDFs and the questions into a folder."""
    pairs = json.loads((SOURCES / "values.json").read_text(encoding="utf-8"))
    books = {
        f"halden-{product.lower()}-manual.pdf": manual({name: pair[index] for name, pair in pairs.items()})
        for index, product in enumerate(pairs["product"])
    }
    books["halden-field-reliability-report-2025.pdf"] = report()

    def gold(place: Mapping[str, Any]) -> dict[str, Any]:
        pdf, found = books[place["document"]]
        heading, evidence = place["heading"], place["evidence"]
        return {
            "document": place["document"],
            "heading_path": heading_path(found, heading),
            "page": page_of(pdf, found, heading, evidence),
            "evidence": evidence,
        }

    questions = []
    for entry in json.loads((SOURCES / "questions.json").read_text(encoding="utf-8")):
        said = {key: entry[key] for key in ("question", "answer", "why_hard")}
        questions.append({**said, **gold(entry), **({"also": gold(entry["also"])} if "also" in entry else {})})

    target.mkdir(parents=True, exist_ok=True)
    for name, (pdf, _) in books.items():
        (target / name).write_bytes(pdf)
        print(f"{name}: {len(PdfReader(io.BytesIO(pdf)).pages)} pages, {len(pdf):,} bytes")
    text = json.dumps(questions, ensure_ascii=False, indent=2) + "\n"
    (target / "questions.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)

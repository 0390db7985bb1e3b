"""Print PDFs whose headings are known exactly: synthetic manuals in many styles, for the headings benchmark."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, TypeAlias

from reportlab.graphics.shapes import Drawing, Rect
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.platypus import BaseDocTemplate, Flowable, Frame, KeepTogether, PageTemplate, Paragraph, Spacer, Table

from catena_bench.synthetic_manuals import manual_markdown

Cue: TypeAlias = Literal["size", "bold", "numbering"]
"""What tells a heading from the text: larger type; bold type at body size; bold type and a number at body size."""

Family: TypeAlias = Literal["Helvetica", "Times", "Vera"]
"""Two standard families, which are not embedded, and one that is, as a subset."""

WIDTH, HEIGHT = A4  # points
MARGIN, GAP, RUNNING = 62.0, 20.0, 34.0  # points: page margin, between columns, running lines from the edge
HEADING_SCALE = (1.75, 1.4, 1.2, 1.08)  # heading size over body size, by level
FACES = {
    "Helvetica": ("Helvetica", "Helvetica-Bold"),
    "Times": ("Times-Roman", "Times-Bold"),
    "Vera": ("Vera", "VeraBd"),
}


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading as printed, number included, or as it was found."""

    level: int  # from 1
    text: str
    page: int  # from 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PdfStyle:
    """The style in which a manual is printed."""

    columns: Literal[1, 2] = 1
    cue: Cue = "size"
    running: bool = True  # headers and footers, with the page number
    outline: bool = False  # whether the file has bookmarks
    family: Family = "Helvetica"
    body_size: float = 10.0  # points


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedPdf:
    """A PDF and the truth about it."""

    name: str
    pdf: bytes
    headings: tuple[Heading, ...]  # in reading order
    markdown: str  # the source
    numbered: bool
    style: PdfStyle

    @property
    def columns(self) -> int:
        """Columns of text per page."""
        return self.style.columns


def render_pdf(markdown: str, style: PdfStyle, *, name: str = "Manual", numbered: bool = False) -> GeneratedPdf:
    """Print a manual as `manual_markdown` writes it, and note on which page each heading fell.

    Equal arguments give equal bytes.

    Args:
        markdown: blocks parted by empty lines: ATX headings, paragraphs with `**bold**` runs, flat lists, pipe
            tables; a paragraph that begins with "Table 3." or "Figure 3." is a caption.
        style: how to print it.
        name: the title in the file's metadata and in the running header.
        numbered: what the result says about its headings.
    """
    for face in FACES["Vera"]:
        if face not in pdfmetrics.getRegisteredFontNames():
            pdfmetrics.registerFont(TTFont(face, f"{face}.ttf"))
    target, found = io.BytesIO(), list[Heading]()
    book = BaseDocTemplate(target, pagesize=A4, invariant=1, title=name, author="catena-bench")

    def note(flowable: Flowable) -> None:
        level, text = getattr(flowable, "heading", (0, ""))
        if level:
            found.append(Heading(level=level, text=text, page=book.page))
            if style.outline:
                book.canv.bookmarkPage(f"h{len(found)}")
                book.canv.addOutlineEntry(text, f"h{len(found)}", level=level - 1)

    book.afterFlowable = note
    width = (WIDTH - 2 * MARGIN - GAP * (style.columns - 1)) / style.columns
    frames = [
        Frame(MARGIN + column * (width + GAP), MARGIN, width, HEIGHT - 2 * MARGIN, 0, 0, 0, 0)
        for column in range(style.columns)
    ]
    book.addPageTemplates([PageTemplate("page", frames, onPage=_running_lines(name, style))])
    book.build(list(_flowables(markdown, style, width)))
    return GeneratedPdf(
        name=name, pdf=target.getvalue(), headings=tuple(found), markdown=markdown, numbered=numbered, style=style
    )


def generated_pdfs() -> Iterator[GeneratedPdf]:
    """Print the sixteen manuals of the headings benchmark, one after the other; each has 3 to 8 pages."""
    for seed, (numbered, style) in enumerate(VARIETIES, start=1):
        levels = 1 if style.cue == "bold" else 4  # bold type alone cannot tell levels apart
        markdown = manual_markdown(seed, numbered=numbered, levels=levels)
        yield render_pdf(markdown, style, name=f"Manual {seed:02}", numbered=numbered)


def _running_lines(title: str, style: PdfStyle) -> Callable[[Any, Any], None]:
    def draw(canvas: Any, book: Any) -> None:
        if style.running:
            canvas.setFont(FACES[style.family][0], 8)
            canvas.drawString(MARGIN, HEIGHT - RUNNING, title)
            canvas.drawRightString(WIDTH - MARGIN, HEIGHT - RUNNING, "Edition 3")
            canvas.drawCentredString(WIDTH / 2, RUNNING, f"Page {book.page}")

    return draw


def _marked_up(text: str, style: PdfStyle) -> str:
    """Return a paragraph in the markup of reportlab, its bold runs set in the bold face."""
    bold = FACES[style.family][1]
    return re.sub(r"\*\*(.+?)\*\*", rf'<font name="{bold}">\1</font>', escape(text, quote=False))


def _paragraph_style(style: PdfStyle, **changes: Any) -> ParagraphStyle:
    size = style.body_size
    settings = {
        "fontName": FACES[style.family][0],
        "fontSize": size,
        "leading": 1.35 * size,
        "spaceAfter": 0.6 * size,
    }
    return ParagraphStyle("text", **(settings | changes))


def _heading(block: str, style: PdfStyle) -> Flowable:
    marks, text = block.split(" ", 1)
    level = len(marks)
    size = style.body_size * (HEADING_SCALE[level - 1] if style.cue == "size" else 1.0)
    face = FACES[style.family][1]
    before = style.body_size * (1.6 - 0.2 * level)
    layout = _paragraph_style(
        style, fontName=face, fontSize=size, leading=1.25 * size, spaceBefore=before, spaceAfter=4, keepWithNext=1
    )
    paragraph = Paragraph(escape(text, quote=False), layout)
    paragraph.heading = (level, text)
    return paragraph


def _list(block: str, style: PdfStyle) -> Iterator[Flowable]:
    layout = _paragraph_style(style, leftIndent=16, bulletIndent=3, spaceAfter=0.25 * style.body_size)
    for line in block.splitlines():
        mark, text = line.split(" ", 1)
        yield Paragraph(_marked_up(text, style), layout, bulletText="•" if mark == "-" else mark)
    yield Spacer(1, 0.4 * style.body_size)


def _table(block: str, style: PdfStyle, width: float) -> Flowable:
    layout = _paragraph_style(style, fontSize=style.body_size - 1, leading=1.2 * style.body_size, spaceAfter=0)
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
    cells = [[f"**{cell}**" for cell in head], *rows]
    grid = [("GRID", (0, 0), (-1, -1), 0.5, colors.grey)]
    table = [[Paragraph(_marked_up(cell, style), layout) for cell in row] for row in cells]
    return Table(table, colWidths=[width / len(head)] * len(head), style=grid, spaceAfter=style.body_size)


def _caption(block: str, style: PdfStyle, width: float) -> Iterator[Flowable]:
    label, title = re.split(r"(?<=\.) ", block, maxsplit=1)
    small = style.body_size - 1
    table = label.startswith("Table")
    layout = _paragraph_style(style, fontSize=small, leading=1.3 * small, keepWithNext=int(table))
    caption = Paragraph(_marked_up(f"**{label}** {title}", style), layout)
    if table:
        yield caption
    else:
        picture = Drawing(width, 80)  # points
        picture.add(Rect(0, 6, 0.7 * width, 70, fillColor=colors.lightgrey, strokeColor=colors.grey))
        yield KeepTogether([picture, caption])


def _flowables(markdown: str, style: PdfStyle, width: float) -> Iterator[Flowable]:
    for block in markdown.strip().split("\n\n"):
        if block.startswith("#"):
            yield _heading(block, style)
        elif block.startswith("|"):
            yield _table(block, style, width)
        elif block.startswith(("- ", "1. ")):
            yield from _list(block, style)
        elif re.match(r"(Table|Figure) \d+\. ", block):
            yield from _caption(block, style, width)
        else:
            yield Paragraph(_marked_up(block, style), _paragraph_style(style))


VARIETIES: tuple[tuple[bool, PdfStyle], ...] = (
    (True, PdfStyle()),
    (False, PdfStyle(family="Times", body_size=11)),
    (True, PdfStyle(columns=2, body_size=9)),
    (False, PdfStyle(columns=2, family="Times", body_size=9.5)),
    (True, PdfStyle(cue="numbering", running=False)),
    (True, PdfStyle(cue="numbering", columns=2, family="Times", body_size=9)),
    (False, PdfStyle(cue="bold", family="Times", body_size=10.5)),
    (False, PdfStyle(cue="bold", columns=2, running=False, body_size=9)),
    (True, PdfStyle(family="Vera", body_size=9)),
    (False, PdfStyle(family="Vera", columns=2, body_size=8, running=False)),
    (True, PdfStyle(family="Times", columns=2, running=False)),
    (False, PdfStyle(body_size=11, running=False)),
    (True, PdfStyle(cue="numbering", family="Vera", body_size=9)),
    (True, PdfStyle(cue="numbering", columns=2, running=False, body_size=8.5)),
    (False, PdfStyle(family="Times", columns=2, body_size=10)),
    (True, PdfStyle(outline=True, family="Times", body_size=11)),
)

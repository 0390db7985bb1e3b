"""Print made-up statements as PDF in several looks, by two producers of PDF, with the truth about their cells.

By reportlab each text has its place, as typesetters of annual reports have it; fpdf2 lays its tables out itself.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from random import Random
from typing import Any, Literal, TypeAlias

from reportlab.lib.utils import simpleSplit
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

from catena_bench.cell_judge import PickedCell
from catena_bench.statements import DASH, PROSE, AccountStatement, Column, Row, report

WIDTH, HEIGHT, MARGIN = 612.0, 792.0, 54.0  # points
_GREY = 0.85  # of shaded rows; 1 is white
Producer: TypeAlias = Literal["reportlab", "fpdf2"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Tells how a report is printed."""

    family: tuple[str, str] = ("Helvetica", "Helvetica-Bold")
    size: float = 9.0  # points
    rules: Literal["none", "half", "grid"] = "half"
    dollar: bool = True  # in front of values of the first row and of totals, at the left of their column
    centred: bool = True  # names of columns; else they end where values end
    leaders: bool = False  # dots from a label to its values
    words: bool = False  # each word is written by itself
    raised: bool = True  # footnote marks: smaller and above the line
    repeated: bool = True  # the head, on the next page of a statement
    unit_in_head: bool = False
    attached: bool = False  # "$" directly in front of the value
    bars: bool = False  # lines are thin filled rectangles
    shaded: bool = False  # every other row
    first_line: bool = False  # values stand beside the first line of a label, not the last


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementPdf:
    """A report as PDF, and the truth about its cells."""

    name: str
    pdf: bytes
    cells: tuple[PickedCell, ...]
    statements: tuple[AccountStatement, ...]


def statement_pdfs(count: int, *, producers: Sequence[Producer] = ("reportlab",)) -> Iterator[StatementPdf]:
    """Print reports in all looks, one after the other, by one producer after the other."""
    for seed in range(count):
        producer = producers[seed % len(producers)]
        company, found = report(seed)
        look = LOOKS[(seed // len(producers)) % len(LOOKS)]
        cells = tuple(cell for statement in found for cell in statement.cells())
        by_hand = producer == "reportlab"
        pdf = _Pages(look, company, Random(seed)).laid_out(found) if by_hand else _by_fpdf2(found, look, company)
        yield StatementPdf(name=f"report-{seed:02}-{producer}", pdf=pdf, cells=cells, statements=found)


class _Pages:
    """Lays statements out on pages."""

    def __init__(self, look: Look, company: str, random: Random) -> None:
        self._look, self._company, self._random = look, company, random
        self._plain, self._bold = look.family
        self._line = 1.35 * look.size
        self._target = io.BytesIO()
        self._canvas = Canvas(self._target, pagesize=(WIDTH, HEIGHT), invariant=1)
        self._pages = 0
        self._y = 0.0

    def laid_out(self, statements: Sequence[AccountStatement]) -> bytes:
        """Return the file with all statements, with prose between some of them."""
        self._turn()
        for number, statement in enumerate(statements):
            if self._y > 0.6 * HEIGHT:
                self._turn()
            if number % 2 == 0:
                self._prose(self._random.choice(PROSE))
            self._statement(statement)
        self._canvas.save()
        return self._target.getvalue()

    def _turn(self) -> None:
        if self._pages:
            self._canvas.showPage()
        self._pages += 1
        self._canvas.setLineWidth(0.6)
        self._y = MARGIN + 30
        self._write(MARGIN, MARGIN - 18, self._company, size=7)
        self._write(WIDTH / 2, HEIGHT - 30, str(self._pages + 40), size=7, align=0.5)

    def _write(
        self, x: float, y: float, text: str, *, bold: bool = False, size: float | None = None, align: float = 0.0
    ) -> float:
        """Write text at a place, of which `align` of its width lies to the left; return where it ends."""
        face, size = self._bold if bold else self._plain, size or self._look.size
        width = stringWidth(text, face, size)
        x -= align * width
        at = x
        for word in text.split() if self._look.words else [text]:
            self._canvas.setFont(face, size)
            self._canvas.drawString(at, HEIGHT - y, word)
            at += stringWidth(word + " ", face, size)
        return float(x + width)

    def _rule(self, x0: float, y0: float, x1: float, y1: float) -> None:
        """Draw a line; a grey rectangle where both ends differ in both directions."""
        if self._look.bars or (x0 != x1 and y0 != y1):
            self._canvas.setFillGray(_GREY if x0 != x1 and y0 != y1 else 0)
            self._canvas.rect(x0, HEIGHT - y1, max(0.7, x1 - x0), max(0.7, y1 - y0), stroke=0, fill=1)
            self._canvas.setFillGray(0)
        else:
            self._canvas.line(x0, HEIGHT - y0, x1, HEIGHT - y1)

    def _prose(self, text: str) -> None:
        for line in simpleSplit(text, self._plain, self._look.size, WIDTH - 2 * MARGIN):
            self._write(MARGIN, self._y, line)
            self._y += self._line
        self._y += self._line

    def _title(self, statement: AccountStatement, more: str = "") -> None:
        for text, bold in ((statement.title + more, True), (statement.unit, False)):
            if bold or not self._look.unit_in_head:
                self._write(WIDTH / 2, self._y, text, bold=bold, align=0.5)
                self._y += self._line
        self._y += 0.5 * self._line

    def _statement(self, statement: AccountStatement) -> None:
        look, size = self._look, self._look.size
        notes = 34.0 if statement.notes else 0.0
        wide = max(46.0, min(78.0, 330.0 / len(statement.columns)))
        first = WIDTH - MARGIN - wide * len(statement.columns)  # where values begin
        edges = [first + wide * place for place in range(len(statement.columns) + 1)]
        label_width = first - notes - MARGIN - 8
        self._title(statement)
        top = self._head(statement, edges, first - notes)
        for number, row in enumerate(statement.rows):
            indent = 8.0 if row.group and row.label and not row.total else 0.0
            room = label_width - indent - (16 if row.mark else 0)
            lines = simpleSplit(row.label, self._plain, size, room) or [""]
            if self._y + len(lines) * self._line > HEIGHT - MARGIN - 20:
                self._frame(top, edges, first - notes)
                self._turn()
                top = self._y
                if look.repeated:
                    self._title(statement, " (Continued)")
                    top = self._head(statement, edges, first - notes)
            if look.shaded and number % 2:
                bottom = self._y + (len(lines) - 0.7) * self._line
                self._rule(MARGIN - 2, self._y - size, edges[-1] + 2, bottom)
            self._row(row, lines, (MARGIN + indent, first - notes, *edges), first=number == 0)
        self._frame(top, edges, first - notes)
        self._y += self._line
        if statement.footnote:
            self._write(MARGIN, self._y, statement.footnote, size=size - 1.5)
            self._y += 1.5 * self._line

    def _row(self, row: Row, lines: Sequence[str], places: Sequence[float], *, first: bool) -> None:
        """Write a row; its places are those of the label, of the notes, and of the edges of its columns."""
        x, notes, *edges = places
        look, size = self._look, self._look.size
        top = self._y - size
        end, at = x, self._y
        for number, line in enumerate(lines):
            self._y += self._line if number else 0
            end = self._write(x, self._y, line, bold=bool(line) and not row.values) if line else x
        if row.mark:
            raised = 0.3 * size if look.raised else 0.0
            small = size - 2 if look.raised else size
            end = self._write(end + (1 if look.raised else 3), self._y - raised, row.mark, size=small)
        at = at if look.first_line else self._y
        if look.leaders and row.values and row.label and at == self._y:
            dots = int((notes - end - 10) / stringWidth(".", self._plain, size))
            self._write(end + 3, at, "." * dots) if dots > 2 else None
        if row.note:
            self._write(notes + 20, at, row.note, align=0.5)
        for place, value in enumerate(row.values):
            left, right = edges[place], edges[place + 1]
            priced = look.dollar and (first or row.total) and "%" not in value and value != DASH
            if row.total and look.rules != "grid":
                self._rule(left + 6, top - 1, right, top - 1)
            if priced and not look.attached:
                self._write(left + 8, at, "$")
            hang = stringWidth("".join(each for each in value if each in ")%"), self._plain, size)
            self._write(right - 8 + hang, at, f"${value}" if priced and look.attached else value, align=1.0)
        if look.rules == "grid":
            self._rule(MARGIN - 3, self._y + 0.35 * size, edges[-1] + 3, self._y + 0.35 * size)
        self._y += self._line

    def _head(self, statement: AccountStatement, edges: Sequence[float], notes: float) -> float:
        """Write the names of columns, those over several columns once; return where the table begins."""
        top = self._y - self._look.size
        depth = max(len(column.path) for column in statement.columns)
        for level in range(depth):
            spans = list(_spans(statement.columns, level))
            height = max(name.count("\n") for name, _, _ in spans)
            last = level == depth - 1
            for name, one, end in spans:
                lines = name.split("\n")
                left, right = edges[one] + 6, edges[end]
                for number, line in enumerate(lines):
                    y = self._y + (height - len(lines) + 1 + number) * self._line
                    middle = self._look.centred or end - one > 1
                    x, align = ((left + right) / 2, 0.5) if middle else (right - 8, 1.0)
                    self._write(x, y, line, bold=True, align=align)
                if self._look.rules != "none":
                    y = self._y + height * self._line + 0.3 * self._look.size
                    self._rule(left, y, right, y)
            self._y += height * self._line
            if last:
                if statement.notes:
                    self._write(notes + 20, self._y, "Notes", bold=True, align=0.5)
                if self._look.unit_in_head:
                    self._write(MARGIN, self._y, statement.unit)
            self._y += self._line
        self._y += 0.3 * self._line
        return top

    def _frame(self, top: float, edges: Sequence[float], notes: float) -> None:
        """Draw the outer lines and those between columns, where all cells have borders."""
        if self._look.rules != "grid":
            return
        bottom = self._y - self._line + 0.35 * self._look.size
        for x in (MARGIN - 3, *({notes, edges[0]}), edges[-1] + 3):
            self._rule(x, top, x, bottom)
        self._rule(MARGIN - 3, top, edges[-1] + 3, top)


def _spans(columns: Sequence[Column], level: int) -> Iterator[tuple[str, int, int]]:
    """Yield each name of a level of the head with its first column and the one after its last."""
    numbered = list(enumerate(columns))
    last = level == len(columns[0].path) - 1
    for (path, _), run in groupby(numbered, lambda one: (one[1].path[: level + 1], one[0] if last else 0)):
        places = [place for place, _ in run]
        yield path[level], places[0], places[-1] + 1


def _by_fpdf2(statements: Sequence[AccountStatement], look: Look, company: str) -> bytes:
    """Print statements one after the other, each as a table of fpdf2."""
    from fpdf import FPDF, FontFace  # of the extra "readers"

    class Book(FPDF):  # type: ignore[misc]
        def header(self) -> None:
            self.set_y(30)
            self.cell(text=company)
            self.set_y(MARGIN)

        def footer(self) -> None:
            self.set_y(-30)
            self.cell(w=0, text=str(self.page_no()), align="C")

    book = Book(unit="pt", format=(WIDTH, HEIGHT))
    book.core_fonts_encoding = "cp1252"  # as the fonts are declared in the file
    book.set_margin(MARGIN)
    book.set_font(look.family[0].partition("-")[0], size=look.size)
    book.add_page()
    for statement in statements:
        depth, count = len(statement.columns[0].path), len(statement.columns)
        wide = min(78.0, 330.0 / count)
        for text in (statement.title, statement.unit):
            book.cell(w=0, text=text, align="C", new_x="LMARGIN", new_y="NEXT")
        layout: dict[str, Any] = {
            "borders_layout": {"none": "NONE", "half": "HORIZONTAL_LINES", "grid": "ALL"}[look.rules],
            "cell_fill_mode": "ROWS" if look.shaded else "NONE",
            "cell_fill_color": round(255 * _GREY),
            "col_widths": (WIDTH - 2 * MARGIN - wide * count, *[wide] * count),
            "headings_style": FontFace(emphasis="BOLD"),
            "line_height": 1.3 * look.size,
            "num_heading_rows": depth,
            "repeat_headings": int(look.repeated),
            "text_align": ("LEFT", *["RIGHT"] * count),
        }
        with book.table(**layout) as table:
            for level in range(depth):
                head = table.row()
                head.cell("")
                for name, one, end in _spans(statement.columns, level):
                    head.cell(name, colspan=end - one, align="C" if look.centred or end - one > 1 else "R")
            for row in statement.rows:
                indent = "" if row.total or not row.group else "    "
                signs = ["$" * (look.dollar and row.total and value[-1] != "%") for value in row.values]
                values = [sign * (value != DASH) + value for sign, value in zip(signs, row.values, strict=True)]
                table.row([f"{indent}{row.label}{row.mark}", *(values or [""] * count)])
        book.ln(2 * look.size)
    return bytes(book.output())


_TIMES = ("Times-Roman", "Times-Bold")
LOOKS: tuple[Look, ...] = (
    Look(),
    Look(family=_TIMES, rules="none", size=10, centred=False),
    Look(rules="grid", dollar=False, size=8.5),
    Look(family=_TIMES, leaders=True, raised=False, size=9.5),
    Look(words=True, size=8, unit_in_head=True, repeated=False),
    Look(family=_TIMES, rules="none", words=True, dollar=False, first_line=True),
    Look(size=7.5, raised=False, unit_in_head=True, centred=False),
    Look(family=_TIMES, rules="grid", size=10, repeated=False, first_line=True),
    Look(shaded=True, bars=True, attached=True, size=8.5),
    Look(family=_TIMES, shaded=True, rules="none", size=9.5, unit_in_head=True, centred=False),
    Look(rules="grid", bars=True, words=True, size=8),
    Look(family=_TIMES, bars=True, attached=True, raised=False, leaders=True, size=10, repeated=False),
)

"""Measure which figures of a PDF are found: on generated diagrams and what looks like them, and on real files.

Generated are block and wiring diagrams, alone or two on a page, in several ways of drawing them, and look-alikes that
are no figures: ruled, half-ruled and shaded tables, forms, frames around text.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from itertools import pairwise, product
from pathlib import Path
from random import Random
from typing import Any

from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from catena import ParseError
from catena.formatting import figures_of, format_layout
from catena.model import Figure, Parsed, is_figure_caption
from catena.parsing import parse, parse_bytes
from catena_bench.figures import Figures, Tell, silent

WIDTH, HEIGHT = A4  # points
BETTER = 0.75  # of what two boxes cover together: from here on they show the same figure
PARTS = ("Sensor", "Pump", "Filter", "Controller", "Valve", "Motor", "Display", "Relay", "Supply", "Switch", "Gate")
CORES = ("brown", "blue", "black", "white", "grey", "L+", "M", "N", "PE", "Q1", "24 V", "0 V")
TEXT = (
    "the pressure of the medium moves a diaphragm and the bridge turns it into a voltage that the converter reads"
    " thirty times a second while the housing keeps the water out of it"
)
WORDS = TEXT.split()

Bounds = tuple[float, float, float, float]  # left, top, right, bottom, in points from the top left corner


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFigure:
    """A figure as it was drawn."""

    page: int  # from 1
    box: Bounds
    title: str


@dataclass(slots=True)
class _Pen:
    """Draw on a page in points from its top left corner, in one of the styles of drawing programs."""

    canvas: Any
    draws: Random
    rounded: bool = False
    four_lines: bool = False  # a box is drawn as four lines
    tint: bool = False
    heads: str = "none"  # of arrows: "none", "filled" or "open"
    routed: str = "lines"  # a wire with corners is "lines" or one "path"
    extent: list[Bounds] = field(default_factory=list)

    def line(self, x0: float, y0: float, x1: float, y1: float) -> None:
        self.canvas.line(x0, HEIGHT - y0, x1, HEIGHT - y1)
        self.extent.append((min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)))

    def box(self, x: float, y: float, wide: float, high: float, *, tint: bool | None = None) -> None:
        filled = self.tint if tint is None else tint
        self.canvas.setFillGray(0.88)
        if self.four_lines and not filled:
            for side in ((x, y, x + wide, y), (x, y + high, x + wide, y + high), (x, y, x, y + high)):
                self.line(*side)
            self.line(x + wide, y, x + wide, y + high)
        elif self.rounded:
            self.canvas.roundRect(x, HEIGHT - y - high, wide, high, 5, fill=filled)
        else:
            self.canvas.rect(x, HEIGHT - y - high, wide, high, fill=filled)
        self.canvas.setFillGray(0)
        self.extent.append((x, y, x + wide, y + high))

    def shade(self, x: float, y: float, wide: float, high: float) -> None:
        self.canvas.setFillGray(0.85)
        self.canvas.rect(x, y, wide, high, stroke=0, fill=1)
        self.canvas.setFillGray(0)

    def text(self, words: str, x: float, y: float, size: float = 8, *, centred: bool = False) -> None:
        self.canvas.setFont("Helvetica", size)
        wide = self.canvas.stringWidth(words, "Helvetica", size)
        left = x - wide / 2 if centred else x
        self.canvas.drawString(left, HEIGHT - y - 0.8 * size, words)
        self.extent.append((left, y, left + wide, y + size))

    def wire(self, *points: tuple[float, float], arrow: bool = True) -> None:
        (x0, y0), (x1, y1) = points[-2:]
        size = 5.0 if arrow and self.heads != "none" else 0.0
        dx, dy = (x1 > x0) - (x1 < x0), (y1 > y0) - (y1 < y0)
        short = (x1 - size * dx, y1 - size * dy) if self.heads == "filled" else (x1, y1)
        route = [*points[:-1], short]
        if self.routed == "path" and len(route) > 2:
            path = self.canvas.beginPath()
            path.moveTo(route[0][0], HEIGHT - route[0][1])
            for x, y in route[1:]:
                path.lineTo(x, HEIGHT - y)
            self.canvas.drawPath(path)
            self.extent += [(x, y, x, y) for x, y in route]
        else:
            for (xa, ya), (xb, yb) in pairwise(route):
                self.line(xa, ya, xb, yb)
        if size:
            base = (x1 - size * dx, y1 - size * dy)
            sides = [(base[0] + 2.5 * k * dy, base[1] + 2.5 * k * dx) for k in (-1, 1)]
            path = self.canvas.beginPath()
            path.moveTo(sides[0][0], HEIGHT - sides[0][1])
            for x, y in ((x1, y1), sides[1]):
                path.lineTo(x, HEIGHT - y)
            if self.heads == "filled":
                path.close()
            self.canvas.drawPath(path, fill=self.heads == "filled")

    def drawn(self) -> Bounds:
        """Return what all that was drawn covers, and begin anew."""
        left, top, right, bottom = zip(*self.extent, strict=True)
        self.extent = []
        return min(left), min(top), max(right), max(bottom)


def _block(pen: _Pen, x: float, y: float, wide: float, high: float) -> None:
    """Draw rows of boxes with arrows from each to the next, some with a loop back, some in a frame."""
    draws = pen.draws
    columns, rows = draws.randint(2, max(2, int(wide / 105))), draws.randint(1, max(1, int(high / 75)))
    pitch, row = wide / columns, high / (rows + 0.4)
    across, tall = pitch * draws.uniform(0.5, 0.7), row * draws.uniform(0.4, 0.6)
    names = iter(draws.sample(PARTS, k=min(len(PARTS), rows * columns)))
    for r in range(rows):
        for c in range(columns):
            left, top = x + c * pitch + (pitch - across) / 2, y + r * row + (row - tall) / 2
            pen.box(left, top, across, tall)
            pen.text(next(names, "Part"), left + across / 2, top + tall / 2 - 4, centred=True)
            if c + 1 < columns:
                middle = top + tall / 2
                pen.wire((left + across, middle), (left + pitch, middle))
                if draws.random() < 0.3:
                    pen.text(draws.choice(CORES), left + (across + pitch) / 2, middle - 9, 6, centred=True)
            if r + 1 < rows and (c == 0 or draws.random() < 0.4):
                pen.wire((left + across / 2, top + tall), (left + across / 2, top + row))
    if draws.random() < 0.4:
        last, low = y + (rows - 1) * row + (row + tall) / 2, y + high
        first, end = x + pitch / 2, x + wide - pitch / 2
        pen.wire((end, last), (end, low), (first, low), (first, last))
    if draws.random() < 0.2:
        pen.box(x, y - 4, wide, high + 10, tint=False)


def _wiring(pen: _Pen, x: float, y: float, wide: float, high: float) -> None:
    """Draw two devices with terminals, and wires from the one's to the other's, named or not."""
    draws = pen.draws
    count = draws.randint(2, max(2, int(high / 22)))
    pitch, side = high / count, draws.uniform(8, 13)
    device = wide * draws.uniform(0.2, 0.3)
    names = draws.sample(PARTS, k=2)
    kind, named = draws.choice(["squares", "circles", "none"]), draws.random() < 0.5
    crossed = draws.random() < 0.3
    for left, name in ((x, names[0]), (x + wide - device, names[1])):
        pen.box(left, y, device, high)
        pen.text(name, left + device / 2, y + 3, centred=True)
    start, end = x + device, x + wide - device
    for n in range(count):
        middle = y + (n + 0.5) * pitch
        if kind == "squares":
            pen.box(start, middle - side / 2, side, side, tint=False)
            pen.box(end - side, middle - side / 2, side, side, tint=False)
            pen.text(str(n + 1), start + side / 2, middle - 3, 6, centred=True)
            pen.text(str(n + 1), end - side / 2, middle - 3, 6, centred=True)
        elif kind == "circles":
            for at in (start, end):
                pen.canvas.circle(at, HEIGHT - middle, 3)
        else:
            pen.text(f"X{n + 1}", start - 14, middle - 3, 6)
            pen.text(f"{n + 1}", end + 4, middle - 3, 6)
        reach = {"squares": side, "circles": 3.0, "none": 0.0}[kind]
        if crossed and n + 1 < count:
            turn = start + reach + (end - start - 2 * reach) * (n + 1) / (count + 1)
            low = middle + pitch
            pen.wire((start + reach, middle), (turn, middle), (turn, low), (end - reach, low), arrow=False)
        else:
            pen.wire((start + reach, middle), (end - reach, middle), arrow=False)
        if named:
            pen.text(draws.choice(CORES), (start + end) / 2, middle - 8, 6, centred=True)


def _table(pen: _Pen, x: float, y: float, wide: float, high: float) -> None:
    """Draw a table: ruled, half-ruled, of cells, of shaded rows, or of shaded cells as offices print them."""
    draws = pen.draws
    columns, rows = draws.randint(2, 6), draws.randint(3, max(3, int(high / 16)))
    row = high / rows
    widths = [draws.uniform(0.6, 1.4) for _ in range(columns)]
    lefts = [x + wide * sum(widths[:k]) / sum(widths) for k in range(columns + 1)]
    tops = [y + row * r for r in range(rows + 1)]
    way = draws.choice(["ruled", "open", "blank", "half", "cells", "shaded", "office"])
    head = way != "office" and draws.random() < 0.6
    if head:
        pen.box(x, y, wide, row, tint=True)
    for r, c in product(range(rows), range(columns)):
        cell = (lefts[c], HEIGHT - tops[r + 1], lefts[c + 1] - lefts[c], row)
        if way == "cells":
            pen.canvas.rect(*cell)
        if r % 2 and way in ("office", "shaded"):
            gap = draws.uniform(3, 8) if way == "office" else 0.0
            pen.shade(cell[0], cell[1], gap, row)
            pen.shade(cell[0] + gap, cell[1], cell[2] - gap, row)
        if (way != "blank" or r == 0 or c == 0) and draws.random() < 0.93:
            words = draws.choice(WORDS) if c == 0 else f"{draws.randint(1, 99_999):,}"
            pen.text(words[:9], lefts[c] + 3, tops[r] + row / 2 - 3, 7)
    across = {"ruled": tops, "open": tops, "blank": tops, "half": (y, y + row, y + high), "shaded": (y, y + high)}
    down = {"ruled": lefts, "open": lefts[1:-1], "blank": lefts}
    for at in across.get(way, ()):
        pen.line(x, at, x + wide, at)
    for at in down.get(way, ()):
        pen.line(at, y, at, y + high)


def _form(pen: _Pen, x: float, y: float, wide: float, high: float) -> None:
    """Draw fields to fill in: boxes, lines or squares to tick beside their names."""
    draws = pen.draws
    way, columns = draws.choice(["boxes", "lines", "squares", "mixed"]), draws.randint(1, 3)
    pitch = wide / columns
    for r in range(max(2, int(high / 26))):
        for c in range(columns):
            left, top = x + c * pitch, y + r * 26
            pen.text(draws.choice(WORDS).title() + ":", left, top + 5, 8)
            kind = draws.choice(["boxes", "lines", "squares"]) if way == "mixed" else way
            if kind == "boxes":
                pen.box(left + 0.35 * pitch, top, 0.55 * pitch, 16, tint=False)
            elif kind == "lines":
                pen.line(left + 0.35 * pitch, top + 15, left + 0.9 * pitch, top + 15)
            else:
                for k in range(2):
                    at = left + (0.4 + 0.25 * k) * pitch
                    pen.box(at, top + 3, 9, 9, tint=False)
                    pen.text("no" if k else "yes", at + 13, top + 4, 7)
                    if draws.random() < 0.3:
                        pen.canvas.lines([(at + 2, HEIGHT - top - 8, at + 4, HEIGHT - top - 10),
                                          (at + 4, HEIGHT - top - 10, at + 8, HEIGHT - top - 4)])  # fmt: skip


def _note(pen: _Pen, x: float, y: float, wide: float, high: float) -> None:
    """Draw a frame around a few lines of text."""
    lines = max(2, int(min(high, 90) / 14))
    pen.box(x, y, wide, 14 * lines + 10)
    for n in range(lines):
        pen.text(" ".join(pen.draws.choices(WORDS, k=int(wide / 42))), x + 8, y + 6 + 14 * n, 9)


_DIAGRAMS: tuple[Callable[..., None], ...] = (_block, _wiring)
_ALIKE: tuple[Callable[..., None], ...] = (_table, _table, _form, _note)


def generated_pages(pages: int, seed: int = 1) -> tuple[bytes, list[KnownFigure]]:
    """Return a PDF of so many pages, and its figures with their places and titles."""
    draws, out = Random(seed), io.BytesIO()
    canvas = Canvas(out, pagesize=A4, invariant=1)
    known: list[KnownFigure] = []

    def prose(top: float, lines: int) -> float:
        for n in range(lines):
            line = ""
            while canvas.stringWidth(line, "Helvetica", 10) < WIDTH - 170:
                line += f"{draws.choice(WORDS)} "
            pen.text(line.strip(), 60, top + 13.5 * n, 10)
        pen.extent = []
        return top + 13.5 * lines

    def titled(name: str, x: float, y: float) -> str:
        title = f"{name} {len(known) + 1}. {' '.join(draws.sample(WORDS, 3)).capitalize()}"
        pen.text(title, x, y, 9)
        pen.extent = []
        return title

    def diagram(page: int, x: float, y: float, wide: float, high: float) -> float:
        draws.choice(_DIAGRAMS)(pen, x, y, wide, high)
        box = pen.drawn()
        known.append(KnownFigure(page=page, box=box, title=titled("Figure", x, box[3] + 12)))
        return box[3] + 36

    for page in range(1, pages + 1):
        pen = _Pen(
            canvas,
            draws,
            rounded=draws.random() < 0.3,
            four_lines=draws.random() < 0.2,
            tint=draws.random() < 0.5,
            heads=draws.choice(["none", "filled", "open"]),
            routed=draws.choice(["lines", "path"]),
        )
        y = prose(70, draws.randint(3, 6)) + 22
        for _ in range(2):
            kind = draws.choice(["one", "two", "alike"])
            high = draws.uniform(80, 170)
            if kind == "two":
                y = max(diagram(page, left, y, 205, high) for left in (70, 320))
            elif kind == "one":
                wide = draws.uniform(220, 440)
                y = diagram(page, 80, y, wide, high)
            else:
                titled("Table", 70, y)
                draws.choice(_ALIKE)(pen, 70, y + 18, draws.uniform(260, 455), high)
                pen.extent = []
                y += high + 40
            y = prose(y, draws.randint(2, 4)) + 22
        canvas.showPage()
    canvas.save()
    return out.getvalue(), known


def run(data: Path | None = None, *, pages: int = 200, seed: int = 1, tell: Tell = silent) -> Figures:
    """Measure the figures that are found.

    `recall = shared / drawn`, `precision = shared / found`; two figures are the same where they share three quarters
    of what they cover together. `titled` is the share of those that bear their own title, no more and no less.

    Args:
        data: a folder of PDFs, whose captions are the truth: `captioned` is the share of captions that a figure
            bears, `bare` the number of figures a page without one; None measures generated pages and the manuals
            of the demo alone.
        pages: of generated pages.
        seed: of what is drawn on them.
        tell: is told of each file.
    """
    tell(f"{pages} generated pages")
    pdf, known = generated_pages(pages, seed)
    found = _figures(parse_bytes(pdf, "generated.pdf", engine="pypdfium2", figures=True))
    pairs = [(each, other) for each in known for other in found if _alike(each, other)]
    results = {
        "n": float(len(known)),
        "recall.generated": len({id(each) for each, _ in pairs}) / max(1, len(known)),
        "precision.generated": len({id(other) for _, other in pairs}) / max(1, len(found)),
        "titled.generated": sum(each.title == other.title for each, other in pairs) / max(1, len(pairs)),
    }
    manuals = Path(str(files("catena") / "data" / "demo"))
    for name, folder in (("manuals", manuals), *([("data", data)] if data is not None else [])):
        results |= _real(name, sorted(folder.rglob("*.pdf")), tell)
    return results


def _real(name: str, paths: Sequence[Path], tell: Tell) -> Figures:
    captions = captioned = bare = pages = 0
    for path in paths:
        tell(path.name)
        try:
            parsed = parse(path, engine="pypdfium2", figures=True)
        except ParseError:
            continue
        layout = parsed.layout
        printed = [line.text for page in layout.pages for line in page.lines] if layout is not None else []
        wanted = [text.strip() for text in printed if is_figure_caption(text)]
        titles = [figure.title for figure in _figures(parsed)]
        captions += len(wanted)
        captioned += sum(any(title.startswith(text[:40]) for title in titles) for text in wanted)
        bare += titles.count("")
        pages += len(layout.pages) if layout is not None else 0
    return {f"captioned.{name}": captioned / max(1, captions), f"bare.{name}": bare / max(1, pages)}


def _figures(parsed: Parsed) -> tuple[Figure, ...]:
    return figures_of(replace(parsed, document=format_layout(parsed)))


def _alike(known: KnownFigure, found: Figure) -> bool:
    if known.page != found.page:
        return False
    a, b = known.box, found.box
    shared = max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    both = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)) - shared
    return shared >= BETTER * both

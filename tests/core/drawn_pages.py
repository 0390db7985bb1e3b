"""Pages whose figures are known to the point: what the tests of figures draw, as a layout program would."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Sequence

from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from catena.parsing.figure_shapes import Box

WIDTH, HEIGHT = 595.0, 842.0  # A4, points
WORDS = (
    "the pressure of the medium moves a diaphragm and the bridge turns it into a voltage that the converter reads"
    " thirty times a second while the housing keeps the water out of it"
)
TEXT = WORDS.split()

Draw = Callable[[Canvas], object]


def pdf(*pages: Draw, **settings: object) -> bytes:
    """Return a PDF whose pages are drawn by the functions given."""
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=(WIDTH, HEIGHT), invariant=1, **settings)
    for draw in pages:
        draw(canvas)
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def text(canvas: Canvas, words: str, x: float, y: float, size: float = 9.0) -> None:
    """Write a line whose top is y points below the top of the page."""
    canvas.setFont("Helvetica", size)
    canvas.drawString(x, HEIGHT - y - 0.8 * size, words)


def prose(canvas: Canvas, x: float, top: float, width: float, lines: int) -> float:
    """Write a paragraph and return where it ends."""
    words = iter(TEXT * (lines + 1))
    for row in range(lines):
        line = next(words)
        while canvas.stringWidth(f"{line} diaphragm", "Helvetica", 10) < width:
            line += " " + next(words)
        text(canvas, line, x, top + 13.5 * row, 10)
    return top + 13.5 * lines


def amid(draw: Draw, below: float = 600.0, lines: int = 6) -> Draw:
    """Return a page with a paragraph of so many lines at its top, then what is drawn, and a paragraph below it."""

    def page(canvas: Canvas) -> None:
        prose(canvas, 60, 80, 470, lines)
        draw(canvas)
        canvas.setFillColorRGB(0, 0, 0)
        prose(canvas, 60, below, 470, lines)

    return page


def bitmap(canvas: Canvas, box: Box, seed: int = 1) -> Box:
    noise = random.Random(seed)
    image = Image.frombytes("RGB", (40, 30), noise.randbytes(3600))
    canvas.drawImage(ImageReader(image), box.x0, HEIGHT - box.bottom, box.width, box.height)
    return box


def bars(canvas: Canvas, box: Box) -> Box:
    canvas.line(box.x0, HEIGHT - box.bottom, box.x1, HEIGHT - box.bottom)
    canvas.line(box.x0, HEIGHT - box.top, box.x0, HEIGHT - box.bottom)
    wide = box.width / 10
    for index in range(5):
        canvas.setFillColorRGB(0.1, 0.3, 0.5)
        left, tall = box.x0 + wide * (2 * index + 0.5), box.height * (0.3 + 0.13 * index)
        canvas.rect(left, HEIGHT - box.bottom, wide, tall, fill=1, stroke=0)
        canvas.setFillColorRGB(0, 0, 0)
        text(canvas, f"T{index}", left, box.bottom + 4, 8)
    return Box(box.x0, box.top, box.x1, box.bottom + 12)


def curve(canvas: Canvas, box: Box) -> Box:
    canvas.rect(box.x0, HEIGHT - box.bottom, box.width, box.height)
    path = canvas.beginPath()
    path.moveTo(box.x0, HEIGHT - box.bottom + 5)
    for step in range(1, 20):
        path.lineTo(box.x0 + box.width * step / 19, HEIGHT - box.bottom + box.height * (0.2 + 0.04 * (step * 7 % 17)))
    canvas.drawPath(path)
    text(canvas, "time in hours", box.x0 + box.width / 2 - 20, box.bottom + 5, 8)
    return Box(box.x0, box.top, box.x1, box.bottom + 13)


def diagram(canvas: Canvas, box: Box) -> Box:
    wide = box.width / 4
    for index, name in enumerate(("Sensor", "Converter", "Output")):
        left = box.x0 + index * (box.width - wide) / 2
        canvas.rect(left, HEIGHT - box.bottom, wide, box.height)
        text(canvas, name, left + 8, box.top + box.height / 2, 8)
        if index < 2:
            middle = HEIGHT - box.top - box.height / 2
            canvas.line(left + wide, middle, left + (box.width - wide) / 2, middle)
    return box


def circles(canvas: Canvas, box: Box) -> Box:
    radius = box.height / 2
    for x in (box.x0 + radius, box.x1 - radius):
        canvas.circle(x, HEIGHT - box.top - radius, radius)
    canvas.line(box.x0 + box.height, HEIGHT - box.top - radius, box.x1 - box.height, HEIGHT - box.top - radius)
    return box


def camera(canvas: Canvas, box: Box) -> Box:
    """Draw a frame with a bitmap, a line and a circle in it."""
    canvas.rect(box.x0, HEIGHT - box.bottom, box.width, box.height)
    bitmap(canvas, Box(box.x0 + 20, box.top + 16, box.x0 + 20 + box.width / 3, box.bottom - 16), seed=5)
    middle = HEIGHT - box.top - box.height / 2
    canvas.line(box.x0 + 20 + box.width / 3, middle, box.x1 - 60, middle)
    canvas.circle(box.x1 - 40, middle, 20)
    text(canvas, "camera head", box.x0 + box.width / 2, box.top + 4, 8)
    return box


KINDS: tuple[Callable[[Canvas, Box], Box], ...] = (bitmap, bars, curve, diagram, circles, camera)


def table(canvas: Canvas, x: float, top: float, columns: int, rows: int, *, ruled: bool = True) -> None:
    """Draw a table with all its rules, or with three horizontal ones."""
    wide, tall = 80, 16
    for row in range(rows + 1) if ruled else (0, 1, rows):
        canvas.line(x, HEIGHT - top - row * tall, x + wide * columns, HEIGHT - top - row * tall)
    for column in range(columns + 1) if ruled else ():
        canvas.line(x + column * wide, HEIGHT - top, x + column * wide, HEIGHT - top - rows * tall)
    for row in range(rows):
        for column in range(columns):
            text(
                canvas,
                f"{TEXT[(3 * row + column) % len(TEXT)]} {row}",
                x + wide * column + 4,
                top + tall * row + 4,
                8,
            )


def listing(canvas: Canvas, x: float, top: float, lines: Sequence[str]) -> None:
    """Draw lines of code in a rounded frame."""
    canvas.roundRect(x, HEIGHT - top - 12 * len(lines) - 10, 400, 12 * len(lines) + 10, 6)
    for row, line in enumerate(lines):
        text(canvas, line, x + 6, top + 6 + 12 * row, 8)


def overlap(one: Box, two: Box) -> float:
    """Return what two boxes share, of what they cover together."""
    both = one.common(two)
    shared = both.area if both.width > 0 and both.height > 0 else 0.0
    return shared / (one.area + two.area - shared)

"""The vector figures of the demo PDFs; lengths are points, the origin is the lower left corner."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reportlab.graphics.shapes import Circle, Drawing, Line, Polygon, PolyLine, Rect, String
from reportlab.lib.colors import Color, HexColor

INK = HexColor("#1b2a33")
ACCENT = HexColor("#0b4f6c")
PALE = HexColor("#dcebf2")
GREY = HexColor("#8a979e")
AMBER = HexColor("#d98e04")


def _label(x: float, y: float, text: str, *, size: float = 8, anchor: str = "middle", fill: Color = INK) -> String:
    return String(x, y, text, fontName="Helvetica", fontSize=size, textAnchor=anchor, fillColor=fill)


def _box(x: float, y: float, width: float, height: float, lines: Sequence[str]) -> list[object]:
    middle = y + height / 2 + 5 * len(lines) - 8
    texts = [_label(x + width / 2, middle - 10 * row, text) for row, text in enumerate(lines)]
    return [Rect(x, y, width, height, 3, 3, fillColor=PALE, strokeColor=ACCENT, strokeWidth=0.9), *texts]


def _arrow(x0: float, y0: float, x1: float, y1: float) -> list[object]:
    """A straight arrow, horizontal or vertical, with its head at (x1, y1)."""
    dx, dy = (x1 > x0) - (x1 < x0), (y1 > y0) - (y1 < y0)
    base_x, base_y = x1 - 5 * dx, y1 - 5 * dy
    head = [x1, y1, base_x - 2.5 * dy, base_y + 2.5 * dx, base_x + 2.5 * dy, base_y - 2.5 * dx]
    return [
        Line(x0, y0, base_x, base_y, strokeColor=INK, strokeWidth=0.9),
        Polygon(head, fillColor=INK, strokeColor=None),
    ]


def _drawing(width: float, height: float, *parts: Sequence[object]) -> Drawing:
    drawing = Drawing(width, height)
    for group in parts:
        for shape in group:
            drawing.add(shape)
    return drawing


def _device(x: float, y: float, scale: float) -> list[object]:
    """The housing with display and keys on its hexagon, 60 by 110 units, lower left corner at (x, y)."""

    def rect(left: float, low: float, wide: float, high: float, fill: Color, *, radius: float = 0) -> Rect:
        return Rect(
            x + left * scale, y + low * scale, wide * scale, high * scale, radius * scale, radius * scale,
            fillColor=fill, strokeColor=INK, strokeWidth=0.8,
        )  # fmt: skip

    keys = [
        Circle(x + (20 + 10 * key) * scale, y + 50 * scale, 2.6 * scale, fillColor=GREY, strokeColor=INK)
        for key in range(3)
    ]
    return [
        rect(24, 0, 12, 12, GREY),
        rect(18, 12, 24, 12, PALE),
        rect(24, 24, 12, 10, GREY),
        rect(0, 34, 60, 70, HexColor("#f3f6f8"), radius=9),
        rect(9, 60, 42, 32, PALE, radius=3),
        _label(x + 30 * scale, y + 71 * scale, "8.42 bar", size=8.5 * scale, fill=ACCENT),
        *keys,
        Circle(x + 50 * scale, y + 50 * scale, 2 * scale, fillColor=AMBER, strokeColor=INK),
        rect(60, 62, 12, 9, GREY),
    ]


def cover() -> Drawing:
    """The picture of the title page."""
    return _drawing(220, 310, _device(30, 10, 2.7))


def signal() -> Drawing:
    """A chain of boxes from the sensor to the four outputs."""
    chain = [("Diaphragm", "and oil"), ("Bridge", "of resistors"), ("Converter", ""), ("Processor", "")]
    parts: list[object] = []
    for index, lines in enumerate(chain):
        parts += _box(2 + 90 * index, 48, 72, 38, [line for line in lines if line])
        parts += _arrow(74 + 90 * index, 67, (362 if index == 3 else 92 + 90 * index), 67)
    parts += _box(182, 2, 72, 24, ["Temperature"]) + _arrow(218, 26, 218, 48)
    parts += [Line(362, 14, 362, 119, strokeColor=INK, strokeWidth=0.9)]
    for row, name in enumerate(["Display", "Current output", "Relay", "Serial line"]):
        low = 108 - 35 * row
        parts += _arrow(362, low + 11, 376, low + 11) + _box(376, low, 76, 22, [name])
    return _drawing(453, 134, parts)


def mounting() -> Drawing:
    """The device on a vertical line, with four numbered parts."""
    pipe = [
        Rect(60, 0, 34, 190, fillColor=HexColor("#eef1f3"), strokeColor=INK, strokeWidth=0.9),
        Rect(94, 36, 66, 14, fillColor=HexColor("#eef1f3"), strokeColor=INK, strokeWidth=0.9),
        Rect(150, 30, 26, 26, fillColor=GREY, strokeColor=INK, strokeWidth=0.9),
        _label(77, 194, "line"),
    ]
    callouts: list[object] = []
    for number, x, y in [(1, 181, 74), (2, 173, 89), (3, 222, 137), (4, 206, 166)]:
        callouts += [
            Line(x, y, 300, 60 + 36 * (number - 1), strokeColor=GREY, strokeWidth=0.7),
            Circle(308, 60 + 36 * (number - 1), 8, fillColor=ACCENT, strokeColor=None),
            _label(308, 57 + 36 * (number - 1), str(number), fill=HexColor("#ffffff")),
        ]
    return _drawing(380, 206, pipe, _device(124, 50, 1.32), callouts)


def wiring() -> Drawing:
    """Three pairs of wires between the device and the cabinet."""
    parts = _box(2, 6, 96, 118, ["Device"]) + _box(320, 6, 130, 118, [])
    for row, (left, right) in enumerate(
        [("Supply", "Power supply"), ("Output", "Input card"), ("Relay", "Alarm lamp")]
    ):
        top = 106 - 38 * row
        for offset in (0, 11):
            parts += [PolyLine([98, top - offset, 320, top - offset], strokeColor=ACCENT, strokeWidth=1.2)]
        parts += [_label(209, top + 4, left), _label(385, top - 8, right)]
    return _drawing(453, 146, parts, [_label(385, 131, "Control cabinet")])


def calibration() -> Drawing:
    """Pump, reference and device on one manifold."""
    parts: list[object] = [Rect(32, 14, 390, 14, fillColor=GREY, strokeColor=INK, strokeWidth=0.8)]
    parts += _box(42, 52, 92, 46, ["Hand pump"]) + _arrow(88, 52, 88, 28)
    parts += _box(182, 52, 92, 46, ["Reference", "gauge"]) + _arrow(228, 28, 228, 52)
    parts += _box(322, 52, 92, 46, ["Device", "under test"]) + _arrow(368, 28, 368, 52)
    parts += [_label(227, 2, "Manifold with vent valve")]
    return _drawing(453, 106, parts)


def _scale(unit: float, highest: int) -> list[object]:
    """The numbered lines behind a chart, one every `unit` points."""
    levels = [(tick, 18 + unit * tick) for tick in range(highest + 1)]
    lines = [Line(26, level, 228, level, strokeColor=PALE, strokeWidth=0.7) for _, level in levels]
    return [*lines, *(_label(20, level - 3, str(tick), anchor="end") for tick, level in levels)]


def rates() -> Drawing:
    """Bars with intervals, one per product; the axis is failures per 100 device-years."""
    bars = [
        ("HX200", 0.80, 0.66, 0.96),
        ("HX210", 1.30, 1.03, 1.62),
        ("HX150", 2.40, 2.09, 2.73),
        ("HV40", 3.50, 2.82, 4.28),
    ]
    unit = 27.0
    parts = _scale(unit, 4)
    for index, (name, rate, low, high) in enumerate(bars):
        left = 36 + 49 * index
        parts += [
            Rect(left, 18, 30, unit * rate, fillColor=ACCENT, strokeColor=None),
            Line(left + 15, 18 + unit * low, left + 15, 18 + unit * high, strokeColor=AMBER, strokeWidth=1.6),
            _label(left + 15, 6, name),
        ]
    return _drawing(230, 142, parts)


def trend() -> Drawing:
    """A line through the six half-years, each named by its first month."""
    values, unit, points = [1.91, 1.78, 1.62, 1.50, 1.36, 1.22], 50.0, []
    parts = _scale(unit, 2)
    for index, value in enumerate(values):
        x, y = 42 + 35 * index, 18 + unit * value
        points += [x, y]
        parts += [Circle(x, y, 2.4, fillColor=ACCENT, strokeColor=None), _label(x, y + 6, f"{value:.2f}", size=7)]
        parts += [_label(x, 6, f"{'Apr' if index % 2 else 'Oct'} {22 + (index + 1) // 2}", size=6.5)]
    return _drawing(230, 138, [PolyLine(points, strokeColor=ACCENT, strokeWidth=1.3), *parts])


FIGURES: dict[str, Callable[[], Drawing]] = {
    figure.__name__: figure for figure in (signal, mounting, wiring, calibration, rates, trend)
}

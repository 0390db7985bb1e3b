"""Describe a picture as values: marks on panels, with a caption, and the places of labels; two modules draw it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, hypot, inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from unicodedata import east_asian_width

from catena.model import EvaluationError, ParameterError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Place: TypeAlias = tuple[float, float]
Dash: TypeAlias = Literal["solid", "dashed", "dotted", "dashdot", "dashdotdot", "long"]

LETTER_SIZE = 7.5  # points, of the letters in cards
LINE = 1.32  # heights of letters from one line to the next
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, told apart by all kinds of colour vision; their yellow is too pale for a white page."""
GREY = "#B0B0B0"
SHADE = "#F0E442"  # Okabe and Ito's yellow, for areas behind what is drawn
STACKED_WIDTH = 11.0  # inches
BACKGROUND = -1  # number of the series that is only background; the ones below it are grey too


@dataclass(frozen=True, slots=True, kw_only=True)
class Strokes:
    """Lines through places, all of one look.

    Attributes:
        width: in points.
        heads: whether a filled tip stands at the end of each.
        names: of each, shown on hovering over its middle; empty for none.
    """

    paths: Sequence[Sequence[Place]]
    label: str
    colour: str
    dash: Dash = "solid"
    width: float = 1.0
    opacity: float = 1.0
    heads: bool = False
    names: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Discs:
    """Nodes of one look.

    Attributes:
        size: diameter in points.
        shape: number of the shape, from 0, a disc.
        texts: written inside, white; empty for none.
        names: shown on hovering.
    """

    places: Sequence[Place]
    label: str
    colour: str
    size: float
    opacity: float = 1.0
    shape: int = 0
    texts: Sequence[str] = ()
    names: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A box with a coloured left edge and lines, the first `bold` of them its title; `name` shows on hovering."""

    left: float
    bottom: float
    right: float
    top: float
    lines: Sequence[str]
    colour: str
    bold: int = 1
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cards:
    """Cards, none of which touches another."""

    cards: Sequence[Card]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMarks:
    """Short texts about places, or from there on where `leading`, on white so that what lies below is no trouble."""

    places: Sequence[Place]
    texts: Sequence[str]
    size: float = LETTER_SIZE - 1
    colour: str = "#333333"
    bold: bool = False
    leading: bool = False


GraphMark: TypeAlias = Strokes | Discs | Cards | TextMarks


def letter_size(mark: Discs) -> float:
    """Return the size in points of what is written in discs, so that the longest of it fits."""
    return mark.size * (0.55 if max(map(len, mark.texts), default=0) < 3 else 0.42)


def tip(path: Sequence[Place], *, length: float) -> tuple[Place, Place, Place]:
    """Return the corners of the triangle at the end of a path, `length` inches long and 0.8 times as wide."""
    (x0, y0), (x1, y1) = path[-2], path[-1]
    reach = hypot(x1 - x0, y1 - y0) or 1.0
    dx, dy = (x1 - x0) / reach * length, (y1 - y0) / reach * length
    base = (x1 - dx, y1 - dy)
    return (x1, y1), (base[0] - 0.4 * dy, base[1] + 0.4 * dx), (base[0] + 0.4 * dy, base[1] - 0.4 * dx)


def tip_length(width: float) -> float:
    """Return how long the tip of a stroke of `width` points is, in inches."""
    return 0.07 + 0.02 * width


def middle(path: Sequence[Place]) -> Place:
    """Return the place in the middle of a path, of its points or between the two middle ones."""
    (x0, y0), (x1, y1) = path[(len(path) - 1) // 2], path[len(path) // 2]
    return (x0 + x1) / 2, (y0 + y1) / 2


def colour(number: int) -> str:
    """Return the colour of a series by its 0-based number; they repeat after seven."""
    return GREY if number < 0 else COLOURS[number % len(COLOURS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineMark:
    """A line, or a step curve that keeps its value up to the next x; it breaks where y is nan.

    Attributes:
        low, high: of a band around it; empty for none.
        filled: whether the area below is shaded.
        series: number of its colour and dashes; lines differ in both, and those below 0 are thin and grey.
    """

    x: Sequence[float]
    y: Sequence[float]
    label: str
    series: int = 0
    step: bool = False
    filled: bool = False
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    dotted: bool = False  # with a dot at each value
    hovers: bool = True  # whether its values show on hovering; not where points at the same places say more


def measured_line(
    label: str, series: int, points: Iterable[tuple[float, float, float, float]], *, banded: bool = True
) -> LineMark:
    """Return the line through points of (x, y, low, high), with a dot at each, and with their band."""
    x, y, low, high = map(list, zip(*points, strict=True))
    line = LineMark(x=x, y=y, label=label, series=series, dotted=True)
    return replace(line, low=low, high=high) if banded else line


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Points of one group; groups differ in colour and shape. `names` show on hovering; `large` ones stand out."""

    x: Sequence[float]
    y: Sequence[float]
    label: str
    series: int = 0
    names: Sequence[str] = ()
    large: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Horizontal bars at the heights y, with intervals where known (None elsewhere)."""

    y: Sequence[float]
    lengths: Sequence[float]
    label: str
    series: int = 0
    thickness: float = 0.8
    intervals: Sequence[tuple[float, float] | None] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrows:
    """Arrows from one place to another, (x, y) each."""

    tails: Sequence[tuple[float, float]]
    heads: Sequence[tuple[float, float]]
    label: str
    series: int = BACKGROUND


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """A grid of coloured cells, values between `low` and `high`; None leaves a cell empty.

    Attributes:
        values: by row, then by column; the first row is the topmost.
        names: of each cell, shown on hovering.
        texts: of each cell, written in it; empty for none.
    """

    values: Sequence[Sequence[float | None]]
    x: Sequence[float]
    names: Sequence[Sequence[str]]
    low: float
    high: float
    label: str
    texts: Sequence[Sequence[str]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """Stretches of the x axis, (first, last) each, shaded over the whole height."""

    spans: Sequence[tuple[float, float]]
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Short texts at places, centred there, or from there on where they are `leading`; `names` show on hovering."""

    x: Sequence[float]
    y: Sequence[float]
    texts: Sequence[str]
    names: Sequence[str]
    leading: bool = False


Mark: TypeAlias = LineMark | Points | Bars | Arrows | Cells | Spans | Labels | GraphMark


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis: what it measures and in which unit; `ticks` replace the numbers, `limits` are first and last."""

    label: str = ""
    ticks: Sequence[tuple[float, str]] | None = None
    limits: tuple[float, float] | None = None
    logarithmic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One pair of axes with its marks, drawn in order; a `drawing` shows no axes and is to scale."""

    marks: Sequence[Mark]
    x: Axis
    y: Axis
    title: str = ""
    drawing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A figure: panels on equal space, a title, and a caption that states the numbers.

    Attributes:
        height: in inches; the width follows from the number of panels.
        stacked: panels are one below the other, wide, instead of side by side.
        inches: the width where it does not follow from the panels.
    """

    title: str
    caption: str
    panels: Sequence[Panel]
    height: float = 4.4
    stacked: bool = False
    inches: float | None = None

    @property
    def width(self) -> float:
        """The width in inches."""
        if self.inches is not None:
            return self.inches
        if self.stacked:
            return STACKED_WIDTH
        return 8.4 if len(self.panels) == 1 else 4.0 * len(self.panels) + 1.6

    def save(self, path: str | Path) -> Path:
        """Write the picture, as PNG or as one HTML file that works offline, by the suffix; return the path.

        Raises:
            ParameterError: the suffix is neither .png nor .html.
            MissingExtraError: matplotlib (.png) or plotly (.html) is not installed.
            EvaluationError: the file cannot be written.
        """
        target = Path(path)
        if target.suffix.lower() not in (".png", ".html"):
            raise ParameterError("path", str(path), "a file name that ends in .png or .html")
        from catena_view.plots import interactive, static

        try:
            (static if target.suffix.lower() == ".png" else interactive).save(self, target)
        except OSError as error:
            raise EvaluationError(f"cannot write {target.name}: {error.strerror or 'not writable'}") from error
        return target

    @property
    def text(self) -> str:
        """Text for those who do not see the picture: title, caption, and what each panel measures."""
        panels = [_told(panel) for panel in self.panels]
        return "\n".join(part for part in (self.title, self.caption, *panels) if part)

    def figure(self) -> Figure:
        """Return the picture as a matplotlib `Figure` of its own: no window, nothing that must be closed.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        from catena_view.plots import static

        return static.draw(self)

    def interactive(self) -> Any:
        """Return the picture as a plotly `Figure`."""
        from catena_view.plots import interactive

        return interactive.draw(self)

    def _repr_png_(self) -> bytes:
        """Return what a notebook shows."""
        from catena_view.plots import static

        return static.png(self)


def _told(panel: Panel) -> str:
    """Return what a panel measures, and the names of what is drawn in it."""
    across, up = (axis.label or ", ".join(text for _, text in axis.ticks or ()) for axis in (panel.x, panel.y))
    axes = "" if panel.drawing else "; ".join(f"{side}: {told}" for side, told in (("x", across), ("y", up)) if told)
    labels = [str(getattr(mark, "label", "")) for mark in panel.marks]
    names = ", ".join(dict.fromkeys(label for label in labels if label))
    shown = f"Shown: {names}" if names else ""
    return ". ".join(part for part in (" ".join(panel.title.split()), axes, shown) if part)


def finished(picture: Picture, path: str | Path | None) -> Picture | Path:
    """Write the picture and return its path, or return it as it is where there is no path."""
    return picture if path is None else picture.save(path)


def one_panel(
    marks: Sequence[Mark], x: Axis, y: Axis, path: str | Path | None, *, title: str, caption: str, **size: Any
) -> Picture | Path:
    """Return a picture of one panel, or write it and return its path; `size` is what `Picture` takes besides."""
    return finished(Picture(title=title, caption=caption, panels=[Panel(marks=marks, x=x, y=y)], **size), path)


LETTER = 0.066  # inches that a letter of a label is wide, about
_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
LINE_HEIGHT = LETTER_SIZE * LINE / 72  # inches, of a line of a card
_NARROW, _USUAL, _CAPITAL, _WIDE = 0.36, 0.615, 0.68, 0.9  # widths of letters, in their heights, as in DejaVu Sans
_BOLD = 1.15  # how much wider bold letters are
_MARGIN = 0.2  # inches beside the text of a card


def label_rows(starts: Sequence[float], widths: Sequence[float], *, most: int) -> dict[int, int]:
    """Return number of label -> the first row, from 0, in which it touches none before it, where there is one.

    Args:
        starts: where the labels begin, ascending.
        widths: in the same unit.
        most: rows that there are.
    """
    ends: list[float] = []
    rows: dict[int, int] = {}
    for number, (start, width) in enumerate(zip(starts, widths, strict=True)):
        row = next((row for row, end in enumerate(ends) if end <= start), len(ends))
        if row < most:
            ends[row : row + 1] = [start + 1.08 * width]
            rows[number] = row
    return rows


def position_ticks(
    places: Sequence[float], positions: Sequence[int], *, letter: float, most: int = 24
) -> list[tuple[float, str]]:
    """Return ticks at round positions, and at the first after each gap, as far as their labels have room.

    Args:
        places: of the positions on the axis, ascending.
        positions: ascending.
        letter: how wide a letter is on the axis.
        most: ticks wanted, about.
    """
    step = next((size for size in _STEPS if len(positions) / size <= most), _STEPS[-1])
    ticks: list[tuple[float, str]] = []
    free, before = -inf, None
    for place, position in zip(places, positions, strict=True):
        half = (len(str(position)) + 1) * letter / 2
        if place - half >= free and (position % step == 0 or before is None or position != before + 1):
            ticks.append((place, str(position)))
            free = place + half
        before = position
    return ticks


def decades(low: float, high: float) -> list[tuple[float, str]]:
    """Return ticks at the powers of ten between two ends."""
    powers = (10.0**power for power in range(-9, 16))
    return [(power, f"{power:,.0f}" if power >= 1 else f"{power:g}") for power in powers if low <= power <= high]


def log_axis(label: str, low: float, high: float) -> Axis:
    """Return a logarithmic axis from one end to another, with the powers of ten on it."""
    return Axis(label=label, limits=(low, high), ticks=decades(low, high), logarithmic=True)


def round_ticks(low: float, high: float, *, most: int = 6) -> list[tuple[float, str]]:
    """Return ticks at about as many round numbers between two ends, which must differ."""
    steps = (base * 10.0**power for power in range(-6, 7) for base in (1, 2, 5))
    step = next((size for size in steps if (high - low) / size <= most), high - low)
    return [(number * step, f"{number * step:g}") for number in range(ceil(low / step), floor(high / step) + 1)]


def shortened(text: str, most: int) -> str:
    """Return text on one line, cut to so many letters."""
    words = " ".join(text.split())
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"


def number_of(count: int, noun: str) -> str:
    """Return e.g. "1 chain", "2,300 chains"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def width(text: str, size: float = LETTER_SIZE) -> float:
    """Return how wide a line is, in inches."""
    return sum(map(_letter, text)) * size / 72


def _letter(letter: str) -> float:
    if letter in " ijlItfr.,:;'|!()[]-/":
        return _NARROW
    if letter in "mwMW@%…—":
        return _WIDE
    if east_asian_width(letter) in "WF":
        return 1.0
    return _CAPITAL if letter.isupper() or letter.isdigit() else _USUAL


def lines_of(text: str, room: float, most: int, size: float = LETTER_SIZE, *, bold: bool = False) -> list[str]:
    """Return text in at most so many lines of so many inches; what does not fit is cut off with an ellipsis."""
    room = room / _BOLD if bold else room
    if most < 1:
        return []
    words = [piece for word in text.split() for piece in _pieces(word, room, size)]
    lines: list[str] = []
    for word in words:
        if lines and width(f"{lines[-1]} {word}", size) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    if len(lines) <= most:
        return lines
    last = lines[most - 1]
    while last and width(f"{last}…", size) > room:
        last = last[:-1]
    return [*lines[: most - 1], f"{last.rstrip(' ,;.')}…"]


def card_lines(parts: Sequence[tuple[str, int]], room: float, *, bold: bool = False) -> list[str]:
    """Return the lines of a card of so many inches: of each part at most its number of lines."""
    return [line for text, most in parts for line in lines_of(text, room - _MARGIN, most, bold=bold)]


def card_height(lines: int) -> float:
    """Return the height in inches of a card of so many lines, its title among them."""
    return 0.1 + lines * LINE_HEIGHT


def _pieces(word: str, room: float, size: float) -> list[str]:
    """Return a word, or its parts where it is wider than the room."""
    pieces = [""]
    for letter in word:
        if pieces[-1] and width(pieces[-1] + letter, size) > room:
            pieces.append("")
        pieces[-1] += letter
    return pieces

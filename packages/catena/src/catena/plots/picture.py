"""What a picture shows, as values: marks on panels, with a caption; who draws it comes later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from catena.model.errors import EvaluationError, ParameterError
from catena.plots.graph_marks import GraphMark

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, told apart by all kinds of colour vision; their yellow is too pale for a white page."""

GREY = "#B0B0B0"
SHADE = "#F0E442"  # Okabe and Ito's yellow, for areas behind what is drawn
STACKED_WIDTH = 11.0  # inches
BACKGROUND = -1  # number of the series that is only background; the ones below it are grey too


def colour(number: int) -> str:
    """Return the colour of a series by its 0-based number; they repeat after seven."""
    return GREY if number < 0 else COLOURS[number % len(COLOURS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
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


Mark: TypeAlias = Line | Points | Bars | Arrows | Cells | Spans | Labels | GraphMark


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
        from catena.plots import interactive, static

        try:
            (static if target.suffix.lower() == ".png" else interactive).save(self, target)
        except OSError as error:
            raise EvaluationError(f"cannot write {target.name}: {error.strerror or 'not writable'}") from error
        return target

    @property
    def text(self) -> str:
        """What the picture says to those who do not see it: title, caption, and what each panel measures."""
        panels = [_told(panel) for panel in self.panels]
        return "\n".join(part for part in (self.title, self.caption, *panels) if part)

    def figure(self) -> Figure:
        """Return the picture as a matplotlib `Figure` of its own: no window, nothing that must be closed.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        from catena.plots import static

        return static.draw(self)

    def interactive(self) -> Any:
        """Return the picture as a plotly `Figure`."""
        from catena.plots import interactive

        return interactive.draw(self)

    def _repr_png_(self) -> bytes:
        """Return what a notebook shows."""
        from catena.plots import static

        return static.png(self)


def _told(panel: Panel) -> str:
    """Return what a panel measures, and the names of what is drawn in it."""
    across, up = (_measured(axis) for axis in (panel.x, panel.y))
    axes = "" if panel.drawing else "; ".join(f"{side}: {told}" for side, told in (("x", across), ("y", up)) if told)
    labels = [str(getattr(mark, "label", "")) for mark in panel.marks]
    names = ", ".join(dict.fromkeys(label for label in labels if label))
    shown = f"Shown: {names}" if names else ""
    return ". ".join(part for part in (" ".join(panel.title.split()), axes, shown) if part)


def _measured(axis: Axis) -> str:
    return axis.label or ", ".join(text for _, text in axis.ticks or ())


def finished(picture: Picture, path: str | Path | None) -> Picture | Path:
    """Write the picture and return its path, or return it as it is where there is no path."""
    return picture if path is None else picture.save(path)

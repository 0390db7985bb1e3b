"""Gather the glyphs of a PDF engine to runs, tell the style of their fonts, and find hidden text.

A run has one font, one baseline, and no gap wide enough for a table cell.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

WORD_GAP = 0.15  # of the size: a wider gap between two glyphs is a space (TeX sets 0.22 to 0.5, kerning is below 0.1)
ASCENT, DESCENT = 0.8, 0.2  # of the size, above and below the baseline: near enough for every text font
CELL_GAP = 0.7  # of the size: a wider one ends the run, so that a table cell has its own x0 and x1

_BOLD = re.compile(r"bold|black|heavy|demi|medi$|cm(ss)?bx|^cmb\d|^cmcscbx|sfbx|^ecbx|[-,]bd?(?![a-z])", re.I)
_ITALIC = re.compile(r"italic|oblique|slant|cm(ti|sl|mi|ssi|itt)|sf(ti|sl)\d|^ec(ti|sl)|[-,](bd?)?it?(?![a-z])", re.I)
_MONO = re.compile(r"cour|mono|typewriter|cm(sl|it)?tt|sftt|^ectt|consol|menlo|andale|lucidaconsole|fixed", re.I)

FIXED_PITCH, ITALIC, FORCE_BOLD = 1 << 0, 1 << 6, 1 << 18  # bits of /Flags in a font descriptor (PDF 9.8.2)


@dataclass(frozen=True, slots=True)
class Style:
    """The look of a font, as far as headings and code depend on it."""

    bold: bool = False
    italic: bool = False
    mono: bool = False


class Run(NamedTuple):
    """Text between `x0` and `x1` on the baseline `y`, in points from the top left corner of the page as shown."""

    text: str
    x0: float
    x1: float
    y: float
    size: float
    style: Style
    turned: bool = False  # not from left to right: vertical or upside down
    hidden: str = ""  # "invisible" or "transparent"; "white", which is seen where something darker is painted


@dataclass(slots=True)
class Gathered:
    """Words on one baseline on their way to runs; positions are in any unit, `em` is the size in that unit."""

    em: float
    words: list[str] = field(default_factory=list)
    start: float = 0.0
    end: float = 0.0

    def add(self, text: str, start: float, end: float, *, spaced: bool) -> tuple[str, float, float] | None:
        """Add a word, after a space or not; return what a gap as wide as a table cell's has ended."""
        gap = start - self.end
        done = self.take() if self.words and (gap >= CELL_GAP * self.em or gap <= -self.em) else None
        if not self.words:
            self.start = start
        elif spaced or gap >= WORD_GAP * self.em:
            self.words.append(" ")
        self.words.append(text)
        self.end = end
        return done

    def take(self) -> tuple[str, float, float] | None:
        """Return text, start and end of what was gathered, and begin anew."""
        words, self.words = self.words, []
        return ("".join(words), self.start, self.end) if words else None


def style_of(font_name: str, flags: int = 0, weight: float = 0.0) -> Style:
    """Return the style that a font's name, descriptor flags and weight (400 is regular) tell."""
    name = font_name.removeprefix("/").rpartition("+")[2]
    return Style(
        bold=bool(_BOLD.search(name)) or bool(flags & FORCE_BOLD) or weight >= 600,
        italic=bool(_ITALIC.search(name)) or bool(flags & ITALIC),
        mono=bool(_MONO.search(name)) or bool(flags & FIXED_PITCH),
    )


_LIGATURES = {code: unicodedata.normalize("NFKC", chr(code)) for code in range(0xFB00, 0xFB07)}
_SPACES = dict.fromkeys([0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x85, 0x2028, 0x2029], " ")
_CONTROLS = dict.fromkeys([code for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in _SPACES])
_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
_CLEAN = {**_LIGATURES, **_SPACES, **_CONTROLS, **_SURROGATES}


def readable_text(text: str) -> str:
    """Spell out ligatures, drop control codes, make line breaks spaces; a lone surrogate becomes U+FFFD.

    Soft hyphens stay: whether a word goes on in the next line is for the formatter to say.
    """
    return text.translate(_CLEAN)


PageBox: TypeAlias = tuple[float, float, float, float]  # left, top, right, bottom on the page as shown, in points

INVISIBLE_MODES = frozenset({3, 7})  # of text rendering: nothing is painted (ISO 32000-1, table 106)
FILLED_MODES = frozenset({0, 4})  # only filled: seen in the colour of the filling
WHITE = 0.98  # of full light in each of red, green and blue, from which on a colour is white as paper is
TINY = 1.0  # points: smaller text cannot be read
MAX_BOXES = 5_000  # a page with more is taken for painted all over, for each white run is looked up in all
EVERYWHERE: PageBox = (float("-inf"), float("-inf"), float("inf"), float("inf"))

# zero-width space, word joiner, invisible operators, byte-order mark, language tags; the joiners U+200C and U+200D
# belong to the spelling of several scripts, and soft hyphens are the formatter's
_NO_WIDTH = re.compile("[\u180e\u200b\u2060-\u2064\ufeff\U000e0000-\U000e007f]")


def seen_runs(
    runs: Sequence[Run], size: tuple[float, float], painted: Callable[[], Iterable[PageBox]], *, keep: bool
) -> tuple[list[Run], str]:
    """Find the hidden text of a page, and leave it out unless it is kept.

    Args:
        runs: of the page; `Run.hidden` is what the engine knows of each.
        size: width and height of the page as shown, in points.
        painted: gives where something is painted that is not white; asked only where there is white text.
        keep: whether hidden text stays.

    Returns:
        The runs that stay, in their order, and what is hidden: how many characters in which way; "" for nothing.
    """
    boxes = list(painted()) if any(run.hidden == "white" for run in runs) else []
    boxes = boxes if len(boxes) <= MAX_BOXES else [EVERYWHERE]
    counts: Counter[str] = Counter()
    stay = []
    for run in runs:
        way = _way(run, size, boxes)
        if way:
            counts[way] += len(run.text.replace(" ", ""))
        elif not run.text.isascii() and (marks := len(_NO_WIDTH.findall(run.text))):
            counts["without width"] += marks
            stay.append(run._replace(text=run.text if keep else _NO_WIDTH.sub("", run.text)))
            continue
        if keep or not way:
            stay.append(run)
    return [run for run in stay if run.text.strip()], ", ".join(f"{counts[way]} {way}" for way in sorted(counts))


def hidden_by(mode: float, white: bool, alpha: float) -> str:
    """Name the way in which paint hides text, "" where it is not; `alpha` 0 lets all shine through."""
    if mode in INVISIBLE_MODES:
        return "invisible"
    if mode not in FILLED_MODES:
        return ""
    return "transparent" if alpha <= 0 else "white" if white else ""


def _way(run: Run, size: tuple[float, float], boxes: Sequence[PageBox]) -> str:
    """Name the way in which a run is hidden, "" where it is seen."""
    width, height = size
    if run.hidden and run.hidden != "white":
        return run.hidden
    above_or_below = run.y + DESCENT * run.size <= 0 or run.y - ASCENT * run.size >= height
    if run.x1 <= 0 or run.x0 >= width or (above_or_below and not run.turned):
        return "off the page"
    if run.size < TINY:
        return "too small to read"
    if run.hidden != "white":
        return ""
    x, y = (run.x0 + run.x1) / 2, run.y - run.size / 3  # the middle of its letters
    on_paper = not any(left <= x <= right and top <= y <= bottom for left, top, right, bottom in boxes)
    return "white on white" if on_paper else ""

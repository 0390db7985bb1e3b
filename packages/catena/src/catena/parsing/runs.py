"""A run of text as a PDF engine finds it: one font, one baseline, no gap wide enough for a table cell."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

WORD_GAP = 0.15  # of the size: a wider gap between two glyphs is a space (TeX sets 0.22 to 0.5, kerning is below 0.1)
CELL_GAP = 0.7  # of the size: a wider one ends the run, so that a table cell has its own x0 and x1

_BOLD = re.compile(r"bold|black|heavy|demi|medi$|cm(ss)?bx|^cmb\d|^cmcscbx|sfbx|^ecbx|[-,]bd?(?![a-z])", re.I)
_ITALIC = re.compile(r"italic|oblique|slant|cm(ti|sl|mi|ssi|itt)|sf(ti|sl)\d|^ec(ti|sl)|[-,](bd?)?it?(?![a-z])", re.I)
_MONO = re.compile(r"cour|mono|typewriter|cm(sl|it)?tt|sftt|^ectt|consol|menlo|andale|lucidaconsole|fixed", re.I)

FIXED_PITCH, ITALIC, FORCE_BOLD = 1 << 0, 1 << 6, 1 << 18  # bits of /Flags in a font descriptor (PDF 9.8.2)


@dataclass(frozen=True, slots=True)
class Style:
    """What a font looks like, as far as a reader of headings and code cares."""

    bold: bool = False
    italic: bool = False
    mono: bool = False


@dataclass(frozen=True, slots=True)
class Run:
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

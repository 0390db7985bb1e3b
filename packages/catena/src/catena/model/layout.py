"""A laid-out file: pages of lines with positions, sizes and weights, as parsers give and formatters take.

Lengths are PDF points (1/72 inch); x grows to the right, y grows *down* from the top edge of the page.
Pages are counted from 1. Lines come in reading order (columns one after the other).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from catena.model import NO_METADATA, Document, Metadata
from catena.model.merged_cells import Merged

PageState: TypeAlias = Literal["text", "no-text", "blank", "failed"]
"""A page with text; with drawings or images but no text layer (a scan); with nothing at all; not readable."""

ParseState: TypeAlias = Literal["parsed", "partial"]
"""All pages read, or some of them (`Parsed.pages` says which)."""

FailureState: TypeAlias = Literal[
    "missing", "encrypted", "empty", "no-text", "malformed", "bomb", "too-deep", "limit", "timeout", "memory",
    "unsupported",
]  # fmt: skip
"""Why a file gave no document at all: the `state` of a `ParseError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A run of text in one font on one line."""

    text: str
    x0: float
    x1: float
    size: float  # as printed: font size times the matrix scale
    bold: bool = False
    italic: bool = False
    mono: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One printed line of one column; `text` is its spans with single spaces where the gaps are."""

    text: str
    x0: float
    x1: float
    top: float
    bottom: float
    spans: tuple[Span, ...]
    column: int = 0  # 0-based, left to right

    @property
    def size(self) -> float:
        """The size that most of its characters have."""
        weights: dict[float, int] = {}
        for span in self.spans:
            weights[span.size] = weights.get(span.size, 0) + len(span.text.strip())
        return max(weights, key=lambda size: (weights[size], size), default=0.0)

    @property
    def bold(self) -> bool:
        """True where every visible character is bold."""
        inked = [span for span in self.spans if span.text.strip()]
        return bool(inked) and all(span.bold for span in inked)

    @property
    def mono(self) -> bool:
        """True where every visible character is in a fixed-width font."""
        inked = [span for span in self.spans if span.text.strip()]
        return bool(inked) and all(span.mono for span in inked)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuledTable:
    """A table whose cell borders are drawn: `rows` of equal length, cells as printed.

    Attributes:
        merged: cells over several rows or columns; their text stands in the first place, the others are empty.
    """

    x0: float
    x1: float
    top: float
    bottom: float
    rows: tuple[tuple[str, ...], ...]
    merged: tuple[Merged, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureCrop:
    """A figure as it is printed, cut out of its page with a small margin."""

    x0: float
    x1: float
    top: float
    bottom: float
    kind: Literal["bitmap", "drawing"]
    png: bytes = field(repr=False)
    width: int  # pixels
    height: int
    svg: str = field(default="", repr=False)  # of a drawing, where it is not too large


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page; a page without text says so in `state`."""

    number: int  # from 1
    width: float
    height: float
    lines: tuple[Line, ...]
    label: str = ""
    state: PageState = "text"
    note: str = ""  # why, when the state is "failed", or what may be missing or wrong in its text
    hidden: str = ""  # what text nobody sees who looks at it: how many characters in which way
    tables: tuple[RuledTable, ...] = ()
    figures: tuple[FigureCrop, ...] = ()  # from top to bottom


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineItem:
    """A bookmark of the file's own outline."""

    level: int  # from 1
    title: str
    page: int  # from 1
    top: float | None = None  # where on the page it points to, if the file says


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """All pages of one file, and its outline (empty when it has none)."""

    pages: tuple[Page, ...]
    outline: tuple[OutlineItem, ...] = ()
    title: str = ""  # of the file's metadata, often empty or wrong
    metadata: Metadata = field(default=NO_METADATA, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageNote:
    """A page that gave no text, or ("text") perhaps not all of its text or figures, or has hidden text; and why.

    What may be missing from the whole file is told of page 1.
    """

    page: int  # from 1
    state: PageState | Literal["hidden"]
    why: str

    @property
    def lost(self) -> bool:
        """True where the page gave no text, though something is on it."""
        return self.state in {"no-text", "failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """Pages and findings of one file that was read.

    Attributes:
        document: the text in reading order, pages mapped; plain for PDF, Markdown for HTML and Markdown.
        layout: positions and sizes for a formatter; None for sources without a layout.
        state: "partial" when at least one page gave no text though it shows something, or failed, or may lack some.
        notes: the pages without text, blank ones included, and those whose text may not be whole.
        retry: what to change before it is read again, where time or memory cut this reading; "" where they did not.
    """

    document: Document
    layout: Layout | None = None
    state: ParseState = "parsed"
    notes: tuple[PageNote, ...] = ()
    retry: str = ""

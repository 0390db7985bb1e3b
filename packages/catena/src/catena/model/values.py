"""The values that flow through Catena: documents, sections, chunks, views, hits and rankings.

All of them are frozen. Offsets are 0-based code points into `Document.text`, half-open [start, end);
pages and lines are counted from 1, as a reader does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from itertools import chain
from math import isfinite, isinf, isnan
from numbers import Integral, Real
from pathlib import PurePath
from struct import Struct
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from uuid import UUID

from catena.model.errors import ParameterError

Scalar: TypeAlias = str | int | float | bool
Metadata: TypeAlias = Mapping[str, Scalar]
ChunkKind: TypeAlias = Literal["text", "table", "figure"]
Where: TypeAlias = Mapping[str, Any]  # a filter; the grammar is stated in `catena.model.filters`


class FrozenMetadata(dict[str, Scalar]):
    """A dict that refuses changes; unlike a mapping proxy it pickles, hashes and compares as a dict."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> Any:
        raise TypeError("metadata is read-only: build a new value with dataclasses.replace")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return (FrozenMetadata, (dict(self),))


NO_METADATA: Metadata = FrozenMetadata()


def frozen(metadata: Metadata) -> Metadata:
    """Return a read-only copy, so that a caller's later change cannot reach into a value."""
    return metadata if isinstance(metadata, FrozenMetadata) else FrozenMetadata(metadata)


_LARGEST: Final = 10**4_000  # Python refuses to write, and to read, whole numbers that are much longer
_DEEPEST: Final = 50  # lists and mappings inside each other
_PLAIN: Final = frozenset({str, bool, type(None)})
_KEPT: Final = (
    "text, a finite number, true or false, None, a date or time, a path, a UUID, or lists and mappings of these"
)


def plain_metadata(metadata: Metadata, owner: str) -> Metadata:
    """Return metadata as every store keeps them: what JSON knows, and what stands for the other values.

    Dates and times become text in ISO 8601, moments with a zone in UTC; NumPy's numbers and truth values become
    Python's, `Decimal` a float; paths and UUIDs text; members of an `Enum` their values; tuples lists. What is
    missing, NaT or NaN, becomes None.

    Args:
        metadata: of a document or a chunk, by its field.
        owner: whose they are, for errors.

    Raises:
        ParameterError: any other value (infinity, bytes, sets, time spans, arrays, objects), a field that is no text,
            a whole number of more than 4,000 digits, or lists and mappings nested more than 50 deep.
    """
    if all(type(name) is str and _is_plain(value) for name, value in metadata.items()):
        return metadata
    return FrozenMetadata(_plain(metadata, f"metadata of {owner}", 0))


def plain_value(value: Any, name: str) -> Any:
    """Return one value as `plain_metadata` keeps it.

    Args:
        value: of metadata, or what a filter compares with them.
        name: what it is, for errors.

    Raises:
        ParameterError: as of `plain_metadata`.
    """
    return _plain(value, name, 0)


def _is_plain(value: Any) -> bool:
    kind = type(value)
    return kind in _PLAIN or (kind is int and abs(value) < _LARGEST) or (kind is float and isfinite(value))


def _plain(value: Any, name: str, depth: int) -> Any:
    if _is_plain(value):
        return value
    become = _become(value)
    if depth > _DEEPEST or become is None:
        given = value if isinstance(value, float) else f"a value of type {type(value).__name__}"
        raise ParameterError(name, given, _KEPT, "str(value), or no such field")
    if isinstance(value, Mapping):
        if strange := [field for field in value if not isinstance(field, str)]:
            raise ParameterError(f"the name of a field in {name}", strange[0], "text")
        return {str.__str__(key): _plain(each, f"{name}, field {key!r}", depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, name, depth + 1) for each in value]
    return _plain(become(value), name, depth + 1)


def _become(value: object) -> Callable[[Any], Any] | None:
    """Return what makes a plainer value of one that is not plain, None where nothing does."""
    if isinstance(value, float) and isinf(value):
        return None
    if type(value).__module__ == "numpy" and type(value).__name__ in _OF_NUMPY:
        return _OF_NUMPY[type(value).__name__]
    return next((become for kind, become in _OF_PYTHON.items() if isinstance(value, kind)), None)


def _moment(value: Any) -> str | None:
    if isinstance(value, datetime) and value.tzinfo is not None:
        with suppress(OverflowError, ValueError):  # at the ends of the calendar; of what is missing
            value = value.astimezone(UTC)  # so that the texts are in the order of the moments
    text = str(value.isoformat() if isinstance(value, date | time) else value)
    return None if text == "NaT" else text


def _number(value: Any) -> float | None:
    is_missing = value.is_nan() if isinstance(value, Decimal) else isnan(value)
    return None if is_missing else float(value)


_OF_PYTHON: Final[Mapping[type, Callable[[Any], Any]]] = {
    Mapping: dict,
    list: list,
    tuple: list,
    Enum: lambda member: member.value,
    str: str.__str__,
    date: _moment,  # and with it `datetime`, and pandas' Timestamp and NaT
    time: _moment,
    UUID: str,
    PurePath: str,
    Decimal: _number,
    Integral: int,
    Real: _number,  # and with it most numbers of NumPy
}
_OF_NUMPY: Final[Mapping[str, Callable[[Any], Any] | None]] = {
    "datetime64": _moment,
    "timedelta64": None,  # which says that it is a whole number
    "bool": bool,
    "bool_": bool,
}

PATH_SEPARATOR = " › "  # between the headings of a path, where it is written as one text
Span: TypeAlias = tuple[int, int]  # first and last, 1-based and inclusive


class PageBox(NamedTuple):
    """A rectangle on a page, in PDF points from its top left corner, as the page is shown."""

    page: int  # from 1
    x0: float
    top: float
    x1: float
    bottom: float


class PrintedText(NamedTuple):
    """The slice [start, end) of a text, and where it is printed: on one line, or as one figure."""

    start: int
    end: int
    page: int  # from 1
    x0: float
    top: float
    x1: float
    bottom: float


_PRINTED = Struct("<IH4HH")  # start, length, sides in tenths of a point, page
_SHORT = 1 << 16


def pack_boxes(printed: Iterable[PrintedText]) -> bytes:
    """Return where slices of a text are printed, in 16 bytes each, for `Document.printed`; none may overlap."""
    placed = sorted(printed)
    rows = ((start, end - start, *(round(10 * side) for side in sides), page) for start, end, page, *sides in placed)
    return b"".join(_PRINTED.pack(*row) for row in rows if all(0 <= each < _SHORT for each in row[1:]))


def unpack_boxes(printed: bytes, start: int, end: int) -> tuple[PageBox, ...]:
    """Return where the slice [start, end) of a text is printed: one box a line, in the text's order."""

    def at(number: int) -> tuple[int, ...]:
        return _PRINTED.unpack_from(printed, number * _PRINTED.size)

    count = len(printed) // _PRINTED.size
    first = max(0, bisect_right(range(count), start, key=lambda number: at(number)[0]) - 1)
    found: list[PageBox] = []
    for number in range(first, count):
        begins, length, *tenths, page = at(number)
        if begins >= end:
            break
        low, high = max(start, begins) - begins, min(end, begins + length) - begins
        if low >= high:
            continue
        x0, top, x1, bottom = (side / 10 for side in tenths)
        wide = (x1 - x0) / length
        found.append(PageBox(page, round(x0 + low * wide, 1), top, round(x0 + high * wide, 1), bottom))
    return _one_a_line(found)


def _one_a_line(boxes: Iterable[PageBox]) -> tuple[PageBox, ...]:
    """Join what follows each other on one printed line, and what overlaps a box that is there already."""
    found: list[PageBox] = []
    on_line: dict[tuple[float, ...], int] = {}
    for box in boxes:
        line = (box.page, box.top, box.bottom)
        at = on_line.get(line, -1)
        last = found[at] if at >= 0 else None
        if last and last.x0 <= box.x0 and (at == len(found) - 1 or box.x0 <= last.x1):
            found[at] = last._replace(x1=max(last.x1, box.x1))
        else:
            on_line[line] = len(found)
            found.append(box)
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Place of a slice of a document, as a reader finds it.

    Attributes:
        pages, lines: first and last, 1-based and inclusive; None where the source has no pages, or nobody counted.
        page_labels: what the file prints on these two pages ("iv", "53"); None where it prints no more than their
            numbers, or nothing.
        boxes: one for each printed line; none where nobody asked, or where they are not known.
    """

    pages: Span | None = None
    page_labels: tuple[str, str] | None = None
    lines: Span | None = None
    boxes: tuple[PageBox, ...] = ()

    @classmethod
    def on_pages(cls, starts: Sequence[int], labels: Sequence[str], start: int, end: int) -> Place:
        """Return the pages of the slice [start, end), and their labels.

        Args:
            starts: offset of the first character of each page, ascending, the first 0; empty without pages.
            labels: what is printed on each page, "" on one without; empty, or one per page.
            start: offset of the first character.
            end: offset behind the last character.
        """
        if not starts:
            return cls()
        first, last = (bisect_right(starts, offset) for offset in (start, max(start, end - 1)))
        printed = (labels[first - 1], labels[last - 1]) if labels else ("", "")
        return cls.of_pages((first, last), printed)

    @classmethod
    def of_pages(cls, pages: Span, printed: tuple[str, str]) -> Place:
        """Return these pages; their labels only where both print one, and it is not the page's number."""
        told = all(printed) and printed != (str(pages[0]), str(pages[1]))
        return cls(pages=pages, page_labels=printed if told else None)

    @classmethod
    def around(cls, places: Iterable[Place]) -> Place:
        """Return the smallest place that holds all of the places, as far as each is known; boxes, if all are."""
        held = tuple(places)
        boxes = _one_a_line(chain.from_iterable(place.boxes for place in held)) if all(p.boxes for p in held) else ()
        lined = [place.lines for place in held if place.lines]
        lines = (min(first for first, _ in lined), max(last for _, last in lined)) if lined else None
        ends = [
            tuple(zip(place.pages, place.page_labels or map(str, place.pages), strict=True))
            for place in held
            if place.pages
        ]
        if not ends:
            return cls(lines=lines, boxes=boxes)
        (first, of_first), (last, of_last) = min(each[0] for each in ends), max(each[1] for each in ends)
        return replace(cls.of_pages((first, last), (of_first, of_last)), lines=lines, boxes=boxes)

    @property
    def parts(self) -> dict[str, Any]:
        """Return all of it by name: the fields of a chunk, a segment or a quote that stands there."""
        return {name: getattr(self, name) for name in _PLACE}


def lines_in(text: str, start: int, end: int) -> Span:
    """Return the first and the last line of the slice [start, end) of a text, in time linear in `end`."""
    first = text.count("\n", 0, start) + 1
    return first, first + text.count("\n", start, max(start, end - 1))


_OF_DOCUMENT: Final[tuple[tuple[str, type | tuple[type, ...], str], ...]] = (
    *((name, str, "a string") for name in ("id", "text", "title", "source", "media_type")),
    *((name, (tuple, list), "a tuple") for name in ("page_starts", "page_labels")),
    ("metadata", Mapping, "a mapping"),
)


def placed_in(starts: Sequence[int], labels: Sequence[str], printed: bytes, start: int, end: int) -> Place:
    """Return the pages of a slice, their labels and its boxes, from what a document keeps of them."""
    return replace(Place.on_pages(starts, labels, start, end), boxes=unpack_boxes(printed, start, end))


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed file: Markdown (or plain) text, and where its pages begin.

    Attributes:
        id: derived from where the file is, not from its content, so that a new version replaces the old.
        page_starts: offset of the first character of each page; empty when the source has no pages.
        page_labels: what the file prints on each page ("iv", "12"), or calls it ("slide 3", "sheet Costs"); empty,
            or one per page.
        source: the file as the caller named it, for citations.
        metadata: whatever is to be kept with it and filtered by; a store keeps them as `plain_metadata` says.
        printed: where its words are on the pages, see `unpack_boxes`; b"" where nobody looked.
    """

    id: str
    text: str
    title: str = ""
    source: str = ""
    media_type: str = "text/markdown"
    page_starts: tuple[int, ...] = ()
    page_labels: tuple[str, ...] = ()
    metadata: Metadata = field(default=NO_METADATA, hash=False)
    printed: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        for name, kinds, allowed in _OF_DOCUMENT:
            if not isinstance(getattr(self, name), kinds):
                raise ParameterError(f"{name} of a document", getattr(self, name), allowed)
        object.__setattr__(self, "metadata", frozen(self.metadata))
        starts = self.page_starts
        if starts and (starts[0] != 0 or list(starts) != sorted(starts) or starts[-1] > len(self.text)):
            raise ParameterError("page_starts", starts, "ascending offsets within the text, the first 0")
        if self.page_labels and len(self.page_labels) != len(starts):
            raise ParameterError("page_labels", self.page_labels, f"empty or {len(starts)} labels")

    def page_at(self, offset: int) -> int | None:
        """Return the 1-based page that holds `offset`, or None for a source without pages."""
        return bisect_right(self.page_starts, offset) or None if self.page_starts else None

    def place_of(self, start: int, end: int) -> Place:
        """Return pages, their labels, lines and boxes of the slice [start, end), in time linear in `end`."""
        place = placed_in(self.page_starts, self.page_labels, self.printed, start, end)
        return replace(place, lines=lines_in(self.text, start, end))

    def pages_of(self, start: int, end: int) -> Place:
        """Return the pages of the slice [start, end) and their labels, without its lines, in logarithmic time."""
        return Place.on_pages(self.page_starts, self.page_labels, start, end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A node of the heading tree; own spans follow each other and tile the document.

    Attributes:
        level: 1 for a chapter or the title; 0 for text before the first heading.
        title: the heading's text without marks; "" at level 0.
        path: the titles from the outermost heading down to and including this one.
        start: where the heading begins; the heading line belongs to the section.
        body_start: where the text after the heading begins.
        end: where the next heading of any level begins.
        tree_end: where the next heading of the same or a higher rank begins: the end of all descendants.
        parent: position of the parent section, or None.
    """

    id: str
    document_id: str
    position: int  # 0-based, in reading order
    level: int
    title: str
    path: tuple[str, ...]
    start: int
    body_start: int
    end: int
    tree_end: int
    parent: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.body_start <= self.end <= self.tree_end:
            span = (self.start, self.body_start, self.end, self.tree_end)
            raise ParameterError("section span", span, "0 <= start <= body_start <= end <= tree_end")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A contiguous piece of one document, small enough to embed and to cite.

    `document.text[start:end] == text` always holds: context is added by views, never here.

    Attributes:
        path: headings above the chunk, outermost first, its own section's title last.
        section: 0-based position of the section it was cut from.
        pages, page_labels, lines, boxes: see `Place`; boxes are asked for, and tell no two chunks apart.
    """

    id: str
    document_id: str
    position: int  # 0-based place in reading order
    start: int
    end: int
    text: str
    kind: ChunkKind = "text"
    path: tuple[str, ...] = ()
    section: int = 0
    pages: Span | None = None
    page_labels: tuple[str, str] | None = None
    lines: Span | None = None
    boxes: tuple[PageBox, ...] = field(default=(), compare=False)
    metadata: Metadata = field(default=NO_METADATA, hash=False)

    def __post_init__(self) -> None:
        _check_slice(self, "chunk")

    @property
    def place(self) -> Place:
        """Return where it stands for a reader."""
        return _place(self)

    def as_segment(self) -> Segment:
        """Return the same slice as a segment of one chunk."""
        return Segment(**_shared(self), chunk_ids=(self.id,), positions=(self.position, self.position))


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One text under which a chunk is found: raw, headed, table, keywords, summary, caption.

    Attributes:
        made: hash of all that the text was made from (maker, model, the chunk's text and titles), so that an equal
            one can be taken over instead of made again; "" where nobody said.
    """

    chunk_id: str
    kind: str
    text: str
    made: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of a document: its picture, and what is written about it on the page.

    Attributes:
        name: of its file; made from the document's id, the page and a number, see `catena.model.figures`.
        page: from 1.
        box: left, top, right, bottom on the page, in points, y downwards from its top edge.
        kind: "bitmap" or "drawing" (lines, areas and text, maybe with bitmaps among them).
        width, height: of the picture, in pixels.
        title: what its printed caption begins with, "" where it has none.
        labels: the text inside it.
        caption: what a model said of it, "" where none was asked.
        png: the picture.
        svg: of a drawing, the same as lines, areas and text; "" for bitmaps, and for drawings too large for that.
    """

    name: str
    page: int
    box: tuple[float, float, float, float]
    kind: Literal["bitmap", "drawing"]
    width: int
    height: int
    title: str = ""
    labels: str = ""
    caption: str = ""
    png: bytes = field(default=b"", repr=False)
    svg: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """All that one document puts into a store: its text, how it is cut, and how each chunk is found.

    Attributes:
        views: at least one per chunk; a route searches the views of the kind it is told.
        terms: per chunk, in order, its critical terms (titles above it, product codes, …), normalised; a
            query that names one of them exactly finds the chunk by the keyword route. A term that stands w
            times weighs w.
        fingerprint: hash of the source bytes and of how they were cut; equal means nothing to do.
        figures: those that the text shows, in order.
        left_out: positions of the sections, ascending, whose text is in no chunk on purpose: left out by their
            titles, or nothing to read. Of all others every visible character is in a chunk or in a title.

    The metadata of its document and chunks are plain, see `plain_metadata`.
    """

    document: Document
    sections: tuple[Section, ...]
    chunks: tuple[Chunk, ...]
    views: tuple[View, ...]
    terms: tuple[tuple[str, ...], ...] = ()
    fingerprint: str = ""
    figures: tuple[Figure, ...] = ()
    left_out: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        document, chunks = self.document, self.chunks
        plain = plain_metadata(document.metadata, f"document {document.id!r}")
        if plain is not document.metadata:
            object.__setattr__(self, "document", replace(document, metadata=plain))
        of_chunks = [plain_metadata(chunk.metadata, f"chunk {chunk.id!r}") for chunk in chunks]
        if any(plain is not chunk.metadata for plain, chunk in zip(of_chunks, chunks, strict=True)):
            pairs = zip(chunks, of_chunks, strict=True)
            object.__setattr__(self, "chunks", tuple(replace(chunk, metadata=plain) for chunk, plain in pairs))


class Scale(Enum):
    """The unit of a score; stages check it, because scores of unlike units do not add up."""

    SIMILARITY = "similarity"  # as the route returned it, higher is better
    NORMALIZED = "normalized"  # weighted sum of normalised route scores: comparable within one query
    RANK = "rank"  # only the order means anything
    PROBABILITY = "probability"  # calibrated P(relevant | query, chunk), in [0, 1]
    VALUE = "value"  # summed (probability - penalty) of a segment, unbounded


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """One way by which a hit was found."""

    route: str
    rank: int | None  # from 1, in that route's ranking; None when the chunk was asked for by id
    score: float  # raw, in that route's own unit
    view: str = "raw"
    share: float | None = None  # of the hit's score, where that is a sum over routes


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk with its score in the ranking's scale, and every route that found it."""

    chunk: Chunk
    score: float
    provenance: tuple[Provenance, ...] = ()

    def __post_init__(self) -> None:
        if isnan(self.score):
            raise ParameterError("score", self.score, "a number")


@dataclass(frozen=True, slots=True)
class Degraded:
    """A part that failed while the rest went on: `what` names it, `why` says what happened."""

    what: str
    why: str


NO_DOCUMENTS = "it holds no documents"
"""Why a part of a search found nothing: the library that was asked is empty, as one is that a mistyped path made."""


@dataclass(frozen=True, slots=True)
class Name:
    """A name of documents that a question says, normalised.

    Attributes:
        documents: ids of those that bear it.
        headed: ids of chunks of others that stand under a heading with the name.
    """

    text: str
    documents: tuple[str, ...]
    headed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unknown:
    """A name that a question says and that stands nowhere in what was searched; `near`: names that do, like it."""

    text: str
    near: tuple[str, ...] = ()

    def __str__(self) -> str:
        near = f"; near it: {', '.join(self.near)}" if self.near else ""
        return f"{self.text!r} stands nowhere in the documents{near}"


def nowhere_in_words(unknown: Iterable[Unknown]) -> str:
    """Return sentences that say which names of a question stand nowhere, and what is like them; "" for none."""
    return "".join(f"{name}. " for name in unknown).rstrip()


@dataclass(frozen=True, slots=True)
class Ranking:
    """Hits of one query, best first, one per chunk.

    Attributes:
        degraded: parts that failed while the rest went on.
        unknown: names in the question that stand nowhere in what was searched.
        left_out: routes whose hits counted for nothing in the sum: the dense one, where it finds other documents
            than the words do, as in a language that its embedder does not know.
    """

    hits: tuple[Hit, ...]
    scale: Scale
    degraded: tuple[Degraded, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(cls, hits: Iterable[Hit], scale: Scale, degraded: Iterable[Degraded] = ()) -> Ranking:
        """Keep the best hit of each chunk; ties go by chunk id, so runs are reproducible."""
        best: dict[str, Hit] = {}
        for hit in sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id)):
            best.setdefault(hit.chunk.id, hit)
        return cls(tuple(best.values()), scale, tuple(degraded))

    def top(self, k: int) -> Ranking:
        """Return the first k hits."""
        return replace(self, hits=self.hits[:k])


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A run of adjacent chunks of one document, as one exact slice for the reader.

    Attributes:
        path: the headings that all of it stands under.
        pages, page_labels, lines, boxes: see `Place`.
        positions: of its first and its last chunk, 0-based and inclusive; None where nobody counted them.
        metadata: what all its chunks say of their document, as title and source.
    """

    id: str
    document_id: str
    start: int
    end: int
    text: str
    path: tuple[str, ...]
    chunk_ids: tuple[str, ...]
    pages: Span | None = None
    page_labels: tuple[str, str] | None = None
    lines: Span | None = None
    boxes: tuple[PageBox, ...] = field(default=(), compare=False)
    positions: tuple[int, int] | None = None
    metadata: Metadata = field(default=NO_METADATA, hash=False)

    def __post_init__(self) -> None:
        _check_slice(self, "segment")

    @property
    def place(self) -> Place:
        """Return where it stands for a reader."""
        return _place(self)

    def as_chunk(self) -> Chunk:
        """Return the same slice as a chunk, so that what ranks, rates or cites chunks does so with segments."""
        return Chunk(**_shared(self), position=self.positions[0] if self.positions else 0)


_PLACE: Final = ("pages", "page_labels", "lines", "boxes")
_SHARED: Final = ("id", "document_id", "start", "end", "text", "path", *_PLACE, "metadata")


def _place(piece: Chunk | Segment) -> Place:
    return Place(**{name: getattr(piece, name) for name in _PLACE})


def _shared(piece: Chunk | Segment) -> dict[str, Any]:
    """Return what a chunk and a segment of the same text have in common."""
    return {name: getattr(piece, name) for name in _SHARED}


def _check_slice(piece: Chunk | Segment, name: str) -> None:
    object.__setattr__(piece, "metadata", frozen(piece.metadata))
    if piece.end - piece.start != len(piece.text) or piece.start < 0:
        raise ParameterError(f"{name} span", (piece.start, piece.end), f"a span of {len(piece.text)} characters")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One edge between two chunks of the chunk-interaction graph, with a weight for each kind of interaction.

    Attributes:
        weights: by kind, above 0, sorted by kind; a kind that does not join the two is not there.
        words: by kind, what the two share there: keywords, names, or the title that one says of the other.

    Source: IIER (arXiv 2408.02907), section 3.1: e_ij = (W_struc, W_sim, W_keyword).
    """

    weights: Mapping[str, float] = field(hash=False)
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    @property
    def triple(self) -> tuple[float, float, float]:
        """Return (W_struc, W_sim, W_keyword), 0 where a kind does not join the two."""
        structural, semantic, keyword = (self.weights.get(k, 0.0) for k in ("structural", "semantic", "keyword"))
        return structural, semantic, keyword


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One chunk of a chain, and why it is there.

    Attributes:
        score: of the scorer, given the query and the path before it; of a seed that of its selection.
        came_from: id of the chunk before it whose neighbour it is; "" for a seed, and for a chunk that was taken from
            the first ranking instead of from the graph.
        edge: what joins the two; None where `came_from` is "".
        words: what of the question it is the first in the chain to cover.
    """

    chunk: Chunk
    score: float
    came_from: str = ""
    edge: Edge | None = None
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Chain:
    """An ordered walk over the chunk-interaction graph, seed first, with the reason for each hop."""

    hops: tuple[Hop, ...]

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """Return the chunks, in the order of the walk."""
        return tuple(hop.chunk for hop in self.hops)


TABLE_HEADER: Final = "table_header"
"""Metadata key: the caption, the header row and the open groups of the table that a slice goes on with."""


def common_metadata(chunks: Sequence[Chunk]) -> Metadata:
    """Return what all of the chunks say, in the order in which the first says it; nothing of no chunks.

    The header of the table that the first goes on with is that of their slice.
    """
    first, others = (chunks[0].metadata, chunks[1:]) if chunks else (NO_METADATA, ())
    return FrozenMetadata(
        {
            key: value
            for key, value in first.items()
            if key == TABLE_HEADER or all(_same(other.metadata.get(key), value) for other in others)
        }
    )


def _same(one: object, other: object) -> bool:
    """Return whether two values are equal; arrays, whose comparison is none, where they are one and the same."""
    try:
        return one is other or bool(one == other)
    except (TypeError, ValueError):
        return False


IngestState: TypeAlias = Literal["indexed", "partial", "failed", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of one input; together they are the ledger of a run.

    Attributes:
        cut: time or memory ended its reading: the next run reads it again.
        moved_from: ids under which the library held the same bytes, of files that are gone: it stands in their place.
    """

    source: str
    document_id: str
    state: IngestState
    reason: str = ""
    chunks: int = 0
    pages: int = 0
    failed_pages: tuple[int, ...] = ()  # 1-based
    cut: bool = False
    moved_from: tuple[str, ...] = ()

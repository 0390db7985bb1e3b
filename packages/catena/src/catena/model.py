"""The values that flow through Catena: documents, sections, chunks, views, hits and rankings.

All of them are frozen. Offsets are 0-based code points into `Document.text`, half-open [start, end);
pages and lines are counted from 1, as a reader does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import isnan
from typing import Any, Literal, TypeAlias

from catena.errors import ParameterError

Scalar: TypeAlias = str | int | float | bool
Metadata: TypeAlias = Mapping[str, Scalar]
ChunkKind: TypeAlias = Literal["text", "table", "figure"]
Where: TypeAlias = Mapping[str, Any]  # a filter; the grammar is stated in `catena.filters`


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed file: Markdown (or plain) text, and where its pages begin.

    Attributes:
        id: derived from where the file is, not from its content, so that a new version replaces the old.
        page_starts: offset of the first character of each page; empty when the source has no pages.
        page_labels: what the file prints on each page ("iv", "12"); empty, or one per page.
        source: the file as the caller named it, for citations.
    """

    id: str
    text: str
    title: str = ""
    source: str = ""
    media_type: str = "text/markdown"
    page_starts: tuple[int, ...] = ()
    page_labels: tuple[str, ...] = ()
    metadata: Metadata = field(default=NO_METADATA, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "metadata", frozen(self.metadata))
        starts = self.page_starts
        if starts and (starts[0] != 0 or list(starts) != sorted(starts) or starts[-1] > len(self.text)):
            raise ParameterError("page_starts", starts, "ascending offsets within the text, the first 0")
        if self.page_labels and len(self.page_labels) != len(starts):
            raise ParameterError("page_labels", self.page_labels, f"empty or {len(starts)} labels")

    def page_at(self, offset: int) -> int | None:
        """Return the 1-based page that holds `offset`, or None for a source without pages."""
        return bisect_right(self.page_starts, offset) or None if self.page_starts else None

    def pages_of(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the first and the last page (1-based, inclusive) of the slice [start, end)."""
        first, last = self.page_at(start), self.page_at(max(start, end - 1))
        return None if first is None or last is None else (first, last)

    def lines_of(self, start: int, end: int) -> tuple[int, int]:
        """Return the first and the last line (1-based, inclusive) of the slice [start, end)."""
        first = self.text.count("\n", 0, start) + 1
        return first, first + self.text.count("\n", start, max(start, end - 1))


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
        pages, lines: first and last, 1-based and inclusive.
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
    pages: tuple[int, int] | None = None
    lines: tuple[int, int] | None = None
    metadata: Metadata = field(default=NO_METADATA, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "metadata", frozen(self.metadata))
        if self.end - self.start != len(self.text) or self.start < 0:
            raise ParameterError("chunk span", (self.start, self.end), f"a span of {len(self.text)} characters")

    def as_segment(self) -> Segment:
        """Return the same slice as a segment of one chunk."""
        return Segment(
            id=self.id,
            document_id=self.document_id,
            start=self.start,
            end=self.end,
            text=self.text,
            path=self.path,
            chunk_ids=(self.id,),
            pages=self.pages,
            lines=self.lines,
            positions=(self.position, self.position),
            metadata=self.metadata,
        )


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
        name: of its file; made from the document's id, the page and a number, see `catena.figures`.
        page: from 1.
        box: left, top, right, bottom on the page, in points, y downwards from its top edge.
        kind: "bitmap" or "drawing" (lines, areas and text, maybe with bitmaps among them).
        width, height: of the picture, in pixels.
        title: what its printed caption begins with, "" where it has none.
        labels: the text inside it.
        caption: what a model said of it, "" where none was asked.
        png: the picture.
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
    """

    document: Document
    sections: tuple[Section, ...]
    chunks: tuple[Chunk, ...]
    views: tuple[View, ...]
    terms: tuple[tuple[str, ...], ...] = ()
    fingerprint: str = ""
    figures: tuple[Figure, ...] = ()
    left_out: tuple[int, ...] = ()


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


@dataclass(frozen=True, slots=True)
class Name:
    """A name of documents that a question says, normalised, and the ids of the documents that bear it."""

    text: str
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """A name that a question says and that stands nowhere in what was searched; `near`: names that do, like it."""

    text: str
    near: tuple[str, ...] = ()

    def __str__(self) -> str:
        near = f"; near it: {', '.join(self.near)}" if self.near else ""
        return f"{self.text!r} stands nowhere in the documents{near}"


@dataclass(frozen=True, slots=True)
class Ranking:
    """Hits of one query, best first, one per chunk.

    Attributes:
        degraded: parts that failed while the rest went on.
        unknown: names in the question that stand nowhere in what was searched.
    """

    hits: tuple[Hit, ...]
    scale: Scale
    degraded: tuple[Degraded, ...] = ()
    unknown: tuple[Unknown, ...] = ()

    @classmethod
    def of(cls, hits: Iterable[Hit], scale: Scale, degraded: Iterable[Degraded] = ()) -> Ranking:
        """Keep the best hit of each chunk; ties go by chunk id, so runs are reproducible."""
        best: dict[str, Hit] = {}
        for hit in sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id)):
            best.setdefault(hit.chunk.id, hit)
        return cls(tuple(best.values()), scale, tuple(degraded))

    def top(self, k: int) -> Ranking:
        """Return the first k hits."""
        return Ranking(self.hits[:k], self.scale, self.degraded, self.unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A run of adjacent chunks of one document, as one exact slice for the reader.

    Attributes:
        path: the headings that all of it stands under.
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
    pages: tuple[int, int] | None = None
    lines: tuple[int, int] | None = None
    positions: tuple[int, int] | None = None
    metadata: Metadata = field(default=NO_METADATA, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "metadata", frozen(self.metadata))
        if self.end - self.start != len(self.text) or self.start < 0:
            raise ParameterError("segment span", (self.start, self.end), f"a span of {len(self.text)} characters")

    def as_chunk(self) -> Chunk:
        """Return the same slice as a chunk, so that what ranks, rates or cites chunks does so with segments."""
        return Chunk(
            id=self.id,
            document_id=self.document_id,
            position=self.positions[0] if self.positions else 0,
            start=self.start,
            end=self.end,
            text=self.text,
            path=self.path,
            pages=self.pages,
            lines=self.lines,
            metadata=self.metadata,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """What joins two chunks of the chunk-interaction graph: one edge, with a weight for each kind of interaction.

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


def common_metadata(chunks: Sequence[Chunk]) -> Metadata:
    """Return what all of the chunks say, in the order in which the first says it; nothing of no chunks."""
    first, others = (chunks[0].metadata, chunks[1:]) if chunks else (NO_METADATA, ())
    return FrozenMetadata(
        {key: value for key, value in first.items() if all(other.metadata.get(key) == value for other in others)}
    )


IngestState: TypeAlias = Literal["indexed", "partial", "failed", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one input ended; together they are the ledger of a run."""

    source: str
    document_id: str
    state: IngestState
    reason: str = ""
    chunks: int = 0
    pages: int = 0
    failed_pages: tuple[int, ...] = ()  # 1-based

"""Hold what a report page shows, as frozen values that are JSON as they stand: no pictures drawn, no markup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A part of the page that cannot be shown: why, and what would bring it."""

    missing: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionRow:
    """A section of the document tree.

    Attributes:
        position: 0-based, in its document.
        level: of its heading, from 1; 0 for text before the first heading.
        where: its pages in words, "" for a source without pages.
        hits: ranks, from 1, of the hits that were cut from it.
    """

    position: int
    level: int
    title: str
    where: str
    chunks: int
    hits: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRow:
    """A document of the tree; `sections` is None where it was not read."""

    id: str
    title: str
    state: str
    chunks: int
    pages: int
    hits: tuple[int, ...]
    sections: tuple[SectionRow, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The documents: those with hits first, by rank, the others by id; `more` are not listed."""

    documents: tuple[DocumentRow, ...]
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBy:
    """A route that found a hit: its rank there, from 1 (None: asked for by id), and its raw score in its own unit."""

    route: str
    rank: int | None
    score: float | None
    view: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A route's part of a score."""

    route: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The preview of a hit: rows of its table, of which `more` are left out, and some of its text."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HitRow:
    """A hit of the ranking.

    Attributes:
        rank: from 1.
        section: 0-based position of its section in its document.
        terms: critical terms of the chunk that the question says.
        turn: the name in whose turn it came, "" where names took none.
        parts: of the score; none where the score is no sum of parts.
        whole: what the parts add up to.
        page: a picture of the page with the passage marked, as a data URI; "" where the file is not at hand.
    """

    rank: int
    document: str
    section: int
    citation: str
    kind: str
    score: float | None
    text: str
    preview: Preview
    terms: tuple[str, ...]
    turn: str
    ways: tuple[FoundBy, ...]
    parts: tuple[Part, ...]
    whole: float
    page: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """The ranking, and what is to be known of it; `formula` says how scores came about.

    `notice` is what a reader must know before reading it, "" for nothing.
    """

    scale: str
    formula: str
    notice: str = ""
    hits: tuple[HitRow, ...]
    degraded: tuple[str, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A chunk along its document.

    Attributes:
        position: 0-based, in its document.
        place: on the x axis; two apart where positions are missing between.
        value: its worth to the query that it serves most.
        rank: from 1 in that query's ranking; None where it was not found.
        segment: number of its segment, from 1; None: in none.
        why: it is in none.
    """

    position: int
    place: float
    value: float
    rank: int | None
    probability: float
    segment: int | None
    why: str
    title: str
    excerpt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentShown:
    """A segment on the x axis; `number` counts all segments, from 1."""

    number: int
    first: float
    last: float
    value: float
    citation: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The chunks of one document and the segments taken from it."""

    document: str
    title: str
    bars: tuple[Bar, ...]
    spans: tuple[SegmentShown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Segments of the best documents; `used` of `budget` is in `unit`."""

    penalty: float
    used: int
    budget: int
    unit: str
    caption: str
    degraded: tuple[str, ...]
    curves: tuple[Curve, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMark:
    """A node of the graph at a place in the unit rectangle (y downwards); `group` is the number of its document."""

    x: float
    y: float
    group: int
    citation: str
    excerpt: str
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMark:
    """A document of the graph: as one disc of the cluster view, at its own place; `tone` is -1 for grey."""

    title: str
    tone: int
    x: float
    y: float
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeKind:
    """One kind of edge; `edges` is flat: two nodes and a weight, again and again."""

    kind: str
    dash: str
    edges: tuple[float, ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HopRow:
    """One hop of a chain: its node, the number (from 1) of the hop it came from, and the reasons, as text."""

    node: int
    citation: str
    score: float | None
    came_from: int | None
    reasons: tuple[str, ...]
    words: tuple[str, ...]
    excerpt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphShown:
    """The graph around the chains, or all of it; `by_document`: each document's nodes lie together."""

    nodes: tuple[NodeMark, ...]
    groups: tuple[GroupMark, ...]
    kinds: tuple[EdgeKind, ...]
    chains: tuple[tuple[HopRow, ...], ...]
    keywords: tuple[str, ...]
    whole: bool
    by_document: bool
    caption: str
    degraded: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRow:
    """Fidelity of the Markdown of a page: shares in [0, 1]."""

    page: int
    recall: float
    precision: float
    order: float
    state: str
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """The pages of one converted document."""

    title: str
    caption: str
    pages: tuple[PageRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strips:
    """All conversions that were given."""

    strips: tuple[Strip, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureShown:
    """A picture as a data address, with its caption, which states its numbers."""

    title: str
    caption: str
    image: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Studies:
    """Scores of the library on questions with known answers; `rows` are measures by kind of question."""

    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    figures: tuple[FigureShown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportContents:
    """Everything on the page.

    Attributes:
        facts: name -> value, in the order shown.
    """

    question: str
    name: str
    facts: Mapping[str, str]
    ranking: Hits
    tree: Tree
    segments: Curves | Missing
    graph: GraphShown | Missing
    fidelity: Strips | Missing
    studies: Studies | Missing

"""The standard composition of the parts, meant to be read and copied: file to entry, entry to vectors.

    file -parse-> Parsed -format-> Document -outline-> Section* -cut-> Chunk* -views, terms-> Entry -embed-> store

Each arrow is a function of one stage, or a step where a model may be asked; leave one out, repeat it, or put your own
in its place. `catena.library.ingestion` is the whole way from a parsed file to an entry, with all that models add.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from annotated_types import Ge

from catena import prompts
from catena.effects import Complete, Recognise, Request, Step, embed_texts
from catena.enrichment import KIND as GRAPH_KEYWORDS
from catena.enrichment import ContextOptions, CriticalTermOptions, ViewMaker, critical_terms
from catena.enrichment.context_llm import versions as prompt_versions
from catena.enrichment.entities import CodeDetector, Detector, ExpertDetector, LLMDetector, RecognizerDetector
from catena.formatting import FormatOptions, LayoutOptions, format_layout, with_boxes
from catena.model import TABLE_HEADER, Chunk, Document, Entry, Figure, ParameterError, Parsed, Section, View, digest
from catena.model.figures import CAPTION as SAID
from catena.model.figures import FIGURE
from catena.model.options import Checked, as_tuples, check_options
from catena.model.places import FILE_IN_CITATION, GENERATED_TITLE, SOURCE, TITLE
from catena.model.vectors import DEFAULT, ViewVectors, text_digest
from catena.parsing import Engine, Limits, file_bytes, parse_bytes, usual_engine
from catena.structure import DOCUMENT_SUMMARY, SECTION_SUMMARY, SegmentOptions, content_outline, mark_figures, outline
from catena.structure.blocks import Block, blocks_of
from catena.structure.chunking import HEADING_ONLY, ChunkOptions, SectionChunkOptions, cut, cut_fixed, cut_sections
from catena.structure.embedding_segmentation import EmbeddingOptions
from catena.structure.passages import PASSAGE, PASSAGE_TOKENS, passage_views
from catena.structure.views import CAPTION, CONTEXT, TABLE, headed_views, searchable, table_views, with_figure_views
from catena.text.files import stem_text
from catena.text.headings import plain_title

CHUNK_KEYS = frozenset(
    {TITLE, SOURCE, FILE_IN_CITATION, GENERATED_TITLE, HEADING_ONLY, TABLE_HEADER, FIGURE, SAID}
    | {DOCUMENT_SUMMARY, SECTION_SUMMARY}
)
"""Metadata keys with which a chunk says something of itself: a document's metadata of these names stay with it."""

_SHOWN = 20  # pages in a note


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedLength(Checked):
    """Chunks of whole sentences up to a number of tokens, whatever they are about.

    Attributes:
        tokens: the cap, >= 1; 100, 200 and 300 are those of the paper's tables.
        inside_sections: whether chunks end where sections do ("FLC with content").

    Source: the fixed-length baselines of MC-indexing (Dong et al., 2024).
    """

    tokens: Annotated[int, Ge(1)] = 300
    inside_sections: bool = True


Chunking: TypeAlias = ChunkOptions | SectionChunkOptions | FixedLength
"""The kind of chunks: a short piece, a whole smallest division, or a fixed length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """Settings by which files become entries; part of each entry's fingerprint, so that a change re-indexes.

    Attributes:
        chunks: what a chunk is: a short piece of a section (`ChunkOptions`), a whole section, as in MC-indexing
            (`SectionChunkOptions`), or a fixed length (`FixedLength`). What is longer than a vector can say is found
            by its passages, too.
        passage_tokens: the length of these passages, >= 1; whole sections and fixed lengths have them, short pieces
            do not.
        views: makers of further views: `Keywords()`, `Summaries()`, `Questions()`, or your own.
        ruled_tables: find drawn tables in PDFs (the extra `tables`).
        embed_tables: what the dense route is given of a table: its "definition" (titles, description, names of
            columns and rows) or the "whole". The lexical route and the reader have the whole table either way.
        engine: the PDF reader, "pypdfium2" (the extra `fast-pdf`) or "pypdf"; None is the first that is installed.
        figures: crop the figures of PDFs and index them; only pypdfium2 can, the other engine gives none.
        hidden_text: keep the text of PDFs that nobody sees who looks at a page, such as the layer that OCR puts below
            a scan, or white text on white; the outcome tells of it either way.
        ocr: read what is seen on the pages of PDFs that have no text (the extra `ocr`).
        format_with_llm: let the run's language model write the Markdown of files that are not Markdown already, as
            `format_markdown` does; None leaves it to the layout formatter.
        detectors: find critical entities besides those that `terms` finds; they may ask the run's language model
            or entity recogniser. A detector of your own is known by its `repr` where it is a dataclass, else by
            its type and name: change one of these when it finds other things.
        segmentation: divide documents into sections by meaning instead of by printed headings: `SegmentOptions` asks
            the run's language model, `EmbeddingOptions` the embedder; with `under="headings"` they divide what is
            long below the headings. None takes the headings.
        context: make titles and summaries of documents and sections, by the run's language model or offline, and put
            them into the chunks' metadata and views; None makes none.
    """

    chunks: Chunking = field(default_factory=ChunkOptions)
    passage_tokens: Annotated[int, Ge(1)] = PASSAGE_TOKENS
    views: tuple[ViewMaker, ...] = ()
    terms: CriticalTermOptions = field(default_factory=CriticalTermOptions)
    layout: LayoutOptions = field(default_factory=LayoutOptions)
    limits: Limits = field(default_factory=Limits)
    engine: Engine | None = None
    ruled_tables: bool = False
    embed_tables: Literal["definition", "whole"] = "whole"  # the better one where measured: decision 12
    figures: bool = False
    hidden_text: bool = True
    ocr: bool = False
    format_with_llm: FormatOptions | None = None
    detectors: tuple[Detector, ...] = ()
    segmentation: SegmentOptions | EmbeddingOptions | None = None
    context: ContextOptions | None = None

    def __post_init__(self) -> None:
        as_tuples(self, "views", "detectors")
        check_options(self)
        _check_makers(self.views)

    def fingerprint(self, content: bytes | str) -> str:
        """Return the hash of a content and of all that decides how it is cut."""
        decides: list[object] = [self.chunks, self.terms, self.layout, self.engine or usual_engine()]
        decides += [self.ruled_tables, self.embed_tables]
        decides += ["figures"] * self.figures  # what is left out leaves the fingerprints of older libraries alone
        decides += ["no hidden text"] * (not self.hidden_text) + ["ocr"] * self.ocr
        decides += [self.format_with_llm] * (self.format_with_llm is not None)
        decides += [("detectors", *map(_known_by, self.detectors))] * bool(self.detectors)
        if self.segmentation is not None:
            decides += [("segmentation", self.segmentation, prompts.load("segment_lines").version)]
        if self.context is not None:
            decides += [("context", self.context, *(prompt_versions() if self.context.asks_model else ()))]
        if self.has_passages:
            decides += [("passages", self.passage_tokens)]
        decides += [("views", *((maker.kind, maker.version) for maker in self.views))] * bool(self.views)
        return digest(content, repr(tuple(decides)))

    @property
    def has_passages(self) -> bool:
        """True where chunks may be longer than a vector can say, so that they are found by their passages, too."""
        return not isinstance(self.chunks, ChunkOptions)

    @property
    def asks(self) -> frozenset[type[Request]]:
        """The types of request that indexing cannot do without."""
        of_detectors = frozenset[type[Request]]().union(*(_ASKED.get(type(each), ()) for each in self.detectors))
        by_model = (
            self.format_with_llm is not None
            or isinstance(self.segmentation, SegmentOptions)
            or (self.context is not None and self.context.asks_model)
            or any(maker.asks_model for maker in self.views)
        )
        return of_detectors | frozenset([Complete] * by_model)

    @property
    def may_ask(self) -> frozenset[type[Request]]:
        """The types of request that indexing may make: a detector of one's own may ask what it likes."""
        own = any(type(each) not in _ASKED for each in self.detectors)
        return self.asks | frozenset({Complete, Recognise} if own else ())


_ASKED: Mapping[type, tuple[type[Request], ...]] = {
    LLMDetector: (Complete,),
    RecognizerDetector: (Recognise,),
    ExpertDetector: (),
    CodeDetector: (),
}


def _check_makers(makers: Sequence[ViewMaker]) -> None:
    """Refuse what makes no views of a kind of its own, before anything is asked of a model."""
    for maker in makers:
        if isinstance(maker, type):
            raise ParameterError("views", maker, "makers of views that are made: Keywords(), not Keywords")
        if maker.kind in _OWN or not maker.kind:
            taken = ", ".join(sorted(_OWN))
            raise ParameterError("kind of a view maker", maker.kind, f"a name, and none that Catena takes: {taken}")


def _known_by(detector: Detector) -> str:
    return repr(detector) if is_dataclass(detector) else f"{type(detector).__qualname__}: {detector.name}"


def read(
    path: str | Path,
    preparation: Preparation | None = None,
    *,
    document_id: str | None = None,
    source: str | None = None,
    password: str | None = None,
    layout: bool = True,
    content: bytes | None = None,
    workers: int = 1,
    on_page: Callable[[int, int], None] | None = None,
) -> Parsed:
    """Return a file as Markdown, with its pages mapped and the pages without text named.

    Args:
        path: of the file.
        preparation: who reads it, and how the layout is written.
        document_id: by default its path.
        source: its name for the reader; by default its path.
        password: opens an encrypted PDF.
        layout: False leaves the text as the parser gave it, for a model to write.
        content: of the file, where it is at hand already; None reads it.
        workers: processes among which the pages of a long PDF are divided.
        on_page: told how many pages are read, and of how many.

    Raises:
        ParseError: the file gave no document; its `state` says why.
    """
    how = preparation or Preparation()
    if content is None:
        content = file_bytes(path, source=source or str(path), limits=how.limits)
    parsed = parse_bytes(
        content,
        str(path),
        document_id=document_id,
        source=source,
        password=password,
        limits=how.limits,
        engine=how.engine,
        ruled_tables=how.ruled_tables,
        hidden_text=how.hidden_text,
        ocr=how.ocr,
        figures=how.figures,
        workers=workers,
        on_page=on_page,
    )
    if parsed.layout is None or not layout:
        return parsed
    return replace(parsed, document=with_boxes(format_layout(parsed, how.layout), parsed.layout))


def prepare(
    document: Document,
    preparation: Preparation | None = None,
    *,
    fingerprint: str = "",
    figures: Sequence[Figure] = (),
    sections: Sequence[Section] | None = None,
) -> Entry:
    """Return all that a document puts into a store: sections, chunks, headed and table views, critical terms.

    Each chunk carries its document's title, source and metadata (but for `CHUNK_KEYS`), so that any hit can be cited
    as it is.
    A heading without any text below it gives no chunk: it is in the path of those under it, and on its own
    it would crowd out what a question is about. A chunk that shows one of `figures` has their views. `sections` tile
    the text; by default they are its outline, and where they are the chunks, that of its own table of contents if it
    prints one.

    Raises:
        ParseError: "limit", where there are more sections or chunks than `Preparation.limits` allows.
    """
    how = preparation or Preparation()
    source = document.source or document.id
    blocks = blocks_of(document)
    how.limits.check_count("sections", sum(block.kind == "heading" for block in blocks), source)
    if sections is None:
        by_contents = isinstance(how.chunks, SectionChunkOptions)
        sections = content_outline(document, blocks=blocks) if by_contents else outline(document, blocks=blocks)
    sections = tuple(sections)
    title = plain_title(document.title) if document.media_type == "text/markdown" else document.title
    document = replace(document, title=title or document.title or _title(document, sections))
    how.limits.check_count("sections", len(sections), source)
    found = searchable(chunked(document, sections, how.chunks, blocks))
    how.limits.check_count("chunks", len(found), source)
    shown = {TITLE: document.title, SOURCE: source}
    own = {key: value for key, value in document.metadata.items() if key not in CHUNK_KEYS}
    chunks = tuple(
        replace(chunk, position=position, metadata={**own, **chunk.metadata, **shown})
        for position, chunk in enumerate(found)
    )
    defined = table_views(document, chunks, blocks=blocks) if how.embed_tables == "definition" else ()
    passages = passage_views(document, chunks, max_tokens=how.passage_tokens) if how.has_passages else ()
    if figures:
        chunks = mark_figures(document, chunks)
    entry = Entry(
        document=document,
        sections=sections,
        chunks=chunks,
        views=(*headed_views(document, chunks), *defined, *passages),
        terms=critical_terms(document, chunks, how.terms),
        fingerprint=fingerprint,
        figures=tuple(figures),
        left_out=_left_out(document, sections, chunks) if isinstance(how.chunks, SectionChunkOptions) else (),
    )
    if not fingerprint:
        content = repr((document.text, document.title, sorted(entry.document.metadata.items())))
        entry = replace(entry, fingerprint=how.fingerprint(content))
    return with_figure_views(entry) if figures else entry


def _title(document: Document, sections: Sequence[Section]) -> str:
    """Return the first heading of the highest rank that says something, else the name of the source, or the id."""
    titled = [section for section in sections if section.level and section.title]
    if titled:
        return min(titled, key=lambda section: (section.level, section.position)).title
    return stem_text(document.source) or document.id


def _left_out(document: Document, sections: Sequence[Section], chunks: Sequence[Chunk]) -> tuple[int, ...]:
    """Return the positions of the sections that are no chunk, and not because they are a heading alone."""
    held = {chunk.section for chunk in chunks}
    rest = (section for section in sections if section.position not in held)
    return tuple(each.position for each in rest if document.text[each.body_start : each.end].strip())


def chunked(
    document: Document, sections: Sequence[Section], how: Chunking, blocks: Sequence[Block] | None = None
) -> tuple[Chunk, ...]:
    """Return the chunks of a document, of the kind that is asked for."""
    if isinstance(how, SectionChunkOptions):
        return cut_sections(document, sections, options=how, blocks=blocks)
    if isinstance(how, FixedLength):
        return cut_fixed(document, sections if how.inside_sections else None, tokens=how.tokens)
    return cut(document, sections, options=how, blocks=blocks)


def embed(entry: Entry, *, known: Mapping[tuple[str, str], Any] | None = None) -> Step[ViewVectors]:
    """Return the vectors of an entry, each made from one view.

    The default vectors of a chunk are made from its passages, where it has some; else from the view that was made for
    it, of a table, of a figure's caption or in context; else from the headed one. Every further view (keywords,
    summary, your own) has a vector of its kind.

    Args:
        entry: with its views.
        known: vectors by (kind, `catena.model.vectors.text_digest` of the text), as `LibraryStore.known_vectors`
            gives them: what is in it is not embedded again.
    """
    places = {chunk.id: place for place, chunk in enumerate(entry.chunks)}
    rows = [(places[view.chunk_id], kind, view.text) for view, kind in _embedded(entry)]
    names = [(kind, text_digest(text)) for _, kind, text in rows]
    held = known or {}
    texts = list(dict.fromkeys(text for (_, _, text), name in zip(rows, names, strict=True) if name not in held))
    if not rows:  # an entry without chunks: the store says why it takes none
        return ViewVectors.default(np.zeros((0, 0), np.float32))
    made = dict(zip(texts, (yield from embed_texts(texts, f"embedding {entry.document.id}")), strict=True))
    return ViewVectors(
        rows=np.stack([held[name] if name in held else made[row[2]] for row, name in zip(rows, names, strict=True)]),
        chunks=tuple(place for place, _, _ in rows),
        kinds=tuple(kind for _, kind, _ in rows),
        digests=tuple(name for _, name in names),
    )


_OWN = frozenset({"raw", "headed", CONTEXT, CAPTION, TABLE, PASSAGE})
_NOT_EMBEDDED = _OWN | {GRAPH_KEYWORDS}  # unless as a chunk's default


def _embedded(entry: Entry) -> Iterator[tuple[View, str]]:
    """Yield what is embedded, and as which kind: first the chunks' default views, in the order of the chunks."""
    passages = {view.chunk_id for view in entry.views if view.kind == PASSAGE}
    kinds = ("headed", CONTEXT, CAPTION, TABLE)  # the later ones first
    own = {view.chunk_id: view for kind in kinds for view in entry.views if view.kind == kind}
    defaults: dict[str, list[View]] = {chunk.id: [] for chunk in entry.chunks}
    for view in entry.views:
        in_its_place = view.kind == PASSAGE if view.chunk_id in passages else view is own[view.chunk_id]
        if in_its_place or (view.chunk_id in passages and view.kind in (CAPTION, TABLE)):
            defaults[view.chunk_id].append(view)
    for views in defaults.values():
        yield from ((view, DEFAULT) for view in views)
    yield from ((view, view.kind) for view in entry.views if view.kind not in _NOT_EMBEDDED)

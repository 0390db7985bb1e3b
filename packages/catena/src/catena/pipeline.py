"""The standard composition of the parts, meant to be read and copied: file to entry, entry to vectors.

    file -parse-> Parsed -format-> Document -outline-> Section* -cut-> Chunk* -views, terms-> Entry -embed-> store

Each arrow is a function of one stage, or a step where a model may be asked; leave one out, repeat it, or put your own
in its place. `catena.ingestion` is the whole way from a parsed file to an entry, with all that models add.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal

from catena import prompts
from catena.citation import SOURCE, TITLE
from catena.context import CONTEXT
from catena.effects import Complete, Embed, Recognise, Request, Step, ask
from catena.enrichment.context import ContextOptions
from catena.enrichment.context_llm import versions as prompt_versions
from catena.enrichment.critical_terms import CriticalTermOptions, critical_terms
from catena.enrichment.detectors import CodeDetector, Detector, ExpertDetector, LLMDetector, RecognizerDetector
from catena.errors import ParameterError
from catena.formatting import LayoutOptions, format_layout
from catena.formatting.llm_markdown import FormatOptions
from catena.ids import digest
from catena.model import Document, Entry, Figure, Section
from catena.parsing import Engine, Limits, parse
from catena.structure.blocks import blocks_of
from catena.structure.cascade import headed_views, searchable
from catena.structure.chunking import ChunkOptions, cut
from catena.structure.figure_views import CAPTION, mark_figures, with_figure_views
from catena.structure.outline import outline
from catena.structure.segmentation import EmbeddingOptions, SegmentOptions
from catena.structure.table_views import TABLE, table_views
from catena.structure.titles import plain_title

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from catena.layout import Parsed

_SHOWN = 20  # pages in a note
EMBED_BATCH = 256  # texts per request: large enough to be quick, small enough to be told of and stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """How files become entries; part of each entry's fingerprint, so that a change re-indexes.

    Attributes:
        ruled_tables: find drawn tables in PDFs (the extra `tables`).
        embed_tables: what the dense route is given of a table: its "definition" (titles, description, names of
            columns and rows) or the "whole". The lexical route and the reader have the whole table either way.
        engine: the PDF reader, "pypdf" or "pypdfium2" (the extra `fast-pdf`).
        figures: crop the figures of PDFs and index them; only pypdfium2 can, the other engine gives none.
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

    chunks: ChunkOptions = field(default_factory=ChunkOptions)
    terms: CriticalTermOptions = field(default_factory=CriticalTermOptions)
    layout: LayoutOptions = field(default_factory=LayoutOptions)
    limits: Limits = field(default_factory=Limits)
    engine: Engine = "pypdf"
    ruled_tables: bool = False
    embed_tables: Literal["definition", "whole"] = "whole"  # the better one where measured: decision 12
    figures: bool = False
    format_with_llm: FormatOptions | None = None
    detectors: tuple[Detector, ...] = ()
    segmentation: SegmentOptions | EmbeddingOptions | None = None
    context: ContextOptions | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "detectors", tuple(self.detectors))
        if self.embed_tables not in ("definition", "whole"):
            raise ParameterError("embed_tables", self.embed_tables, "'definition' or 'whole'")

    def fingerprint(self, content: bytes | str) -> str:
        """Return the hash of a content and of all that decides how it is cut."""
        decides = [self.chunks, self.terms, self.layout, self.engine, self.ruled_tables, self.embed_tables]
        decides += ["figures"] * self.figures  # what is left out leaves the fingerprints of older libraries alone
        decides += [self.format_with_llm] * (self.format_with_llm is not None)
        decides += [("detectors", *map(_known_by, self.detectors))] * bool(self.detectors)
        if self.segmentation is not None:
            decides += [("segmentation", self.segmentation, prompts.load("segment_lines").version)]
        if self.context is not None:
            decides += [("context", self.context, *(prompt_versions() if self.context.asks_model else ()))]
        return digest(content, repr(tuple(decides)))

    @property
    def asks(self) -> frozenset[type[Request]]:
        """The types of request that indexing cannot do without."""
        of_detectors = frozenset[type[Request]]().union(*(_ASKED.get(type(each), ()) for each in self.detectors))
        by_model = (
            self.format_with_llm is not None
            or isinstance(self.segmentation, SegmentOptions)
            or (self.context is not None and self.context.asks_model)
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


def _known_by(detector: Detector) -> str:
    return repr(detector) if is_dataclass(detector) else f"{type(detector).__qualname__}: {detector.name}"


def read(
    path: Path,
    preparation: Preparation | None = None,
    *,
    document_id: str | None = None,
    source: str | None = None,
    password: str | None = None,
    layout: bool = True,
) -> Parsed:
    """Return a file as Markdown, with its pages mapped and the pages without text named.

    Args:
        path: of the file.
        preparation: who reads it, and how the layout is written.
        document_id: by default its path.
        source: its name for the reader; by default its path.
        password: opens an encrypted PDF.
        layout: False leaves the text as the parser gave it, for a model to write.

    Raises:
        ParseError: the file gave no document; its `state` says why.
    """
    how = preparation or Preparation()
    parsed = parse(
        path,
        document_id=document_id,
        source=source,
        password=password,
        limits=how.limits,
        engine=how.engine,
        ruled_tables=how.ruled_tables,
        figures=how.figures,
    )
    return (
        parsed if parsed.layout is None or not layout else replace(parsed, document=format_layout(parsed, how.layout))
    )


def prepare(
    document: Document,
    preparation: Preparation | None = None,
    *,
    fingerprint: str = "",
    figures: Sequence[Figure] = (),
    sections: Sequence[Section] | None = None,
) -> Entry:
    """Return all that a document puts into a store: sections, chunks, headed and table views, critical terms.

    Each chunk carries its document's title and source as metadata, so that any hit can be cited as it is.
    A heading without any text below it gives no chunk: it is in the path of those under it, and on its own
    it would crowd out what a question is about. A chunk that shows one of `figures` has their views. `sections` tile
    the text; by default they are its outline.
    """
    how = preparation or Preparation()
    blocks = blocks_of(document)
    sections = outline(document, blocks=blocks) if sections is None else tuple(sections)
    title = plain_title(document.title) if document.media_type == "text/markdown" else document.title
    document = replace(document, title=title or document.title or _title(document, sections))
    found = searchable(cut(document, sections, options=how.chunks, blocks=blocks))
    shown = {TITLE: document.title, SOURCE: document.source or document.id}
    chunks = tuple(
        replace(chunk, position=position, metadata={**chunk.metadata, **shown})
        for position, chunk in enumerate(found)
    )
    defined = table_views(document, chunks, blocks=blocks) if how.embed_tables == "definition" else ()
    content = repr((document.text, document.title, sorted(document.metadata.items())))
    if figures:
        chunks = mark_figures(document, chunks)
    entry = Entry(
        document=document,
        sections=sections,
        chunks=chunks,
        views=(*headed_views(document, chunks), *defined),
        terms=critical_terms(document, chunks, how.terms),
        fingerprint=fingerprint or how.fingerprint(content),
        figures=tuple(figures),
    )
    return with_figure_views(entry) if figures else entry


def _title(document: Document, sections: Sequence[Section]) -> str:
    """Return the first heading of the highest rank, else the name of the source, as of a file, or the id."""
    titled = [section for section in sections if section.level]
    if titled:
        return min(titled, key=lambda section: (section.level, section.position)).title
    return PurePath(document.source).stem or document.id


def embed(entry: Entry) -> Step[NDArray[np.float32]]:
    """Return one vector per chunk in order, shape (len(chunks), dim).

    Embedded is the view that was made for it, of a table, of a figure's caption or in context, else the headed one.
    """
    import numpy as np

    kinds = ("headed", CONTEXT, CAPTION, TABLE)  # the later ones first
    found = {view.chunk_id: view.text for kind in kinds for view in entry.views if view.kind == kind}
    texts = [found[chunk.id] for chunk in entry.chunks]
    batches = [tuple(texts[at : at + EMBED_BATCH]) for at in range(0, len(texts), EMBED_BATCH)]
    requests = [Embed(texts=batch, purpose=f"embedding {entry.document.id}") for batch in batches]
    replies: list[Any] = yield from ask(requests)
    return np.concatenate([np.asarray(reply, dtype=np.float32) for reply in replies])

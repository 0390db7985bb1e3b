"""The standard composition of the parts, meant to be read and copied: file to entry, entry to vectors.

    file -parse-> Parsed -format-> Document -outline-> Section* -cut-> Chunk* -views, terms-> Entry -embed-> store

Each arrow is a plain function of one stage; leave one out, repeat it, or put your own in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from catena.citation import SEPARATOR, SOURCE, TITLE
from catena.effects import Embed, Step, ask
from catena.enrichment.captions import FigureContext, caption_figures
from catena.enrichment.critical_terms import CriticalTermOptions, critical_terms
from catena.errors import ParameterError
from catena.figures import FIGURE, figure_links
from catena.formatting import LayoutOptions, format_layout
from catena.ids import digest
from catena.model import Degraded, Document, Entry, Figure, Section
from catena.parsing import Engine, Limits, parse
from catena.structure.blocks import blocks_of
from catena.structure.cascade import headed_views, searchable, titles_above
from catena.structure.chunking import ChunkOptions, cut
from catena.structure.figure_views import CAPTION, mark_figures, surroundings, with_figure_views
from catena.structure.outline import outline
from catena.structure.table_views import TABLE, table_views

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from catena.layout import Parsed

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
    """

    chunks: ChunkOptions = field(default_factory=ChunkOptions)
    terms: CriticalTermOptions = field(default_factory=CriticalTermOptions)
    layout: LayoutOptions = field(default_factory=LayoutOptions)
    limits: Limits = field(default_factory=Limits)
    engine: Engine = "pypdf"
    ruled_tables: bool = False
    embed_tables: Literal["definition", "whole"] = "whole"  # the better one where measured: decision 12
    figures: bool = False

    def __post_init__(self) -> None:
        if self.embed_tables not in ("definition", "whole"):
            raise ParameterError("embed_tables", self.embed_tables, "'definition' or 'whole'")

    def fingerprint(self, content: bytes | str) -> str:
        """Return the hash of a content and of all that decides how it is cut."""
        decides = (self.chunks, self.terms, self.layout, self.engine, self.ruled_tables, self.embed_tables)
        return digest(content, repr((*decides, "figures") if self.figures else decides))


def read(
    path: Path,
    preparation: Preparation | None = None,
    *,
    document_id: str | None = None,
    source: str | None = None,
    password: str | None = None,
) -> Parsed:
    """Return a file as Markdown, with its pages mapped and the pages without text named.

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
    return parsed if parsed.layout is None else replace(parsed, document=format_layout(parsed, how.layout))


def prepare(
    document: Document,
    preparation: Preparation | None = None,
    *,
    fingerprint: str = "",
    figures: Sequence[Figure] = (),
) -> Entry:
    """Return all that a document puts into a store: sections, chunks, headed and table views, critical terms.

    Each chunk carries its document's title and source as metadata, so that any hit can be cited as it is.
    A heading without any text below it gives no chunk: it is in the path of those under it, and on its own
    it would crowd out what a question is about. A chunk that shows one of `figures` has their views.
    """
    how = preparation or Preparation()
    blocks = blocks_of(document)
    sections = outline(document, blocks=blocks)
    document = document if document.title else replace(document, title=_title(document, sections))
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


def caption(entry: Entry) -> Step[tuple[Entry, tuple[Degraded, ...]]]:
    """Return the entry with its figures captioned by a vision model and found by what it said, and what failed."""
    links = {link.name: link for link in figure_links(entry.document.text)}
    around = [surroundings(entry.document, links[figure.name]) for figure in entry.figures]
    paths = {str(chunk.metadata.get(FIGURE, "")): titles_above(entry.document, chunk) for chunk in entry.chunks}
    contexts = [
        FigureContext(path=SEPARATOR.join(paths.get(figure.name, ())), before=before, after=after)
        for figure, (before, after) in zip(entry.figures, around, strict=True)
    ]
    done = yield from caption_figures(entry.figures, contexts)
    return with_figure_views(replace(entry, figures=done.figures)), done.failures


def _title(document: Document, sections: Sequence[Section]) -> str:
    """Return the first heading of the highest rank, or the id."""
    titled = [section for section in sections if section.level]
    return min(titled, key=lambda section: (section.level, section.position)).title if titled else document.id


def embed(entry: Entry) -> Step[NDArray[np.float32]]:
    """Return one vector per chunk in order, shape (len(chunks), dim).

    Embedded is the view that was made for it, of a table or of a figure's caption, else the headed one.
    """
    import numpy as np

    kinds = ("headed", CAPTION, TABLE)  # the later ones first
    found = {view.chunk_id: view.text for kind in kinds for view in entry.views if view.kind == kind}
    texts = [found[chunk.id] for chunk in entry.chunks]
    batches = [tuple(texts[at : at + EMBED_BATCH]) for at in range(0, len(texts), EMBED_BATCH)]
    requests = [Embed(texts=batch, purpose=f"embedding {entry.document.id}") for batch in batches]
    replies: list[Any] = yield from ask(requests)
    return np.concatenate([np.asarray(reply, dtype=np.float32) for reply in replies])

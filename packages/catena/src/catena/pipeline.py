"""The standard composition of the parts, meant to be read and copied: file to entry, entry to vectors.

    file -parse-> Parsed -format-> Document -outline-> Section* -cut-> Chunk* -views, terms-> Entry -embed-> store

Each arrow is a function of one stage, or a step where a model may be asked; leave one out, repeat it, or put your own
in its place. `ingest` is the whole way from a parsed file to an entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from catena.citation import SEPARATOR, SOURCE, TITLE
from catena.context import CONTEXT
from catena.effects import Complete, Embed, Recognise, Request, Step, ask
from catena.enrichment.captions import FigureContext, caption_figures
from catena.enrichment.context import ContextOptions, DocumentContext, titled_sections, with_context
from catena.enrichment.context_llm import PLANNED, context_by_llm
from catena.enrichment.context_llm import versions as prompt_versions
from catena.enrichment.context_offline import context_offline
from catena.enrichment.critical_terms import CriticalTermOptions, critical_terms
from catena.enrichment.detectors import CodeDetector, Detector, ExpertDetector, LLMDetector, RecognizerDetector
from catena.enrichment.entities import Entities, detect_entities, with_terms
from catena.errors import ParameterError
from catena.figures import FIGURE, figure_links
from catena.formatting import LayoutOptions, figures_of, format_layout
from catena.formatting.drafts import NO_ANSWER, PURPOSE, PURPOSE_AGAIN, planned_answer
from catena.formatting.llm_figures import with_figures
from catena.formatting.llm_markdown import FormatOptions, format_markdown
from catena.ids import digest
from catena.model import Degraded, Document, Entry, Figure, Section
from catena.parsing import Engine, Limits, parse
from catena.plan import StandIn
from catena.ports import Completion
from catena.structure.blocks import blocks_of
from catena.structure.cascade import headed_views, searchable, titles_above
from catena.structure.chunking import ChunkOptions, cut
from catena.structure.context_views import passage_views
from catena.structure.figure_views import CAPTION, mark_figures, surroundings, with_figure_views
from catena.structure.outline import outline
from catena.structure.prose import prose
from catena.structure.table_views import TABLE, table_views
from catena.structure.tokens import count_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from catena.formatting.fidelity_report import FidelityReport
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
        if self.context is not None:
            decides += [("context", self.context, *(prompt_versions() if self.context.asks_model else ()))]
        return digest(content, repr(tuple(decides)))

    @property
    def asks(self) -> frozenset[type[Request]]:
        """The types of request that indexing cannot do without."""
        of_detectors = frozenset[type[Request]]().union(*(_ASKED.get(type(each), ()) for each in self.detectors))
        by_model = self.format_with_llm is not None or (self.context is not None and self.context.asks_model)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """What a parsed file puts into a store, and what models were asked for and did not give.

    Attributes:
        entry: its fingerprint is "" where asking again may help, so that the next run does.
        notes: what is missing, in words.
    """

    entry: Entry
    notes: tuple[str, ...] = ()


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


def ingest(
    parsed: Parsed, preparation: Preparation | None = None, *, fingerprint: str = "", captions: bool = False
) -> Step[Ingested]:
    """Turn what `read` returned into an entry, with all that models add as the preparation says.

    What a model fails at costs what it would have added, never the file: pages come from the layout, chunks have
    the terms found without it, figures have no caption, sections no summary; `Ingested.notes` says so.

    Args:
        parsed: a file as `read` returned it; where a model is to write it, as read with `layout=False`.
        preparation: the same as for `read`.
        fingerprint: of the entry; by default that of the text.
        captions: whether a vision model describes each figure.

    Raises:
        MissingServiceError: nobody answers what the preparation asks for.
    """
    how = preparation or Preparation()
    notes: list[str] = []
    again = False
    if how.format_with_llm is not None:
        formatted = yield from format_markdown(parsed, replace(how.format_with_llm, layout=how.layout))
        document = with_figures(formatted.document, format_layout(parsed, how.layout))
        parsed = replace(parsed, document=document)
        again = _unanswered(formatted.fidelity)
        notes += _about_pages(formatted.fidelity)
    figures = figures_of(parsed) if how.figures else ()
    entry = prepare(parsed.document, how, fingerprint=fingerprint, figures=figures)
    if how.context is not None:
        entry, context = yield from contextualise(entry, how)
        again = again or bool(context.degraded)
        notes += _about_context(context)
    if how.detectors:
        entry, found = yield from detect(entry, how.detectors)
        again = again or bool(found.failures)
        notes += _about_entities(found, len(entry.chunks))
    if captions and figures:
        entry, lost = yield from caption(entry)
        again = again or bool(lost)
        notes += _about_captions(lost, len(figures))
    return Ingested(entry=replace(entry, fingerprint="") if again else entry, notes=tuple(notes))


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


def contextualise(entry: Entry, preparation: Preparation) -> Step[tuple[Entry, DocumentContext]]:
    """Return the entry with the titles and summaries of `preparation.context`, its fingerprint unchanged; and these.

    A title that was made is in all views, terms and paths, as if it had been printed: the entry is prepared anew for
    it. So this comes before `detect`.
    """
    how = preparation.context
    if how is None:
        return entry, DocumentContext()
    document, sections = entry.document, entry.sections
    if how.by == "llm":
        context = yield from context_by_llm(document, sections, how, count=count_tokens)
    else:
        context = yield from context_offline(document, sections, prose(document, sections), how)
    fingerprint = entry.fingerprint
    if context.title or any(context.section_titles):
        entry = prepare(
            replace(document, title=context.title or document.title),
            preparation,
            figures=entry.figures,
            sections=titled_sections(sections, context.section_titles),
        )
    entry = with_context(entry, context, views=False)
    views = passage_views(entry.chunks) if how.embed else ()
    return replace(entry, views=(*entry.views, *views), fingerprint=fingerprint), context


def detect(entry: Entry, detectors: Sequence[Detector]) -> Step[tuple[Entry, Entities]]:
    """Return the entry with the critical entities that detectors find, its fingerprint unchanged; and a report."""
    found = yield from detect_entities(entry.document, entry.chunks, detectors)
    return replace(with_terms(entry, found.terms), fingerprint=entry.fingerprint), found


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


def _planned(request: Complete) -> Completion:
    """Return what a dry run goes on with: a window's own words, or else as much as the request allows."""
    if request.purpose in (PURPOSE, PURPOSE_AGAIN):
        return planned_answer(request)
    return Completion(text=PLANNED.get(request.purpose, "stand-in"), output_tokens=request.max_tokens)


PLANNED_ANSWERS: Mapping[type[Request], StandIn] = {Complete: _planned}
"""For `plan(ingest(...), stand_ins=PLANNED_ANSWERS)`."""


def _unanswered(report: FidelityReport) -> bool:
    """Return whether pages are as the layout has them because no answer came, so that asking again may help."""
    by_layout = [page for page in report.pages if page.state == "layout"]
    return any(fault.kind == NO_ANSWER for page in by_layout for fault in page.faults)


def _about_pages(report: FidelityReport) -> list[str]:
    by_layout = [str(page.page) for page in report.pages if page.state == "layout"]
    if not by_layout:
        return []
    shown = ", ".join(by_layout[:_SHOWN]) + (" …" if len(by_layout) > _SHOWN else "")
    why = "no answer came for all of them" if _unanswered(report) else "the model's text was not faithful"
    return [f"pages as the layout gives them: {shown} ({len(by_layout)} of {len(report.pages)}; {why})"]


def _about_context(context: DocumentContext) -> list[str]:
    notes: list[str] = []
    if context.degraded:
        first = context.degraded[0]
        notes.append(f"missing of titles and summaries: {len(context.degraded)} (first: {first.what}: {first.why})")
    if context.cut:
        shown = ", ".join(map(str, context.cut[:_SHOWN])) + (" …" if len(context.cut) > _SHOWN else "")
        notes.append(f"sections summarised from their beginning alone: {shown}")
    return notes


def _about_entities(found: Entities, chunks: int) -> list[str]:
    """Say where a detector failed; what it was refused is no loss."""
    if not found.failures:
        return []
    places = len({failure.text for failure in found.failures})
    why = found.failures[0].why
    return [f"{places} of {chunks} chunks lack the entities of a detector ({why}); they have all others"]


def _about_captions(lost: Sequence[Degraded], figures: int) -> list[str]:
    if not lost:
        return []
    why = f"{len(lost)} of {figures} figures have no caption ({lost[0].why})"
    return [f"{why}; they are found by the text around them"]


def _title(document: Document, sections: Sequence[Section]) -> str:
    """Return the first heading of the highest rank, or the id."""
    titled = [section for section in sections if section.level]
    return min(titled, key=lambda section: (section.level, section.position)).title if titled else document.id


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

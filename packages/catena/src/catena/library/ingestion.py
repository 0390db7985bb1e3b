"""From a parsed file to an entry with all that models add: Markdown, sections, titles, summaries, entities, captions.

What a model fails at costs what it would have added, never the file, and is said in words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from catena.effects import Complete, Completion, Request, StandIn, Step
from catena.enrichment.captions import FigureContext, caption_figures
from catena.enrichment.chunk_context import context_of
from catena.enrichment.context import DocumentContext, titled_sections, with_context
from catena.enrichment.context_llm import PLANNED
from catena.enrichment.entities import Detector, Entities, detect_entities, with_terms
from catena.enrichment.views import PLANNED as PLANNED_VIEWS
from catena.enrichment.views import Held, with_views
from catena.formatting import figures_of, format_layout, with_boxes
from catena.formatting.fidelity_check import FidelityReport
from catena.formatting.figures import with_figures
from catena.formatting.llm_markdown import NO_ANSWER, PURPOSE, PURPOSE_AGAIN, format_markdown, planned_answer
from catena.library.pipeline import Preparation, prepare
from catena.model import FIGURE, SEPARATOR, Degraded, Document, Entry, Figure, figure_links
from catena.model.layout import Parsed
from catena.structure import segmentation
from catena.structure.embedding_segmentation import EmbeddingOptions, segment_by_embedding
from catena.structure.segment_tree import Segmentation, mark_generated
from catena.structure.segmentation import segment_with_llm
from catena.structure.views import context_search_views, surroundings, titles_above, with_figure_views

_SHOWN = 20  # pages in a note


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """The entry of a parsed file, and what models were asked for and did not give.

    Attributes:
        entry: its fingerprint is "" where asking again may help, so that the next run does.
        notes: what is missing, in words.
    """

    entry: Entry
    notes: tuple[str, ...] = ()


def ingest(
    parsed: Parsed,
    preparation: Preparation | None = None,
    *,
    fingerprint: str = "",
    captions: bool = False,
    held: Held | None = None,
    model: str = "",
) -> Step[Ingested]:
    """Turn what `read` returned into an entry, with all that models add as the preparation says.

    What a model fails at costs what it would have added, never the file: pages come from the layout, chunks have
    the terms found without it, figures have no caption, sections no summary; `Ingested.notes` says so.

    Args:
        parsed: a file as `read` returned it; where a model is to write it, as read with `layout=False`.
        preparation: the same as for `read`.
        fingerprint: of the entry; by default that of the text.
        captions: whether a vision model describes each figure.
        held: views of an older version that a model wrote: of what did not change they are taken over.
        model: identity of the language model: what another one wrote is not taken over.

    Raises:
        MissingServiceError: nobody answers what the preparation asks for.
    """
    how = preparation or Preparation()
    notes: list[str] = []
    again = False
    if how.format_with_llm is not None:
        formatted = yield from format_markdown(parsed, replace(how.format_with_llm, layout=how.layout))
        document = with_figures(formatted.document, format_layout(parsed, how.layout))
        printed = document if parsed.layout is None else with_boxes(document, parsed.layout)
        parsed = replace(parsed, document=printed)
        again = _unanswered(formatted.fidelity)
        notes += _about_pages(formatted.fidelity)
    figures = figures_of(parsed) if how.figures else ()
    done = yield from ingest_document(
        parsed.document, how, fingerprint=fingerprint, figures=figures, held=held, model=model
    )
    entry = done.entry
    again = again or not entry.fingerprint or bool(parsed.retry)
    notes += done.notes
    if captions and figures:
        entry, lost = yield from caption(entry)
        again = again or bool(lost)
        notes += _about_captions(lost, len(figures))
    return Ingested(entry=replace(entry, fingerprint="") if again else entry, notes=tuple(notes))


def ingest_document(
    document: Document,
    preparation: Preparation | None = None,
    *,
    fingerprint: str = "",
    figures: Sequence[Figure] = (),
    held: Held | None = None,
    model: str = "",
) -> Step[Ingested]:
    """Turn a document into an entry, with the sections, titles, summaries, entities and views that are asked for.

    Args:
        document: its text and title.
        preparation: what is asked for.
        fingerprint: of the entry; by default that of the text.
        figures: those that the text shows.
        held: as for `ingest`.
        model: as for `ingest`.

    Raises:
        MissingServiceError: nobody answers what the preparation asks for.
    """
    how = preparation or Preparation()
    divided = yield from divide(document, how)
    sections = None if divided is None else divided.sections
    entry = prepare(document, how, fingerprint=fingerprint, figures=figures, sections=sections)
    generated = frozenset[int]() if divided is None else divided.generated
    notes = [] if divided is None else _about_sections(divided)
    again = divided is not None and bool(divided.degraded)
    if how.context is not None:
        entry, context = yield from contextualise(entry, how)
        generated |= {position for position, title in enumerate(context.section_titles) if title}
        again = again or bool(context.degraded)
        notes += _about_context(context)
    if generated:
        entry = replace(entry, chunks=mark_generated(entry.chunks, generated))
    if how.detectors:
        entry, found = yield from detect(entry, how.detectors)
        again = again or bool(found.failures)
        notes += _about_entities(found, len(entry.chunks))
    if how.views:
        entry, missing = yield from with_views(entry, how.views, model=model, held=held)
        again = again or bool(missing)
        if missing:
            first = f"{missing[0].what}: {missing[0].why}"
            notes.append(f"views that could not be made: {len(missing)} (first: {first})")
    return Ingested(entry=replace(entry, fingerprint="") if again else entry, notes=tuple(notes))


def divide(document: Document, preparation: Preparation) -> Step[Segmentation | None]:
    """Return the sections that `preparation.segmentation` asks for, None where the printed headings are to do."""
    how = preparation.segmentation
    if how is None:
        return None
    by = segment_by_embedding(document, how) if isinstance(how, EmbeddingOptions) else segment_with_llm(document, how)
    return (yield from by)


def contextualise(entry: Entry, preparation: Preparation) -> Step[tuple[Entry, DocumentContext]]:
    """Return the entry with the titles and summaries of `preparation.context`, its fingerprint unchanged; and these.

    A title that was made is in all views, terms and paths, as if it had been printed: the entry is prepared anew for
    it. So this comes before `detect`.
    """
    how = preparation.context
    if how is None:
        return entry, DocumentContext()
    document, sections = entry.document, entry.sections
    context = yield from context_of(document, sections, how)
    fingerprint = entry.fingerprint
    if context.title or any(context.section_titles):
        document = replace(document, title=context.title or document.title)
        sections = titled_sections(sections, context.section_titles)
        entry = prepare(document, preparation, figures=entry.figures, sections=sections)
    entry = with_context(entry, context, views=False)
    views = context_search_views(entry.chunks) if how.embed else ()
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
    if request.purpose == segmentation.PURPOSE:
        return segmentation.planned_answer(request)
    text = {**PLANNED, **PLANNED_VIEWS}.get(request.purpose, "stand-in")
    return Completion(text=text, output_tokens=request.max_tokens)


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


def _about_sections(divided: Segmentation) -> list[str]:
    """Say where a model's sections were put right or are missing; all repairs are in the `Segmentation` itself."""
    repaired = [f"borders of the model's sections put right: {len(divided.repairs)}"] * bool(divided.repairs)
    if not divided.degraded:
        return repaired
    first = divided.degraded[0]
    what = "lines divided at headings and paragraphs, because no answer of the model was of use"
    return [*repaired, f"{what}: {len(divided.degraded)} (first: {first.what}: {first.why})"]


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

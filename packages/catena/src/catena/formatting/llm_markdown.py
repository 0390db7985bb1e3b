"""A file as Markdown, written by a language model window by window, with no word lost (HiQA's Markdown Formatter)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

from annotated_types import Ge

from catena.effects.planning import StandIn
from catena.effects.steps import Complete, Request, Step
from catena.formatting.alignment import Piece, atom_keys, piece_of
from catena.formatting.assembly import Assembled, assemble
from catena.formatting.drafts import Draft, draft, planned_answer
from catena.formatting.fidelity_check import FidelityOptions
from catena.formatting.fidelity_report import FidelityReport, PageFidelity
from catena.formatting.layout_markdown import LayoutOptions, format_layout
from catena.formatting.numbered_headings import flat
from catena.formatting.source import SourceText, source_of
from catena.formatting.windows import Window, windows_of
from catena.model import Document
from catena.model.layout import Parsed
from catena.model.options import check_options

PLANNED_ANSWERS: Mapping[type[Request], StandIn] = {Complete: planned_answer}
"""For `plan(format_markdown(...), stand_ins=PLANNED_ANSWERS)`: each window is answered with its own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatOptions:
    """How a model is shown a file.

    Attributes:
        window: W, words for which one call answers. The answer to 800 words and their padding stays under the
            4,096 tokens that small models write at most, and most chapters lie whole in one window.
        padding: K, words shown before and after them. Twice as many overlap with each neighbour; 100 hold the
            longest heading, a row of a wide table or a long sentence, at one fourth more input.
        fidelity: what counts as faithful.
        layout: of the formatter that stands in for the model where it fails.
    """

    window: Annotated[int, Ge(1)] = 800
    padding: Annotated[int, Ge(1)] = 100
    fidelity: FidelityOptions = field(default_factory=FidelityOptions)
    layout: LayoutOptions = field(default_factory=LayoutOptions)

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Formatted:
    """A document as Markdown, and how faithful each of its pages is.

    Attributes:
        document: with the id, source and labels of the parsed one; its metadata names the pages that are as the
            layout formatter wrote them ("layout_pages").
        fidelity: per page: whose text it has, and how far the model's could be trusted.
    """

    document: Document
    fidelity: FidelityReport


def window_count(parsed: Parsed, options: FormatOptions = FormatOptions()) -> int:
    """Return `T = ceil(N / W)`, the number of windows; each takes one call, or two."""
    return len(_windows(parsed, options)[1])


def format_markdown(parsed: Parsed, options: FormatOptions = FormatOptions()) -> Step[Formatted]:
    """Write a file as Markdown with a language model.

    `D_M(t) = M(D_I(t), D_I(t-1), D_M(t-1))`: a window of `W + 2K` words is converted at a time, with the window
    before and what was made of it as a guide. Each answer is checked against the words of its window; one that is
    not faithful is asked for once again. Windows are joined where both write the same in their overlap. Pages
    that are not faithful in the end are taken from `format_layout`. Windows follow each other; give several
    files to `together`.

    Args:
        parsed: a file as a parser read it; one that is Markdown already is returned as it is.
        options: sizes and thresholds.

    Returns:
        The document, and its fidelity by page. An answer that fails, is refused or cut costs its pages, not
        the document.

    Raises:
        MissingServiceError: nobody answers `Complete`.

    Source: HiQA (arXiv:2402.01767), Algorithm 1. Published code passes the last characters of the previous prompt,
        which hold rules and no input; joins by concatenation; keeps the last of equal headings. None of it here.
    """
    printed = format_layout(parsed, options.layout)
    if parsed.layout is None and parsed.document.media_type == "text/markdown":
        return Formatted(document=printed, fidelity=_report(printed, ()))
    source, windows = _windows(parsed, options)
    keys = atom_keys(source.text, source.atoms)
    fallback = piece_of(printed.text, keys, 0, len(keys))
    drafts: list[Draft] = []
    before = ("", "")
    for window in windows:
        drafts.append((yield from draft(window, keys, before, options.fidelity)))
        before = (window.text, flat(_taken(drafts[-1], fallback)))
    assembled = assemble(source, drafts, fallback, options.fidelity, reach=2 * options.padding)
    return Formatted(document=_document(printed, assembled), fidelity=_report(printed, assembled.pages))


def _windows(parsed: Parsed, options: FormatOptions) -> tuple[SourceText, tuple[Window, ...]]:
    source = source_of(parsed, running_heads=options.layout.running_heads)
    windows = windows_of(source, window=options.window, padding=options.padding)
    return source, tuple(window for window in windows if window.core_start < window.core_end)


def _taken(found: Draft, fallback: Piece) -> str:
    """Return what the next window is shown: a faithful answer, or the layout's text, so that errors end here."""
    if found.faithful and found.piece is not None:
        return found.piece.text
    return fallback.excerpt(found.window.start, found.window.end)


def _document(printed: Document, assembled: Assembled) -> Document:
    layout_pages = [str(page.page) for page in assembled.pages if page.state == "layout"]
    marked = {"layout_pages": ", ".join(layout_pages)} if layout_pages else {}
    labels = printed.page_labels if len(printed.page_labels) == len(assembled.page_starts) else ()
    return replace(
        printed,
        text=assembled.text,
        media_type="text/markdown",
        page_starts=assembled.page_starts if printed.page_starts else (),
        page_labels=labels if printed.page_starts else (),
        metadata={**printed.metadata, **marked},
    )


def _report(document: Document, pages: tuple[PageFidelity, ...]) -> FidelityReport:
    return FidelityReport(document_id=document.id, source=document.source, pages=pages)

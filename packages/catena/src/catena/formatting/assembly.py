"""From the drafts of all windows to one text: joined, levelled, checked page by page, mended from the layout."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from catena.formatting.alignment import Piece, atoms_of, placed
from catena.formatting.drafts import Draft
from catena.formatting.fidelity_check import Fault, Fidelity, FidelityOptions, fidelity
from catena.formatting.fidelity_report import PageFidelity
from catena.formatting.numbered_headings import with_levels
from catena.formatting.source import SourceText
from catena.formatting.stitching import NoBorder, Stretch, stitch


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """The whole text, where its pages begin, and how faithful each of them is."""

    text: str
    page_starts: tuple[int, ...]
    pages: tuple[PageFidelity, ...]


def assemble(
    source: SourceText, drafts: Sequence[Draft], fallback: Piece, options: FidelityOptions, *, reach: int
) -> Assembled:
    """Join the drafts; pages that no draft has faithfully are taken from the fallback.

    Args:
        source: what the drafts were made of.
        drafts: one per window, in order; their cores tile the source.
        fallback: the layout formatter's text of the whole source.
        options: what counts as faithful, of a page as of a window.
        reach: atoms around the wanted border of two windows among which one is looked for.
    """
    gaps = _gaps(source)
    lost = {page for found in drafts if found.piece is None for page in _pages(source, found)}
    judged: dict[int, Fidelity] = {}
    while True:
        stretches = _stretches(source, drafts, fallback, lost)
        joined = stitch(stretches, gaps, reach=reach) if stretches else fallback
        if isinstance(joined, NoBorder):
            lost |= {_page_at(source, atom) for place in joined.places for atom in (place - 1, place)}
            continue
        if joined is not fallback:
            joined = _levelled(joined, fallback.text)
        starts = _page_starts(joined, source)
        failed = set()
        for page in range(source.pages):
            if page not in lost:
                judged[page] = _judged(source, joined, starts, page, options)
                failed |= set() if judged[page].faithful else {page}
        if not failed:
            break
        lost |= failed
    return Assembled(
        text=joined.text,
        page_starts=starts,
        pages=tuple(_page(source, drafts, page, page in lost, judged.get(page)) for page in range(source.pages)),
    )


def _gaps(source: SourceText) -> list[str]:
    """Return what stands before each word of the source."""
    ends = [0, *(end for _, end in source.atoms)]
    return [source.text[end:start] for end, (start, _) in zip(ends, source.atoms, strict=False)]


def _page_at(source: SourceText, atom: int) -> int:
    """Return the page, from 0, that an atom is printed on."""
    return max(0, min(bisect_right(source.page_atoms, atom), source.pages) - 1)


def _pages(source: SourceText, found: Draft) -> range:
    """Return the pages, from 0, of what a window answers for."""
    window = found.window
    return range(_page_at(source, window.core_start), _page_at(source, window.core_end - 1) + 1)


def _stretches(source: SourceText, drafts: Sequence[Draft], fallback: Piece, lost: AbstractSet[int]) -> list[Stretch]:
    """Return which piece stands for which part of the source."""
    stretches: list[Stretch] = []
    for found in drafts:
        for page in _pages(source, found):
            start = max(found.window.core_start, source.page_atoms[page])
            end = min(found.window.core_end, source.page_atoms[page + 1])
            piece = fallback if page in lost or found.piece is None else found.piece
            if stretches and stretches[-1].piece is piece:
                start = stretches.pop().start
            if start < end:
                stretches.append(Stretch(piece=piece, start=start, end=end, firm=piece is fallback))
    return stretches


def _levelled(joined: Piece, printed: str) -> Piece:
    text = with_levels(joined.text, printed)
    return placed(text, tuple(atoms_of(text)), joined.places, joined.start, joined.end)


def _page_starts(piece: Piece, source: SourceText) -> tuple[int, ...]:
    """Return where each page begins: at its first word, marks of Markdown before it on its line included."""
    starts: list[int] = []
    for first in source.page_atoms[:-1]:
        atom = piece.cut_at(first)
        if atom < 0:  # words of both pages are mixed, as in a row of a table that goes over the page
            atom = next((index for index, place in enumerate(piece.places) if place >= first), len(piece.atoms))
        offset = piece.atoms[atom][0] if atom < len(piece.atoms) else len(piece.text)
        gap = piece.gap(atom)
        marks = gap.rpartition("\n")[2] if "\n" in gap else ""
        starts.append(max(offset - len(marks), starts[-1] if starts else 0) if starts else 0)
    return tuple(starts)


def _judged(
    source: SourceText, joined: Piece, starts: Sequence[int], page: int, options: FidelityOptions
) -> Fidelity:
    end = starts[page + 1] if page + 1 < len(starts) else len(joined.text)
    words = source.slice(source.page_atoms[page], source.page_atoms[page + 1])
    return fidelity(words, joined.text[starts[page] : end], options)


def _page(
    source: SourceText, drafts: Sequence[Draft], page: int, lost: bool, judged: Fidelity | None
) -> PageFidelity:
    """Return how a page ended, and what was wrong with the answers for it."""
    own = [found for found in drafts if page in _pages(source, found)]
    faults = dict.fromkeys(fault for found in own for fault in found.faults)
    faults |= dict.fromkeys(judged.faults if judged else ())
    again = any(found.again for found in own)
    if lost and not faults:
        faults[Fault(kind="order", detail="the answers for it could not be joined")] = None
    return PageFidelity(
        page=page + 1,
        recall=judged.recall if judged else 0.0,
        precision=judged.precision if judged else 1.0,
        order=judged.order if judged else 1.0,
        state="layout" if lost else "re-asked" if again else "llm",
        faults=tuple(faults),
    )

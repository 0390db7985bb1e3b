"""The outline that a document's own table of contents gives; its headings where it has none."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from catena.model import Document, Section
from catena.model.errors import ParameterError
from catena.structure.blocks import Block, blocks_of
from catena.structure.contents_alignment import Aligned, align
from catena.structure.contents_entries import Entry, printed_contents
from catena.structure.headings import Heading, headings_of, outline, tree_of
from catena.structure.title_numbers import Numbered, numbered

_MOST_TRIED = 8  # places that look like a table of contents; of these the first that fits is taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a document's table of contents says of it.

    Attributes:
        sections: the outline; own spans tile the document.
        matched: of each entry found, what it says and the position of its section, in order.
        missing: the entries that name nothing in the text.
        start: where the first entry is printed.
        end: where the line after the last one begins.
    """

    sections: tuple[Section, ...]
    matched: tuple[tuple[str, int], ...]
    missing: tuple[str, ...]
    start: int
    end: int


def content_outline(document: Document, *, blocks: Sequence[Block] | None = None) -> tuple[Section, ...]:
    """Return the sections of a document: by its own table of contents where it has one, else by its headings.

    Args:
        document: its text is Markdown, or plain where `media_type` says so.
        blocks: what `blocks_of` gave for this document, where it was asked already.

    Source: content-aware chunking of MC-indexing (Dong et al., 2024), section 3.2.
    """
    blocks = blocks_of(document) if blocks is None else blocks
    found = outline_by_contents(document, blocks=blocks)
    return found.sections if found is not None else outline(document, blocks=blocks)


def outline_by_contents(
    document: Document, *, share: float = 0.5, blocks: Sequence[Block] | None = None
) -> Contents | None:
    """Return the outline that the document's table of contents gives, or None where it has none to trust.

    Each entry opens a section at the heading, or the bare line, that it names; how deep it stands, the
    indentation and the numbers of the entries say. Headings that the table does not list stay, below
    the entry that they stand under, so that the smallest division is never lost. Lines inside the table itself
    are no headings. See `contents_entries.printed_contents` for what is taken for a table of contents and
    `contents_alignment.align` for how its entries are found.

    Args:
        document: its text is Markdown, or plain where `media_type` says so.
        share: of the entries that must be found, in (0, 1]; with fewer it is a list of something else, or of
            another document.
        blocks: what `blocks_of` gave for this document, where it was asked already.

    Raises:
        ParameterError: `share` is out of range.
    """
    if not 0 < share <= 1:
        raise ParameterError("share", share, "a number in (0, 1]")
    blocks = blocks_of(document) if blocks is None else blocks
    text = document.text
    known = headings_of(text, blocks)
    for printed in printed_contents(text, blocks)[:_MOST_TRIED]:
        headings = [heading for heading in known if not printed.start <= heading.start < printed.end]
        aligned = align(text, blocks, headings, printed, document.media_type)
        if len(aligned) < share * len(printed.entries):
            continue
        levelled = _levelled(headings, printed.entries, aligned)
        sections = tree_of(document, levelled)
        at = {section.start: section.position for section in sections}
        at |= {levelled[0].start: 0} if sections[0].level else {}  # blank lines before it are its own
        return Contents(
            sections=sections,
            matched=tuple((printed.entries[i].titles[0], at[aligned[i].heading.start]) for i in sorted(aligned)),
            missing=tuple(entry.titles[0] for i, entry in enumerate(printed.entries) if i not in aligned),
            start=printed.start,
            end=printed.end,
        )
    return None


def _levelled(headings: Sequence[Heading], entries: Sequence[Entry], aligned: Aligned) -> list[Heading]:
    """Return all headings in order, with the levels that the table of contents gives them.

    A level of the table becomes one of the text by a constant, so that what stands above the first entries
    (the title of the document) stays above them.
    """
    depths = _depths(entries)
    named = {aligned[i].heading.start: (aligned[i].heading, depths[i]) for i in aligned}
    merged = sorted({**{h.start: h for h in headings}, **{start: pair[0] for start, pair in named.items()}}.items())
    pairs = [(heading.level, depth) for heading, depth in named.values() if heading.level and depth]
    shift = _shift(pairs, [heading for _, heading in merged], named)
    usual: dict[int, set[int]] = defaultdict(set)  # what the levels of headings are in the table
    for level, depth in pairs:
        usual[level].add(depth + shift)
    levels: list[Heading] = []
    entry: tuple[int, int, Numbered] | None = None  # own level, level given and number of the entry above
    for start, heading in merged:
        says = numbered(heading.title)
        if start in named:
            depth = named[start][1]
            level = depth + shift if depth else _own(heading.level, usual, shift)
            entry = (heading.level, level, says)
        else:
            level = _unlisted(heading.level, says, entry, usual)
        levels.append(heading._replace(level=level))
    return levels


def _shift(
    pairs: Sequence[tuple[int, int]], merged: Sequence[Heading], named: Mapping[int, tuple[Heading, int]]
) -> int:
    """Return how many levels of the text stand above the first level of the table."""
    if pairs:
        top = min(depth for _, depth in pairs)
        return max(0, min(level for level, depth in pairs if depth == top) - top)
    before = 0
    for heading in merged:
        if heading.start in named:
            break
        before = max(before, heading.level)
    return before


def _own(level: int, usual: Mapping[int, set[int]], shift: int) -> int:
    """Return the level of an entry of which the table does not say how deep it stands."""
    if not level:
        return 1 + shift
    return min(usual[level]) if len(usual.get(level, ())) == 1 else level


def _unlisted(
    level: int, says: Numbered, entry: tuple[int, int, Numbered] | None, usual: Mapping[int, set[int]]
) -> int:
    """Return the level of a heading that the table does not list."""
    if entry is None:
        return level
    own, given, number = entry
    if number.number and len(says.number) > len(number.number) and says.number[: len(number.number)] == number.number:
        return given + len(says.number) - len(number.number)
    if len(usual.get(level, ())) == 1:
        return min(usual[level])
    if level in usual or not own:  # headings of one level for entries of several: they say nothing
        return given + 1
    return given + level - own if level > own else level


def _depths(entries: Sequence[Entry]) -> list[int]:
    """Return how deep each entry stands, from 1; 0 where the table does not say."""
    says = [numbered(entry.titles[0]) for entry in entries]
    by_number = [len(one.number) and one.depth for one in says]
    if any(one.number and one.depth == 0 for one in says):  # parts stand above chapters
        by_number = [depth + 1 if one.number else 0 for one, depth in zip(says, by_number, strict=True)]
    if len({entry.indent for entry in entries}) == 1:
        return by_number if max(by_number) > 1 else [0] * len(entries)
    by_indent = _nesting([entry.indent for entry in entries])
    both = Counter(indented - depth for indented, depth in zip(by_indent, by_number, strict=True) if depth)
    if not both:
        return by_indent
    usual = max(both, key=lambda difference: (both[difference], -abs(difference)))
    return [max(1, depth + usual) if depth else i for i, depth in zip(by_indent, by_number, strict=True)]


def _nesting(indents: Sequence[int]) -> list[int]:
    open_: list[int] = []
    depths: list[int] = []
    for indent in indents:
        while open_ and open_[-1] > indent:
            open_.pop()
        if not open_ or open_[-1] < indent:
            open_.append(indent)
        depths.append(len(open_))
    return depths

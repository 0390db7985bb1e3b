"""Build the heading tree of a document: sections whose spans tile its text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from catena.model import Document, Section, span_id
from catena.structure.blocks import Block, blocks_of, split_lines
from catena.text.headings import CHINESE_NUMERAL, chinese_number, heading_number, plain_title

_LONGEST = 120  # characters of a heading line
_FEWEST = 2  # headings before a text counts as divided by them
_RANK = {"部": 0, "编": 0, "篇": 0, "卷": 0, "章": 1, "节": 2}  # these styles say what they are
_ITEMS = (  # outermost first; these need blank lines around them
    re.compile(rf"(?P<number>{CHINESE_NUMERAL})、"),
    re.compile(rf"[(（](?P<number>{CHINESE_NUMERAL})[)）]"),
)
_FIRST_ITEM, _LAST_ITEM = 3, 4  # ranks: "一、" after "第一节"; behind "（一）" that of "1", then that of "1.1"
_SENTENCE_END = tuple(".。,，;；:：!！?？…、")


class SectionHeading(NamedTuple):
    """A heading as found: [start, body_start) is the heading with its line end."""

    start: int
    body_start: int
    level: int  # from 1
    title: str


def outline(document: Document, *, blocks: Sequence[Block] | None = None) -> tuple[Section, ...]:
    """Return the sections of a document in reading order; their own spans tile the text.

    Markdown headings (# and underlined) outside code, quotes, lists, HTML and front matter open a section.
    A text without any, and plain text, is divided at numbered headings that are alone on their line
    ("3.2 Title", "第一章", "一、") when their numbers follow each other. The parent of a heading is the
    nearest one above it of a smaller level, so a jump from level 1 to 4 gives a path of two titles.

    Args:
        document: its `media_type` "text/plain" switches Markdown headings off.
        blocks: what `blocks_of` gave for this document, to scan it once for `cut` as well.

    Returns:
        The sections; text before the first heading is a section of level 0 with the title "". None for an
        empty text.
    """
    if not document.text:
        return ()
    return tree_of(document, headings_of(document.text, blocks_of(document) if blocks is None else blocks))


def headings_of(text: str, blocks: Sequence[Block]) -> list[SectionHeading]:
    """Return the Markdown headings among the blocks of a text, or its numbered ones where there is none."""
    found = [(b.start, b.end, b.level, plain_title(b.title)) for b in blocks if b.kind == "heading"]
    return [
        SectionHeading(start, next_line(text, end), level, title)
        for start, end, level, title in found or numbered_headings(text, blocks)
    ]


def next_line(text: str, line_end: int) -> int:
    """Return where the line after a line end begins."""
    return min(len(text), line_end + (2 if text.startswith("\r\n", line_end) else 1))


def tree_of(document: Document, headings: list[SectionHeading]) -> tuple[Section, ...]:
    """Return the sections that ascending headings open; text before the first one is a section of level 0."""
    size = len(document.text)
    if headings and document.text[: headings[0].start].strip("\ufeff \t\r\n") == "":
        headings = [headings[0]._replace(start=0), *headings[1:]]  # blank lines before the first are its own
    else:
        headings = [SectionHeading(0, 0, 0, ""), *headings]
    parents, paths, tree_ends = _relations(headings, size)
    ends = [*(heading.start for heading in headings[1:]), size]
    return tuple(
        Section(
            id=span_id(document.id, "section", heading.start, end),
            document_id=document.id,
            position=position,
            level=heading.level,
            title=heading.title,
            path=path,
            start=heading.start,
            body_start=heading.body_start,
            end=end,
            tree_end=tree_end,
            parent=parent,
        )
        for position, (heading, end, parent, path, tree_end) in enumerate(
            zip(headings, ends, parents, paths, tree_ends, strict=True)
        )
    )


def _relations(
    headings: list[SectionHeading], size: int
) -> tuple[list[int | None], list[tuple[str, ...]], list[int]]:
    """Return parent, path and end of the subtree of each heading, by one walk with a stack."""
    parents: list[int | None] = []
    paths: list[tuple[str, ...]] = []
    tree_ends = [size] * len(headings)
    open_: list[int] = []
    for position, heading in enumerate(headings):
        while open_ and headings[open_[-1]].level >= heading.level:
            tree_ends[open_.pop()] = heading.start
        if heading.level == 0:
            parents.append(None)
            paths.append(())
            if position + 1 < len(headings):
                tree_ends[position] = headings[position + 1].start
            continue
        parents.append(open_[-1] if open_ else None)
        paths.append((*(paths[open_[-1]] if open_ else ()), heading.title))
        open_.append(position)
    return parents, paths, tree_ends


class _NumberedHeading(NamedTuple):
    """A line taken for a heading: [start, end) without its line end, its rank (0 is outermost) and text."""

    start: int
    end: int
    rank: int
    title: str
    number: tuple[int, ...]


def numbered_headings(text: str, blocks: Sequence[Block]) -> list[tuple[int, int, int, str]]:
    """Return (start, end, level from 1, title) of the numbered headings of a text without Markdown ones.

    A heading is a short line between blank lines, without a full stop, that begins with a number: "3.2
    Title", "一、…", "（二）…", "1、…"; "第三章 …" and "第一节 …" need no blank lines. Each must continue the numbers
    before it: 2 after 1, 1.1 after 1. A text with fewer than two, or where most have no text below them,
    as in a list, has none.

    Args:
        text: the whole text.
        blocks: its blocks; only paragraphs and list items are looked at.
    """
    found = list(_consistent(_candidates(text, blocks)))
    bounds = [*(heading.start for heading in found), len(text)]
    with_body = sum(bool(text[heading.end : bounds[i]].strip()) for i, heading in enumerate(found, start=1))
    if len(found) < _FEWEST or with_body * 2 < len(found):
        return []
    levels = {rank: level for level, rank in enumerate(sorted({heading.rank for heading in found}), start=1)}
    return [(heading.start, heading.end, levels[heading.rank], heading.title) for heading in found]


def _candidates(text: str, blocks: Sequence[Block]) -> Iterator[_NumberedHeading]:
    ends = [0, *(block.end for block in blocks)]
    starts = [*(block.start for block in blocks), len(text)]
    for index, block in enumerate(blocks):
        if block.kind not in {"paragraph", "item"}:
            continue
        lines, offsets = split_lines(text[block.start : block.end])
        above, below = text[ends[index] : block.start], text[block.end : starts[index + 1]]
        alone = len(lines) == 1 and _apart(above, first=index == 0) and _apart(below, first=index == len(blocks) - 1)
        for line, offset in zip(lines, offsets, strict=False):
            start, title = block.start + offset, " ".join(line.split())
            if len(line) > _LONGEST or not title or title.endswith(_SENTENCE_END):
                continue
            if found := _ranked(title, alone=alone):
                yield _NumberedHeading(start, start + len(line), found[0], title, found[1])


def _apart(gap: str, *, first: bool) -> bool:
    """Return whether a blank line, or an end of the text, is between two blocks."""
    return first or len(split_lines(gap + ".").texts) > 2


def _ranked(title: str, *, alone: bool) -> tuple[int, tuple[int, ...]] | None:
    """Return the rank of the style in which a title is numbered, and its number."""
    found = heading_number(title)
    if found is not None and found.word in _RANK:
        return _RANK[found.word], (int(found.parts[0]),)
    if not alone:
        return None
    for rank, style in enumerate(_ITEMS, _FIRST_ITEM):
        if match := style.match(title):
            return rank, (chinese_number(match["number"]),)
    plain = found is not None and title[: found.end].rstrip(" .") == ".".join(found.parts)  # not "3)", "Chapter 3"
    if found is None or not plain or not found.parts[0].isdigit():
        return None
    proper = title[found.end : found.end + 1]
    number = tuple(int(part) for part in found.parts)
    return (_LAST_ITEM + len(number), number) if proper.isalpha() and not proper.islower() else None


def _consistent(candidates: Iterable[_NumberedHeading]) -> Iterator[_NumberedHeading]:
    """Yield the candidates that continue the numbers of those before them."""
    latest: dict[int, tuple[int, ...]] = {}
    open_ranks: set[int] = set()
    for heading in candidates:
        if _follows(heading, latest, open_ranks):
            yield heading
            latest[heading.rank] = heading.number
            open_ranks = {rank for rank in open_ranks if rank < heading.rank} | {heading.rank}


def _follows(heading: _NumberedHeading, latest: Mapping[int, tuple[int, ...]], open_ranks: Set[int]) -> bool:
    """Return whether the number is the next one of its rank, or the first one below an outer heading."""
    prefix, own = heading.number[:-1], heading.number[-1]
    if prefix and heading.rank - 1 in open_ranks and latest[heading.rank - 1] != prefix:
        return False
    before = latest.get(heading.rank, (*prefix, 0))
    if own == 1 and (heading.rank not in open_ranks or prefix > before[:-1]):
        return True
    return prefix == before[:-1] and own == before[-1] + 1

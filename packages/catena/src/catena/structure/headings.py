"""The heading tree of a document: which section each character belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from catena.model import Document, Section
from catena.model.ids import span_id
from catena.structure.blocks import Block, blocks_of
from catena.structure.numbering import numbered_headings
from catena.structure.titles import plain_title


class Heading(NamedTuple):
    """A heading as found: [start, body_start) is the heading with its line end."""

    start: int
    body_start: int
    level: int  # from 1
    title: str


def outline(document: Document, *, blocks: Sequence[Block] | None = None) -> tuple[Section, ...]:
    """Return the sections of a document in reading order; their own spans tile the text.

    Markdown headings (# and underlined) outside code, quotes, lists, HTML and front matter open a section.
    A text without any, and plain text, is divided at numbered headings that stand alone on their line
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


def headings_of(text: str, blocks: Sequence[Block]) -> list[Heading]:
    """Return the Markdown headings among the blocks of a text, or its numbered ones where there is none."""
    found = [(b.start, b.end, b.level, plain_title(b.title)) for b in blocks if b.kind == "heading"]
    return [
        Heading(start, next_line(text, end), level, title)
        for start, end, level, title in found or numbered_headings(text, blocks)
    ]


def next_line(text: str, line_end: int) -> int:
    """Return where the line after a line end begins."""
    return min(len(text), line_end + (2 if text.startswith("\r\n", line_end) else 1))


def tree_of(document: Document, headings: list[Heading]) -> tuple[Section, ...]:
    """Return the sections that ascending headings open; text before the first one is a section of level 0."""
    size = len(document.text)
    if not headings or headings[0].start > 0:
        if headings and document.text[: headings[0].start].strip("\ufeff \t\r\n") == "":
            headings = [
                headings[0]._replace(start=0),
                *headings[1:],
            ]  # blank lines before the first heading are its own
        else:
            headings = [Heading(0, 0, 0, ""), *headings]
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


def _relations(headings: list[Heading], size: int) -> tuple[list[int | None], list[tuple[str, ...]], list[int]]:
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

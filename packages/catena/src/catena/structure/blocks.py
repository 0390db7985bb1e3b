"""A document seen as a row of blocks with exact offsets: headings, paragraphs, list items, code, tables."""

from __future__ import annotations

import re
from typing import NamedTuple

from catena.model import Document
from catena.structure.authority import BlockKind
from catena.structure.lines import split_lines
from catena.structure.scanner import Scanner
from catena.text.loaded import PLAIN

_FRONT = re.compile(r"\ufeff?---[ \t]*(?:\r\n?|\n)(?=[\w\"'-]+[ \t]*:)")
_FRONT_END = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\r\n?|\n|\Z)", re.MULTILINE)


class Block(NamedTuple):
    """A top-level block; `end` is where its last line ends, the line end itself excluded.

    Attributes:
        level: 1 to 6 for a heading, else 0.
        title: the inline source of a heading, else "".
    """

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    title: str = ""


def blocks_of(document: Document) -> list[Block]:
    """Return the blocks of a document: of its Markdown, or the paragraphs of a plain text."""
    return paragraphs(document.text) if document.media_type == PLAIN else scan(document.text)


def paragraphs(text: str) -> list[Block]:
    """Return the runs of lines between blank lines; any white space makes a line blank."""
    lines, starts = split_lines(text)
    found: list[Block] = []
    inside = False
    for line, start in zip(lines, starts, strict=False):
        filled = bool(line.strip())
        if filled and inside:
            found[-1] = found[-1]._replace(end=start + len(line))
        elif filled:
            found.append(Block("paragraph", start, start + len(line)))
        inside = filled
    return found


def scan(text: str) -> list[Block]:
    """Return the top-level blocks of Markdown in order: CommonMark with tables and YAML front matter.

    Headings inside quotes, list items, code, comments and HTML are part of those blocks.

    Args:
        text: Markdown with any line ends; a byte order mark at its start is passed over.

    Returns:
        Blocks that do not overlap; between them is nothing but white space and link definitions.
    """
    offset = front_matter_end(text)
    blocks = [Block("front", 0, offset)] if offset else []
    offset = offset or int(text.startswith("\ufeff"))
    lines, starts = split_lines(text[offset:] if offset else text)
    for kind, first, last, level, title in Scanner(lines).scan():
        end = starts[last - 1] + len(lines[last - 1])
        blocks.append(Block(kind, offset + starts[first], offset + end, level, title))
    return blocks


def front_matter_end(text: str) -> int:
    """Return where a leading YAML block ("---", keys, "---") ends; 0 when there is none."""
    opening = _FRONT.match(text)
    closing = _FRONT_END.search(text, opening.end()) if opening else None
    return closing.end() if closing else 0

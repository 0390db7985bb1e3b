"""What must not be torn apart lightly: a heading and what follows it, a table or figure and its caption."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from catena.structure.blocks import Block
from catena.structure.table_grid import whole_tables

UnitKind: TypeAlias = Literal["text", "code", "table", "figure"]

_CAPTION = r"[*_]{0,3}(?:%s)[ \t]*[\dA-Z一二三四五六七八九十]"
_TABLE_CAPTION = re.compile(_CAPTION % r"Table|TABLE|Tab\.|Tabelle|Tableau|表格?")
_FIGURE_CAPTION = re.compile(_CAPTION % r"Figure|FIGURE|Fig\.?|FIG\.?|Abb\.|Abbildung|图表?|圖")
_BOLD_LINE = re.compile(r"(\*\*|__)[^\r\n]+\1")
_IMAGE = re.compile(r"[ \t]*!\[[^\r\n]*\][(\[]")
_LONGEST_CAPTION = 200  # characters


class Unit(NamedTuple):
    """A block with what belongs to it; the units of a section tile it.

    Attributes:
        core: where the block itself begins, after the heading or caption that was put before it.
    """

    start: int
    end: int
    kind: UnitKind
    core: int


def units(text: str, start: int, end: int, blocks: Sequence[Block]) -> list[Unit]:
    """Return the units of the section [start, end), whose blocks are given in order.

    Args:
        text: the whole text.
        start: where the section begins; text before its first block belongs to the first unit.
        end: where it ends; text after a block, up to the next one, belongs to the block.
        blocks: those that begin inside the section (one cut by its start begins there).
    """
    found: list[Unit] = []
    begin = start
    blocks = whole_tables(text, blocks)
    for index, block in enumerate(blocks):
        border = blocks[index + 1].start if index + 1 < len(blocks) else end
        following = blocks[index + 1] if index + 1 < len(blocks) else None
        if following is not None and _leads(text, block, following):
            continue
        kind = _kind(text, block)
        if found and kind == "text" and found[-1].kind == "figure" and _captions(text, block, found[-1]):
            found[-1] = found[-1]._replace(end=border)
        else:
            found.append(Unit(begin, border, kind, max(begin, block.start)))
        begin = border
    return found or [Unit(start, end, "text", start)]


def _kind(text: str, block: Block) -> UnitKind:
    if block.kind == "table":
        return "table"
    if block.kind == "code":
        return "code"
    return "figure" if block.kind == "paragraph" and _IMAGE.match(text, block.start) else "text"


def _leads(text: str, block: Block, following: Block) -> bool:
    """Whether the block is the heading of what follows, or the caption of a table that follows."""
    if block.kind == "heading":
        return True
    if block.kind != "paragraph" or following.kind != "table" or block.end - block.start > _LONGEST_CAPTION:
        return False
    line = text[block.start : block.end]
    if "\n" in line or "\r" in line or _IMAGE.match(line):
        return False
    directly_above = text[block.end : following.start].strip(" \t") in {"\n", "\r\n", "\r"}
    return directly_above or bool(_TABLE_CAPTION.match(line) or _BOLD_LINE.fullmatch(line))


def _captions(text: str, block: Block, figure: Unit) -> bool:
    """Whether the paragraph is the caption of the figure before it."""
    short = block.end - block.start <= _LONGEST_CAPTION
    return short and block.kind == "paragraph" and bool(_FIGURE_CAPTION.match(text, block.start))

"""Blocks of Markdown with the page of each of their pieces, and how they are written out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

_MARK = re.compile(
    r"#{1,6}(?=\s|$)|[-+*](?=\s|$)|[>|<]|~~~|```|\[[^\]]+\]:|[-*_](?:\s*[-*_]){2,}\s*$|=+\s*$"  # at a line's start
)
_ORDERED = re.compile(r"(\d{1,9})([.)])(?=\s|$)")


@dataclass(frozen=True, slots=True)
class Piece:
    """Text of one page inside a block; `glue` joins it to the piece before it."""

    page: int  # from 1
    text: str
    glue: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A heading, a paragraph, an item of a list, code, a table or a figure.

    Attributes:
        prefix: what Markdown wants before the first piece ("## ", "- ", a fence).
        suffix: what it wants after the last one (a fence).
        indent: spaces before the prefix, for items inside items.
    """

    kind: Literal["heading", "paragraph", "item", "code", "table", "figure"]
    pieces: tuple[Piece, ...]
    prefix: str = ""
    suffix: str = ""
    indent: int = 0


def write(blocks: Sequence[Block], n_pages: int) -> tuple[str, tuple[int, ...]]:
    """Write blocks as Markdown.

    Returns:
        The text, and the offset where each page begins: at its first character, marks of Markdown included,
        in the middle of a paragraph or even of a word that goes over the page. A page that shows nothing
        begins where the next one does.
    """
    out: list[str] = []
    starts: list[int] = []
    length = 0

    def put(text: str) -> None:
        nonlocal length
        out.append(text)
        length += len(text)

    last: Block | None = None
    for block in blocks:
        if last is not None:
            put("\n" if last.kind == block.kind == "item" else "\n\n")
        for position, piece in enumerate(block.pieces):
            if position:
                put(piece.glue)
            while len(starts) < piece.page:
                starts.append(length)
            if not position:
                put(" " * block.indent + block.prefix)
            put(piece.text)
        put(block.suffix)
        last = block
    if last is not None:
        put("\n")
    starts += [length] * (n_pages - len(starts))
    return "".join(out), (0, *starts[1:]) if starts else ()


def escape(text: str) -> str:
    """Keep the first characters of a paragraph from being read as a mark of Markdown."""
    if _MARK.match(text):
        return "\\" + text
    return _ORDERED.sub(r"\1\\\2", text, count=1) if _ORDERED.match(text) else text


def escape_heading(text: str) -> str:
    """Keep trailing number signs, which Markdown would take for the end of the heading."""
    return re.sub(r"(\s)(#+)$", r"\1\\\2", text)


def table_row(cells: Sequence[str]) -> str:
    """Write one row, pipes escaped and white space made single."""
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def table_block(rows: Sequence[tuple[int, Sequence[str]]]) -> Block:
    """Write a table whose first row is the header; each row comes with its page."""
    header, *rest = rows
    rule = "\n| " + " | ".join("---" for _ in header[1]) + " |\n"
    pieces = [Piece(header[0], table_row(header[1]))]
    for position, (page, cells) in enumerate(rest):
        pieces.append(Piece(page, table_row(cells), "\n" if position else rule))
    return Block(kind="table", pieces=tuple(pieces), suffix="" if rest else rule.rstrip("\n"))


def code_block(lines: Sequence[tuple[int, str]]) -> Block:
    """Write lines verbatim between fences that are longer than any run of backticks in them."""
    longest = max((len(run) for _, line in lines for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    pieces = tuple(Piece(page, line, "\n") for page, line in lines)
    return Block(kind="code", pieces=pieces, prefix=fence + "\n", suffix="\n" + fence)

"""What markdown-it says about a run of lines: the authority on where the blocks of Markdown begin and end."""

from __future__ import annotations

import re
from functools import cache
from types import FunctionType
from typing import Literal, NamedTuple, TypeAlias

from markdown_it import MarkdownIt
from markdown_it.rules_block import html_block

from catena.structure.lines import blank

BlockKind: TypeAlias = Literal["heading", "paragraph", "item", "code", "table", "html", "quote", "rule", "front"]

_KINDS: dict[str, BlockKind] = {
    "heading_open": "heading",
    "paragraph_open": "paragraph",
    "list_item_open": "item",
    "fence": "code",
    "code_block": "code",
    "table_open": "table",
    "html_block": "html",
    "blockquote_open": "quote",
    "hr": "rule",
}
# What begins and ends the kinds of HTML blocks, and whether one may end a paragraph. White space is that of ASCII,
# as in CommonMark: markdown-it takes wide spaces for it and for parts of values, at the cube of their number.
HTML_SEQUENCES: list[tuple[re.Pattern[str], re.Pattern[str], bool]] = [
    (re.compile(opening.pattern, opening.flags & ~re.UNICODE | re.ASCII), closing, interrupts)
    for opening, closing, interrupts in html_block.__globals__["HTML_SEQUENCES"]
]


class LineBlock(NamedTuple):
    """A top-level block by its lines, [first, last), 0-based; headings also have level and inline source."""

    kind: BlockKind
    first: int
    last: int
    level: int = 0
    title: str = ""


@cache
def _parser() -> MarkdownIt:
    markdown = MarkdownIt("commonmark").enable("table")
    markdown.core.ruler.enableOnly(["normalize", "block"])
    rule = FunctionType(html_block.__code__, {**html_block.__globals__, "HTML_SEQUENCES": HTML_SEQUENCES})
    markdown.block.ruler.at("html_block", rule, {"alt": ["paragraph", "reference", "blockquote"]})
    return markdown


def parse_blocks(lines: list[str]) -> list[LineBlock]:
    """Return the top-level blocks of some lines as markdown-it sees them: the authority."""
    tokens = _parser().parse("\n".join(lines))
    blocks: list[LineBlock] = []
    for index, token in enumerate(tokens):
        kind = _KINDS.get(token.type)
        if kind is None or token.level != int(kind == "item"):
            continue
        first, last = token.map or (0, 0)
        while last - 1 > first and blank(lines[last - 1]):
            last -= 1
        heading = (int(token.tag[1:]), tokens[index + 1].content) if kind == "heading" else (0, "")
        blocks.append(LineBlock(kind, first, last, *heading))
    return blocks

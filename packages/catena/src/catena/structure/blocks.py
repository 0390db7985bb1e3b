"""Markdown seen as a row of blocks with exact offsets: headings, paragraphs, list items, code, tables."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from markdown_it.token import Token

    from catena.model import Document

BlockKind: TypeAlias = Literal["heading", "paragraph", "item", "code", "table", "html", "quote", "rule", "front"]

_PARAGRAPH = re.compile(r"[^\r\n]*\S[^\r\n]*(?:(?:\r\n?|\n)[^\r\n]*\S[^\r\n]*)*")
_LINE_END = re.compile(r"\r\n?|\n")
_FRONT = re.compile(r"\ufeff?---[ \t]*(?:\r\n?|\n)(?=[\w\"'-]+[ \t]*:)")
_FRONT_END = re.compile(r"^(?:---|\.\.\.)[ \t]*$(?:\r\n?|\n)?", re.MULTILINE)
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


class Block(NamedTuple):
    """A top-level block; `end` is where its last line ends, the line end and blank lines after it excluded.

    Attributes:
        level: 1 to 6 for a heading, else 0.
        title: the raw inline source of a heading, else "".
    """

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    title: str = ""


@cache
def _parser() -> MarkdownIt:
    markdown = MarkdownIt("commonmark").enable("table")
    markdown.core.ruler.enableOnly(["normalize", "block"])
    return markdown


def line_starts(text: str) -> list[int]:
    r"""Return where each line begins; only \n, \r\n and \r end a line. The last item is len(text)."""
    starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
    return starts if starts[-1] == len(text) and len(starts) > 1 else [*starts, len(text)]


def front_matter_end(text: str) -> int:
    """Return where a leading YAML block ("---", keys, "---") ends; 0 when there is none."""
    opening = _FRONT.match(text)
    closing = _FRONT_END.search(text, opening.end()) if opening else None
    return closing.end() if closing else 0


def blocks_of(document: Document) -> list[Block]:
    """Return the blocks of a document: of its Markdown, or the paragraphs of a plain text."""
    return _paragraphs(document.text) if document.media_type == "text/plain" else scan(document.text)


def _paragraphs(text: str) -> list[Block]:
    return [Block("paragraph", match.start(), match.end()) for match in _PARAGRAPH.finditer(text)]


def scan(text: str) -> list[Block]:
    """Return the top-level blocks in reading order: CommonMark with tables and front matter.

    Headings inside quotes, list items, code, comments and HTML are part of those blocks.

    Args:
        text: Markdown, any line ends.

    Returns:
        Blocks that do not overlap; between them is nothing but white space and link definitions.
    """
    offset = front_matter_end(text)
    blocks = [Block("front", 0, offset)] if offset else []
    offset = offset or int(text.startswith("\ufeff"))
    body = text[offset:]
    starts = line_starts(body)
    tokens = _parser().parse(body)
    for index, token in enumerate(tokens):
        kind = _KINDS.get(token.type)
        if kind is None or token.level != int(kind == "item"):
            continue
        first, last = token.map or [0, 0]
        start, end = starts[first], starts[min(last, len(starts) - 1)]
        end = start + len(body[start:end].rstrip())
        blocks.append(Block(kind, offset + start, offset + end, *_heading(tokens, index, kind)))
    return blocks


def _heading(tokens: list[Token], index: int, kind: BlockKind) -> tuple[int, str]:
    return (int(tokens[index].tag[1:]), tokens[index + 1].content) if kind == "heading" else (0, "")

"""Divide a text into its top-level blocks with exact offsets: headings, paragraphs, list items, code, tables.

Most lines of real documents can be told apart by their first characters, at a multiple of the speed of a full
parser. Runs of lines that cannot (lazy continuation, nested containers out of step, odd tables and link
definitions) are handed to markdown-it, a bounded run at a time, so that the result is the same.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import accumulate, takewhile
from types import FunctionType
from typing import Literal, NamedTuple, TypeAlias

from markdown_it import MarkdownIt
from markdown_it.rules_block import html_block

from catena.model import Document
from catena.text import PLAIN, atx_title

BlockKind: TypeAlias = Literal["heading", "paragraph", "item", "code", "table", "html", "quote", "rule", "front"]


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


_FRONT = re.compile(r"\ufeff?---[ \t]*(?:\r\n?|\n)(?=[\w\"'-]+[ \t]*:)")
_FRONT_END = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\r\n?|\n|\Z)", re.MULTILINE)


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
    for kind, first, last, level, title in _Scanner(lines).scan():
        end = starts[last - 1] + len(lines[last - 1])
        blocks.append(Block(kind, offset + starts[first], offset + end, level, title))
    return blocks


def front_matter_end(text: str) -> int:
    """Return where a leading YAML block ("---", keys, "---") ends; 0 when there is none."""
    opening = _FRONT.match(text)
    closing = _FRONT_END.search(text, opening.end()) if opening else None
    return closing.end() if closing else 0


_LINE = re.compile(r"([^\r\n]*)(\r\n?|\n|\Z)")


class Lines(NamedTuple):
    r"""Lines of a text without their ends; only \n, \r\n and \r end a line."""

    texts: list[str]
    starts: list[int]  # offset of each line's first character, and last the length of the text


def split_lines(text: str) -> Lines:
    """Return the lines of a text and where they begin; a line end at the very end begins no further line."""
    if "\r" not in text:
        texts = text.split("\n")
        starts = [0, *accumulate(len(line) + 1 for line in texts)]
        if not texts[-1]:
            texts.pop()
            starts.pop()
        starts[-1] = len(text)
        return Lines(texts, starts)
    texts, starts = [], [0]
    for match in _LINE.finditer(text):
        if match.start() == len(text):
            break
        texts.append(match[1])
        starts.append(match.end())
    return Lines(texts, starts)


def blank(line: str) -> bool:
    """Return whether a line has nothing but spaces and tabs: other white space is text to Markdown."""
    return not line.strip(" \t")


class LineBlock(NamedTuple):
    """A top-level block by its lines, [first, last), 0-based; headings also have level and inline source."""

    kind: BlockKind
    first: int
    last: int
    level: int = 0
    title: str = ""


_CODE = re.compile(r" {4}| {0,3}\t")
_ATX = re.compile(r" {0,3}(#{1,6})(?=[ \t]|\Z)")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*\Z")
_RULE = re.compile(r" {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}\Z")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*\Z)|~{3,})", re.DOTALL)
_MARKER = re.compile(r" {0,3}(?:[-+*]|\d{1,9}[.)])(?=[ \t]|\Z)")
_ITEM = re.compile(r"( {0,3}(?:[-+*]|\d{1,9}[.)])) {1,4}(?=[^ \t])")  # a plain one: its content begins here
_INTERRUPTS = re.compile(r" {0,3}(?:[-+*]|0{0,8}1[.)])[ \t]+[^ \t]")  # only such an item ends a paragraph
_DELIMITERS = re.compile(r" {0,3}[-:|][-:| \t]+\Z")
_SPECIAL = frozenset("#`~<>-+*_=0123456789")
_CONTAINERS = {"item", "quote"}
_LONGEST_DEFINITION = 64  # lines looked at for link definitions at once


class _Scanner:
    """One pass over the lines of a text; `blocks` grows as it goes."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.blocks: list[LineBlock] = []

    def scan(self) -> list[LineBlock]:
        """Return the top-level blocks in order."""
        lines = self.lines
        index = 0
        while index < len(lines):
            line = lines[index]
            index = self._block(index, line) if line.strip(" \t") else index + 1
        return self.blocks

    def _add(self, kind: BlockKind, first: int, end: int, level: int = 0, title: str = "") -> int:
        """Keep a block, without the blank lines at its end, and return the line after it."""
        last = end
        while blank(self.lines[last - 1]):
            last -= 1
        self.blocks.append(LineBlock(kind, first, last, level, title))
        return end

    def _block(self, index: int, line: str) -> int:
        """Add the block that begins on this line, and return the line after it."""
        if _CODE.match(line):
            return self._indented(index)
        if self._table_at(index):
            return self._table(index)
        mark = line.lstrip(" ")[0]
        if mark in _SPECIAL:
            return self._marked(index, line, mark)
        return self._definition(index) if mark == "[" else self._paragraph(index)

    def _marked(self, index: int, line: str, mark: str) -> int:
        if mark == ">":
            return self._quote(index)
        if heading := _ATX.match(line):
            return self._add("heading", index, index + 1, len(heading[1]), atx_title(line[heading.end() :]))
        if _RULE.match(line):
            return self._add("rule", index, index + 1)
        if _MARKER.match(line):
            return self._list(index)
        if fence := _FENCE.match(line):
            return self._fence(index, fence[1])
        closing = _html(line, interrupting=False) if mark == "<" else None
        return self._html(index, closing) if closing else self._paragraph(index)

    def _indented(self, index: int) -> int:
        last = scan = index + 1
        while scan < len(self.lines):
            line = self.lines[scan]
            scan += 1
            if _CODE.match(line):
                last = scan if not blank(line) else last
            elif not blank(line):
                break
        return self._add("code", index, last)

    def _fence(self, index: int, mark: str) -> int:
        closing = re.compile(rf" {{0,3}}{re.escape(mark[0])}{{{len(mark)},}}[ \t]*\Z")
        for last in range(index + 1, len(self.lines)):
            if closing.match(self.lines[last]):
                return self._add("code", index, last + 1)
        return self._add("code", index, len(self.lines))

    def _html(self, index: int, closing: re.Pattern[str]) -> int:
        for last in range(index, len(self.lines)):
            line = self.lines[last].strip(" \t") if closing.pattern == "^$" else self.lines[last]
            if closing.search(line):
                return self._add("html", index, last + bool(line))
        return self._add("html", index, len(self.lines))

    def _table_at(self, index: int) -> bool:
        """Return whether a table begins on this line; markdown-it is asked where one might."""
        header, rest = self.lines[index], self.lines[index + 1 : index + 2]
        if "|" not in header or not rest or not _DELIMITERS.match(rest[0]):
            return False
        return parse_blocks([header, rest[0]])[0].kind == "table"

    def _table(self, index: int) -> int:
        last = index + 2
        while last < len(self.lines):
            line = self.lines[last]
            if not line.strip() or _CODE.match(line) or self._starts_block(line, _MARKER):
                break
            last += 1
        return self._add("table", index, last)

    def _starts_block(self, line: str, item: re.Pattern[str]) -> bool:
        """Return whether the line ends the paragraph or table before it; `item` is the pattern of a list item."""
        mark = line.lstrip(" ")[:1]
        if mark not in _SPECIAL:
            return False
        if mark == "<":
            return _html(line, interrupting=True) is not None
        return mark == ">" or any(pattern.match(line) for pattern in (_ATX, _FENCE, _RULE, item))

    def _paragraph(self, index: int) -> int:
        lines = self.lines
        last = index + 1
        while last < len(lines):
            line = lines[last]
            mark = line.lstrip(" \t")[:1]
            if not mark:
                break
            if (mark in _SPECIAL or "|" in line) and not _CODE.match(line):
                if _UNDERLINE.match(line):
                    title = "\n".join(lines[index:last])
                    return self._add("heading", index, last + 1, 1 if mark == "=" else 2, title)
                if self._starts_block(line, _INTERRUPTS) or self._table_at(last):
                    break
            last += 1
        return self._add("paragraph", index, last)

    def _definition(self, index: int) -> int:
        """Skip the link definitions on these lines, if that is what they are."""
        run = list(takewhile(lambda line: not blank(line), self.lines[index : index + _LONGEST_DEFINITION]))
        if not any("]:" in line for line in run):
            return self._paragraph(index)
        found = parse_blocks(run)
        defined = found[0].first if found else len(run)
        return index + defined if defined else self._paragraph(index)

    def _quote(self, index: int) -> int:
        last = index + 1
        while last < len(self.lines) and self.lines[last].lstrip(" ").startswith(">"):
            if _CODE.match(self.lines[last]):
                return self._parsed(index)
            last += 1
        if last < len(self.lines) and not blank(self.lines[last]):
            return self._parsed(index)
        return self._add("quote", index, last)

    def _list(self, index: int) -> int:
        """Add the items of the list on these lines when each line is plainly inside one or begins one."""
        lines, end = self.lines, self._region_end(index)
        first, last, indent = index, index, 0
        items: list[LineBlock] = []
        for number in range(index, end):
            line = lines[number]
            body = line.lstrip(" ")
            if not body or blank(body):
                continue
            if len(line) - len(body) < indent or number == index:
                item = None if body[0] in "-*" and _RULE.match(line) else _ITEM.match(line)
                if item is None:
                    return self._parsed(index)
                if number > index:
                    items.append(LineBlock("item", first, last))
                first, indent = number, item.end()
            elif body[0] == "\t":
                return self._parsed(index)
            last = number + 1
        self.blocks += [*items, LineBlock("item", first, last)]
        return end

    def _region_end(self, index: int) -> int:
        """Return the first line that no container begun on `index` can reach: unindented, after a blank one."""
        apart = False
        for number in range(index, len(self.lines)):
            line = self.lines[number]
            if blank(line):
                apart = True
            elif apart and line[:2].strip(" ") and "\t" not in line[:2] and not _MARKER.match(line):
                return number
            else:
                apart = False
        return len(self.lines)

    def _parsed(self, index: int) -> int:
        """Add the blocks that markdown-it finds from here to where every container is closed."""
        end = self._region_end(index)
        found = parse_blocks(self.lines[index:end])
        if len(found) > 1 and found[-1].kind not in _CONTAINERS:
            end = index + found.pop().first  # it may reach further than the lines that were parsed
        self.blocks += [block._replace(first=index + block.first, last=index + block.last) for block in found]
        return end


def _html(line: str, *, interrupting: bool) -> re.Pattern[str] | None:
    """Return the pattern of the end of the HTML block that begins on this line, None where none begins."""
    body = line.lstrip(" ")
    for opening, closing, interrupts in HTML_SEQUENCES:
        if opening.search(body):
            return closing if interrupts or not interrupting else None
    return None


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


@cache
def _parser() -> MarkdownIt:
    markdown = MarkdownIt("commonmark").enable("table")
    markdown.core.ruler.enableOnly(["normalize", "block"])
    rule = FunctionType(html_block.__code__, {**html_block.__globals__, "HTML_SEQUENCES": HTML_SEQUENCES})
    markdown.block.ruler.at("html_block", rule, {"alt": ["paragraph", "reference", "blockquote"]})
    return markdown


def parse_blocks(lines: list[str]) -> list[LineBlock]:
    """Return the top-level blocks of some lines by markdown-it, the full parser."""
    tokens = _parser().parse("\n".join(lines))
    blocks: list[LineBlock] = []
    for index, token in enumerate(tokens):
        kind = _KINDS.get(token.type)
        if kind is None or token.level != int(kind == "item"):
            continue
        first, last = token.map or (0, 0)
        while blank(lines[last - 1]):
            last -= 1
        heading = (int(token.tag[1:]), tokens[index + 1].content) if kind == "heading" else (0, "")
        blocks.append(LineBlock(kind, first, last, *heading))
    return blocks

"""Headings of texts without Markdown: numbered lines that stand alone and count upwards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from catena.structure.blocks import Block
from catena.structure.lines import split_lines

_LONGEST = 120  # characters of a heading line
_FEWEST = 2  # headings before a text counts as divided by them
NUMERAL = r"[零〇一二两三四五六七八九十百千]{1,9}|\d{1,3}"
_DOTTED = re.compile(r"(?P<number>\d{1,3}(?:\.\d{1,3}){0,5})\.?[ \t\u3000]+(?P<title>[^\W\d_].*)")
_CHINESE = (  # outermost first: a text uses some of these styles, in this order of rank
    re.compile(rf"第[ \t]*(?P<number>{NUMERAL})[ \t]*[编篇部卷]"),
    re.compile(rf"第[ \t]*(?P<number>{NUMERAL})[ \t]*章"),
    re.compile(rf"第[ \t]*(?P<number>{NUMERAL})[ \t]*节"),
    re.compile(rf"(?P<number>{NUMERAL})、"),
    re.compile(rf"[(（](?P<number>{NUMERAL})[)）]"),
)
_UNMISTAKABLE = 3  # the first styles say what they are; the others need blank lines around them
_DIGITS = {digit: value for value, digit in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_UNITS = {"十": 10, "百": 100, "千": 1000}
_SENTENCE_END = tuple(".。,，;；:：!！?？…、")


class NumberedHeading(NamedTuple):
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


def chinese_number(numeral: str) -> int:
    """Return the value of a Chinese or decimal numeral: 二十一 is 21, 一百零五 is 105."""
    if numeral.isdecimal():
        return int(numeral)
    total, digit = 0, 0
    for character in numeral:
        if character in _UNITS:
            total, digit = total + max(digit, 1) * _UNITS[character], 0
        else:
            digit = _DIGITS[character]
    return total + digit


def _candidates(text: str, blocks: Sequence[Block]) -> Iterator[NumberedHeading]:
    ends = [0, *(block.end for block in blocks)]
    starts = [*(block.start for block in blocks), len(text)]
    for index, block in enumerate(blocks):
        if block.kind not in {"paragraph", "item"}:
            continue
        lines, offsets = split_lines(text[block.start : block.end])
        above, below = text[ends[index] : block.start], text[block.end : starts[index + 1]]
        alone = len(lines) == 1 and _apart(above, first=index == 0) and _apart(below, first=index == len(blocks) - 1)
        for line, offset in zip(lines, offsets, strict=False):
            start = block.start + offset
            if len(line) <= _LONGEST and (heading := _heading(line, start, alone=alone)):
                yield heading


def _apart(gap: str, *, first: bool) -> bool:
    """Whether a blank line lies between two blocks; the ends of the text are as good."""
    return first or len(split_lines(gap + ".").texts) > 2


def _heading(line: str, start: int, *, alone: bool) -> NumberedHeading | None:
    title = " ".join(line.split())
    if not title or title.endswith(_SENTENCE_END):
        return None
    end = start + len(line)
    for rank, style in enumerate(_CHINESE if alone else _CHINESE[:_UNMISTAKABLE]):
        if match := style.match(title):
            return NumberedHeading(start, end, rank, title, (chinese_number(match["number"]),))
    match = _DOTTED.match(title) if alone else None
    if match is None or match["title"][0].islower():
        return None
    number = tuple(int(part) for part in match["number"].split("."))
    return NumberedHeading(start, end, len(_CHINESE) + len(number) - 1, title, number)


def _consistent(candidates: Iterable[NumberedHeading]) -> Iterator[NumberedHeading]:
    """Yield the candidates that continue the numbers of those before them."""
    latest: dict[int, tuple[int, ...]] = {}
    open_ranks: set[int] = set()
    for heading in candidates:
        if _follows(heading, latest, open_ranks):
            yield heading
            latest[heading.rank] = heading.number
            open_ranks = {rank for rank in open_ranks if rank < heading.rank} | {heading.rank}


def _follows(heading: NumberedHeading, latest: Mapping[int, tuple[int, ...]], open_ranks: Set[int]) -> bool:
    """Whether the number is the next one of its rank, or the first one below an outer heading."""
    prefix, own = heading.number[:-1], heading.number[-1]
    if prefix and heading.rank - 1 in open_ranks and latest[heading.rank - 1] != prefix:
        return False
    before = latest.get(heading.rank, (*prefix, 0))
    if own == 1 and (heading.rank not in open_ranks or prefix > before[:-1]):
        return True
    return prefix == before[:-1] and own == before[-1] + 1

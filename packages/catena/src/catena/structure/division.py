"""Cutting what is too long, at the mildest border that helps: blank line, item, sentence, word, character."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TypeAlias

from catena.structure.sentences import sentence_ends

Span: TypeAlias = tuple[int, int]
Counter: TypeAlias = Callable[[str], int]
Borders: TypeAlias = Callable[[str, int, int], Iterable[int]]


def _ends_of(pattern: str) -> Borders:
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda text, start, end: (match.end() for match in compiled.finditer(text, start, end))


def _starts_of(pattern: str) -> Borders:
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda text, start, end: (match.start() for match in compiled.finditer(text, start, end))


blank_lines = _ends_of(r"(?:\r\n?|\n)(?:[ \t]*(?:\r\n?|\n))+")
items = _starts_of(r"^[ \t]*(?:[-*+•]|\d{1,9}[.)])[ \t]")
lines = _ends_of(r"\r\n?|\n")
words = _ends_of(r"\s+")
html_rows = _starts_of(r"(?i:<tr\b)")

PROSE: tuple[Borders, ...] = (blank_lines, items, sentence_ends, lines, words)
CODE: tuple[Borders, ...] = (blank_lines, lines, words)
ROWS: tuple[Borders, ...] = (html_rows, lines, words)


def divide(text: str, span: Span, levels: Sequence[Borders], *, limit: int, count: Counter) -> Iterator[Span]:
    """Yield consecutive spans that tile `span`, none longer than `limit` tokens.

    The span is cut at the borders of the first level and its parts are joined again while they fit, to
    pieces of about equal length; a part that is too long by itself is cut at the next level, in the end
    between characters.

    Args:
        text: the whole text.
        span: [start, end) of what to cut.
        levels: kinds of borders, mildest first.
        limit: most tokens of a piece, >= 1; only a single character may pass it.
        count: tokens of a text.
    """
    total = count(text[span[0] : span[1]])
    if total <= limit:
        yield span
    elif not levels:
        yield from _halves(text, span, limit=limit, count=count)
    else:
        deeper = partial(divide, text, levels=levels[1:], limit=limit, count=count)
        share = even_share(total, limit)
        yield from pack(text, parts(text, span, levels[0]), deeper, limit=limit, share=share, count=count)


def parts(text: str, span: Span, borders: Borders) -> list[Span]:
    """Return the parts of a span between the borders inside it."""
    start, end = span
    inner = [border for border in borders(text, start, end) if start < border < end]
    return list(pairwise([start, *inner, end]))


def even_share(total: int, limit: int) -> int:
    """Return the tokens of each piece when `total` is spread evenly over the fewest pieces of `limit`."""
    return -(-total // -(-total // limit))


def pack(
    text: str,
    spans: Sequence[Span],
    deeper: Callable[[Span], Iterator[Span]],
    *,
    limit: int,
    share: int,
    count: Counter,
) -> Iterator[Span]:
    """Yield consecutive spans joined to pieces of at most `limit` tokens.

    A piece is closed once it has its `share` of tokens: `even_share` gives pieces of about equal length,
    the limit itself fills each piece as far as it goes. A span longer than `limit` is divided by
    `deeper`, together with the little that waits before it, so that no heading is left alone.
    """
    run: list[Span] = []
    held = 0
    for span in spans:
        tokens = count(text[span[0] : span[1]])
        if tokens > limit and held * 2 < share:
            yield from deeper((run[0][0] if run else span[0], span[1]))
            run, held = [], 0
            continue
        if run and (held + tokens > limit or held >= share):
            yield from _checked(text, run, limit=limit, count=count)
            run, held = [], 0
        if tokens > limit:
            yield from deeper(span)
        else:
            run.append(span)
            held += tokens
    if run:
        yield from _checked(text, run, limit=limit, count=count)


def _checked(text: str, run: Sequence[Span], *, limit: int, count: Counter) -> Iterator[Span]:
    """Yield the run as one span, or as two and so on where its tokens are more than the sum of its parts'."""
    span = (run[0][0], run[-1][1])
    if len(run) == 1 or count(text[span[0] : span[1]]) <= limit:
        yield span
    else:
        middle = len(run) // 2
        yield from _checked(text, run[:middle], limit=limit, count=count)
        yield from _checked(text, run[middle:], limit=limit, count=count)


def _halves(text: str, span: Span, *, limit: int, count: Counter) -> Iterator[Span]:
    start, end = span
    if end - start <= 1 or count(text[start:end]) <= limit:
        yield span
    else:
        middle = (start + end) // 2
        yield from _halves(text, (start, middle), limit=limit, count=count)
        yield from _halves(text, (middle, end), limit=limit, count=count)

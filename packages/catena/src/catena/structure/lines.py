"""The lines of a text, as Markdown counts them."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import NamedTuple

_LINE = re.compile(r"([^\r\n]*)(\r\n?|\n|\Z)")


class Lines(NamedTuple):
    r"""The lines of a text without their ends; only \n, \r\n and \r end a line."""

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
    """Whether a line has nothing but spaces and tabs: other white space is text to Markdown."""
    return not line.strip(" \t")

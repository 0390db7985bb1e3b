"""Titles of sections: brought into one form, and made from the text where there is no model to write them."""

from __future__ import annotations

from collections.abc import Mapping

from catena.structure.blocks import Block
from catena.structure.sentences import sentence_ends
from catena.structure.titles import plain_title
from catena.text.words import same_words, tokenise


def clean_title(title: str, longest: int) -> str:
    """Return a title on one line, without the marks of a heading around it and of at most `longest` characters."""
    printable = "".join(" " if ord(mark) < 32 or 127 <= ord(mark) < 160 or _lone(mark) else mark for mark in title)
    line = " ".join(printable.split()).strip("#*_\"' ")
    if len(line) <= longest:
        return line
    cut = line[: longest - 1]
    whole_words = cut.rpartition(" ")[0]
    return f"{(whole_words if len(whole_words) * 2 > longest else cut).rstrip()}…"


def same_title(one: str, other: str) -> bool:
    """Return whether two titles differ in case, punctuation and spacing at most; those without words, in nothing."""
    return one == other or (bool(tokenise(one)) and same_words(one, other))


def _lone(mark: str) -> bool:
    return "\ud800" <= mark <= "\udfff"


def first_text(text: str, start: int, end: int) -> int:
    """Return where the first line of [start, end) that is not blank begins; `end` where there is none."""
    piece = text[start:end].lstrip("\ufeff \t\r\n")
    offset = end - len(piece)
    while offset > start and text[offset - 1] in " \t":
        offset -= 1
    return offset


def offline_title(text: str, start: int, end: int, headings: Mapping[int, Block], longest: int) -> str:
    """Return a title without a model: the heading that [start, end) begins with, else its first sentence."""
    first = first_text(text, start, end)
    heading = headings.get(first)
    if heading is not None and heading.end <= end and (title := clean_title(plain_title(heading.title), longest)):
        return title
    line = text[first:end].lstrip()[: 4 * longest]
    sentence = line[: next(sentence_ends(line, 0, len(line)), len(line))]
    return clean_title(plain_title(sentence.split("\n\n")[0]), longest) or "Untitled"

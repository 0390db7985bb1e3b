"""Cascading metadata: each chunk is found under the titles above it, while it stays an exact slice."""

from __future__ import annotations

import re
from collections.abc import Sequence

from catena.model import Chunk, Document, View
from catena.structure.assembly import HEADING_ONLY, TABLE_HEADER
from catena.structure.titles import plain_title
from catena.text.headings import atx_title
from catena.text.words import same_words

SEPARATOR = " › "

_ENTRY = re.compile(
    r"(?:…|(?<!\.)\.{3,}+|(?<! \.)(?: \.){3,}+)[ \t]*+[\divxlcIVXLC]++[ \t]*+$"
)  # "7.40 Source code … 41"
_FEWEST_ENTRIES = 3

_MARKED = re.compile(r"\ufeff?[ \t]*#{1,6}(?![^ \t\r\n])(?P<title>[^\r\n]*)(?:\r\n?|\n|\Z)")
_UNDERLINED = re.compile(r"(?P<title>(?:[^\r\n]*(?:\r\n?|\n)){1,9}?) {0,3}(?:=+|-+)[ \t]*(?:\r\n?|\n|\Z)")
_LINE = re.compile(r"(?P<title>[^\r\n]*)(?:\r\n?|\n|\Z)")


def searchable(chunks: Sequence[Chunk]) -> tuple[Chunk, ...]:
    """Return the chunks worth finding: all but bare headings, or all where there is nothing else."""
    kept = tuple(chunk for chunk in chunks if not chunk.metadata.get(HEADING_ONLY))
    return kept or tuple(chunks)


def raw_views(chunks: Sequence[Chunk]) -> tuple[View, ...]:
    """Return one view of kind "raw" per chunk: its text."""
    return tuple(View(chunk_id=chunk.id, kind="raw", text=chunk.text) for chunk in chunks)


def headed_views(document: Document, chunks: Sequence[Chunk]) -> tuple[View, ...]:
    """Return one view of kind "headed" per chunk: its titles on the first line, then its body.

    The first line is `document title › chapter › sub-chapter`; the document's title is left out where it
    is empty or the same as the first heading. The heading line that the chunk begins with is not repeated
    below. A chunk that continues a table is given the header of the table. A table of contents is found by
    its titles alone.

    Args:
        document: its title and text.
        chunks: chunks of this document.

    Source: the cascading metadata of HiQA (Chen et al., 2024).
    """
    return tuple(View(chunk_id=chunk.id, kind="headed", text=_headed(document, chunk)) for chunk in chunks)


def titles_above(document: Document, chunk: Chunk) -> tuple[str, ...]:
    """Return the document's title and the headings down to the chunk's own, without repeats or blanks."""
    title = " ".join(document.title.split())
    named = [title, *chunk.path]
    if chunk.path and same_words(chunk.path[0], title):
        named = [*chunk.path]
    return tuple(name for name in named if name)


def body_of(chunk: Chunk) -> str:
    """Return the chunk's text without the heading line of its section, where it begins with it."""
    end = _heading_end(chunk.text, chunk.path[-1]) if chunk.path else 0
    return chunk.text[end:].lstrip("\r\n") if end else chunk.text


def _heading_end(text: str, title: str) -> int:
    """Return where the heading of this title ends if the text begins with it, else 0."""
    if match := _MARKED.match(text):
        return match.end() if plain_title(atx_title(match["title"])) == title else 0
    if (match := _UNDERLINED.match(text)) and plain_title(match["title"]) == title:
        return match.end()
    match = _LINE.match(text)
    return match.end() if match and " ".join(match["title"].split()) == title else 0


def is_contents(text: str) -> bool:
    """Return whether a text is a table of contents or an index: most of its lines end with leaders and a page."""
    lines = [line for line in text.split("\n") if line.strip()]
    return len(lines) >= _FEWEST_ENTRIES and 2 * sum(bool(_ENTRY.search(line)) for line in lines) > len(lines)


def _headed(document: Document, chunk: Chunk) -> str:
    line = SEPARATOR.join(titles_above(document, chunk))
    body = body_of(chunk)
    if line and is_contents(body):  # it holds the words of every question, and the answer to none
        return line
    return "\n".join(part for part in (line, str(chunk.metadata.get(TABLE_HEADER, "")), body) if part)

"""Make the views that put a chunk under its titles (HiQA) or under a header of title and summaries (dsRAG).

Titles and headers go into a view (by which a chunk is found) or before a text (that a reader is given), never
into a chunk: citations stay true. A header is made from path and metadata alone, so that it works on the chunks
of any chunker.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from catena.model import Chunk, Document, Segment, View
from catena.model.errors import ParameterError
from catena.model.options import check_options
from catena.model.places import SEPARATOR, TITLE
from catena.structure.chunking import HEADING_ONLY, TABLE_HEADER
from catena.text.headings import atx_title, plain_title
from catena.text.words import same_words

DOCUMENT_SUMMARY = "document_summary"
"""Metadata key of a chunk: what its document is about, in one sentence."""


SECTION_SUMMARY = "section_summary"
"""Metadata key of a chunk: what its section is about, in one sentence."""


CONTEXT = "context"
"""Kind of the view that is a chunk's header, an empty line and the chunk's text."""

_PLACE = "{title}"
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
    return tuple(View(chunk_id=chunk.id, kind="headed", text=_titled(document, chunk)) for chunk in chunks)


def titles_above(document: Document, chunk: Chunk) -> tuple[str, ...]:
    """Return the document's title and the headings down to the chunk's own, without repeats or blanks."""
    title = " ".join(document.title.split())
    repeats = chunk.path and same_words(chunk.path[0], title)
    return tuple(name for name in (*([] if repeats else [title]), *chunk.path) if name)


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


def _titled(document: Document, chunk: Chunk) -> str:
    line = SEPARATOR.join(titles_above(document, chunk))
    body = body_of(chunk)
    if line and is_contents(body):  # it holds the words of every question, and the answer to none
        return line
    return "\n".join(part for part in (line, str(chunk.metadata.get(TABLE_HEADER, "")), body) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderTemplate:
    """Words of a header; a line is `lead, title sentence, summary`, of which only what is known is said.

    Attributes:
        document, section: how the line of the document and that of the section begins; "" begins with what follows.
        document_title, section_title: the sentence that names the title in place of "{title}"; "" names none.
        levels: how many headings, counted from the innermost, name the section; 0 names all of them. The document's
            title is not named again as a section.
    """

    document: str = "Document context:"
    document_title: str = "the following excerpt is from a document titled '{title}'."
    section: str = "Section context:"
    section_title: str = "this excerpt is from the section titled '{title}'."
    levels: Annotated[int, Ge(0)] = 0

    def __post_init__(self) -> None:
        check_options(self)
        for name, sentence in (("document_title", self.document_title), ("section_title", self.section_title)):
            if sentence and _PLACE not in sentence:
                raise ParameterError(name, sentence, f"a sentence with {_PLACE} in it, or ''")


DSRAG = HeaderTemplate()
"""Words of dsRAG 0.5 (`get_chunk_header`, `get_segment_header`): equal where titles and summaries are known."""


def chunk_header(found: Chunk | Segment, *, template: HeaderTemplate = DSRAG) -> str:
    """Return the line of the document and that of the section, with an empty line between them.

    Args:
        found: its title and summaries are read from `metadata` (`TITLE`, `DOCUMENT_SUMMARY`, `SECTION_SUMMARY`),
            its headings from `path`.
        template: the words.

    Returns:
        One or two lines; "" where nothing is known. White space within titles and summaries is single spaces.

    Source: the chunk header of dsRAG, as TextRAG describes it.
    """
    lines = (segment_header(found, template=template), _section_line(found, template))
    return "\n\n".join(line for line in lines if line)


def segment_header(found: Chunk | Segment, *, template: HeaderTemplate = DSRAG) -> str:
    """Return the line of the document alone, as for a segment, which may run through several sections.

    Args:
        found: its title and summary are read from `metadata` (`TITLE`, `DOCUMENT_SUMMARY`).
        template: the words.

    Returns:
        One line; "" where nothing is known.

    Source: the segment header of dsRAG.
    """
    summary = _said(found, DOCUMENT_SUMMARY)
    return _line(template.document, template.document_title, _said(found, TITLE), summary)


def context_view(chunk: Chunk, *, template: HeaderTemplate = DSRAG) -> View:
    """Return the view of kind `CONTEXT`: header, empty line, text; the text alone where there is no header."""
    return View(chunk_id=chunk.id, kind=CONTEXT, text=_below(chunk_header(chunk, template=template), chunk.text))


def context_views(chunks: Iterable[Chunk], *, template: HeaderTemplate = DSRAG) -> tuple[View, ...]:
    """Return one view of kind `CONTEXT` per chunk, in order."""
    return tuple(context_view(chunk, template=template) for chunk in chunks)


def reader_text(found: Chunk | Segment, *, template: HeaderTemplate = DSRAG) -> str:
    """Return the text for a reader: segment header, empty line, text; the text alone where there is no header."""
    return _below(segment_header(found, template=template), found.text)


def _below(header: str, text: str) -> str:
    return f"{header}\n\n{text}" if header else text


def _section_line(found: Chunk | Segment, template: HeaderTemplate) -> str:
    titles = [" ".join(title.split()) for title in found.path]
    document = _said(found, TITLE)
    if titles and document and same_words(titles[0], document):
        titles = titles[1:]
    named = SEPARATOR.join(title for title in titles[-template.levels :] if title)
    return _line(template.section, template.section_title, named, _said(found, SECTION_SUMMARY))


def _line(lead: str, sentence: str, title: str, summary: str) -> str:
    """Return a line of the parts that are known; "" where only the lead is."""
    titled = sentence.replace(_PLACE, title) if title else ""
    return " ".join(part for part in (lead, titled, summary) if part) if titled or summary else ""


def _said(found: Chunk | Segment, key: str) -> str:
    """Return a text of the metadata on one line; what is no text, as a user's own store may hold, as its words."""
    return " ".join(str(found.metadata.get(key, "")).split())


def context_search_views(chunks: Sequence[Chunk]) -> tuple[View, ...]:
    """Return one view of kind "context" per chunk: header, empty line, text.

    As in the headed view, a table of contents is found by its header alone, because it holds the words of every
    question and the answer to none, and a chunk that continues a table is given the header of the table.
    """
    return tuple(View(chunk_id=chunk.id, kind=CONTEXT, text=_search_text(chunk)) for chunk in chunks)


def _search_text(chunk: Chunk) -> str:
    header, columns = chunk_header(chunk), str(chunk.metadata.get(TABLE_HEADER, ""))
    if header and is_contents(chunk.text):
        return header
    return _below(header, f"{columns}\n{chunk.text}" if columns else chunk.text)


# "7.40 Source code … 41"
_ENTRY = re.compile(r"(?:…|(?<!\.)\.{3,}+|(?<! \.)(?: \.){3,}+)[ \t]*+[\divxlcIVXLC]++[ \t]*+$")
_FEWEST_ENTRIES = 3


def is_contents(text: str) -> bool:
    """Return whether a text is a table of contents or an index: most of its lines end with leaders and a page."""
    lines = [line for line in text.split("\n") if line.strip()]
    return len(lines) >= _FEWEST_ENTRIES and 2 * sum(bool(_ENTRY.search(line)) for line in lines) > len(lines)

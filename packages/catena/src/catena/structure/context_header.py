"""The header of a passage: of which document and section it is, and what these are about, as one text before it.

A header goes into a view (by which a chunk is found) or before a text (that a reader is given), never into a
chunk: citations stay true. It is made from path and metadata alone, so that it works on anybody's chunks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from catena.model import Chunk, Segment, View
from catena.model.errors import ParameterError
from catena.model.options import check_options
from catena.model.places import SEPARATOR, TITLE
from catena.text.words import same_words

DOCUMENT_SUMMARY = "document_summary"
"""Metadata key of a chunk: what its document is about, in one sentence."""

SECTION_SUMMARY = "section_summary"
"""Metadata key of a chunk: what its section is about, in one sentence."""

CONTEXT = "context"
"""Kind of the view that is a chunk's header, an empty line and the chunk's text."""

_PLACE = "{title}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderTemplate:
    """The words of a header; a line is `lead, title sentence, summary`, of which only what is known is said.

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
"""The words of dsRAG 0.5 (`get_chunk_header`, `get_segment_header`): equal where titles and summaries are known."""


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
    return View(chunk_id=chunk.id, kind=CONTEXT, text=_headed(chunk_header(chunk, template=template), chunk.text))


def context_views(chunks: Iterable[Chunk], *, template: HeaderTemplate = DSRAG) -> tuple[View, ...]:
    """Return one view of kind `CONTEXT` per chunk, in order."""
    return tuple(context_view(chunk, template=template) for chunk in chunks)


def reader_text(found: Chunk | Segment, *, template: HeaderTemplate = DSRAG) -> str:
    """Return what a reader is given: segment header, empty line, text; the text alone where there is no header."""
    return _headed(segment_header(found, template=template), found.text)


def _headed(header: str, text: str) -> str:
    return f"{header}\n\n{text}" if header else text


def _section_line(found: Chunk | Segment, template: HeaderTemplate) -> str:
    titles = [" ".join(title.split()) for title in found.path]
    document = _said(found, TITLE)
    if titles and document and same_words(titles[0], document):
        titles = titles[1:]
    named = SEPARATOR.join(title for title in titles[-template.levels :] if title)
    return _line(template.section, template.section_title, named, _said(found, SECTION_SUMMARY))


def _line(lead: str, sentence: str, title: str, summary: str) -> str:
    """Return what is known; the lead alone says nothing, so there is no line then."""
    titled = sentence.replace(_PLACE, title) if title else ""
    return " ".join(part for part in (lead, titled, summary) if part) if titled or summary else ""


def _said(found: Chunk | Segment, key: str) -> str:
    """Return a text of the metadata on one line; what is no text, as a user's own store may hold, as its words."""
    return " ".join(str(found.metadata.get(key, "")).split())

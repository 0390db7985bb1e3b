"""Make the titles and summaries of a document and its sections: their options, and the way without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Literal
from unicodedata import east_asian_width

from annotated_types import Ge

from catena.effects import Step, embed_texts
from catena.model import Chunk, Degraded, Document, Entry, Metadata, Section
from catena.model.errors import ParameterError
from catena.model.ids import digest
from catena.model.options import Checked, check_options
from catena.model.places import TITLE
from catena.structure.views import CONTEXT, DOCUMENT_SUMMARY, SECTION_SUMMARY, context_views
from catena.text.words import same_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Guidance(Checked):
    """The words that the user adds to each prompt: "Name the company and the year."; "" adds nothing."""

    document_title: str = ""
    document_summary: str = ""
    section_title: str = ""
    section_summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions:
    """The options of titles and summaries: which are made, and by whom.

    Attributes:
        by: "llm" asks a language model; "offline" takes titles from headings and first lines and, as a summary, the
            most central sentence of the text, which asks the embedder alone.
        document_title: for a document that prints none, so that its file's name would be its title.
        replace_title: also for one that does.
        document_summary, section_summaries: one sentence each.
        section_titles: for sections without a heading.
        guidance: what the user adds to the prompts.
        language: of the answers, in words ("French"); "" is the document's own.
        embed: whether the dense route compares the view "context" (header, empty line, text), as TextRAG does, and
            the store keeps these views; otherwise it compares the headed one, and headers are made for readers alone.
        title_tokens, summary_tokens, section_tokens: of the beginning of a document or a section that a model is
            shown for a title, a document's summary and a section's; it is told where that is not all.
        max_tokens: of one answer.
    """

    by: Literal["llm", "offline"] = "llm"
    document_title: bool = True
    replace_title: bool = False
    document_summary: bool = True
    section_titles: bool = True
    section_summaries: bool = True
    guidance: Guidance = field(default_factory=Guidance)
    language: str = ""
    embed: bool = False  # the better one where measured, with the shipped embedding: decision 18
    title_tokens: Annotated[int, Ge(1)] = 4_000
    summary_tokens: Annotated[int, Ge(1)] = 8_000
    section_tokens: Annotated[int, Ge(1)] = 16_000
    max_tokens: Annotated[int, Ge(1)] = 400

    def __post_init__(self) -> None:
        check_options(self)
        if self.by == "offline" and (self.language or self.replace_title or self.guidance != Guidance()):
            allowed = "'llm' with a language, guidance or replace_title: only a model obeys"
            raise ParameterError("by", self.by, allowed)
        if self.replace_title and not self.document_title:
            raise ParameterError("document_title", False, "True with replace_title")

    @property
    def asks_model(self) -> bool:
        """Return True where a language model is asked for anything."""
        made = (self.document_title, self.document_summary, self.section_titles, self.section_summaries)
        return self.by == "llm" and any(made)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentContext:
    """Titles and summaries of one document; "" where none was made.

    Attributes:
        title: of the document, where one was made.
        summary: of the document.
        section_titles, section_summaries: one per section, in order.
        cut: positions of sections of which the summary was made from the beginning alone.
        degraded: what was asked for and not given.
    """

    title: str = ""
    summary: str = ""
    section_titles: tuple[str, ...] = ()
    section_summaries: tuple[str, ...] = ()
    cut: tuple[int, ...] = ()
    degraded: tuple[Degraded, ...] = ()


def printed_title(document: Document, sections: Sequence[Section] = ()) -> str:
    """Return the document's title; "" where it is only its id or the name of its file.

    A title that is the file's name and also a heading is printed.
    """
    title = document.title.strip()
    names = (document.id, PurePath(document.source).stem, PurePath(document.id).stem)
    stands_in = title == document.id or any(same_words(title, name) for name in names if name)
    return title if not stands_in or any(same_words(title, section.title) for section in sections) else ""


def sections_with_text(document: Document, sections: Sequence[Section]) -> tuple[Section, ...]:
    """Return the sections that hold more than their heading: the others have nothing to be summarised."""
    return tuple(section for section in sections if document.text[section.body_start : section.end].strip())


def titled_sections(sections: Sequence[Section], titles: Sequence[str]) -> tuple[Section, ...]:
    """Return the sections with the titles made for those that had none, at the end of their paths.

    Args:
        sections: of one document.
        titles: one per section, "" where none was made; or none at all.

    Raises:
        ParameterError: there are neither none nor as many titles as sections.
    """
    _check_length("section titles", titles, len(sections))
    return tuple(
        replace(section, title=title, path=(*filter(None, section.path), title))
        if title and not section.title
        else section
        for section, title in zip(sections, titles or [""] * len(sections), strict=True)
    )


def with_context(entry: Entry, context: DocumentContext, *, views: bool = True) -> Entry:
    """Return the entry with what was made: titles, summaries in the chunks' metadata, and views of kind "context".

    Its fingerprint changes with it, so that a store that holds the entry without takes the new one. Other views stay
    as they are: where a title was made, `catena.library.ingestion.contextualise` makes them anew.

    Args:
        entry: of the document that the context was made for.
        context: what was made; what is "" leaves the entry's own.
        views: whether each chunk gets its view "context", in place of an older one.

    Raises:
        ParameterError: there are not as many titles or summaries as sections.
    """
    _check_length("section summaries", context.section_summaries, len(entry.sections))
    document = replace(entry.document, title=context.title or entry.document.title)
    sections = titled_sections(entry.sections, context.section_titles)
    chunks = tuple(_told(chunk, document, sections, context) for chunk in entry.chunks)
    others = tuple(view for view in entry.views if view.kind != CONTEXT or not views)
    shown = (*others, *(context_views(chunks) if views else ()))
    made = replace(entry, document=document, sections=sections, chunks=chunks, views=shown)
    return entry if made == entry else replace(made, fingerprint=digest(entry.fingerprint, repr(context)))


def _told(chunk: Chunk, document: Document, sections: Sequence[Section], context: DocumentContext) -> Chunk:
    """Return a chunk that says what its document and its section are about."""
    said = {TITLE: context.title, DOCUMENT_SUMMARY: context.summary}
    path = chunk.path
    if chunk.section < len(sections):
        if context.section_titles and context.section_titles[chunk.section]:
            path = sections[chunk.section].path
        if context.section_summaries:
            said[SECTION_SUMMARY] = context.section_summaries[chunk.section]
    metadata: Metadata = {**chunk.metadata, **{key: text for key, text in said.items() if text}}
    return replace(chunk, path=path, metadata=metadata)


def _check_length(name: str, given: Sequence[str], sections: int) -> None:
    if len(given) not in {0, sections}:
        raise ParameterError(name, f"{len(given)} texts", f"none, or one for each of {sections} sections")


SHORTEST, LONGEST = 20, 300  # characters of a sentence that may be a summary; a wide one, as in Chinese, is two
LEAD = 20  # sentences: a document says what it is about in its beginning, and details of equal weight further on
LONGEST_TITLE = 120  # characters of a first line that may be a title
_ENDS = (".", "!", "?", "。", "！", "？", "।", "؟", "…")
_MARKS = "#*_>`=-–—• \t\ufeff"


def context_offline(
    document: Document,
    sections: Sequence[Section],
    sentences: Sequence[Sequence[str]],
    options: ContextOptions | None = None,
) -> Step[DocumentContext]:
    """Take titles from headings and first lines, and for a summary the sentence nearest to the mean of all.

    That is the one whose vector has the greatest dot product with the mean of the vectors of all. The summary of the
    document is one of its first 20 sentences. Nothing is written: a summary is a sentence of the text, so it does not
    begin with "This document is about:". A section without a sentence of 20 to 300 characters, a table say, has no
    summary. Of equally central sentences the first is taken. Only the embedder is asked, once for each distinct
    sentence.

    Args:
        document: whose text it is.
        sections: of this document.
        sentences: per section, in order, the sentences of its running text, see `catena.structure.passages`.
        options: which of these are made.

    Raises:
        ParameterError: there is not one list of sentences for each section.
        CatenaError: the embedder failed: without it there would be no dense route either.
    """
    how = options or ContextOptions(by="offline")
    if len(sentences) != len(sections):
        raise ParameterError("sentences", f"{len(sentences)} lists", f"one for each of {len(sections)} sections")
    title = _title(document, sections) if how.document_title and not printed_title(document, sections) else ""
    titles = [""] * len(sections)
    for section in sections_with_text(document, sections) if how.section_titles else ():
        if not section.title:
            titles[section.position] = first_line(document.text[section.body_start : section.end])

    sized = [[sentence for sentence in each if SHORTEST <= _width(sentence) <= LONGEST] for each in sentences]
    fit = [[sentence for sentence in each if sentence.endswith(_ENDS)] or each for each in sized]
    summarised = how.document_summary or how.section_summaries
    summary, summaries = (yield from _central(fit)) if summarised and any(fit) else ("", [""] * len(sections))
    return DocumentContext(
        title=title,
        summary=summary if how.document_summary else "",
        section_titles=tuple(titles),
        section_summaries=tuple(summaries if how.section_summaries else [""] * len(sections)),
    )


def _title(document: Document, sections: Sequence[Section]) -> str:
    """Return a first heading that has no second beside it; else the first line, if the file has not even a name."""
    levels = [section.level for section in sections]
    if levels and levels[0] and levels.count(levels[0]) == 1:
        return sections[0].title
    return first_line(document.text) if document.title in ("", document.id) else ""


def first_line(text: str) -> str:
    """Return the first line that holds a letter, without marks of Markdown around it; "" if it is no title.

    A line is none that is longer than 120 characters, or that ends as a sentence does.
    """
    line = next((line for line in text.splitlines() if any(map(str.isalpha, line))), "")
    title = " ".join(line.strip(_MARKS).split())
    is_picture_or_row = "![" in title or "|" in title
    return "" if len(title) > LONGEST_TITLE or title.endswith(_ENDS) or is_picture_or_row else title


def _width(text: str) -> int:
    wide = 0 if text.isascii() else sum(east_asian_width(character) in "WF" for character in text)
    return len(text) + wide


def _central(by_section: Sequence[Sequence[str]]) -> Step[tuple[str, list[str]]]:
    """Return the most central sentence of all, and that of each section; "" for a section without any."""
    import numpy as np

    flat = [sentence for sentences in by_section for sentence in sentences]
    distinct = list(dict.fromkeys(flat))
    rows = yield from embed_texts(distinct, "embedding for summaries")
    row_of = dict(zip(distinct, rows, strict=True))
    vectors = np.stack([row_of[sentence] for sentence in flat]).astype(np.float64)
    ends = [0, *accumulate(map(len, by_section))]
    return flat[most_central(vectors, among=LEAD)], [
        flat[start + most_central(vectors[start:end])] if end > start else "" for start, end in pairwise(ends)
    ]


def most_central(vectors: NDArray[np.float64], *, among: int | None = None) -> int:
    """Return the place of the row whose dot product with the mean of all rows is greatest; the first of equal ones.

    Args:
        vectors: shape (n, dim), n >= 1, rows of unit length or zero.
        among: only of the first so many rows; all by default.
    """
    import numpy as np

    # rounded: what differs by less differs by the order in which a machine sums
    scores = np.round(vectors[:among] @ vectors.mean(axis=0), 9)
    return int(scores.argmax())

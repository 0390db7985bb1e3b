"""Titles and summaries with no key: headings, first lines, and the sentence that is most like all the others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any
from unicodedata import east_asian_width

from catena.effects import Embed, Step, ask
from catena.enrichment.context import ContextOptions, DocumentContext, printed_title, sections_with_text
from catena.model import Document, Section
from catena.model.errors import ParameterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SHORTEST, LONGEST = 20, 300  # characters of a sentence that may be a summary; a wide one, as in Chinese, is two
LEAD = 20  # sentences: a document says what it is about in its beginning, and details of equal weight further on
LONGEST_TITLE = 120  # characters of a first line that may be a title
_BATCH = 256  # texts per request
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
        sentences: per section, in order, the sentences of its running text, see `catena.structure.prose_text`.
        options: which of these are made.

    Raises:
        ParameterError: there is not one list of sentences for each section.
        CatenaError: the embedder failed: without it there would be no dense route either.
    """
    how = options or ContextOptions(by="offline")
    if len(sentences) != len(sections):
        raise ParameterError("sentences", f"{len(sentences)} lists", f"one for each of {len(sections)} sections")
    wanted = how.document_title and not printed_title(document, sections)
    title = _title(document, sections) if wanted else ""
    titles = [""] * len(sections)
    for section in sections_with_text(document, sections) if how.section_titles else ():
        if not section.title:
            titles[section.position] = first_line(document.text[section.body_start : section.end])

    fit = [_fit(each) for each in sentences]
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


def _fit(sentences: Sequence[str]) -> list[str]:
    """Return the sentences that may be a summary: whole ones, where there are any."""
    fit = [sentence for sentence in sentences if SHORTEST <= _width(sentence) <= LONGEST]
    return [sentence for sentence in fit if sentence.endswith(_ENDS)] or fit


def _width(text: str) -> int:
    wide = 0 if text.isascii() else sum(east_asian_width(character) in "WF" for character in text)
    return len(text) + wide


def _central(by_section: Sequence[Sequence[str]]) -> Step[tuple[str, list[str]]]:
    """Return the most central sentence of all, and that of each section; "" for a section without any."""
    import numpy as np

    flat = [sentence for sentences in by_section for sentence in sentences]
    distinct = list(dict.fromkeys(flat))
    texts = [tuple(distinct[at : at + _BATCH]) for at in range(0, len(distinct), _BATCH)]
    replies: list[Any] = yield from ask([Embed(texts=batch, purpose="embedding for summaries") for batch in texts])
    rows = np.concatenate([np.asarray(reply, dtype=np.float64) for reply in replies])
    row_of = {sentence: row for sentence, row in zip(distinct, rows, strict=True)}
    vectors = np.stack([row_of[sentence] for sentence in flat])
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

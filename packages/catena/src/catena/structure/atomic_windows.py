"""What a model is shown of a text at once: windows of whole sentences; and sentences as chunks of their own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from catena.model import Chunk, Document, Section
from catena.model.errors import ParameterError
from catena.structure.assembly import Piece, assemble, heading_metadata
from catena.structure.atomic_mapping import folded
from catena.structure.division import Counter, Span, blank_lines, divide, lines, pack, words
from catena.structure.sentences import sentence_ends
from catena.structure.tokens import count_tokens

# at the end of a sentence too: the next one may begin with the rest of a tag
_TAG = re.compile(r"<(?=\s*(?:/\s*)?(?:passage\b|\Z))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive sentences that a model is shown together.

    Attributes:
        spans: of the sentences in `text`; white space may lie between them, and nothing else.
        shown: the sentences with their white space folded, and unable to end the tag of the passage.
        section: that they are all in, if any is told.
    """

    text: str
    spans: tuple[Span, ...]
    shown: tuple[str, ...]
    section: Section | None

    @property
    def span(self) -> Span:
        return self.spans[0][0], self.spans[-1][1]

    def joined(self, limit: int, count: Counter) -> Iterator[Span]:
        """Yield runs of whole sentences of at most `limit` tokens, as far as no single one is longer."""
        return pack(self.text, self.spans, _whole, limit=limit, share=limit, count=count)

    def pieces(self, spans: Iterable[Span]) -> Iterator[Piece]:
        for start, end in spans:
            yield _piece(self.text, (start, end), self.section)

    def passage(self) -> str:
        """Return the sentences as paragraphs without line breaks inside."""
        gaps = [_gap(self.text[start:end]) for start, end in self.spans]
        return "".join(part for pair in zip(self.shown, gaps, strict=True) for part in pair).strip()


def cut_sentences(
    document: Document,
    sections: Sequence[Section] | None = None,
    *,
    tokens: int = 2_000,
    count: Counter = count_tokens,
) -> tuple[Chunk, ...]:
    """Cut a document into its sentences, one chunk each: the units of those who have no model.

    They are sentence units, not atomic ones: a fact told in two sentences is in two chunks.

    Args:
        document: its text.
        sections: chunks stay inside these; None gives chunks without a path.
        tokens: above which a sentence is cut at lines and words, >= 1.
        count: tokens of a text.

    Raises:
        ParameterError: `tokens` is below 1.
    """
    if tokens < 1:
        raise ParameterError("tokens", tokens, "a number >= 1")
    text = document.text
    return assemble(
        document,
        (
            _piece(text, sentence, section)
            for span, section in _regions(text, sections)
            for sentence in _sentences(text, span, tokens, count)
        ),
    )


def windows_of(text: str, sections: Sequence[Section] | None, limit: int, count: Counter) -> Iterator[Window]:
    """Yield the windows of a text, or of each section: whole sentences of at most `limit` tokens together."""
    for span, section in _regions(text, sections):
        sentences = list(_sentences(text, span, limit, count))
        at = 0
        for _, end in pack(text, sentences, _whole, limit=limit, share=limit, count=count):
            first = at
            while at < len(sentences) and sentences[at][1] <= end:
                at += 1
            spans = tuple(sentences[first:at])
            shown = tuple(_TAG.sub("‹", folded(text[start:stop])) for start, stop in spans)
            yield Window(text, spans, shown, section)


def _regions(text: str, sections: Sequence[Section] | None) -> list[tuple[Span, Section | None]]:
    if sections is None:
        return [((0, len(text)), None)]
    return [((section.start, section.end), section) for section in sections]


def _sentences(text: str, span: Span, limit: int, count: Counter) -> Iterator[Span]:
    """Yield the sentences of a span that are not blank, white space after them included."""
    start, end = span
    borders = {*sentence_ends(text, start, end), *blank_lines(text, start, end)} - {start, end}
    for sentence in pairwise([start, *sorted(borders), end]):
        for part in divide(text, sentence, (lines, words), limit=limit, count=count):
            if text[part[0] : part[1]].strip():
                yield part


def _piece(text: str, span: Span, section: Section | None) -> Piece:
    if section is None:
        return Piece(*span)
    return Piece(*span, "text", section, heading_metadata(text, section))


def _whole(span: Span) -> Iterator[Span]:
    yield span


def _gap(sentence: str) -> str:
    """Return what stands behind a sentence where it is shown: an empty line at the end of a paragraph."""
    tail = sentence[len(sentence.rstrip()) :]
    return "\n\n" if max(tail.count("\n"), tail.count("\r")) > 1 else " "

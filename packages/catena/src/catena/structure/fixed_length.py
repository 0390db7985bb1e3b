"""Fixed-length chunks, the baseline: whole sentences up to a number of tokens, whatever they are about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from catena.model import Chunk, Document, Section
from catena.model.errors import ParameterError
from catena.structure.assembly import Piece, assemble, heading_metadata
from catena.structure.division import Counter, Span, blank_lines, divide, lines, pack, words
from catena.structure.sentences import sentence_ends
from catena.structure.tokens import count_tokens


def cut_fixed(
    document: Document,
    sections: Sequence[Section] | None = None,
    *,
    tokens: int = 200,
    count: Counter = count_tokens,
) -> tuple[Chunk, ...]:
    """Cut a document into runs of whole sentences of at most `tokens` tokens (FLC-100, -200, -300).

    Sentences are joined while their sum stays within the cap; only one that is longer by itself is cut, at
    lines, words and characters. The law of `catena.structure.chunking` holds.

    Args:
        document: its text.
        sections: chunks stay inside these; None cuts across headings, and gives chunks without a path.
        tokens: the cap, >= 1.
        count: tokens of a text.

    Returns:
        Chunks of kind "text" in reading order.

    Raises:
        ParameterError: `tokens` is below 1.

    Source: the fixed-length baselines FLC of MC-indexing (Dong et al., 2024).
    """
    if not isinstance(tokens, int) or tokens < 1:
        raise ParameterError("tokens", tokens, "an integer >= 1")
    text = document.text
    if sections is None:
        return assemble(document, (Piece(*span) for span in _sentences(text, (0, len(text)), tokens, count)))
    return assemble(
        document,
        (
            Piece(start, end, "text", section, heading_metadata(text, section))
            for section in sections
            for start, end in _sentences(text, (section.start, section.end), tokens, count)
        ),
    )


def _sentences(text: str, span: Span, limit: int, count: Counter) -> Iterator[Span]:
    """Yield sentences joined while they fit; what is longer by itself is divided before, so that no other is."""
    start, end = span
    borders = {*sentence_ends(text, start, end), *blank_lines(text, start, end)} - {start, end}
    parts = [
        part
        for sentence in pairwise([start, *sorted(borders), end])
        for part in divide(text, sentence, (lines, words), limit=limit, count=count)
    ]
    yield from pack(text, parts, _whole, limit=limit, share=limit, count=count)


def _whole(span: Span) -> Iterator[Span]:
    """Yield a span as it is: a single character of more tokens than the cap."""
    yield span

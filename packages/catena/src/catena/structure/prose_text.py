"""The sentences of a document's running text, section by section: what may stand for the whole of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from catena.model import Document, Section
from catena.structure.blocks import Block, blocks_of
from catena.structure.cascade import is_contents
from catena.structure.chunking import by_section
from catena.structure.sentences import sentence_ends

_ITEM = re.compile(r"\s*(?:[-+*•]|\d{1,9}[.)])\s+")


def prose(
    document: Document, sections: Sequence[Section], *, blocks: Sequence[Block] | None = None
) -> tuple[tuple[str, ...], ...]:
    """Return the sentences in the paragraphs and list items of each section, white space as single spaces.

    Left out are headings, tables, code, quotes, HTML, pictures and tables of contents: their words are no sentences.

    Args:
        document: whose text it is.
        sections: of this document, in order.
        blocks: what `blocks_of` gave for it, to scan it once.

    Returns:
        One tuple per section, in order.
    """
    divided = by_section(sections, blocks_of(document) if blocks is None else blocks)
    return tuple(
        tuple(
            sentence
            for block in inside
            if block.kind in {"paragraph", "item"}
            for sentence in _sentences(
                document.text, max(block.start, section.body_start), min(block.end, section.end)
            )
        )
        for section, inside in divided
    )


def _sentences(text: str, start: int, end: int) -> list[str]:
    if start >= end or is_contents(text[start:end]):
        return []
    marker = _ITEM.match(text, start, end)
    start = marker.end() if marker else start
    ends = [start, *sentence_ends(text, start, end), end]
    return [said for a, b in pairwise(ends) if (said := " ".join(text[a:b].split())) and "![" not in said]

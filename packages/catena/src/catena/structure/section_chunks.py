"""Section chunks of MC-indexing: each smallest division of a document is one chunk, whatever its length."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from catena.model import Chunk, ChunkKind, Document, Section
from catena.model.errors import ParameterError
from catena.model.options import as_tuples, check_options
from catena.structure.assembly import Piece, assemble, heading_metadata
from catena.structure.blocks import Block, blocks_of
from catena.structure.chunking import by_section
from catena.structure.title_numbers import numbered
from catena.structure.units import units

_COMMENTS = re.compile(r"(?:\s*<!--(?:(?!-->).)*-->)+\s*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionChunkOptions:
    """Which divisions become chunks.

    Attributes:
        min_characters: visible characters (white space and comments not counted) below the heading, >= 1,
            that a division must have; what has fewer gives no chunk.
        leave_out: titles of divisions that give none, nor does anything below them ("See also", "Notes",
            "References"); case, punctuation and a number before the title do not count.
    """

    min_characters: Annotated[int, Ge(1)] = 1
    leave_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        as_tuples(self, "leave_out")
        check_options(self)
        if not all(numbered(title).words for title in self.leave_out):
            raise ParameterError("leave_out", self.leave_out, "a tuple of titles, each with a word")


DEFAULT_OPTIONS = SectionChunkOptions()


def cut_sections(
    document: Document,
    sections: Sequence[Section],
    *,
    options: SectionChunkOptions = DEFAULT_OPTIONS,
    blocks: Sequence[Block] | None = None,
) -> tuple[Chunk, ...]:
    """Return one chunk per smallest division: the own span of each section, heading line included.

    A chunk is an exact slice, never cut and never joined to a neighbour, so that no answer that stands inside
    one division is torn. A division without visible text below its heading gives none, because its words stand
    in the paths of the divisions below it; where no division has any, the headings are chunks. A
    division that is one table, or one figure, with its caption is a chunk of that kind.

    A text without headings is one division, of level 0, and therefore one chunk of any length; cut such a text
    with `structure.fixed_length.cut_fixed`, as the paper does, or give sections from a segmentation.

    Args:
        document: its text is Markdown, or plain where `media_type` says so.
        sections: as `content_outline` or `outline` gives them; none stand for the whole text.
        options: which divisions to pass over.
        blocks: what `blocks_of` gave for this document, where it was asked already.

    Returns:
        Chunks in reading order, path, section, pages and lines filled in; none for a blank document, and for
        one of which everything is left out.

    Source: content-aware chunking of MC-indexing (Dong et al., 2024), section 3.2; leaving out sections of
    references, section 4.
    """
    text = document.text
    if not sections:
        return assemble(document, [Piece(0, len(text))])
    unwanted = {numbered(title).words for title in options.leave_out}
    inside = [
        (section, within)
        for section, within in by_section(sections, blocks_of(document) if blocks is None else blocks)
        if not unwanted or not any(numbered(title).words in unwanted for title in section.path)
    ]
    seen = [(section, within, _visible(text, section, within)) for section, within in inside]
    # where nothing is long enough: what has any text, else the headings, else what there is
    chosen = (
        [each for each in seen if each[2] >= options.min_characters]
        or [each for each in seen if each[2]]
        or [each for each in seen if each[0].level]
        or seen
    )
    return assemble(
        document,
        (
            Piece(section.start, section.end, _kind(text, section, within), section, heading_metadata(text, section))
            for section, within, _ in chosen
        ),
    )


def _visible(text: str, section: Section, blocks: Sequence[Block]) -> int:
    """Return how many characters of a section's body a reader sees, rules, comments and spaces not counted."""
    body = text[section.body_start : section.end]
    unseen = sum(
        _inked(text[block.start : block.end])
        for block in blocks
        if block.start >= section.body_start and _is_unseen(text, block)
    )
    return _inked(body) - unseen


def _is_unseen(text: str, block: Block) -> bool:
    if block.kind == "html":
        return bool(_COMMENTS.fullmatch(text, block.start, block.end))
    return block.kind == "rule"


def _inked(text: str) -> int:
    return sum(map(len, text.split()))


def _kind(text: str, section: Section, blocks: Sequence[Block]) -> ChunkKind:
    found = units(text, section.start, section.end, blocks)
    only = found[0].kind if len(found) == 1 else "text"
    return only if only in {"table", "figure"} else "text"

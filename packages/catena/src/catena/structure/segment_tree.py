"""Turn titled spans into Sections that tile the document: flat, or below the headings that it prints."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

from catena.model import GENERATED_TITLE, Chunk, Degraded, Document, Section, span_id
from catena.structure.blocks import Block
from catena.structure.headings import next_line, outline, tree_of
from catena.structure.segment_repair import Repair, clean_title
from catena.text import plain_title, same_words, sentence_ends, tokenise

Under: TypeAlias = Literal["document", "headings"]


class TitledSpan(NamedTuple):
    """Slice [start, end) of the text and its title."""

    title: str
    start: int
    end: int


class SpanToDivide(NamedTuple):
    """A stretch [start, end) of the text that is to be divided, below the section at this 0-based position."""

    start: int
    end: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segmentation:
    """Sections of a document, with the repairs and failures on the way to them.

    Attributes:
        sections: they tile the text, as those of `outline` do, and go wherever those go (`cut`, `Entry`).
        generated: positions of the sections whose title is not printed as a heading there.
        repairs: what was put right in a model's answers, in reading order.
        degraded: lines for which no answer was of use; they are divided at headings and paragraphs instead.
    """

    sections: tuple[Section, ...]
    generated: frozenset[int] = frozenset()
    repairs: tuple[Repair, ...] = ()
    degraded: tuple[Degraded, ...] = ()


def whole_or_outline(document: Document, blocks: Sequence[Block], under: Under) -> tuple[Section, ...]:
    """Return the printed sections to divide: those of the outline, or one of level 0 that is the whole document."""
    if not document.text:
        return ()
    if under == "headings":
        return outline(document, blocks=blocks)
    return tree_of(document, [])


def regions_of(document: Document, printed: Sequence[Section], longest: int) -> tuple[SpanToDivide, ...]:
    """Return the bodies to divide: of sections without sections below them, where they are not blank.

    A body of at most `longest` characters stays whole, but for one that is the whole document.
    """
    parents = {section.parent for section in printed}
    limit = 0 if len(printed) == 1 and printed[0].level == 0 else longest
    return tuple(
        SpanToDivide(section.body_start, section.end, section.position)
        for section in printed
        if section.position not in parents
        and section.end - section.body_start > limit
        and document.text[section.body_start : section.end].strip()
    )


def assemble_sections(
    document: Document,
    blocks: Sequence[Block],
    printed: Sequence[Section],
    divided: Iterable[tuple[SpanToDivide, Sequence[TitledSpan]]],
) -> tuple[tuple[Section, ...], frozenset[int]]:
    """Return the printed sections with the spans found in their bodies below them, and whose titles are generated.

    A printed section that is divided keeps its heading alone as its own span. Where only one span was found under
    a heading, there is nothing to divide. Text without a heading above it becomes sections of level 1 at once.

    Args:
        document: its text.
        blocks: its blocks.
        printed: sections that tile the text.
        divided: for some of them, the spans that tile their bodies.
    """
    spans_of = {region.position: spans for region, spans in divided}
    headings = {block.start: block for block in blocks if block.kind == "heading"}
    found: list[Section] = []
    generated: set[int] = set()
    moved: dict[int, int] = {}  # old -> new position
    for section in printed:
        spans = spans_of.get(section.position, ())
        parent = None if section.parent is None else moved[section.parent]
        moved[section.position] = len(found)
        if not spans or (section.level > 0 and len(spans) == 1):
            found.append(replace(section, position=len(found), parent=parent))
            continue
        above: int | None = None
        if section.level > 0:
            above = len(found)
            own = replace(section, position=above, parent=parent, end=section.body_start)
            found.append(replace(own, id=span_id(document.id, "section", own.start, own.end)))
        for span in spans:
            made, is_printed = _below(document, headings, section, span)
            if not is_printed:
                generated.add(len(found))
            found.append(replace(made, position=len(found), parent=above))
    return tuple(found), frozenset(generated)


def _below(
    document: Document, headings: dict[int, Block], section: Section, span: TitledSpan
) -> tuple[Section, bool]:
    """Return a section for a span, and whether its title is a heading printed at its beginning."""
    title, body_start, is_printed = span.title, span.start, False
    heading = headings.get(first_text(document.text, span.start, span.end))
    if heading is not None and heading.end <= span.end and same_title(plain_title(heading.title), span.title):
        title, body_start, is_printed = plain_title(heading.title), next_line(document.text, heading.end), True
    made = Section(
        id=span_id(document.id, "section", span.start, span.end),
        document_id=document.id,
        position=0,
        level=section.level + 1,
        title=title,
        path=(*section.path, title),
        start=span.start,
        body_start=min(body_start, span.end),
        end=span.end,
        tree_end=span.end,
    )
    return made, is_printed


def mark_generated(chunks: Sequence[Chunk], generated: Collection[int]) -> tuple[Chunk, ...]:
    """Return the chunks, those of sections whose title was made with that title as metadata `GENERATED_TITLE`.

    Args:
        chunks: cut from the sections.
        generated: positions of sections, as `Segmentation.generated` has them.
    """
    return tuple(
        replace(chunk, metadata={**chunk.metadata, GENERATED_TITLE: chunk.path[-1]})
        if chunk.section in generated and chunk.path
        else chunk
        for chunk in chunks
    )


def same_title(one: str, other: str) -> bool:
    """Return whether two titles differ in case, punctuation and spacing at most; those without words, in nothing."""
    return one == other or (bool(tokenise(one)) and same_words(one, other))


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

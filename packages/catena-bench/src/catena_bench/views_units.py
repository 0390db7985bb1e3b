"""What is returned and under which texts it is found: fixed lengths, whole sections, sections by their windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from catena.model import Chunk
from catena.structure import cut_fixed, cut_sections, headed_views
from catena.structure.passages import passage_views
from catena_bench.views_data import AskedDocument, word_pieces

WINDOW = 200  # word pieces of a window, so that one with its headings fits MiniLM's 256
LENGTHS = (100, 200, 300)  # of FLC, in word pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """Chunks, and the texts under which they are found; a chunk scores as its best text.

    Attributes:
        texts: all texts of all chunks.
        owner: per text, the 0-based number of its chunk.
        truncated: whether an encoder with a window may read only the first part of a text.
    """

    chunks: tuple[Chunk, ...]
    texts: tuple[str, ...]
    owner: tuple[int, ...]
    truncated: bool = False


def whole(chunks: Iterable[Chunk], *, truncated: bool = False) -> Units:
    """Return chunks that are each found under their own text."""
    found = tuple(chunks)
    texts = tuple(chunk.text for chunk in found)
    return Units(chunks=found, texts=texts, owner=tuple(range(len(found))), truncated=truncated)


def fixed(asked: AskedDocument, *, tokens: int) -> Units:
    """FLC: whole sentences up to a number of word pieces, across sections; encoders cut off what they do not read."""
    return whole(cut_fixed(asked.document, tokens=tokens, count=word_pieces()), truncated=True)


def fixed_content(asked: AskedDocument, *, tokens: int) -> Units:
    """FLC with content: the same inside sections."""
    return whole(cut_fixed(asked.document, asked.sections, tokens=tokens, count=word_pieces()), truncated=True)


def sections(asked: AskedDocument, *, truncated: bool = False) -> Units:
    """Sections, each one text, heading line included."""
    return whole(section_chunks(asked), truncated=truncated)


def sections_headed(asked: AskedDocument) -> Units:
    """Sections, each one text, under the titles above it."""
    chunks = section_chunks(asked)
    texts = tuple(view.text for view in headed_views(asked.document, chunks))
    return Units(chunks=chunks, texts=texts, owner=tuple(range(len(chunks))))


def windows(asked: AskedDocument, *, headed: bool = False) -> Units:
    """Sections, each found by its best window of at most `WINDOW` word pieces, under the titles above it or alone."""
    chunks = section_chunks(asked)
    of_section = {chunk.section: number for number, chunk in enumerate(chunks)}
    cut = [
        chunk
        for chunk in cut_fixed(asked.document, asked.sections, tokens=WINDOW, count=word_pieces())
        if chunk.section in of_section
    ]
    texts = (view.text for view in headed_views(asked.document, cut)) if headed else (chunk.text for chunk in cut)
    return Units(chunks=chunks, texts=tuple(texts), owner=tuple(of_section[chunk.section] for chunk in cut))


def best_passage(asked: AskedDocument) -> Units:
    """Sections, each found by its best passage, as the library cuts passages and puts them under their titles."""
    chunks = section_chunks(asked)
    number = {chunk.id: number for number, chunk in enumerate(chunks)}
    views = passage_views(asked.document, chunks)
    owner = tuple(number[view.chunk_id] for view in views)
    return Units(chunks=chunks, texts=tuple(view.text for view in views), owner=owner)


def section_chunks(asked: AskedDocument) -> tuple[Chunk, ...]:
    """Return the smallest divisions of a document."""
    return cut_sections(asked.document, asked.sections, blocks=())


METHODS: Mapping[str, Callable[[AskedDocument], Units]] = {
    **{f"fixed{tokens}": partial(fixed, tokens=tokens) for tokens in LENGTHS},
    **{f"fixed{tokens}_content": partial(fixed_content, tokens=tokens) for tokens in LENGTHS},
    "sections": sections,
    "sections_headed": sections_headed,
    "sections_truncated": partial(sections, truncated=True),
    "windows": windows,
    "windows_headed": partial(windows, headed=True),
    "passages": best_passage,
}

"""Semantic segmentation without a language model: breaks where the embedding of the text turns, chosen exactly."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Annotated, Literal, NamedTuple, TypeAlias

import numpy as np
from annotated_types import Ge, Gt, Lt
from numpy.typing import NDArray

from catena.effects import Embed, Step, ask
from catena.model import Document
from catena.model.errors import ParameterError
from catena.model.options import check_options
from catena.structure.blocks import Block, blocks_of
from catena.structure.division import CODE, PROSE, divide
from catena.structure.segment_titles import first_text, offline_title
from catena.structure.segment_tree import (
    Region,
    Segmentation,
    TitledSpan,
    Under,
    assemble_sections,
    regions_of,
    whole_or_outline,
)
from catena.structure.semantic_breaks import best_breaks, depths, dissimilarities
from catena.structure.tokens import count_tokens
from catena.structure.units import units

Border: TypeAlias = Literal["heading", "paragraph", "inside"]

_BATCH = 256  # texts of one request: several go side by side


class TextUnit(NamedTuple):
    """The smallest part that is not divided, [start, end), and what its beginning is in the text."""

    start: int
    end: int
    border: Border


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingOptions:
    """Where breaks are made. Gains count in standard deviations of the text's own depths.

    Attributes:
        shortest, longest: characters of a section; the longest is passed by single tables only, the shortest
            where there is no other way.
        reach: units compared on each side of a border.
        unit_tokens: most tokens of a unit; a table or figure is one whatever its length.
        sensitivity: how far above the mean a border must be for a break to gain; the lower, the more sections.
        at_heading: added for a border before a printed heading.
        inside_paragraph: taken off for a border inside a paragraph.
        longest_title: characters.
        under, longest_leaf: as in `SegmentOptions`.
    """

    shortest: Annotated[int, Ge(0)] = 500
    longest: Annotated[int, Ge(0)] = 5_000
    reach: Annotated[int, Ge(1)] = 6
    unit_tokens: Annotated[int, Ge(1)] = 32
    sensitivity: Annotated[float, Gt(-inf), Lt(inf)] = 1.0
    at_heading: Annotated[float, Gt(-inf), Lt(inf)] = 1.0
    inside_paragraph: Annotated[float, Gt(-inf), Lt(inf)] = 1.0
    longest_title: Annotated[int, Ge(1)] = 120
    under: Under = "document"
    longest_leaf: Annotated[int, Ge(0)] = 6_000

    def __post_init__(self) -> None:
        check_options(self)
        if self.shortest > self.longest:
            raise ParameterError("shortest and longest", (self.shortest, self.longest), "0 <= shortest <= longest")


def segment_by_embedding(
    document: Document, options: EmbeddingOptions = EmbeddingOptions(), *, blocks: Sequence[Block] | None = None
) -> Step[Segmentation]:
    """Divide a document where neighbouring windows of it are least alike, without a language model.

    `gain_i = s_i - mean(s) - sensitivity`, where
    `s_i = h_i / deviation(h) + at_heading * [before a heading] - inside_paragraph * [inside a paragraph]`
    and h are the depths (`semantic_breaks.depths`) of the dissimilarities between the units before and after each
    border (`semantic_breaks.dissimilarities`). The breaks are those of the greatest total gain under the length
    limits (`semantic_breaks.best_breaks`, exact). The title of a section is the heading that it begins with, else
    its first sentence. Time O(n * dim) for n units, beside the embedding.

    Args:
        document: Markdown or plain text.
        options: lengths and weights.
        blocks: what `blocks_of` gave for this document; else it is asked.

    Returns:
        Sections that tile the text; none for an empty text, one without a title for a blank one.

    Raises:
        ServiceError: the embedder failed.
        MissingServiceError: nobody answers `Embed`.
    """
    text = document.text
    blocks = blocks_of(document) if blocks is None else blocks
    printed = whole_or_outline(document, blocks, options.under)
    regions = regions_of(document, printed, options.longest_leaf)
    headings = {block.start: block for block in blocks if block.kind == "heading"}
    parts = [text_units(text, region, blocks, headings, options.unit_tokens) for region in regions]
    vectors = yield from _embedded([text[unit.start : unit.end].strip() for part in parts for unit in part])
    divided: list[tuple[Region, list[TitledSpan]]] = []
    row = 0
    for region, part in zip(regions, parts, strict=True):
        spans = _spans(part, vectors[row : row + len(part)], options)
        row += len(part)
        titled = (
            TitledSpan(offline_title(text, start, end, headings, options.longest_title), start, end)
            for start, end in spans
        )
        divided.append((region, list(titled)))
    sections, generated = assemble_sections(document, blocks, printed, divided)
    return Segmentation(sections=sections, generated=generated)


def text_units(
    text: str, region: Region, blocks: Sequence[Block], headings: Mapping[int, Block], limit: int
) -> list[TextUnit]:
    """Return units that tile a region: sentences and short paragraphs joined up to `limit` tokens, tables whole.

    A heading is one unit with what follows it, so that no break comes between them.
    """
    first = bisect_left(blocks, region.start, key=lambda block: block.start)
    last = bisect_left(blocks, region.end, key=lambda block: block.start)
    found: list[TextUnit] = []
    held = 0  # tokens of the last unit, where more may join it
    for start, end, border, joins in _parts(text, region, blocks[first:last], headings, limit):
        tokens = count_tokens(text[start:end])
        previous = found[-1] if found else None
        small = border != "heading" and joins and held > 0 and held + tokens <= limit
        if previous is not None and (tokens == 0 or small or not text[previous.start : previous.end].strip()):
            found[-1] = previous._replace(end=end)
            held += tokens
        else:
            found.append(TextUnit(start, end, border))
            held = tokens if joins else 0
    return found


def _parts(
    text: str, region: Region, blocks: Sequence[Block], headings: Mapping[int, Block], limit: int
) -> Iterator[tuple[int, int, Border, bool]]:
    """Yield start, end, kind of the border before it, and whether it is a whole block of prose."""
    for unit in units(text, region.start, region.end, blocks):
        border: Border = "heading" if first_text(text, unit.start, unit.end) in headings else "paragraph"
        if unit.kind in {"table", "figure"}:
            yield unit.start, unit.end, border, False
            continue
        levels = CODE if unit.kind == "code" else PROSE
        pieces = list(divide(text, (unit.start, unit.end), levels, limit=limit, count=count_tokens))
        for index, (start, end) in enumerate(pieces):
            yield start, end, border if index == 0 else "inside", len(pieces) == 1


def _embedded(texts: Sequence[str]) -> Step[NDArray[np.float32]]:
    """Return one row per text."""
    if not texts:
        return np.zeros((0, 1), dtype=np.float32)
    batches = [tuple(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH)]
    replies = yield from ask([Embed(texts=batch, purpose="embedding for segmentation") for batch in batches])
    return np.concatenate(replies)


def _spans(
    part: Sequence[TextUnit], vectors: NDArray[np.float32], options: EmbeddingOptions
) -> list[tuple[int, int]]:
    weights = {"heading": options.at_heading, "paragraph": 0.0, "inside": -options.inside_paragraph}
    found = depths(dissimilarities(vectors, reach=options.reach))
    deviation = float(found.std()) if len(found) else 0.0
    scores = found / deviation if deviation > 1e-9 else np.zeros_like(found)
    preferred = scores + np.array([weights[unit.border] for unit in part[1:]], dtype=np.float64)
    gains = preferred - options.sensitivity - (preferred.mean() if len(preferred) else 0.0)
    sizes = [unit.end - unit.start for unit in part]
    breaks = best_breaks(gains.tolist(), sizes, shortest=options.shortest, longest=options.longest)
    starts = [part[0].start, *(part[index].start for index in breaks), part[-1].end]
    return list(pairwise(starts))

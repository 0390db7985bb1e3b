"""Divide a text into sections without a language model: the best breaks where its embedding changes (TextTiling)."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Annotated, Literal, NamedTuple, TypeAlias

import numpy as np
from annotated_types import Ge, Gt, Lt
from numpy.typing import NDArray

from catena.effects import Step, embed_texts
from catena.model import Document, ParameterError, check_options
from catena.structure.blocks import Block, blocks_of
from catena.structure.division import CODE, PROSE, divide, units
from catena.structure.segment_tree import (
    Segmentation,
    SpanToDivide,
    TitledSpan,
    Under,
    assemble_sections,
    first_text,
    offline_title,
    regions_of,
    whole_or_outline,
)
from catena.text.words import count_tokens

Border: TypeAlias = Literal["heading", "paragraph", "inside"]
_BLOCK = 2_048  # borders at once: what is computed for them fits a processor's cache
_NOTHING = 1e-9  # of a direction, or of differences between depths: what rounding may leave
# minus the number of short segments, and the sum of gains: larger is better
_BreakValue: TypeAlias = tuple[int, float]


class TextUnit(NamedTuple):
    """Part [start, end) that is not divided further, and the kind of border that it begins at."""

    start: int
    end: int
    border: Border


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingOptions:
    """Lengths of sections and weights of breaks, in standard deviations of the text's own depths.

    Attributes:
        shortest, longest: characters of a section; the longest is passed by single tables only, the shortest
            where there is no other way.
        reach: units compared on each side of a border.
        unit_tokens: most tokens of a unit; a table or figure of any length is one.
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
    and h are the depths (`depths`) of the dissimilarities between the units before and after each
    border (`dissimilarities`). The breaks are those of the greatest total gain under the length
    limits (`best_breaks`, exact). The title of a section is the heading that it begins with, else
    its first sentence. Time O(n * dim) for n units, beside the embedding.

    Args:
        document: Markdown or plain text.
        options: lengths and weights.
        blocks: what `blocks_of` gave for this document; else it is asked.

    Returns:
        Sections that tile the text; none for an empty text, one without a title for a blank one.

    Raises:
        ServiceError: the embedder failed.
        MissingServiceError: no service answers `Embed`.
    """
    text = document.text
    blocks = blocks_of(document) if blocks is None else blocks
    printed = whole_or_outline(document, blocks, options.under)
    regions = regions_of(document, printed, options.longest_leaf)
    headings = {block.start: block for block in blocks if block.kind == "heading"}
    parts = [text_units(text, region, blocks, headings, options.unit_tokens) for region in regions]
    vectors = yield from _embedded([text[unit.start : unit.end].strip() for part in parts for unit in part])
    divided: list[tuple[SpanToDivide, list[TitledSpan]]] = []
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
    text: str, region: SpanToDivide, blocks: Sequence[Block], headings: Mapping[int, Block], limit: int
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
    text: str, region: SpanToDivide, blocks: Sequence[Block], headings: Mapping[int, Block], limit: int
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
    rows = yield from embed_texts(texts, "embedding for segmentation")
    return np.asarray(rows, dtype=np.float32).reshape(len(rows), -1 if rows else 1)


def _spans(
    part: Sequence[TextUnit], vectors: NDArray[np.float32], options: EmbeddingOptions
) -> list[tuple[int, int]]:
    if len(part) == 1:
        return [(part[0].start, part[0].end)]
    weights = {"heading": options.at_heading, "paragraph": 0.0, "inside": -options.inside_paragraph}
    found = depths(dissimilarities(vectors, reach=options.reach))
    preferred = found / max(found.std(), _NOTHING) + np.array([weights[unit.border] for unit in part[1:]])
    gains = preferred - options.sensitivity - preferred.mean()
    sizes = [unit.end - unit.start for unit in part]
    breaks = best_breaks(gains.tolist(), sizes, shortest=options.shortest, longest=options.longest)
    return list(pairwise([part[0].start, *(part[index].start for index in breaks), part[-1].end]))


def dissimilarities(vectors: NDArray[np.float32], *, reach: int) -> NDArray[np.float64]:
    """Return how unlike the units before and after each inner border are: `d_i = 1 - cos(before_i, after_i)`.

    `before_i` is the sum of the `reach` vectors before unit i, `after_i` that of unit i and the `reach - 1` after it;
    there are fewer at the ends of the text. A side without any direction (all zeros) is unlike nothing: d_i = 0.

    Args:
        vectors: one row per unit, shape (n, dim).
        reach: units on each side, >= 1; the more, the smoother.

    Returns:
        Shape (max(n - 1, 0),), in [0, 2]; element i is the border before unit i + 1. Time O(n * dim).

    Raises:
        ParameterError: `reach` is below 1.

    Source: TextTiling (Hearst, 1997), with vectors instead of counts of words.
    """
    if reach < 1:
        raise ParameterError("reach", reach, "at least 1 unit")
    found = np.zeros(max(len(vectors) - 1, 0), dtype=np.float64)
    for first in range(1, len(vectors), _BLOCK):
        last = min(first + _BLOCK, len(vectors))
        found[first - 1 : last - 1] = _unlike(vectors, np.arange(first, last), reach)
    return found


def _unlike(vectors: NDArray[np.float32], borders: NDArray[np.intp], reach: int) -> NDArray[np.float64]:
    """Return the dissimilarities at some borders that follow each other."""
    low, high = max(int(borders[0]) - reach, 0), min(int(borders[-1]) + reach, len(vectors))
    sums = np.zeros((high - low + 1, vectors.shape[1]), dtype=np.float64)
    np.cumsum(vectors[low:high], axis=0, dtype=np.float64, out=sums[1:])
    middle = sums[borders - low]
    before = middle - sums[np.maximum(borders - reach, low) - low]
    after = sums[np.minimum(borders + reach, high) - low] - middle
    lengths = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    products = np.einsum("ij,ij->i", before, after)
    known = lengths > _NOTHING
    found = np.zeros(len(borders), dtype=np.float64)
    found[known] = 1.0 - np.clip(products[known] / lengths[known], -1.0, 1.0)
    return found


def depths(unlike: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far each border rises above the low points around it: `(d_i - left_i) + (d_i - right_i)`.

    `left_i` is where d ends to fall on the way left from border i, `right_i` likewise: a text whose sentences differ
    all along has no deep borders, only the ones above their own neighbours are.

    Args:
        unlike: the dissimilarities d, shape (n,).

    Returns:
        Shape (n,), numbers >= 0; 0 at the calmest border between two others. Time O(n).

    Source: the depth score of TextTiling (Hearst, 1997).
    """
    return 2.0 * unlike - _descended(unlike) - _descended(unlike[::-1])[::-1]


def _descended(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the value at which a walk to the left ends that never goes up."""
    found: list[float] = []
    before, lowest = float("inf"), float("inf")
    for value in values.tolist():
        lowest = min(lowest, value) if value >= before else value
        found.append(lowest)
        before = value
    return np.array(found, dtype=np.float64)


def best_breaks(gains: Sequence[float], sizes: Sequence[int], *, shortest: int, longest: int) -> list[int]:
    """Return the breaks of greatest total gain among all divisions of n units into runs within length limits.

    A run of several units is never longer than `longest`; one unit that is longer by itself is a run of its own.
    Where no division keeps every run at least `shortest` long, one with the fewest short runs is taken; among
    these, the greatest sum of gains. Exact: a dynamic programme over the borders,

        best(j) = gain(j) + max { best(i) : i < j, the units i..j-1 are a run within the limits }

    whose maxima over sliding windows are kept in queues, so that it takes time O(n) for any limits.

    Args:
        gains: n - 1 numbers, of a break before unit 1, 2, …; a break of negative gain is made only to keep a limit.
        sizes: n lengths >= 0.
        shortest: length of a run, in the unit of `sizes`.
        longest: likewise, >= `shortest`.

    Returns:
        Ascending indexes of the units that begin a run, the first unit (0) left out. Of equal divisions the one
        whose runs are longer from the end of the text on.

    Raises:
        ParameterError: the numbers do not fit together.
    """
    count = len(sizes)
    if len(gains) != max(count - 1, 0):
        raise ParameterError("gains", f"{len(gains)} numbers", f"one per border between {count} units")
    if not 0 <= shortest <= longest:
        raise ParameterError("shortest and longest", (shortest, longest), "0 <= shortest <= longest")
    ends = [0]
    for size in sizes:
        ends.append(ends[-1] + size)
    best: list[_BreakValue] = [(0, 0.0)]
    came_from = [0]
    fitting: deque[int] = deque()  # borders i from which a run to j is within both limits, values falling
    short: deque[int] = deque()  # those from which it is too short
    next_fitting = 0
    for j in range(1, count + 1):
        _push(short, j - 1, best)
        while next_fitting < j and ends[j] - ends[next_fitting] >= shortest:
            _push(fitting, next_fitting, best)
            next_fitting += 1
        while short and short[0] < next_fitting:
            short.popleft()
        for queue in (fitting, short):
            while queue and queue[0] < j - 1 and ends[j] - ends[queue[0]] > longest:
                queue.popleft()
        choices = [(best[queue[0]], penalty, queue[0]) for queue, penalty in ((fitting, 0), (short, 1)) if queue]
        (shorts, total), i = max(
            (((value[0] - penalty, value[1]), border) for value, penalty, border in choices),
            key=lambda choice: choice[0],
        )  # the first of equals
        best.append((shorts, total + (gains[j - 1] if j < count else 0.0)))
        came_from.append(i)
    breaks: list[int] = []
    at = came_from[count]
    while at > 0:
        breaks.append(at)
        at = came_from[at]
    return breaks[::-1]


def _push(queue: deque[int], border: int, best: Sequence[_BreakValue]) -> None:
    while queue and best[queue[-1]] < best[border]:
        queue.pop()
    queue.append(border)

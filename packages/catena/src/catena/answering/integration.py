"""Integrate segments of several documents into one text for a model: numbered, in order, within a budget.

In order: the choice of what fits, segments that overlap or say the same, a segment shortened, and the text itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from math import isnan
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from catena import prompts
from catena.model import Chunk, Hit, Place, Segment, common_metadata, shown_text
from catena.model.errors import ParameterError
from catena.model.figures import CAPTION
from catena.model.ids import span_id
from catena.model.places import citation, document_name
from catena.segments.adjacency import common_path
from catena.structure.views import segment_header

Header: TypeAlias = Callable[[Chunk | Segment], str]
"""From a passage to what is said of its document, "" for nothing."""


@runtime_checkable
class ValuedSegment(Protocol):
    """A segment and what it is worth, as extraction returns them."""

    @property
    def segment(self) -> Segment: ...
    @property
    def value(self) -> float: ...


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A segment that is not in the context: `budget`, it did not fit; `blank`, it shows nothing."""

    segment: Segment
    reason: Literal["budget", "blank"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegratedContext:
    """The text that a model reads, and the place of each of its parts.

    Attributes:
        text: for the prompt; passage n carries the number n.
        passages: in the order of the text.
        left_out: for each reason the best first, each with those of equal text behind it.
        tokens: of the text, as counted; None where no counter was given.
    """

    text: str
    passages: tuple[Passage, ...]
    left_out: tuple[LeftOut, ...] = ()
    tokens: int | None = None

    @property
    def documents(self) -> tuple[str, ...]:
        """Return the ids of the documents, in the order in which the text first shows them."""
        return tuple(dict.fromkeys(passage.segment.document_id for passage in self.passages))


def integrate(
    segments: Sequence[Segment | Hit | ValuedSegment],
    *,
    budget_tokens: int | None = None,
    count: Callable[[str], int] | None = None,
    layout: Layout = "grouped",
    cut: bool = False,
    header: Header = segment_header,
) -> IntegratedContext:
    """Return one text out of segments of several documents, with the number of each passage to cite it by.

    The best segments are taken first, each if the whole text, headers and markers counted, stays within the budget; a
    smaller one behind it may still fit. Segments of a document that overlap become one. A text that is in several
    places, as boilerplate does, is shown once, at the best of them, and its marker names the others.

    Args:
        segments: with values (`SegmentHit`, `Hit`), or bare: then the first is the best.
        budget_tokens: of the whole text, >= 0; None for no limit.
        count: tokens of a text; needed where there is a budget. It should not fall as a text grows.
        layout: "grouped": documents by their best value (then id), each under its header once, its passages in
            reading order. "value": the best passage first, each under its header. "plain": as "grouped", without
            tags, for readers; texts are quoted line by line.
        cut: whether the first segment that does not fit is shortened at the end of a line or sentence.
        header: of a document; made from one of its passages.

    Returns:
        The context; equal segments in any order give equal contexts where values differ or are equal by document and
        place. A shortened passage's segment is the slice that is shown, so that quotes and lines stay true.

    Raises:
        ParameterError: the budget is negative or has no counter, the layout is unknown, some segments have values and
            others have none, or a value is no number.
    """
    if layout not in ("grouped", "value", "plain"):
        raise ParameterError("layout", layout, "'grouped', 'value' or 'plain'")
    if budget_tokens is not None and (budget_tokens < 0 or count is None):
        raise ParameterError("budget_tokens", budget_tokens, "an integer >= 0, with count=... to count them by")
    given = _valued(segments)
    if any(isnan(valued.value) for valued in given):
        raise ParameterError("values", "nan", "numbers, which can be put in order")
    best_first = sorted(merged(given), key=lambda valued: valued.order)
    written = partial(laid_out, layout=layout, header=header)
    return context_of(best_first, written, layout, budget_tokens=budget_tokens, count=count, cut=cut)


def context_of(
    ordered: Sequence[ValuedPassage],
    written: Callable[[Sequence[ValuedPassage]], str],
    layout: Layout,
    *,
    budget_tokens: int | None,
    count: Callable[[str], int] | None,
    cut: bool,
) -> IntegratedContext:
    """Return the context of those passages that fit into the budget together, with those left out.

    Args:
        ordered: those that should be taken first come first.
        written: the text of passages that are shown together.
        layout: in whose order `written` has them.
        budget_tokens: of the whole text; None for no limit.
        count: tokens of a text; None where nothing is to be counted.
        cut: whether the first that does not fit is shortened at the end of a line or sentence.
    """
    shown = [valued for valued in ordered if valued.segment.text.strip()]
    blank = [left for valued in ordered if not valued.segment.text.strip() for left in _left_out(valued, "blank")]

    def fits(chosen: Sequence[ValuedPassage]) -> bool:
        return budget_tokens is None or count is None or count(written(chosen)) <= budget_tokens

    chosen, too_much = _select_fitting(shown, fits, cut=cut)
    text = written(chosen)
    tokens, left_out = None if count is None else count(text), (*too_much, *blank)
    return IntegratedContext(text=text, passages=_numbered(chosen, layout), left_out=left_out, tokens=tokens)


def _select_fitting(
    shown: Sequence[ValuedPassage], fits: Callable[[Sequence[ValuedPassage]], bool], *, cut: bool
) -> tuple[list[ValuedPassage], list[LeftOut]]:
    """Take passages one after the other as long as they fit together; return them, and those left out."""
    if fits(shown):
        return list(shown), []
    chosen: list[ValuedPassage] = []
    too_much: list[LeftOut] = []
    may_cut = cut
    for valued in shown:
        if fits([*chosen, valued]):
            chosen.append(valued)
        elif may_cut and (shorter := _shortened(valued, lambda short: fits([*chosen, short]))):
            chosen.append(shorter)
            may_cut = False  # what is left would hold scraps of others
        else:
            too_much += _left_out(valued, "budget")
    return chosen, too_much


def _left_out(valued: ValuedPassage, reason: Literal["budget", "blank"]) -> list[LeftOut]:
    """Return the segment and all that say the same: each was given, and none is shown."""
    return [LeftOut(segment, reason) for segment in (valued.segment, *valued.also)]


def _valued(segments: Sequence[Segment | Hit | ValuedSegment]) -> list[ValuedPassage]:
    bare = [segment for segment in segments if isinstance(segment, Segment)]
    if bare and len(bare) < len(segments):
        allowed = "all with values, or none"
        raise ParameterError("segments", f"{len(bare)} of {len(segments)} without a value", allowed)
    if bare:
        return [ValuedPassage(segment, -float(place)) for place, segment in enumerate(bare)]
    return [
        ValuedPassage(each.chunk.as_segment(), each.score)
        if isinstance(each, Hit)
        else ValuedPassage(each.segment, each.value)
        for each in segments
        if not isinstance(each, Segment)
    ]


def _shortened(valued: ValuedPassage, fits: Callable[[ValuedPassage], bool]) -> ValuedPassage | None:
    def as_cut(segment: Segment) -> ValuedPassage:
        return replace(valued, segment=segment, is_cut=True)

    shorter = shortened(valued.segment, lambda segment: fits(as_cut(segment)))
    return as_cut(shorter) if shorter else None


@dataclass(frozen=True, slots=True)
class ValuedPassage:
    """A segment with its value.

    Attributes:
        also: other places of the same text, in the order of their values.
        is_cut: whether the end of it is left out.
    """

    segment: Segment
    value: float
    also: tuple[Segment, ...] = ()
    is_cut: bool = False

    @property
    def order(self) -> tuple[float, str, int, int, str, str, tuple[str, ...]]:
        """Return the key that sorts the best first; segments that claim one place are ordered by their text."""
        segment = self.segment
        place = (segment.document_id, segment.start, segment.end)
        return (-self.value, *place, segment.id, segment.text, segment.path)


def merged(segments: Iterable[ValuedPassage]) -> list[ValuedPassage]:
    """Return the segments, those that overlap as one, and of those with equal text the best, the best first."""
    by_text: dict[str, list[ValuedPassage]] = {}
    for valued in sorted(without_overlap(segments), key=lambda valued: valued.order):
        by_text.setdefault(" ".join(valued.segment.text.split()), []).append(valued)
    return [replace(first, also=tuple(other.segment for other in others)) for first, *others in by_text.values()]


def without_overlap(segments: Iterable[ValuedPassage]) -> list[ValuedPassage]:
    """Return the segments by document and place; those of a document that overlap are one, worth the best of them.

    Spans overlap only where their texts agree: else they are of two versions of the document, and both stay.
    """
    found: list[ValuedPassage] = []
    reaching: list[int] = []  # places in `found` of what may overlap with the next one, one for each version
    for valued in sorted(segments, key=lambda valued: (valued.segment.document_id, *valued.order[2:], -valued.value)):
        reaching = [place for place in reaching if _overlap(found[place].segment, valued.segment)]
        for place in reaching:
            joined = _union(found[place].segment, valued.segment)
            if joined is not None:
                found[place] = ValuedPassage(joined, max(found[place].value, valued.value))
                break
        else:
            reaching.append(len(found))
            found.append(valued)
    return found


def _overlap(first: Segment, second: Segment) -> bool:
    return first.document_id == second.document_id and second.start < first.end


def _union(first: Segment, second: Segment) -> Segment | None:
    """Return two segments that overlap as one slice, `first.start <= second.start`; None where they do not agree."""
    common = first.text[second.start - first.start :]
    if not (common.startswith(second.text) or second.text.startswith(common)):
        return None
    if second.end <= first.end:
        return first
    if first.start == second.start:
        return second
    text, place = first.text + second.text[len(common) :], Place.around((first.place, second.place))
    positions = None
    if first.positions and second.positions:
        positions = (min(first.positions[0], second.positions[0]), max(first.positions[1], second.positions[1]))
    return Segment(
        id=span_id(first.document_id, "passage", first.start, second.end),
        document_id=first.document_id,
        start=first.start,
        end=second.end,
        text=text,
        path=common_path([first.path, second.path]),
        chunk_ids=tuple(dict.fromkeys((*first.chunk_ids, *second.chunk_ids))),
        **place.parts,
        positions=positions,
        metadata=common_metadata((first.as_chunk(), second.as_chunk())),
    )


# the end of a line, of a sentence before a capital, of one in a script without capitals
_BORDER = re.compile(r"\n+|(?<=\w\w)[.!?][\"'”’»)]*[^\S\n]+(?=[^\W\d_])|[。！？]+[”’」』）】]*")


def shortened(segment: Segment, fits: Callable[[Segment], bool]) -> Segment | None:
    """Return the longest beginning of a segment, up to one of its borders, that fits; None where none does.

    A segment of n borders is tried about log2(n) times: it is taken for granted that less fits where more does.
    """
    text = segment.text
    borders = _BORDER.finditer(text)
    ends = [m.end() for m in borders if m.group()[0] not in ".!?" or not text[m.end() : m.end() + 1].islower()]
    ends = [end for end in ends if text[:end].strip() and text[end:].strip()]
    low, best = 0, None
    high = len(ends)
    while low < high:
        middle = (low + high) // 2
        candidate = beginning(segment, ends[middle])
        if fits(candidate):
            best, low = candidate, middle + 1
        else:
            high = middle
    return best


def beginning(segment: Segment, length: int) -> Segment:
    """Return the first `length` characters of a segment, with the lines that they stand in.

    Pages stay those of the whole segment: where one ends is not known here. So do its chunks.
    """
    text = segment.text[:length]
    lines = segment.lines and (segment.lines[0], segment.lines[0] + text.count("\n", 0, length - 1))
    end = segment.start + length
    name = span_id(segment.document_id, "passage", segment.start, end)
    return replace(segment, id=name, end=end, text=text, lines=lines, boxes=())


Layout: TypeAlias = Literal["grouped", "value", "plain"]

_LINE_END = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_BLANK_LINES = re.compile(r"\A(?:[^\S\n]*\n)+")
_GOES_ON = "(it goes on)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A numbered passage of a context.

    Attributes:
        number: from 1, in the order of the text; what [n] in an answer means.
        segment: the exact slice of its document that is shown.
        citation: its place, for the reader, with pages and lines as far as they are known.
        value: what it is worth; of bare segments, minus their place in what was given.
        also: other places of the same text.
        is_cut: whether the segment went on behind what is shown.
    """

    number: int
    segment: Segment
    citation: str
    value: float
    also: tuple[Segment, ...] = ()
    is_cut: bool = False

    @property
    def text(self) -> str:
        """The words of the document, as they stand there."""
        return self.segment.text


def in_order(chosen: Sequence[ValuedPassage], layout: Layout) -> list[ValuedPassage]:
    """Return passages in the order of their numbers: by value, or document by document, the best document first."""
    by_value = sorted(chosen, key=lambda valued: valued.order)
    if layout == "value":
        return by_value
    documents = {valued.segment.document_id: None for valued in by_value}
    places = {document_id: place for place, document_id in enumerate(documents)}
    return sorted(by_value, key=lambda valued: (places[valued.segment.document_id], *valued.order[2:]))


def _numbered(chosen: Sequence[ValuedPassage], layout: Layout) -> tuple[Passage, ...]:
    """Return the passages with their numbers."""
    return tuple(
        Passage(
            number=number,
            segment=valued.segment,
            citation=citation(valued.segment),
            value=valued.value,
            also=valued.also,
            is_cut=valued.is_cut,
        )
        for number, valued in enumerate(in_order(chosen, layout), start=1)
    )


def laid_out(chosen: Sequence[ValuedPassage], layout: Layout, header: Callable[[Chunk | Segment], str]) -> str:
    """Return the passages as the model reads them; "" for none.

    No text, title or header can end its passage or begin another one.
    """
    numbered = list(enumerate(in_order(chosen, layout), start=1))
    if layout == "value":
        return "\n".join(_tagged(number, valued, header(valued.segment)) for number, valued in numbered)
    groups = [list(of) for _, of in groupby(numbered, key=lambda each: each[1].segment.document_id)]
    if layout == "plain":
        return "\n\n".join(_plain(group, header(group[0][1].segment)) for group in groups)
    return "\n".join(_document(group, header(group[0][1].segment)) for group in groups)


def _document(group: Sequence[tuple[int, ValuedPassage]], header: str) -> str:
    name = _attribute(document_name(group[0][1].segment))
    parts = (f'<document name="{name}">', *([inside(header)] if header else ()))
    return "\n".join((*parts, *(_tagged(number, valued) for number, valued in group), "</document>"))


def _tagged(number: int, valued: ValuedPassage, header: str = "") -> str:
    also = "; ".join(map(citation, valued.also))
    attributes = [f'number="{number}"', f'from="{_attribute(citation(valued.segment))}"']
    attributes.extend([f'also="{_attribute(also)}"'] if also else [])
    attributes.extend(['cut="yes"'] if valued.is_cut else [])
    text = "\n\n".join(part for part in (header, _shown(valued.segment)) if part)
    return f"<passage {' '.join(attributes)}>\n{inside(text)}\n</passage>"


def _plain(group: Sequence[tuple[int, ValuedPassage]], header: str) -> str:
    parts = [" ".join(header.split())] if header else []
    for number, valued in group:
        also = "; ".join(_attribute(citation(other)) for other in valued.also)
        marker = f"[{number}] {_attribute(citation(valued.segment))}{f' (also: {also})' if also else ''}"
        lines = [f"> {line}".rstrip() for line in _LINE_END.split(_shown(valued.segment))]
        parts.append("\n".join((marker, *lines, *([f"> {_GOES_ON}"] if valued.is_cut else ()))))
    return "\n\n".join(parts)


def _shown(segment: Segment) -> str:
    """Return the text without blank lines around it; a figure's with what a model saw, a table's with its header."""
    text = _BLANK_LINES.sub("", shown_text(segment)).rstrip()
    seen = segment.metadata.get(CAPTION)
    return f"{text}\n(The figure, described by a model: {seen})" if seen else text


def inside(text: str) -> str:
    """Return a text that can neither end its passage nor begin another one."""
    return prompts.shut_in(text, "passage", "passages", "document", "documents")


def _attribute(text: str) -> str:
    return " ".join(text.replace("<", "‹").replace(">", "›").replace('"', "'").split())

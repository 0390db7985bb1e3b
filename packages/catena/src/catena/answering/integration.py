"""Segments of several documents as one text for a model: grouped, in reading order, numbered, within a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from catena.answering.layout import Layout, Passage, laid_out, passages_of
from catena.answering.merging import Valued, merged
from catena.answering.shortening import shortened
from catena.model import Chunk, Hit, Segment
from catena.model.errors import ParameterError
from catena.structure.context_header import segment_header

__all__ = ["Header", "IntegratedContext", "Layout", "LeftOut", "Passage", "ValuedSegment", "integrate"]

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
    """What a model reads, and where each part of it stands.

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
    smaller one behind it may still fit. Segments of a document that overlap become one. A text that stands in several
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
    shown = [valued for valued in best_first if valued.segment.text.strip()]
    blank = [left for valued in best_first if not valued.segment.text.strip() for left in _left_out(valued, "blank")]

    def fits(chosen: Sequence[Valued]) -> bool:
        return budget_tokens is None or count is None or count(laid_out(chosen, layout, header)) <= budget_tokens

    chosen, too_much = taken(shown, fits, cut=cut)
    text = laid_out(chosen, layout, header)
    return IntegratedContext(
        text=text,
        passages=passages_of(chosen, layout),
        left_out=(*too_much, *blank),
        tokens=None if count is None else count(text),
    )


def taken(
    shown: Sequence[Valued], fits: Callable[[Sequence[Valued]], bool], *, cut: bool
) -> tuple[list[Valued], list[LeftOut]]:
    """Return what fits together, taken one after the other, and what does not.

    Args:
        shown: those that should be taken first come first.
        fits: whether these may be shown together.
        cut: whether the first that does not fit is shortened at the end of a line or sentence.
    """
    if fits(shown):
        return list(shown), []
    chosen: list[Valued] = []
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


def _left_out(valued: Valued, reason: Literal["budget", "blank"]) -> list[LeftOut]:
    """Return the segment and all that say the same: each was given, and none is shown."""
    return [LeftOut(segment, reason) for segment in (valued.segment, *valued.also)]


def _valued(segments: Sequence[Segment | Hit | ValuedSegment]) -> list[Valued]:
    bare = [segment for segment in segments if isinstance(segment, Segment)]
    if bare and len(bare) < len(segments):
        raise ParameterError(
            "segments", f"{len(bare)} of {len(segments)} without a value", "all with values, or none"
        )
    if bare:
        return [Valued(segment, -float(place)) for place, segment in enumerate(bare)]
    return [
        Valued(each.chunk.as_segment(), each.score) if isinstance(each, Hit) else Valued(each.segment, each.value)
        for each in segments
        if not isinstance(each, Segment)
    ]


def _shortened(valued: Valued, fits: Callable[[Valued], bool]) -> Valued | None:
    def as_cut(segment: Segment) -> Valued:
        return replace(valued, segment=segment, is_cut=True)

    shorter = shortened(valued.segment, lambda segment: fits(as_cut(segment)))
    return as_cut(shorter) if shorter else None

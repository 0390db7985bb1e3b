"""How passages of several documents are written out for a model: numbered, each with its place, none open-ended."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, TypeAlias

from catena.answering.merging import Valued
from catena.model import Chunk, Segment
from catena.model.figures import CAPTION
from catena.model.places import TITLE, citation

Layout: TypeAlias = Literal["grouped", "value", "plain"]

_TAG = re.compile(r"<(?=\s*(?:/\s*)?(?:passages?|documents?)\b)", re.IGNORECASE)  # linear in white space
_LINE_END = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_BLANK_LINES = re.compile(r"\A(?:[^\S\n]*\n)+")
_GOES_ON = "(it goes on)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A numbered passage of a context.

    Attributes:
        number: from 1, in the order of the text; what [n] in an answer means.
        segment: the exact slice of its document that is shown.
        citation: where it stands, for the reader, with pages and lines as far as they are known.
        value: what it is worth; of bare segments, minus their place in what was given.
        also: other places where the same text stands.
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


def in_order(chosen: Sequence[Valued], layout: Layout) -> list[Valued]:
    """Return passages in the order of their numbers: by value, or document by document, the best document first."""
    by_value = sorted(chosen, key=lambda valued: valued.order)
    if layout == "value":
        return by_value
    documents = {valued.segment.document_id: None for valued in by_value}
    places = {document_id: place for place, document_id in enumerate(documents)}
    return sorted(by_value, key=lambda valued: (places[valued.segment.document_id], *valued.order[2:]))


def passages_of(chosen: Sequence[Valued], layout: Layout) -> tuple[Passage, ...]:
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


def laid_out(chosen: Sequence[Valued], layout: Layout, header: Callable[[Chunk | Segment], str]) -> str:
    """Return the passages as the model reads them; "" for none.

    Whatever a text, a title or a header says: it cannot end its passage or begin another one.
    """
    numbered = list(enumerate(in_order(chosen, layout), start=1))
    if layout == "value":
        return "\n".join(_tagged(number, valued, header(valued.segment)) for number, valued in numbered)
    groups = [list(of) for _, of in groupby(numbered, key=lambda each: each[1].segment.document_id)]
    if layout == "plain":
        return "\n\n".join(_plain(group, header(group[0][1].segment)) for group in groups)
    return "\n".join(_document(group, header(group[0][1].segment)) for group in groups)


def _document(group: Sequence[tuple[int, Valued]], header: str) -> str:
    first = group[0][1].segment
    name = _attribute(str(first.metadata.get(TITLE) or first.document_id))
    parts = (f'<document name="{name}">', *([inside(header)] if header else ()))
    return "\n".join((*parts, *(_tagged(number, valued) for number, valued in group), "</document>"))


def _tagged(number: int, valued: Valued, header: str = "") -> str:
    also = "; ".join(map(citation, valued.also))
    attributes = [f'number="{number}"', f'from="{_attribute(citation(valued.segment))}"']
    attributes.extend([f'also="{_attribute(also)}"'] if also else [])
    attributes.extend(['cut="yes"'] if valued.is_cut else [])
    text = "\n\n".join(part for part in (header, _shown(valued.segment)) if part)
    return f"<passage {' '.join(attributes)}>\n{inside(text)}\n</passage>"


def _plain(group: Sequence[tuple[int, Valued]], header: str) -> str:
    parts = [" ".join(header.split())] if header else []
    for number, valued in group:
        also = "; ".join(_attribute(citation(other)) for other in valued.also)
        marker = f"[{number}] {_attribute(citation(valued.segment))}{f' (also: {also})' if also else ''}"
        lines = [f"> {line}".rstrip() for line in _LINE_END.split(_shown(valued.segment))]
        parts.append("\n".join((marker, *lines, *([f"> {_GOES_ON}"] if valued.is_cut else ()))))
    return "\n\n".join(parts)


def _shown(segment: Segment) -> str:
    """Return the text without blank lines around it; a figure's with what a model saw in it."""
    text = _BLANK_LINES.sub("", segment.text).rstrip()
    seen = segment.metadata.get(CAPTION)
    return f"{text}\n(The figure, described by a model: {seen})" if seen else text


def inside(text: str) -> str:
    """Return a text that can neither end its passage nor begin another one."""
    return _TAG.sub("‹", text)


def _attribute(text: str) -> str:
    return " ".join(text.replace("<", "‹").replace(">", "›").replace('"', "'").split())

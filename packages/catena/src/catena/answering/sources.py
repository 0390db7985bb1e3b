"""The numbered passages that an answer cites, whatever they were handed over as."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from catena.model import Chunk, Document, Hit, Place, Segment
from catena.model.errors import ParameterError
from catena.model.places import citation


class SegmentHolder(Protocol):
    """What holds a segment, as extraction and integration return them."""

    @property
    def segment(self) -> Segment: ...


@runtime_checkable
class NumberedSegment(SegmentHolder, Protocol):
    """A segment with the number under which a reader of the context sees it."""

    @property
    def number(self) -> int: ...


Citable: TypeAlias = Chunk | Segment | Hit | SegmentHolder
"""What an answer can be written from. Passages without a number of their own are counted from 1, in order."""


@dataclass(frozen=True, slots=True)
class Source:
    """A passage as an exact slice of its document, with the number in its marker."""

    number: int
    found: Chunk

    def cited(self, place: Place) -> str:
        """Return where a quote of the passage stands, in the words of a citation."""
        return citation(self.found, place=place)


def sources(passages: Sequence[Citable]) -> tuple[Source, ...]:
    """Return the passages with their numbers.

    Raises:
        ParameterError: two passages have one number.
    """
    numbered = tuple(
        Source(passage.number if isinstance(passage, NumberedSegment) else place, chunk_of(passage))
        for place, passage in enumerate(passages, start=1)
    )
    numbers = [source.number for source in numbered]
    if len(set(numbers)) < len(numbers):
        raise ParameterError("passage numbers", numbers, "all different")
    return numbered


def chunk_of(passage: Citable) -> Chunk:
    """Return the slice that a passage is."""
    if isinstance(passage, Chunk):
        return passage
    if isinstance(passage, Segment):
        return passage.as_chunk()
    return passage.chunk if isinstance(passage, Hit) else passage.segment.as_chunk()


def whole(documents: Iterable[Document], cited: Sequence[Source]) -> dict[str, Document]:
    """Return the documents by id.

    Raises:
        ParameterError: a passage is no slice of the document of its id: the document is of another version.
    """
    by_id = {document.id: document for document in documents}
    for source in cited:
        found = source.found
        document = by_id.get(found.document_id)
        if document is not None and not document.text.startswith(found.text, found.start):
            raise ParameterError(
                "documents", found.document_id, f"the version that passage {source.number} was cut from"
            )
    return by_id

"""Verify quotes against the numbered passages that they cite: found with page and lines, or flagged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from catena.model import Chunk, Document, Hit, PageBox, ParameterError, Place, Segment, Span, citation, lines_in
from catena.text.quotes import Difference, Located, Wording, nearest, place_of

QuoteState: TypeAlias = Literal["exact", "normalised", "near", "altered", "elsewhere", "missing"]


@dataclass(frozen=True, slots=True)
class Quote:
    """Words that passage `number` is said to have."""

    number: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedQuote:
    """A quote and its real place.

    Attributes:
        number: of the passage that was cited.
        text: as quoted.
        state: how true it is to that passage:
            `exact`: character for character.
            `normalised`: the same words in order; white space, hyphens, typographic signs, Markdown or capitals
                of plain words differ, or an ellipsis leaves out part of the passage.
            `near`: a word in five at most differs, see `differences`; no number, code, unit, sign or negation does.
            `altered`: one of these does, or the quote cuts one in two or begins right behind a negation.
            `elsewhere`: exact or normalised, in another passage.
            `missing`: in none.
        passage: number of the passage in which it was found; None where it was not.
        document_id: of that passage.
        start, end: of what is printed there, offsets in the document, half-open.
        printed: the source's own words, `document.text[start:end]`; "" where nothing was found.
        pages, page_labels, boxes, lines: of the quote in its document, see `catena.model.Place`; the pages are those
            of its passage, and boxes are missing, where that spans several and its document was not given.
        differences: what was changed, in order.
    """

    number: int
    text: str
    state: QuoteState
    passage: int | None = None
    document_id: str | None = None
    start: int | None = None
    end: int | None = None
    printed: str = ""
    pages: Span | None = None
    page_labels: tuple[str, str] | None = None
    boxes: tuple[PageBox, ...] = ()
    lines: Span | None = None
    differences: tuple[Difference, ...] = ()

    @property
    def place(self) -> Place:
        """Return its place for a reader."""
        return Place(pages=self.pages, page_labels=self.page_labels, lines=self.lines, boxes=self.boxes)

    @property
    def verified(self) -> bool:
        """Say whether the cited passage has this, word for word."""
        return self.state in ("exact", "normalised")


def verify_quotes(
    quotes: Sequence[Quote], passages: Sequence[Citable], *, documents: Iterable[Document] = ()
) -> tuple[VerifiedQuote, ...]:
    """Look for each quote in the passage it cites, and where it is not there, in the others.

    What is compared are words: what carries a value (numbers, codes, units, signs, negations) must agree to the
    letter. An exact slice that cuts a value is `altered`, one that cuts a plain word is exact. That a quote is true
    to its passage does not make it an argument for the statement it is given for.

    Args:
        quotes: of any length and number; quotation marks around the text are no part of it.
        passages: numbered from 1, or with numbers of their own.
        documents: where given, pages are those of the quote itself; else they are as exact as the passage's.

    Returns:
        One per quote, in order. A passage that does not exist is no error: the quote is `elsewhere` or `missing`.

    Raises:
        ParameterError: two passages have one number, or a document is of another version than a passage.
    """
    cited = sources(passages)
    by_id = whole(documents, cited)
    words: dict[int, Wording] = {}

    def words_of(source: NumberedPassage) -> Wording:
        if source.number not in words:
            words[source.number] = Wording(source.found.text)
        return words[source.number]

    by_number = {source.number: source for source in cited}

    def verified(quote: Quote) -> VerifiedQuote:
        said = Wording(quote.text.strip())
        own = by_number.get(quote.number)
        here = place_of(said, words_of(own)) if own else None
        if own and here and here.state != "altered":
            return _found(quote, here.state, own, here, by_id)
        for other in cited:
            there = place_of(said, words_of(other)) if other is not own else None
            if there and there.state != "altered":
                return _found(quote, "elsewhere", other, there, by_id)
        changed = here or (nearest(said, words_of(own)) if own else None)
        if own and changed:
            return _found(quote, changed.state, own, changed, by_id)
        return VerifiedQuote(number=quote.number, text=quote.text, state="missing")

    return tuple(map(verified, quotes))


def looked_up(quote: str, found: Citable, *, documents: Iterable[Document] = ()) -> VerifiedQuote:
    """Return words as a quote of one passage, verified.

    Raises:
        ParameterError: they do not stand there; it names the passage, and what stands there most like them.
    """
    (seen,) = verify_quotes([Quote(1, quote)], [found], documents=documents)
    if not seen.verified:
        printed = f"“{seen.printed}”, which stands there" if seen.printed else "words as they are printed there"
        # but cut out of a word, or a value
        if seen.printed and Wording(seen.printed).folded == Wording(quote).folded:
            whole = (f"“{each.printed}” in place of “{each.quoted}”" for each in seen.differences)
            printed = f"{', '.join(whole)}: the quote ends inside of it"
        raise ParameterError("quote", quote, f"words that stand in {citation(chunk_of(found))}", printed)
    return seen


def _found(
    quote: Quote, state: QuoteState, source: NumberedPassage, place: Located, documents: Mapping[str, Document]
) -> VerifiedQuote:
    found = source.found
    start, end = found.start + place.start, found.start + place.end
    document = documents.get(found.document_id)
    stated = document.place_of(start, end) if document else _inside(found, place)
    return VerifiedQuote(
        number=quote.number,
        text=quote.text,
        state=state,
        passage=source.number,
        document_id=found.document_id,
        start=start,
        end=end,
        printed=found.text[place.start : place.end],
        **asdict(stated),
        differences=place.differences,
    )


def _inside(found: Chunk, located: Located) -> Place:
    """Return the place of a part of a passage, as far as the passage alone says it."""
    if found.lines is None:
        return replace(found.place, boxes=())
    first, last = (found.lines[0] - 1 + line for line in lines_in(found.text, located.start, located.end))
    return replace(found.place, lines=(first, last), boxes=())


class SegmentHolder(Protocol):
    """Any value with a segment, as extraction and integration return them."""

    @property
    def segment(self) -> Segment: ...


@runtime_checkable
class NumberedSegment(SegmentHolder, Protocol):
    """A segment with the number under which a reader of the context sees it."""

    @property
    def number(self) -> int: ...


Citable: TypeAlias = Chunk | Segment | Hit | SegmentHolder
"""Any value that an answer can be written from; passages without a number of their own are counted from 1."""


@dataclass(frozen=True, slots=True)
class NumberedPassage:
    """A passage as an exact slice of its document, with the number in its marker."""

    number: int
    found: Chunk

    def cited(self, place: Place) -> str:
        """Return the place of a quote of the passage, in the words of a citation."""
        return citation(self.found, place=place)


def sources(passages: Sequence[Citable]) -> tuple[NumberedPassage, ...]:
    """Return the passages with their numbers.

    Raises:
        ParameterError: two passages have one number.
    """
    numbered = tuple(
        NumberedPassage(passage.number if isinstance(passage, NumberedSegment) else place, chunk_of(passage))
        for place, passage in enumerate(passages, start=1)
    )
    numbers = [source.number for source in numbered]
    if len(set(numbers)) < len(numbers):
        raise ParameterError("passage numbers", numbers, "all different")
    return numbered


def chunk_of(passage: Citable) -> Chunk:
    """Return a passage as a slice of its document."""
    if isinstance(passage, Chunk):
        return passage
    if isinstance(passage, Segment):
        return passage.as_chunk()
    return passage.chunk if isinstance(passage, Hit) else passage.segment.as_chunk()


def whole(documents: Iterable[Document], cited: Sequence[NumberedPassage]) -> dict[str, Document]:
    """Return the documents by id.

    Raises:
        ParameterError: a passage is no slice of the document of its id: the document is of another version.
    """
    by_id = {document.id: document for document in documents}
    for source in cited:
        found = source.found
        document = by_id.get(found.document_id)
        if document is not None and not document.text.startswith(found.text, found.start):
            allowed = f"the version that passage {source.number} was cut from"
            raise ParameterError("documents", found.document_id, allowed)
    return by_id

"""Read documents asked one by one, with questions whose evidence is known in characters, and cut them into units.

Read from folders of the layout "spans" of `catena_bench.segments_data`, at or below a directory; other layouts there
(pages, look-alike documents) say of no character that it is evidence.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path

from tokenizers import Tokenizer

from catena import Chunk, Document, ParameterError, Section, View
from catena.enrichment import KEYWORDS, SHIPPED, SUMMARY
from catena.evaluation import Span, spans_of
from catena.structure import cut_fixed, cut_sections, headed_views, passage_views
from catena_bench.collection import stored
from catena_bench.segments_data import find_collections, read_long_documents

_COUNTS_KEPT = 100_000


WINDOW = 200  # word pieces of a window, so that one with its headings fits MiniLM's 256
LENGTHS = (100, 200, 300)  # of FLC, in word pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopedQuestion:
    """A question, and where in the document its answer stands."""

    id: str
    text: str
    evidence: tuple[Span, ...]


@dataclass(frozen=True, kw_only=True)
class AskedDocument:
    """A document with the questions that are asked of it alone."""

    name: str
    document: Document
    sections: tuple[Section, ...]
    questions: tuple[ScopedQuestion, ...]

    @cached_property
    def token_starts(self) -> tuple[int, ...]:
        """Return the starts of the word pieces of the text, ascending."""
        offsets: Sequence[Span] = _tokenizer().encode(self.document.text, add_special_tokens=False).offsets
        return tuple(sorted(start for start, _ in offsets))

    def tokens(self, start: int, end: int) -> int:
        """Return the number of word pieces of the text that begin in [start, end)."""
        return bisect_left(self.token_starts, end) - bisect_left(self.token_starts, start)


def read_asked_documents(data: Path, most: int | None = None) -> tuple[AskedDocument, ...]:
    """Read all folders of the layout at or below a directory, in the order of their paths.

    Args:
        data: the directory.
        most: keep only so many questions of each document, in their order; all of them for None.

    Raises:
        ParameterError: there is no document with a question, or a file does not have its layout.
    """
    found: dict[str, AskedDocument] = {}
    for name, folder in find_collections(data).items():
        if stored(folder, "documents") is None:
            continue
        collection = read_long_documents(folder)
        for entry in collection.entries:
            asked = [each for each in collection.questions if each.within == entry.document.id][:most]
            known_as = entry.document.id if entry.document.id not in found else f"{name}/{entry.document.id}"
            if asked:
                questions = [ScopedQuestion(id=q.id, text=q.text, evidence=spans_of(q.gold)) for q in asked]
                document = untitled(entry.document)
                found[known_as] = AskedDocument(
                    name=known_as, document=document, sections=entry.sections, questions=tuple(questions)
                )
    if not found:
        what = "a directory with documents.jsonl and questions.jsonl (or .jsonl.gz), at most three folders down"
        raise ParameterError("data", str(data), what)
    return tuple(found.values())


@lru_cache(maxsize=1)
def word_pieces() -> Callable[[str], int]:
    """Return a counter of the word pieces of all-MiniLM-L6-v2 (BERT's), by the tokenizer that Catena ships."""
    tokenizer = _tokenizer()

    @lru_cache(maxsize=_COUNTS_KEPT)
    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    return count


@lru_cache(maxsize=1)
def _tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(SHIPPED / "tokenizer.json"))


def untitled(document: Document) -> Document:
    """Return the document without a title that is only its id: no reader would see it."""
    return replace(document, title="") if document.title == document.id else document


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


def units_by_kind(views: Iterable[View], chunks: tuple[Chunk, ...], *, filled: bool) -> dict[str, Units]:
    """Return the keywords and summaries of chunks by kind; where `filled`, a chunk without one has its own text."""
    number = {chunk.id: place for place, chunk in enumerate(chunks)}
    found: dict[str, list[tuple[int, str]]] = {KEYWORDS: [], SUMMARY: []}
    for view in views:
        found[view.kind].append((number[view.chunk_id], view.text))
    for of_kind in found.values() if filled else ():
        viewed = {owner for owner, _ in of_kind}
        of_kind += [(owner, chunk.text) for owner, chunk in enumerate(chunks) if owner not in viewed]
    return {
        kind: Units(
            chunks=chunks,
            texts=tuple(text for _, text in sorted(of_kind)),
            owner=tuple(owner for owner, _ in sorted(of_kind)),
        )
        for kind, of_kind in found.items()
    }


def whole(chunks: Iterable[Chunk], *, truncated: bool = False) -> Units:
    """Return chunks that are each found under their own text."""
    found = tuple(chunks)
    texts = tuple(chunk.text for chunk in found)
    return Units(chunks=found, texts=texts, owner=tuple(range(len(found))), truncated=truncated)


def fixed(asked: AskedDocument, *, tokens: int, content: bool = False) -> Units:
    """FLC: whole sentences up to a number of word pieces, across sections or, with content, inside them.

    Encoders cut off what they do not read.
    """
    inside = asked.sections if content else None
    return whole(cut_fixed(asked.document, inside, tokens=tokens, count=word_pieces()), truncated=True)


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
    windows = cut_fixed(asked.document, asked.sections, tokens=WINDOW, count=word_pieces())
    cut = [chunk for chunk in windows if chunk.section in of_section]
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
    **{f"fixed{tokens}_content": partial(fixed, tokens=tokens, content=True) for tokens in LENGTHS},
    "sections": sections,
    "sections_headed": sections_headed,
    "sections_truncated": partial(sections, truncated=True),
    "windows": windows,
    "windows_headed": partial(windows, headed=True),
    "passages": best_passage,
}

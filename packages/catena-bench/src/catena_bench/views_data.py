"""Documents asked one by one, each with its sections and with questions whose evidence is known in characters.

Read from folders of the layout "spans" of `catena_bench.segments_data`, at or below a directory; other layouts there
(pages, look-alike documents) say of no character that it is evidence.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from tokenizers import Tokenizer

from catena.enrichment import SHIPPED
from catena.evaluation import Span, spans_of
from catena.model import Document, ParameterError, Section
from catena_bench.segments_data import find_collections, read_long_documents, stored

_COUNTS_KEPT = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopedQuestion:
    """A question, and where in the document its answer stands."""

    id: str
    text: str
    evidence: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedDocument:
    """A document with the questions that are asked of it alone.

    Attributes:
        token_starts: where the word pieces of the text begin, ascending.
        section_starts: where its sections begin, ascending.
    """

    name: str
    document: Document
    sections: tuple[Section, ...]
    questions: tuple[ScopedQuestion, ...]
    token_starts: tuple[int, ...]
    section_starts: tuple[int, ...]

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
                found[known_as] = AskedDocument(
                    name=known_as,
                    document=untitled(entry.document),
                    sections=entry.sections,
                    questions=tuple(
                        ScopedQuestion(id=each.id, text=each.text, evidence=spans_of(each.gold)) for each in asked
                    ),
                    token_starts=token_starts(entry.document.text),
                    section_starts=tuple(section.start for section in entry.sections),
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


def token_starts(text: str) -> tuple[int, ...]:
    """Return where the word pieces of a text begin, ascending."""
    offsets: Sequence[Span] = _tokenizer().encode(text, add_special_tokens=False).offsets
    return tuple(sorted(start for start, _ in offsets))


@lru_cache(maxsize=1)
def _tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(SHIPPED / "tokenizer.json"))


def untitled(document: Document) -> Document:
    """Return the document without a title that is only its id: no reader would see it."""
    return replace(document, title="") if document.title == document.id else document

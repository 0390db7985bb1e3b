"""Read documents asked one by one, with questions whose evidence is known in characters, and cut them into units.

Read from data sets as `catena_bench.questions.write_scope_dataset` writes them, at or below a folder; other layouts
there (pages, look-alike documents) say of no character that it is evidence.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path

from tokenizers import Tokenizer

from catena import Chunk, Document, Section, View
from catena.enrichment import KEYWORDS, SHIPPED, SUMMARY
from catena.evaluation import Span
from catena.library import prepare
from catena.model import EvaluationError
from catena.structure import cut_fixed, cut_sections, headed_views, passage_views
from catena_bench.collection import stored
from catena_bench.questions import DOCUMENTS, ScopeDataset, ScopeQuestion, is_divided, read_scope_dataset
from catena_bench.segments_data import find_collections

BETWEEN = " … "  # the evidence of one question, where it stands in for an answer
_COUNTS_KEPT = 100_000


WINDOW = 200  # word pieces of a window, so that one with its headings fits MiniLM's 256
LENGTHS = (100, 200, 300)  # of FLC, in word pieces


@dataclass(frozen=True, kw_only=True)
class AskedDocument:
    """A document with the questions that are asked of it alone; none of their evidence is blank."""

    name: str
    document: Document
    sections: tuple[Section, ...]
    questions: tuple[ScopeQuestion, ...]

    @property
    def divided(self) -> bool:
        """Return whether it has sections; without any, the whole of it is one."""
        return is_divided(self.sections)

    @property
    def references(self) -> tuple[str, ...]:
        """Return per question the answer that the data set gives, or else what its evidence says."""
        text = self.document.text
        return tuple(
            each.answer or BETWEEN.join(" ".join(text[slice(*span)].split()) for span in each.evidence)
            for each in self.questions
        )

    @cached_property
    def token_starts(self) -> tuple[int, ...]:
        """Return the starts of the word pieces of the text, ascending."""
        offsets: Sequence[Span] = _tokenizer().encode(self.document.text, add_special_tokens=False).offsets
        return tuple(sorted(start for start, _ in offsets))

    def tokens(self, start: int, end: int) -> int:
        """Return the number of word pieces of the text that begin in [start, end)."""
        return bisect_left(self.token_starts, end) - bisect_left(self.token_starts, start)


def read_asked_documents(data: Path, most: int | None = None) -> tuple[AskedDocument, ...]:
    """Read all data sets at or below a folder, in the order of their paths, but for documents without a question.

    Args:
        data: the folder; at most three above the files.
        most: keep only so many questions of each document, in their order; all of them for None.

    Raises:
        EvaluationError: there is no question, or a file is not of the layout; with file and line.
    """
    folders = {name: folder for name, folder in find_collections(data).items() if stored(folder, DOCUMENTS)}
    found: dict[str, AskedDocument] = {}
    for name, folder in (folders or {data.name: data}).items():
        for asked in _asked_documents(read_scope_dataset(folder), most):
            known_as = asked.name if asked.name not in found else f"{name}/{asked.name}"
            found[known_as] = replace(asked, name=known_as)
    if not found:
        raise EvaluationError(
            f"{data.name} holds no question. Try: `catena questions` writes a data set from documents of your own"
        )
    return tuple(found.values())


def _asked_documents(dataset: ScopeDataset, most: int | None) -> Iterator[AskedDocument]:
    for document in dataset.documents:
        asked = [question for question in dataset.questions if question.document == document.id][:most]
        sections = dataset.sections[document.id]
        if asked:
            yield AskedDocument(
                name=document.id,
                document=replace(document, title="")
                if document.title == document.id
                else document,  # no one sees an id
                sections=sections if is_divided(sections) else prepare(document).sections,
                questions=tuple(_visible(question, document) for question in asked),
            )


def _visible(question: ScopeQuestion, document: Document) -> ScopeQuestion:
    """Return the question without evidence that is blank.

    Raises:
        EvaluationError: all of it is: no recall is defined.
    """
    spans = tuple(span for span in question.evidence if document.text[slice(*span)].strip())
    if not spans:
        raise EvaluationError(
            f"question {question.id!r}: its evidence in document {document.id!r} is blank. "
            "Try: without the question, or with offsets into the text as it stands in the file"
        )
    return replace(question, evidence=spans)


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

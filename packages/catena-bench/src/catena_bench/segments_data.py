"""Read long documents with questions whose evidence is known as spans, from three layouts of files.

| layout | files | documents | evidence |
|---|---|---|---|
| spans | `documents` and `questions` | texts with given sections | spans; asked of that document alone |
| pages | `pages` and `questions` | guides, joined from their pages in file order | a page |
| sections | as `catena_bench.collection` reads | Markdown files | sections |

The files of the first two are `.jsonl`, gzipped or not. Pages are cut one by one, so that nothing in one page (a code
fence that is not closed) reaches into the next; then they stand in their guide as pages do in a book, and a segment
may run over the border of two of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, starmap
from pathlib import Path
from typing import Any

from catena import Chunk, Document, Entry, ParameterError, Section
from catena.enrichment import critical_terms
from catena.evaluation import GoldSpan
from catena.library import prepare
from catena.model import SOURCE, TITLE, digest, span_id
from catena.structure import cut, headed_views, searchable, trimmed
from catena_bench.collection import entry_of, of_layout, read_collection, stored, stored_rows
from catena_bench.questions import is_divided, read_scope_dataset

_BETWEEN_PAGES = "\n\n"
_DEEPEST = 3  # folders below the one that was named


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceQuestion:
    """A question, where its evidence is, and the document it is asked of (None: of all of them)."""

    id: str
    text: str
    gold: tuple[GoldSpan, ...]
    within: str | None = None

    @property
    def place(self) -> int:
        """Its place in an order that has nothing to do with what it asks."""
        return int(digest(self.id), 16)

    @property
    def tunes(self) -> bool:
        """Return whether it belongs to the half on which parameters may be chosen; the other half is reported."""
        return self.place % 2 == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LongDocuments:
    """A collection: documents as entries, each with its views, and the questions that have an answer in them."""

    name: str
    entries: tuple[Entry, ...]
    questions: tuple[EvidenceQuestion, ...]


def find_collections(data: Path) -> dict[str, Path]:
    """Return the folders of the three layouts at or below `data`, by their names, in order of their paths.

    Of two folders of one name the first is taken; no folder below a collection is looked into.
    """
    found: dict[str, Path] = {}
    for folder in _folders(data, _DEEPEST):
        found.setdefault(folder.resolve().name, folder)
    return found


def read_long_documents(folder: Path) -> LongDocuments:
    """Read one collection.

    Raises:
        ParameterError: it has none of the layouts, or a row lacks a field.
    """
    layout = _layout(folder)
    if layout is None:
        raise ParameterError("data", str(folder), "a folder of one of the layouts of `catena_bench.segments_data`")
    with of_layout(folder, "rows with all fields of its layout"):
        entries, questions = layout(folder)
    known = {entry.document.id for entry in entries}
    answered = tuple(each for each in questions if each.gold and {span.document_id for span in each.gold} <= known)
    return LongDocuments(name=folder.resolve().name, entries=entries, questions=answered)


_Read = tuple[tuple[Entry, ...], list[EvidenceQuestion]]


def _folders(folder: Path, depth: int) -> Iterator[Path]:
    if _layout(folder) is not None:
        yield folder
    elif depth and folder.is_dir():
        for below in sorted(folder.iterdir()):
            yield from _folders(below, depth - 1)


def _layout(folder: Path) -> Callable[[Path], _Read] | None:
    if stored(folder, "questions") is None:
        return None
    if (folder / "documents.json").is_file() and (folder / "sections.jsonl").is_file():
        return _sections
    if stored(folder, "pages") is not None:
        return _pages
    return _spans if stored(folder, "documents") is not None else None


def _spans(folder: Path) -> _Read:
    dataset = read_scope_dataset(folder)
    entries = tuple(_with_given_sections(each, dataset.sections[each.id]) for each in dataset.documents)
    questions = [
        EvidenceQuestion(
            id=each.id,
            text=each.text,
            gold=tuple(
                GoldSpan(item=f"{each.id}#{number}", document_id=each.document, start=start, end=end)
                for number, (start, end) in enumerate(each.evidence)
            ),
            within=each.document,
        )
        for each in dataset.questions
    ]
    return entries, questions


def _with_given_sections(document: Document, sections: tuple[Section, ...]) -> Entry:
    titled = replace(document, title=document.title or document.id)
    if not is_divided(sections):
        return prepare(titled)
    return _entry(titled, sections, searchable(cut(titled, sections, blocks=())))


def _pages(folder: Path) -> _Read:
    guides: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in stored_rows(folder, "pages"):
        guides[row.get("guide") or row["id"]].append(row)
    joined = [_guide(name, pages) for name, pages in guides.items()]
    spans = {item: span for _, places in joined for item, span in places.items()}
    questions = [
        EvidenceQuestion(id=row["id"], text=row["question"], gold=(spans[row["page"]],))
        for row in stored_rows(folder, "questions")
        if row["page"] in spans
    ]
    return tuple(entry for entry, _ in joined), questions


def _guide(name: str, pages: Sequence[Mapping[str, Any]]) -> tuple[Entry, dict[str, GoldSpan]]:
    """Return a guide as one entry, and where each of its pages stands in it."""
    starts = list(accumulate((len(page["text"]) + len(_BETWEEN_PAGES) for page in pages), initial=0))[:-1]
    document = Document(
        id=name,
        title=" ".join(name.replace("_", " ").replace("-", " ").split()),
        text=_BETWEEN_PAGES.join(page["text"] for page in pages),
        page_starts=tuple(starts),
    )
    sections: list[Section] = []
    chunks: list[Chunk] = []
    places = {}
    for number, (page, start) in enumerate(zip(pages, starts, strict=True), start=1):
        alone = prepare(Document(id=page["id"], text=page["text"]))
        before = len(sections)
        sections += (_moved_section(each, document.id, start, before) for each in alone.sections)
        chunks += (
            replace(
                each,
                id=span_id(name, each.kind, each.start + start, each.end + start),
                document_id=name,
                position=len(chunks) + place,
                start=each.start + start,
                end=each.end + start,
                section=each.section + before,
                pages=(number, number),
                lines=None,
            )
            for place, each in enumerate(alone.chunks)
        )
        first, last = trimmed(page["text"], 0, len(page["text"]))
        if first < last:
            places[page["id"]] = GoldSpan(item=page["id"], document_id=name, start=start + first, end=start + last)
    return _entry(document, _tiling(sections, len(document.text)), chunks), places


def _tiling(sections: Sequence[Section], size: int) -> tuple[Section, ...]:
    """Give what stands between two pages to the section before it, and what stands before all to the first."""
    starts = [0, *(section.start for section in sections[1:]), size]
    return tuple(
        replace(section, start=start, end=end, tree_end=max(end, section.tree_end))
        for section, start, end in zip(sections, starts, starts[1:], strict=False)
    )


def _moved_section(section: Section, document_id: str, by: int, before: int) -> Section:
    return replace(
        section,
        id=span_id(document_id, "section", section.start + by, section.end + by),
        document_id=document_id,
        position=section.position + before,
        start=section.start + by,
        body_start=section.body_start + by,
        end=section.end + by,
        tree_end=section.tree_end + by,
        parent=None if section.parent is None else section.parent + before,
    )


def _sections(folder: Path) -> _Read:
    collection = read_collection(folder)
    entries = tuple(starmap(entry_of, collection.files.items()))
    texts = {entry.document.id: entry.document.text for entry in entries}
    questions = [
        EvidenceQuestion(
            id=each.id,
            text=each.text,
            gold=tuple(
                _without_blank_ends(collection.sections[item], texts)
                for item in each.gold
                if item in collection.sections
            ),
        )
        for each in collection.questions
    ]
    return entries, questions


def _without_blank_ends(span: GoldSpan, texts: Mapping[str, str]) -> GoldSpan:
    start, end = trimmed(texts.get(span.document_id, ""), span.start, span.end)
    return replace(span, start=start, end=end) if start < end else span


def _entry(document: Document, sections: tuple[Section, ...], chunks: Iterable[Chunk]) -> Entry:
    """Return an entry as `prepare` does, of chunks that were cut already."""
    shown = {TITLE: document.title, SOURCE: document.source or document.id}
    numbered = tuple(
        replace(chunk, position=position, metadata={**chunk.metadata, **shown})
        for position, chunk in enumerate(chunks)
    )
    return Entry(
        document=document,
        sections=sections,
        chunks=numbered,
        views=headed_views(document, numbered),
        terms=critical_terms(document, numbered),
    )

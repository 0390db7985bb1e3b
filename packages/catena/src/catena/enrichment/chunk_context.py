"""Make titles and summaries for chunks whose document is not at hand: it is joined again from them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from catena.effects import Step, all_together
from catena.enrichment.context import ContextOptions, DocumentContext, context_offline, with_context
from catena.enrichment.context_llm import context_by_llm
from catena.model import SOURCE, TITLE, Chunk, Degraded, Document, Entry, Section, span_id
from catena.structure import outline, prose
from catena.text.words import count_tokens

_BETWEEN = "\n\n"  # texts of two chunks


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkContexts:
    """Chunks that say what their documents and sections are about, and what was asked for and not given."""

    chunks: tuple[Chunk, ...]
    degraded: tuple[Degraded, ...] = ()


def context_of_chunks(chunks: Sequence[Chunk], options: ContextOptions | None = None) -> Step[ChunkContexts]:
    """Make the titles and summaries of documents of which only the chunks are at hand, all documents side by side.

    The chunks of a document are joined, in the order given, what two neighbours share by their offsets once. Its
    sections are runs of chunks of one section, as chunks count them; else those of the text so joined, or runs of
    chunks under the same headings. Where the chunks name no title, the heading above all of them is one.

    Args:
        chunks: of any documents, those of one in reading order.
        options: which titles and summaries, and by whom; `embed` is the caller's.

    Returns:
        The same chunks in the same order. Their metadata have `title`, `document_summary` and `section_summary`, as
        far as these were made; the title of a section that had none is at the end of its chunks' paths.

    Raises:
        CatenaError: as of `context_by_llm` and `context_offline`.
    """
    how = options or ContextOptions()
    places: dict[str, list[int]] = {}
    for place, chunk in enumerate(chunks):
        places.setdefault(chunk.document_id, []).append(place)
    steps = [_of_document([chunks[place] for place in here], how) for here in places.values()]
    told: dict[int, Chunk] = {}
    degraded: list[Degraded] = []
    for here, result in zip(places.values(), (yield from all_together(steps)), strict=True):
        told.update(zip(here, result.chunks, strict=True))
        degraded.extend(result.degraded)
    return ChunkContexts(chunks=tuple(told[place] for place in range(len(chunks))), degraded=tuple(degraded))


def _of_document(chunks: Sequence[Chunk], how: ContextOptions) -> Step[ChunkContexts]:
    document, starts = joined_document(chunks)
    sections = _sections(document, chunks, starts)
    context = yield from context_of(document, sections, how)
    begins = [section.start for section in sections]
    paired = zip(chunks, starts, strict=True)
    numbered = tuple(replace(chunk, section=max(0, bisect_right(begins, start) - 1)) for chunk, start in paired)
    entry = with_context(Entry(document=document, sections=sections, chunks=numbered, views=()), context, views=False)
    named = {TITLE: entry.document.title} if entry.document.title else {}
    both = zip(entry.chunks, chunks, strict=True)
    kept = tuple(replace(told, section=chunk.section, metadata={**named, **told.metadata}) for told, chunk in both)
    return ChunkContexts(chunks=kept, degraded=context.degraded)


def context_of(document: Document, sections: Sequence[Section], how: ContextOptions) -> Step[DocumentContext]:
    """Return the titles and summaries of a document, by a model or from its own sentences."""
    if how.by == "llm":
        return (yield from context_by_llm(document, sections, how, count=count_tokens))
    return (yield from context_offline(document, sections, prose(document, sections), how))


def joined_document(chunks: Sequence[Chunk]) -> tuple[Document, tuple[int, ...]]:
    """Return one document out of its chunks, at least one, and where each begins in its text.

    Text that a chunk repeats of the one before, as splitters with an overlap make it, is in the text once.
    """
    parts: list[str] = []
    starts: list[int] = []
    size = 0
    before: Chunk | None = None
    for chunk in chunks:
        shared = _shared(before, chunk)
        between = _BETWEEN if before is not None and not shared else ""
        starts.append(size + len(between) - shared)
        parts += [between, chunk.text[shared:]]
        size += len(between) + len(chunk.text) - shared
        before = chunk
    first = chunks[0]
    highest = {chunk.path[0] for chunk in chunks if chunk.path}
    title = str(first.metadata.get(TITLE) or (highest.pop() if len(highest) == 1 else ""))
    source = str(first.metadata.get(SOURCE, ""))
    document = Document(id=first.document_id, text="".join(parts), title=title, source=source)
    return document, tuple(starts)


def _shared(before: Chunk | None, after: Chunk) -> int:
    """Return how many characters a chunk repeats of the one before."""
    if before is None or before.end > after.end:
        return 0
    shared = max(0, before.end - after.start)
    return shared if before.text.endswith(after.text[:shared]) else 0


def _sections(document: Document, chunks: Sequence[Chunk], starts: Sequence[int]) -> tuple[Section, ...]:
    """Return the sections that the chunks were cut from, as they count them, else as the text or their paths say."""
    printed = outline(document)
    counted = any(chunk.section for chunk in chunks)
    if not counted and (any(section.level for section in printed) or not any(chunk.path for chunk in chunks)):
        return printed
    placed = zip(starts, chunks, strict=True)
    runs = [list(run) for _, run in groupby(placed, key=lambda pair: (pair[1].section, pair[1].path))]
    ends = [*(run[0][0] for run in runs[1:]), len(document.text)]
    return tuple(
        _section(document, number, run[0][1].path, (run[0][0], end))
        for number, (run, end) in enumerate(zip(runs, ends, strict=True))
    )


def _section(document: Document, position: int, path: tuple[str, ...], span: tuple[int, int]) -> Section:
    start, end = span
    return Section(
        id=span_id(document.id, "section", start, end),
        document_id=document.id,
        position=position,
        level=len(path),
        title=path[-1] if path else "",
        path=path,
        start=start,
        body_start=start,
        end=end,
        tree_end=end,
    )

"""Make the views of chunks: under titles (HiQA) or a header of title and summaries (dsRAG), of tables, of figures.

Titles and headers go into a view (by which a chunk is found) or before a text (that a reader is given), never
into a chunk: citations stay true. A header is made from path and metadata alone, so that it works on the chunks
of any chunker.

A table is also found by its definition, which has no data; a figure by the text around it, the text inside it and
what a model said of it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, takewhile
from typing import Annotated

from annotated_types import Ge

from catena.model import TABLE_HEADER, Chunk, Document, Entry, Segment, View, shown_text
from catena.model.errors import ParameterError
from catena.model.figures import CAPTION as SAID
from catena.model.figures import FIGURE, Link, figure_links
from catena.model.merged_cells import Row
from catena.model.options import check_options
from catena.model.places import SEPARATOR, TITLE
from catena.structure.blocks import Block, blocks_of
from catena.structure.chunking import HEADING_ONLY
from catena.structure.division import tables_in, words
from catena.text import atx_title, plain_title, same_words, sentence_ends
from catena.text.tables import MAX_HEADER, TableGrid, is_quantity

DOCUMENT_SUMMARY = "document_summary"
"""Metadata key of a chunk: what its document is about, in one sentence."""


SECTION_SUMMARY = "section_summary"
"""Metadata key of a chunk: what its section is about, in one sentence."""


CONTEXT = "context"
"""Kind of the view that is a chunk's header, an empty line and the chunk's text."""

_PLACE = "{title}"
_MARKED = re.compile(r"\ufeff?[ \t]*#{1,6}(?![^ \t\r\n])(?P<title>[^\r\n]*)(?:\r\n?|\n|\Z)")
_UNDERLINED = re.compile(r"(?P<title>(?:[^\r\n]*(?:\r\n?|\n)){1,9}?) {0,3}(?:=+|-+)[ \t]*(?:\r\n?|\n|\Z)")
_LINE = re.compile(r"(?P<title>[^\r\n]*)(?:\r\n?|\n|\Z)")


def searchable(chunks: Sequence[Chunk]) -> tuple[Chunk, ...]:
    """Return the chunks worth finding: all but bare headings, or all where there is nothing else."""
    return tuple(chunk for chunk in chunks if not chunk.metadata.get(HEADING_ONLY)) or tuple(chunks)


def raw_views(chunks: Sequence[Chunk]) -> tuple[View, ...]:
    """Return one view of kind "raw" per chunk: its text."""
    return tuple(View(chunk_id=chunk.id, kind="raw", text=chunk.text) for chunk in chunks)


def headed_views(document: Document, chunks: Sequence[Chunk]) -> tuple[View, ...]:
    """Return one view of kind "headed" per chunk: its titles on the first line, then its body.

    The first line is `document title › chapter › sub-chapter`; the document's title is left out where it
    is empty or the same as the first heading. The heading line that the chunk begins with is not repeated
    below. A chunk that continues a table is given the header of the table. A table of contents is found by
    its titles alone.

    Args:
        document: its title and text.
        chunks: chunks of this document.

    Source: the cascading metadata of HiQA (Chen et al., 2024).
    """
    return tuple(View(chunk_id=chunk.id, kind="headed", text=_titled(document, chunk)) for chunk in chunks)


def titles_above(document: Document, chunk: Chunk) -> tuple[str, ...]:
    """Return the document's title and the headings down to the chunk's own, without repeats or blanks."""
    title = " ".join(document.title.split())
    repeats = chunk.path and same_words(chunk.path[0], title)
    return tuple(name for name in (*([] if repeats else [title]), *chunk.path) if name)


def body_of(chunk: Chunk) -> str:
    """Return the chunk's text without the heading line of its section, where it begins with it."""
    end = _heading_end(chunk.text, chunk.path[-1]) if chunk.path else 0
    return chunk.text[end:].lstrip("\r\n") if end else chunk.text


def _heading_end(text: str, title: str) -> int:
    """Return where the heading of this title ends if the text begins with it, else 0."""
    if match := _MARKED.match(text):
        return match.end() if plain_title(atx_title(match["title"])) == title else 0
    if (match := _UNDERLINED.match(text)) and plain_title(match["title"]) == title:
        return match.end()
    match = _LINE.match(text)
    return match.end() if match and " ".join(match["title"].split()) == title else 0


def _titled(document: Document, chunk: Chunk) -> str:
    line = SEPARATOR.join(titles_above(document, chunk))
    body = shown_text(chunk) if TABLE_HEADER in chunk.metadata else body_of(chunk)
    if line and is_contents(body):  # it holds the words of every question, and the answer to none
        return line
    return "\n".join(part for part in (line, body) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderTemplate:
    """Words of a header; a line is `lead, title sentence, summary`, of which only what is known is said.

    Attributes:
        document, section: how the line of the document and that of the section begins; "" begins with what follows.
        document_title, section_title: the sentence that names the title in place of "{title}"; "" names none.
        levels: how many headings, counted from the innermost, name the section; 0 names all of them. The document's
            title is not named again as a section.
    """

    document: str = "Document context:"
    document_title: str = "the following excerpt is from a document titled '{title}'."
    section: str = "Section context:"
    section_title: str = "this excerpt is from the section titled '{title}'."
    levels: Annotated[int, Ge(0)] = 0

    def __post_init__(self) -> None:
        check_options(self)
        for name, sentence in (("document_title", self.document_title), ("section_title", self.section_title)):
            if sentence and _PLACE not in sentence:
                raise ParameterError(name, sentence, f"a sentence with {_PLACE} in it, or ''")


DSRAG = HeaderTemplate()
"""Words of dsRAG 0.5 (`get_chunk_header`, `get_segment_header`): equal where titles and summaries are known."""


def chunk_header(found: Chunk | Segment, *, template: HeaderTemplate = DSRAG) -> str:
    """Return the line of the document and that of the section, with an empty line between them.

    Args:
        found: its title and summaries are read from `metadata` (`TITLE`, `DOCUMENT_SUMMARY`, `SECTION_SUMMARY`),
            its headings from `path`.
        template: the words.

    Returns:
        One or two lines; "" where nothing is known. White space within titles and summaries is single spaces.

    Source: the chunk header of dsRAG, as TextRAG describes it.
    """
    lines = (segment_header(found, template=template), _section_line(found, template))
    return "\n\n".join(line for line in lines if line)


def segment_header(found: Chunk | Segment, *, template: HeaderTemplate = DSRAG) -> str:
    """Return the line of the document alone, as for a segment, which may run through several sections.

    Args:
        found: its title and summary are read from `metadata` (`TITLE`, `DOCUMENT_SUMMARY`).
        template: the words.

    Returns:
        One line; "" where nothing is known.

    Source: the segment header of dsRAG.
    """
    summary = _said(found, DOCUMENT_SUMMARY)
    return _line(template.document, template.document_title, _said(found, TITLE), summary)


def context_view(chunk: Chunk, *, template: HeaderTemplate = DSRAG) -> View:
    """Return the view of kind `CONTEXT`: header, empty line, text; the text alone where there is no header."""
    return View(chunk_id=chunk.id, kind=CONTEXT, text=_below(chunk_header(chunk, template=template), chunk.text))


def context_views(chunks: Iterable[Chunk], *, template: HeaderTemplate = DSRAG) -> tuple[View, ...]:
    """Return one view of kind `CONTEXT` per chunk, in order."""
    return tuple(context_view(chunk, template=template) for chunk in chunks)


def reader_text(found: Chunk | Segment, *, template: HeaderTemplate = DSRAG) -> str:
    """Return the text for a reader: segment header, empty line, text; the text alone where there is no header.

    Text that goes on with a table stands below the table's own header.
    """
    return _below(segment_header(found, template=template), shown_text(found))


def _below(header: str, text: str) -> str:
    return f"{header}\n\n{text}" if header else text


def _section_line(found: Chunk | Segment, template: HeaderTemplate) -> str:
    titles = [" ".join(title.split()) for title in found.path]
    document = _said(found, TITLE)
    if titles and document and same_words(titles[0], document):
        titles = titles[1:]
    named = SEPARATOR.join(title for title in titles[-template.levels :] if title)
    return _line(template.section, template.section_title, named, _said(found, SECTION_SUMMARY))


def _line(lead: str, sentence: str, title: str, summary: str) -> str:
    """Return a line of the parts that are known; "" where only the lead is."""
    titled = sentence.replace(_PLACE, title) if title else ""
    return " ".join(part for part in (lead, titled, summary) if part) if titled or summary else ""


def _said(found: Chunk | Segment, key: str) -> str:
    """Return a text of the metadata on one line; what is no text, as a user's own store may hold, as its words."""
    return " ".join(str(found.metadata.get(key, "")).split())


def context_search_views(chunks: Sequence[Chunk]) -> tuple[View, ...]:
    """Return one view of kind "context" per chunk: header, empty line, text.

    As in the headed view, a table of contents is found by its header alone, because it holds the words of every
    question and the answer to none, and a chunk that continues a table is given the header of the table.
    """
    return tuple(View(chunk_id=chunk.id, kind=CONTEXT, text=_search_text(chunk)) for chunk in chunks)


def _search_text(chunk: Chunk) -> str:
    header = chunk_header(chunk)
    return header if header and is_contents(chunk.text) else _below(header, shown_text(chunk))


# "7.40 Source code … 41"
_ENTRY = re.compile(r"(?:…|(?<!\.)\.{3,}+|(?<! \.)(?: \.){3,}+)[ \t]*+[\divxlcIVXLC]++[ \t]*+$")
_FEWEST_ENTRIES = 3


def is_contents(text: str) -> bool:
    """Return whether a text is a table of contents or an index: most of its lines end with leaders and a page."""
    lines = [line for line in text.split("\n") if line.strip()]
    return len(lines) >= _FEWEST_ENTRIES and 2 * sum(bool(_ENTRY.search(line)) for line in lines) > len(lines)


CAPTION = "caption"
"""Kind of the view that holds a figure's title, its surroundings, the words in it and its caption."""

WORDS = 50
"""Words (characters, in a script without spaces) of the text before and after a figure that tell of it."""

_LABELS = 40  # words of the text inside a figure that are embedded; the headed view has them all
_TOKEN = re.compile(
    r"[\u0e00-\u0eff\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]|[^\s\u3041-\u30ff\u3400-\u9fff]+"
)
_IMAGE = re.compile(r"!\[(?:(?!!\[|\]\()[^\r\n])*+\]\((?:(?!!\[)[^\r\n])*?\)(?=\s|$)")
_MARKS = re.compile(r"^[#>*\-|\s\\]+|[|*`]+", re.MULTILINE)


def mark_figures(document: Document, chunks: Sequence[Chunk]) -> tuple[Chunk, ...]:
    """Return the chunks; those of kind "figure" name their figure in the metadata `catena.model.figures.FIGURE`.

    A long caption may be a chunk of its own: it names the figure that it follows.

    Args:
        document: whose text holds the links.
        chunks: of this document.
    """
    links = list(figure_links(document.text))
    starts = [link.start for link in links]

    def marked(chunk: Chunk) -> Chunk:
        at = bisect_right(starts, chunk.end - 1) - 1
        if chunk.kind != "figure" or at < 0 or _has_other_image(document.text, chunk, links[at]):
            return chunk
        return replace(chunk, metadata={**chunk.metadata, FIGURE: links[at].name})

    return tuple(map(marked, chunks))


def _has_other_image(text: str, chunk: Chunk, link: Link) -> bool:
    """Return whether a chunk of a figure shows an image that is none of ours, or follows one."""
    return any(each.start() != link.start for each in _IMAGE.finditer(text, max(chunk.start, link.start), chunk.end))


def figure_views(
    document: Document, chunks: Sequence[Chunk], captions: Mapping[str, str] | None = None
) -> tuple[View, ...]:
    """Return a headed view and a view of kind "caption" for each chunk that shows a figure.

    Args:
        document: its title and text.
        chunks: of this document, as `mark_figures` gives them.
        captions: what a model said of a figure, by the figure's name.
    """
    links = {link.name: link for link in figure_links(document.text)}
    said = captions or {}
    views: list[View] = []
    for chunk in chunks:
        link = links.get(str(chunk.metadata.get(FIGURE, "")))
        if link is not None and chunk.start <= link.start < chunk.end:
            head = SEPARATOR.join(titles_above(document, chunk))
            caption = said.get(link.name, "")
            body = _IMAGE.sub("", body_of(chunk)).strip()
            printed = body if link.title.rstrip(" …") in " ".join(body.split()) else f"{link.title}\n{body}".strip()
            before, after = surroundings(document, link)
            labels = [word for word in link.labels.split() if any(map(str.isalpha, word))]
            around = (head, link.title, before, after, caption, " ".join(labels[:_LABELS]))
            views.append(_view(chunk, "headed", (head, printed, link.labels, caption)))
            views.append(_view(chunk, CAPTION, around))
    return tuple(views)


def _view(chunk: Chunk, kind: str, parts: Sequence[str]) -> View:
    return View(chunk_id=chunk.id, kind=kind, text="\n".join(part for part in parts if part) or chunk.text)


def with_figure_views(entry: Entry) -> Entry:
    """Return an entry whose chunks of figures have the views of this module in place of others of their kind.

    The captions are those of the entry's figures; a chunk's metadata holds its own, for whoever reads the chunk.
    """
    captions = {figure.name: figure.caption for figure in entry.figures if figure.caption}
    chunks = tuple(
        replace(chunk, metadata={**chunk.metadata, SAID: captions[name]})
        if (name := str(chunk.metadata.get(FIGURE, ""))) in captions
        else chunk
        for chunk in entry.chunks
    )
    made = {(view.chunk_id, view.kind): view for view in figure_views(entry.document, entry.chunks, captions)}
    kept = [made.pop((view.chunk_id, view.kind), view) for view in entry.views]
    return replace(entry, chunks=chunks, views=(*kept, *made.values()))


def surroundings(document: Document, link: Link, words: int = WORDS) -> tuple[str, str]:
    """Return the last words before a figure and the first ones after its caption, on its page, as plain text.

    Args:
        document: with its pages, where it has any.
        link: the figure in its text.
        words: how many on either side; characters in a script without spaces.

    Source: HiQA's image augmentation, "about 50 words before and after" (Chen et al., 2024).
    """
    text, start, end = document.text, 0, len(document.text)
    page = document.page_at(link.start)
    if page is not None:
        start = document.page_starts[page - 1]
        end = document.page_starts[page] if page < len(document.page_starts) else end
    after = text[link.end : end].lstrip()
    title = link.title.removesuffix(" …")
    if title and after.startswith(title):
        after = after.partition("\n\n")[2]
    return _plain(text[start : link.start], -words), _plain(after, words)


def _plain(text: str, words: int) -> str:
    """Return the first words of a Markdown text, or the last ones for a negative number, without its marks."""
    bare = _MARKS.sub(" ", _IMAGE.sub(" ", text))
    found = list(_TOKEN.finditer(bare))
    cut = found[:words] if words >= 0 else found[words:]
    return " ".join(bare[cut[0].start() : cut[-1].end()].split()) if cut else ""


TABLE = "table"
"""Kind of the view that holds the definition of a table."""

LONGEST_DESCRIPTION = 300  # characters of the prose before a chunk: its last sentences
_PROSE = {"paragraph", "item", "quote"}
_YEAR = re.compile(r"[12]\d{3}")


def table_views(
    document: Document,
    chunks: Sequence[Chunk],
    *,
    blocks: Sequence[Block] | None = None,
    longest_description: int = LONGEST_DESCRIPTION,
) -> tuple[View, ...]:
    """Return one view of kind "table" for each chunk that holds a table, by the rules of this module.

    Args:
        document: its title and text.
        chunks: chunks of this document as `cut` gives them, in reading order; the rows of a table that is cut
            are in the view of the chunk that they are in.
        blocks: what `blocks_of` gave for this document; else it is asked.
        longest_description: characters of the prose before the chunk; 0 leaves it out.

    Returns:
        Views in the order of the chunks; none for a chunk without a table, and none where nothing is left.

    Source: "table augmentation" of HiQA's Hierarchical Contextual Augmentor (Chen et al., 2024, Algorithm 2).
    """
    text = document.text
    found = blocks_of(document) if blocks is None else blocks
    starts = [block.start for block in found]
    grids = tables_in(text, found)
    views: list[View] = []
    first = 0
    for chunk in chunks:
        while first < len(grids) and grids[first].end <= chunk.start:
            first += 1
        inside = list(takewhile(lambda grid: grid.start < chunk.end, islice(grids, first, None)))  # noqa: B023
        if chunk.kind != "table" or not inside:
            continue
        line = SEPARATOR.join(titles_above(document, chunk))
        place = inside[0].start
        lead = _description(text, found, starts, place, until=min(chunk.start, place), longest=longest_description)
        parts = [part for part in (line, lead, *_body(text, chunk, inside)) if part]
        if parts:
            views.append(View(chunk_id=chunk.id, kind=TABLE, text="\n".join(parts)))
    return tuple(views)


def column_names(grid: TableGrid) -> Row:
    """Return the names of the columns; none for keys and values without a header, and no blank ones."""
    return () if _is_keyed(grid) else tuple(dict.fromkeys(name for name in grid.header if name))


def row_labels(grid: TableGrid, rows: Sequence[Row]) -> Row:
    """Return the labels of some rows of a table, each once, by the rules of this module."""
    width = len(grid.header)
    column = 1 if width > 1 and _is_numbering([row[0] for row in grid.rows]) else 0
    filled = [row[column] for row in grid.rows if row[column]] if width else []
    if width > 1 and 2 * sum(map(is_quantity, filled)) > len(filled):
        return ()
    top = [grid.header[0]] if _is_keyed(grid) and rows[:1] == grid.rows[:1] else []
    return tuple(dict.fromkeys(label for label in (*top, *(row[column] for row in rows)) if label))


def _is_keyed(grid: TableGrid) -> bool:
    """Return whether the header holds a first key with its value, and not two names."""
    if len(grid.header) != 2:
        return False
    value = grid.header[1]
    return bool(value) and is_quantity(value) and not _YEAR.fullmatch(value)


def _is_numbering(cells: Sequence[str]) -> bool:
    """Return whether the cells count the rows, from 0 or from 1."""
    return len(cells) > 1 and any(
        all(cell.rstrip(".") == str(number) for number, cell in enumerate(cells, start)) for start in (0, 1)
    )


def _body(text: str, chunk: Chunk, grids: Iterable[TableGrid]) -> Iterator[str]:
    """Yield the chunk's own text with a definition in the place of each table; the heading is left out."""
    at = chunk.end - len(body_of(chunk))
    longest = max(MAX_HEADER, chunk.end - chunk.start)  # each piece of a table repeats these
    for grid in grids:
        yield text[at : grid.start].strip()
        rows = grid.rows_in(chunk.start, chunk.end)
        for part in (grid.caption, ", ".join(column_names(grid)), ", ".join(row_labels(grid, rows))):
            yield part[:longest].rstrip()
        at = max(at, grid.end)
    yield text[at : chunk.end].strip()


def _description(
    text: str, blocks: Sequence[Block], starts: Sequence[int], table: int, *, until: int, longest: int
) -> str:
    """Return the last sentences of the prose that leads to the table at `table`, those before `until` alone."""
    index = bisect_right(starts, table) - 1
    begin = until
    while index and blocks[index - 1].kind in _PROSE and until - begin < longest:
        index -= 1
        begin = min(begin, blocks[index].start)
    if until - begin > longest:
        begin = until - longest
        begin = next(chain(sentence_ends(text, begin, until), words(text, begin, until)), begin)
    return " ".join(text[begin:until].split())

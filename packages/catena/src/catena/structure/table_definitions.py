"""Make the definition views of tables: titles and labels, by which a table is embedded, without its data.

Only the dense route is given them. The lexical route and the reader have the whole table: a question that
filters by values is answered by the data alone.

What stays, in this order: the titles above; the end of the prose right before the chunk; the chunk's own text
before the table, so its lead-in and caption; the names of the columns; the labels of the rows in this chunk; the
chunk's own text after the table, because no other chunk has it. What a row label is:

- the cells of the first column; where that counts the rows (1, 2, 3, …), those of the second;
- none, where more than half of these cells are quantities: such a column is data;
- all cells of a table of one column, which is a list;
- in a table of two columns without header, or with a quantity where the header of the second would be, the
  first column, its topmost cell included.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, takewhile

from catena.model import Chunk, Document, View
from catena.model.merged_cells import Row
from catena.model.places import SEPARATOR
from catena.structure.blocks import Block, blocks_of
from catena.structure.division import tables_in, words
from catena.structure.headers import body_of, titles_above
from catena.text.tables import MAX_HEADER, TableGrid, is_quantity
from catena.text.words import sentence_ends

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

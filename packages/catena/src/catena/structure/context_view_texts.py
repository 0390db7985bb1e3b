"""Chunks under the header that says of which document and section they are, as the dense route compares them."""

from __future__ import annotations

from collections.abc import Sequence

from catena.model import Chunk, View
from catena.structure.assembly import TABLE_HEADER
from catena.structure.cascade import is_contents
from catena.structure.context_header import CONTEXT, chunk_header, context_view


def passage_views(chunks: Sequence[Chunk]) -> tuple[View, ...]:
    """Return one view of kind "context" per chunk: header, empty line, text.

    As in the headed view, a table of contents is found by its header alone, because it holds the words of every
    question and the answer to none, and a chunk that continues a table is given the header of the table.
    """
    return tuple(map(_passage_view, chunks))


def _passage_view(chunk: Chunk) -> View:
    header = chunk_header(chunk)
    if header and is_contents(chunk.text):
        return View(chunk_id=chunk.id, kind=CONTEXT, text=header)
    if columns := str(chunk.metadata.get(TABLE_HEADER, "")):
        text = "\n\n".join(filter(None, (header, f"{columns}\n{chunk.text}")))
        return View(chunk_id=chunk.id, kind=CONTEXT, text=text)
    return context_view(chunk)

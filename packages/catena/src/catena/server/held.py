"""What an older version of a document offers to a newer one, so that no model is asked the same again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from catena.effects.steps import Step
from catena.model import View
from catena.model.errors import LibraryError, UnknownDocumentError
from catena.server.call import Flavour
from catena.server.contents import export, get
from catena.server.layout import IndexLayout
from catena.server.pages import Cursor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def known_vectors(
    document_id: str, layout: IndexLayout, flavour: Flavour
) -> Step[dict[tuple[str, str], NDArray[np.float32]]]:
    """Return the vectors of a document whose text is known, shape (dim,), by (kind of view, `text_digest`).

    They are those that searches see. Of an unknown document there are none.
    """
    found: dict[tuple[str, str], NDArray[np.float32]] = {}
    cursor: Cursor | None = None
    while True:
        page = yield from export(layout, flavour, cursor, document_id=document_id)
        for chunk in page.items:
            named = zip(chunk.kinds, chunk.digests, chunk.rows, strict=True)
            found.update({(kind, name): row for kind, name, row in named if name and row.any()})
        cursor = page.cursor
        if cursor is None:
            return found


def made_views(document_id: str, layout: IndexLayout) -> Step[Mapping[str, tuple[View, ...]]]:
    """Return the views of a document that say what they were made from, by that (`View.made`).

    The views of a hash that several chunks have are given once, with the id of the first of these chunks. Of a
    document that is unknown, or not whole, there are none.
    """
    try:
        entry = yield from get(document_id, layout)
    except (UnknownDocumentError, LibraryError):
        return {}
    places = {chunk.id: at for at, chunk in enumerate(entry.chunks)}
    found: dict[str, list[View]] = {}
    for view in sorted((view for view in entry.views if view.made), key=lambda view: places[view.chunk_id]):
        same = found.setdefault(view.made, [])
        if not same or same[0].chunk_id == view.chunk_id:
            same.append(view)
    return {made: tuple(views) for made, views in found.items()}

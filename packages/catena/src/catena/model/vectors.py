"""The vectors of a document's chunks, each made from one view: what a store is given beside an entry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catena.model.ids import digest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT = ""  # the kind of the vectors that are searched when a request names no view
DEFAULT_VIEW = "headed"  # what is searched, and embedded, where nobody names a view
EMBEDDED_VIEWS = ("context", "caption", "table", "passage")  # of these a chunk's last one was embedded as its default


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ViewVectors:
    """n vectors of one entry: of every chunk at least one of the kind "", and any number made from its views.

    Several rows of one chunk and kind are windows of a text that is longer than the model's: the chunk counts as the
    best of them (MaxP).

    Attributes:
        rows: shape (n, dim), of unit length, or zero for a text without words of the model.
        chunks: n places in `Entry.chunks`, 0-based.
        kinds: n kinds of view from which the rows were made; "" for the chunk's default vectors. A chunk has a view
            of every other kind that it has a row of.
        digests: n values of `text_digest` of what was embedded, so that an equal text need not be embedded again;
            "" where it is not known, and () where none is.

    Source: MaxP: Dai and Callan, SIGIR 2019, doi:10.1145/3331184.3331303.
    """

    rows: NDArray[np.float32]
    chunks: tuple[int, ...]
    kinds: tuple[str, ...]
    digests: tuple[str, ...] = ()

    @classmethod
    def default(cls, rows: NDArray[np.float32]) -> ViewVectors:
        """Return one default vector per chunk, in the order of the chunks; rows have the shape (chunks, dim)."""
        return cls(rows=rows, chunks=tuple(range(len(rows))), kinds=(DEFAULT,) * len(rows))


def embedded_view(kinds: Iterable[str]) -> str:
    """Return of which kind of view a chunk's default vectors were made, by the kinds of all its views."""
    held = set(kinds)
    return next((kind for kind in reversed(EMBEDDED_VIEWS) if kind in held), DEFAULT_VIEW)


def text_digest(text: str) -> str:
    """Return the name under which the vector of an embedded text is kept."""
    return digest(text, length=32)


def directed(row: NDArray[np.float32]) -> list[float]:
    """Return a row as plain floats; one of zeros, whose cosine is no number, as the unit vector of equal numbers."""
    if len(row) and not row.any():
        return [float(len(row) ** -0.5)] * len(row)
    return [float(number) for number in row]


def mean_direction(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean of vectors, brought to unit length; zero where they cancel out.

    Args:
        rows: shape (n, dim), n >= 1.

    Returns:
        Shape (dim,).
    """
    import numpy as np

    total = rows.sum(axis=0, dtype=np.float64)
    mean: NDArray[np.float32] = (total / (np.linalg.norm(total) or 1.0)).astype(np.float32)
    return mean

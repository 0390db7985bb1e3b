"""Documents, chunks, views, vectors and indexes at one path: `Library`, and every question to it as one step."""

from __future__ import annotations

from catena.library.ask import SearchOptions, SegmentSearchOptions
from catena.library.library import Library

__all__ = ["Library", "SearchOptions", "SegmentSearchOptions"]

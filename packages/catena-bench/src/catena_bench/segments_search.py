"""The rankings that segments are made of: by two ways of searching, over three ways of indexing the same chunks.

| index | a chunk is found under |
|---|---|
| raw | its text |
| headed | the titles above it, and its text: what the library makes |
| context | the header of dsRAG with the same titles, and its text |

| route | ranking |
|---|---|
| dense | cosine alone, as in dsRAG |
| fused | the library's search: dense, lexical and by critical terms |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from catena.effects import run as run_step
from catena.enrichment import critical_terms
from catena.library import Library, embed
from catena.model import Entry, Ranking, View
from catena.retrieval import DEFAULT_ROUTES
from catena.structure import context_views, raw_views
from catena_bench.segments_data import Asked

DEPTH = 200  # hits of a ranking, as dsRAG asks for
_TOGETHER = 200  # documents written in one transaction

ROUTES: Mapping[str, tuple[str, ...]] = {"dense": ("dense",), "fused": DEFAULT_ROUTES}


def raw(entry: Entry) -> Entry:
    """Return the entry with each chunk under its text; no title is a critical term of it."""
    untitled = replace(entry.document, title="")
    bare = tuple(replace(chunk, path=()) for chunk in entry.chunks)
    return replace(_under(entry, raw_views(entry.chunks)), terms=critical_terms(untitled, bare))


def headed(entry: Entry) -> Entry:
    """Return the entry as the library makes it."""
    return entry


def context(entry: Entry) -> Entry:
    """Return the entry with each chunk under the header of its document and section, and its text."""
    return _under(entry, context_views(entry.chunks))


INDEXES: Mapping[str, Callable[[Entry], Entry]] = {"raw": raw, "headed": headed, "context": context}


def _under(entry: Entry, views: Sequence[View]) -> Entry:
    return replace(entry, views=tuple(replace(view, kind="headed") for view in views))  # the kind that routes search


@dataclass(frozen=True, slots=True)
class Searcher:
    """One index, searched by each route."""

    library: Library

    def __call__(self, question: Asked, route: str) -> Ranking:
        """Return the ranking of a question within the document it is asked of."""
        return self.library.search(
            question.text,
            k=DEPTH,
            depth=DEPTH,
            routes=ROUTES[route],
            where={"document_id": question.within} if question.within is not None else None,
            on_route_error="raise",
            on_unknown="keep",
        )


@contextmanager
def searching(entries: Sequence[Entry], index: str) -> Iterator[Searcher]:
    """Index entries in one way, and search them until the block ends."""
    change = INDEXES[index]
    filled = [entry for entry in entries if entry.chunks]
    with TemporaryDirectory(prefix="catena-bench-") as folder, Library.open(Path(folder) / "library") as library:
        for at in range(0, len(filled), _TOGETHER):
            some = [change(entry) for entry in filled[at : at + _TOGETHER]]
            library.store.add([(entry, run_step(embed(entry), library.services)) for entry in some])
        yield Searcher(library)

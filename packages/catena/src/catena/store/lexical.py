"""The lexical route: BM25 over the views of one kind, by tantivy, or by rank-bm25 as the reference.

`score(q, d) = sum over words w of q of idf(w) * tf(w, d) * (k1 + 1) / (tf(w, d) + k1 * (1 - b + b * |d| / avg))`
with Lucene's `idf(w) = log(1 + (N - n(w) + 0.5) / (n(w) + 0.5))`, k1 = 1.2 and b = 0.75.
Source: Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009, doi:10.1561/1500000019.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from catena.model.errors import LibraryError, MissingExtraError
from catena.store.derived import Manifest, cleared, discard, seal, what_helps
from catena.store.records import removed_since, view_rows
from catena.store.vectors import Scored
from catena.text.words import tokenise

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FORMAT = 2  # raise it when words or fields change: older folders are rebuilt
_HEAP = 64_000_000  # bytes for the writer's buffer; one thread, so that equal inputs give equal segments
_SMALL_HEAP = 15_000_000  # tantivy's minimum, for a few documents
_FREQUENT = 0.5  # a word in more than this part of the views tells little and costs most
_FEW = 2_000  # views up to which no word is left out
_DECIMALS = 4  # of a score: equal views get equal scores whatever order their words were summed in
_SET = 1_000  # up to so many allowed chunks the index looks at no others


class LexicalSearcher(Protocol):
    """One generation of a lexical index, in memory or mapped from disk."""

    generation: int

    def search(self, query: str, k: int, allowed: NDArray[np.int64] | None) -> Scored:
        """Return at least the k best chunks, with all ties at the border."""
        ...


class TantivySearcher:
    """A pinned state of a tantivy index."""

    def __init__(self, index: Any, generation: int, folder: Path) -> None:
        self.generation, self.folder = generation, folder
        self._schema, self._searcher = index.schema, index.searcher()

    def keys(self) -> NDArray[np.int64]:
        """Return the chunk keys of all views in the index, ascending."""
        from tantivy import Query

        hits = self._searcher.search(Query.all_query(), limit=max(1, self.size), count=False).hits
        return np.sort(np.array(self._searcher.fast_field_values("chunk", [at for _, at in hits]), np.int64))

    @property
    def size(self) -> int:
        """The number of views in the index."""
        return int(self._searcher.num_docs)

    def search(self, query: str, k: int, allowed: NDArray[np.int64] | None) -> Scored:
        """Return at least the k best chunks, with all ties at the border."""
        with _ours(self.folder):
            return self._search(query, k, allowed)

    def _search(self, query: str, k: int, allowed: NDArray[np.int64] | None) -> Scored:
        words = self._telling(Counter(tokenise(query)))
        if not words or k == 0 or (allowed is not None and not len(allowed)):
            return Scored.nothing()
        asked = self._query(words, allowed)
        limit = min(k + 1, self.size)
        while True:
            hits = self._searcher.search(asked, limit=limit, count=False).hits
            keys = np.array(self._searcher.fast_field_values("chunk", [at for _, at in hits]), np.int64)
            scores = np.array([score for score, _ in hits], np.float64).round(_DECIMALS)
            found = _best_of_each(keys, scores).among(allowed)
            if len(hits) < limit or limit >= self.size or _has_all(found.scores, k, scores[-1]):
                return found
            limit = min(limit * 4, self.size)

    def _telling(self, words: Counter[str]) -> dict[str, tuple[int, int]]:
        """Return (count in the query, document frequency) of the known words, without the most frequent ones."""
        known = {w: (n, f) for w, n in words.items() if (f := self._searcher.doc_freq("text", w))}
        most = max(_FEW, _FREQUENT * self.size)
        return {w: nf for w, nf in known.items() if nf[1] <= most} or known

    def _query(self, words: dict[str, tuple[int, int]], allowed: NDArray[np.int64] | None) -> Any:
        from tantivy import Occur, Query

        clauses = []
        for word, (count, _) in sorted(words.items()):
            term = Query.term_query(self._schema, "text", word, index_option="freq")
            clauses.append((Occur.Should, term if count == 1 else Query.boost_query(term, float(count))))
        query = Query.boolean_query(clauses)
        if allowed is None or len(allowed) > _SET:
            return query
        among = Query.term_set_query(self._schema, "chunk", allowed.tolist())
        return Query.boolean_query([(Occur.Must, query), (Occur.Must, Query.const_score_query(among, 0.0))])


class LexicalIndex:
    """The tantivy index of one kind of view, in a folder, kept equal to the truth."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, kind
        self._searcher: TantivySearcher | None = None

    @property
    def made(self) -> str:
        """The make of the files: another tantivy, other words or another kind of view need other files."""
        from tantivy import tantivy

        return f"{tantivy.__version__}, format {_FORMAT}, view {self.kind}"

    def at(self, generation: int) -> TantivySearcher | None:
        """Return the searcher of a generation, or None when the folder is not (or no longer) of that one."""
        held = self._searcher
        if held is not None and held.generation == generation:
            return held
        manifest = Manifest.read(self.folder)
        if manifest is None or manifest.generation != generation or not manifest.is_intact(self.folder, self.made):
            return None
        try:
            with _ours(self.folder):
                searcher = TantivySearcher(_opened(self.folder), generation, self.folder)
        except LibraryError:
            return None
        if Manifest.read(self.folder) != manifest:  # a writer came in between: what was opened may be newer
            return None
        self._searcher = searcher
        return searcher

    def sync(self, connection: sqlite3.Connection, generation: int) -> None:
        """Make the folder equal to the truth; the caller holds the writer lock."""
        manifest = Manifest.read(self.folder)
        if manifest is None or manifest.generation > generation or not manifest.is_intact(self.folder, self.made):
            self._build(connection, generation)
        elif manifest.generation < generation:
            self._update(connection, generation, manifest)

    def problems(self, connection: sqlite3.Connection, generation: int) -> Iterator[str]:
        """Yield where the index differs from the truth."""
        manifest = Manifest.read(self.folder)
        if manifest is None or not manifest.is_settled(generation):
            its = manifest.generation if manifest else "none"
            yield f"the lexical index of the {self.kind} views is of generation {its}, the library of {generation}"
        elif not manifest.is_intact(self.folder, self.made):
            yield f"the files of the lexical index of the {self.kind} views are damaged"
        else:
            wanted = [chunk for chunk, _ in view_rows(connection, self.kind)]
            try:
                with _ours(self.folder), _lockable(self.folder, manifest) as folder:
                    found = TantivySearcher(_opened(folder), generation, folder).keys().tolist()
            except LibraryError as error:
                yield f"{self.kind} views: {error.what}"
                return
            if found != wanted:
                yield f"the lexical index holds {len(found)} {self.kind} views, not the library's {len(wanted)}"

    def discard(self) -> None:
        """Declare the index wrong: it is rebuilt when next needed."""
        self._searcher = None
        discard(self.folder)

    def _build(self, connection: sqlite3.Connection, generation: int) -> None:
        with _ours(self.folder, writing=True):
            cleared(self.folder)
            Manifest(generation=generation, made=self.made, files={}, writing=True).write(self.folder)
            _write(_new(self.folder), view_rows(connection, self.kind), heap=_HEAP)
            seal(self.folder, generation=generation, made=self.made)

    def _update(self, connection: sqlite3.Connection, generation: int, before: Manifest) -> None:
        removed = removed_since(connection, before.generation)
        rows = list(view_rows(connection, self.kind, since=before.generation))
        with _ours(self.folder, writing=True):
            if removed or rows:
                Manifest(generation=generation, made=self.made, files={}, writing=True).write(self.folder)
                heap = _SMALL_HEAP if len(rows) < _FEW else _HEAP
                _write(_opened(self.folder), rows, removed=removed, heap=heap)
            seal(self.folder, generation=generation, made=self.made, before=before, changing=".json")


def in_memory(connection: sqlite3.Connection, kind: str, generation: int, folder: Path) -> TantivySearcher:
    """Return an index that exists only here, for a library on a folder that cannot be written."""
    index = _new(None)
    _write(index, view_rows(connection, kind), heap=_HEAP)
    index.reload()
    return TantivySearcher(index, generation, folder)


class RankBm25Searcher:
    """The reference engine: rank-bm25's BM25Okapi, all in memory, with our words and Lucene's k1 and b.

    Its idf is `log((N - n + 0.5) / (n + 0.5))`, with 0.25 of the mean idf where that is negative.
    """

    def __init__(self, connection: sqlite3.Connection, kind: str, generation: int) -> None:
        try:
            from rank_bm25 import BM25Okapi
        except ImportError:
            raise MissingExtraError("rank-bm25", "catena-core[rank-bm25]") from None
        rows = list(view_rows(connection, kind))
        words = [tokenise(text) for _, text in rows]
        self.generation = generation
        self._keys = np.array([chunk for chunk, _ in rows], np.int64)
        self._holders = [frozenset(w) for w in words]
        self._engine = BM25Okapi(words, k1=1.2, b=0.75) if any(words) else None

    def search(self, query: str, k: int, allowed: NDArray[np.int64] | None) -> Scored:
        """Return every chunk that holds a word of the query."""
        asked = tokenise(query)
        if self._engine is None or not asked or k == 0:
            return Scored.nothing()
        holds = np.array([not held.isdisjoint(asked) for held in self._holders])
        scores = np.round(np.asarray(self._engine.get_scores(asked), np.float64), _DECIMALS)
        return _best_of_each(self._keys[holds], scores[holds]).among(allowed)


def _has_all(found: NDArray[np.float64], k: int, last: float) -> bool:
    """Return whether k chunks are found and none that was not fetched can tie with the k-th."""
    return len(found) >= k and float(np.partition(found, len(found) - k)[len(found) - k]) > last


def _best_of_each(keys: NDArray[np.int64], scores: NDArray[np.float64]) -> Scored:
    order = np.lexsort((-scores, keys))
    keys, scores = keys[order], scores[order]
    first = np.ones(len(keys), bool)
    first[1:] = keys[1:] != keys[:-1]
    return Scored(keys[first], scores[first])


def _new(folder: Path | None) -> Any:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name="whitespace", index_option="freq")
    builder.add_unsigned_field("chunk", indexed=True, fast=True)
    schema = builder.build()
    if folder is None:
        return tantivy.Index(schema)
    return _quiet(tantivy.Index(schema, path=str(folder), reuse=False))


def _opened(folder: Path) -> Any:
    import tantivy

    return _quiet(tantivy.Index.open(str(folder)))


def _quiet(index: Any) -> Any:
    """Stop the default reader, which polls the folder and reads its files from a thread of its own."""
    index.config_reader("manual")
    return index


def _write(index: Any, rows: Iterable[tuple[int, str]], *, removed: Sequence[int] = (), heap: int) -> None:
    from tantivy import Document, Query

    writer = index.writer(heap, 1)
    if removed:  # by query: `delete_documents_by_term` makes a signed term, which no unsigned field holds
        writer.delete_documents_by_query(Query.term_set_query(index.schema, "chunk", list(removed)))
    for chunk, text in rows:
        document = Document()
        document.add_text("text", " ".join(tokenise(text)))
        document.add_unsigned("chunk", chunk)
        writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()


@contextmanager
def _lockable(folder: Path, manifest: Manifest) -> Iterator[Path]:
    """Give a folder where tantivy can make the lock it reads under: a copy, where this one cannot be written."""
    if os.access(folder, os.W_OK):
        yield folder
        return
    with TemporaryDirectory(prefix="catena-lexical-", ignore_cleanup_errors=True) as place:
        for name in manifest.files:
            shutil.copyfile(folder / name, Path(place) / name)
        yield Path(place)


@contextmanager
def _ours(folder: Path, *, writing: bool = False) -> Iterator[None]:
    """Give tantivy's failures, panics of its Rust side included, our name."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, LibraryError) or not (
            isinstance(error, (OSError, ValueError)) or type(error).__name__ == "PanicException"
        ):
            raise
        doing, do_next = (
            ("written", what_helps(error)) if writing else ("read", "verify(), which names what is damaged")
        )
        what = f"the lexical index cannot be {doing} ({error}); all documents are stored"
        raise LibraryError(str(folder), what, do_next) from None

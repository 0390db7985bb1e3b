"""The lexical route: BM25 over the views of one kind, and over whole documents, by tantivy; or by rank-bm25.

`score(q, d) = sum over words w of q of idf(w) * tf(w, d) * (k1 + 1) / (tf(w, d) + k1 * (1 - b + b * |d| / avg))`
with Lucene's `idf(w) = log(1 + (N - n(w) + 0.5) / (n(w) + 0.5))`, k1 = 1.2 and b = 0.75. Words are stems, and the
question's stop words are left out: see `catena.text.asked_words`. To the score of a chunk that of its whole document
may be added, in the same unit: the chunk says what is asked, the document what it is asked of.
Source: Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009, doi:10.1561/1500000019.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import numpy as np

from catena.model.errors import LibraryError, MissingExtraError
from catena.store.derived import Manifest, cleared, discard, seal, what_helps
from catena.store.records import document_text, document_versions, removed_since, view_rows
from catena.store.vectors import Scored
from catena.text.stems import asked_words, known_words, language_of_document, searched_words, stop_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

WHOLE: Final = "whole documents"  # the kind of the index whose keys are those of documents
_FORMAT = 3  # raise it when words or fields change: older folders are rebuilt
_HEAP = 64_000_000  # bytes for the writer's buffer; one thread, so that equal inputs give equal segments
_SMALL_HEAP = 15_000_000  # tantivy's minimum, for a few documents
_FEW = 2_000  # rows that are written with the least memory
_DECIMALS = 4  # of a score: equal views get equal scores whatever order their words were summed in
_SET = 1_000  # up to so many allowed chunks the index looks at no others

_Row: TypeAlias = tuple[int, int, str, list[str]]
"""A chunk, or a document; its document, or the version of the document; its language, or ""; its words."""


class LexicalSearcher(Protocol):
    """One generation of a lexical index, in memory or mapped from disk."""

    generation: int

    def search(
        self, query: str, k: int, allowed: NDArray[np.int64] | None = None, documents: Scored | None = None
    ) -> Scored:
        """Return at least the k best chunks, with all ties at the border; `documents` add to their chunks' scores."""
        ...


class TantivySearcher:
    """A pinned state of a tantivy index."""

    def __init__(self, index: Any, generation: int, folder: Path) -> None:
        self.generation, self.folder = generation, folder
        self._schema, self._searcher = index.schema, index.searcher()

    def keys(self) -> NDArray[np.int64]:
        """Return the keys of all views in the index, ascending."""
        return np.sort(self._values("key", self._all()))

    def versions(self) -> dict[int, int]:
        """Return what stands beside each key: of an index of whole documents, their versions."""
        everything = self._all()
        pairs = zip(self._values("key", everything), self._values("of", everything), strict=True)
        return {int(key): int(of) for key, of in pairs}

    def _all(self) -> Sequence[Any]:
        from tantivy import Query

        hits = self._searcher.search(Query.all_query(), limit=max(1, self.size), count=False).hits
        return [address for _, address in hits]

    def _values(self, name: str, addresses: Sequence[Any]) -> NDArray[np.int64]:
        return np.array(self._searcher.fast_field_values(name, addresses), np.int64)

    @property
    def size(self) -> int:
        """The number of views in the index."""
        return int(self._searcher.num_docs)

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """The languages of the texts in the index."""
        return tuple(name for name in stop_words() if self._searcher.doc_freq("language", name))

    def search(
        self, query: str, k: int, allowed: NDArray[np.int64] | None = None, documents: Scored | None = None
    ) -> Scored:
        """Return at least the k best chunks, with all ties at the border; `documents` add to their chunks' scores."""
        with _ours(self.folder):
            return self._search(query, k, allowed, documents)

    def _search(self, query: str, k: int, allowed: NDArray[np.int64] | None, documents: Scored | None) -> Scored:
        asked_for = asked_words(query, self.languages)
        frequencies = {form: self._searcher.doc_freq("text", form) for forms in asked_for for form in forms}
        words = known_words(asked_for, frequencies, self.size)
        if not words or k == 0 or (allowed is not None and not len(allowed)):
            return Scored.nothing()
        few = allowed if allowed is not None and len(allowed) <= _SET else None
        asked = self._query(words, few, documents if few is None else None)
        limit = min((2 * k if few is None else len(few)) + 1, self.size)  # twice: look-alikes often tie at the border
        while True:
            hits = self._searcher.search(asked, limit=limit, count=False).hits
            at = [address for _, address in hits]
            summed = np.array([score for score, _ in hits], np.float32)  # as the index sums them
            if few is not None and documents is not None:  # all of the few are found: what adds to them is added here
                summed += documents.of(self._values("of", at)).astype(np.float32)
            scores = summed.astype(np.float64).round(_DECIMALS)
            found = _best_of_each(self._values("key", at), scores).among(allowed)
            if len(hits) < limit or limit >= self.size or (few is None and _has_all(found.scores, k, scores[-1])):
                return found
            limit = min(limit * 4, self.size)

    def _query(
        self, words: dict[tuple[str, ...], int], few: NDArray[np.int64] | None, documents: Scored | None
    ) -> Any:
        from tantivy import Occur, Query

        clauses = []
        for forms, count in sorted(words.items()):
            terms = [Query.term_query(self._schema, "text", form, index_option="freq") for form in forms]
            term = terms[0] if len(terms) == 1 else Query.disjunction_max_query(terms)
            clauses.append((Occur.Should, term if count == 1 else Query.boost_query(term, float(count))))
        parts = [(Occur.Must, Query.boolean_query(clauses))]
        if documents is not None:
            for doc, score in zip(documents.keys.tolist(), documents.scores.tolist(), strict=True):
                term = Query.term_query(self._schema, "of", doc)
                parts.append((Occur.Should, Query.const_score_query(term, score)))
        if few is not None:
            among = Query.term_set_query(self._schema, "key", few.tolist())
            parts.append((Occur.Must, Query.const_score_query(among, 0.0)))
        return Query.boolean_query(parts) if len(parts) > 1 else parts[0][1]


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
            wanted = _keys(connection, self.kind)
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
            _write(_new(self.folder), rows_of(connection, self.kind), heap=_HEAP)
            seal(self.folder, generation=generation, made=self.made)

    def _update(self, connection: sqlite3.Connection, generation: int, before: Manifest) -> None:
        with _ours(self.folder, writing=True):
            if self.kind == WHOLE:
                held = TantivySearcher(_opened(self.folder), before.generation, self.folder).versions()
                now = document_versions(connection)
                removed = [doc for doc, version in held.items() if now.get(doc) != version]
                rows = list(_document_rows(connection, [doc for doc in now if held.get(doc) != now[doc]]))
            else:
                removed = removed_since(connection, before.generation)
                rows = list(rows_of(connection, self.kind, since=before.generation))
            if removed or rows:
                Manifest(generation=generation, made=self.made, files={}, writing=True).write(self.folder)
                heap = _SMALL_HEAP if len(rows) < _FEW else _HEAP
                _write(_opened(self.folder), rows, removed=removed, heap=heap)
            seal(self.folder, generation=generation, made=self.made, before=before)


def rows_of(connection: sqlite3.Connection, kind: str, *, since: int = -1) -> Iterator[_Row]:
    """Yield what an index of a kind holds, by key: of chunks newer than a generation; of whole documents, all."""
    if kind == WHOLE:
        yield from _document_rows(connection, document_versions(connection))
        return
    languages: dict[int, str] = {}  # of documents; a chunk may be too short to tell
    for chunk, doc, text in view_rows(connection, kind, since=since):
        if doc not in languages:
            _, whole = document_text(connection, doc)
            languages[doc] = language_of_document(whole)
        yield chunk, doc, *searched_words(text, languages[doc])


def _document_rows(connection: sqlite3.Connection, docs: Iterable[int]) -> Iterator[_Row]:
    versions = document_versions(connection)
    for doc in docs:
        yield doc, versions[doc], *searched_words("\n".join(document_text(connection, doc)))


def _keys(connection: sqlite3.Connection, kind: str) -> list[int]:
    if kind == WHOLE:
        return sorted(document_versions(connection))
    return sorted(key for key, *_ in view_rows(connection, kind))


def in_memory(connection: sqlite3.Connection, kind: str, generation: int, folder: Path) -> TantivySearcher:
    """Return an index that exists only here, for a library on a folder that cannot be written."""
    index = _new(None)
    _write(index, rows_of(connection, kind), heap=_HEAP)
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
        self.generation = generation
        rows = list(rows_of(connection, kind))
        words = [words for *_, words in rows]
        self._languages = tuple(sorted({language for _, _, language, _ in rows} - {""}))
        self._keys = np.array([chunk for chunk, *_ in rows], np.int64)
        self._holders = [frozenset(w) for w in words]
        self._engine = BM25Okapi(words, k1=1.2, b=0.75) if any(words) else None

    def search(
        self, query: str, k: int, allowed: NDArray[np.int64] | None = None, documents: Scored | None = None
    ) -> Scored:
        """Return every chunk that holds a word of the query; the reference knows no documents."""
        asked = [form for forms in asked_words(query, self._languages) for form in forms]
        if self._engine is None or not asked or k == 0:
            return Scored.nothing()
        holds = np.array([not held.isdisjoint(asked) for held in self._holders])
        scores = np.round(np.asarray(self._engine.get_scores(asked), np.float64), _DECIMALS)
        return _best_of_each(self._keys[holds], scores[holds]).among(allowed)


def _has_all(found: NDArray[np.float64], k: int, last: float) -> bool:
    """Return whether k chunks are found and none that was not fetched can tie with the k-th."""
    return len(found) >= k and float(np.partition(found, -k)[-k]) > last


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
    builder.add_text_field("language", tokenizer_name="raw", index_option="basic")
    for name in ("key", "of"):
        builder.add_unsigned_field(name, indexed=True, fast=True)
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


def _write(index: Any, rows: Iterable[_Row], *, removed: Sequence[int] = (), heap: int) -> None:
    from tantivy import Document, Query

    writer = index.writer(heap, 1)
    if removed:  # by query: `delete_documents_by_term` makes a signed term, which no unsigned field holds
        writer.delete_documents_by_query(Query.term_set_query(index.schema, "key", list(removed)))
    for key, of, language, words in rows:
        document = Document()
        document.add_text("text", " ".join(words))
        document.add_text("language", language)
        document.add_unsigned("key", key)
        document.add_unsigned("of", of)
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

"""Build, keep and update the chunk-interaction graph of a library, always of its present generation.

The library remembers that it has a graph, and with which options: that is the truth. The folder `graph` holds the
graph of an earlier generation and a stamp of each chunk that went into it. Chunks whose stamps differ now came, went,
changed or moved since then, and are brought into the graph in memory; when they are many, the files are written anew.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from catena.effects import Cancel, CheckGraph, CountWords, DescribeEdges, Expand, FetchById, FetchNodes, FindCovering
from catena.enrichment.view_makers import KIND, keywords_of_view
from catena.graph import KEYWORDS, NAMES, ChunkGraph, GraphOptions, Node, TermEdges, function_name, node_of
from catena.graph.chunk_graph import Progress
from catena.model import Chunk, Edge
from catena.model.errors import CatenaError, LibraryBusyError, LibraryError, ParameterError
from catena.model.neighbourhood import Neighbourhood, Nodes, WordCounts
from catena.store import DRAFT, GRAPH_SETTING, STAMP, Contents, LibraryStore, Manifest, cleared, seal, what_helps

_LAYOUT = "graph 1"  # of the folder; the files in it are those of `ChunkGraph.save`, and the stamps
_STAMPS = "stamps.npy"
_PLAIN = ("neighbours", "keywords_more_than", "cap", "mentions", "exact_up_to")
_OF_KIND = ("name", "more_than", "weight", "cap")
FOLDER = "graph"
_TAIL = 4_096  # nodes that came or went since the files were written: so many are always tolerated
_TAIL_PART = 0.2  # and this part of all nodes
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptGraph:
    """A graph, and which state of the library it is the graph of.

    Attributes:
        setting: its options, as `options_text` writes them.
        generation: of the library.
        stamps: of all chunks at that generation, by id, see `catena.store.contents.Contents.stamps`.
        changed: nodes that came or went since its files were written.
    """

    graph: ChunkGraph
    setting: str
    generation: int
    stamps: Mapping[str, bytes]
    changed: int = 0


def read_files(folder: Path, setting: str, options: GraphOptions) -> KeptGraph | None:
    """Return the graph that a folder holds, None where files are missing, damaged, or of a graph of other options."""
    manifest = Manifest.read(folder)
    if manifest is None or not manifest.is_intact(folder, _made(options)):
        return None
    try:
        graph = ChunkGraph.load(folder, options)
        stored = np.load(folder / _STAMPS, allow_pickle=False)
    except (OSError, ValueError, CatenaError):  # a writer came in between
        return None
    if Manifest.read(folder) != manifest or stored.shape != (len(graph), STAMP):
        return None
    stamps = {chunk_id: row.tobytes() for chunk_id, row in zip(graph.ids, stored, strict=True)}
    return KeptGraph(graph=graph, setting=setting, generation=manifest.generation, stamps=stamps)


def write_files(folder: Path, kept: KeptGraph) -> None:
    """Write a graph into a folder, in place of what is there, which stays until all is written.

    The caller holds the writer lock.

    Raises:
        LibraryError: it cannot be written.
    """
    draft = folder.with_name(DRAFT)
    made = _made(kept.graph.options)
    in_order = b"".join(kept.stamps[chunk_id] for chunk_id in kept.graph.ids)
    try:
        cleared(draft)
        kept.graph.save(draft)
        np.save(draft / _STAMPS, np.frombuffer(in_order, np.uint8).reshape(-1, STAMP), allow_pickle=False)
        seal(draft, generation=kept.generation, made=made)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(draft, folder)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        what = f"the files of the graph cannot be written ({error}); all documents are stored"
        raise LibraryError(str(folder), what, what_helps(error)) from None


def options_text(options: GraphOptions) -> str:
    """Return options as a library remembers them: without the code of its kinds of edge, and their versions."""
    kinds = [
        {field: getattr(kind, field) for field in _OF_KIND} | {"of": function_name(kind.of)} for kind in options.kinds
    ]
    return json.dumps({field: getattr(options, field) for field in _PLAIN} | {"kinds": kinds}, sort_keys=True)


def options_of(setting: str, known: Mapping[str, TermEdges], *, path: str) -> GraphOptions:
    """Return the options that a library remembers.

    Args:
        setting: of `options_text`.
        known: kinds of edge of any thresholds, by the name of the function that gives their terms: a library never
            says which code is to run.
        path: of the library, for errors.

    Raises:
        LibraryError: a kind is not known, or the options cannot be read.
    """
    try:
        kept = json.loads(setting)
        unknown = [kind for kind in kept["kinds"] if kind["of"] not in known]
        if not unknown:
            kinds = [replace(known[kind.pop("of")], **kind) for kind in kept.pop("kinds")]
            return GraphOptions(**kept, kinds=tuple(kinds))
        what = f"its graph has edges {unknown[0]['name']!r} by {unknown[0]['of']}, which is not known here"
    except (ValueError, TypeError, KeyError, AttributeError, ParameterError):
        what = "the options of its graph are of another version of Catena; all documents are kept"
        raise LibraryError(path, what, "Library.build_graph") from None
    raise LibraryError(path, what, "Library.open(graph_kinds=[...]) with that kind, or Library.build_graph")


def _made(options: GraphOptions) -> str:
    return f"{_LAYOUT} {options.identity}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """A change of a graph: nodes that go, and nodes that come; one that changed does both."""

    removed: frozenset[str]
    added: tuple[Node, ...]
    vectors: NDArray[np.float32]  # of the added nodes


class LibraryGraph:
    """The graph of one library, for all threads; implements `catena.effects.ports.Graph`.

    Nothing is read before something is asked of it. Each request is answered from the generation that its question
    sees, outside of one from the present one.
    """

    identity = "graph of a library"

    def __init__(self, store: LibraryStore, kinds: Iterable[TermEdges] = ()) -> None:
        self._store = store
        self._folder = store.path / FOLDER
        self._kinds = _by_function((KEYWORDS, NAMES, *kinds))
        self._guard = threading.Lock()  # one thread brings the graph up to date, the others wait for it
        self._held: KeptGraph | None = None

    def check(self, _: CheckGraph) -> None:
        """Raise `LibraryError` where there is no graph."""
        if not self.exists:
            raise LibraryError(str(self._store.path), "it has no graph", "Library.build_graph, or catena graph build")

    # What a walk asks.

    def expand(self, request: Expand) -> Neighbourhood:
        """As `ChunkGraph.expand`, in the present graph."""
        return self.current().expand(request)

    def nodes(self, request: FetchNodes) -> Nodes:
        """As `ChunkGraph.nodes`, in the present graph."""
        return self.current().nodes(request)

    def count_words(self, request: CountWords) -> WordCounts:
        """As `ChunkGraph.count_words`, in the present graph."""
        return self.current().count_words(request)

    def chunks_by_id(self, request: FetchById) -> tuple[Chunk | None, ...]:
        """As `ChunkGraph.chunks_by_id`, in the present graph."""
        return self.current().chunks_by_id(request)

    def covering(self, request: FindCovering) -> Nodes:
        """As `ChunkGraph.covering`, in the present graph."""
        return self.current().covering(request)

    def describe_edges(self, request: DescribeEdges) -> tuple[Edge | None, ...]:
        """As `ChunkGraph.describe_edges`, in the present graph."""
        return self.current().describe_edges(request)

    # What a library does with it.

    @property
    def exists(self) -> bool:
        """True where the library has a graph; nothing of it is read."""
        with self._store.contents() as contents:
            return bool(contents.setting(GRAPH_SETTING))

    def current(self) -> ChunkGraph:
        """Return the graph of the generation that the question sees, outside of one of the present one.

        Raises:
            LibraryError: the library has none, or one with a kind of edge that is not known here.
        """
        with self._store.contents() as contents:
            setting = contents.setting(GRAPH_SETTING)
            return contents.once((GRAPH_SETTING, setting), lambda: self._of(contents, setting)).graph

    def build(
        self, options: GraphOptions | None = None, *, progress: Progress | None = None, cancel: Cancel | None = None
    ) -> ChunkGraph:
        """Build the graph of all that the library holds, and have the library remember it.

        Raises:
            LibraryError: the library's folder cannot be written.
            ParameterError: `options` are none, or the functions of two kinds of edge have one name.
            CancelledError: `cancel` was set; an earlier graph stays.
        """
        if not isinstance(options, GraphOptions | None):
            raise ParameterError("options", options, "GraphOptions(...) or None")
        if self._store.read_only:
            what = "the folder cannot be written, so that no graph can be kept; nothing was changed"
            raise LibraryError(str(self._store.path), what, "a copy of it, or ChunkGraph.build")
        options = options or GraphOptions()
        kinds = _by_function(options.kinds)
        with self._store.contents() as contents:
            kept = _built(contents, options_text(options), options, progress=progress, cancel=cancel)
        self._kinds.update(kinds)
        with self._guard:
            with self._store.exclusive():
                write_files(self._folder, kept)
            # after the files: where the disk refuses them, there is none
            self._store.remember(GRAPH_SETTING, kept.setting)
            self._held = kept
        return self.current()

    def drop(self) -> None:
        """Forget the graph and remove its files; a library without one is left as it is."""
        self._store.remember(GRAPH_SETTING, "")
        with self._guard, self._store.exclusive() as contents:
            self._held = None
            if not contents.setting(GRAPH_SETTING):
                for folder in (self._folder, self._folder.with_name(DRAFT)):
                    shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Let go of the graph and its files."""
        self._held = None

    def problems(self) -> Iterator[str]:
        """Yield where the graph differs from what the library holds; nothing is repaired.

        Missing and damaged files are written anew when the graph is next read from them.
        """
        try:
            with self._store.contents() as contents:
                setting = contents.setting(GRAPH_SETTING)
            if setting:
                yield from self._differences(setting)
        except CatenaError as error:
            yield f"the graph cannot be compared: {error}"

    def _differences(self, setting: str) -> Iterator[str]:
        base = read_files(self._folder, setting, self._options(setting))
        if base is None:
            yield "the files of the graph are missing or damaged"
            return
        with self._store.contents() as contents:
            stamps = contents.stamps()
            change, truth = _change(base.stamps, stamps, contents), _change({}, stamps, contents)
        graph, ids = _updated(base.graph, change), tuple(node.id for node in truth.added)
        vectors = graph.nodes(FetchNodes(chunk_ids=ids)).vectors
        right = len(vectors) == len(graph) == len(ids) and np.allclose(vectors, truth.vectors, atol=1e-6)
        if not right or any(graph.node(node.id) != node for node in truth.added):
            yield f"the graph ({len(graph)} nodes) is not that of the library's chunks ({len(ids)})"

    # How it gets to the present generation.

    def _of(self, contents: Contents, setting: str) -> KeptGraph:
        """Return the graph of a generation, and keep it for the next one where it is the newest."""
        options = self._options(setting)
        with self._guard:
            held = self._held
            if held is not None and held.setting != setting:
                held = None
            if held is not None and held.generation == contents.generation:  # another thread was quicker
                return held
            kept = self._caught_up(contents, held, setting, options)
            if held is None or held.generation < kept.generation:
                if kept.changed > max(_TAIL, _TAIL_PART * len(kept.stamps)):
                    kept = self._stored(kept)
                self._held = kept
            return kept

    def _caught_up(
        self, contents: Contents, held: KeptGraph | None, setting: str, options: GraphOptions
    ) -> KeptGraph:
        base = held or read_files(self._folder, setting, options) or self._awaited(setting, options)
        if base is None:
            return self._stored(_built(contents, setting, options))
        follows = held is not None and held.generation < contents.generation
        stamps = contents.stamps_after(base.stamps, base.generation) if follows else contents.stamps()
        change = _change(base.stamps, stamps, contents)
        if 2 * len(change.added) > len(stamps):
            return self._stored(_built(contents, setting, options))
        changed = base.changed + len(change.added) + len(change.removed)
        graph = _updated(base.graph, change)
        return replace(base, graph=graph, generation=contents.generation, stamps=stamps, changed=changed)

    def _awaited(self, setting: str, options: GraphOptions) -> KeptGraph | None:
        """Return what the files hold once nobody writes any more."""
        if self._store.read_only or not self._folder.exists():
            return None
        with suppress(LibraryBusyError), self._store.exclusive():
            return read_files(self._folder, setting, options)
        return None

    def _stored(self, kept: KeptGraph) -> KeptGraph:
        """Return a graph whose files were written, if that can be now; if not, some later time will do."""
        if self._store.read_only:
            return kept
        try:
            with self._store.exclusive(wait=False) as contents:
                if contents.setting(GRAPH_SETTING) != kept.setting:  # dropped, or built otherwise meanwhile
                    return kept
                write_files(self._folder, kept)
        except LibraryBusyError:
            return kept
        except LibraryError as error:
            _log.warning("%s", error)
            return kept
        return replace(kept, changed=0)

    def _options(self, setting: str) -> GraphOptions:
        if not setting:
            raise LibraryError(str(self._store.path), "it has no graph", "Library.build_graph")
        return options_of(setting, self._kinds, path=str(self._store.path))


def _built(
    contents: Contents,
    setting: str,
    options: GraphOptions,
    *,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> KeptGraph:
    stamps = contents.stamps()
    everything = _change({}, stamps, contents)
    graph = ChunkGraph.build(everything.added, everything.vectors, options, progress=progress, cancel=cancel)
    return KeptGraph(graph=graph, setting=setting, generation=contents.generation, stamps=stamps)


def _by_function(kinds: Iterable[TermEdges]) -> dict[str, TermEdges]:
    """Return kinds of edge by the name of the function that gives their terms, as a library remembers them."""
    known: dict[str, TermEdges] = {}
    for kind in kinds:
        if not isinstance(kind, TermEdges):
            raise ParameterError("kind of edge", kind, "TermEdges(...)")
        name = function_name(kind.of)
        if known.setdefault(name, kind).of != kind.of:
            raise ParameterError(f"of of edges {kind.name!r}", name, "a function whose name no other kind's has")
        known[name] = kind
    return known


def _change(before: Mapping[str, bytes], after: Mapping[str, bytes], contents: Contents) -> _Change:
    """Return what leads from the nodes of some stamps to those that the library has now."""
    ids = [chunk_id for chunk_id, stamp in after.items() if before.get(chunk_id) != stamp]
    gone = frozenset(chunk_id for chunk_id, stamp in before.items() if after.get(chunk_id) != stamp)
    views = contents.views(KIND, ids)
    given = {chunk_id: tuple(chain.from_iterable(map(keywords_of_view, texts))) for chunk_id, texts in views.items()}
    nodes = [node_of(chunk, keywords=given.get(chunk.id)) for chunk in contents.chunks(ids)]
    return _Change(removed=gone, added=tuple(nodes), vectors=contents.vectors(ids))


def _updated(graph: ChunkGraph, change: _Change) -> ChunkGraph:
    if not change.added and not change.removed:
        return graph
    return graph.updated(added=change.added, vectors=change.vectors, removed=change.removed)

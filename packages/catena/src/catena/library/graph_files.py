"""The files of a library's graph, and its options as the library remembers them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from catena.graph.chunk_graph import ChunkGraph
from catena.graph.edge_kinds import TermEdges, function_name
from catena.graph.options import GraphOptions
from catena.model.errors import CatenaError, LibraryError, ParameterError
from catena.store.contents import STAMP
from catena.store.derived import Manifest, cleared, seal, what_helps
from catena.store.schema import DRAFT

_LAYOUT = "graph 1"  # of the folder; the files in it are those of `ChunkGraph.save`, and the stamps
_STAMPS = "stamps.npy"
_PLAIN = ("neighbours", "keywords_more_than", "cap", "mentions", "exact_up_to")
_OF_KIND = ("name", "more_than", "weight", "cap")


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

"""A graph as a folder: arrays without pickle, vectors and words mapped into memory, a manifest that tells damage."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

import numpy as np

from catena.graph.edge_kinds import TermEdges, function_name, keywords_of_node, names_of_node
from catena.graph.joins import Terms
from catena.graph.layers import Layers
from catena.graph.node_lines import to_line
from catena.graph.options import FORMAT, GraphOptions
from catena.graph.semantic import Nearest
from catena.graph.state import GraphState
from catena.graph.structural import Reading
from catena.graph.updating import compact
from catena.graph.words import Vocabulary, Words
from catena.model.errors import LibraryError, ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from catena.graph.node import Node

T = TypeVar("T")

MANIFEST: Final = "graph.json"
NODES: Final = "nodes.jsonl"
IDS: Final = "ids.json"
VECTORS: Final = "vectors.npy"
WORDS: Final = "words.npy"
ARRAYS: Final = "arrays.npz"
_BLOCK = 1 << 20  # bytes read at once
_KNOWN = (keywords_of_node, names_of_node)


def save(
    folder: Path, nodes: Sequence[Node | bytes], ids: Sequence[str], state: GraphState, options: GraphOptions
) -> None:
    """Write a graph; files of an earlier one in the folder are replaced, the manifest last.

    Raises:
        LibraryError: the folder cannot be written.
        ParameterError: metadata of a chunk that no store can keep.
    """
    state = compact(state)
    lines = b"\n".join(map(to_line, nodes))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MANIFEST).unlink(missing_ok=True)
        _replace(folder / NODES, lambda file: file.write(lines))
        _replace(folder / IDS, lambda file: file.write(json.dumps(list(ids)).encode("ascii")))
        _replace(folder / VECTORS, lambda file: np.save(file, state.vectors.base, allow_pickle=False))
        _replace(folder / WORDS, lambda file: np.save(file, state.words.words.base, allow_pickle=False))
        _replace(folder / ARRAYS, lambda file: np.savez(file, allow_pickle=False, **_arrays(state)))
        manifest = {
            "format": FORMAT,
            "nodes": len(nodes),
            "words": state.vocabulary.length,
            "identity": options.identity,
            "options": _described(options),
            "files": {name: _stamp(folder / name) for name in (NODES, IDS, VECTORS, WORDS, ARRAYS)},
        }
        _replace(folder / MANIFEST, lambda file: file.write(json.dumps(manifest, indent=1).encode("ascii")))
    except OSError as error:
        what = f"the graph cannot be written ({error}); the graph in memory is whole"
        raise LibraryError(str(folder), what, "another folder, or more disk space") from None


def load(
    folder: Path, options: GraphOptions | None
) -> tuple[tuple[bytes, ...], tuple[str, ...], GraphState, GraphOptions]:
    """Return what `save` wrote; nodes as lines.

    Args:
        folder: of the graph.
        options: with which it was built; needed where it has kinds of edge of one's own.

    Raises:
        LibraryError: there is no graph, it is damaged, of another version, or of other options.
    """
    manifest = _read(folder, lambda: json.loads((folder / MANIFEST).read_bytes()))
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise LibraryError(str(folder), "it holds no graph of this version; nothing was changed", "building it again")
    options = options or _read(folder, lambda: _options(folder, manifest["options"]))
    if options.identity != manifest.get("identity"):
        what = "its graph was built with other options; nothing was changed"
        raise LibraryError(str(folder), what, "load with those options, or building it again")
    for name, stamp in _read(folder, lambda: dict(manifest["files"])).items():
        if _read(folder, lambda name=name: _stamp(folder / name)) != stamp:  # type: ignore[misc]
            raise _damaged(folder, f"{name} is not what was written")
    lines = _read(folder, lambda: (folder / NODES).read_bytes().split(b"\n") if manifest["nodes"] else [])
    ids = _read(folder, lambda: tuple(json.loads((folder / IDS).read_bytes())))
    state = _read(folder, lambda: _state(folder, manifest, options))
    if not len(lines) == len(ids) == state.size == len(state.vectors):
        raise _damaged(folder, "its files are not of one graph")
    return tuple(lines), ids, state, options


def _replace(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Put a new file in the place of one that may still be mapped into somebody's memory."""
    draft = path.with_name(f"{path.name}.tmp")
    with draft.open("wb") as file:
        write(file)
    draft.replace(path)


def _arrays(state: GraphState) -> dict[str, NDArray[Any]]:
    """Return all arrays of a compact state but vectors and words, by name."""
    indexes: dict[str, Any] = {f"terms/{i}": index for i, index in enumerate(state.terms.values())}
    parts: dict[str, Any] = {
        "vocabulary": state.vocabulary,
        "reading": state.reading,
        "nearest": state.nearest,
        "words": state.words,
    }
    found: dict[str, NDArray[Any]] = {}
    for name, part in {**parts, "sayers": state.sayers, "bearers": state.bearers, **indexes}.items():
        found |= {
            f"{name}/{field.name}": value
            for field in fields(part)
            if isinstance(value := getattr(part, field.name), np.ndarray)
        }
    return found


def _state(folder: Path, manifest: Mapping[str, Any], options: GraphOptions) -> GraphState:
    with np.load(folder / ARRAYS, allow_pickle=False) as arrays:

        def part(kind: Callable[..., T], name: str, **more: object) -> T:
            prefix = f"{name}/"
            held = {key.removeprefix(prefix): arrays[key] for key in arrays.files if key.startswith(prefix)}
            return kind(**held, **more)

        return GraphState(
            slots=np.arange(manifest["nodes"]),
            vectors=Layers.of(_mapped(folder / VECTORS)),
            words=part(Words, "words", words=Layers.of(_mapped(folder / WORDS))),
            vocabulary=part(Vocabulary, "vocabulary", length=manifest["words"]),
            reading=part(Reading, "reading"),
            nearest=part(Nearest, "nearest"),
            terms={kind.name: part(Terms, f"terms/{i}") for i, kind in enumerate(options.term_kinds)},
            sayers=part(Terms, "sayers"),
            bearers=part(Terms, "bearers"),
        )


def _mapped(path: Path) -> NDArray[Any]:
    """Return an array that stays in its file; a plain one, since those that know it is a file are slow."""
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def _described(options: GraphOptions) -> dict[str, Any]:
    kinds = [
        {field.name: getattr(kind, field.name) for field in fields(kind) if field.name != "of"}
        | {"of": function_name(kind.of)}
        for kind in options.kinds
    ]
    return {field.name: getattr(options, field.name) for field in fields(options)} | {"kinds": kinds}


def _options(folder: Path, described: Mapping[str, Any]) -> GraphOptions:
    known = {function_name(of): of for of in _KNOWN}
    kinds = []
    for kind in described["kinds"]:
        if kind["of"] not in known:
            what = f"its graph has edges {kind['name']!r} by {kind['of']}, which is not known here"
            raise LibraryError(str(folder), what, "load(folder, options) with the options it was built with")
        kinds.append(TermEdges(**{**kind, "of": known[kind["of"]]}))
    return GraphOptions(**{**described, "kinds": tuple(kinds)})


def _stamp(path: Path) -> list[int]:
    """Return size and CRC-32 of a file."""
    size, crc = 0, 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            size, crc = size + len(block), zlib.crc32(block, crc)
    return [size, crc]


def _read(folder: Path, read: Callable[[], T]) -> T:
    """Return what is read from files, any way in which these may be wrong being one error."""
    try:
        return read()
    except FileNotFoundError as error:
        raise _damaged(folder, f"{Path(error.filename).name} is missing") from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, ParameterError):
            raise _damaged(folder, f"its options are not valid ({error})") from None
        raise _damaged(folder, f"its files cannot be read ({type(error).__name__})") from None


def _damaged(folder: Path, what: str) -> LibraryError:
    return LibraryError(
        str(folder), f"no whole graph is in this folder: {what}; nothing was changed", "building it again"
    )

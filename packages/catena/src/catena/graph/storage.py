"""Write a graph into a folder and read it again; export it to NetworkX and GraphML.

Arrays are kept without pickle, vectors and words are mapped into memory, and a manifest tells damage. Nodes are lines
of JSON, which a loaded graph holds in memory and reads one by one, when it is asked for them.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from catena.graph.options import FORMAT, GraphOptions, Node, TermEdges, function_name, keywords_of_node, names_of_node
from catena.graph.semantic import NearestNodes
from catena.graph.state import GraphState, ReadingOrder, compact
from catena.graph.term_index import GrowingRows, NodeWords, TermIndex, Vocabulary
from catena.model import Chunk, FrozenMetadata, PageBox, plain_metadata
from catena.model.errors import LibraryError, MissingExtraError, ParameterError
from catena.model.neighbourhood import SEMANTIC, STRUCTURAL
from catena.store.derived import checksum

if TYPE_CHECKING:
    import networkx

    from catena.graph.chunk_graph import ChunkGraph


_OF_CHUNK = ("id", "document_id", "position", "start", "end", "kind", "path", "section", "pages", "lines", "text")


def to_line(node: Node | bytes) -> bytes:
    """Return a node as one line, without its end; ASCII, so that broken characters survive.

    Raises:
        ParameterError: metadata that no store can keep.
    """
    if isinstance(node, bytes):
        return node
    chunk = node.chunk
    said = plain_metadata(chunk.metadata, f"chunk {chunk.id!r}")
    fields = [getattr(chunk, name) for name in _OF_CHUNK]
    rest = [chunk.page_labels, chunk.boxes] if chunk.boxes else [chunk.page_labels]
    return json.dumps([*fields, said, node.titles, node.keywords, node.names, *rest]).encode("ascii")


def to_node(line: Node | bytes) -> Node:
    """Return the node of a line."""
    if isinstance(line, Node):
        return line
    fields = [tuple(each) if isinstance(each, list) else each for each in json.loads(line)]
    metadata, titles, keywords, names, *more = fields[len(_OF_CHUNK) :]
    placed: list[Any] = [*more, None, ()]  # lines of older graphs have no labels
    of_chunk: dict[str, Any] = dict(zip(_OF_CHUNK, fields, strict=False))
    of_chunk |= {"page_labels": placed[0] or None, "boxes": tuple(PageBox(*box) for box in placed[1] or ())}
    chunk = Chunk(**of_chunk, metadata=FrozenMetadata(metadata))
    return Node(chunk=chunk, titles=titles, keywords=keywords, names=names)


T = TypeVar("T")

MANIFEST: Final = "graph.json"
NODES: Final = "nodes.jsonl"
IDS: Final = "ids.json"
VECTORS: Final = "vectors.npy"
WORDS: Final = "words.npy"
ARRAYS: Final = "arrays.npz"
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
        manifest: dict[str, Any] = {"format": FORMAT, "nodes": len(nodes), "words": state.vocabulary.length}
        manifest |= {"identity": options.identity, "options": _described(options)}
        manifest["files"] = {name: _stamp(folder / name) for name in (NODES, IDS, VECTORS, WORDS, ARRAYS)}
        _replace(folder / MANIFEST, lambda file: file.write(json.dumps(manifest, indent=1).encode("ascii")))
    except OSError as error:
        what = f"the graph cannot be written ({error}); the graph in memory is whole"
        raise LibraryError(str(folder), what, "another folder, or more disk space") from None


def load(
    folder: Path, options: GraphOptions | None
) -> tuple[tuple[bytes, ...], tuple[str, ...], GraphState, GraphOptions]:
    """Read the graph that `save` wrote; return its nodes as lines, ids, state and options.

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
    """Replace a file, which may still be mapped into the memory of a process."""
    draft = path.with_name(f"{path.name}.tmp")
    with draft.open("wb") as file:
        write(file)
    draft.replace(path)


def _arrays(state: GraphState) -> dict[str, NDArray[Any]]:
    """Return all arrays of a compact state but vectors and words, by name."""
    parts: dict[str, Any] = {name: getattr(state, name) for name in ("vocabulary", "reading", "nearest", "words")}
    parts |= {"sayers": state.mentions, "bearers": state.titles}
    parts |= {f"terms/{i}": index for i, index in enumerate(state.terms.values())}
    found: dict[str, NDArray[Any]] = {}
    for name, part in parts.items():
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
            vectors=GrowingRows.of(_mapped(folder / VECTORS)),
            words=part(NodeWords, "words", words=GrowingRows.of(_mapped(folder / WORDS))),
            vocabulary=part(Vocabulary, "vocabulary", length=manifest["words"]),
            reading=part(ReadingOrder, "reading"),
            nearest=part(NearestNodes, "nearest"),
            terms={kind.name: part(TermIndex, f"terms/{i}") for i, kind in enumerate(options.term_kinds)},
            mentions=part(TermIndex, "sayers"),
            titles=part(TermIndex, "bearers"),
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
    return [path.stat().st_size, checksum(path)]


def _read(folder: Path, read: Callable[[], T]) -> T:
    """Read from files; raise one error for any way in which they may be damaged."""
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


# What XML 1.0 has no form for; a carriage return is among it, since readers make a line feed of one.
_UNPRINTABLE = re.compile("[^\t\n\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_networkx(graph: ChunkGraph) -> networkx.Graph[str]:
    """Return the graph for NetworkX: nodes by chunk id, one edge for each two that anything joins.

    Nodes have `document`, `position`, `path`, `kind`, `titles`, `keywords` and `names`. Edges have the weight of each
    kind that joins the two under the name of the kind, and what they share there under that name and "_words"; all is
    seen from the lower id, so that "mention" is there where the text of the lower id holds a title of the higher.
    Lists are strings, divided by "; " (headings by " > "), as GraphML has no lists.

    Raises:
        MissingExtraError: NetworkX is not installed.
    """
    if find_spec("networkx") is None:
        raise MissingExtraError("networkx", "catena-core[graph]")
    import networkx

    made: networkx.Graph[str] = networkx.Graph()
    for chunk_id in graph.ids:
        made.add_node(chunk_id, **_node_attributes(graph, chunk_id))
    for kind in graph.kinds:
        links = graph.links(kind)
        ends = zip(links.sources.tolist(), links.targets.tolist(), links.weights.tolist(), strict=True)
        for one, other, weight in ((graph.ids[a], graph.ids[b], weight) for a, b, weight in ends if a < b):
            made.add_edge(one, other, **{kind: round(weight, 6)})
            if kind not in (STRUCTURAL, SEMANTIC):
                made.add_edge(one, other, **{f"{kind}_words": "; ".join(graph.shared_words(one, other, kind))})
    return made


def write_graphml(graph: ChunkGraph, path: Path) -> None:
    r"""Write what `to_networkx` returns as a GraphML file; characters that XML cannot hold are written as \u0000.

    Raises:
        MissingExtraError: NetworkX is not installed.
        LibraryError: the file cannot be written.
    """
    made = to_networkx(graph)
    import networkx

    plain: networkx.Graph[str] = networkx.Graph()
    plain.add_nodes_from((_printable(node), _plain(held)) for node, held in made.nodes(data=True))
    plain.add_edges_from((_printable(a), _printable(b), _plain(held)) for a, b, held in made.edges(data=True))
    try:
        networkx.write_graphml_xml(plain, path)
    except OSError as error:
        what = f"the graph cannot be written ({error}); the graph in memory is whole"
        raise LibraryError(str(path), what, "another folder") from None


def _node_attributes(graph: ChunkGraph, chunk_id: str) -> dict[str, str | int]:
    node = graph.node(chunk_id)
    return {
        "document": node.chunk.document_id,
        "position": node.chunk.position,
        "path": " > ".join(node.chunk.path),
        "kind": node.chunk.kind,
        "titles": "; ".join(node.titles),
        "keywords": "; ".join(node.keywords),
        "names": "; ".join(node.names),
    }


def _plain(held: dict[str, object]) -> dict[str, object]:
    return {_printable(key): _printable(value) if isinstance(value, str) else value for key, value in held.items()}


def _printable(text: str) -> str:
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)

"""A graph for other tools: as a NetworkX graph, and as a GraphML file."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import TYPE_CHECKING

from catena.model.errors import LibraryError, MissingExtraError
from catena.model.neighbourhood import SEMANTIC, STRUCTURAL

if TYPE_CHECKING:
    from pathlib import Path

    import networkx

    from catena.graph.chunk_graph import ChunkGraph

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
        raise MissingExtraError("networkx", "graph")
    import networkx

    made: networkx.Graph[str] = networkx.Graph()
    for chunk_id in graph.ids:
        made.add_node(chunk_id, **_described(graph, chunk_id))
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


def _described(graph: ChunkGraph, chunk_id: str) -> dict[str, str | int]:
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

"""Graphs on disk and for other tools: a loaded graph equals the saved one, and a damaged one is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from graph_cases import DIM, assert_same, graph_options, node, nodes_and_vectors
from hypothesis import given, settings

from catena.graph import ChunkGraph, GraphOptions, Node, TermEdges
from catena.model import LibraryError, MissingExtraError, PageBox, ParameterError

BROKEN = "a\x00b\x1b \ud800 <&>\r\n 電池"


def small() -> ChunkGraph:
    nodes = [node(i, "alpha beta", titles=["beta" * (i % 2)], names=["x y"], keywords=["k"]) for i in range(6)]
    return ChunkGraph.build(nodes, np.eye(6, DIM) + 0.1)


@settings(max_examples=25)
@given(nodes_and_vectors(), graph_options())
def test_what_is_loaded_is_what_was_saved(tmp_path_factory, case, options):
    folder = tmp_path_factory.mktemp("graph")
    graph = ChunkGraph.build(*case, options)
    graph.save(folder)
    loaded = ChunkGraph.load(folder)
    assert loaded.options == options
    assert [loaded.node(each) for each in loaded.ids] == [graph.node(each) for each in graph.ids]
    assert_same(loaded, graph)
    assert not list(folder.glob("*.tmp"))
    changed = graph.updated(removed=graph.ids[:2])
    loaded.updated(removed=graph.ids[:2]).save(folder)
    assert_same(ChunkGraph.load(folder), changed)
    assert_same(loaded, graph)  # its files were replaced, not overwritten


def test_chunks_keep_everything_on_disk(tmp_path):
    plain = node(0, BROKEN, titles=[BROKEN])
    placed = {"path": ("A", BROKEN), "section": 3, "pages": (1, 2), "lines": (4, 5)}
    box = PageBox(1, 60.0, 180.5, 262.0, 190.0)
    chunk = replace(plain.chunk, kind="table", boxes=(box,), metadata={"n": [1, None]}, **placed)
    ChunkGraph.build([replace(plain, chunk=chunk)], np.ones((1, DIM))).save(tmp_path)
    read = ChunkGraph.load(tmp_path).chunk(plain.id)
    assert (read, read.boxes) == (chunk, chunk.boxes)
    odd = replace(plain, chunk=replace(chunk, metadata={"set": object()}))
    with pytest.raises(ParameterError, match="metadata of chunk"):
        ChunkGraph.build([odd], np.ones((1, DIM))).save(tmp_path)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0x55
    path.write_bytes(raw)


@pytest.mark.parametrize("harm", [cut, flip, Path.unlink])
def test_damaged_files_are_never_a_graph(tmp_path, harm):
    for name in ("graph.json", "nodes.jsonl", "ids.json", "vectors.npy", "words.npy", "arrays.npz"):
        small().save(tmp_path)
        harm(tmp_path / name)
        with pytest.raises(LibraryError, match=r"(graph|nothing was changed).*Try: "):
            ChunkGraph.load(tmp_path)


def test_foreign_folders_and_other_versions_are_named(tmp_path):
    with pytest.raises(LibraryError, match=r"graph\.json is missing"):
        ChunkGraph.load(tmp_path / "nowhere")
    small().save(tmp_path)
    manifest = json.loads((tmp_path / "graph.json").read_bytes())
    (tmp_path / "graph.json").write_text(json.dumps(manifest | {"format": 99}))
    with pytest.raises(LibraryError, match="no graph of this version"):
        ChunkGraph.load(tmp_path)
    for missing in manifest.keys() - {"format"}:
        (tmp_path / "graph.json").write_text(json.dumps({key: manifest[key] for key in manifest.keys() - {missing}}))
        with pytest.raises(LibraryError):
            ChunkGraph.load(tmp_path)
    with pytest.raises(LibraryError, match="cannot be written"):
        small().save(tmp_path / "graph.json")


def lengths(one: Node) -> list[str]:
    return [str(len(one.chunk.text))]


def test_kinds_of_ones_own_are_given_again(tmp_path):
    options = GraphOptions(kinds=(TermEdges(name="length", of=lengths),))
    graph = ChunkGraph.build([node(0, "ab"), node(4, "cd")], np.eye(2, DIM), options)
    graph.save(tmp_path)
    with pytest.raises(LibraryError, match=r"edges 'length' by .*lengths, which is not known here.*Try: load"):
        ChunkGraph.load(tmp_path)
    with pytest.raises(LibraryError, match="built with other options"):
        ChunkGraph.load(tmp_path, GraphOptions())
    assert_same(ChunkGraph.load(tmp_path, options), graph)


def test_networkx_gets_one_edge_a_pair_with_all_weights(monkeypatch):
    pytest.importorskip("networkx")
    graph = small()
    made = graph.to_networkx()
    assert list(made.nodes) == list(graph.ids)
    assert sum(dict(made.degree()).values()) == graph.degrees().sum()
    for one, other, held in made.edges(data=True):
        edge = graph.edge(*sorted((one, other)))
        weights = {kind: weight for kind, weight in held.items() if not kind.endswith("_words")}
        assert weights == pytest.approx(dict(edge.weights), abs=1e-6)
        said = {kind: "; ".join(words) for kind, words in edge.words.items()}
        assert {kind: held[f"{kind}_words"] for kind in edge.words} == said
    first = graph.node(graph.ids[0])
    said = {"path": "", "kind": "text", "keywords": "k", "names": "x y", "titles": "; ".join(first.titles)}
    assert made.nodes[first.id] == {"document": first.chunk.document_id, "position": first.chunk.position, **said}
    monkeypatch.setattr("catena.graph.storage.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install './packages/catena\[graph\]'"):
        graph.to_networkx()


def test_graphml_is_well_formed_whatever_the_text(tmp_path):
    networkx = pytest.importorskip("networkx")
    nodes = [node(i, BROKEN, names=[BROKEN], keywords=[BROKEN], titles=[BROKEN]) for i in range(3)]
    graph = ChunkGraph.build(nodes, np.eye(3, DIM) + 0.1)
    graph.write_graphml(tmp_path / "graph.graphml")
    read, made = networkx.read_graphml(tmp_path / "graph.graphml"), graph.to_networkx()
    assert set(read.nodes) == set(made.nodes)
    assert {frozenset(edge) for edge in read.edges} == {frozenset(edge) for edge in made.edges}
    for chunk_id, held in read.nodes(data=True):
        assert held["keywords"] == "a\\u0000b\\u001b \\ud800 <&>\\u000d\n 電池"
        assert held["position"] == made.nodes[chunk_id]["position"]
    with pytest.raises(LibraryError, match="cannot be written"):
        graph.write_graphml(tmp_path / "nowhere" / "graph.graphml")

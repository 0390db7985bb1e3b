"""The graph of a library is that of what the library holds, whatever happened to either."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from catena import CancelledError, Document, Library, LibraryError, ParameterError, arun, run
from catena.effects import Cancel, CountWords, DescribeEdges, Expand, FetchById, FetchNodes, FindCovering, Search, ask
from catena.enrichment import GraphKeywords
from catena.graph import KEYWORDS, NAMES, ChunkGraph, GraphOptions, Node, TermEdges, function_name, node_of
from catena.library import Preparation
from catena.library import graph as library_graph
from catena.store import Manifest
from catena.testing import FakeEmbedder, FakeLLM

EMBEDDER = FakeEmbedder(16)
OPTIONS = GraphOptions(neighbours=2)
PARTS = (
    "The Kestrel K200 debug probe flashes the board over its clock line.",
    "Set the jumper J14 before the Osprey boots, or the voltage regulator stays off.",
    "The voltage regulator of the Kestrel K200 feeds the debug probe and the clock line.",
    "See Osprey reference for the jumper J14.",
)


def document(name: str, parts: Sequence[int], title: str = "") -> Document:
    sections = "".join(f"\n## Part {part}\n\n{PARTS[part]}\n" for part in parts)
    return Document(id=name, text=f"# {title or name} reference\n{sections}", media_type="text/markdown")


open_library = partial(Library.open, embedder=EMBEDDER, lexical="rank-bm25")


def filled(path: Path) -> Path:
    with open_library(path) as library:
        library.add(document("Kestrel", [0, 2]), document("Osprey", [1, 3]), document("Heron", [3, 0]))
        library.build_graph(OPTIONS)
    return path


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    with open_library(filled(tmp_path / "library")) as opened:
        yield opened


def rebuilt(library: Library, options: GraphOptions = OPTIONS) -> ChunkGraph:
    """The graph of what the library says that it holds, of vectors made anew."""
    entries = [library.get(info.id) for info in library.documents()]
    headed = {view.chunk_id: view.text for entry in entries for view in entry.views if view.kind == "headed"}
    chunks = sorted((chunk for entry in entries for chunk in entry.chunks), key=lambda chunk: chunk.id)
    vectors = EMBEDDER.embed_documents([headed[chunk.id] for chunk in chunks])
    return ChunkGraph.build([node_of(chunk) for chunk in chunks], np.asarray(vectors, np.float32), options)


def told(graph: ChunkGraph) -> tuple[object, ...]:
    """All that a graph says."""
    around = graph.expand(Expand(chunk_ids=graph.ids, words=("jumper", "clock")))
    arrays = (around.source, around.target, around.weights, around.nodes.counts, around.nodes.lengths)
    vectors = graph.nodes(FetchNodes(chunk_ids=graph.ids)).vectors
    nodes = tuple(graph.node(chunk_id) for chunk_id in graph.ids)
    return (nodes, vectors.tobytes(), around.nodes.ids, around.kinds, *(array.tobytes() for array in arrays))


# what it is made of


def test_a_library_has_the_graph_of_its_chunks(library: Library) -> None:
    graph = library.graph
    kestrel = library.get("Kestrel").chunks
    edge = graph.edge(kestrel[0].id, kestrel[1].id)
    assert edge is not None
    assert edge.weights["structural"] == 1.0
    assert "kestrel k200" in edge.words["name"]
    assert library.has_graph
    assert len(graph.ids) == 6
    assert graph.options == OPTIONS
    assert told(graph) == told(rebuilt(library))
    assert library.graph is graph  # nothing is read again while nothing changes


def test_of_a_chunk_with_several_vectors_it_takes_their_mean(tmp_path: Path) -> None:
    from catena.library import FixedLength

    how = Preparation(chunks=FixedLength(tokens=100, inside_sections=False), passage_tokens=12)
    with open_library(tmp_path / "library", preparation=how) as library:
        library.add(document("Kestrel", [0, 1, 2, 3]))
        graph = library.build_graph()
        (chunk,) = library.get("Kestrel").chunks
        rows = [view.text for view in library.get("Kestrel").views if view.kind == "passage"]
        assert len(rows) > 1
        mean = np.mean(np.asarray(EMBEDDER.embed_documents(rows), np.float64), axis=0)
        (vector,) = graph.nodes(FetchNodes(chunk_ids=(chunk.id,))).vectors
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-6)
        with library.store.contents() as contents:
            np.testing.assert_allclose(np.linalg.norm(contents.vectors([chunk.id]), axis=1), 1.0, atol=1e-6)


def test_an_empty_library_may_have_a_graph(tmp_path: Path) -> None:
    with open_library(tmp_path / "library") as library:
        assert library.build_graph(OPTIONS).ids == ()
        library.add(document("Kestrel", [0, 2]))
        assert told(library.graph) == told(rebuilt(library))
        library.delete("Kestrel")
        assert library.graph.ids == ()
        assert library.verify() == ()


# the law

NAMED = st.sampled_from(["Kestrel", "Osprey", "Heron", "Merlin"])
CONTENT = st.lists(st.integers(0, len(PARTS) - 1), min_size=1, max_size=4)
ACTS = st.one_of(
    st.tuples(st.just("put"), NAMED, CONTENT, st.sampled_from(["", "Swift"])),
    st.tuples(st.just("delete"), NAMED),
    st.tuples(st.sampled_from(["walk", "reopen", "lose"])),
)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.lists(ACTS, max_size=9))
def test_it_is_always_the_graph_of_what_is_there(tmp_path_factory: pytest.TempPathFactory, acts: list) -> None:
    path = filled(tmp_path_factory.mktemp("law") / "library")
    library = open_library(path)
    try:
        for what, *how in acts:
            if what == "put":
                library.replace(document(*how))
            elif what == "delete":
                if how[0] in {info.id for info in library.documents()}:
                    library.delete(how[0])
            elif what in ("reopen", "lose"):
                library.close()
                if what == "lose":
                    shutil.rmtree(path / "graph", ignore_errors=True)
                library = open_library(path)
            else:
                assert told(library.graph) == told(rebuilt(library))
        assert told(library.graph) == told(rebuilt(library))
        assert library.verify() == ()
    finally:
        library.close()


def test_a_change_of_place_alone_reaches_the_graph(library: Library) -> None:
    before = library.graph
    library.replace(document("Osprey", [1, 3], title="Merlin"))  # the same texts under another title
    assert told(library.graph) == told(rebuilt(library))
    assert library.graph.node(library.get("Osprey").chunks[0].id).titles[0] == "Merlin reference"
    library.replace(document("Osprey", [0, 1, 3]))
    assert told(library.graph) == told(rebuilt(library))
    library.replace(document("Osprey", [1, 3]))  # all that stays moves back to where it was
    assert told(library.graph) == told(rebuilt(library))
    library.replace(document("Osprey", [3, 1]))
    assert told(library.graph) == told(rebuilt(library))
    assert len(before.ids) == 6  # what was given out does not change


# when it is read and written


def test_nothing_of_it_is_read_or_written_before_a_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path / "library")
    files = {file.name: file.stat().st_mtime_ns for file in (path / "graph").iterdir()}

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the graph is not needed yet")

    with monkeypatch.context() as patch:
        for name in ("load", "build", "updated", "save"):
            patch.setattr(ChunkGraph, name, refuse)
        with open_library(path) as library:
            library.add(document("Merlin", [0]))
            library.delete("Heron")
            assert library.has_graph
            assert library.search("Kestrel").hits
    with open_library(path) as library:
        assert told(library.graph) == told(rebuilt(library))
    assert {file.name: file.stat().st_mtime_ns for file in (path / "graph").iterdir()} == files


def test_when_much_has_changed_the_files_are_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path / "library")
    monkeypatch.setattr(library_graph, "_TAIL", 2)
    with open_library(path) as library:
        generation = Manifest.read(path / "graph").generation
        library.add(document("Merlin", [0, 1]))
        assert told(library.graph) == told(rebuilt(library))
        assert Manifest.read(path / "graph").generation == generation
        library.add(document("Swift", [2]))
        assert told(library.graph) == told(rebuilt(library))
        written = Manifest.read(path / "graph")
        assert written.generation == library.stats().generation
        library.delete("Swift")
        assert told(library.graph) == told(rebuilt(library))
        assert Manifest.read(path / "graph") == written
        library.build_graph(OPTIONS)
    monkeypatch.setattr(ChunkGraph, "updated", None)
    with open_library(path) as library:  # and nothing is left to be caught up with
        assert told(library.graph) == told(rebuilt(library))


def test_a_writer_elsewhere_does_not_keep_a_walk_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path / "library")
    monkeypatch.setattr(library_graph, "_TAIL", 0)
    monkeypatch.setattr(library_graph, "_TAIL_PART", 0.0)
    with open_library(path) as library, open_library(path) as other:
        library.add(document("Merlin", [0, 1]))
        before = Manifest.read(path / "graph")
        with other.store.exclusive():
            assert told(library.graph) == told(rebuilt(library))
        assert Manifest.read(path / "graph") == before
        library.delete("Merlin")
        assert told(library.graph) == told(rebuilt(library))
        assert Manifest.read(path / "graph").generation == library.stats().generation


def test_a_graph_can_be_built_otherwise_and_dropped(library: Library) -> None:
    wide = replace(OPTIONS, neighbours=4, mentions=False, kinds=(replace(KEYWORDS, more_than=0, cap=0.9), NAMES))
    library.build_graph(wide)
    assert library.graph.options == wide
    with open_library(library.store.path) as other:
        assert other.graph.options == wide
        assert told(other.graph) == told(rebuilt(library, wide))
        library.drop_graph()
        assert not other.has_graph
        with pytest.raises(LibraryError, match=r"it has no graph\. Try: Library\.build_graph"):
            _ = other.graph
    assert not (library.store.path / "graph").exists()
    assert library.verify() == ()
    library.drop_graph()


def test_a_graph_that_was_dropped_meanwhile_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path / "library")
    shutil.rmtree(path / "graph")
    build = ChunkGraph.build
    with open_library(path) as library, open_library(path) as other:

        def dropped(*arguments: object, **how: object) -> ChunkGraph:
            other.drop_graph()
            return build(*arguments, **how)

        monkeypatch.setattr(ChunkGraph, "build", dropped)
        assert len(library.graph) == 6  # of the moment at which it was asked for
        assert not (path / "graph").exists()
        assert not library.has_graph


def test_a_build_that_is_stopped_leaves_the_graph_that_was_there(library: Library) -> None:
    cancel = Cancel()
    cancel.set()
    with pytest.raises(CancelledError):
        library.build_graph(replace(OPTIONS, neighbours=1), cancel=cancel)
    assert library.graph.options == OPTIONS


# damage


def test_a_wrong_graph_in_whole_files_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path / "library")
    real = library_graph.node_of
    with open_library(path) as library:
        monkeypatch.setattr(library_graph, "node_of", lambda chunk, **how: replace(real(chunk, **how), keywords=()))
        library.build_graph(OPTIONS)
        monkeypatch.setattr(library_graph, "node_of", real)
        (problem,) = library.verify()
        assert problem == "the graph (6 nodes) is not that of the library's chunks (6)"
        library.build_graph(OPTIONS)
        assert library.verify() == ()


KILLED = """
import os, sys
sys.path[:0] = [sys.argv[2]]
from catena.library import graph as library_graph
from test_library_graph import *

def die(*_, **__):
    os._exit(9)

path, where = Path(sys.argv[1]), sys.argv[3]
with open_library(path) as library:
    library.add(document("Merlin", [0, 1]))
    if where == "before":
        library_graph.cleared = die
    elif where == "half-way":
        library_graph.np.save = die
    elif where == "unsealed":
        library_graph.seal = die
    library.build_graph(replace(OPTIONS, neighbours=3))
"""


@pytest.mark.slow
@pytest.mark.parametrize("where", ["before", "half-way", "unsealed"])
def test_a_kill_while_it_is_written_leaves_the_graph_that_was_there(tmp_path: Path, where: str) -> None:
    path = filled(tmp_path / "library")
    command = [sys.executable, "-c", KILLED, str(path), str(Path(__file__).parent), where]
    assert subprocess.run(command, check=False).returncode == 9
    with open_library(path) as library:
        assert library.verify() == ()
        assert told(library.graph) == told(rebuilt(library))
        library.build_graph(replace(OPTIONS, neighbours=3))
        assert told(library.graph) == told(rebuilt(library, replace(OPTIONS, neighbours=3)))
        library.drop_graph()
        assert not list(path.glob("graph*"))


@pytest.mark.parametrize("has_one", [True, False])
def test_a_full_disk_leaves_the_graph_as_it_was(
    library: Library, monkeypatch: pytest.MonkeyPatch, has_one: bool
) -> None:
    if not has_one:
        library.drop_graph()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    wide = replace(OPTIONS, neighbours=4)
    with monkeypatch.context() as patch:
        patch.setattr(library_graph, "seal", full)
        with pytest.raises(LibraryError, match=r"No space left on device.*all documents are stored"):
            library.build_graph(wide)
    with open_library(library.store.path) as other:
        for each in (library, other):
            assert each.has_graph == has_one
            assert each.verify() == ()
            if has_one:
                assert told(each.graph) == told(rebuilt(library))


# kinds of edge of one's own


def first_words(node: Node) -> tuple[str, ...]:
    return tuple(node.chunk.text.lower().split()[:4])


OWN = TermEdges(name="first words", of=first_words, cap=0.9)


def test_a_kind_of_edge_of_ones_own_has_to_be_known_where_the_graph_is_read(library: Library) -> None:
    own = replace(OPTIONS, kinds=(*OPTIONS.kinds, OWN))
    library.build_graph(own)
    library.add(document("Merlin", [0]))
    assert told(library.graph) == told(rebuilt(library, own))
    with open_library(library.store.path, graph_kinds=[OWN]) as other:
        assert told(other.graph) == told(rebuilt(library, own))
    with open_library(library.store.path) as other:
        with pytest.raises(LibraryError, match=r"edges 'first words' by .*first_words.*graph_kinds"):
            _ = other.graph
        assert other.verify()[0].startswith("the graph cannot be compared: ")


def test_functions_that_the_library_could_not_tell_apart_are_refused(library: Library) -> None:
    one, other = (TermEdges(name=name, of=lambda node, name=name: (name, *node.names)) for name in ("one", "other"))
    with pytest.raises(ParameterError, match=r"edges 'other' must be a function whose name no other kind's has"):
        library.build_graph(replace(OPTIONS, kinds=(one, other)))
    with pytest.raises(ParameterError, match=r"edges 'other' must be a function whose name no other kind's has"):
        open_library(library.store.path, graph_kinds=[one, other])
    wrong: Any = {"neighbours": 2}
    with pytest.raises(ParameterError, match="options must be GraphOptions"):
        library.build_graph(wrong)
    with pytest.raises(ParameterError, match="kind of edge must be TermEdges"):
        open_library(library.store.path, graph_kinds=wrong)
    assert told(library.graph) == told(rebuilt(library))


def test_options_that_cannot_be_read_are_refused_by_name(library: Library) -> None:
    library.store.remember("graph", json.dumps({"neighbours": -1, "kinds": []}))
    with pytest.raises(LibraryError, match=r"options of its graph are of another version.*Try: Library\.build_graph"):
        _ = library.graph
    library.build_graph(OPTIONS)
    assert told(library.graph) == told(rebuilt(library))


# steps, threads, processes


def asked(library: Library) -> list[object]:
    ids = tuple(chunk.id for chunk in library.get("Kestrel").chunks)
    words = ("jumper",)
    return [
        Expand(chunk_ids=ids, words=words),
        FetchNodes(chunk_ids=ids),
        CountWords(words=words),
        FetchById(chunk_ids=(*ids, "x")),
        DescribeEdges(pairs=(ids,)),
        FindCovering(terms=("voltage regulator", "jumper"), vector=np.ones(16, np.float32)),
    ]


def test_steps_are_answered_by_the_graph_of_the_library(library: Library) -> None:
    requests = asked(library)
    around, nodes, counts, chunks, edges, covering = run(ask(requests), library.services)
    assert around.sources == nodes.ids == requests[1].chunk_ids
    assert edges == (library.graph.edge(*nodes.ids),)
    assert covering.ids == (library.get("Osprey").chunks[0].id,)
    assert (counts.nodes, counts.holding) == (6, (3,))
    assert chunks == (*library.get("Kestrel").chunks, None)
    library.add(document("Heron 2", [0]))
    with closing(library.store.snapshot()) as earlier:
        with earlier.active():
            assert len(library.documents()) == 4
        library.add(document("Merlin", [1, 1, 3]))
        (counts,) = run(ask(requests[2:3]), library.services)
        assert (counts.nodes, counts.holding) == (10, (6,))
        with earlier.active():  # a question that began before
            assert len(library.graph) == 7


async def test_reading_it_does_not_block_the_loop(tmp_path: Path) -> None:
    with open_library(filled(tmp_path / "library")) as library:
        requests = asked(library)
        with blockbuster_ctx(["catena"]):
            around, *_ = await arun(ask(requests), library.services)
        assert around.sources == requests[0].chunk_ids


def test_threads_wait_for_one_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, done = filled(tmp_path / "library"), []
    for owner, name in ((ChunkGraph, "load"), (library_graph, "_change")):
        call = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given, call=call: done.append(call) or call(*given))
    with open_library(path) as library, ThreadPoolExecutor(8) as threads:
        graphs = list(threads.map(lambda _: library.graph, range(8)))
    assert len({id(graph) for graph in graphs}) == 1
    assert len(done) == 2  # read once, and once compared with the library


WRITER = """
import sys
sys.path[:0] = [sys.argv[2]]
from catena.library import graph as library_graph
from test_library_graph import *

library_graph._TAIL = 1
with Library.open(sys.argv[1], embedder=EMBEDDER) as library:
    for round in range(4):
        library.add(document(f"{sys.argv[3]}-{round}", [round, 1]))
        assert told(library.graph)
"""


@pytest.mark.slow
def test_processes_write_search_and_walk_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path / "library")
    monkeypatch.setattr(library_graph, "_TAIL", 1)
    command = [sys.executable, "-c", WRITER, str(path), str(Path(__file__).parent)]
    with Library.open(path, embedder=EMBEDDER) as library:
        others = [subprocess.Popen([*command, name]) for name in ("one", "two")]
        for number in range(4):
            library.add(document(f"here-{number}", [0]))
            library.search("jumper")
        while any(other.poll() is None for other in others):
            graph = library.graph
            assert {graph.chunk(chunk_id).id for chunk_id in graph.ids} == set(graph.ids)
        assert [other.wait(60) for other in others] == [0, 0]
        assert len(library.graph.ids) == 6 + 16 + 4
        assert told(library.graph) == told(rebuilt(library))
        dense, words = (
            library.store.search(Search(route=route, query="jumper", vector=np.ones(16), k=99))
            for route in ("dense", "lexical")
        )
        assert (len(dense.hits), len(words.hits)) == (26, 3 + 2 * 6)
        assert library.verify() == ()


# keywords that a model gave


def test_keywords_of_a_view_go_into_the_graph_and_nowhere_else(tmp_path: Path) -> None:
    llm = FakeLLM(lambda request: '["jumper", "J14", "Osprey", "boots"]')
    how = Preparation(views=(GraphKeywords(by="llm"),))
    with open_library(tmp_path / "library", preparation=how, llm=llm) as library:
        library.add(document("Heron", [1]), document("Merlin", [3]))
        graph = library.build_graph(OPTIONS)
        (one,), (two,) = (library.get(name).chunks for name in ("Heron", "Merlin"))
        assert graph.node(one.id).keywords == ("jumper", "j14", "osprey", "boots")
        assert graph.edge(one.id, two.id).weights["keyword"] == 3.0
        assert library.store.view_kinds() == ("graph_keywords", "headed")
        (found,) = library.search("boots", routes=["lexical"]).hits
        assert found.provenance[0].view == "headed"
        by_vector = Search(route="dense", query="", vector=np.ones(16, np.float32), view="graph_keywords", k=9)
        assert library.store.search(by_vector).hits == ()
        assert library.verify() == ()


def test_a_graph_that_is_kept_names_our_functions_as_the_first_release_did() -> None:
    """Else no library with a graph from before a module moved could be read."""
    assert [function_name(kind.of) for kind in (KEYWORDS, NAMES)] == [
        "catena.graph.edge_kinds.keywords_of_node",
        "catena.graph.edge_kinds.names_of_node",
    ]

"""The graph on a server: what lies there, that it answers as the graph in memory, how it is written and replaced."""

from __future__ import annotations

import asyncio
import json
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fake_server import FakeServer
from graph_cases import graph_options, node, nodes_and_vectors
from graph_requests import assert_same, requests
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.effects import CountWords, DescribeEdges, Expand, FetchById, FetchNodes, FindCovering, Retry, run
from catena.graph import ChunkGraph, GraphOptions, Node
from catena.model import Chunk, LibraryError, PageBox, ParameterError, ServerError
from catena_server import BulkOptions, Call, ServerOptions, calling, upload_graph
from catena_server import graph as graph_reading
from catena_server import graph_nodes as graph_index
from catena_server.graph import ServerGraph
from catena_server.graph_nodes import GraphAbout, GraphNode, key_of, node_of, source_of
from catena_server.graph_writing import about_of, drop_graph, put_graph, server_nodes

ONCE = ServerOptions(retry=Retry(attempts=1))
ONE_BY_ONE = BulkOptions(actions=1, in_flight=1)


def graph_of(size: int = 8, text: str = "alpha beta") -> ChunkGraph:
    """A graph in which everybody holds the same words, neighbours in a document are joined, and so are names."""
    nodes = [node(number, text, names=["one"], titles=[f"Title {number}"]) for number in range(size)]
    angles = np.linspace(0, 1, size)
    vectors = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)
    return ChunkGraph.build(nodes, vectors, GraphOptions(neighbours=2))


def put(server: FakeServer, graph: ChunkGraph, name: str = "set", **options: Any) -> Any:
    step = put_graph(name, about_of(graph), server_nodes(graph), **options)
    return run(step, calling(server, ONCE))


# What lies there.


def test_a_node_lies_there_as_a_few_fields_and_one_string() -> None:
    chunk = Chunk(id="c", document_id="d", position=3, start=5, end=9, text="ab\ud800c", path=("H",), pages=(1, 2))
    written = GraphNode(
        chunk=replace(chunk, metadata={"year": 2020}), vector=np.array([1.0, 0.0], np.float32),
        counts={"ab": 2, "h": 1}, titled=frozenset({"h"}), length=3, title_length=1, neighbours=("x",),
        weights=np.array([[0.5, 0.0]], np.float32), terms={"name": ("n",)}, titles=(("2a", "H"),), says=("ff",),
    )  # fmt: skip
    source = source_of(written)
    assert_same(node_of(source, kinds=2), replace(written, chunk=node_of(source, 2).chunk))
    assert node_of(source, kinds=2).chunk == written.chunk
    placed = replace(written, chunk=replace(chunk, boxes=(PageBox(2, 60.0, 180.5, 262.0, 190.0),)))
    assert node_of(source_of(placed), kinds=2).chunk.boxes == placed.chunk.boxes
    text = source.pop("node")
    assert source == {"id": "c", "words": ["ab", "h"], "length": 3, "vector": "AACAPwAAAAA="}
    assert text.isascii()
    assert json.loads(text) == {
        "chunk": ["c", "d", 3, 5, 9, "ab\ud800c", "text", ["H"], 0, [1, 2], None, None, {"year": 2020}],
        "counts": {"ab": 2, "h": 1}, "titled": ["h"], "title_length": 1, "neighbours": ["x"],
        "weights": "AAAAPwAAAAA=", "terms": {"name": ["n"]}, "titles": [["2a", "H"]], "says": ["ff"],
    }  # fmt: skip


def test_the_index_holds_three_fields_and_says_what_it_is() -> None:
    about = GraphAbout(identity="abc", nodes=2, dim=3, kinds=("name", "semantic"), made_of="generation 7")
    body = graph_index.index_body("set", about, shards=2, replicas=1)
    assert body["settings"] == {"number_of_shards": 2, "number_of_replicas": 1, "refresh_interval": "-1"}
    assert body["mappings"]["dynamic"] is False
    assert sorted(body["mappings"]["properties"]) == ["id", "length", "words"]
    assert GraphAbout.from_index("set-graph-abc", body) == about
    assert graph_index.is_graph_of("set", body)
    assert not graph_index.is_graph_of("se", body)


@pytest.mark.parametrize("damage", [{"node": "{"}, {"vector": "?"}, {"node": "[]"}, {"vector": None}])
def test_a_damaged_node_is_named(damage: dict[str, Any]) -> None:
    (written, *_) = server_nodes(graph_of(2))
    with pytest.raises(LibraryError, match=rf"{written.id}.*upload_graph"):
        node_of(source_of(written) | damage, kinds=6)


def test_what_no_server_can_keep_is_refused_before_anything_is_sent() -> None:
    (written, *_) = server_nodes(graph_of(2))
    with pytest.raises(ParameterError, match="Unicode"):
        source_of(replace(written, chunk=replace(written.chunk, id="\ud800")))
    with pytest.raises(ParameterError, match="metadata"):
        source_of(replace(written, chunk=replace(written.chunk, metadata={"x": object()})))  # type: ignore[dict-item]


# It answers as the graph in memory.


@settings(deadline=None)
@given(nodes_and_vectors(), graph_options(), st.sampled_from([0, 3, 100]), st.data(), st.booleans())
def test_every_reply_is_that_of_the_graph_in_memory_and_awaited_too(
    drawn: tuple[list[Node], Any], options: GraphOptions, kept: int, data: st.DataObject, native: bool
) -> None:
    graph, server = ChunkGraph.build(*drawn, options), FakeServer()
    if native:

        async def aperform(call: Call) -> Any:
            return server.perform(call)

        server.aperform = aperform  # type: ignore[attr-defined]
    served = upload_graph(server, "set", graph, nodes_kept=kept)
    for method, request in requests(graph, data.draw):
        wanted = getattr(graph, method)(request)
        assert_same(wanted, getattr(served, method)(request))
        assert_same(wanted, asyncio.run(getattr(served, f"a{method}")(request)))
    assert asyncio.run(served.aabout()) == served.about() == about_of(graph)


@pytest.mark.parametrize("page", [1, 2, 3, 8, 9])
@pytest.mark.parametrize("k", [1, 3, 8, 20])
def test_all_that_may_be_among_the_best_are_compared(page: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(8)
    served = upload_graph(FakeServer(), "set", graph)
    for module in (graph_index, graph_reading):
        monkeypatch.setattr(module, "PAGE", page)
    for terms in (("alpha",), ("alpha", "title 3"), ("title", "3", "5"), ("nothing",), ("", "?")):
        request = FindCovering(terms=terms, vector=np.array([0.6, 0.8, 0.0]), k=k, words=("alpha",))
        assert_same(graph.covering(request), served.covering(request))


def test_a_hop_takes_two_look_ups_and_none_where_the_nodes_are_known() -> None:
    graph, server = graph_of(8), FakeServer()
    served = upload_graph(server, "set", graph, nodes_kept=8)
    server.calls.clear()
    request = Expand(chunk_ids=graph.ids[:2])
    served.expand(request)
    assert [path.rsplit("/", 1)[-1] for path in server.paths] == ["set-graph", "_mget", "_mget"]
    served.expand(request)
    served.chunks_by_id(FetchById(chunk_ids=graph.ids[:2]))
    served.describe_edges(DescribeEdges(pairs=(graph.ids[:2],)))  # type: ignore[arg-type]
    assert len(server.calls) == 3


def test_kinds_of_edge_and_the_vector_are_checked() -> None:
    served = upload_graph(FakeServer(), "set", graph_of())
    with pytest.raises(ParameterError, match="semantic"):
        served.expand(Expand(chunk_ids=(), kinds=("unknown",)))
    with pytest.raises(ParameterError, match=r"\(3,\)"):
        served.covering(FindCovering(terms=("alpha",), vector=np.zeros(2)))


# How it is written, and replaced.


def test_the_old_graph_is_walked_until_the_new_one_is_whole() -> None:
    old, new, server = graph_of(4, "alpha"), graph_of(6, "beta"), FakeServer()
    served = upload_graph(server, "set", old)
    seen: list[int] = []
    server.fails = lambda call: seen.append(count(server)) if call.path == "/_bulk" else None
    put(server, new, options=ONE_BY_ONE)
    server.fails = lambda call: None
    assert seen == [4] * 6
    assert served.count_words(CountWords(words=("alpha", "beta"))).holding == (0, 6)
    assert served.about() == about_of(new) != about_of(old)
    assert list(server.indices) == [f"set-graph-{new.identity}"]


def count(server: FakeServer) -> int:
    """Nodes of the graph that is found now, by a process that knows nothing yet."""
    fails, server.fails = server.fails, lambda call: None
    try:
        return ServerGraph(server, "set").count_words(CountWords(words=())).nodes
    finally:
        server.fails = fails


def test_what_is_read_while_another_graph_takes_its_place_is_of_one_of_them() -> None:
    old, new, server = graph_of(4, "alpha"), graph_of(4, "beta"), FakeServer()
    served = upload_graph(server, "set", old, nodes_kept=0)
    looked_up: list[Call] = []

    def replaced_between(call: Call) -> None:
        looked_up.extend([call] * call.path.endswith("_mget"))
        if len(looked_up) == 2 and call is looked_up[1]:
            server.fails = lambda call: None
            put(server, new)

    server.fails = replaced_between
    request = Expand(chunk_ids=new.ids, words=("alpha", "beta"))
    assert_same(new.expand(request), served.expand(request))


def test_a_graph_that_is_replaced_all_the_time_is_an_error_to_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, server = graph_of(4), FakeServer()
    served = upload_graph(server, "set", graph)
    monkeypatch.setattr(server, "search", lambda name, body: None)
    with pytest.raises(ServerError, match="3 times") as caught:
        served.count_words(CountWords(words=()))
    assert caught.value.retry
    assert pickle.loads(pickle.dumps(caught.value)).retry


def test_the_same_graph_is_sent_once_and_what_is_said_of_it_kept() -> None:
    graph, server = graph_of(4), FakeServer()
    assert put(server, graph).sent == 4
    assert put(server, graph).sent == 0
    served = upload_graph(server, "set", graph, made_of="generation 8")
    assert served.about().made_of == "generation 8"


def test_a_writing_that_was_killed_goes_on_where_it_ended() -> None:
    graph, server = graph_of(6), FakeServer()
    upload_graph(server, "set", old := graph_of(3, "gamma"))

    def killed(call: Call) -> None:
        if call.path == "/_bulk" and server.paths.count("/_bulk") == 4:
            raise KeyboardInterrupt

    server.calls.clear()
    server.fails = killed
    with pytest.raises(KeyboardInterrupt):
        put(server, graph, options=ONE_BY_ONE)
    server.fails = lambda call: None
    assert ServerGraph(server, "set").about() == about_of(old)
    assert put(server, graph).sent == 3
    assert ServerGraph(server, "set").about() == about_of(graph)
    assert list(server.indices) == [f"set-graph-{graph.identity}"]


def test_a_graph_clears_up_what_another_left_half_written_and_nothing_else() -> None:
    server, half = FakeServer(), graph_of(5, "gamma")
    for name in ("set", "set-graph-of"):  # the graph of the second is named as if it were one of the first
        upload_graph(server, name, graph_of(3))
    about = about_of(half)
    server.create(f"set-graph-{half.identity}", graph_index.index_body("set", about))
    server.create("set-graph-1", {"aliases": {"set-graph": {}}})  # of nobody known
    put(server, graph_of(4))
    assert sorted(server.indices) == sorted(
        [f"set-graph-{graph_of(4).identity}", f"set-graph-of-graph-{graph_of(3).identity}", "set-graph-1"]
    )
    assert server.indices["set-graph-1"].aliases == {}
    assert run(drop_graph("set"), calling(server, ONCE)) == 1
    assert run(drop_graph("set"), calling(server, ONCE)) == 0
    with pytest.raises(LibraryError, match=r"no graph.*upload_graph"):
        ServerGraph(server, "set").about()


def test_a_graph_that_is_refused_or_not_whole_leaves_the_old_one() -> None:
    server, new = FakeServer(), graph_of(5)
    upload_graph(server, "set", old := graph_of(3))
    step = put_graph("set", about_of(new), list(server_nodes(new))[1:])
    with pytest.raises(ParameterError, match=r"5 of the graph; the old graph stays"):
        run(step, calling(server, ONCE))

    def taken_away(call: Call) -> None:
        if call.path == "/_bulk":
            server.indices.pop(f"set-graph-{new.identity}", None)

    server.fails = taken_away
    with pytest.raises(ServerError, match=r"the old one stays.*1 of 1 were refused"):
        put(server, new)
    server.fails = lambda call: None
    assert ServerGraph(server, "set").about() == about_of(old)


def test_a_graph_of_another_format_is_not_misread() -> None:
    graph, server = graph_of(3), FakeServer()
    upload_graph(server, "set", graph)
    server.indices[f"set-graph-{graph.identity}"].mappings["_meta"]["catena"]["format"] = 99
    with pytest.raises(LibraryError, match="format 99"):
        ServerGraph(server, "set").nodes(FetchNodes(chunk_ids=graph.ids))


def test_an_edge_that_leads_nowhere_is_an_error() -> None:
    graph, server = graph_of(3), FakeServer()
    served = upload_graph(server, "set", graph)
    del server.indices[f"set-graph-{graph.identity}"].docs[key_of(graph.ids[1])]
    with pytest.raises(LibraryError, match="not there"):
        served.expand(Expand(chunk_ids=graph.ids[:1]))


@pytest.mark.parametrize(("name", "kept"), [("Set", 1), ("a b", 1), ("set", -1), ("set", True), ("set", 1.5)])
def test_bad_arguments_are_named(name: str, kept: Any) -> None:
    with pytest.raises(ParameterError, match=r"name|nodes_kept"):
        ServerGraph(FakeServer(), name, nodes_kept=kept)

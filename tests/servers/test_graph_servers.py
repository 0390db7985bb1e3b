"""The graph on real servers: every reply that of the graph in memory, the same chains, walks while it is replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from graph_cases import graph_options, node, nodes_and_vectors
from graph_requests import assert_same, requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from catena.effects import CountWords, Retry, run
from catena.graph import ChunkGraph, GraphOptions, Node
from catena.model import LibraryError
from catena_server import BulkOptions, ServerOptions, calling, upload_graph
from catena_server.graph import ServerGraph
from catena_server.graph_writing import about_of, drop_graph, put_graph, server_nodes

ONCE = ServerOptions(retry=Retry(attempts=1))

Fresh = Callable[..., str]


def test_every_reply_is_that_of_the_graph_in_memory(product: tuple[Any, str], fresh_index: Fresh) -> None:
    transport, url = product
    name = fresh_index(url, "e")

    slow = [HealthCheck.too_slow]

    @settings(max_examples=12, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=slow)
    @given(nodes_and_vectors(), graph_options(), st.data())
    def law(drawn: tuple[list[Node], Any], options: GraphOptions, data: st.DataObject) -> None:
        graph = ChunkGraph.build(*drawn, options)
        served = upload_graph(transport, name, graph, nodes_kept=data.draw(st.sampled_from([0, 100])))
        for method, request in requests(graph, data.draw):
            assert_same(getattr(graph, method)(request), getattr(served, method)(request))

    law()
    assert run(drop_graph(name), calling(transport, ONCE)) == 1
    with pytest.raises(LibraryError, match="no graph"):
        ServerGraph(transport, name).about()


def test_walks_go_on_while_another_graph_takes_its_place(product: tuple[Any, str], fresh_index: Fresh) -> None:
    transport, url = product
    name = fresh_index(url, "e")
    old, new = (_numbered(size) for size in (30, 40))
    served = upload_graph(transport, name, old)
    seen = set()

    def watched() -> Iterator[Any]:
        for each in server_nodes(new):
            seen.add(served.count_words(CountWords(words=("alpha",))))
            yield each

    step = put_graph(name, about_of(new), watched(), options=BulkOptions(actions=5, in_flight=1))
    assert run(step, calling(transport, ONCE)).sent == 40
    asked = CountWords(words=("alpha",))
    assert seen == {old.count_words(asked)}
    assert served.count_words(asked) == new.count_words(asked)


def _numbered(size: int) -> ChunkGraph:
    vectors = np.random.default_rng(size).normal(size=(size, 3))
    return ChunkGraph.build([node(number, f"alpha {number}") for number in range(size)], vectors)

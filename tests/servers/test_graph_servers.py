"""The graph on real servers: every reply that of the graph in memory, the same chains, walks while it is replaced."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_cases import graph_options, node, nodes_and_vectors
from graph_requests import assert_same, requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from catena.effects import CountWords, FetchNodes, Retry, Services, run
from catena.enrichment import StaticEmbedder
from catena.graph import PAPER, ChunkGraph, GraphOptions, GraphSearch, Node, node_of, search_graph, widen
from catena.library import Library
from catena.model import Chunk, Hit, LibraryError, Ranking, Scale
from catena_server import (
    BulkOptions,
    ElasticsearchTransport,
    OpenSearchTransport,
    ServerOptions,
    calling,
    upload_graph,
)
from catena_server.graph import ServerGraph
from catena_server.graph_writing import about_of, drop_graph, put_graph, server_nodes

MANUALS = Path(__file__).parents[2] / "packages/catena/src/catena/data/demo"
PASSAGES = 600
ONCE = ServerOptions(retry=Retry(attempts=1))

Fresh = Callable[..., str]


@pytest.fixture(scope="module", params=["elasticsearch", "opensearch"])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[Any, str]]:
    """A transport to a server of each kind, and its address."""
    if request.param == "elasticsearch":
        url = request.getfixturevalue("es_url")
        transport: Any = ElasticsearchTransport.connect(url, api_key=request.getfixturevalue("es_api_key") or None)
    else:
        url = request.getfixturevalue("os_url")
        transport = OpenSearchTransport.connect(url)
    yield transport, url
    transport.close()


def test_every_reply_is_that_of_the_graph_in_memory(server: tuple[Any, str], fresh_index: Fresh) -> None:
    transport, url = server
    name = fresh_index(url, "e")

    @settings(
        max_examples=12,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )
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


def test_a_search_of_the_manuals_finds_the_same_chains(
    server: tuple[Any, str], fresh_index: Fresh, tmp_path: Path
) -> None:
    transport, url = server
    with Library.open(tmp_path / "library") as library:
        library.index(MANUALS)
        library.build_graph()
        served = upload_graph(transport, fresh_index(url, "e"), library.graph)
        services = Services(store=library.store, embedder=library.services.embedder, graph=served)
        for row in json.loads((MANUALS / "questions.json").read_text(encoding="utf-8")):
            for how in (GraphSearch(), GraphSearch(walk=PAPER)):
                found = run(search_graph(row["question"], how), services)
                assert found.chains
                assert found == run(search_graph(row["question"], how), library.services)


@pytest.mark.parametrize("collection", ["hotpotqa", "musique"])
def test_walks_over_passages_of_an_encyclopedia_are_the_same(
    collection: str, server: tuple[Any, str], fresh_index: Fresh, data_at: Callable[..., Path]
) -> None:
    folder = data_at("multihop", collection)
    transport, url = server
    embedder = StaticEmbedder()
    graph = passage_graph(folder, embedder)
    served = upload_graph(transport, fresh_index(url, "e"), graph)
    rows = graph.nodes(FetchNodes(chunk_ids=graph.ids)).vectors
    for question in islice(_rows(folder / "dev_questions.jsonl.gz"), 20):
        near = rows @ embedder.embed_query(question["question"])
        top = (Hit(graph.chunk(graph.ids[row]), float(near[row])) for row in near.argsort()[-20:])
        first = Ranking.of(top, Scale.SIMILARITY)
        for how in (GraphSearch(on_graph_error="raise"), GraphSearch(walk=PAPER, on_graph_error="raise")):
            asked = [
                run(widen(question["question"], first, how), Services(embedder=embedder, graph=each))
                for each in (graph, served)
            ]
            assert asked[0] == asked[1]
            assert asked[0].chains


def test_walks_go_on_while_another_graph_takes_its_place(server: tuple[Any, str], fresh_index: Fresh) -> None:
    transport, url = server
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


def passage_graph(folder: Path, embedder: StaticEmbedder) -> ChunkGraph:
    """Return the graph of some passages of a collection."""
    chunks = [
        Chunk(
            id=row["id"],
            document_id=row["id"],
            position=0,
            start=0,
            end=len(row["text"]),
            text=row["text"],
            metadata={"title": row["title"]},
        )
        for row in islice(_rows(folder / "dev_corpus.jsonl.gz"), PASSAGES)
    ]
    vectors = embedder.embed_documents([f"{chunk.metadata['title']}\n{chunk.text}" for chunk in chunks])
    return ChunkGraph.build([node_of(chunk) for chunk in chunks], vectors)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        yield from map(json.loads, file)


def _numbered(size: int) -> ChunkGraph:
    vectors = np.random.default_rng(size).normal(size=(size, 3))
    return ChunkGraph.build([node(number, f"alpha {number}") for number in range(size)], vectors)

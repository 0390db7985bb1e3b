"""A library on a server, without one: figures, pages and pictures that are left out, kinds of view, and its graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from entry_cases import FIGURE, additions, plain
from fake_server import FakeServer
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.effects import FetchNodes, Retry
from catena.enrichment import Keywords, keywords_of_view
from catena.graph import node_of
from catena.library import Preparation
from catena.model import DEFAULT, Entry, LibraryError, Outcome, Place, UnknownDocumentError, View, ViewVectors
from catena.structure import SectionChunkOptions
from catena.testing import FakeEmbedder
from catena_server import ServerLibrary, ServerOptions, ServerStore, graph_of, several_kinds


def opened(vectors: ViewVectors, several: Sequence[str] = ()) -> ServerStore:
    once = ServerOptions(retry=Retry(attempts=1))
    dim = vectors.rows.shape[1]
    return ServerStore.open(FakeServer(), "w-set", embedder_identity="laws", dim=dim, several=several, options=once)


@settings(max_examples=25, deadline=None)
@given(addition=additions(), spans=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), max_size=4))
def test_figures_and_pages_are_those_of_the_entry(
    addition: tuple[Entry, ViewVectors], spans: list[tuple[int, int]]
) -> None:
    entry, vectors = addition
    kinds = sorted({view.kind for view in entry.views} | set(vectors.kinds))
    store = opened(vectors, several=kinds)
    store.put([(entry, vectors)])
    document = entry.document
    asked = [(document.id, start, end) for start, end in spans]
    known = (replace(document.place_of(*span), lines=None) for span in spans)
    assert store.places([*asked, ("none", 0, 1)]) == (*known, Place())
    assert store.get(document.id, pictures=False).figures == ()
    for figure in entry.figures:
        assert store.figure(document.id, figure.name) == figure
    with pytest.raises(LibraryError, match=r"has no figure 'none.png'"):
        store.figure(document.id, "none.png")
    with pytest.raises(UnknownDocumentError):
        store.figure("none", FIGURE.name)


def test_kinds_of_which_a_chunk_may_have_several_follow_from_the_preparation(tmp_path: Path) -> None:
    assert several_kinds(Preparation()) == ()
    sections = Preparation(chunks=SectionChunkOptions(), views=(Keywords(by="offline"),))
    assert several_kinds(sections) == ("", "passage", "keywords")
    server = FakeServer()
    with ServerLibrary.open(server, "w-set", home=tmp_path, preparation=sections) as library:
        assert library.store.layout.several == ("", "keywords", "passage")
    with ServerLibrary.open(FakeServer(), "w-set", home=tmp_path, preparation=sections, several=("own",)) as library:
        assert library.store.layout.several == ("own",)


def test_a_graph_of_stored_chunks_has_their_mean_vectors_and_the_keywords_of_their_views() -> None:
    entry, _ = plain("a", 2)
    given = View(chunk_id=entry.chunks[0].id, kind="graph_keywords", text="pump; seal")
    entry = replace(entry, views=(*entry.views, given))
    rows = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)  # the first chunk's two, then the second's
    vectors = ViewVectors(rows=rows, chunks=(0, 0, 1), kinds=(DEFAULT,) * 3)
    store = opened(vectors, several=[DEFAULT])
    store.put([(entry, vectors)])
    graph = graph_of(store.export())
    found = graph.nodes(FetchNodes(chunk_ids=tuple(chunk.id for chunk in entry.chunks))).vectors
    assert found == pytest.approx(np.array([[0.5**0.5, 0.5**0.5, 0], [0, 0, 1]]))
    first, second = entry.chunks
    assert graph.node(first.id) == node_of(first, keywords=keywords_of_view(given.text))
    assert graph.node(second.id) == node_of(second)


@pytest.mark.slow
def test_a_kill_at_any_call_of_a_run_leaves_the_ledger_of_an_undisturbed_one_to_the_next(tmp_path: Path) -> None:
    file = tmp_path / "a.md"

    def indexed(server: FakeServer, version: int) -> Sequence[Outcome]:
        file.write_text("# A\n" + "\n## Part\n\nSome words.\n" * (version + 1))
        with ServerLibrary.open(server, "w-set", embedder=FakeEmbedder(dim=3), home=tmp_path) as library:
            library.index(file)
            return library.ledger()

    whole = FakeServer()
    indexed(whole, 0)
    first = len(whole.calls)
    wanted = indexed(whole, 1)
    for kill in range(len(whole.calls) - first):
        server = FakeServer()
        indexed(server, 0)
        with server.killed_after(kill):
            indexed(server, 1)
        assert indexed(server, 1) == wanted, kill

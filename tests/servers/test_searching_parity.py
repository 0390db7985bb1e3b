"""A real server ranks as the embedded library does: routes, the whole formula, filters, ties, several views."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entry_cases import whole_section
from library_cases import TEXTS, WORDS, boards, text_entry

from catena.effects import FetchChunks, FetchText, FindNames, Fused, Search, SearchFused, Services, run
from catena.enrichment import StaticEmbedder, critical_terms
from catena.model import DEFAULT, Chunk, Document, Entry, Ranking, View, ViewVectors, span_id
from catena.retrieval import ScoreFusion, retrieve
from catena.store import LibraryStore
from catena_server import ServerStore

Stores = tuple[LibraryStore, ServerStore]

BOARDS = 60
CLOSE = 1e-4
EMBEDDER = StaticEmbedder()
FUSION = ScoreFusion.hiqa()
MAKERS = ("Nordwind", "Südstern", "Acme")
GERMAN = "Alle Platinen von Südstern haben dieselbe Gewährleistung; die Spannung steht auf der Platine."
QUESTIONS = (
    "How much RAM does the HX-1007 have?",
    "flash of the Nordwind HX-1012, Acme edition",
    "Which debugger does the Südstern HX-1021 take, J-Link or CMSIS-DAP?",
    "ram ram ram flash",
    "the board",
    "voltage",
    "Welche Spannungen stehen auf den Platinen, und which voltages on the boards?",
    "3.3-V lora 無線 module",
    "nothing of this is there, xyzzy",
    "\ud800 ESP32-C6",
)
FILTERS: tuple[Any, ...] = (
    None,
    {"maker": "Acme"},
    {"$and": [{"kind": "text"}, {"ram": {"$gte": 64}}]},
    {"maker": "X"},
)


def board(number: int) -> tuple[Entry, ViewVectors]:
    """Return the sheet of one of many look-alike boards: three chunks, the last equal in all of a maker's."""
    maker = MAKERS[number % 3]
    parts = (
        f"HX-{1000 + number} has {2 ** (number % 6 + 3)}k RAM and {number % 4 + 1}M flash, 3.3 V.",
        f"Upload by USB. The debugger is {'J-Link' if number % 2 else 'CMSIS-DAP'}; ESP32-C{number % 7} 無線 lora.",
        GERMAN if maker == "Südstern" else f"All boards of {maker} carry the same warranty. Voltage: see the board.",
    )
    text = "\n".join(parts)
    spans = [(text.index(part), text.index(part) + len(part)) for part in parts]
    title = f"{maker} HX-{1000 + number}"
    document = Document(
        id=f"d{number:03}", text=text, title=title, metadata={"maker": maker, "ram": 2 ** (number % 6 + 3)}
    )
    chunks = tuple(
        Chunk(
            id=span_id(document.id, "text", start, end), document_id=document.id, position=place, start=start,
            end=end, text=text[start:end], path=(title, ("Hardware", "Debugging", "Warranty")[place]),
        )
        for place, (start, end) in enumerate(spans)
    )  # fmt: skip
    headed = [
        View(chunk_id=chunk.id, kind="headed", text=f"{title if chunk.position < 2 else maker}\n{chunk.text}")
        for chunk in chunks
    ]
    halves = [
        View(chunk_id=chunk.id, kind="passage", text=half)
        for chunk in chunks
        for half in (chunk.text[: len(chunk.text) // 2], chunk.text[len(chunk.text) // 2 :])
    ]
    texts = [*((DEFAULT, place, view.text) for place, view in enumerate(headed))]
    texts += [(DEFAULT, 0, halves[0].text), *(("passage", at // 2, view.text) for at, view in enumerate(halves))]
    entry = Entry(
        document=document, sections=(whole_section(document.id, text),), chunks=chunks, views=(*headed, *halves),
        terms=critical_terms(document, chunks), fingerprint=f"f{number}",
    )  # fmt: skip
    rows = EMBEDDER.embed_documents([text for _, _, text in texts])
    places, kinds = tuple(place for _, place, _ in texts), tuple(kind for kind, _, _ in texts)
    return entry, ViewVectors(rows=np.asarray(rows, np.float32), chunks=places, kinds=kinds)


@pytest.fixture(scope="module")
def stores(
    product: tuple[Any, str], tmp_path_factory: pytest.TempPathFactory, module_index: Callable[..., str]
) -> Iterator[Stores]:
    """The same documents in the embedded library and on a server of one shard."""
    transport, url = product
    dim, name = EMBEDDER.embed_query("dim").shape[0], module_index(url, "c")
    additions = [board(number) for number in range(BOARDS)]
    with LibraryStore.open(tmp_path_factory.mktemp("c") / "library", embedder_identity="e", dim=dim) as embedded:
        embedded.add(additions)
        served = ServerStore.open(
            transport, name, embedder_identity="e", dim=dim, several=("passage", DEFAULT), vector_index="hnsw"
        )
        served.put(additions)
        served.refresh()
        yield embedded, served


def assert_same(found: Ranking, wanted: Ranking) -> None:
    """Check chunks, order, scores and where they came from; chunks whose scores are that close may change places."""
    assert [hit.score for hit in found.hits] == pytest.approx([hit.score for hit in wanted.hits], abs=CLOSE + 1e-9)
    places = {hit.chunk.id: at for at, hit in enumerate(wanted.hits)}
    for at, hit in enumerate(found.hits):
        other = wanted.hits[places.get(hit.chunk.id, at)]
        assert abs(hit.score - other.score) <= CLOSE + 1e-9
        if other.chunk.id == hit.chunk.id:
            assert other.chunk == hit.chunk
            ways = {way.route: (way.view, way.score) for way in other.provenance}
            for way in hit.provenance:
                view, score = ways[way.route]
                assert (way.view, way.score) == (view, pytest.approx(score, abs=2 * CLOSE))
    ids, others = [hit.chunk.id for hit in found.hits], [hit.chunk.id for hit in wanted.hits]
    assert sum(one != other for one, other in zip(ids, others, strict=True)) <= 2, (ids, others)


@pytest.mark.parametrize("where", FILTERS, ids=str)
@pytest.mark.parametrize("view", [None, "passage"])
@pytest.mark.parametrize("route", ["dense", "lexical", "keyword"])
def test_each_route_gives_the_ranking_of_the_embedded_library(
    stores: Stores, route: str, view: str | None, where: Any
) -> None:
    embedded, served = stores
    for question in QUESTIONS:
        vector = EMBEDDER.embed_query(question)
        request = Search(route=route, query=question, k=20, vector=vector, view=view, where=where)
        assert_same(served.search(request), embedded.search(request))


@pytest.mark.parametrize("route", ["dense", "lexical", "keyword"])
def test_chunks_that_are_asked_for_get_their_true_scores(stores: Stores, route: str) -> None:
    embedded, served = stores
    among = tuple(board(number)[0].chunks[number % 3].id for number in range(0, BOARDS, 4))
    for question in QUESTIONS:
        vector = EMBEDDER.embed_query(question)
        request = Search(route=route, query=question, k=len(among), vector=vector, among=(*among, "unknown"))
        wanted = embedded.search(request)
        assert_same(served.search(request), wanted)
        request = replace(request, among=None, documents=("d007", "d012", "nowhere"))
        assert_same(served.search(request), embedded.search(request))


@pytest.mark.parametrize("where", FILTERS, ids=str)
def test_the_formula_in_one_request_is_that_over_every_chunk(stores: Stores, where: Any) -> None:
    embedded, served = stores
    services = Services(store=embedded, embedder=EMBEDDER)
    for question in QUESTIONS:
        step = retrieve(
            question, k=20, depth=3 * BOARDS, where=where, fusion=FUSION, by_name=False, on_unknown="keep"
        )
        fused = served.search_fused(formula(question, where=where))
        assert isinstance(fused, Fused)
        assert fused.certificate.exact
        assert_same(fused.ranking, run(step, services))


def formula(question: str, *, where: Any = None) -> SearchFused:
    """Return the request of HiQA's formula."""
    weights = tuple((route, weight) for route, (weight, _) in FUSION.parts().items())
    return SearchFused(query=question, k=20, weights=weights, vector=EMBEDDER.embed_query(question), where=where)


def test_the_default_ranking_is_that_of_the_embedded_library(stores: Stores) -> None:
    for question in QUESTIONS:
        wanted, found = (
            run(retrieve(question, k=20, on_unknown="keep"), Services(store=store, embedder=EMBEDDER))
            for store in stores
        )
        assert_same(found, wanted)


@pytest.mark.parametrize(
    "additions", [boards(), [text_entry(*each) for each in TEXTS.items()]], ids=["names", "texts"]
)
def test_names_chunks_and_texts_are_those_of_the_embedded_library(
    product: tuple[Any, str], fresh_index: Callable[..., str], tmp_path: Path, monkeypatch: Any, additions: Any
) -> None:
    for module in ("actions", "lookups"):
        monkeypatch.setattr(f"catena_server.{module}.PIECE", 7)
    transport, url = product
    served = ServerStore.open(transport, fresh_index(url, "c"), embedder_identity="e", dim=2, vector_index="hnsw")
    draw = random.Random(7)
    with LibraryStore.open(tmp_path / "library", embedder_identity="e", dim=2) as embedded:
        for store in (served, embedded):
            store.add(additions)
        for _ in range(50):
            query = " ".join(draw.choices(WORDS, k=draw.randint(0, 5)))
            names = FindNames(query=query, also=tuple(draw.choices(WORDS, k=draw.randint(0, 1))))
            assert served.names(names) == replace(embedded.names(names), parts=()), names  # found in folders only
            spans = tuple(
                (draw.choice([*TEXTS, "none"]), draw.randint(-2, 34), draw.choice([2, 7, 14, 32, 33, 10**12]))
                for _ in range(draw.randint(0, 4))
            )
            assert served.texts(FetchText(spans=spans)) == embedded.texts(FetchText(spans=spans)), spans
            assert served.chunks(FetchChunks(spans=spans)) == embedded.chunks(FetchChunks(spans=spans)), spans

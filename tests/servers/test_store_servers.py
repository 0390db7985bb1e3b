"""A library on a real server does for its user what the embedded one does, by another first line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from catena.effects import FetchChunks, FetchText, FindNames
from catena.enrichment import StaticEmbedder
from catena.library import Library
from catena.model import DuplicateDocumentError, ServerError, UnknownDocumentError
from catena.testing.store_conformance import problems_of_async_store, problems_of_store
from catena_server import Call, ElasticsearchTransport, ServerLibrary

QUESTIONS = ("At what frequency does the clock of Board Beta run?", "memory 8 kB", "Board Gamma", "hardware")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for name, clock, memory in (("alpha", 12, 1), ("beta", 24, 2), ("gamma", 48, 4), ("delta", 96, 8)):
        text = (
            f"# Board {name.title()}\n\n## Hardware\n\nThe clock runs at {clock} MHz, the memory holds {memory} kB.\n"
        )
        (folder / f"{name}.md").write_text(f"{text}\n## Use\n\nSet the clock of Board {name.title()} first.\n")
    (folder / "empty.md").write_text("")
    return folder


@pytest.fixture
def opened(
    product: tuple[Any, str], es_api_key: str, files: Path, fresh_index: Callable[..., str]
) -> Iterator[ServerLibrary]:
    transport, url = product
    connection = {"api_key": es_api_key} if es_api_key and transport.flavour == "elasticsearch" else None
    name = fresh_index(url, "d")
    with ServerLibrary.open(url, name, product=transport.flavour, connection=connection, home=files) as library:
        yield library


@pytest.fixture
def library(opened: ServerLibrary, files: Path) -> ServerLibrary:
    opened.index(files)
    return opened


@pytest.fixture
def local(files: Path, tmp_path: Path) -> Iterator[Library]:
    with Library.open(files.parent / "library") as embedded:
        embedded.index(files)
        yield embedded


def test_files_end_as_in_the_embedded_library(opened: ServerLibrary, local: Library, files: Path) -> None:
    told: list[int] = []
    outcomes = opened.index(files, progress=lambda progress: told.append(progress.done))
    held = local.ledger()
    assert [(each.state, each.reason, each.chunks) for each in outcomes] == [
        (each.state, each.reason, each.chunks) for each in held
    ]
    assert told == [1, 2, 3, 4, 5]
    assert [each.reason for each in opened.index(files)].count("unchanged") == 4
    assert opened.verify() == ()
    assert len(opened.ledger()) == 5  # what was not read again is told as it was


def test_the_store_keeps_the_laws_of_stores(library: ServerLibrary) -> None:
    vector = StaticEmbedder().embed_query(QUESTIONS[0])
    assert problems_of_store(library.store, QUESTIONS[0], vector) == ()

    async def asked() -> tuple[str, ...]:
        found = await problems_of_async_store(library.store, QUESTIONS[0], vector)
        await library.aclose()
        return found

    assert asyncio.run(asked()) == ()


def test_documents_are_replaced_deleted_and_read_back(library: ServerLibrary, files: Path) -> None:
    entry = library.get("beta.md")
    assert library.store.texts(FetchText(spans=(("beta.md", 2, 12), ("none", 0, 1)))) == ("Board Beta", None)
    assert library.store.chunks(FetchChunks(spans=(("beta.md", 0, 9),))) == (entry.chunks,)
    assert [name.text for name in library.store.names(FindNames(query=QUESTIONS[0])).known] == ["board beta"]
    (files / "beta.md").write_text("# Board Beta\n\nIts clock was taken out.\n")
    assert library.replace(files / "beta.md", files / "alpha.md") == ("beta.md",)
    assert "taken out" in library.search("clock taken out", k=1).hits[0].chunk.text
    with pytest.raises(DuplicateDocumentError):
        library.add(files / "beta.md")
    library.delete("beta.md")
    assert "beta.md" not in {info.id for info in library.documents()}
    with pytest.raises(UnknownDocumentError):
        library.get("beta.md")
    assert library.verify() == ()
    assert library.stats().documents == 3


def test_the_server_tells_what_it_refuses(es_url: str, es_api_key: str, fresh_index: Callable[..., str]) -> None:
    name = fresh_index(es_url, "d")
    with ElasticsearchTransport.connect(es_url, **({"api_key": es_api_key} if es_api_key else {})) as transport:
        fields = {"vector": {"type": "dense_vector", "dims": 3}, "n": {"type": "integer"}}
        transport.perform(Call(method="PUT", path=f"/{name}", body={"mappings": {"properties": fields}}))
        short = {"knn": {"field": "vector", "query_vector": [1.0], "k": 1, "num_candidates": 1}}
        cases = [
            (Call(method="PUT", path=f"/{name}"), 400, "resource_already_exists_exception"),
            (Call(method="GET", path=f"/{name}-none/_search"), 404, "index_not_found_exception"),
            (Call(method="PUT", path=f"/{name}/_doc/1", body={"n": "x"}), 400, "document_parsing_exception"),
            (Call(method="POST", path=f"/{name}/_search", body=short), 400, "query_shard_exception"),
        ]
        for call, status, kind in cases:
            with pytest.raises(ServerError) as caught:
                transport.perform(call)
            assert (caught.value.status, caught.value.kind, caught.value.retry) == (status, kind, False)
        block = {"index.blocks.write": True}
        transport.perform(Call(method="PUT", path=f"/{name}/_settings", body=block))
        with pytest.raises(ServerError, match=r"index\.blocks\.write") as caught:
            transport.perform(Call(method="PUT", path=f"/{name}/_doc/1", body={"n": 1}))
        assert (caught.value.status, caught.value.kind) == (403, "cluster_block_exception")

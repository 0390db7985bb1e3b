"""A real server finds the names and reads the chunks and texts that the embedded library does."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from library_cases import TEXTS, WORDS, boards, text_entry

from catena.effects import FetchChunks, FetchText, FindNames, Step
from catena.model import Entry, ViewVectors
from catena.store import LibraryStore
from catena_server import ElasticsearchTransport, IndexLayout
from catena_server import actions as records
from catena_server.indices import create, refresh
from catena_server.lookups import chunks, find_names, texts
from catena_server.writing import put

Drive = Callable[[Step[Any]], Any]


@pytest.fixture(scope="module")
def drive(es_url: str, es_api_key: str) -> Iterator[Drive]:
    """Yield what runs a step against the server."""
    transport = ElasticsearchTransport.connect(es_url, api_key=es_api_key or None)

    def driven(step: Step[Any]) -> Any:
        replies: Any = None
        while True:
            try:
                calls = step.send(replies)
            except StopIteration as done:
                return done.value
            replies = [transport.perform(call) for call in calls]  # type: ignore[arg-type]

    yield driven
    transport.close()


def filled(
    drive: Drive, name: str, folder: Path, additions: Sequence[tuple[Entry, ViewVectors]]
) -> tuple[IndexLayout, LibraryStore]:
    """Return an index set and an embedded library of the same entries."""
    dim = additions[0][1].rows.shape[1]
    layout = IndexLayout(name=name, dim=dim, embedder="same", vector_index="flat")
    drive(create(layout, "elasticsearch"))
    report = drive(put(additions, layout, "elasticsearch"))
    assert not report.failures
    drive(refresh(layout))
    store = LibraryStore.open(folder / "library", embedder_identity="same", dim=dim)
    store.add(additions)
    return layout, store


def test_names_are_those_of_the_embedded_library(
    drive: Drive, es_url: str, fresh_index: Callable[..., str], tmp_path: Path
) -> None:
    layout, store = filled(drive, fresh_index(es_url, "c-names"), tmp_path, boards())
    draw = random.Random(7)
    with store:
        for _ in range(150):
            query = " ".join(draw.choices(WORDS, k=draw.randint(0, 5)))
            request = FindNames(query=query, also=tuple(draw.choices(WORDS, k=draw.randint(0, 1))))
            assert drive(find_names(request, layout)) == store.names(request), request


def test_chunks_and_texts_are_those_of_the_embedded_library(
    drive: Drive, es_url: str, fresh_index: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "PIECE", 7)
    monkeypatch.setattr("catena_server.lookups.PIECE", 7)
    additions = [text_entry(*each) for each in TEXTS.items()]
    layout, store = filled(drive, fresh_index(es_url, "c-reading"), tmp_path, additions)
    draw = random.Random(7)
    with store:
        for _ in range(60):
            spans = tuple(
                (draw.choice([*TEXTS, "none"]), draw.randint(-2, 34), draw.choice([2, 7, 14, 32, 33, 10**12]))
                for _ in range(draw.randint(0, 4))
            )
            for ours, theirs in (
                (texts(FetchText(spans=spans), layout), store.texts(FetchText(spans=spans))),
                (chunks(FetchChunks(spans=spans), layout), store.chunks(FetchChunks(spans=spans))),
            ):
                assert drive(ours) == theirs, spans

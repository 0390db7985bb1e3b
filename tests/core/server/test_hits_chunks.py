"""A chunk that comes back from a server is the chunk that was written."""

from __future__ import annotations

import json

import pytest
from entry_cases import LAYOUT, additions
from hypothesis import HealthCheck, given, settings

from catena.model import Entry, LibraryError, ViewVectors
from catena.server import entry_actions
from catena.server.hits import SOURCE_FIELDS, chunk_of, embedded_of, sources


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=50)
@given(additions())
def test_a_chunk_comes_back_as_it_was_written(addition: tuple[Entry, ViewVectors]) -> None:
    entry, vectors = addition
    sent = [action for action in entry_actions(entry, vectors, LAYOUT) if action.part == "chunks"]
    for chunk, action in zip(entry.chunks, sent, strict=True):
        whole = json.loads(json.dumps(action.source))
        kept = {name: whole[name] for name in SOURCE_FIELDS if name in whole}
        assert chunk_of(kept, action.id) == chunk
        assert embedded_of(kept) == "headed"


def test_what_others_wrote_is_named_as_such() -> None:
    with pytest.raises(LibraryError, match=r"'x'.*not of Catena's form.*KeyError"):
        chunk_of({"text": "somebody else's"}, "x")
    with pytest.raises(LibraryError, match="ParameterError"):
        chunk_of(
            {"document": "d", "position": 0, "start": 0, "end": 9, "text": "short", "kind": "text", "section": 0}, "x"
        )


def test_no_chunk_costs_no_request() -> None:
    with pytest.raises(StopIteration) as done:
        next(sources((), LAYOUT))
    assert done.value.value == {}

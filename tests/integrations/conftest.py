"""The two adapters, one after the other, for tests of what both promise; and an event loop for LlamaIndex."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from adapter_faces import FACES


@pytest.fixture
def loop() -> Iterator[None]:
    """Give the thread an event loop: where there is none, LlamaIndex makes one and leaves it open."""
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield
    made.close()
    asyncio.set_event_loop(None)


@pytest.fixture(params=FACES, ids=lambda face: face.name)
def face(request: pytest.FixtureRequest, loop: None) -> Any:
    """How LangChain's adapter is called, then LlamaIndex's."""
    return request.param

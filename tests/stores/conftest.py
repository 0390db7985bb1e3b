"""Real vector stores for these tests: embedded ones, and a Postgres that the session starts; skipped by name else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from manuals import Calls
from postgres_server import NoPostgresError, postgres

HERE = Path(__file__).parent
WARNINGS = (  # of LlamaIndex's LanceDB store, and of a Qdrant that is no server
    r"table_names\(\) is deprecated:DeprecationWarning",
    "Payload indexes have no effect in the local Qdrant:UserWarning",
)
PAGE = "test_stores_page.py"  # reads the cases alone, and needs no store


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks a store."""
    for item in items:
        if HERE in item.path.parents and item.path.name != PAGE:
            item.add_marker(pytest.mark.stores)
            for warning in WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(f"ignore:{warning}"))


@pytest.fixture(scope="session")
def postgres_folder() -> Iterator[str]:
    """The folder of the socket of a Postgres with pgvector."""
    server = postgres()
    try:
        folder = server.__enter__()
    except NoPostgresError as error:
        pytest.skip(str(error))
    try:
        yield folder
    finally:
        server.__exit__(None, None, None)


@pytest.fixture(params=[False, True], ids=["called", "awaited"])
def calls(request: pytest.FixtureRequest) -> Calls:
    """How a case asks: by calls, or awaiting."""
    return Calls(request.param)

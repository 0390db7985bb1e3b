"""Open a store on a server of either product by an embedder, as the tests of faults and of clients do."""

from __future__ import annotations

from typing import Any

from catena.effects.ports import Embedder
from catena_server import ElasticsearchTransport, OpenSearchTransport, ServerOptions, ServerStore


def elasticsearch_store(server: Any, name: str, **how: Any) -> ServerStore:
    """Return the store of a set on Elasticsearch."""
    return _store(ElasticsearchTransport.over, server, name, **how)


def opensearch_store(server: Any, name: str, **how: Any) -> ServerStore:
    """Return the store of a set on OpenSearch."""
    return _store(OpenSearchTransport.over, server, name, **how)


def _store(
    connect: Any,
    server: Any,
    name: str,
    *,
    embedder: Embedder | None = None,
    create: bool = True,
    options: ServerOptions | None = None,
    **connection: Any,
) -> ServerStore:
    model: dict[str, Any] = {} if embedder is None else {"embedder_identity": embedder.identity, "dim": embedder.dim}
    return ServerStore.open(connect(server, **connection), name, create=create, options=options, **model)

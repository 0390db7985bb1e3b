"""Which index set on which server a command is about, and how it lies there: options of `catena server`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catena.cli.failures import ProblemError
from catena.cli.plan import VectorIndexName

if TYPE_CHECKING:
    from catena.server.call import Transport
    from catena.server.layout import IndexLayout
    from catena.server.store import ServerStore

KEY = "CATENA_SERVER_API_KEY"  # in the environment only: a command line can be read by other users of the machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a set is; the key of the server is in the environment."""

    url: Annotated[
        list[str],
        typer.Option(
            "--url",
            metavar="URL",
            envvar="CATENA_SERVER_URL",
            help="Of a node; may be repeated for those of a cluster.",
        ),
    ]
    name: Annotated[str, typer.Option("--name", "-n", metavar="NAME", help="Of the index set there.")] = "catena"
    opensearch: Annotated[
        bool, typer.Option("--opensearch", help="It is OpenSearch, not Elasticsearch (extra opensearch).")
    ] = False
    ca_certs: Annotated[
        Path | None,
        typer.Option(
            "--ca-certs", metavar="FILE", exists=True, help="Trust the authorities in this PEM file, no others."
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lying:
    """How a set that is made lies on its server; None where it was not said."""

    vector_index: Annotated[
        VectorIndexName | None, typer.Option("--vector-index", help="How vectors are kept [int8_hnsw].")
    ] = None
    shards: Annotated[int | None, typer.Option("--shards", min=1, metavar="N", help="Of the chunks [1].")] = None
    replicas: Annotated[
        int | None, typer.Option("--replicas", min=0, metavar="N", help="Copies of each shard [0].")
    ] = None

    @property
    def given(self) -> dict[str, Any]:
        """Return what was said, as `IndexLayout` names it."""
        said = {name: value for name, value in asdict(self).items() if value is not None}
        return {name: str(value) if name == "vector_index" else value for name, value in said.items()}

    def check(self, layout: IndexLayout) -> None:
        """Refuse what a set that is there cannot follow.

        Raises:
            ProblemError: it lies differently.
        """
        for name, value in self.given.items():
            if (lies := getattr(layout, name)) != value:
                option = f"--{name.replace('_', '-')}"
                what = f"set {layout.name} is there, and its {option[2:]} is {lies}; nothing was changed"
                raise ProblemError(what, f"the same without {option}, or catena server rebuild {option} {value}")


def transport_to(at: Address) -> Transport:
    """Return a client of the server; other processes can call this, too.

    Raises:
        MissingExtraError: the server's client is not installed.
        ParameterError: an address or the certificates cannot be used.
    """
    key = os.environ.get(KEY) or None
    ca_certs = None if at.ca_certs is None else str(at.ca_certs)
    if at.opensearch:
        from catena.server.opensearch import OpenSearchTransport

        return OpenSearchTransport.connect(at.url, bearer_auth=key, ca_certs=ca_certs)
    from catena.server.elasticsearch import ElasticsearchTransport

    return ElasticsearchTransport.connect(at.url, api_key=key, ca_certs=ca_certs)


@contextmanager
def connected(at: Address) -> Iterator[Transport]:
    """Open a client of the server, and close it."""
    transport = transport_to(at)
    try:
        yield transport
    finally:
        if callable(close := getattr(transport, "close", None)):
            close()


@contextmanager
def stored(at: Address) -> Iterator[ServerStore]:
    """Open a set that is there for what needs no embedding model, whichever model made its vectors."""
    from catena.server.store import ServerStore

    with connected(at) as transport:
        yield ServerStore.open(transport, at.name, create=False)

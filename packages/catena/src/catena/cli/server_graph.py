"""`catena server graph`: the graph of a set, built on this machine and walked on the server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from catena.cli.console import out, write_json
from catena.cli.graph_building import building
from catena.cli.graph_options import Edges
from catena.cli.option_groups import grouped
from catena.cli.options import AsJson
from catena.cli.server_address import Address, connected

if TYPE_CHECKING:
    pass


@grouped
def graph(*, at: Address, edges: Edges, as_json: AsJson = False) -> None:
    """Join the passages of a set as `catena graph build` does, and write the graph to the server.

    It is built in this machine's memory from all chunks of the set, and takes the place of the one that the set has
    when all of it is written. It does not follow what is indexed later: the same command builds it anew.
    """
    from catena.cli.views import number
    from catena.server.graph_upload import graph_of, upload_graph
    from catena.server.store import ServerStore

    began = time.monotonic()
    with connected(at) as transport, building(f"the graph that set {at.name} had is kept") as tell:
        store = ServerStore.open(transport, at.name, create=False)
        made = graph_of(store.export(), edges.options(), progress=tell)
        layout = store.layout
        walked = upload_graph(transport, at.name, made, shards=layout.shards, replicas=layout.replicas)
        about = walked.about()
    joined, seconds = int(made.degrees().sum()) // 2, time.monotonic() - began
    if as_json:
        write_json(
            {
                "set": at.name,
                "nodes": about.nodes,
                "edges": joined,
                "kinds": about.kinds,
                "seconds": round(seconds, 3),
            }
        )
    else:
        out().print(
            f"{number(about.nodes, 'node')} and {number(joined, 'edge')} in {seconds:.1f} s; in set {at.name}"
        )

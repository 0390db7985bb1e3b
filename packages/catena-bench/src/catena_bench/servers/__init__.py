"""Run real search servers for tests and benchmarks: fetched with Maven, run on loopback, gone afterwards."""

from catena_bench.servers.cluster import SearchCluster, ask, elasticsearch, opensearch
from catena_bench.servers.distributions import NoServersError

__all__ = ["SearchCluster", "NoServersError", "ask", "elasticsearch", "opensearch"]

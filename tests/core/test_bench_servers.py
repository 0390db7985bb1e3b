from __future__ import annotations

import os
import signal
import stat
import sys
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from catena.model import ParameterError, ServerError
from catena_bench import cli
from catena_bench.server_views import KINDS, WAYS, ChunkViews, Documents, Fields, Nested
from catena_bench.servers import NoServersError, ask, elasticsearch, opensearch
from catena_bench.servers import distributions as java_tools
from catena_bench.servers.cluster import SearchCluster
from catena_bench.servers.distributions import (
    KNN,
    Artifact,
    Distribution,
    cache_folder,
    elasticsearch_distribution,
    node_settings,
    opensearch_distribution,
)

PAGES = Artifact(group="org.example", name="pages", version="1.2")


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """An empty PATH, an empty cache, and a function that puts a program there which runs some Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("CATENA_SERVERS", str(tmp_path / "cache"))
    monkeypatch.delenv("CATENA_ELASTICSEARCH", raising=False)

    def program(name: str, code: str) -> None:
        path = folder / name
        path.write_text(f"#!{sys.executable}\nimport sys, pathlib, zipfile\n{code}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    return program


def maven(*files: str) -> str:
    """A `mvn` that writes these files and keeps a line of every call."""
    return f"""
into = pathlib.Path(next(a for a in sys.argv if a.startswith("-DoutputDirectory=")).partition("=")[2])
project = pathlib.Path(sys.argv[sys.argv.index("-f") + 1]).read_text()
with (pathlib.Path(__file__).parent / "calls").open("a") as calls:
    calls.write(project)
into.mkdir(parents=True, exist_ok=True)
for name in {files!r}:
    if name.endswith(".zip"):
        with zipfile.ZipFile(into / name, "w") as archive:
            for inside in ("plugin.jar", "jna-9.0.jar", "docs/deep.jar", "LICENSE"):
                archive.writestr(inside, "new")
    else:
        (into / name).write_text("old")
"""


@pytest.mark.parametrize("server", [elasticsearch, opensearch])
def test_without_maven_the_reason_is_named_and_nothing_is_left(programs, server):
    with pytest.raises(NoServersError, match=r"mvn .* is not on PATH"), server():
        pass
    assert not list(cache_folder().iterdir())


def test_elasticsearch_is_fetched_once_and_its_transport_lies_in_a_module(programs, tmp_path):
    programs("mvn", maven("elasticsearch-9.5.3.jar", "netty-common-4.1.jar", "transport-netty4-9.5.3.jar"))
    first = elasticsearch_distribution()
    assert elasticsearch_distribution() == first
    assert (tmp_path / "bin" / "calls").read_text().count("<project") == 1
    module = first.home / "modules" / "transport-netty4"
    assert [path.name for path in (first.home / "lib").iterdir()] == ["elasticsearch-9.5.3.jar"]
    held = ["netty-common-4.1.jar", "plugin-descriptor.properties", "transport-netty4-9.5.3.jar"]
    assert sorted(path.name for path in module.iterdir()) == held
    assert "elasticsearch.version=9.5.3\n" in (module / "plugin-descriptor.properties").read_text()


def test_opensearch_has_k_nn_where_there_is_one_and_no_library_twice(programs, tmp_path):
    programs("mvn", maven("opensearch-3.jar", "jna-5.16.0.jar", "opensearch-knn-3.5.0.0.zip"))
    distribution = opensearch_distribution()
    found = {path.name: path.read_text() for path in (distribution.home / "lib").iterdir()}
    assert found == {"opensearch-3.jar": "old", "jna-5.16.0.jar": "old", "plugin.jar": "new"}
    assert distribution.version in KNN
    assert "org.opensearch.knn.plugin.KNNPlugin" in distribution.plugins
    assert not [name for name in opensearch_distribution("3.8.0").plugins if "knn" in name]
    asked = (tmp_path / "bin" / "calls").read_text().split("</project>")
    assert ["opensearch-knn" in project for project in asked] == [True, False, False]


def test_a_new_jdk_compiles_else_the_compiler_of_eclipse_does(programs, monkeypatch):
    monkeypatch.setattr(java_tools, "runtime", lambda: Path("/java"))
    programs("mvn", maven("ecj-3.46.100.jar"))
    programs("javac", "print('javac 17.0.15')")
    assert java_tools.compiler()[:2] == ["/java", "-jar"]
    programs("javac", "print('javac 25.0.2')")
    assert Path(java_tools.compiler()[0]).name == "javac"


@pytest.mark.parametrize(
    ("flavour", "first"),
    [("elasticsearch", "cluster.initial_master_nodes"), ("opensearch", "cluster.initial_cluster_manager_nodes")],
)
def test_nodes_know_each_other_and_stay_on_loopback(flavour, first, tmp_path):
    ports = {"http_ports": [1, 2, 3], "transport_ports": [4, 5, 6]}
    settings = node_settings(flavour, number=1, folder=tmp_path, **ports)
    assert settings[first] == ["node-0", "node-1", "node-2"]
    assert settings["discovery.seed_hosts"] == ["127.0.0.1:4", "127.0.0.1:5", "127.0.0.1:6"]
    assert (settings["node.name"], settings["http.port"], settings["transport.port"]) == ("node-1", 2, 5)
    assert settings["network.host"] == "127.0.0.1"
    alone = node_settings(flavour, number=0, folder=tmp_path, http_ports=[1], transport_ports=[2])
    assert alone["discovery.type"] == "single-node"
    assert first not in alone


NODE = """
import http.server, json, pathlib, sys
settings = dict(line.split(": ", 1) for line in pathlib.Path(sys.argv[1], "opensearch.yml").read_text().splitlines())
if json.loads(settings.get("fails", "false")):
    sys.exit("a wheel is missing")
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"timed_out": false}')
print("up", flush=True)
http.server.HTTPServer(("127.0.0.1", json.loads(settings["http.port"])), Answer).serve_forever()
"""


class Stage(Distribution):
    """A server whose nodes answer that all is well."""

    def command(self, config: Path, heap: str) -> list[str]:
        return [sys.executable, "-c", NODE, str(config)]


def stage(folder: Path, nodes: int = 2, **settings: object) -> SearchCluster:
    distribution = Stage(flavour="opensearch", version="0", home=folder, classes=())
    return SearchCluster(distribution, nodes, "1m", settings, folder)


@pytest.fixture
def cluster(tmp_path):
    with closing(stage(tmp_path)) as cluster:
        cluster.launch()
        yield cluster


def answers(url: str) -> bool:
    try:
        return ask(url, seconds=0.5) == {"timed_out": False}
    except OSError:
        return False


def test_a_node_can_be_killed_and_started_on_its_own_port(cluster):
    assert [answers(url) for url in cluster.urls] == [True, True]
    cluster.kill(1)
    assert [answers(url) for url in cluster.urls] == [True, False]
    with pytest.raises(ParameterError, match="1"):
        cluster.suspend(1)
    cluster.start(1)
    assert answers(cluster.urls[1])
    assert cluster.logs[1].read_text().count("up") == 2  # the first life's log is kept
    with pytest.raises(ParameterError, match="killed"):
        cluster.start(1)


def test_healing_brings_back_killed_held_and_fallen_nodes(cluster):
    cluster.kill(0)
    cluster.suspend(1)
    cluster.heal()
    assert [answers(url) for url in cluster.urls] == [True, True]
    os.kill(cluster._processes[1].pid, 9)  # not by us
    cluster._processes[1].wait()
    cluster.heal()
    assert [answers(url) for url in cluster.urls] == [True, True]


def test_a_node_that_does_not_start_is_said_with_the_end_of_its_log(tmp_path):
    said = r"node 0 ended with code 1(?s:.*)a wheel is missing"
    with closing(stage(tmp_path, nodes=1, fails=True)) as cluster, pytest.raises(ServerError, match=said):
        cluster.launch()


@pytest.mark.slow
def test_waiting_has_an_end(cluster):
    os.kill(cluster._processes[0].pid, signal.SIGSTOP)  # it runs, and does not answer
    with pytest.raises(ServerError, match="no green cluster of 2 nodes within 0 s"):
        cluster.wait(nodes=2, status="green", seconds=0.1)


def test_the_command_prints_addresses_until_it_is_stopped(cluster, monkeypatch):
    asked = {}

    def run(**options):
        asked.update(options)
        return nullcontext(cluster)

    monkeypatch.setattr(cli, "opensearch", run)
    monkeypatch.setattr(cli.Event, "wait", lambda self: signal.raise_signal(signal.SIGINT))
    done = CliRunner().invoke(cli.servers_app, ["start", "--opensearch", "--nodes", "2"])
    assert (done.exit_code, done.stdout.split()) == (0, [*cluster.urls])
    assert "Ctrl-C ends it" in done.stderr
    assert asked == {"nodes": 2, "heap": "512m", "version": None}


CHUNK = ChunkViews(
    id="c1",
    kept={"text": "The pump."},
    words={"headed": "the pump", "keywords": "pump", "summary": "a pump"},
    vectors={"headed": [1.0, 0.0], "keywords": [0.0, 1.0], "summary": [0.6, 0.8]},
)


def test_views_are_kept_as_fields_below_their_kind_or_as_documents_of_which_one_holds_the_chunk():
    whole = {"kept": CHUNK.kept, "words": CHUNK.words, "vectors": CHUNK.vectors}
    assert list(Fields().documents(CHUNK)) == [("c1", whole)]
    ((doc_id, source),) = Nested().documents(CHUNK)
    assert (doc_id, source["keywords"]) == ("c1", [{"words": "pump", "vector": [0.0, 1.0]}])
    assert set(source) == {"kept", *KINDS}
    written = dict(Documents().documents(CHUNK))
    assert list(written) == ["c1", "c1-keywords", "c1-summary"]
    assert [doc_id for doc_id, source in written.items() if "kept" in source] == ["c1"]
    assert {source["chunk"] for source in written.values()} == {"c1"}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_searched_is_mapped_and_the_best_view_counts(way: str) -> None:
    laid = WAYS[way]
    mapped = set(fields_of(laid.properties({"type": "dense_vector"})))
    for kinds in (KINDS, KINDS[2:]):
        nearest, matching = laid.nearest([1.0, 0.0], kinds), laid.matching("pump", kinds)
        assert set(asked(nearest, "field")) - {"chunk"} <= mapped
        assert {field for match in asked(matching, "match") for field in match} <= mapped
        several = way != "documents" and len(kinds) > 1
        assert [bool(asked(body, "dis_max")) for body in (nearest, matching)] == [several, several]
        assert len(asked(nearest, "knn")) == (len(kinds) if way != "documents" else 1)
    one = laid.nearest([1.0, 0.0], KINDS[2:])
    assert asked(one, "filter") == ([[{"terms": {"kind": ["summary"]}}]] if way == "documents" else [])


def fields_of(properties: dict[str, Any], prefix: str = "") -> list[str]:
    found = []
    for name, field in properties.items():
        inner = field.get("properties")
        found += fields_of(inner, f"{prefix}{name}.") if inner else [f"{prefix}{name}"]
    return found


def asked(body: Any, key: str) -> list[Any]:
    """Return the values under a key, anywhere in a body."""
    inside = list(body.values()) if isinstance(body, dict) else body if isinstance(body, list) else []
    here = [body[key]] if isinstance(body, dict) and key in body else []
    return here + [each for value in inside for each in asked(value, key)]

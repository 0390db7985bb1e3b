"""`catena server` in this process, on a server in memory: what it writes, where, and how it exits."""

from __future__ import annotations

import json
import socket
from importlib.util import find_spec
from pathlib import Path

import cli_calls
import pytest
from cli_calls import MANUALS, at_home, commands
from fake_server import FakeServer

from catena.cli.failures import split_hint
from catena.model import CancelledError, LibraryError
from catena_server import Call, ServerStore
from catena_server.cli import index as server_index
from catena_server.client_transport import Server

EVIL = "\x1b]0;owned\x07"
KEY = "c2VjcmV0OmtleS10aGF0LWlzLWxvbmc="


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    """Work in a folder with two manuals, on a server in memory."""
    at_home(tmp_path, monkeypatch, key=False)
    for name in ("hx200.md", "hx210.md"):
        Path(name).write_text(MANUALS[name].replace("HX200 Manual", f"HX200 Manual{EVIL}"), encoding="utf-8")
    monkeypatch.setenv("CATENA_SERVER_URL", "http://127.0.0.1:9200")
    monkeypatch.delenv("CATENA_SERVER_API_KEY", raising=False)
    made = FakeServer()
    monkeypatch.setattr(server_index, "transport_to", lambda at: made)
    return made


@pytest.fixture
def filled(server: FakeServer) -> FakeServer:
    """The server with both manuals in its set."""
    call("index", ".")
    return server


def call(*arguments: str, code: int = 0):
    result = cli_calls.call("server", *arguments, code=code)
    assert "\x1b" not in result.output
    assert all(len(line) <= 100 for line in result.stdout.splitlines() if "--json" not in arguments)
    return result


def value(*arguments: str, code: int = 0):
    return json.loads(call(*arguments, "--json", code=code).stdout)


def held(server: FakeServer, name: str = "catena") -> set[str]:
    return {each["document"] for each in server.documents(f"{name}-chunks").values()}


# index, status, verify, delete


def test_files_are_indexed_once_and_the_ledger_is_shown(server: FakeServer) -> None:
    shown = call("index", ".").stdout
    assert "2 files: 2 indexed" in shown
    assert "set catena now holds 2 documents" in shown
    again = value("index", ".")
    assert again["states"] == {"skipped": 2}
    assert again["holds"]["documents"] == 2
    assert held(server) == {"hx200.md", "hx210.md"}


def test_how_files_are_cut_and_how_the_set_lies_are_obeyed(server: FakeServer) -> None:
    call("index", ".", "--chunks", "sections", "--views", "keywords", "--shards", "2", "--vector-index", "flat")
    told = value("status")
    assert (told["layout"]["shards"], told["layout"]["vector_index"]) == (2, "flat")
    assert {"headed", "keywords", "passage"} <= set(told["holds"]["views"])
    assert "2 shards" in call("status").stdout


def test_a_set_that_is_there_does_not_change_how_it_lies(server: FakeServer) -> None:
    call("index", "hx200.md")
    result = call("index", ".", "--shards", "2", code=2)
    assert "nothing was changed" in result.stderr
    assert "catena server rebuild --shards 2" in result.stderr
    assert held(server) == {"hx200.md"}
    assert value("index", ".", "--shards", "1")["states"] == {"indexed": 1, "skipped": 1}


def test_status_lists_a_small_set_and_all_when_asked(filled: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "hx210.md" in call("status").stdout
    monkeypatch.setattr("catena.cli.rendering.SHOWN", 1)
    short = call("status").stdout
    assert "hx210.md" not in short
    assert "catena server status --all" in short
    assert "hx210.md" in call("status", "--all").stdout


def test_verify_tells_sound_from_broken(filled: FakeServer) -> None:
    assert call("verify").stdout.startswith("sound: 2 documents")
    filled.indices["catena-chunks-1"].docs.popitem()
    broken = call("verify", code=4)
    assert "chunks are there" in broken.stdout
    assert "catena server index" in broken.stderr
    assert value("verify", code=4)["sound"] is False


def test_documents_are_deleted_by_id_and_by_path_or_nothing_is(filled: FakeServer, tmp_path: Path) -> None:
    refused = call("delete", "hx200.md", "gone.md", code=2)
    assert "not in set catena: gone.md; nothing was deleted" in refused.stderr
    assert len(held(filled)) == 2
    assert value("delete", str(tmp_path / "hx200.md"))["deleted"] == ["hx200.md"]
    assert held(filled) == {"hx210.md"}


# rebuild


def test_a_set_is_read_anew_from_files_beside_the_one_that_is_searched(filled: FakeServer) -> None:
    told = value("rebuild", ".", "--chunks", "sections")
    assert told["states"] == {"indexed": 2}
    assert told["dropped"] == []
    assert {"passage"} <= set(value("status")["holds"]["views"])
    assert {name for name, aliases in filled.aliases().items() if not aliases} == set()


def test_no_document_is_lost_unless_that_is_said_and_what_was_built_can_be_abandoned(filled: FakeServer) -> None:
    before = filled.documents("catena-chunks")
    refused = call("rebuild", "hx200.md", code=1)
    assert "hx210.md" in refused.stderr
    assert "all is as before" in refused.stderr
    assert filled.documents("catena-chunks") == before
    assert "catena-next" in str(filled.aliases())
    assert "as before" in call("rebuild", "--abandon").stdout
    assert "catena-next" not in str(filled.aliases())
    assert len(held(filled)) == 2
    assert value("rebuild", "hx200.md", "--drop-missing")["dropped"] == ["hx210.md"]
    assert held(filled) == {"hx200.md"}


# export


def test_all_chunks_are_exported_a_line_each(filled: FakeServer, tmp_path: Path) -> None:
    count = value("export", "out.jsonl", "--vectors")["chunks"]
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(lines) == count == len(filled.documents("catena-chunks"))
    assert {line["chunk"]["document_id"] for line in lines} == {"hx200.md", "hx210.md"}
    assert all(len(line["vectors"][0]["vector"]) == 256 for line in lines)
    call("export", "out.jsonl")
    assert "vectors" not in json.loads((tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert not list(tmp_path.glob("*.part"))


def test_an_export_that_fails_leaves_the_file_that_was_there(
    filled: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out.jsonl").write_text("older\n")

    def broken(store: ServerStore) -> None:
        raise LibraryError("catena", "it went away", "again")

    monkeypatch.setattr(ServerStore, "export", broken)
    call("export", "out.jsonl", code=2)
    assert (tmp_path / "out.jsonl").read_text() == "older\n"
    assert not list(tmp_path.glob("*.part"))
    assert "does not end in .jsonl" in call("export", "out.csv", code=2).stderr


# what goes wrong


@pytest.mark.parametrize(
    "command",
    [["search", "fuse"], ["status"], ["verify"], ["delete", "a"], ["export", "a.jsonl"], ["rebuild"], ["graph"]],
)
def test_a_set_that_is_not_there_is_said_and_none_is_made(server: FakeServer, command: list[str]) -> None:
    result = call(*command, "--name", "none", code=2)
    assert result.stderr.splitlines()[-1] == "Try: catena server index FILES --name NAME makes one"
    assert server.aliases() == {}


@pytest.mark.parametrize("command", [["index", "."], ["search", "fuse"]])
def test_vectors_of_another_model_are_refused(server: FakeServer, command: list[str]) -> None:
    ServerStore.open(server, "other", embedder_identity="someone's", dim=3)
    assert 'vectors of "someone\'s"' in call(*command, "--name", "other", code=2).stderr
    assert server.documents("other-chunks") == {}


def test_a_budget_is_counted_by_one_process_only(server: FakeServer) -> None:
    llm = ["--context", "llm", "--llm", "m", "--base-url", "http://127.0.0.1:1", "--price-in", "1", "--budget", "1"]
    assert "--budget is counted in one process" in call("index", ".", *llm, "--workers", "2", code=2).stderr
    assert server.aliases() == {}


@pytest.mark.parametrize("stop", [KeyboardInterrupt, CancelledError])
def test_a_stop_says_what_is_kept_and_how_to_go_on(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch, stop: type[BaseException]
) -> None:
    def stopped(*given: object) -> None:
        raise stop

    monkeypatch.setattr(server_index, "indexed", stopped)
    result = call("index", ".", code=130)
    assert result.stderr.splitlines() == [
        "Stopped: what was written to set catena is kept",
        "Try: the same command again: what is whole on the server is skipped",
    ]


def test_a_server_that_is_not_there_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catena.effects.services.Retry.wait", lambda retry, attempt: 0.0)
    monkeypatch.setenv("CATENA_SERVER_API_KEY", KEY)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
        result = call("status", "--url", address, code=2)
    lines = result.stderr.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["Error", "Kept", "See", "Try"]
    assert lines[-1] == "Try: check that it runs at this address, then again"
    assert KEY not in result.output


@pytest.mark.parametrize(("option", "package"), [([], "elasticsearch"), (["--opensearch"], "opensearch")])
def test_a_missing_client_names_its_extra(monkeypatch: pytest.MonkeyPatch, option: list[str], package: str) -> None:
    monkeypatch.setattr(
        "catena_server.client_transport.find_spec", lambda name: None if name.startswith(package) else find_spec(name)
    )
    result = call("status", "--url", "http://127.0.0.1:1", *option, code=2)
    assert f"Try: pip install './packages/catena-server[{package}]'" in result.stderr


def test_an_address_is_needed_and_must_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CATENA_SERVER_URL", raising=False)
    assert "--url" in call("status", code=2).stderr
    assert "must be an address" in call("status", "--url", "nonsense", code=2).stderr


@pytest.mark.parametrize("setting", ["api_key", "bearer_auth", "basic_auth", ""])
def test_advice_about_credentials_and_certificates_is_for_the_command_line(setting: str) -> None:
    server = Server(identity="elasticsearch at https://a:9200", flavour="elasticsearch", setting=setting)
    get = Call(method="GET", path="/x")
    for error in (server.refused(get, 401, None), server.untrusted(get, "self-signed")):
        _, hint = split_hint(str(error))
        assert "=" not in hint
        assert "CATENA_SERVER_" in hint or "--" in hint


def test_the_key_is_an_option_nowhere_and_the_help_says_where_it_is_read() -> None:
    assert "CATENA_SERVER_API_KEY" in call("--help").stdout
    own = (command for name, command in commands().items() if name.startswith("server "))
    options = {name for command in own for each in command.params for name in each.opts}
    assert {"--url", "--name", "--opensearch", "--ca-certs"} <= options
    assert not {name for name in options if name.endswith("key")}

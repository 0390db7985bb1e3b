"""The embedder of OpenAI's protocol against servers on this machine: vectors, requests, faults, secrets."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from stub_server import Answer, serving

from catena import Library
from catena.backends import OpenAIEmbedder, embedder_named
from catena.effects import Embedder
from catena.model import InvalidReplyError, ParameterError, ServiceError
from catena.store import LibraryStore

KEY = "sk-test-0123456789abcdefghij"


def reply(*rows: list[float]) -> Answer:
    """Return vectors as services send them, here the last first."""
    data = [{"object": "embedding", "index": place, "embedding": row} for place, row in enumerate(rows)]
    return Answer(
        body={"object": "list", "model": "m", "data": data[::-1], "usage": {"prompt_tokens": 1, "total_tokens": 1}}
    )


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "CATENA_API_KEY"):
        monkeypatch.delenv(name, raising=False)


async def test_vectors_have_unit_length_and_the_order_of_their_texts() -> None:
    with serving(reply([0, 0, 1]), reply([0, 3, 4], [2, 0, 0])) as server:
        embedder = OpenAIEmbedder("m", base_url=f"{server.url}/v1/")
        assert (embedder.dim, isinstance(embedder, Embedder)) == (3, True)
        assert embedder.identity == f"openai:{server.url.removeprefix('http://')}/v1/m"
        rows = embedder.embed_documents(["a", "b"])
        assert rows == pytest.approx(np.array([[0, 0.6, 0.8], [1, 0, 0]]))
        assert np.array_equal(await embedder.aembed_documents(["a", "b"]), rows)
        assert embedder.embed_documents([]).shape == (0, 3)
        copy = pickle.loads(pickle.dumps(embedder))
        assert (copy.identity, copy.dim) == (embedder.identity, 3)
        assert np.array_equal(copy.embed_documents(["a", "b"]), rows)
        asked = server.bodies
    assert [body["input"] for body in asked] == [["length"], *[["a", "b"]] * 3]
    assert all(body.keys() == {"input", "model", "encoding_format"} for body in asked)
    assert {seen.path for seen in server.seen} == {"/v1/embeddings"}


def test_a_length_is_asked_for_only_where_it_is_not_known() -> None:
    known = OpenAIEmbedder(api_key=KEY)
    assert (known.dim, known.identity) == (1536, "openai/text-embedding-3-small")
    chosen = OpenAIEmbedder("m", dim=256, api_key=KEY)
    assert (chosen.dim, chosen.identity) == (256, "openai/m;256 dimensions")
    assert chosen._body(["a"], "")["dimensions"] == 256


def test_requests_keep_to_what_services_take() -> None:
    ours, other = OpenAIEmbedder(api_key=KEY), OpenAIEmbedder("m", dim=8, base_url="http://127.0.0.1:1/v1")
    assert [len(part) for part in ours._parts(["text"] * 1_200)] == [1_000, 200]
    assert [len(part) for part in other._parts(["text"] * 70)] == [32, 32, 6]
    assert [len(part) for part in ours._parts(["x" * 100_000] * 3)] == [2, 1]
    with pytest.raises(ParameterError, match=r"texts\[1\]"):
        ours.embed_documents(["a", " "])


def test_what_a_service_refuses_or_garbles_is_our_error_without_the_key() -> None:
    with pytest.raises(ParameterError, match="in the environment as OPENAI_API_KEY"):
        OpenAIEmbedder()
    refusal = Answer(status=401, body={"error": {"message": f"wrong key {KEY}"}})
    with serving(refusal) as server, pytest.raises(ServiceError, match="OPENAI_API_KEY") as caught:
        OpenAIEmbedder("m", api_key=KEY, base_url=server.url)
    assert KEY not in str(caught.value)
    with serving(reply([1, 0]), reply([1, 0, 0])) as server:
        embedder = OpenAIEmbedder("m", api_key=KEY, base_url=server.url)
        with pytest.raises(InvalidReplyError, match="cannot be read"):
            embedder.embed_query("a")
    with pytest.raises(ServiceError):
        OpenAIEmbedder("m", base_url="http://127.0.0.1:9/v1")


def test_a_library_remembers_a_server_which_gets_no_key_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serving(reply([0, 1])) as server:
        name = f"openai:nomic-embed-text@{server.url}/v1"
        Library.open(tmp_path / "lib", embedder=name).close()
        assert LibraryStore.embedder_name(tmp_path / "lib") == name
        with Library.open(tmp_path / "lib") as library:
            assert library.services.embedder.identity == embedder_named(name)[0].identity
            pickle.loads(pickle.dumps(library.services.embedder)).embed_query("a")
        assert {seen.headers["authorization"] for seen in server.seen} == {"Bearer none"}
        assert KEY.encode() not in (tmp_path / "lib" / "library.sqlite").read_bytes()

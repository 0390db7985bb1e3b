"""Calls through the official clients of both products: what is sent, what comes back, how each failure is told."""

from __future__ import annotations

import asyncio
import json
import pickle
import socket
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from blockbuster import blockbuster_ctx
from elasticsearch import AsyncElasticsearch, Elasticsearch
from hypothesis import given, settings
from hypothesis import strategies as st
from opensearchpy import AsyncOpenSearch
from stub_server import Answer, Stub, self_signed, serving

from catena.model import ParameterError, ServerError
from catena_server import Call, ElasticsearchTransport, OpenSearchTransport
from catena_server.client_transport import Server, addresses, encoded

Kind: TypeAlias = type[ElasticsearchTransport] | type[OpenSearchTransport]

READ = Call(method="GET", path="/some/_search")
WRITE = Call(method="POST", path="/_bulk", lines=[{"index": {}}, {"a": 1}])
BOTH = pytest.mark.parametrize("kind", [ElasticsearchTransport, OpenSearchTransport])


def perform(transport: Any, call: Call, world: str) -> Any:
    if world == "sync":
        with transport:
            return transport.perform(call)

    async def once() -> Any:
        try:
            with blockbuster_ctx(scanned_modules=["catena"]):
                return await transport.aperform(call)
        finally:
            await transport.aclose()

    return asyncio.run(once())


def failure(kind: Kind, *answers: Answer, call: Call = READ, **settings: Any) -> ServerError:
    with serving(*answers) as stub, kind.connect(stub.url, **settings) as transport:
        with pytest.raises(ServerError) as caught:
            transport.perform(call)
        return caught.value


@pytest.fixture(params=["sync", "async"])
def world(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def stub() -> Iterator[Stub]:
    with serving(Answer(body={"took": 3})) as server:
        yield server


# What is sent.


@BOTH
def test_a_call_is_sent_as_it_says(kind: Kind, stub: Stub, world: str) -> None:
    call = Call(
        method="POST", path="/a%2Fb/_search", params={"refresh": True, "size": 3, "timeout": "1m"}, body={"q": "ü"}
    )
    assert perform(kind.connect(stub.url), call, world) == {"took": 3}
    (seen,) = stub.seen
    assert (seen.method, seen.path) == ("POST", "/a%2Fb/_search?refresh=true&size=3&timeout=1m")
    assert seen.body.decode() == '{"q":"ü"}'
    assert "json" in seen.headers["content-type"]
    assert "json" in seen.headers["accept"]


@BOTH
def test_a_name_in_the_address_is_a_credential_and_shown_nowhere(kind: Kind, stub: Stub, world: str) -> None:
    transport = kind.connect(stub.url.replace("://", "://some%40one:pass%3Aword@"))
    perform(transport, READ, world)
    assert stub.seen[0].headers["authorization"] == "Basic c29tZUBvbmU6cGFzczp3b3Jk"
    assert "word" not in repr(transport)
    assert stub.url in transport.identity


@BOTH
def test_nodes_are_asked_in_turn_and_a_dead_one_is_passed_over_at_once(kind: Kind, world: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{free.getsockname()[1]}"
    with serving(Answer(body={"n": 1})) as one, serving(Answer(body={"n": 2})) as two:
        transport = kind.connect([dead, one.url, two.url])

        def several() -> set[int]:
            return {transport.perform(READ)["n"] for _ in range(6)}

        async def aseveral() -> set[int]:
            async with transport:
                return {(await transport.aperform(READ))["n"] for _ in range(6)}

        assert (several() if world == "sync" else asyncio.run(aseveral())) == {1, 2}
        transport.close()


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=())), st.lists)
)
def test_a_body_is_utf8_json_whatever_stands_in_it(value: Any) -> None:
    sent = encoded(Call(method="POST", path="/", body={"v": value}))[1]
    assert sent is not None
    assert json.loads(sent.decode("utf-8")) == json.loads(json.dumps({"v": value}))


def test_arrays_are_numbers_and_what_is_no_json_is_refused_before_it_is_sent() -> None:
    nan = float("nan")
    body = {"v": np.array([0.5, 2], dtype=np.float32), "n": np.int64(3)}
    assert encoded(Call(method="POST", path="/", body=body))[1] == b'{"v":[0.5,2.0],"n":3}'
    for value in (nan, [0.5, float("inf")], {"a": [[{"b": -nan}]]}, [1.0, "a", nan], object(), {1, 2}):
        with pytest.raises(ParameterError, match="POST /x"):
            encoded(Call(method="POST", path="/x", body={"v": value}))


# Whose client it is.


def test_clients_of_the_user_are_used_as_they_stand_and_left_alone() -> None:
    with serving(Answer(status=503, body={}), Answer(body={"ok": 1})) as stub:
        client = Elasticsearch(stub.url, api_key="aWQ6a2V5", max_retries=7, retry_on_timeout=True).options(
            ignore_status=503
        )
        before = {name: value for name, value in vars(client).items() if name.startswith("_")}
        transport = ElasticsearchTransport(client)
        with pytest.raises(ServerError) as caught:  # neither repeated nor taken for an answer
            transport.perform(READ)
        assert (caught.value.status, len(stub.seen)) == (503, 1)
        assert transport.perform(READ) == {"ok": 1}
        transport.close()
        assert {name: value for name, value in vars(client).items() if name.startswith("_")} == before
        assert client.perform_request("GET", "/", headers={"accept": "application/json"}).body == {"ok": 1}  # open
        client.close()


@BOTH
def test_beside_an_async_client_a_sync_one_is_made_with_its_credentials(kind: Kind, stub: Stub) -> None:
    async def both() -> None:
        if kind is ElasticsearchTransport:
            aclient: Any = AsyncElasticsearch(stub.url, basic_auth=("someone", "word"))
        else:
            aclient = AsyncOpenSearch(stub.url, http_auth=("someone", "word"))
        transport = kind(aclient=aclient)
        await transport.aperform(READ)
        await asyncio.to_thread(transport.perform, READ)
        await transport.aclose()
        await transport.aperform(READ)  # the user's own is open still
        await aclient.close()

    asyncio.run(both())
    assert {seen.headers["authorization"] for seen in stub.seen} == {"Basic c29tZW9uZTp3b3Jk"}


# Failures.

FLOODED = (
    "index [n] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark, index has "
    "read-only-allow-delete block];"
)
REFUSALS = [
    (401, "security_exception", "unable to authenticate", False, "credential in api_key="),
    (403, "security_exception", "action [indices:data/write] is unauthorized", False, "a key whose role has read"),
    (404, "index_not_found_exception", "no such index [n]", False, "create=True"),
    (400, "media_type_header_exception", "Invalid media-type value on headers [Accept]", False, "'elasticsearch<9'"),
    (400, "mapper_parsing_exception", "No handler for type [dense_vector] declared", False, "a newer server"),
    (413, "", "Request Entity Too Large", False, "smaller batches"),
    (429, "circuit_breaking_exception", "[parent] Data too large", True, "more memory"),
    (429, "es_rejected_execution_exception", "rejected execution of coordinating operation", True, "in_flight"),
    (429, "cluster_block_exception", FLOODED, False, "more room on the server's disk"),
    (403, "cluster_block_exception", "blocked by: [FORBIDDEN/8/index write (api)];", False, "index.blocks.write"),
    (503, "cluster_block_exception", "blocked by: [SERVICE_UNAVAILABLE/2/no master];", True, "has a master"),
    (502, "", "<html>Bad Gateway</html>", True, "again later"),
    (504, "", "", True, "again later"),
    (500, "null_pointer_exception", "x is null", False, "server's log"),
]


@BOTH
@pytest.mark.parametrize("refusal", REFUSALS, ids=[f"{case[0]}-{case[1]}" for case in REFUSALS])
def test_a_refusal_says_what_where_what_is_kept_and_what_to_do(
    kind: Kind, refusal: tuple[int, str, str, bool, str]
) -> None:
    status, kind_of_error, reason, retry, hint = refusal
    body: Any = reason.encode()
    if kind_of_error:
        error = {"type": kind_of_error, "reason": reason}
        body = {"error": {**error, "root_cause": [error]}, "status": status}
    given = Answer(status=status, body=body, content_type="application/json" if kind_of_error else "text/plain")
    setting: dict[str, Any] = {"basic_auth": ("someone", "word")}
    if kind is ElasticsearchTransport:
        setting = {"api_key": "aWQ6a2V5"}
    error = failure(kind, given, call=WRITE, **setting)
    assert (error.status, error.kind, error.retry) == (status, kind_of_error, retry)
    told = str(error).replace("basic_auth=", "api_key=")
    for words in ("POST /_bulk", "127.0.0.1", reason[:40], "what was written before stays", hint):
        assert words in told


@BOTH
def test_a_search_that_failed_on_shards_says_why(kind: Kind) -> None:
    why = {"type": "query_shard_exception", "reason": "failed to create query"}
    cause = {"type": "illegal_argument_exception", "reason": "the vector has 3 dimensions"}
    failed = {"type": "search_phase_execution_exception", "reason": "all shards failed"}
    error = failure(kind, Answer(status=400, body={"error": {**failed, "root_cause": [why], "caused_by": cause}}))
    assert error.kind == "query_shard_exception"
    assert "failed to create query; the vector has 3 dimensions" in str(error)
    assert "Nothing was changed" in str(error)


@BOTH
def test_what_may_be_missing_is_none(kind: Kind, world: str) -> None:
    gone = Answer(status=404, body={"error": {"type": "index_not_found_exception"}})
    for method in ("GET", "HEAD"):
        with serving(gone) as stub:
            call = Call(method=method, path="/n", missing_ok=True)
            assert perform(kind.connect(stub.url), call, world) is None
        with serving(gone) as stub, pytest.raises(ServerError) as caught:
            perform(kind.connect(stub.url), Call(method=method, path="/n"), world)
        assert caught.value.status == 404
    with serving() as stub:
        assert perform(kind.connect(stub.url), Call(method="HEAD", path="/n", missing_ok=True), world) is True


@BOTH
def test_a_broken_line_and_a_slow_server_may_be_tried_again(kind: Kind, world: str) -> None:
    call = Call(method="POST", path="/_bulk", lines=[{}], seconds=0.2)
    for answer, name in ((Answer(drop=True), "connection"), (Answer(hold=True), "timeout")):
        with serving(answer) as stub, kind.connect(stub.url) as transport, pytest.raises(ServerError) as caught:
            perform(transport, call, world)
        assert (caught.value.kind, caught.value.retry, caught.value.status) == (name, True, None)
        assert "It may have been carried out" in str(caught.value)


@BOTH
def test_an_answer_that_is_no_json_is_told_without_repeating_it(kind: Kind) -> None:
    error = failure(kind, Answer(body=b'{"secret": '))
    assert (error.kind, error.retry) == ("unreadable", False)
    assert "secret" not in str(error)


# TLS.


@BOTH
def test_a_certificate_is_believed_by_its_authority_its_fingerprint_or_on_request(
    kind: Kind, certificate: tuple[Path, Path, str]
) -> None:
    both, alone, fingerprint = certificate
    with serving(certificate=both) as stub:
        for setting in (
            {"ca_certs": str(alone)},
            {"verify_certs": False},
            {"ca_certs": str(alone), "ssl_assert_fingerprint": fingerprint},
        ):
            with kind.connect(stub.url, **setting) as transport:
                assert transport.perform(READ) == {}
        assert perform(kind.connect(stub.url, ca_certs=str(alone)), READ, "async") == {}


@BOTH
def test_a_certificate_that_nobody_vouches_for_is_refused(
    kind: Kind, certificate: tuple[Path, Path, str], world: str
) -> None:
    both, alone, _ = certificate
    wrong = "0" * 64
    with serving(certificate=both) as stub:
        for setting in ({}, {"ca_certs": str(alone), "ssl_assert_fingerprint": wrong}):
            with kind.connect(stub.url, **setting) as transport, pytest.raises(ServerError) as caught:
                perform(transport, READ, world)
            assert (caught.value.kind, caught.value.retry) == ("tls", False)
            assert "ca_certs=" in str(caught.value)
    assert stub.seen == []


# No credential shows.

# "~" stands in no word of ours, so that what is found of a secret came from the server
SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=40).map("~{}".format)


@settings(max_examples=40)
@given(name=SECRETS, secret=SECRETS, how=st.sampled_from(["Basic", "ApiKey", "Bearer"]), data=st.data())
def test_no_part_of_a_credential_is_in_any_error(name: str, secret: str, how: str, data: st.DataObject) -> None:
    import base64

    name = name.replace(":", "-")
    sent = secret if how == "Bearer" else base64.b64encode(f"{name}:{secret}".encode()).decode()
    server = Server.of("elasticsearch", ["http://h:9200"], [f"{how} {sent}"])
    hidden = [sent, secret, *([name] if how == "ApiKey" else [])]
    echoed = f"headers {{Authorization=[{how} {sent}]}} for {secret} of {name if how == 'ApiKey' else ''}"
    errors = [
        server.refused(
            READ, data.draw(st.sampled_from([401, 403, 500])), {"error": {"type": sent, "reason": echoed}}
        ),
        server.refused(READ, 400, echoed.encode()),
        server.unreached(READ, "client", echoed, "again", retry=False),
        server.timed_out(READ, echoed),
        server.untrusted(READ, echoed),
    ]
    for error in errors:
        again = pickle.loads(pickle.dumps(error))
        for shown in (str(error), repr(error), repr(again), repr(server), error.kind):
            assert not any(each in shown for each in hidden)


@BOTH
def test_neither_repr_nor_pickle_nor_traceback_shows_a_key(kind: Kind) -> None:
    secret, sent = "s3cr3t-w0rd", "Basic c29tZW9uZTpzM2NyM3QtdzByZA=="
    echo = Answer(status=401, body={"error": {"type": "x", "reason": f"denied: {sent}; {secret}"}})
    with serving(echo) as stub, kind.connect(stub.url, basic_auth=("someone", secret)) as transport:
        with pytest.raises(ServerError) as caught:
            transport.perform(READ)
        shown = [repr(transport), str(caught.value), "".join(traceback.format_exception(caught.value))]
        assert caught.value.__context__ is None
        with pytest.raises(ParameterError, match="in each process"):
            pickle.dumps(transport)
    assert not any(secret in each or sent[6:] in each for each in shown)


# Settings.


@BOTH
@pytest.mark.parametrize("url", ["localhost:9200", "ftp://host", "", "http://", "http://u:s3cr3t@host:port"])
def test_an_address_that_is_none_is_refused_without_repeating_it(kind: Kind, url: str) -> None:
    with pytest.raises(ParameterError, match="https://search") as caught:
        kind.connect(url)
    assert "s3cr3t" not in str(caught.value)


@BOTH
@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ({"timeout": 0}, "seconds > 0"),
        ({"basic_auth": ("a", "s3cr3t"), "bearer_auth": "s3cr3t"}, "only one of"),
        ({"ca_certs": "/nowhere/ca.pem"}, "certificates that can be read"),
        ({"ca_certs": __file__}, "certificates that can be read"),
    ],
)
def test_settings_that_contradict_are_refused(kind: Kind, setting: dict[str, Any], why: str) -> None:
    with pytest.raises(ParameterError, match=why) as caught:
        kind.connect("https://127.0.0.1:9", **setting)
    assert "s3cr3t" not in str(caught.value)


def test_addresses_are_completed_and_of_one_cluster() -> None:
    assert addresses("https://host/es/").urls == ("https://host:443/es",)
    assert addresses(["http://[::1]:9200", "http://u:p@host:9200"]).urls == ("http://[::1]:9200", "http://host:9200")
    with pytest.raises(ParameterError, match="one cluster"):
        addresses(["http://u:p@host:1", "http://v:p@host:1"])

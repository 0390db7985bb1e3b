"""Cohere's rerank and embed models over recordings made by hand; the service itself is never asked."""

import asyncio

import pytest
from hosted_cases import KEY, TEXTS, HostedCases, recording

from catena.backends import CohereReranker
from catena.backends import cohere as backend
from catena.backends.cohere import CohereEmbedder
from catena.model import InvalidReplyError, ParameterError


class TestCohere(HostedCases):
    backend = backend
    reranker_type, embedder_type = CohereReranker, CohereEmbedder
    service, package, variable = "cohere", "cohere", "CO_API_KEY"
    rerank_limit, embed_limit = "MAX_DOCUMENTS", "MAX_TEXTS"

    @recording("embed_other_type")
    def test_vectors_of_another_type_are_refused(self, embed, vcr):
        with pytest.raises(InvalidReplyError):
            embed(TEXTS)


def test_documented_limits_are_obeyed():
    plan = CohereReranker(api_key=KEY)._plan("query", ["text"] * 2_500)
    assert [len(request) for request in plan.requests] == [1_000, 1_000, 500]
    parts = CohereEmbedder(api_key=KEY)._parts(["text"] * 200)
    assert [len(part) for part in parts] == [96, 96, 8]


def test_a_window_never_holds_more_tokens_than_the_model_reads():
    plan = CohereReranker(api_key=KEY, max_tokens=512)._plan("query", ["é" * 3_000, "x" * 416])
    assert max(len(piece.encode()) for piece in plan.pieces) <= 512 - 96
    assert plan.pieces[-1] == "x" * 416
    with pytest.raises(ParameterError, match="max_tokens"):
        CohereReranker(api_key=KEY, max_tokens=255)


def test_the_dimension_is_sent_only_where_it_is_chosen():
    chosen, default = CohereEmbedder(api_key=KEY, dim=256), CohereEmbedder("embed-english-v3.0", api_key=KEY)
    assert chosen._body(["a"], "search_query")["output_dimension"] == 256
    assert "output_dimension" not in default._body(["a"], "search_query")
    assert default.dim == 1024


def test_the_environment_may_name_another_address(monkeypatch):
    monkeypatch.setenv("CO_API_URL", "https://models.example/cohere")
    assert CohereReranker(api_key=KEY).identity == "cohere:models.example/cohere/rerank-v3.5"


def test_it_closes_its_connections():
    with CohereReranker(api_key=KEY) as reranker:
        pass
    assert reranker._client._client_wrapper.httpx_client.httpx_client.is_closed
    asyncio.run(asyncio.sleep(0))

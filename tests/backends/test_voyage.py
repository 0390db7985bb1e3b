"""Voyage's rerank and embedding models over recordings made by hand; the service itself is never asked."""

import asyncio

import numpy as np
import pytest
from hosted_cases import KEY, ROWS, TEXTS, HostedCases, recorded, recording

from catena.backends import VoyageReranker
from catena.backends import voyage as backend
from catena.backends.voyage import VoyageEmbedder
from catena.model import InvalidReplyError


class TestVoyage(HostedCases):
    backend = backend
    reranker_type, embedder_type = VoyageReranker, VoyageEmbedder
    service, package, variable = "voyage", "voyageai", "VOYAGE_API_KEY"
    rerank_limit = embed_limit = "MAX_ITEMS"

    @recording("embed_any_order")
    def test_rows_find_their_texts_by_index(self, embed, vcr):
        np.testing.assert_allclose(embed(TEXTS), ROWS, atol=1e-7)

    @pytest.mark.parametrize(("operation", "name"), recorded("embed", "duplicate", "not_base64"))
    def test_vectors_of_unclear_texts_are_refused(self, ask, vcr, operation, name):
        with pytest.raises(InvalidReplyError):
            ask(operation)


def test_documented_limits_are_obeyed():
    plan = VoyageReranker(api_key=KEY)._plan("query", ["text"] * 2_500)
    assert [len(request) for request in plan.requests] == [1_000, 1_000, 500]
    assert [len(part) for part in VoyageEmbedder(api_key=KEY)._parts(["text"] * 2_500)] == [1_000, 1_000, 500]
    old = VoyageEmbedder("voyage-3", api_key=KEY)
    assert [len(part) for part in old._parts(["text"] * 300)] == [128, 128, 44]


def test_a_request_never_holds_more_tokens_than_the_service_takes():
    query, texts = "q" * 400, ["x" * 1_600] * 900
    for request in VoyageReranker(api_key=KEY)._plan(query, texts).requests:
        assert sum(len(query) + len(piece) for piece in request) <= 600_000
    for model in ("voyage-law-2", "unheard-of"):
        assert len(VoyageEmbedder(model, dim=8, api_key=KEY)._parts(texts)[0]) * 1_600 == 120_000


@pytest.mark.parametrize(("model", "pair"), [("rerank-2.5", 32_000), ("rerank-2", 16_000), ("unheard-of", 4_000)])
def test_query_and_window_fit_the_model_together(model, pair):
    plan = VoyageReranker(model, api_key=KEY)._plan("q" * 500, ["word " * 30_000])
    assert 0.9 * pair < max(len(piece) + 500 for piece in plan.pieces) <= pair - 96


def test_the_dimension_is_sent_only_where_it_is_chosen():
    assert VoyageEmbedder(api_key=KEY, dim=256)._body(["a"], "query")["output_dimension"] == 256
    assert VoyageEmbedder(api_key=KEY, dim=1024)._body(["a"], "query")["output_dimension"] is None
    assert VoyageEmbedder("voyage-3-lite", api_key=KEY).dim == 512


def test_several_event_loops_one_after_the_other(monkeypatch):
    reranker = VoyageReranker(api_key=KEY, base_url="http://127.0.0.1:1", timeout=2)
    for _ in range(2):
        with pytest.raises(Exception, match="APIConnectionError"):
            asyncio.run(reranker.ascore("query", ["text"]))

"""Rerankers both ways: LlamaIndex's postprocessors as the core's, and CatenaRerank as a good postprocessor."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.bridge.pydantic import Field
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.llms import CustomLLM
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index_spans import listening

from catena.effects import Rate, Services, arun, ask, run
from catena.model import CalibrationError, InvalidReplyError, ParameterError, ServiceError
from catena.segments import COHERE, Artefact, Constant, Identity, fit_beta
from catena.testing import FakeReranker
from llama_index_catena import CatenaRerank, LlamaIndexReranker
from llama_index_catena.convert import provenance

TEXTS = ("aaaa", "bb", "cccccc")


class ByLength(BaseNodePostprocessor):
    """Scores nodes by their length, best first, as the vendors' rerankers do; keeps `top_n` of them."""

    model: str = "by-length"
    top_n: int = 2
    seen: list[Any] = Field(default=[], exclude=True)

    @classmethod
    def class_name(cls) -> str:
        return "ByLength"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        self.seen.append((query_bundle, len(nodes)))
        found = [NodeWithScore(node=each.node, score=len(each.node.get_content()) / 10) for each in nodes]
        return sorted(found, key=lambda each: -(each.score or 0.0))[: self.top_n]


class Failing(ByLength):
    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        raise ConnectionError("api_key=abc123 was cut off")


class Unscored(ByLength):
    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return nodes


class Choosing(CustomLLM):
    """Answers as `LLMRerank` asks: which documents are relevant, and how much."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="choosing")

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text="Doc: 2, Relevance: 7\nDoc: 1, Relevance: 3")

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        raise AssertionError("nobody streams")


def nodes() -> list[NodeWithScore]:
    return [
        NodeWithScore(node=TextNode(id_=text, text=text), score=0.5 - rank / 10) for rank, text in enumerate(TEXTS)
    ]


async def test_a_postprocessor_scores_all_texts_in_order_whatever_its_top_n() -> None:
    post = ByLength()
    reranker = LlamaIndexReranker(post)
    assert reranker.identity == "llama-index:ByLength/by-length"
    assert reranker.score("q", TEXTS) == [0.4, 0.2, 0.6]
    assert await reranker.ascore("q", TEXTS) == [0.4, 0.2, 0.6]
    assert post.top_n == 2
    assert reranker.score("q", []) == []


async def test_it_answers_the_cores_requests_sync_and_async() -> None:
    services = Services(reranker=LlamaIndexReranker(ByLength()))
    assert run(ask([Rate(query="q", texts=TEXTS)]), services) == [(0.4, 0.2, 0.6)]
    assert await arun(ask([Rate(query="q", texts=TEXTS)]), services) == [(0.4, 0.2, 0.6)]


def test_texts_that_a_model_leaves_out_have_the_score_that_is_said() -> None:
    post = LLMRerank(llm=Choosing(), top_n=1)
    assert LlamaIndexReranker(post).score("q", TEXTS) == [3.0, 7.0, 0.0]
    assert LlamaIndexReranker(post, left_out=-1.0).score("q", TEXTS) == [3.0, 7.0, -1.0]
    assert LlamaIndexReranker(post).identity.endswith("/choosing")


async def test_failures_are_typed_and_without_secrets() -> None:
    with pytest.raises(ServiceError) as caught:
        LlamaIndexReranker(Failing()).score("q", TEXTS)
    assert "abc123" not in str(caught.value)
    assert caught.value.retry
    with pytest.raises(ServiceError, match="ByLength"):
        await LlamaIndexReranker(Failing()).ascore("q", TEXTS)
    with pytest.raises(InvalidReplyError, match="without a score"):
        LlamaIndexReranker(Unscored()).score("q", TEXTS)
    with pytest.raises(ParameterError, match="postprocessor"):
        LlamaIndexReranker("no postprocessor")  # type: ignore[arg-type]


async def test_scores_are_calibrated_probabilities_in_the_rerankers_order_sync_and_async() -> None:
    rerank = CatenaRerank(ByLength(), calibration=COHERE)
    found = rerank.postprocess_nodes(nodes(), query_str="q")
    assert [each.node.node_id for each in found] == ["cccccc", "aaaa", "bb"]
    assert [each.score for each in found] == pytest.approx([float(COHERE(x)) for x in (0.6, 0.4, 0.2)], abs=1e-12)
    with blockbuster_ctx(["catena", "llama_index_catena"]), listening() as told:
        assert await rerank.apostprocess_nodes(nodes(), query_str="q") == found
    assert "CatenaRerank._apostprocess_nodes" in told.spans
    told_of = provenance(found[0].node)
    assert told_of["scale"] == "probability"
    assert told_of["routes"][-1] == {"route": "rerank", "rank": 1, "score": 0.6, "view": "raw"}


def test_the_best_are_returned_and_former_routes_stay_known() -> None:
    twice = CatenaRerank(FakeReranker(lambda query, text: len(text) / 10), calibration=Identity(), top_n=2)
    once = twice.postprocess_nodes(nodes(), query_str="q")
    found = twice.postprocess_nodes(once, query_str="q")
    assert [each.node.node_id for each in found] == ["cccccc", "aaaa"]
    assert [way["route"] for way in provenance(found[0].node)["routes"]] == ["rerank", "rerank"]


def test_metadata_are_read_as_the_mode_says() -> None:
    reranker = FakeReranker()
    node = TextNode(text="text", metadata={"title": "HX210", "secret": "s"}, excluded_embed_metadata_keys=["secret"])
    CatenaRerank(reranker, calibration=Constant()).postprocess_nodes([NodeWithScore(node=node)], query_str="q")
    CatenaRerank(reranker, calibration=Constant(), metadata_mode="none").postprocess_nodes(
        [NodeWithScore(node=node)], query_str="q"
    )
    assert [tuple(texts) for _, texts in reranker.calls] == [("title: HX210\n\ntext",), ("text",)]


def test_nodes_given_stay_as_they_are() -> None:
    given, before = nodes(), nodes()
    given[0].node.metadata["a"] = before[0].node.metadata["a"] = 1
    kept = deepcopy(given)
    CatenaRerank(ByLength(), calibration=Identity()).postprocess_nodes(given, query_str="q")
    assert given == kept == before


@pytest.mark.parametrize("reranker", [ByLength(), Failing()])
@pytest.mark.parametrize("given", [nodes(), []])
async def test_every_start_has_its_end(reranker: BaseNodePostprocessor, given: list[NodeWithScore]) -> None:
    debug = LlamaDebugHandler(print_trace_on_end=False)
    rerank = CatenaRerank(reranker, calibration=Identity(), callback_manager=CallbackManager([debug]))
    with listening() as told:
        for asynchronous in (False, True):
            try:
                if asynchronous:
                    await rerank.apostprocess_nodes(given, query_str="q")
                else:
                    rerank.postprocess_nodes(given, query_str="q")
            except ServiceError:
                assert isinstance(reranker, Failing)
    names = [type(event).__name__ for event in told.events if type(event).__name__.startswith("ReRank")]
    assert names == ["ReRankStartEvent", "ReRankEndEvent"] * 2
    assert len(debug.get_event_pairs(CBEventType.RERANKING)) == 2
    assert all(len(pair) == 2 for pair in debug.get_event_pairs(CBEventType.RERANKING))


async def test_nothing_is_asked_for_no_nodes_and_a_missing_query_is_an_error() -> None:
    reranker = FakeReranker()
    rerank = CatenaRerank(reranker, calibration=Identity())
    assert rerank.postprocess_nodes([], query_str="q") == []
    assert reranker.calls == []
    with pytest.raises(ValueError, match="query") as caught:
        rerank.postprocess_nodes(nodes())
    assert isinstance(caught.value, ParameterError)
    with pytest.raises(ParameterError, match="query"):
        await rerank.apostprocess_nodes(nodes())


def test_the_old_order_is_kept_where_that_is_asked_for_and_told(caplog: pytest.LogCaptureFixture) -> None:
    with listening() as told:
        found = CatenaRerank(Failing(), calibration=COHERE, on_failure="rank").postprocess_nodes(
            nodes(), query_str="q"
        )
    assert [each.node.node_id for each in found] == list(TEXTS)
    assert [each.score for each in found] == [0.8, 0.8, 0.8]
    assert "reranker: " in caplog.text
    assert [event.what for event in told.events if type(event).__name__ == "RouteDegradedEvent"] == ["reranker"]


def test_a_fit_of_another_reranker_is_refused() -> None:
    fit = fit_beta([x / 40 for x in range(1, 40)])
    mine, other = (Artefact(fit=fit, model=name) for name in ("fake-reranker", "another"))
    rerank = CatenaRerank(FakeReranker(), calibration=mine)
    assert rerank.calibration == fit.calibration
    with pytest.raises(CalibrationError, match="another"):
        CatenaRerank(FakeReranker(), calibration=other)


def test_what_is_no_reranker_or_no_rule_is_refused() -> None:
    with pytest.raises(ParameterError, match="reranker"):
        CatenaRerank(object(), calibration=Identity())
    with pytest.raises(ParameterError, match="calibration"):
        CatenaRerank(ByLength(), calibration="cohere")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="top_n"):
        CatenaRerank(ByLength(), calibration=Identity(), top_n=-1)


def test_it_is_written_down_by_what_it_is() -> None:
    written = CatenaRerank(ByLength(), calibration=COHERE, top_n=3).to_dict()
    assert written["class_name"] == "CatenaRerank"
    assert written["reranker"] == "llama-index:ByLength/by-length"
    assert written["calibration"] == {"kind": "BetaCDF", "a": 0.4, "b": 0.4}
    assert CatenaRerank.from_dict(written, reranker=ByLength()).to_dict() == written

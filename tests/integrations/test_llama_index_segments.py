"""Rerankers both ways, and segments over the user's own stores: exact slices by hand-made numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from llama_index.core import Document
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.bridge.pydantic import Field
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.llms import CustomLLM
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index_fakes import Finding, KeepingVectorStore, chain, docstore_of, listening

import llama_index_catena as adapters
from catena.model import InvalidReplyError, ParameterError, ServiceError
from catena.segments import BALANCED, COHERE, Constant, Identity
from catena.testing import FakeReranker
from llama_index_catena.convert import NOTICE, provenance

WORDS = ("aaaa", "bb", "cccccc")


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
        NodeWithScore(node=TextNode(id_=text, text=text), score=0.5 - rank / 10) for rank, text in enumerate(WORDS)
    ]


async def test_a_postprocessor_scores_all_texts_in_order_whatever_its_top_n() -> None:
    post = ByLength()
    reranker = adapters.LlamaIndexReranker(post)
    assert reranker.identity == "llama-index:ByLength/by-length"
    assert reranker.score("q", WORDS) == [0.4, 0.2, 0.6]
    assert await reranker.ascore("q", WORDS) == [0.4, 0.2, 0.6]
    assert post.top_n == 2
    assert reranker.score("q", []) == []


def test_texts_that_a_model_leaves_out_have_the_score_that_is_said() -> None:
    post = LLMRerank(llm=Choosing(), top_n=1)
    assert adapters.LlamaIndexReranker(post).score("q", WORDS) == [3.0, 7.0, 0.0]
    assert adapters.LlamaIndexReranker(post, left_out=-1.0).score("q", WORDS) == [3.0, 7.0, -1.0]
    assert adapters.LlamaIndexReranker(post).identity.endswith("/choosing")


async def test_failures_are_typed_and_without_secrets() -> None:
    with pytest.raises(ServiceError) as caught:
        adapters.LlamaIndexReranker(Failing()).score("q", WORDS)
    assert "abc123" not in str(caught.value)
    assert caught.value.retry
    with pytest.raises(ServiceError, match="ByLength"):
        await adapters.LlamaIndexReranker(Failing()).ascore("q", WORDS)
    with pytest.raises(InvalidReplyError, match="without a score"):
        adapters.LlamaIndexReranker(Unscored()).score("q", WORDS)


def test_metadata_are_read_as_the_mode_says() -> None:
    reranker = FakeReranker()
    node = TextNode(text="text", metadata={"title": "HX210", "secret": "s"}, excluded_embed_metadata_keys=["secret"])
    adapters.CatenaRerank(reranker, calibration=Constant()).postprocess_nodes(
        [NodeWithScore(node=node)], query_str="q"
    )
    adapters.CatenaRerank(reranker, calibration=Constant(), metadata_mode="none").postprocess_nodes(
        [NodeWithScore(node=node)], query_str="q"
    )
    assert [tuple(texts) for _, texts in reranker.calls] == [("title: HX210\n\ntext",), ("text",)]


@pytest.mark.parametrize("reranker", [ByLength(), Failing()])
@pytest.mark.parametrize("given", [nodes(), []])
async def test_every_start_has_its_end(reranker: BaseNodePostprocessor, given: list[NodeWithScore]) -> None:
    debug = LlamaDebugHandler(print_trace_on_end=False)
    rerank = adapters.CatenaRerank(reranker, calibration=Identity(), callback_manager=CallbackManager([debug]))
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


async def test_a_missing_query_is_an_error_of_ours() -> None:
    rerank = adapters.CatenaRerank(FakeReranker(), calibration=Identity())
    with pytest.raises(ParameterError, match="query"):
        rerank.postprocess_nodes(nodes())
    with pytest.raises(ParameterError, match="query"):
        await rerank.apostprocess_nodes(nodes())


TEXTS = [f"{letter * 699}\n" for letter in "abcdefgh"]  # of the reference length: every length factor is 1
QUERY = "what?"


class Gone(BaseRetriever):
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        raise ConnectionError("gone")


def scored(nodes: list[TextNode], **scores: float | None) -> list[NodeWithScore]:
    """Return some nodes with scores, by their letter."""
    return [NodeWithScore(node=nodes["abcdefgh".index(letter)], score=score) for letter, score in scores.items()]


def letters(found: list[NodeWithScore]) -> list[str]:
    return ["".join(sorted({letter for letter in each.node.get_content() if letter.isalpha()})) for each in found]


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("kind", ["docstore", "vectors"])
async def test_neighbours_come_from_docstores_and_vector_stores_by_links_and_by_position(
    linked: bool, counted: bool, kind: str
) -> None:
    nodes = chain("d", TEXTS, linked=linked, counted=counted)
    vectors = KeepingVectorStore.of(nodes)
    post = adapters.CatenaSegmentPostprocessor(
        docstore_of(nodes) if kind == "docstore" else vectors, calibration=Identity()
    )
    given_ = scored(nodes, b=0.9, d=0.8)
    reachable = linked or (counted and kind == "vectors")
    expected = ["bcd"] if reachable else ["b", "d"]
    found = post.postprocess_nodes(given_, query_str=QUERY)
    assert sorted(letters(found)) == expected
    assert await post.apostprocess_nodes(given_, query_str=QUERY) == found


async def test_a_store_with_async_code_of_its_own_is_awaited() -> None:
    class Awaited(KeepingVectorStore):
        async def aget_nodes(self, node_ids=None, filters=None):
            return super().get_nodes(node_ids, filters)

        def get_nodes(self, node_ids=None, filters=None):
            raise AssertionError("the loop would be blocked")

    for counted in (False, True):
        nodes = chain("d", TEXTS, counted=counted)
        post = adapters.CatenaSegmentPostprocessor(Awaited.of(nodes), calibration=Identity())
        assert letters(await post.apostprocess_nodes(scored(nodes, b=0.9, d=0.8))) == ["bcd"]


def test_a_docstore_that_holds_the_document_gives_what_stands_between() -> None:
    text = "One is here.\t\n\nTwo is here.\r\n\tThree is here. Four is not."
    starts = [0, text.index("Two"), text.index("Three")]
    nodes = chain("d", ["One is here.", "Two is here.", "Three is here."])
    for node, start in zip(nodes, starts, strict=True):
        node.start_char_idx, node.end_char_idx = start, start + len(node.text)
    found = [NodeWithScore(node=nodes[0], score=0.9), NodeWithScore(node=nodes[2], score=0.9)]
    loose = replace(BALANCED, length_adjustment="off")
    alone = adapters.CatenaSegmentPostprocessor(docstore_of(nodes), calibration=Identity(), params=loose)
    whole = adapters.CatenaSegmentPostprocessor(
        docstore_of([*nodes, Document(id_="d", text=text)]), calibration=Identity(), params=loose
    )
    expected = text.removesuffix(" Four is not.")
    assert [each.node.text for each in whole.postprocess_nodes(found)] == [expected]
    (joined,) = alone.postprocess_nodes(found)
    assert joined.node.text.split() == expected.split()
    assert len(joined.node.text) == len(expected)
    assert joined.node.text != expected  # which white space it was, only the document says


def test_what_is_known_of_the_nodes_is_known_of_the_segment_and_what_they_hide_stays_hidden() -> None:
    text = "# Pump\n\nRead this.\n\n## Screws\n\nTighten to 12 Nm.\n\nThen stop."
    document = Document(id_="pump", text=text, metadata={"title": "HX210", "secret": "s"})
    document.excluded_llm_metadata_keys = document.excluded_embed_metadata_keys = ["secret"]
    nodes = adapters.CatenaNodeParser(min_tokens=0, max_tokens=6).get_nodes_from_documents([document])
    post = adapters.CatenaSegmentPostprocessor(
        docstore_of(nodes), calibration=Constant(), params=replace(BALANCED, length_adjustment="off")
    )
    (found,) = post.postprocess_nodes([NodeWithScore(node=node, score=0.5) for node in nodes[-2:]])
    metadata = found.node.metadata
    assert metadata["citation"].startswith("HX210 › Pump › Screws, line")
    assert (metadata["first_position"], metadata["last_position"]) == (len(nodes) - 2, len(nodes) - 1)
    assert metadata["last_line"] == 9
    assert metadata["header_path"] == "/Pump/Screws/"
    read = found.node.get_content(MetadataMode.LLM)
    assert "secret" not in read
    assert "citation: HX210" in read
    assert "chunk_ids" not in read
    assert "secret" not in found.node.get_content(MetadataMode.EMBED)


async def test_what_the_retriever_told_is_not_told_again_but_stays_known(caplog: pytest.LogCaptureFixture) -> None:
    routes = {"good": Finding([(chain("d", TEXTS)[1], 0.9)]), "gone": Gone()}
    found = adapters.CatenaRetriever.over(routes).retrieve(QUERY)
    unknown = [{"text": "HX900", "near": ["HX200"]}]
    found[0].metadata["catena"] = json.dumps({**provenance(found[0].node), "unknown": unknown})
    for post in (
        adapters.CatenaSegmentPostprocessor(calibration=Constant()),
        adapters.CatenaRerank(FakeReranker(), calibration=COHERE),
    ):
        caplog.clear()
        with listening() as told:
            made = post.postprocess_nodes(found, query_str=QUERY)
            assert await post.apostprocess_nodes(found, query_str=QUERY) == made
        assert [event.what for event in told.events if isinstance(event, adapters.RouteDegradedEvent)] == []
        assert "gone" not in caplog.text
        assert [part["what"] for part in provenance(made[0].node)["degraded"]] == ["route gone"]
        assert provenance(made[0].node)["unknown"] == unknown


async def test_a_store_that_fails_is_a_typed_error() -> None:
    nodes = chain("d", TEXTS)
    post = adapters.CatenaSegmentPostprocessor(SimpleVectorStore(), calibration=Identity())
    with pytest.raises(ServiceError, match="SimpleVectorStore"):
        post.postprocess_nodes(scored(nodes, b=0.9, d=0.8))
    with pytest.raises(ServiceError, match="SimpleVectorStore"):
        await post.apostprocess_nodes(scored(nodes, b=0.9, d=0.8))


def test_a_notice_passes_through_every_stage() -> None:
    notice = NodeWithScore(node=TextNode(id_="n", text="No HX900.", metadata={"kind": NOTICE}), score=0.0)
    for post in (adapters.CatenaSegmentPostprocessor(), adapters.CatenaRerank(FakeReranker(), calibration=COHERE)):
        assert post.postprocess_nodes([notice], query_str="q") == [notice]

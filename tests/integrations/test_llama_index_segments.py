"""Rerankers both ways, and segments over the user's own stores: exact slices by hand-made numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from math import exp
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.bridge.pydantic import Field
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.llms import CustomLLM
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index_graphs import Finding
from llama_index_models import Saying
from llama_index_spans import listening
from llama_index_stores import KeepingVectorStore, chain, docstore_of, splitter

import llama_index_catena as adapters
from catena import Library
from catena.model import CalibrationError, InvalidReplyError, ParameterError, ServiceError
from catena.segments import BALANCED, COHERE, Artefact, Constant, Identity, SegmentSearch, fit_beta
from catena.testing import FakeReranker
from llama_index_catena.convert import provenance

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


async def test_scores_are_calibrated_probabilities_in_the_rerankers_order_sync_and_async() -> None:
    rerank = adapters.CatenaRerank(ByLength(), calibration=COHERE)
    found = rerank.postprocess_nodes(nodes(), query_str="q")
    assert [each.node.node_id for each in found] == ["cccccc", "aaaa", "bb"]
    assert [each.score for each in found] == pytest.approx([float(COHERE(x)) for x in (0.6, 0.4, 0.2)], abs=1e-12)
    with blockbuster_ctx(["catena", "llama_index_catena"]), listening() as told:
        assert await rerank.apostprocess_nodes(nodes(), query_str="q") == found
    assert "CatenaRerank._apostprocess_nodes" in told.spans
    told_of = provenance(found[0].node)
    assert told_of["scale"] == "probability"
    assert told_of["routes"][-1].items() >= {"route": "rerank", "rank": 1, "score": 0.6}.items()


def test_the_best_are_returned_and_former_routes_stay_known() -> None:
    twice = adapters.CatenaRerank(FakeReranker(lambda query, text: len(text) / 10), calibration=Identity(), top_n=2)
    once = twice.postprocess_nodes(nodes(), query_str="q")
    found = twice.postprocess_nodes(once, query_str="q")
    assert [each.node.node_id for each in found] == ["cccccc", "aaaa"]
    assert [way["route"] for way in provenance(found[0].node)["routes"]] == ["rerank", "rerank"]


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


async def test_nothing_is_asked_for_no_nodes_and_a_missing_query_is_an_error() -> None:
    reranker = FakeReranker()
    rerank = adapters.CatenaRerank(reranker, calibration=Identity())
    assert rerank.postprocess_nodes([], query_str="q") == []
    assert reranker.calls == []
    with pytest.raises(ValueError, match="query") as caught:
        rerank.postprocess_nodes(nodes())
    assert isinstance(caught.value, ParameterError)
    with pytest.raises(ParameterError, match="query"):
        await rerank.apostprocess_nodes(nodes())


def test_the_old_order_is_kept_where_that_is_asked_for_and_told(caplog: pytest.LogCaptureFixture) -> None:
    with listening() as told:
        found = adapters.CatenaRerank(Failing(), calibration=COHERE, on_failure="rank").postprocess_nodes(
            nodes(), query_str="q"
        )
    assert [each.node.node_id for each in found] == list(WORDS)
    assert [each.score for each in found] == [0.8, 0.8, 0.8]
    assert "reranker: " in caplog.text
    assert [event.what for event in told.events if type(event).__name__ == "RouteDegradedEvent"] == ["reranker"]


def test_a_fit_of_another_reranker_is_refused() -> None:
    fit = fit_beta([x / 40 for x in range(1, 40)])
    mine, other = (Artefact(fit=fit, model=name) for name in ("fake-reranker", "another"))
    rerank = adapters.CatenaRerank(FakeReranker(), calibration=mine)
    assert rerank.calibration == fit.calibration
    with pytest.raises(CalibrationError, match="another"):
        adapters.CatenaRerank(FakeReranker(), calibration=other)


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


def test_a_segment_is_worth_what_its_nodes_are_and_is_an_exact_slice() -> None:
    nodes = chain("d", TEXTS)
    post = adapters.CatenaSegmentPostprocessor(docstore_of(nodes), calibration=Identity())
    (found,) = post.postprocess_nodes(scored(nodes, b=0.9, d=0.8), query_str=QUERY)
    assert found.score == pytest.approx((0.9 - 0.18) - 0.18 + (0.8 * exp(-1 / 30) - 0.18), abs=1e-12)
    assert found.node.text == "".join(TEXTS[1:4])
    assert (found.node.start_char_idx, found.node.end_char_idx) == (700, 2800)
    assert json.loads(found.node.metadata["chunk_ids"]) == ["d-1", "d-2", "d-3"]
    assert json.loads(found.node.metadata["queries"]) == [QUERY]
    assert found.node.metadata["citation"] == "Manual d"
    assert found.node.source_node is not None
    assert found.node.source_node.node_id == "d"


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


def test_without_a_store_only_nodes_that_were_found_are_joined() -> None:
    post = adapters.CatenaSegmentPostprocessor(calibration=Identity())
    for linked, counted in ((True, False), (False, True), (False, False)):
        nodes = chain("d", TEXTS, linked=linked, counted=counted)
        found = post.postprocess_nodes(scored(nodes, b=0.9, c=0.7, e=0.9), query_str=QUERY)
        assert sorted(letters(found)) == ["bc", "e"]


def test_nodes_whose_text_was_rewritten_are_joined_by_links_with_a_blank_line_between() -> None:
    nodes = chain("d", TEXTS, offsets=False)
    post = adapters.CatenaSegmentPostprocessor(docstore_of(nodes), calibration=Identity())
    (found,) = post.postprocess_nodes(scored(nodes, b=0.9, d=0.8), query_str=QUERY)
    assert found.node.text == "\n\n".join(TEXTS[1:4])


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


def test_scores_that_nobody_calibrated_are_refused_and_missing_ones_leave_the_order() -> None:
    nodes = chain("d", TEXTS)
    post = adapters.CatenaSegmentPostprocessor(docstore_of(nodes))
    with pytest.raises(ParameterError, match="no probabilities"):
        post.postprocess_nodes(scored(nodes, b=0.9))
    (by_order,) = post.postprocess_nodes(scored(nodes, b=None, c=None))
    assert by_order.score == pytest.approx((0.8 - 0.18) + (0.8 * exp(-1 / 30) - 0.18), abs=1e-12)
    rerank = adapters.CatenaRerank(FakeReranker(lambda query, text: 0.9), calibration=Identity())
    (rated,) = post.postprocess_nodes(rerank.postprocess_nodes(scored(nodes, b=0.1), query_str=QUERY))
    assert rated.score == pytest.approx(0.9 - 0.18, abs=1e-12)
    assert post.postprocess_nodes([]) == []


def test_the_best_is_returned_though_it_is_worth_little_and_that_is_told(caplog: pytest.LogCaptureFixture) -> None:
    nodes = chain("d", TEXTS)
    weak = scored(nodes, b=0.3)
    post = adapters.CatenaSegmentPostprocessor(calibration=Identity())
    assert letters(post.postprocess_nodes(weak)) == ["b"]
    assert "worth" in caplog.text
    assert (
        adapters.CatenaSegmentPostprocessor(calibration=Identity(), never_empty=False).postprocess_nodes(weak) == []
    )


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


TORQUE = "The cover of the pump takes six screws, tightened to 14 Nm."
MANUAL = " ".join([*(f"Remark {i} is about the weather in town." for i in range(12)), TORQUE,
                   *(f"Remark {i} is about the colour of the box." for i in range(12, 24))])  # fmt: skip


def index_of(text: str = MANUAL) -> VectorStoreIndex:
    nodes = splitter(30, 5).get_nodes_from_documents([Document(id_="manual", text=text)])
    return VectorStoreIndex(nodes, embed_model=adapters.CatenaEmbedding())


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    for name, torque in (("HX200", "12"), ("HX210", "14")):
        text = f"# {name} manual\n\n## Mounting\n\nThe cover of the {name} takes screws, tightened to {torque} Nm.\n"
        (tmp_path / f"{name}.md").write_text(text, encoding="utf-8")
    with Library.open(tmp_path / "library") as library:
        library.index([tmp_path])
        yield library


LOOSE = SegmentSearch(extraction=replace(BALANCED, length_adjustment="off"))


async def test_a_library_is_a_segment_retriever_and_gives_what_the_core_gives(library: Library) -> None:
    retriever = adapters.CatenaSegmentRetriever(library, options=LOOSE)
    question = "What is the torque of the HX210 cover?"
    expected = library.segments(question, LOOSE).segments
    found = retriever.retrieve(question)
    assert [(each.node.get_content(), each.score) for each in found] == [
        (hit.segment.text, hit.value) for hit in expected
    ]
    assert found[0].metadata["citation"].startswith("HX210 manual")
    assert "source: " not in found[0].node.get_content(MetadataMode.LLM)
    with listening() as told:
        assert await retriever.aretrieve(question) == found
    assert "CatenaSegmentRetriever._aretrieve" in told.spans


def test_a_library_gives_the_neighbours_of_what_catenas_retriever_found(library: Library) -> None:
    found = adapters.CatenaRetriever(library).retrieve("What is the torque of the HX210 cover?")
    post = adapters.CatenaSegmentPostprocessor(
        library, calibration=Constant(), params=replace(BALANCED, length_adjustment="off")
    )
    segments = post.postprocess_nodes(found)
    entry = library.get("HX210.md")
    assert segments[0].metadata["document_id"] == "HX210.md"
    first = segments[0].node
    assert entry.document.text[first.start_char_idx : first.end_char_idx] == first.text


def test_a_name_that_stands_nowhere_is_a_notice_and_an_event(library: Library) -> None:
    retriever = adapters.CatenaSegmentRetriever(library)
    with listening() as told:
        (notice,) = retriever.retrieve("What is the torque of the HX999 cover?")
    assert notice.metadata["kind"] == "notice"
    assert "UnknownNameEvent" in {type(event).__name__ for event in told.events}
    assert adapters.UnknownNameEvent.class_name() == "UnknownNameEvent"
    assert (
        adapters.CatenaSegmentRetriever(library, notice=False).retrieve("What is the torque of the HX999 cover?")
        == []
    )
    post = adapters.CatenaSegmentPostprocessor(library)
    assert post.postprocess_nodes([notice]) == [notice]


async def test_any_retriever_is_a_segment_retriever_with_queries_of_a_model_and_a_reranker() -> None:
    index = index_of()
    options = replace(LOOSE, queries_by="llm", calibration=Identity())
    retriever = adapters.CatenaSegmentRetriever(
        index.as_retriever(similarity_top_k=5),
        options=options,
        neighbours=index.docstore,
        reranker=FakeReranker(),
        llm=Saying(reply='["six screws of the cover", "tightened to 14 Nm"]'),
    )
    found = retriever.retrieve("Closing?")
    assert TORQUE in found[0].node.get_content()
    asked = {query for each in found for query in json.loads(each.metadata["queries"])}
    assert asked <= {"Closing?", "six screws of the cover", "tightened to 14 Nm"}
    assert "six screws of the cover" in asked
    assert await retriever.aretrieve("Closing?") == found

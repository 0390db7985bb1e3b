"""CatenaViewExtractor and CatenaMultiViewRetriever: nodes found under several views, by Catena and by LlamaIndex."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from blockbuster import blockbuster_ctx
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import BaseNode, Document, IndexNode, MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters, SimpleVectorStore
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryResult
from llama_index_graphs import Finding
from llama_index_models import Saying
from llama_index_spans import listening
from llama_index_stores import chain, splitter
from llama_index_views import BODIES, SEAL, Counted, Texts, index_of, llm, manual, sections_of

from catena.effects import Step
from catena.enrichment import Keywords, MadeViews, Questions, Summaries
from catena.model import ParameterError, ViewError
from catena.retrieval import ExactUnion
from catena.retrieval.view_search import ViewScoreFusion
from catena.structure import passages_of
from llama_index_catena import (
    CatenaMultiViewRetriever,
    CatenaViewExtractor,
    CatenaViewIndex,
    RouteDegradedEvent,
    ViewsDegradedEvent,
)
from llama_index_catena.convert import provenance, to_chunk

KINDS = ("headed", "keywords", "summary")
HOW = ("headed", Keywords(by="offline"), Summaries(by="offline", over_tokens=20))
QUESTION = "How many screws hold the cover?"


@dataclass(frozen=True)
class Headings:
    """A maker of one's own: the last heading of each chunk."""

    kind: ClassVar[str] = "heading"
    asks_model: ClassVar[bool] = False
    version: ClassVar[str] = "1"

    def make(self, chunks: Any, title: str) -> Step[MadeViews]:
        yield from ()
        return MadeViews(texts=tuple((chunk.path[-1],) for chunk in chunks))


def views_in(nodes: list[BaseNode]) -> list[IndexNode]:
    return [node for node in nodes if isinstance(node, IndexNode)]


def retriever(index: VectorStoreIndex | None = None, **options: Any) -> CatenaMultiViewRetriever:
    parents = sections_of()
    made = views_in(CatenaViewExtractor(HOW)(parents))
    by_id = {node.node_id: node for node in parents}
    return CatenaMultiViewRetriever(index or index_of(made), **{"views": KINDS, "parents": by_id, **options})


async def test_each_node_is_followed_by_views_that_lead_to_it_and_to_its_document() -> None:
    parents = sections_of()
    given = deepcopy(parents)
    found = CatenaViewExtractor()(parents)
    assert found[:3] == parents == given
    made = views_in(found)
    assert len(made) == len(found) - 3
    assert {view.metadata["view"] for view in made} == {"passage", "keywords", "summary"}
    by_id = {node.node_id: node for node in parents}
    for view in made:
        parent = by_id[view.index_id]
        assert view.ref_doc_id == parent.ref_doc_id == "pump"
        assert view.parent_node is not None
        assert view.parent_node.node_id == parent.node_id
        assert view.get_content(MetadataMode.EMBED) == view.text
        assert view.get_content(MetadataMode.LLM) == f"title: Pump\n\n{view.text}"
        assert view.metadata["title"] == "Pump"
    passages = [view.text for view in made if view.metadata["view"] == "passage" and "Seal" in view.text]
    seal = next(node for node in parents if node.metadata["header_path"].endswith("/Seal/"))
    assert len(passages) == len(passages_of(to_chunk(seal))) > 1
    assert len({view.node_id for view in made}) == len(made)
    assert [view.node_id for view in views_in(CatenaViewExtractor()(sections_of()))] == [v.node_id for v in made]
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        assert await CatenaViewExtractor().acall(parents) == found


def test_views_of_two_kinds_with_one_text_are_two() -> None:
    """A short section's summary is its text."""
    short = TextNode(id_="short", text="Six screws.")
    made = views_in(CatenaViewExtractor(["raw", Summaries(by="offline")])([short]))
    assert [(view.metadata["view"], view.text) for view in made] == [("raw", short.text), ("summary", short.text)]
    assert len({view.node_id for view in made}) == 2


async def test_a_model_writes_views_and_is_asked_once_per_section_and_kind() -> None:
    model = llm()
    views = ("raw", Keywords(), Summaries(over_tokens=20), Questions())
    made = views_in(CatenaViewExtractor(views, llm=model)(sections_of()))
    assert len(model.asked) == 3 * len(BODIES)
    kinds = [view.metadata["view"] for view in made if view.index_id == made[0].index_id]
    assert kinds == ["raw", "keywords", "summary", "questions"]
    assert CatenaViewExtractor(views, llm=model).kinds == tuple(kinds)
    with listening() as told, blockbuster_ctx(["catena", "llama_index_catena"]):
        found = await CatenaViewExtractor(views, llm=llm()).acall(sections_of())
    assert views_in(found) == made
    assert "CatenaViewExtractor.acall" in told.spans


def test_views_of_views_are_not_made_and_views_may_carry_their_parents() -> None:
    extractor = CatenaViewExtractor(HOW)
    first = extractor(sections_of())
    assert [node.node_id for node in extractor(first)[: len(first)]] == [node.node_id for node in first]
    assert len(extractor(first)) == len(first) + len(views_in(first))
    inside = CatenaViewExtractor(HOW, parents="inside")(sections_of())
    assert [node.node_id for node in inside] == [node.node_id for node in views_in(first)]
    assert {view.obj.node_id for view in inside} == {node.node_id for node in sections_of()}


def test_nodes_of_any_parser_have_views_under_the_name_of_their_file() -> None:
    document = Document(id_="d", text=SEAL, metadata={"file_name": "pump manual.txt"})
    nodes = splitter().get_nodes_from_documents([document])
    (view,) = [each for each in views_in(CatenaViewExtractor(["headed"])(nodes[:1]))]
    assert view.text.splitlines()[0] == "pump manual"
    assert view.metadata["file_name"] == "pump manual.txt"
    alone = TextNode(id_="alone", text="A seal keeps oil.")
    (own,) = views_in(CatenaViewExtractor(["raw"])([alone]))
    assert (own.ref_doc_id, own.index_id, own.text) == ("alone", "alone", alone.text)


def test_a_maker_of_ones_own_makes_views_too() -> None:
    made = views_in(CatenaViewExtractor([Headings()])(sections_of()))
    assert [view.text for view in made] == list(BODIES)


def test_what_a_model_fails_at_is_told_and_costs_that_view_alone(caplog: pytest.LogCaptureFixture) -> None:
    with listening() as told:
        found = CatenaViewExtractor(["headed", Keywords()], llm=Saying(reply="No."))(sections_of())
    assert {view.metadata["view"] for view in views_in(found)} == {"headed"}
    events = [event for event in told.events if isinstance(event, ViewsDegradedEvent)]
    assert len(events) == len(BODIES)
    assert events[0].class_name() == "ViewsDegradedEvent"
    assert events[0].what in caplog.text


def test_it_survives_being_written_down() -> None:
    extractor = CatenaViewExtractor((*HOW, Questions(count=2)), llm=llm(), metadata_keys=["title"])
    expected = extractor(sections_of())
    again = CatenaViewExtractor.from_dict({**extractor.to_dict(), "llm": llm()})
    assert again.views == extractor.views
    assert again(sections_of()) == expected
    with pytest.raises(ParameterError, match="given again"):
        CatenaViewExtractor.from_dict(CatenaViewExtractor([Headings()]).to_dict())


@pytest.mark.parametrize("store", [SimpleVectorStore, Texts])
def test_llamaindexs_indices_follow_views_that_carry_their_parents(store: type[SimpleVectorStore]) -> None:
    parents = sections_of()
    inside = CatenaViewExtractor(HOW, parents="inside")(parents)
    as_nodes = index_of(inside, store=store()).as_retriever(similarity_top_k=4).retrieve(QUESTION)
    index = VectorStoreIndex(objects=deepcopy(inside), embed_model=Counted())
    as_objects = index.as_retriever(similarity_top_k=4).retrieve(QUESTION)
    for found in (as_nodes, as_objects):
        assert found[0].node.node_id == parents[2].node_id
        assert not any(isinstance(node.node, IndexNode) for node in found)
    multi = CatenaMultiViewRetriever(index_of(inside, store=store()), views=KINDS)
    assert multi.retrieve(QUESTION)[0].text == parents[2].text


async def test_parents_come_in_raw_text_with_the_views_that_found_them() -> None:
    embed_model = Counted()
    index = index_of(views_in(CatenaViewExtractor(HOW)(sections_of())), embed_model=embed_model)
    multi = retriever(index, rule=ExactUnion(), similarity_top_k=2)
    found = multi.retrieve(QUESTION)
    cover = sections_of()[2]
    assert (found[0].text, found[0].node.node_id, found[0].score) == (cover.text, cover.node_id, 1.0)
    told = provenance(found[0].node)
    assert told["views"] == dict.fromkeys(told["views"], 1)
    assert set(told["views"]) == set(KINDS)
    assert {way["route"] for way in told["routes"]} == {"VectorStoreIndex"}
    assert told["scale"] == "rank"
    assert "routes" not in found[0].node.get_content(MetadataMode.LLM)
    assert embed_model.queries == [QUESTION]
    assert cover.metadata == sections_of()[2].metadata
    with listening() as heard, blockbuster_ctx(["catena", "llama_index_catena"]):
        assert [each.to_dict() for each in await multi.aretrieve(QUESTION)] == [each.to_dict() for each in found]
    assert "CatenaMultiViewRetriever._aretrieve" in heard.spans
    assert multi.ranking(QUESTION) == await multi.aranking(QueryBundle(QUESTION))


def test_a_bundles_own_texts_or_vector_take_the_place_of_the_question() -> None:
    embed_model = Counted()
    index = index_of(views_in(CatenaViewExtractor(HOW)(sections_of())), embed_model=embed_model)
    multi = retriever(index)
    best = multi.retrieve(QueryBundle("Anything", custom_embedding_strs=[QUESTION]))[0]
    assert best.node.node_id == sections_of()[2].node_id
    assert embed_model.queries == [QUESTION]
    vector = embed_model.get_query_embedding(QUESTION)
    asked = len(embed_model.queries)
    assert multi.retrieve(QueryBundle("Anything", embedding=vector))[0].node.node_id == best.node.node_id
    assert len(embed_model.queries) == asked


def test_filters_of_ones_own_are_obeyed_beside_the_views() -> None:
    parents = sections_of(manual(source="a"), manual("other", source="b"))
    index = index_of(views_in(CatenaViewExtractor(HOW)(parents)))
    only = MetadataFilters(filters=[MetadataFilter(key="source", value="b")])
    multi = CatenaMultiViewRetriever(
        index, views=KINDS, parents={n.node_id: n for n in parents}, filters=only, similarity_top_k=5
    )
    assert {node.node.ref_doc_id for node in multi.retrieve(QUESTION)} == {"other"}


class Refusing(Texts):
    """A store that takes no filter."""

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        if query.filters is not None:
            raise ValueError("no filters here")
        return super().query(query, **kwargs)


class Deaf(Texts):
    """A store that does not mind filters."""

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        query.filters = None
        return super().query(query, **kwargs)


@pytest.mark.parametrize("store", [Refusing, Deaf])
def test_without_a_filter_that_works_more_hits_are_grouped_and_that_is_told(store: type[SimpleVectorStore]) -> None:
    made = views_in(CatenaViewExtractor(HOW)(sections_of()))
    multi = retriever(index_of(made, store=store()), rule=ExactUnion())
    expected = retriever(rule=ExactUnion())
    ranking = multi.ranking(QUESTION)
    assert [hit.chunk.id for hit in ranking.hits] == [hit.chunk.id for hit in expected.ranking(QUESTION).hits]
    assert all("filter" in part.what for part in ranking.degraded)
    assert len(ranking.degraded) == len(KINDS)
    quiet = retriever(index_of(made, store=store()), rule=ExactUnion(), filtering="over-fetch").ranking(QUESTION)
    assert (quiet.hits, quiet.degraded) == (ranking.hits, ())


def finding(nodes: Sequence[BaseNode], scores: Sequence[float | None]) -> Finding:
    return Finding(list(zip(nodes, scores, strict=True)))


class Broken(BaseRetriever):
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        raise KeyError("no such collection")


async def test_any_retrievers_are_views_also_of_nodes_of_any_parser(caplog: pytest.LogCaptureFixture) -> None:
    a, b, c = chain("d", ["The seal. ", "The cover. ", "The housing. "])
    summaries: list[BaseNode] = [IndexNode(text=text, index_id=b.node_id) for text in ("All about covers", "More")]
    sources = {"raw": finding([a, b], [0.9, 0.0]), "summary": finding(summaries, [0.7, 0.2]), "questions": Broken()}
    multi = CatenaMultiViewRetriever(sources, parents={b.node_id: b}, rule=ExactUnion())
    with listening() as told, caplog.at_level(logging.WARNING):
        found = multi.retrieve("covers")
    assert [node.node.node_id for node in found] == [a.node_id, b.node_id]
    assert provenance(found[1].node)["views"] == {"summary": 1, "raw": 2}
    assert [way["score"] for way in provenance(found[1].node)["routes"]] == [0.7, 0.0]
    (event,) = [event for event in told.events if isinstance(event, RouteDegradedEvent)]
    assert event.what == "view questions"
    assert "view questions" in caplog.text
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        assert [each.to_dict() for each in await multi.aretrieve("covers")] == [each.to_dict() for each in found]
    with pytest.raises(ViewError, match="questions"):
        CatenaMultiViewRetriever(sources, parents={b.node_id: b}, on_view_error="raise").retrieve("covers")
    assert c.node_id not in {node.node.node_id for node in found}


def test_parents_come_out_of_a_docstore_and_a_missing_one_is_told() -> None:
    parents = sections_of()
    docstore = SimpleDocumentStore()
    docstore.add_documents(parents[1:])
    ranking = retriever(parents=docstore, rule=ExactUnion()).ranking(QUESTION)
    assert {hit.chunk.id for hit in ranking.hits} == {node.node_id for node in parents[1:]}
    assert any(parents[0].node_id in part.why for part in ranking.degraded)


class Distances(SimpleVectorStore):
    """Tells how far nodes are, as LlamaIndex's store over FAISS does."""

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        found = super().query(query, **kwargs)
        return VectorStoreQueryResult(similarities=[1.0 - score for score in found.similarities or ()], ids=found.ids)


def test_distances_rank_as_likeness_does() -> None:
    orders = []
    for store in (SimpleVectorStore(), Distances()):
        views = CatenaViewIndex(index_of(store=store), CatenaViewExtractor(["headed"]))
        views.add(sections_of())
        asked = views.retriever(rule=ViewScoreFusion())
        orders.append([found.node.node_id for found in asked.retrieve("oil seal replace")])
        raw = [hit.provenance[0].score for hit in asked.ranking("oil seal replace").hits]
        assert raw == sorted(raw, reverse=True)
    assert orders[0] == orders[1]


def test_retrievers_of_the_nodes_given_find_the_same_sections_as_the_index_that_renamed_them() -> None:
    nodes = sections_of()
    views = CatenaViewIndex(index_of(), CatenaViewExtractor(["raw"]))
    views.add(nodes)
    retrievers = {"headed": finding(nodes, [3.0, 2.0, 1.0]), "raw": views.index.as_retriever(similarity_top_k=3)}
    both = CatenaMultiViewRetriever(retrievers, parents=views.index.docstore, rule=ExactUnion(), similarity_top_k=6)
    found = both.retrieve("seal")
    assert len({each.node.get_content() for each in found}) == len(found) == 3
    assert all(set(provenance(each.node)["views"]) == {"headed", "raw"} for each in found)
    assert [hit.chunk.id for hit in both.ranking("seal").hits] == [each.node.node_id for each in found]


@pytest.mark.parametrize("score", [None, float("nan")])
def test_scores_count_where_all_are_numbers(score: float | None) -> None:
    nodes = sections_of()
    found = CatenaMultiViewRetriever({"raw": finding(nodes, [0.2, 0.3, score])}, rule=ViewScoreFusion()).retrieve("?")
    assert [each.node.node_id for each in found] == [node.node_id for node in nodes]

"""Views as LlamaIndex has them: nodes that lead to parents, in indices; what both promise is in test_views.py."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from copy import deepcopy
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from llama_index.core import StorageContext, VectorStoreIndex, load_index_from_storage, schema
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters, SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore, VectorStoreQuery, VectorStoreQueryResult
from llama_index_fakes import (
    SEAL,
    Counted,
    Finding,
    Texts,
    chain,
    index_of,
    listening,
    llm,
    manual,
    sections_of,
    splitter,
)
from view_stores import LlamaIndexViews, Shout, views_in

import llama_index_catena as li
from catena.enrichment import Keywords, Questions, Summaries
from catena.model import ParameterError, ViewError
from catena.retrieval import ExactUnion
from catena.structure import passages_of
from llama_index_catena.convert import provenance, to_chunk

KINDS = ("headed", "keywords", "summary")
HOW = ("headed", Keywords(by="offline"), Summaries(by="offline", over_tokens=20))
QUESTION = "How many screws hold the cover?"


def retriever(index: VectorStoreIndex | None = None, **options: Any) -> li.CatenaMultiViewRetriever:
    parents = sections_of()
    made = views_in(li.CatenaViewExtractor(HOW)(parents))
    by_id = {node.node_id: node for node in parents}
    return li.CatenaMultiViewRetriever(index or index_of(made), **{"views": KINDS, "parents": by_id, **options})


def test_each_node_is_followed_by_views_that_lead_to_it_and_to_its_document() -> None:
    parents = sections_of()
    found = li.CatenaViewExtractor()(parents)
    assert found[:3] == parents
    made = views_in(found)
    assert len(made) == len(found) - 3
    by_id = {node.node_id: node for node in parents}
    for view in made:
        assert view.ref_doc_id == by_id[view.index_id].ref_doc_id == "pump"
        assert view.parent_node is not None
        assert view.parent_node.node_id == view.index_id
        assert view.get_content(schema.MetadataMode.EMBED) == view.text
        assert view.get_content(schema.MetadataMode.LLM) == f"title: Pump\n\n{view.text}"
    passages = [view for view in made if view.metadata["view"] == "passage" and "Seal" in view.text]
    (seal,) = [node for node in parents if node.metadata["header_path"].endswith("/Seal/")]
    assert len(passages) == len(passages_of(to_chunk(seal))) > 1


def test_views_of_two_kinds_with_one_text_are_two() -> None:
    """A short section's summary is its text."""
    short = schema.TextNode(id_="short", text="Six screws.")
    made = views_in(li.CatenaViewExtractor(["raw", Summaries(by="offline")])([short]))
    assert [(view.metadata["view"], view.text) for view in made] == [("raw", short.text), ("summary", short.text)]
    assert len({view.node_id for view in made}) == 2


def test_views_of_views_are_not_made_and_views_may_carry_their_parents() -> None:
    extractor = li.CatenaViewExtractor(HOW)
    first = extractor(sections_of())
    assert [node.node_id for node in extractor(first)[: len(first)]] == [node.node_id for node in first]
    assert len(extractor(first)) == len(first) + len(views_in(first))
    inside = li.CatenaViewExtractor(HOW, parents="inside")(sections_of())
    assert [node.node_id for node in inside] == [node.node_id for node in views_in(first)]
    assert {view.obj.node_id for view in inside} == {node.node_id for node in sections_of()}


def test_nodes_of_any_parser_have_views_under_the_name_of_their_file() -> None:
    document = schema.Document(id_="d", text=SEAL, metadata={"file_name": "pump manual.txt"})
    nodes = splitter().get_nodes_from_documents([document])
    (view,) = views_in(li.CatenaViewExtractor(["headed"])(nodes[:1]))
    assert view.text.splitlines()[0] == "pump manual"
    assert view.metadata["file_name"] == "pump manual.txt"
    alone = schema.TextNode(id_="alone", text="A seal keeps oil.")
    (own,) = views_in(li.CatenaViewExtractor(["raw"])([alone]))
    assert (own.ref_doc_id, own.index_id, own.text) == ("alone", "alone", alone.text)


def test_it_survives_being_written_down() -> None:
    extractor = li.CatenaViewExtractor((*HOW, Questions(count=2)), llm=llm(), metadata_keys=["title"])
    expected = extractor(sections_of())
    again = li.CatenaViewExtractor.from_dict({**extractor.to_dict(), "llm": llm()})
    assert again.views == extractor.views
    assert again(sections_of()) == expected
    with pytest.raises(ParameterError, match="given again"):
        li.CatenaViewExtractor.from_dict(li.CatenaViewExtractor([Shout()]).to_dict())


@pytest.mark.parametrize("store", [SimpleVectorStore, Texts])
def test_llamaindexs_indices_follow_views_that_carry_their_parents(store: type[SimpleVectorStore]) -> None:
    parents = sections_of()
    inside = li.CatenaViewExtractor(HOW, parents="inside")(parents)
    as_nodes = index_of(inside, store=store()).as_retriever(similarity_top_k=4).retrieve(QUESTION)
    index = VectorStoreIndex(objects=deepcopy(inside), embed_model=Counted())
    as_objects = index.as_retriever(similarity_top_k=4).retrieve(QUESTION)
    for found in (as_nodes, as_objects):
        assert found[0].node.node_id == parents[2].node_id
        assert not any(isinstance(node.node, schema.IndexNode) for node in found)
    multi = li.CatenaMultiViewRetriever(index_of(inside, store=store()), views=KINDS)
    assert multi.retrieve(QUESTION)[0].text == parents[2].text


def test_a_bundles_own_texts_or_vector_take_the_place_of_the_question() -> None:
    embed_model = Counted()
    index = index_of(views_in(li.CatenaViewExtractor(HOW)(sections_of())), embed_model=embed_model)
    multi = retriever(index)
    best = multi.retrieve(schema.QueryBundle("Anything", custom_embedding_strs=[QUESTION]))[0]
    assert best.node.node_id == sections_of()[2].node_id
    assert embed_model.queries == [QUESTION]
    vector = embed_model.get_query_embedding(QUESTION)
    asked = len(embed_model.queries)
    assert multi.retrieve(schema.QueryBundle("Anything", embedding=vector))[0].node.node_id == best.node.node_id
    assert len(embed_model.queries) == asked


def test_filters_of_ones_own_are_obeyed_beside_the_views() -> None:
    parents = sections_of(manual(source="a"), manual("other", source="b"))
    index = index_of(views_in(li.CatenaViewExtractor(HOW)(parents)))
    only = MetadataFilters(filters=[MetadataFilter(key="source", value="b")])
    multi = li.CatenaMultiViewRetriever(
        index, views=KINDS, parents={n.node_id: n for n in parents}, filters=only, similarity_top_k=5
    )
    assert {node.node.ref_doc_id for node in multi.retrieve(QUESTION)} == {"other"}


def finding(nodes: Sequence[schema.BaseNode], scores: Sequence[float | None]) -> Finding:
    return Finding(list(zip(nodes, scores, strict=True)))


class Broken(BaseRetriever):
    def _retrieve(self, query_bundle: schema.QueryBundle) -> list[schema.NodeWithScore]:
        raise KeyError("no such collection")


async def test_any_retrievers_are_views_also_of_nodes_of_any_parser(caplog: pytest.LogCaptureFixture) -> None:
    a, b, c = chain("d", ["The seal. ", "The cover. ", "The housing. "])
    summaries: list[schema.BaseNode] = [
        schema.IndexNode(text=text, index_id=b.node_id) for text in ("All about covers", "More")
    ]
    sources = {"raw": finding([a, b], [0.9, 0.0]), "summary": finding(summaries, [0.7, 0.2]), "questions": Broken()}
    multi = li.CatenaMultiViewRetriever(sources, parents={b.node_id: b}, rule=ExactUnion())
    with listening() as told, caplog.at_level(logging.WARNING):
        found = multi.retrieve("covers")
    assert [node.node.node_id for node in found] == [a.node_id, b.node_id]
    assert provenance(found[1].node)["views"] == {"summary": 1, "raw": 2}
    assert [way["score"] for way in provenance(found[1].node)["routes"]] == [0.7, 0.0]
    (event,) = [event for event in told.events if isinstance(event, li.RouteDegradedEvent)]
    assert event.what == "view questions"
    assert "view questions" in caplog.text
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        assert [each.to_dict() for each in await multi.aretrieve("covers")] == [each.to_dict() for each in found]
    with pytest.raises(ViewError, match="questions"):
        li.CatenaMultiViewRetriever(sources, parents={b.node_id: b}, on_view_error="raise").retrieve("covers")
    assert c.node_id not in {node.node.node_id for node in found}


# An index that is kept in step.

PLAIN = ("headed", "passage")
held = LlamaIndexViews().held


def fresh(nodes: Sequence[schema.BaseNode], store: type[SimpleVectorStore] = SimpleVectorStore) -> li.CatenaViewIndex:
    """Return an index that never held anything else."""
    views = li.CatenaViewIndex(index_of(store=store()), li.CatenaViewExtractor(PLAIN))
    views.add(nodes)
    return views


@pytest.mark.parametrize("store", [SimpleVectorStore, Texts])
def test_what_llamaindexs_own_deletion_leaves_behind_ours_removes(store: type[SimpleVectorStore]) -> None:
    views = fresh(sections_of(manual(), manual("other")), store)
    in_docstore_alone = pytest.raises(KeyError) if store is SimpleVectorStore else nullcontext()
    with in_docstore_alone:
        views.index.delete_ref_doc("pump", delete_from_docstore=True)
    views.delete("pump")
    assert held(views) == held(fresh(sections_of(manual("other")), store))


def test_an_index_that_was_stored_and_loaded_goes_on(tmp_path: Any) -> None:
    fresh(sections_of()).index.storage_context.persist(str(tmp_path))
    context = StorageContext.from_defaults(persist_dir=str(tmp_path))
    again = li.CatenaViewIndex(load_index_from_storage(context, embed_model=Counted()), li.CatenaViewExtractor(PLAIN))
    assert again.replace(sections_of()).views_added == 0
    again.replace(sections_of(manual(sections={"Seal": SEAL})))
    assert held(again) == held(fresh(sections_of(manual(sections={"Seal": SEAL}))))


def test_nodes_under_ids_by_content_lead_where_they_led() -> None:
    above, below = sections_of()[:2]
    above.relationships[schema.NodeRelationship.CHILD] = [below.as_related_node_info()]
    below.relationships[schema.NodeRelationship.PARENT] = above.as_related_node_info()
    above, below = li.with_content_ids([above, below])
    assert [child.node_id for child in above.child_nodes or ()] == [below.node_id]
    assert below.parent_node is not None
    assert below.parent_node.node_id == above.node_id
    titled = li.with_content_ids(sections_of(manual(title="Another")))
    assert not {node.node_id for node in titled} & {node.node_id for node in li.with_content_ids(sections_of())}


class Written(BasePydanticVectorStore):
    """A store that deletes whole documents alone."""

    stores_text: bool = True

    @property
    def client(self) -> None:
        return None

    def add(self, nodes: Sequence[schema.BaseNode], **kwargs: Any) -> list[str]:
        return []

    def delete(self, ref_doc_id: str, **kwargs: Any) -> None:
        return None

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        return VectorStoreQueryResult(nodes=[], ids=[], similarities=[])


def test_a_store_that_cannot_be_kept_in_step_is_refused() -> None:
    with pytest.raises(ParameterError, match="delete_nodes"):
        li.CatenaViewIndex(index_of(store=Written()))


@pytest.mark.parametrize("store", [SimpleVectorStore, Texts])
async def test_documents_may_be_changed_at_once_by_threads_and_by_tasks(store: type[SimpleVectorStore]) -> None:
    first = [sections_of(manual(f"m{n}", {f"P{n}{j}": f"pump {n} {j}" for j in range(12)})) for n in range(8)]
    second = [sections_of(manual(f"m{n}", {f"P{n}": "changed"})) for n in range(8)]
    by_tasks, by_threads = (
        li.CatenaViewIndex(index_of(store=store()), li.CatenaViewExtractor(PLAIN)) for _ in range(2)
    )
    for documents in (first, second):
        await asyncio.gather(*map(by_tasks.areplace, documents))
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(by_threads.replace, documents))
    at_once = held(fresh([node for nodes in second for node in nodes], store))
    assert held(by_tasks) == held(by_threads) == at_once

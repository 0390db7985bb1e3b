"""CatenaViewIndex: index and docstore stay as the documents are, whatever changes and wherever a store fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from llama_index.core import StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import BaseNode, IndexNode, NodeRelationship
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore, VectorStoreQuery, VectorStoreQueryResult
from llama_index_views import BODIES, HOUSING, SEAL, Counted, Texts, index_of, llm, manual, sections_of

from catena.enrichment import LEDGER, Keywords, Summaries, record_key
from catena.model import DuplicateDocumentError, ParameterError, ServiceError
from llama_index_catena import CatenaViewExtractor, CatenaViewIndex, ViewChanges, with_content_ids

QUESTION = "How many screws hold the cover?"
ASKED = (Keywords(), Summaries(over_tokens=20))
PLAIN = ("headed", "passage")


def held(index: VectorStoreIndex) -> dict[str, Any]:
    """Return all that stands anywhere: in the vector store, in the index, in the docstore."""
    store, docstore = index.vector_store, index.docstore
    infos = docstore.get_all_ref_doc_info() or {}
    return {
        "vectors": dict(sorted(store.data.embedding_dict.items())),
        "index": sorted(index.index_struct.nodes_dict.items()),
        "nodes": {name: node.to_dict() for name, node in sorted(docstore.docs.items())},
        "documents": {name: sorted(info.node_ids) for name, info in sorted(infos.items())},
    }


def fresh(nodes: Sequence[BaseNode], views: Any = PLAIN, store: type[SimpleVectorStore] = SimpleVectorStore) -> Any:
    index = index_of(store=store())
    if nodes:
        CatenaViewIndex(index, CatenaViewExtractor(views)).add(nodes)
    return held(index)


def test_what_is_added_is_found_in_raw_text_under_its_views() -> None:
    views = CatenaViewIndex(index_of(), CatenaViewExtractor(["headed", *ASKED], llm=llm()))
    changes = views.add(sections_of())
    assert changes == ViewChanges(views_added=3 * len(BODIES), parents_written=len(BODIES))
    best = views.retriever(similarity_top_k=1).retrieve(QUESTION)[0]
    assert best.text == sections_of()[2].text
    assert best.node.ref_doc_id == "pump"
    assert views.retriever().views == ("headed", "keywords", "summary")
    assert views.sources() == ("pump",)


def test_a_section_that_changed_has_new_views_and_no_other_is_asked_for_or_embedded() -> None:
    model, embed_model = llm(), Counted()
    index = index_of(embed_model=embed_model)
    views = CatenaViewIndex(index, CatenaViewExtractor(["headed", *ASKED], llm=model))
    views.add(sections_of())
    asked, before = len(model.asked), set(index.vector_store.data.embedding_dict)
    embed_model.texts.clear()
    changed = manual(
        sections={"Housing": f"Painted red. {HOUSING}", **{name: BODIES[name] for name in ("Seal", "Cover")}}
    )
    changes = views.replace(sections_of(changed))
    assert len(model.asked) - asked == 2
    assert len(embed_model.texts) == changes.views_added == 3
    assert (changes.views_deleted, changes.views_kept) == (3, 6)
    assert (changes.parents_written, changes.parents_deleted) == (3, 1)
    kept = before & set(index.vector_store.data.embedding_dict)
    assert len(kept) == 6
    cover = sections_of(changed)[2]
    (found,) = [node for node in views.retriever().retrieve(QUESTION) if node.text == cover.text]
    assert found.node.start_char_idx == cover.start_char_idx
    embed_model.texts.clear()
    assert views.replace(sections_of(changed)) == ViewChanges(views_kept=9)
    assert (len(model.asked) - asked, embed_model.texts) == (2, [])


class Failing:
    """Counts the calls of some methods of a store, and fails at one of them."""

    def __init__(self, store: Any, at: int, names: Sequence[str]) -> None:
        self.calls, self.at = 0, at
        self.counts(store, names)

    def counts(self, store: Any, names: Sequence[str]) -> None:
        """Count the calls of these methods, too."""
        for name in names:
            object.__setattr__(store, name, self._counted(getattr(store, name)))

    def _counted(self, method: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            if self.calls == self.at:
                raise PermissionError("the store fails")
            return method(*args, **kwargs)

        return call


SHORT = {"Housing": "It is made of cast iron.", "Seal": "It keeps the oil inside.", "Cover": "Four screws hold it."}


@pytest.mark.slow
@pytest.mark.parametrize("sections", [{"Housing": "It is made of steel.", "Seal": SHORT["Seal"]}, {}])
def test_wherever_a_store_fails_the_same_call_makes_it_good(sections: dict[str, str]) -> None:
    documents = [manual("other", SHORT), *([manual(sections=sections)] if sections else [])]
    expected = fresh(sections_of(*documents))

    def act(views: CatenaViewIndex) -> ViewChanges:
        return views.replace(sections_of(*documents)) if sections else views.delete("pump")

    for at in range(1, 60):
        index = index_of()
        views = CatenaViewIndex(index, CatenaViewExtractor(PLAIN))
        views.add(sections_of(manual(sections=SHORT), manual("other", SHORT)))
        failing = Failing(index.docstore._kvstore, at, ("put", "delete"))  # beneath all that a docstore does
        failing.counts(index.vector_store, ("add", "delete_nodes"))
        try:
            act(views)
        except ServiceError:
            assert set(index.vector_store.data.embedding_dict) <= set(_noted(index))
            act(views)
        assert held(index) == expected, at
        if failing.calls < at:
            return
    raise AssertionError("more calls than expected")


def _noted(index: VectorStoreIndex) -> list[str]:
    """Return the ids of all views that records name."""
    nodes = index.docstore.docs.values()
    records = [json.loads(node.get_content()) for node in nodes if node.node_id.startswith(LEDGER)]
    return [view for record in records for view in record["views"]]


def test_what_a_model_wrote_before_a_store_failed_is_not_asked_for_again() -> None:
    model, index = llm(), index_of()
    views = CatenaViewIndex(index, CatenaViewExtractor(ASKED, llm=model))
    Failing(index.vector_store, 1, ("add",))
    with pytest.raises(ServiceError, match="the store fails"):
        views.add(sections_of())
    asked = len(model.asked)
    assert views.add(sections_of()).views_added == 2 * len(BODIES)
    assert len(model.asked) == asked


async def test_async_writes_and_removes_the_same() -> None:
    index = index_of()
    views = CatenaViewIndex(index, CatenaViewExtractor(["headed", *ASKED], llm=llm()))
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        added = await views.aadd(sections_of(manual(), manual("other")))
        changed = await views.areplace(sections_of(manual(sections={"Seal": SEAL})))
        assert await views.asources() == ("other", "pump")
        found = await views.retriever().aretrieve("Who replaces the seal?")
    assert found[0].node.metadata["header_path"] == "/Pump/Seal/"
    again = index_of()
    twin = CatenaViewIndex(again, CatenaViewExtractor(["headed", *ASKED], llm=llm()))
    assert twin.add(sections_of(manual(), manual("other"))) == added
    assert twin.replace(sections_of(manual(sections={"Seal": SEAL}))) == changed
    assert held(index) == held(again)
    await views.adelete("pump", "other", "unknown")
    assert held(index) == fresh([])


def test_a_document_that_is_there_is_not_added_again() -> None:
    index = index_of()
    views = CatenaViewIndex(index, CatenaViewExtractor(PLAIN))
    views.add(sections_of())
    before = held(index)
    with pytest.raises(DuplicateDocumentError, match="pump"):
        views.add(sections_of(manual("new"), manual()))
    assert held(index) == before


@pytest.mark.parametrize("store", [SimpleVectorStore, Texts])
def test_what_llamaindexs_own_deletion_leaves_behind_ours_removes(store: type[SimpleVectorStore]) -> None:
    index = index_of(store=store())
    views = CatenaViewIndex(index, CatenaViewExtractor(PLAIN))
    views.add(sections_of(manual(), manual("other")))
    in_docstore_alone = pytest.raises(KeyError) if store is SimpleVectorStore else nullcontext()
    with in_docstore_alone:
        index.delete_ref_doc("pump", delete_from_docstore=True)
    views.delete("pump")
    assert held(index) == fresh(sections_of(manual("other")), store=store)


def test_an_index_that_was_stored_and_loaded_goes_on(tmp_path: Any) -> None:
    views = CatenaViewIndex(index_of(), CatenaViewExtractor(PLAIN))
    views.add(sections_of())
    views.index.storage_context.persist(str(tmp_path))
    context = StorageContext.from_defaults(persist_dir=str(tmp_path))
    again = CatenaViewIndex(load_index_from_storage(context, embed_model=Counted()), CatenaViewExtractor(PLAIN))
    assert again.replace(sections_of()).views_added == 0
    again.replace(sections_of(manual(sections={"Seal": SEAL})))
    assert held(again.index) == fresh(sections_of(manual(sections={"Seal": SEAL})))


def test_content_ids_say_what_a_node_is_and_not_where() -> None:
    nodes = with_content_ids(sections_of())
    moved = with_content_ids(sections_of(manual(sections={"Preface": "Read this.", **BODIES})))
    assert [node.node_id for node in moved[1:]] == [node.node_id for node in nodes]
    assert nodes[0].next_node is not None
    assert nodes[0].next_node.node_id == nodes[1].node_id
    assert nodes[1].prev_node is not None
    assert nodes[1].prev_node.node_id == nodes[0].node_id
    above, below = sections_of()[:2]
    above.relationships[NodeRelationship.CHILD] = [below.as_related_node_info()]
    below.relationships[NodeRelationship.PARENT] = above.as_related_node_info()
    above, below = with_content_ids([above, below])
    assert [child.node_id for child in above.child_nodes or ()] == [below.node_id]
    assert below.parent_node is not None
    assert below.parent_node.node_id == above.node_id
    twice = with_content_ids([*sections_of(), *sections_of()])
    assert len({node.node_id for node in twice}) == 2 * len(BODIES)
    titled = with_content_ids(sections_of(manual(title="Another")))
    assert not {node.node_id for node in titled} & {node.node_id for node in nodes}


class Written(BasePydanticVectorStore):
    """A store that deletes whole documents alone."""

    stores_text: bool = True

    @property
    def client(self) -> None:
        return None

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        return []

    def delete(self, ref_doc_id: str, **kwargs: Any) -> None:
        return None

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        return VectorStoreQueryResult(nodes=[], ids=[], similarities=[])


def test_what_cannot_be_kept_in_step_is_refused() -> None:
    with pytest.raises(ParameterError, match="delete_nodes"):
        CatenaViewIndex(index_of(store=Written()))
    index = index_of(embed_model=MockEmbedding(4))
    node = IndexNode(id_=record_key(LEDGER, "pump"), text="no record", index_id="x")
    index.docstore.add_documents([node])
    with pytest.raises(ParameterError, match="ledger"):
        CatenaViewIndex(index, CatenaViewExtractor(PLAIN)).add(sections_of())


@pytest.mark.parametrize("store", [SimpleVectorStore, Texts])
async def test_documents_may_be_changed_at_once_by_threads_and_by_tasks(store: type[SimpleVectorStore]) -> None:
    first = [sections_of(manual(f"m{n}", {f"P{n}{j}": f"pump {n} {j}" for j in range(12)})) for n in range(8)]
    second = [sections_of(manual(f"m{n}", {f"P{n}": "changed"})) for n in range(8)]
    by_tasks, by_threads = (CatenaViewIndex(index_of(store=store()), CatenaViewExtractor(PLAIN)) for _ in range(2))
    for documents in (first, second):
        await asyncio.gather(*map(by_tasks.areplace, documents))
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(by_threads.replace, documents))
    at_once = fresh([node for nodes in second for node in nodes], store=store)
    assert held(by_tasks.index) == held(by_threads.index) == at_once


async def test_a_document_that_gives_no_section_any_more_is_removed_where_it_is_named() -> None:
    pump, hose = sections_of(manual("pump")), sections_of(manual("hose", {"Hose": "The hose."}))
    views, twin = (CatenaViewIndex(index_of(), CatenaViewExtractor(PLAIN)) for _ in range(2))
    for each in (views, twin):
        each.add([*pump, *hose])
    changes = views.replace(hose, sources=["pump", "hose", "nowhere"])
    assert changes.parents_deleted == len(pump)
    assert await twin.areplace(hose, sources=["pump", "hose", "nowhere"]) == changes
    assert views.sources() == twin.sources() == ("hose",)
    assert held(views.index) == held(twin.index) == fresh(hose)
    with pytest.raises(ParameterError, match="sources"):
        views.replace([], sources="hose")

"""Views in LangChain's stores, of any kind; what both adapters promise of views is in test_views.py."""

from __future__ import annotations

import asyncio
import pickle
from contextlib import suppress
from typing import Any

import pytest
from adapter_faces import Answering
from blockbuster import blockbuster_ctx
from langchain_classic.retrievers.multi_vector import MultiVectorRetriever
from langchain_classic.storage import LocalFileStore, create_kv_docstore
from langchain_core.documents import Document
from langchain_core.stores import InMemoryByteStore, InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_fakes import SUNSET, ReplyingChatModel, Traces, children
from llama_index_fakes import writing
from view_stores import DeafToFilters, FailingVectors, Fuse, NoFilter

import langchain_catena as lc
from catena.effects import Services
from catena.enrichment import LEDGER, Keywords, Questions, Summaries
from catena.model import ParameterError, ServiceError, ViewError, as_uuid
from catena.retrieval import ExactUnion
from catena.structure import SectionChunkOptions
from catena.testing import FakeEmbedder

SECTIONS = lc.CatenaDocumentTransformer(chunks=SectionChunkOptions())
WORDS = (
    *("pump", "valve", "fuse", "cover", "screw", "torque", "filter", "hose", "lever", "spring", "motor", "wheel"),
    *("sensor", "cable", "housing", "bolt"),
)


def manual(name: str, *bodies: str) -> Document:
    parts = [f"## Part {number}\n\n{body}\n" for number, body in enumerate(bodies, start=1)]
    return Document(page_content=f"# {name} Manual\n\n" + "\n".join(parts), metadata={"source": f"{name}.md"})


def sections(*documents: Document) -> list[Document]:
    return SECTIONS.split_documents(documents)


HX = manual("HX210", "Tighten the cover screws to 4.5 Nm.", "The fuse holds 3 A.", "Clean the filter with water.")


def words() -> lc.CatenaEmbeddings:
    """Return embeddings for which texts that share words are near."""
    return lc.CatenaEmbeddings(FakeEmbedder(dim=256))


def writer() -> ReplyingChatModel:
    return ReplyingChatModel(reply=Answering(writing).reply)


def in_memory(views: lc.CatenaViewTransformer, parents: list[Document]) -> tuple[InMemoryVectorStore, InMemoryStore]:
    store, docstore = InMemoryVectorStore(words()), InMemoryStore()
    store.add_documents(views.transform_documents(parents))
    docstore.mset(views.parents(parents))
    return store, docstore


# The transformer, and ids by content.


def test_any_documents_can_be_parents() -> None:
    plain = [Document(page_content="The pump."), Document(page_content="The fuse.", metadata={"source": "b"})]
    views = lc.CatenaViewTransformer(["raw"], id_key="parent", view_key="kind", metadata_keys=())
    made = views.transform_documents([*plain, plain[0]])
    (first, one), (second, other), _ = views.parents([*plain, plain[0]])
    (section, *_), (view, *_) = sections(HX), HEADED.transform_documents(sections(HX))
    about = {"source": "HX210.md", "title": "HX210 Manual", "doc_id": section.id, "view": "headed"}
    assert view.metadata == about
    assert [view.metadata for view in made] == [{"parent": first, "kind": "raw"}, {"parent": second, "kind": "raw"}]
    assert (one.id, one.page_content, other.page_content) == (first, "The pump.", "The fuse.")
    assert plain[0].id is None
    with pytest.raises(ParameterError, match="all different"):
        views.transform_documents([Document(id="a", page_content="x"), Document(id="a", page_content="y")])


def test_the_default_is_by_the_model_that_is_given_or_offline_and_goes_to_other_processes() -> None:
    views = lc.CatenaViewTransformer()
    assert views.kinds == ("passage", "keywords", "summary")
    assert not any(maker.asks_model for maker in views.makers)
    assert all(maker.asks_model for maker in lc.CatenaViewTransformer(llm=writer()).makers)
    changed = lc.CatenaViewTransformer(passage_tokens=99), lc.CatenaViewTransformer(id_key="parent")
    assert len({views.version, lc.CatenaViewTransformer().version, *(each.version for each in changed)}) == 3
    for _ in range(2):  # before and after use
        sent = pickle.loads(pickle.dumps(views))
        assert (sent.version, sent.kinds) == (views.version, views.kinds)
        assert sent.transform_documents(sections(HX)) == views.transform_documents(sections(HX))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"views": "raw"}, "views"),
        ({"views": ["summary"]}, "a maker such as"),
        ({"views": [Questions()]}, "llm"),
        ({"passage_tokens": 0}, "passage_tokens"),
        ({"passage_tokens": None}, "passage_tokens"),
        ({"metadata_keys": "source"}, "metadata_keys"),
        ({"view_key": "doc_id"}, "view_key"),
    ],
)
def test_bad_options_of_the_transformer_are_named(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        lc.CatenaViewTransformer(**options)


# The retriever.

PAIR = [HX, manual("HX220", "The hose.")]
HEADED = lc.CatenaViewTransformer(["headed", Keywords(by="offline")])


@pytest.fixture
def stores() -> tuple[InMemoryVectorStore, InMemoryStore]:
    return in_memory(HEADED, sections(*PAIR))


def views_of(stores: Any, **options: Any) -> lc.CatenaMultiViewRetriever:
    own = {"vectorstore": stores[0], "docstore": stores[1], "views": HEADED.kinds}
    return lc.CatenaMultiViewRetriever(**{**own, **options})


@pytest.mark.parametrize("keeps", [{"docstore": InMemoryStore()}, {"byte_store": InMemoryByteStore()}])
def test_langchains_multi_vector_retriever_returns_the_parents(keeps: Any) -> None:
    views, parents = lc.CatenaViewTransformer(), sections(HX)
    theirs = MultiVectorRetriever(vectorstore=InMemoryVectorStore(words()), id_key="doc_id", **keeps)
    theirs.vectorstore.add_documents(views.transform_documents(parents))
    theirs.docstore.mset(views.parents(parents))
    assert theirs.invoke("cover screws")[0] == parents[0]
    ours = lc.CatenaMultiViewRetriever(vectorstore=theirs.vectorstore, views=views.kinds, rule=ExactUnion(), **keeps)
    (found, *_) = ours.invoke("cover screws")
    assert (found.id, found.page_content) == (parents[0].id, parents[0].page_content)


def test_parents_come_from_any_store_or_function(stores, tmp_path) -> None:
    store, docstore = stores
    files, raw = create_kv_docstore(LocalFileStore(tmp_path)), InMemoryByteStore()
    for other in (files, lc.DocumentStore(raw)):
        other.mset([(key, docstore.store[key]) for key in docstore.yield_keys()])

    async def awaited(ids):
        await asyncio.sleep(0)
        return await docstore.amget(ids)

    options = {"vectorstore": store, "views": ("headed",)}
    expected = lc.CatenaMultiViewRetriever(docstore=docstore, **options).invoke("fuse")
    for kept in (files, raw, docstore.mget, awaited):
        assert lc.CatenaMultiViewRetriever(docstore=kept, **options).invoke("fuse") == expected
    assert lc.CatenaMultiViewRetriever(byte_store=raw, **options).invoke("fuse") == expected
    for wrong in (lambda ids: [], lambda ids: ["text"] * len(ids)):
        with pytest.raises(ParameterError, match="docstore"):
            lc.CatenaMultiViewRetriever(docstore=wrong, **options).invoke("fuse")


@SUNSET
def test_each_view_by_a_retriever_of_its_own_and_children_are_traced(stores) -> None:
    from langchain_community.retrievers import BM25Retriever

    parents, traces = sections(*PAIR), Traces()
    keywords = [view for view in HEADED.transform_documents(parents) if view.metadata["view"] == "keywords"]
    only = stores[0].as_retriever(search_kwargs={"filter": lambda document: document.metadata["view"] == "headed"})
    both = {"keywords": BM25Retriever.from_documents(keywords), "headed": only}
    retriever = lc.CatenaMultiViewRetriever(retrievers=both, docstore=stores[1])
    found = retriever.invoke("filter water", traces.config, k=1)
    assert found[0].page_content.endswith("Clean the filter with water.")
    routes = {way["route"] for way in found[0].metadata["catena"]["routes"]}
    assert sorted(routes) == children(traces.root) == ["BM25Retriever", "VectorStoreRetriever"]
    # a retriever of parents needs no docstore
    whole = lc.CatenaMultiViewRetriever(retrievers={"raw": BM25Retriever.from_documents(parents)})
    assert whole.invoke("filter water")[0].id == found[0].id


@pytest.mark.parametrize("kind", [NoFilter, DeafToFilters])
def test_conditions_of_ones_own_are_never_dropped(stores, kind: type[NoFilter]) -> None:
    other, asked = kind(words()), []
    other.store = stores[0].store

    def search(query: str, k: int = 4, **kwargs: Any):
        asked.append(kwargs)
        return kind.similarity_search_with_score(other, query, k, **kwargs)

    object.__setattr__(other, "similarity_search_with_score", search)
    condition = {"filter": {"view": "headed", "source": "HX210.md"}}
    with suppress(ViewError):  # of a store that refuses it
        views_of(stores, vectorstore=other, views=("headed",), filtering=lambda view: condition).invoke("fuse")
    assert asked == [condition] * len(asked) != []


@pytest.mark.slow
@SUNSET
def test_retrievers_of_sections_under_other_ids_or_none_find_the_same_sections() -> None:
    from langchain_community.retrievers import BM25Retriever, TFIDFRetriever

    parents = sections(HX, manual("HX200", "Tighten the cover screws to 3.2 Nm.", "The fuse holds 5 A."))
    store, docstore = InMemoryVectorStore(words()), InMemoryStore()
    lc.CatenaViewIndex(vectorstore=store, docstore=docstore, views=lc.CatenaViewTransformer(["raw"])).add(parents)
    loose = [Document(page_content=each.page_content) for each in parents]
    names = lc.CatenaViewTransformer(["raw"])
    other, beside = in_memory(names, loose)
    for lexical, dense, held in (
        (TFIDFRetriever.from_documents(parents), store, docstore),  # loses ids
        (BM25Retriever.from_documents(loose), other, beside),
    ):
        retrievers = {"headed": lexical, "raw": dense.as_retriever(search_kwargs={"k": 5})}
        both = lc.CatenaMultiViewRetriever(retrievers=retrievers, docstore=held, rule=ExactUnion(), k=9)
        found = both.invoke("fuse")
        assert len({each.page_content for each in found}) == len(found) == 5
        assert all(set(each.metadata["catena"]["views"]) == {"headed", "raw"} for each in found[:2])
        hits = both.ranking("fuse").hits
        assert all(each.id in (None, hit.chunk.id) for each, hit in zip(found, hits, strict=True))


def test_many_views_of_one_parent_do_not_crowd_out_the_others() -> None:
    long = " ".join(f"Sentence {number} is about the pump." for number in range(150))
    parents = sections(manual("A", long, "The pump has a hose.", "A pump needs a fuse."))
    views = lc.CatenaViewTransformer(["passage"], passage_tokens=12)
    store, docstore = in_memory(views, parents)
    retriever = lc.CatenaMultiViewRetriever(
        vectorstore=store, docstore=docstore, views=("passage",), rule=ExactUnion()
    )
    assert len(retriever.invoke("pump")) == 3


def test_bad_options_of_the_retriever_are_named(stores) -> None:
    store, docstore = stores
    plain, raw = store.as_retriever(), InMemoryByteStore()
    for options, match in (
        ({}, "vectorstore"),
        ({"vectorstore": store, "retrievers": {"raw": plain}, "docstore": docstore}, "either"),
        ({"vectorstore": store, "docstore": docstore}, "views"),
        ({"vectorstore": store, "views": ("raw",)}, "docstore"),
        ({"vectorstore": store, "views": ("raw",), "docstore": docstore, "byte_store": raw}, "docstore"),
        ({"vectorstore": store, "views": ("raw",), "docstore": "here"}, "docstore"),
        ({"retrievers": {"raw": plain}, "views": ("summary",)}, "summary"),
    ):
        with pytest.raises(ValueError, match=match):
            lc.CatenaMultiViewRetriever(**options)
    for k in ("3", float("nan"), float("inf"), -1):
        with pytest.raises(ParameterError, match="k must be"):
            views_of(stores).invoke("fuse", k=k)
    assert views_of(stores).invoke("fuse", k=None) == views_of(stores).invoke("fuse")


@SUNSET
def test_faiss_filters_too_late_and_is_searched_further() -> None:
    from langchain_community.vectorstores import FAISS

    views = lc.CatenaViewTransformer(["headed", Keywords(by="offline")])
    many = [manual(f"M{number}", *(f"The {word} number {number}." for word in WORDS)) for number in range(3)]
    store = FAISS.from_texts(["seed"], words(), ids=["seed"])
    written = lc.CatenaViewIndex(vectorstore=store, docstore=InMemoryStore(), views=views)
    written.add(sections(*many))
    found = written.retriever(rule=ExactUnion(), k=5).invoke("the sensor")
    assert len(found) == 5
    assert all("sensor" in each.page_content for each in found[:3])
    assert found[0].metadata["catena"]["degraded"] == []
    assert len(written.retriever(rule=ExactUnion(), k=40).invoke("the sensor")) == 40  # it fetches 20 to filter
    changed = manual("M0", *(f"The {word} number 0." for word in WORDS[1:]))
    written.replace(sections(changed))
    written.delete("M1.md", "M2.md")
    assert {parent for parent, _ in standing(written)[0]} == set(standing(written)[1])
    written.delete("M0.md")
    assert set(store.index_to_docstore_id.values()) == {"seed"}


# Stores in step.


def standing(index: lc.CatenaViewIndex) -> tuple[set[tuple[str, str]], set[str], set[str]]:
    """Return what stands in both stores: (parent, view text), ids of parents, keys of records."""
    store = index.vectorstore
    documents = (
        [Document(page_content=each["text"], metadata=each["metadata"]) for each in store.store.values()]
        if isinstance(store, InMemoryVectorStore)
        else store.get_by_ids([name for name in store.index_to_docstore_id.values() if name != "seed"])
    )
    keys = set(index.docstore.yield_keys())
    records = {key for key in keys if key.startswith(LEDGER)}
    return {(each.metadata["doc_id"], each.page_content) for each in documents}, keys - records, records


def fresh(model: Any = None, *, makers: Any = None) -> lc.CatenaViewIndex:
    views = lc.CatenaViewTransformer(makers or ["headed", Keywords(), Summaries(over_tokens=0)], llm=model)
    return lc.CatenaViewIndex(vectorstore=InMemoryVectorStore(words()), docstore=InMemoryStore(), views=views)


async def test_the_shipped_vectors_are_read_off_the_event_loop() -> None:
    index = fresh(makers=["raw", Summaries(by="offline", over_tokens=0)])
    asking = lc.CatenaViewTransformer([Questions(), Summaries(by="offline")], llm=writer(), services=Services())
    lc.CatenaViewTransformer([Questions()], llm=asking.llm).transform_documents(sections(HX))  # prompts are read once
    with blockbuster_ctx():
        await index.aadd(sections(HX))
        await asking.atransform_documents(sections(HX))


OTHER = manual("HX210", "The fuse holds 3 A.", "Grease the wheel.", "Clean the filter with water.")


class NoReading(FailingVectors):
    """Replaces what is added again, ignores what it lacks, and cannot be read by id."""

    get_by_ids = VectorStore.get_by_ids

    def add_documents(self, documents: list[Document], ids: list[str] | None = None, **kwargs: Any) -> list[str]:
        return InMemoryVectorStore.add_documents(self, documents)

    def delete(self, ids: Any = None, **kwargs: Any) -> bool:
        InMemoryVectorStore.delete(self, ids)
        return not kwargs and self.fuse.left > 0


class Losing(NoReading):
    """Gives documents back without their ids."""

    def get_by_ids(self, ids: Any, /) -> list[Document]:
        return [found.model_copy(update={"id": None}) for found in InMemoryVectorStore.get_by_ids(self, ids)]


class Hyphening(NoReading):
    """Writes ids otherwise."""

    def get_by_ids(self, ids: Any, /) -> list[Document]:
        found = InMemoryVectorStore.get_by_ids(self, ids)
        return [each.model_copy(update={"id": as_uuid(str(each.id))}) for each in found]


@pytest.mark.parametrize("kind", [NoReading, Losing, Hyphening])
def test_a_store_that_does_not_say_what_it_holds_is_written_blindly_and_a_refusal_is_an_error(kind: Any) -> None:
    store = kind(words())
    store.fuse = Fuse()
    index = lc.CatenaViewIndex(vectorstore=store, docstore=InMemoryStore(), views=lc.CatenaViewTransformer(["raw"]))
    index.add(sections(HX))
    index.replace(sections(OTHER))
    assert {each["text"] for each in store.store.values()} == {each.page_content for each in sections(OTHER)}
    store.fuse.left = 0
    with pytest.raises(ServiceError, match="did not delete"):
        index.delete("HX210.md")
    assert store.store == {}


def test_bytes_in_files_keep_parents_and_records(tmp_path) -> None:
    views = lc.CatenaViewTransformer(["headed", Keywords()], llm=writer())
    options = {"byte_store": LocalFileStore(tmp_path / "a"), "views": views}
    index = lc.CatenaViewIndex(vectorstore=InMemoryVectorStore(words()), **options)
    index.add(sections(HX))
    again = lc.CatenaViewIndex(vectorstore=index.vectorstore, **options)
    assert again.replace(sections(HX)) == lc.ViewChanges(views_kept=6)
    assert again.sources() == ("HX210.md",)
    assert again.retriever(k=1).invoke("fuse")[0].page_content.endswith("3 A.")
    again.delete("HX210.md")
    assert list(again.docstore.yield_keys()) == []


def test_what_is_no_store_and_no_record_is_named() -> None:
    with pytest.raises(ParameterError, match="vectorstore"):
        lc.CatenaViewIndex(vectorstore=InMemoryStore(), docstore=InMemoryStore())  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="docstore"):
        lc.CatenaViewIndex(vectorstore=InMemoryVectorStore(words()))
    with pytest.raises(ParameterError, match="docstore"):
        lc.CatenaViewIndex(vectorstore=InMemoryVectorStore(words()), docstore=lambda ids: [])  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="source"):
        fresh(makers=["raw"]).add([Document(page_content="whose?")])


def test_views_under_other_keys_are_written_anew() -> None:
    index = fresh(makers=["headed"])
    index.add(sections(HX))
    views = lc.CatenaViewTransformer(["headed"], id_key="parent", view_key="kind")
    other = lc.CatenaViewIndex(vectorstore=index.vectorstore, docstore=index.docstore, views=views)
    changes = other.replace(sections(HX))
    assert (changes.views_added, changes.views_deleted, changes.parents_written) == (3, 3, 0)
    assert len(other.retriever(rule=ExactUnion()).invoke("fuse")) == 3

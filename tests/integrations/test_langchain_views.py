"""Views in a user's own stores: made, found, resolved to parents, and kept in step with documents that change."""

from __future__ import annotations

import asyncio
import logging
import pickle
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_classic.retrievers.multi_vector import MultiVectorRetriever
from langchain_classic.storage import LocalFileStore, create_kv_docstore
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.stores import InMemoryByteStore, InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_fakes import SUNSET, Events, Fixed, ReplyingChatModel, Traces, children

import langchain_catena as lc
from catena.effects import Services
from catena.enrichment import LEDGER, Keywords, MadeViews, Questions, Summaries
from catena.model import DuplicateDocumentError, ParameterError, ServiceError, ViewError, as_uuid
from catena.retrieval import ExactUnion, PaperQuota, ViewRankFusion, multi_view
from catena.retrieval.view_search import ViewScoreFusion
from catena.structure import SectionChunkOptions

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


def edited(document: Document, old: str, new: str) -> Document:
    return document.model_copy(update={"page_content": document.page_content.replace(old, new)})


HX = manual("HX210", "Tighten the cover screws to 4.5 Nm.", "The fuse holds 3 A.", "Clean the filter with water.")


class CountedWords(Embeddings):
    """A bag of known words; `texts` counts what was embedded for a store."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.texts += texts
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        words = text.lower().replace(".", " ").split()
        return [1e-3 + sum(word.startswith(known[:5]) for word in words) for known in WORDS]


def about(messages: list[Any]) -> str:
    """Reply to a prompt of any maker with words of the text in it."""
    text = messages[-1].text
    said = [word for word in WORDS if word in text.lower()] or ["device"]
    return f"This part is about {' and '.join(said)}." if "summar" in messages[0].text.lower() else str(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shout:
    """A maker of one's own: the text in capitals, twice."""

    kind: str = "loud"
    asks_model: bool = False
    version: str = "1"

    def make(self, chunks, title):
        yield from ()
        return MadeViews(texts=tuple((chunk.text.upper(), f"{title}!") for chunk in chunks))


def in_memory(views: lc.CatenaViewTransformer, parents: list[Document]) -> tuple[InMemoryVectorStore, InMemoryStore]:
    store, docstore = InMemoryVectorStore(CountedWords()), InMemoryStore()
    store.add_documents(views.transform_documents(parents))
    docstore.mset(views.parents(parents))
    return store, docstore


# The transformer, and ids by content.


def test_each_parent_gets_its_views_flat_and_under_derived_ids() -> None:
    views = lc.CatenaViewTransformer(["raw", "headed", "passage", Keywords(by="offline"), Shout()])
    parents = sections(HX)
    made = views.transform_documents(parents)
    assert made == views.transform_documents(parents)
    assert len({view.id for view in made}) == len(made)
    order = [parent.id for parent in parents]
    assert [view.metadata["doc_id"] for view in made] == [i for i in order for _ in range(len(made) // 3)]
    first = {view.metadata["view"]: view for view in made if view.metadata["doc_id"] == order[0]}
    assert set(first) == set(views.kinds) == {"raw", "headed", "passage", "keywords", "loud"}
    assert first["raw"].page_content == parents[0].page_content
    assert first["headed"].page_content.startswith("HX210 Manual › Part 1\n")
    assert first["loud"].page_content == "HX210 Manual!"  # the second of its kind
    about = {"source": "HX210.md", "title": "HX210 Manual", "doc_id": order[0], "view": "raw"}
    assert first["raw"].metadata == about


def test_any_documents_can_be_parents() -> None:
    plain = [Document(page_content="The pump."), Document(page_content="The fuse.", metadata={"source": "b"})]
    views = lc.CatenaViewTransformer(["raw"], id_key="parent", view_key="kind", metadata_keys=())
    made = views.transform_documents([*plain, plain[0]])
    (first, one), (second, other), _ = views.parents([*plain, plain[0]])
    assert [view.metadata for view in made] == [{"parent": first, "kind": "raw"}, {"parent": second, "kind": "raw"}]
    assert (one.id, one.page_content, other.page_content) == (first, "The pump.", "The fuse.")
    assert plain[0].id is None
    with pytest.raises(ParameterError, match="all different"):
        views.transform_documents([Document(id="a", page_content="x"), Document(id="a", page_content="y")])


def test_a_chat_model_makes_views_and_what_it_fails_at_is_told(caplog) -> None:
    model = ReplyingChatModel(reply=about)
    views = lc.CatenaViewTransformer(["raw", Keywords(), Summaries(over_tokens=0)], llm=model)
    kinds = [view.metadata["view"] for view in views.transform_documents(sections(HX))]
    assert kinds == ["raw", "keywords", "summary"] * 3
    assert len(model.sent) == 6

    def fails(messages):
        raise ValueError("no such model")

    broken = lc.CatenaViewTransformer(["raw", Keywords()], llm=ReplyingChatModel(reply=fails))
    with caplog.at_level(logging.WARNING, "langchain_catena"):
        assert [view.metadata["view"] for view in broken.transform_documents(sections(HX))] == ["raw"] * 3
    assert "no such model" in caplog.text


def test_the_default_is_by_the_model_that_is_given_or_offline_and_goes_to_other_processes() -> None:
    views = lc.CatenaViewTransformer()
    assert views.kinds == ("passage", "keywords", "summary")
    assert not any(maker.asks_model for maker in views.makers)
    assert all(maker.asks_model for maker in lc.CatenaViewTransformer(llm=ReplyingChatModel(reply=about)).makers)
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


def test_ids_by_content_outlast_an_edit_elsewhere() -> None:
    before, after = (
        lc.with_content_ids(sections(each)) for each in (HX, edited(HX, "4.5 Nm.", "4.5 Nm.\n\nNot more."))
    )
    assert [a.id == b.id for a, b in zip(before, after, strict=True)] == [False, True, True]
    assert (after[1].metadata["previous_id"], after[1].metadata["next_id"]) == (after[0].id, after[2].id)
    assert lc.with_content_ids(before) == before
    owned = [each.model_copy(update={"metadata": {**each.metadata, "tenant": 1}}) for each in sections(HX)]
    same, other = lc.with_content_ids(owned), lc.with_content_ids(owned, metadata_keys=["tenant"])
    assert [each.id for each in same] == [each.id for each in before] != [each.id for each in other]
    twice = [Document(page_content="The pump.", metadata={"source": "a"}) for _ in range(2)]
    assert len({each.id for each in lc.with_content_ids(twice)}) == 2
    with pytest.raises(ParameterError, match="source"):
        lc.with_content_ids([Document(page_content="whose?")])


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
    theirs = MultiVectorRetriever(vectorstore=InMemoryVectorStore(CountedWords()), id_key="doc_id", **keeps)
    theirs.vectorstore.add_documents(views.transform_documents(parents))
    theirs.docstore.mset(views.parents(parents))
    assert theirs.invoke("cover screws")[0] == parents[0]
    ours = lc.CatenaMultiViewRetriever(vectorstore=theirs.vectorstore, views=views.kinds, rule=ExactUnion(), **keeps)
    (found, *_) = ours.invoke("cover screws")
    assert (found.id, found.page_content) == (parents[0].id, parents[0].page_content)


def test_parents_come_once_in_raw_text_with_the_views_that_found_them(stores) -> None:
    found = views_of(stores).invoke("How tight are the cover screws?", k=1.5)
    assert found[0].page_content == "## Part 1\n\nTighten the cover screws to 4.5 Nm."
    told = found[0].metadata["catena"]
    assert (told["views"], told["degraded"]) == ({"headed": 1, "keywords": 1}, [])
    ways = [("InMemoryVectorStore", "headed", 1), ("InMemoryVectorStore", "keywords", 1)]
    assert [(way["route"], way["view"], way["rank"]) for way in told["routes"]] == ways
    assert found[0].metadata["citation"]
    assert len({each.id for each in found}) == len(found)


@pytest.mark.parametrize(
    "rule",
    [PaperQuota(), ExactUnion(), ViewRankFusion(weights={"headed": 2.0}), ViewScoreFusion()],
    ids=lambda rule: type(rule).__name__,
)
def test_the_rules_are_those_of_the_core(stores, rule) -> None:
    question, plain = "the fuse and the cover", ViewScoreFusion(normalise=lambda s, b: s)
    each = {kind: views_of(stores, views=(kind,), rule=plain, k=30).ranking(question) for kind in HEADED.kinds}
    for k in (1, 3):
        ranking, expected = views_of(stores, rule=rule).ranking(question, k=k), multi_view(each, rule, k)
        assert [hit.chunk.id for hit in ranking.hits] == [hit.chunk.id for hit in expected.hits]
        assert ranking.scale is rule.scale


def test_a_missing_parent_is_told_and_takes_no_place(stores, caplog) -> None:
    retriever, events = views_of(stores, views=("headed",), rule=ExactUnion(), k=2), Events()
    gone = retriever.invoke("fuse")[0].id
    stores[1].mdelete([gone])
    with caplog.at_level(logging.WARNING, "langchain_catena"):
        found = retriever.invoke("fuse", {"callbacks": [events]})
    assert len(found) == 2
    assert gone not in {each.id for each in found}
    assert gone in found[0].metadata["catena"]["degraded"][0]
    assert [(name, data["what"]) for name, data in events.seen] == [("catena_degraded", "view headed: parents")]
    assert "1 that views lead to are missing where parents are kept" in caplog.text


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


class NoFilter(InMemoryVectorStore):
    """A store that takes no filter; `distances` tells distances instead of likeness."""

    distances = False

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any):
        if kwargs:
            raise TypeError(f"unexpected keyword arguments {sorted(kwargs)}")
        found = super().similarity_search_with_score(query, k)
        return [(document, 1 - score if self.distances else score) for document, score in found]

    async def asimilarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any):
        return self.similarity_search_with_score(query, k, **kwargs)


class DeafToFilters(NoFilter):
    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any):
        return super().similarity_search_with_score(query, k)


@pytest.mark.parametrize("kind", [NoFilter, DeafToFilters])
async def test_a_store_without_a_filter_is_searched_further_and_says_so(stores, kind: type[NoFilter]) -> None:
    other = kind(CountedWords())
    other.store, other.distances = stores[0].store, True
    loud, quiet = views_of(stores, vectorstore=other), views_of(stores, vectorstore=other, filtering="over-fetch")
    found, plain = loud.invoke("fuse"), views_of(stores).invoke("fuse")
    assert await loud.ainvoke("fuse") == found
    assert [each.id for each in found] == [each.id for each in quiet.invoke("fuse")] == [each.id for each in plain]
    told = found[0].metadata["catena"]["degraded"]
    assert [("view" in part and "filter" in part) for part in told] == [True, True]
    assert quiet.invoke("fuse")[0].metadata["catena"]["degraded"] == []
    scored = {"rule": ViewScoreFusion(), "filtering": "over-fetch"}
    by_distance, by_likeness = (views_of(stores, vectorstore=each, **scored) for each in (other, stores[0]))
    assert [each.id for each in by_distance.invoke("fuse")] == [each.id for each in by_likeness.invoke("fuse")]


@pytest.mark.parametrize("kind", [NoFilter, DeafToFilters])
def test_conditions_of_ones_own_are_never_dropped(stores, kind: type[NoFilter]) -> None:
    other, asked = kind(CountedWords()), []
    other.store = stores[0].store

    def search(query: str, k: int = 4, **kwargs: Any):
        asked.append(kwargs)
        return kind.similarity_search_with_score(other, query, k, **kwargs)

    object.__setattr__(other, "similarity_search_with_score", search)
    condition = {"filter": {"view": "headed", "source": "HX210.md"}}
    with suppress(ViewError):  # of a store that refuses it
        views_of(stores, vectorstore=other, views=("headed",), filtering=lambda view: condition).invoke("fuse")
    assert asked == [condition] * len(asked) != []


@pytest.mark.parametrize("told", [{}, {"relevance_score": "high"}, {"relevance_score": None}])
def test_scores_of_a_retriever_count_where_all_are_numbers(told: dict[str, Any]) -> None:
    scored = [Document(id=name, page_content=name, metadata={"relevance_score": 0.2}) for name in "ab"]
    given = Fixed(docs=[*scored, Document(id="c", page_content="c", metadata=told)])
    retriever = lc.CatenaMultiViewRetriever(retrievers={"raw": given}, rule=ViewScoreFusion())
    assert [each.id for each in retriever.invoke("?")] == ["a", "b", "c"]


@pytest.mark.slow
@SUNSET
def test_retrievers_of_sections_under_other_ids_or_none_find_the_same_sections() -> None:
    from langchain_community.retrievers import BM25Retriever, TFIDFRetriever

    parents = sections(HX, manual("HX200", "Tighten the cover screws to 3.2 Nm.", "The fuse holds 5 A."))
    store, docstore = InMemoryVectorStore(CountedWords()), InMemoryStore()
    lc.CatenaViewIndex(vectorstore=store, docstore=docstore, views=lc.CatenaViewTransformer(["raw"])).add(parents)
    loose = [Document(page_content=each.page_content) for each in parents]
    names = lc.CatenaViewTransformer(["raw"])
    other, beside = in_memory(names, loose)
    for lexical, dense, held in (
        (BM25Retriever.from_documents(parents), store, docstore),  # ids by place, and by content
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
    store = FAISS.from_texts(["seed"], CountedWords(), ids=["seed"])
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


OFFLINE = ["headed", Keywords(by="offline"), Shout()]


def fresh(model: Any = None, *, makers: Any = None) -> lc.CatenaViewIndex:
    views = lc.CatenaViewTransformer(makers or ["headed", Keywords(), Summaries(over_tokens=0)], llm=model)
    return lc.CatenaViewIndex(vectorstore=InMemoryVectorStore(CountedWords()), docstore=InMemoryStore(), views=views)


def test_a_changed_section_is_replaced_and_no_other_is_touched() -> None:
    model = ReplyingChatModel(reply=about)
    index = fresh(model)

    def paid() -> tuple[int, int]:
        return len(model.sent), len(index.vectorstore.embedding.texts)

    assert index.add(sections(HX)) == lc.ViewChanges(views_added=9, parents_written=3)
    assert paid() == (6, 9)
    longer, before = edited(HX, "4.5 Nm.", "4.5 Nm.\n\nUse a lever."), dict(index.vectorstore.store)
    changes = lc.ViewChanges(views_added=3, views_deleted=3, views_kept=6, parents_written=3, parents_deleted=1)
    assert index.replace(sections(longer)) == changes  # the others moved: their lines changed, their views did not
    assert paid() == (8, 12)
    assert sum(index.vectorstore.store.get(name) is view for name, view in before.items()) == 6
    lines = [parent.metadata["first_line"] for parent in index.docstore.mget(list(standing(index)[1]))]
    assert sorted(lines) == sorted(each.metadata["first_line"] for each in sections(longer))
    assert index.replace(sections(longer)) == lc.ViewChanges(views_kept=9)
    assert paid() == (8, 12)


def test_what_a_model_failed_at_is_asked_for_again_and_other_views_are_made_anew() -> None:
    silent = True

    def reply(messages):
        if silent:
            raise ValueError("busy")
        return about(messages)

    index = fresh(ReplyingChatModel(reply=reply))
    changes = index.add(sections(HX))
    assert changes.views_added == 3
    assert changes.degraded
    silent = False
    assert index.replace(sections(HX)).views_added == 6
    assert index.replace(sections(HX)) == lc.ViewChanges(views_kept=9)
    for views, added, deleted in (
        (lc.CatenaViewTransformer(["headed"]), 0, 6),
        (lc.CatenaViewTransformer(["headed"], id_key="parent", view_key="kind"), 3, 3),  # another document
    ):
        other = lc.CatenaViewIndex(vectorstore=index.vectorstore, docstore=index.docstore, views=views)
        changes = other.replace(sections(HX))
        assert (changes.views_added, changes.views_deleted, changes.parents_written) == (added, deleted, 0)
        assert len(other.retriever(rule=ExactUnion()).invoke("fuse")) == 3


async def test_sources_are_added_once_and_removed_where_they_are_named() -> None:
    index, twin = fresh(makers=["raw"]), fresh(makers=["raw"])
    index.add(sections(HX))
    with pytest.raises(DuplicateDocumentError, match=r"HX210\.md.*Try: replace"):
        index.add(sections(PAIR[1], HX))
    assert index.sources() == ("HX210.md",)
    index.replace(sections(PAIR[1]))
    twin.add(sections(*PAIR))
    assert index.sources() == twin.sources() == ("HX210.md", "HX220.md")
    left = sections(Document(page_content="", metadata={"source": "HX210.md"}), PAIR[1])
    read = ["HX210.md", "HX220.md", "nowhere.md"]
    changes = index.replace(left, sources=read)
    assert (changes.views_kept, changes.views_deleted, changes.parents_deleted) == (1, 3, 3)
    assert await twin.areplace(left, sources=read) == changes
    assert standing(index) == standing(twin)
    assert index.delete("nowhere.md", "HX210.md") == lc.ViewChanges()
    assert index.delete("HX220.md") == lc.ViewChanges(views_deleted=1, parents_deleted=1)
    assert (standing(index), index.sources()) == ((set(), set(), set()), ())
    with pytest.raises(ParameterError, match="sources"):
        index.replace([], sources="HX220.md")


async def test_the_shipped_vectors_are_read_off_the_event_loop() -> None:
    index = fresh(makers=["raw", Summaries(by="offline", over_tokens=0)])
    asking = lc.CatenaViewTransformer(
        [Questions(), Summaries(by="offline")], llm=ReplyingChatModel(reply=about), services=Services()
    )
    lc.CatenaViewTransformer([Questions()], llm=asking.llm).transform_documents(sections(HX))  # prompts are read once
    with blockbuster_ctx():
        await index.aadd(sections(HX))
        await asking.atransform_documents(sections(HX))


async def test_the_same_changes_in_async() -> None:
    sync, other = (fresh(ReplyingChatModel(reply=about)) for _ in range(2))
    longer = sections(manual("HX210", "Tighten the cover screws.", "The fuse holds 3 A."))
    expected = [sync.add(sections(HX)), sync.replace(longer), sync.sources(), sync.retriever().invoke("fuse")]
    with blockbuster_ctx(["langchain_catena"]):
        found = [await other.aadd(sections(HX)), await other.areplace(longer), await other.asources()]
        assert [*found, await other.retriever().ainvoke("fuse")] == expected
    assert standing(other) == standing(sync)
    deleted = sync.delete("HX210.md")
    with blockbuster_ctx(["langchain_catena"]):
        assert await other.adelete("HX210.md") == deleted
    assert standing(other) == standing(sync) == (set(), set(), set())


class Fuse:
    """Lets so many calls through; the next does half of what it was asked, and fails."""

    def __init__(self) -> None:
        self.left = 10**9

    def half(self, items: list[Any]) -> list[Any]:
        self.left -= 1
        return items if self.left >= 0 else items[: len(items) // 2]

    def blow(self) -> None:
        if self.left < 0:
            self.left = 10**9
            raise RuntimeError("the store went away")  # one that is not tried again


class FailingVectors(InMemoryVectorStore):
    """Refuses, as some stores do, ids that it has and ids that it lacks."""

    fuse: Fuse

    def add_documents(self, documents: list[Document], ids: list[str] | None = None, **kwargs: Any) -> list[str]:
        if known := [each.id for each in documents if each.id in self.store]:
            raise ValueError(f"ids that exist already: {known}")
        added = super().add_documents(self.fuse.half(documents))
        self.fuse.blow()
        return added

    def delete(self, ids: Any = None, **kwargs: Any) -> None:
        if missing := [each for each in ids if each not in self.store]:
            raise ValueError(f"ids that do not exist: {missing}")
        super().delete(self.fuse.half(list(ids)))
        self.fuse.blow()


class FailingDocuments(InMemoryStore):
    fuse: Fuse

    def mset(self, key_value_pairs: Any) -> None:
        super().mset(self.fuse.half(list(key_value_pairs)))
        self.fuse.blow()

    def mdelete(self, keys: Any) -> None:
        super().mdelete(self.fuse.half(list(keys)))
        self.fuse.blow()


def failing() -> tuple[lc.CatenaViewIndex, Fuse, ReplyingChatModel]:
    store, docstore, fuse = FailingVectors(CountedWords()), FailingDocuments(), Fuse()
    store.fuse = docstore.fuse = fuse
    model = ReplyingChatModel(reply=about)
    views = lc.CatenaViewTransformer(["headed", Keywords(), Shout()], llm=model, embeddings=CountedWords())
    return lc.CatenaViewIndex(vectorstore=store, docstore=docstore, views=views), fuse, model


OTHER = manual("HX210", "The fuse holds 3 A.", "Grease the wheel.", "Clean the filter with water.")
DO = {
    "add": lambda index: index.add(sections(HX)),
    "back": lambda index: index.replace(sections(HX)),
    "replace": lambda index: index.replace(sections(OTHER)),
    "delete": lambda index: index.delete("HX210.md"),
}


def failed(index: lc.CatenaViewIndex, what: str) -> bool:
    try:
        DO[what](index)
    except ServiceError as error:
        if "the store went away" not in str(error):
            raise
        return True
    return False


@pytest.mark.parametrize("change", ["add", "replace", "delete"])
@pytest.mark.parametrize("after", ["the same", "replace", "back", "delete"])
def test_a_failure_at_any_call_is_made_good_by_the_next_one(change: str, after: str) -> None:
    then = change if after == "the same" else after
    clean, *_ = failing()  # which never knew anything else
    DO[then](clean)
    for calls in range(20):
        index, fuse, model = failing()
        if change != "add":
            index.add(sections(HX))
        fuse.left = calls
        if not failed(index, change):
            break
        views, parents, _ = standing(index)
        assert {parent for parent, _ in views} <= parents  # what comes is written before what goes
        fuse.left, asked = 10**9, len(model.sent)
        DO[then](index)
        if after == "the same" and calls > 0:
            assert len(model.sent) == asked  # what was written down is not asked for again
        assert standing(index) == standing(clean)
    assert calls >= 4


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.lists(st.sampled_from(["The pump.", "The fuse.", "The hose."]), min_size=1, max_size=3), max_size=4),
    st.lists(st.integers(0, 8), max_size=4),
)
def test_no_history_shows_whatever_failed_on_the_way(versions: list[list[str]], failures: list[int]) -> None:
    index, fuse, _ = failing()
    for number, bodies in enumerate(versions):
        fuse.left = failures[number] if number < len(failures) else 10**9
        with suppress(ServiceError):
            index.replace(sections(manual("A", *bodies)))
    fuse.left = 10**9
    last = sections(manual("A", "The last pump.", "The fuse."))
    index.replace(last)
    other, *_ = failing()
    other.replace(last)
    assert standing(index) == standing(other)


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
    store = kind(CountedWords())
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
    views = lc.CatenaViewTransformer(["headed", Keywords()], llm=ReplyingChatModel(reply=about))
    options = {"byte_store": LocalFileStore(tmp_path / "a"), "views": views}
    index = lc.CatenaViewIndex(vectorstore=InMemoryVectorStore(CountedWords()), **options)
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
        lc.CatenaViewIndex(vectorstore=InMemoryVectorStore(CountedWords()))
    with pytest.raises(ParameterError, match="docstore"):
        lc.CatenaViewIndex(vectorstore=InMemoryVectorStore(CountedWords()), docstore=lambda ids: [])  # type: ignore[arg-type]
    index = fresh(makers=["raw"])
    index.add(sections(HX))
    (key,) = standing(index)[2]
    index.docstore.mset([(key, Document(page_content="notes"))])
    with pytest.raises(ParameterError, match="ledger"):
        index.replace(sections(HX))
    with pytest.raises(ParameterError, match="source"):
        index.add([Document(page_content="whose?")])

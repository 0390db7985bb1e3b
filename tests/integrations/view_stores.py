"""Stores of views in both frameworks: how they are filled, what stands in them, and how they are broken."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from adapter_faces import LangChain, LlamaIndex
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core.schema import BaseNode, IndexNode, TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryResult
from llama_index_fakes import Texts, index_of

import langchain_catena as lc
import llama_index_catena as li
from catena.enrichment import LEDGER, MadeViews, record_key
from catena.testing import FakeEmbedder


@dataclass(frozen=True, slots=True, kw_only=True)
class Shout:
    """A maker of one's own: the text in capitals, and the title, loud."""

    kind: str = "loud"
    asks_model: bool = False
    version: str = "1"

    def make(self, chunks: Any, title: str) -> Any:
        yield from ()
        return MadeViews(texts=tuple((chunk.text.upper(), f"{title}!") for chunk in chunks))


@dataclass(frozen=True)
class MadeView:
    id: str
    parent: str
    kind: str
    text: str


class Fuse:
    """Lets so many calls through; the next does half of what it was asked, or all of it, and fails."""

    def __init__(self) -> None:
        self.left, self.does_all = 10**9, False

    def half(self, items: Any) -> Any:
        self.left -= 1
        return items if self.left >= 0 or self.does_all else items[: len(items) // 2]

    def blow(self) -> None:
        if self.left < 0:
            self.left = 10**9
            raise RuntimeError("the store went away")  # one that is not tried again


class NoFilter(InMemoryVectorStore):
    """A store that takes no filter."""

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> Any:
        if kwargs:
            raise TypeError(f"unexpected keyword arguments {sorted(kwargs)}")
        return super().similarity_search_with_score(query, k)

    async def asimilarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> Any:
        return self.similarity_search_with_score(query, k, **kwargs)


class DeafToFilters(NoFilter):
    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> Any:
        return super().similarity_search_with_score(query, k)


class Distant(DeafToFilters):
    """Tells distances instead of likeness."""

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> Any:
        return [(document, 1 - score) for document, score in super().similarity_search_with_score(query, k)]


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


class LangChainViews(LangChain):
    """Views in a vector store, and their parents in a docstore."""

    content_ids: Any = staticmethod(lc.with_content_ids)
    store = "InMemoryVectorStore"
    noting = 1  # calls by which a record is written
    _stores = {"plain": InMemoryVectorStore, "refusing": NoFilter, "deaf": DeafToFilters, "distant": Distant}  # noqa: RUF012

    def views(self, maker: Any, parents: Sequence[Any]) -> list[MadeView]:
        made = maker.transform_documents(parents)
        return [MadeView(each.id, each.metadata["doc_id"], each.metadata["view"], each.page_content) for each in made]

    def over(self, maker: Any, parents: Sequence[Any], store: str = "plain", **options: Any) -> Any:
        """Return a retriever of views in stores that hold them."""
        made, docstore = self._stores[store](lc.CatenaEmbeddings(FakeEmbedder(dim=48))), InMemoryStore()
        made.add_documents(maker.transform_documents(parents))
        docstore.mset(maker.parents(parents))
        own = {"vectorstore": made, "docstore": docstore, "views": maker.kinds}
        return lc.CatenaMultiViewRetriever(**{**own, **options})

    def beside(self, index: Any, retriever: Any, **options: Any) -> Any:
        """Return a retriever of views by this one, and by one over the views of an index."""
        both = {"headed": retriever, "raw": index.vectorstore.as_retriever(search_kwargs={"k": 3})}
        return lc.CatenaMultiViewRetriever(retrievers=both, docstore=index.docstore, **options)

    def lose(self, retriever: Any, parent: str) -> None:
        retriever.docstore.mdelete([parent])

    def index(self, maker: Any, embedder: Any = None) -> Any:
        embeddings = lc.CatenaEmbeddings(embedder or FakeEmbedder(dim=48))
        store, docstore = InMemoryVectorStore(embeddings), InMemoryStore()
        return lc.CatenaViewIndex(vectorstore=store, docstore=docstore, views=maker)

    def again(self, index: Any, maker: Any) -> Any:
        """Return an index of other views over the same stores."""
        return lc.CatenaViewIndex(vectorstore=index.vectorstore, docstore=index.docstore, views=maker)

    def breaking(self, maker: Any) -> tuple[Any, Fuse]:
        """Return an index over stores that fail when the fuse says so."""
        store, docstore, fuse = FailingVectors(lc.CatenaEmbeddings(FakeEmbedder())), FailingDocuments(), Fuse()
        store.fuse = docstore.fuse = fuse
        return lc.CatenaViewIndex(vectorstore=store, docstore=docstore, views=maker), fuse

    def parent_texts(self, index: Any) -> list[str]:
        keys = [key for key in index.docstore.yield_keys() if not key.startswith(LEDGER)]
        return sorted(parent.page_content for parent in index.docstore.mget(keys))

    def held(self, index: Any) -> Any:
        """Return all that stands in both stores."""
        views = {(each["metadata"]["doc_id"], each["text"]) for each in index.vectorstore.store.values()}
        return views, set(index.docstore.yield_keys())

    def sound(self, index: Any) -> bool:
        """Return whether every view leads to a parent: what comes is written before what goes."""
        views, keys = self.held(index)
        return {parent for parent, _ in views} <= keys

    def spoil(self, index: Any, source: str) -> None:
        """Write something else where the record of a document stands."""
        index.docstore.mset([(record_key(LEDGER, source), Document(page_content="notes"))])


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


class Distances(Texts):
    """Tells how far nodes are, as LlamaIndex's store over FAISS does."""

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        found = super().query(query, **kwargs)
        far = [1.0 - score for score in found.similarities or ()]
        return VectorStoreQueryResult(nodes=found.nodes, similarities=far, ids=found.ids)


def views_in(nodes: Sequence[BaseNode]) -> list[IndexNode]:
    return [node for node in nodes if isinstance(node, IndexNode)]


class LlamaIndexViews(LlamaIndex):
    """Views in an index, and their parents in its docstore."""

    content_ids: Any = staticmethod(li.with_content_ids)
    store = "VectorStoreIndex"
    noting = 3  # calls by which a record is written
    _stores = {"plain": SimpleVectorStore, "refusing": Refusing, "deaf": Deaf, "distant": Distances}  # noqa: RUF012

    def views(self, maker: Any, parents: Sequence[Any]) -> list[MadeView]:
        made = views_in(maker(list(parents)))
        return [MadeView(each.node_id, each.index_id, each.metadata["view"], each.text) for each in made]

    def over(self, maker: Any, parents: Sequence[Any], store: str = "plain", **options: Any) -> Any:
        """Return a retriever of views in an index that holds them."""
        index = index_of(views_in(maker(list(parents))), self._stores[store](), self._embed_model())
        own = {"views": maker.kinds, "parents": {node.node_id: node for node in parents}}
        return self.make("CatenaMultiViewRetriever", index, **{**own, **options})

    def _embed_model(self, embedder: Any = None) -> Any:
        return li.CatenaEmbedding(embedder or FakeEmbedder(dim=48))

    def beside(self, index: Any, retriever: Any, **options: Any) -> Any:
        """Return a retriever of views by this one, and by one over the views of an index."""
        both = {"headed": retriever, "raw": index.index.as_retriever(similarity_top_k=3)}
        return self.make("CatenaMultiViewRetriever", both, parents=index.index.docstore, **options)

    def lose(self, retriever: Any, parent: str) -> None:
        del retriever.parents[parent]

    def index(self, maker: Any, embedder: Any = None) -> Any:
        return li.CatenaViewIndex(index_of(embed_model=self._embed_model(embedder)), maker)

    def again(self, index: Any, maker: Any) -> Any:
        """Return an index of other views over the same stores."""
        return li.CatenaViewIndex(index.index, maker)

    def breaking(self, maker: Any) -> tuple[Any, Fuse]:
        """Return an index over stores that fail when the fuse says so."""
        index, fuse = self.index(maker, FakeEmbedder()), Fuse()
        kept = index.index.docstore._kvstore  # beneath all that a docstore does
        for store, names in ((index.index.vector_store, ("add", "delete_nodes")), (kept, ("put", "delete"))):
            for name in names:
                object.__setattr__(store, name, _breaking(getattr(store, name), fuse))
        return index, fuse

    def parent_texts(self, index: Any) -> list[str]:
        nodes = index.index.docstore.docs.values()
        kept = (node for node in nodes if not isinstance(node, IndexNode) and not node.node_id.startswith(LEDGER))
        return sorted(node.get_content() for node in kept)

    def held(self, index: Any) -> Any:
        """Return all that stands anywhere: in the vector store, in the index, in the docstore.

        LlamaIndex's docstore in memory names a node in its document's info before it writes it: one that was never
        written stays named there, and is left out here.
        """
        store, docstore = index.index.vector_store, index.index.docstore
        infos = docstore.get_all_ref_doc_info() or {}
        named = {name: sorted({*info.node_ids} & docstore.docs.keys()) for name, info in sorted(infos.items())}
        return (
            dict(sorted(store.data.embedding_dict.items())),
            sorted(index.index.index_struct.nodes_dict.items()),
            {name: node.to_dict() for name, node in sorted(docstore.docs.items())},
            {name: held for name, held in named.items() if held},
        )

    def sound(self, index: Any) -> bool:
        """Return whether every view stands in a record: what comes is noted before it is written."""
        nodes = index.index.docstore.docs.values()
        records = [json.loads(node.get_content()) for node in nodes if node.node_id.startswith(LEDGER)]
        noted = {view for record in records for view in record["views"]}
        return set(index.index.vector_store.data.embedding_dict) <= noted

    def spoil(self, index: Any, source: str) -> None:
        """Write something else where the record of a document stands."""
        index.index.docstore.add_documents([TextNode(id_=record_key(LEDGER, source), text="no record")])


def _breaking(method: Callable[..., Any], fuse: Fuse) -> Callable[..., Any]:
    def call(given: Any, *args: Any, **kwargs: Any) -> Any:
        items = fuse.half(given if isinstance(given, list) else [given])
        done = method(items if isinstance(given, list) else given, *args, **kwargs) if items else None
        fuse.blow()
        return done

    return call

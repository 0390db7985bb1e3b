"""Make views of documents as documents of their own, for any vector store: each leads to its parent."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseLanguageModel

from catena import ParameterError, Services, model
from catena.effects import Step, all_together
from catena.enrichment import Held, OwnView, ParentViews, ViewMaker, divided_views, numbered_views, views_of_parents
from catena.model import TITLE, digest
from catena.structure import PASSAGE_TOKENS
from langchain_catena.base import CatenaBaseTransformer
from langchain_catena.convert import scalars
from langchain_catena.ids import FILTERS, chunk_of, source_name
from langchain_catena.services import LangChainLLM, services_with

VIEW = "view"
"""Metadata key of a view's kind."""

PARENT_ID = "doc_id"
"""Metadata key by which a view leads to its parent; the one of LangChain's `MultiVectorRetriever`."""

_log = logging.getLogger(__name__)


class CatenaViewTransformer(CatenaBaseTransformer):
    """Makes, out of documents, the views under which a vector store finds them: passages, keywords, summaries.

        sections = CatenaDocumentTransformer(chunks=SectionChunkOptions()).split_documents(documents)
        views = CatenaViewTransformer(llm=model)
        retriever = MultiVectorRetriever(vectorstore=store, docstore=InMemoryStore())
        retriever.vectorstore.add_documents(views.transform_documents(sections))
        retriever.docstore.mset(views.parents(sections))

    A view's `page_content` is its text; its metadata are flat: `doc_id` (the parent's id), `view` (the kind), and
    what `metadata_keys` names of the parent's. Its id is derived from parent, kind, number, text and the two keys, so
    that an equal view replaces itself. `CatenaMultiViewRetriever` ranks parents by their views, and `CatenaViewIndex`
    keeps the stores in step with changed documents.

    Parents are sections as above, or any documents; those of one `source` are read together, in the order given. What
    a model fails at costs that view, and is told in the log.

    Args:
        views: "raw", "headed" and "passage" (see `OwnView`), and makers of others: `Keywords()`, `Summaries()`,
            `Questions()`, or your own. By default passages, keywords and summaries, these two by `llm` where one is
            given and else offline.
        llm: any chat model or LLM.
        embeddings: for offline summaries; by default the shipped ones.
        services: journal, budget and limits of the models' calls; what is given above goes before its models.
        passage_tokens: of a passage at most, its titles not counted, >= 1.
        id_key: metadata key of the parent's id.
        view_key: metadata key of the kind.
        metadata_keys: of the parent's metadata that views repeat, where flat.
        source_key: metadata key of whose a parent is; "source", or else "document_id", where None.

    Raises:
        ParameterError: an option is out of range, or no model is given where one is asked.
    """

    def __init__(
        self,
        views: Sequence[ViewMaker | OwnView] | None = None,
        *,
        llm: BaseLanguageModel[Any] | None = None,
        embeddings: Embeddings | None = None,
        services: Services | None = None,
        passage_tokens: int = PASSAGE_TOKENS,
        id_key: str = PARENT_ID,
        view_key: str = VIEW,
        metadata_keys: Sequence[str] = FILTERS,
        source_key: str | None = None,
    ) -> None:
        self.llm, self.embeddings, self._given = llm, embeddings, services
        has_model = llm is not None or (services is not None and services.llm is not None)
        self.own, self.makers = divided_views(views, "llm" if has_model else "offline")
        if type(passage_tokens) is not int or passage_tokens < 1:
            raise ParameterError("passage_tokens", passage_tokens, "a whole number >= 1")
        if isinstance(metadata_keys, str):
            raise ParameterError("metadata_keys", metadata_keys, f"a sequence of keys, e.g. [{metadata_keys!r}]")
        if id_key == view_key:
            raise ParameterError("view_key", view_key, f"another key than id_key ({id_key!r})")
        self.passage_tokens, self.id_key, self.view_key = passage_tokens, id_key, view_key
        self.metadata_keys, self.source_key = tuple(metadata_keys), source_key
        if any(maker.asks_model for maker in self.makers) and not has_model:
            raise ParameterError("llm", None, "a chat model or LLM: a maker of views asks it")

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of view that are made, in order."""
        return tuple(dict.fromkeys((*self.own, *(maker.kind for maker in self.makers))))

    @cached_property
    def services(self) -> Services:
        """The services that answer the makers."""
        computes = any(not maker.asks_model for maker in self.makers)
        return services_with(self._given, llm=self.llm, embeddings=self.embeddings, or_static=computes)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is made at need: processes make their own."""
        return {name: value for name, value in self.__dict__.items() if name != "services"}

    @property
    def version(self) -> str:
        """All that decides which views are made of given parents: makers, their versions, the model."""
        makers = [(maker.kind, maker.version) for maker in self.makers]
        keys = (self.id_key, self.view_key, self.metadata_keys)
        return digest(repr((self.own, makers, self._model, self.passage_tokens, keys)), length=32)

    def parents(self, documents: Sequence[Document]) -> list[tuple[str, Document]]:
        """Return the pairs for a docstore's `mset`: each document under the id that its views name."""
        named = ((chunk_of(each, self._source(each)).id, each) for each in documents)
        return [(name, document.model_copy(update={"id": name})) for name, document in named]

    def made(self, source: str, parents: Sequence[Document], held: Held | None = None) -> Step[ParentViews[Document]]:
        """Make the views of the parents of one source, as a step of the core.

        Args:
            source: the name of the file or text.
            parents: all of its parents, in reading order.
            held: views of an older version by `View.made`: a model is not asked for those again.
        """
        given: dict[str, Document] = {}
        chunks: list[model.Chunk] = []
        for document in parents:
            chunk = chunk_of(document, source)
            if chunk.id not in given:
                chunks.append(chunk)
            elif given[chunk.id].page_content != document.page_content:
                raise ParameterError("ids of the documents", chunk.id, "all different")
            given.setdefault(chunk.id, document)
        title = next((str(chunk.metadata[TITLE]) for chunk in chunks if chunk.metadata.get(TITLE)), "")
        whole = model.Document(id=source, text="", title=title)
        own, makers, tokens = self.own, self.makers, self.passage_tokens
        entry, degraded = yield from views_of_parents(
            whole, chunks, own, makers, passage_tokens=tokens, model=self._model, held=held
        )
        views: dict[str, list[Document]] = {name: [] for name in given}
        for view, number in numbered_views(entry):
            views[view.chunk_id].append(self._view(view, number, given[view.chunk_id]))
        by_parent = {name: tuple(documents) for name, documents in views.items()}
        return ParentViews(entry=entry, views=by_parent, degraded=degraded)

    @property
    def _model(self) -> str:
        if self.llm is not None:
            return LangChainLLM(self.llm).identity
        return "" if self._given is None or self._given.llm is None else self._given.llm.identity

    def _view(self, view: model.View, number: int, parent: Document) -> Document:
        metadata = {
            **{key: value for key, value in scalars(parent.metadata).items() if key in self.metadata_keys},
            self.id_key: view.chunk_id,
            self.view_key: view.kind,
        }
        keys = (self.id_key, self.view_key)  # under other keys it is another document
        own = digest("view", *keys, view.chunk_id, view.kind, str(number), view.text, length=32)
        return Document(id=own, page_content=view.text, metadata=metadata)

    def _asks(self) -> bool:
        return any(maker.asks_model for maker in self.makers)

    def _services(self) -> Services:
        return self.services

    def _step(self, given: Sequence[Document]) -> Step[list[ParentViews[Document]]]:
        """Make the views of all sources side by side."""
        sources: dict[str, list[Document]] = defaultdict(list)
        for document in given:
            sources[self._source(document)].append(document)
        return all_together([self.made(source, parents) for source, parents in sources.items()])

    def _transformed(self, given: Sequence[Document], found: Sequence[ParentViews[Document]]) -> list[Document]:
        """Return the views in the order of their parents, and write what is missing to the log."""
        tell(found)
        views = {name: documents for each in found for name, documents in each.views.items()}
        names = dict.fromkeys(name for name, _ in self.parents(given))
        return [view for name in names for view in views[name]]

    def _source(self, document: Document) -> str:
        return source_name(document, self.source_key)


def tell(made: Iterable[ParentViews[Document]]) -> None:
    """Write to the log which views could not be made."""
    for each in made:
        for part in each.degraded:
            _log.warning("%s: %s: %s", each.entry.document.id, part.what, part.why)

"""Views of documents as documents of their own: what a user's vector store is given, each leading to its parent."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseLanguageModel

from catena import model
from catena.effects import Failed, Services, Step, arun, run, together
from catena.enrichment import Held, with_views
from catena.enrichment.views import Keywords, Summaries, ViewMaker
from catena.model import TITLE, ParameterError, digest
from catena.structure import PASSAGE, PASSAGE_TOKENS, headed_views
from catena.structure.passages import passage_views
from langchain_catena.base import CatenaBaseTransformer
from langchain_catena.content_ids import FILTERS, chunk_of, source_name
from langchain_catena.convert import scalars
from langchain_catena.services import LangChainEmbedder, LangChainLLM

VIEW = "view"
"""Metadata key of a view's kind."""

PARENT_ID = "doc_id"
"""Metadata key by which a view leads to its parent; the one of LangChain's `MultiVectorRetriever`."""

OwnView: TypeAlias = Literal["raw", "headed", "passage"]
"""What a parent itself says: its exact text, this under its titles, or slices of it that any encoder reads whole."""

_OWN: tuple[OwnView, ...] = ("raw", "headed", "passage")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentViews:
    """The parents of one source with all their views.

    Attributes:
        entry: chunks under the parents' ids, in reading order; views in the order of the makers.
        views: parent's id -> its views as documents.
        degraded: what a model was asked for and did not give.
    """

    entry: model.Entry
    views: Mapping[str, tuple[Document, ...]]
    degraded: tuple[model.Degraded, ...] = ()


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
        self.own, self.makers = _divided(views, "llm" if has_model else "offline")
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
        """Who answers the makers."""
        services = self._given or Services()
        if self.llm is not None:
            services = replace(services, llm=LangChainLLM(self.llm))
        if self.embeddings is not None:
            return replace(services, embedder=LangChainEmbedder(self.embeddings))
        if services.embedder is None and any(not maker.asks_model for maker in self.makers):
            from catena.enrichment import StaticEmbedder

            return replace(services, embedder=StaticEmbedder())
        return services

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is made at need: processes make their own."""
        return {name: value for name, value in self.__dict__.items() if name != "services"}

    @property
    def version(self) -> str:
        """All that decides which views are made of given parents: makers, their versions, the model."""
        makers = [(maker.kind, maker.version) for maker in self.makers]
        keys = (self.id_key, self.view_key, self.metadata_keys)
        return digest(repr((self.own, makers, self._model, self.passage_tokens, keys)), length=32)

    def transform_documents(self, documents: Sequence[Document], **kwargs: Any) -> list[Document]:
        documents = list(documents)  # read more than once
        return self._told(documents, run(self._step(documents), self.services))

    async def atransform_documents(self, documents: Sequence[Document], **kwargs: Any) -> list[Document]:
        documents = list(documents)  # read more than once
        if not any(maker.asks_model for maker in self.makers):
            return await asyncio.to_thread(self.transform_documents, documents)  # all is computing
        services = await asyncio.to_thread(lambda: self.services)  # reads the shipped vectors
        return self._told(documents, await arun(self._step(documents), services))

    def parents(self, documents: Sequence[Document]) -> list[tuple[str, Document]]:
        """Return what a docstore is to hold of the documents, for `mset`: each under the id that its views name."""
        named = ((chunk_of(each, self._source(each)).id, each) for each in documents)
        return [(name, document.model_copy(update={"id": name})) for name, document in named]

    def made(self, source: str, parents: Sequence[Document], held: Held | None = None) -> Step[ParentViews]:
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
        views = tuple(view for kind in self.own for view in self._own_views(kind, whole, chunks))
        entry = model.Entry(document=whole, sections=(), chunks=tuple(chunks), views=views)
        entry, degraded = yield from with_views(entry, self.makers, model=self._model, held=held)
        return ParentViews(entry=entry, views=self._documents(entry, given), degraded=degraded)

    @property
    def _model(self) -> str:
        if self.llm is not None:
            return LangChainLLM(self.llm).identity
        return "" if self._given is None or self._given.llm is None else self._given.llm.identity

    def _own_views(self, kind: str, document: model.Document, chunks: Sequence[model.Chunk]) -> Iterable[model.View]:
        if kind == PASSAGE:
            return passage_views(document, chunks, max_tokens=self.passage_tokens)
        if kind == "headed":
            return headed_views(document, chunks)
        return (model.View(chunk_id=chunk.id, kind=kind, text=chunk.text) for chunk in chunks)

    def _documents(self, entry: model.Entry, parents: Mapping[str, Document]) -> dict[str, tuple[Document, ...]]:
        made: dict[str, list[Document]] = {name: [] for name in parents}
        numbers: Counter[tuple[str, str]] = Counter()
        for view in entry.views:
            if not view.text.strip():
                continue
            number, name = numbers[view.chunk_id, view.kind], view.chunk_id
            numbers[name, view.kind] += 1
            metadata = {
                **{key: value for key, value in scalars(parents[name].metadata).items() if key in self.metadata_keys},
                self.id_key: name,
                self.view_key: view.kind,
            }
            keys = (self.id_key, self.view_key)  # under other keys it is another document
            own = digest("view", *keys, name, view.kind, str(number), view.text, length=32)
            made[name].append(Document(id=own, page_content=view.text, metadata=metadata))
        return {name: tuple(documents) for name, documents in made.items()}

    def _step(self, documents: Sequence[Document]) -> Step[list[ParentViews]]:
        """Make the views of all sources side by side."""
        sources: dict[str, list[Document]] = defaultdict(list)
        for document in documents:
            sources[self._source(document)].append(document)
        results = yield from together([self.made(source, parents) for source, parents in sources.items()])
        for result in results:
            if isinstance(result, Failed):
                raise result.error
        return [result for result in results if isinstance(result, ParentViews)]

    def _told(self, documents: Sequence[Document], made: Sequence[ParentViews]) -> list[Document]:
        """Return the views in the order of their parents, and write what is missing to the log."""
        tell(made)
        views = {name: found for each in made for name, found in each.views.items()}
        names = dict.fromkeys(name for name, _ in self.parents(documents))
        return [view for name in names for view in views[name]]

    def _source(self, document: Document) -> str:
        return source_name(document, self.source_key)


def tell(made: Iterable[ParentViews]) -> None:
    """Write to the log which views could not be made."""
    for each in made:
        for part in each.degraded:
            _log.warning("%s: %s: %s", each.entry.document.id, part.what, part.why)


def _divided(
    views: Sequence[ViewMaker | OwnView] | None, by: Literal["llm", "offline"]
) -> tuple[tuple[OwnView, ...], tuple[ViewMaker, ...]]:
    """Return what a parent itself says, and the makers of all else."""
    if isinstance(views, str) or (views is not None and (not isinstance(views, Sequence) or not views)):
        raise ParameterError("views", views, "a sequence of at least one view")
    given = (PASSAGE, Keywords(by=by), Summaries(by=by)) if views is None else views
    own = tuple(dict.fromkeys(kind for kind in _OWN for view in given if view == kind))
    makers = tuple(view for view in given if isinstance(view, ViewMaker))
    for view in given:
        if view not in own and not (isinstance(view, ViewMaker) and not isinstance(view, type)):
            raise ParameterError("views", view, "'raw', 'headed', 'passage' or a maker such as Keywords()")
    return own, makers

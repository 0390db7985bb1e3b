"""Views of nodes as nodes of their own: what an index is given, each leading to its parent."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field, SerializeAsAny, field_serializer
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.llms import LLM
from llama_index.core.schema import BaseNode, IndexNode, TransformComponent

from catena import model
from catena.effects import Failed, Services, Step, arun, run, together
from catena.enrichment import Held, with_views
from catena.enrichment.views import ViewMaker
from catena.model import ParameterError, digest
from catena.structure import PASSAGE, PASSAGE_TOKENS, headed_views, raw_views
from catena.structure.passages import passage_views
from llama_index_catena.arguments import checked_arguments
from llama_index_catena.components import Component
from llama_index_catena.convert import to_chunk
from llama_index_catena.documents import text_of
from llama_index_catena.segment_nodes import POSITION
from llama_index_catena.services import LlamaIndexLLM, ajournalled, journalled, model_services
from llama_index_catena.view_kinds import OwnView, revived_views, written_view
from llama_index_catena.view_nodes import FILTERS, VIEW, document_of, title_of, view_node

SCHEMA_VERSION = 1  # grows when equal nodes and parameters give other views

dispatcher = get_dispatcher(__name__)
_log = logging.getLogger(__name__)


class ViewsDegradedEvent(BaseEvent):
    """A view was asked of a model and not given: `what` names it, `why` says what happened."""

    what: str
    why: str

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the event."""
        return "ViewsDegradedEvent"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentViews:
    """The parents of one document with all their views.

    Attributes:
        entry: chunks under the parents' ids, in reading order; views in the order of the makers.
        views: parent's id -> its views as nodes.
        degraded: what a model was asked for and did not give.
    """

    entry: model.Entry
    views: Mapping[str, tuple[IndexNode, ...]]
    degraded: tuple[model.Degraded, ...] = ()


class CatenaViewExtractor(Component, TransformComponent):
    """Adds to nodes the views under which an index finds them: passages, keywords, summaries.

        parser = CatenaNodeParser(chunks=SectionChunkOptions())
        nodes = IngestionPipeline(transformations=[parser, CatenaViewExtractor(llm=llm)]).run(documents=documents)

    A view is an `IndexNode` with its text, embedded as it is; `index_id` and PARENT name the parent, SOURCE the whole
    document, `metadata["view"]` the kind. `CatenaMultiViewRetriever` ranks parents by their views; LlamaIndex's own
    `RecursiveRetriever` and `VectorStoreIndex(objects=…)` follow them, too.

    Parents are sections as above, or nodes of any parser; those of one document are read together, in order of their
    `position` where they have one. They stay as they are. Views among the nodes given are returned as they are.

    In an `IngestionPipeline` with docstore and vector store, the strategy UPSERTS deletes all that was made of a
    document that changed, by the document's id, which every view names, and leaves no view of the older version.
    Then it makes and embeds all of it anew; until that has worked, the document is not found. `CatenaViewIndex`
    writes only what changed, and new before old. The pipeline's docstore holds documents, not nodes: with a pipeline
    keep the parents that it returns, or take `parents="inside"`.

    Args:
        views: "raw", "headed" and "passage" (see `OwnView`), and makers of others: `Keywords()`, `Summaries()`,
            `Questions()`, or your own. By default passages, keywords and summaries, these two by `llm` where one is
            given and else offline. With `from_dict`, makers of your own are given again.
        llm: any LlamaIndex language model; with `from_dict` given again.
        embed_model: for makers of your own that ask for vectors.
        parents: "beside" returns the nodes given, and behind them their views; "inside" returns views alone, each of
            which carries its parent as `obj`: LlamaIndex's own retrievers then return parents without a docstore, and
            each parent is stored as often as it has views.
        passage_tokens: of a passage at most, its titles not counted, >= 1.
        metadata_keys: of the parent's metadata that views repeat, where flat.
        num_workers: calls of the model that are in flight at once.
        journal: the file in which the model's replies are kept.

    Raises:
        ParameterError: an option is out of range, or no model is given where one is asked.
    """

    views: Any = Field(description="Which views are made, by whom.")  # a tuple of kinds and makers
    llm: SerializeAsAny[LLM] | None = Field(default=None, description="Who writes views.")
    embed_model: SerializeAsAny[BaseEmbedding] | None = Field(default=None, description="Who gives vectors.")
    parents: Literal["beside", "inside"] = Field(default="beside", description="Where the parents go.")
    passage_tokens: int = Field(default=PASSAGE_TOKENS, description="Tokens of a passage, at most.")
    metadata_keys: tuple[str, ...] = Field(default=FILTERS, description="Metadata that views repeat.")
    num_workers: int = Field(default=4, exclude=True, description="Calls in flight at once.")
    journal: str | None = Field(default=None, exclude=True, description="The file in which replies are kept.")
    version: str = Field(default="", description="Of makers, prompts and model; part of cache keys.")
    schema_version: int = Field(default=SCHEMA_VERSION, description="Version of the views; part of cache keys.")

    @checked_arguments
    def __init__(
        self,
        views: Sequence[ViewMaker | OwnView] | None = None,
        *,
        llm: LLM | None = None,
        embed_model: BaseEmbedding | None = None,
        parents: Literal["beside", "inside"] = "beside",
        passage_tokens: int = PASSAGE_TOKENS,
        metadata_keys: Sequence[str] = FILTERS,
        num_workers: int = 4,
        journal: str | None = None,
        **fields: Any,
    ) -> None:
        made = revived_views(views, "offline" if llm is None else "llm")
        if llm is None and any(maker.asks_model for maker in _makers(made)):
            raise ParameterError("llm", None, "given: a maker of views asks it; after from_dict, given again")
        if type(passage_tokens) is not int or passage_tokens < 1:
            raise ParameterError("passage_tokens", passage_tokens, "a whole number >= 1")
        if isinstance(metadata_keys, str):
            raise ParameterError("metadata_keys", metadata_keys, f"a sequence of keys, e.g. [{metadata_keys!r}]")
        if parents not in ("beside", "inside"):
            raise ParameterError("parents", parents, "'beside' or 'inside'")
        keys = tuple(metadata_keys)
        own = {"views": made, "llm": llm, "embed_model": embed_model, "parents": parents, "metadata_keys": keys}
        limits = {"passage_tokens": passage_tokens, "num_workers": num_workers, "journal": journal}
        versions = {"version": _version(made, llm, passage_tokens, keys), "schema_version": SCHEMA_VERSION}
        super().__init__(**{**fields, **own, **limits, **versions})

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which the extractor is serialised."""
        return "CatenaViewExtractor"

    @field_serializer("views")
    def _written(self, views: Any) -> list[Any]:
        return [written_view(view) for view in views]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of view that are made, in order."""
        return tuple(dict.fromkeys((*self._own, *(maker.kind for maker in _makers(self.views)))))

    @property
    def services(self) -> Services:
        """Who answers the makers."""
        return model_services(self.llm, self.embed_model, max_concurrency=self.num_workers)

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """Return the nodes and their views, or the views alone."""
        with journalled(self.services, self.journal) as services:
            return self._told(nodes, run(self._step(nodes), services))

    @dispatcher.span
    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """As calling it, without blocking the event loop."""
        if not any(maker.asks_model for maker in _makers(self.views)):
            return await asyncio.to_thread(self, nodes)  # all is computing
        async with ajournalled(self.services, self.journal) as services:
            return self._told(nodes, await arun(self._step(nodes), services))

    def made(self, document_id: str, parents: Sequence[BaseNode], held: Held | None = None) -> Step[ParentViews]:
        """Make the views of the parents of one document, as a step of the core.

        Args:
            document_id: of the whole document.
            parents: all of its parents, none of them a view.
            held: views of an older version by `View.made`: a model is not asked for those again.

        Raises:
            ParameterError: two parents of unlike texts have one id.
        """
        given: dict[str, BaseNode] = {}
        for node in parents:
            if text_of(given.setdefault(node.node_id, node)) != text_of(node):
                raise ParameterError("ids of the nodes", node.node_id, "all different")
        chunks = [to_chunk(node) for node in given.values()]
        if all(isinstance(node.metadata.get(POSITION), int) for node in parents):
            chunks.sort(key=lambda chunk: chunk.position)
        whole = model.Document(id=document_id, text="", title=title_of(given.values()))
        views = tuple(view for kind in self._own for view in self._own_views(kind, whole, chunks))
        entry = model.Entry(document=whole, sections=(), chunks=tuple(chunks), views=views)
        asked = LlamaIndexLLM(self.llm).identity if self.llm is not None else ""
        entry, degraded = yield from with_views(entry, _makers(self.views), model=asked, held=held)
        return ParentViews(entry=entry, views=self._nodes(entry, given), degraded=degraded)

    @property
    def _own(self) -> tuple[OwnView, ...]:
        return tuple(view for view in self.views if isinstance(view, str))  # type: ignore[misc]

    def _own_views(
        self, kind: OwnView, document: model.Document, chunks: Sequence[model.Chunk]
    ) -> Iterable[model.View]:
        if kind == PASSAGE:
            return passage_views(document, chunks, max_tokens=self.passage_tokens)
        return headed_views(document, chunks) if kind == "headed" else raw_views(chunks)

    def _nodes(self, entry: model.Entry, parents: Mapping[str, BaseNode]) -> dict[str, tuple[IndexNode, ...]]:
        made: dict[str, list[IndexNode]] = {name: [] for name in parents}
        numbers: Counter[tuple[str, str]] = Counter()
        for view in entry.views:
            if view.text.strip():
                number, name = numbers[view.chunk_id, view.kind], view.chunk_id
                numbers[name, view.kind] += 1
                keys, inside = self.metadata_keys, self.parents == "inside"
                made[name].append(view_node(parents[name], view, number, metadata_keys=keys, inside=inside))
        return {name: tuple(nodes) for name, nodes in made.items()}

    def _step(self, nodes: Sequence[BaseNode]) -> Step[list[ParentViews]]:
        """Make the views of all documents side by side."""
        documents: dict[str, list[BaseNode]] = defaultdict(list)
        for node in nodes:
            if VIEW not in node.metadata:
                documents[document_of(node)].append(node)
        results = yield from together([self.made(name, parents) for name, parents in documents.items()])
        for result in results:
            if isinstance(result, Failed):
                raise result.error
        return [result for result in results if isinstance(result, ParentViews)]

    def _told(self, nodes: Sequence[BaseNode], made: Sequence[ParentViews]) -> list[BaseNode]:
        """Return the nodes with the views in the order of their parents, and tell what is missing."""
        tell(made)
        views = {name: found for each in made for name, found in each.views.items()}
        parents = [node for node in nodes if VIEW not in node.metadata]
        kept = [node for node in nodes if self.parents == "beside" or VIEW in node.metadata]
        return [*kept, *(view for name in dict.fromkeys(node.node_id for node in parents) for view in views[name])]


def tell(made: Iterable[ParentViews]) -> None:
    """Write to the log, and tell as events, which views could not be made."""
    for each in made:
        for part in each.degraded:
            _log.warning("%s: %s: %s", each.entry.document.id, part.what, part.why)
            dispatcher.event(ViewsDegradedEvent(what=part.what, why=part.why))


def _makers(views: Iterable[Any]) -> tuple[ViewMaker, ...]:
    return tuple(view for view in views if not isinstance(view, str))


def _version(views: Sequence[Any], llm: LLM | None, passage_tokens: int, metadata_keys: Sequence[str]) -> str:
    """Return the hash of all that decides which views are made of given parents."""
    makers = [view if isinstance(view, str) else (view.kind, view.version) for view in views]
    asked = "" if llm is None else LlamaIndexLLM(llm).identity
    return digest(repr((SCHEMA_VERSION, makers, asked, passage_tokens, tuple(metadata_keys))), length=32)

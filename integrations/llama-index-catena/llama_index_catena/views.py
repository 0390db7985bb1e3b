"""Make views of nodes as nodes of their own, which an index is given: each leads to its parent."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any, Literal

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field, SerializeAsAny, field_serializer
from llama_index.core.llms import LLM
from llama_index.core.schema import BaseNode, IndexNode, NodeRelationship, ObjectType, RelatedNodeInfo

from catena import ParameterError, Services, model
from catena.effects import Step, all_together
from catena.enrichment import (
    Held,
    Keywords,
    OwnView,
    ParentViews,
    Questions,
    Summaries,
    ViewMaker,
    divided_views,
    views_of_parents,
)
from catena.model import SOURCE, TABLE_HEADER, TITLE, digest
from catena.structure import PASSAGE_TOKENS
from llama_index_catena.components import DegradedEvent, TransformOfStep, checked_arguments, tell_degraded
from llama_index_catena.convert import joined_keys, renamed, to_chunk
from llama_index_catena.documents import document_of, scalars, text_of, title_of
from llama_index_catena.segment_nodes import POSITION
from llama_index_catena.services import LlamaIndexLLM, model_services

VIEW = "view"
"""Metadata key of a view's kind."""

FILTERS = (TITLE, SOURCE, "file_name", "file_path")
"""Metadata that views repeat of their parents, for the filters of vector stores; these add the document's id."""

_KNOWN: dict[Any, type[Any]] = {kind.__name__: kind for kind in (Keywords, Summaries, Questions)}

SCHEMA_VERSION = 1  # grows when equal nodes and parameters give other views


class ViewsDegradedEvent(DegradedEvent):
    """A view was asked of a model and not given: `what` names it, `why` says what happened."""


class CatenaViewExtractor(TransformOfStep):
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
        written = isinstance(views, Sequence) and not isinstance(views, str)
        given: Any = [_revived(view) for view in views or ()] if written else views
        own_views, makers = divided_views(given, "offline" if llm is None else "llm")
        made = (*own_views, *makers)
        if llm is None and any(maker.asks_model for maker in makers):
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

    @field_serializer("views")
    def _written(self, views: Any) -> list[Any]:
        return [written_view(view) for view in views]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of view that are made, in order."""
        return tuple(dict.fromkeys((*self._own, *(maker.kind for maker in self._makers))))

    @property
    def services(self) -> Services:
        """The models that answer the makers."""
        return model_services(self.llm, self.embed_model, max_concurrency=self.num_workers)

    def _services(self) -> Services:
        return self.services

    @property
    def _asks(self) -> bool:
        return any(maker.asks_model for maker in self._makers)

    def made(
        self, document_id: str, parents: Sequence[BaseNode], held: Held | None = None
    ) -> Step[ParentViews[IndexNode]]:
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
        asked = LlamaIndexLLM(self.llm).identity if self.llm is not None else ""
        keys, inside, tokens = self.metadata_keys, self.parents == "inside", self.passage_tokens

        def view_of(view: model.View, number: int) -> IndexNode:
            return view_node(given[view.chunk_id], view, number, metadata_keys=keys, inside=inside)

        return views_of_parents(
            whole, chunks, self._own, self._makers, view_of, passage_tokens=tokens, model=asked, held=held
        )

    @property
    def _own(self) -> tuple[OwnView, ...]:
        return tuple(view for view in self.views if isinstance(view, str))  # type: ignore[misc]

    @property
    def _makers(self) -> tuple[ViewMaker, ...]:
        return tuple(view for view in self.views if not isinstance(view, str))

    def _step(self, nodes: Sequence[BaseNode]) -> Step[list[ParentViews[IndexNode]]]:
        """Make the views of all documents side by side."""
        documents: dict[str, list[BaseNode]] = defaultdict(list)
        for node in nodes:
            if VIEW not in node.metadata:
                documents[document_of(node)].append(node)
        return (yield from all_together([self.made(name, parents) for name, parents in documents.items()]))

    def _made(self, nodes: Sequence[BaseNode], made: Sequence[ParentViews[IndexNode]]) -> list[BaseNode]:
        """Return the nodes with the views in the order of their parents, and tell what is missing."""
        for each in made:
            tell_degraded(each.degraded, ViewsDegradedEvent, of=each.entry.document.id)
        views = {name: found for each in made for name, found in each.views.items()}
        parents = [node for node in nodes if VIEW not in node.metadata]
        kept = [node for node in nodes if self.parents == "beside" or VIEW in node.metadata]
        return [*kept, *(view for name in dict.fromkeys(node.node_id for node in parents) for view in views[name])]


def _version(views: Sequence[Any], llm: LLM | None, passage_tokens: int, metadata_keys: Sequence[str]) -> str:
    """Return the hash of all that decides which views are made of given parents."""
    makers = [view if isinstance(view, str) else (view.kind, view.version) for view in views]
    asked = "" if llm is None else LlamaIndexLLM(llm).identity
    return digest(repr((SCHEMA_VERSION, makers, asked, passage_tokens, tuple(metadata_keys))), length=32)


def written_view(view: Any) -> Any:
    """Return a view as plain data: its name, or its maker with its options; a maker of one's own as what it makes."""
    if isinstance(view, str):
        return view
    name = type(view).__name__
    if type(view) is _KNOWN.get(name):
        return {"maker": name, **asdict(view)}
    known_by = repr(view) if is_dataclass(view) else type(view).__qualname__
    return {"maker": known_by, "kind": view.kind, "version": view.version}


def _revived(view: Any) -> Any:
    """Return a view from its written form; one that is not written as it is.

    Raises:
        ParameterError: it was a maker of one's own.
    """
    if not isinstance(view, dict):
        return view
    if view.get("maker") not in _KNOWN:
        raise ParameterError("views", view.get("maker"), "given again: a maker of your own is not written down")
    return _KNOWN[view["maker"]](**{key: value for key, value in view.items() if key != "maker"})


def view_node(
    parent: BaseNode, view: model.View, number: int, *, metadata_keys: Sequence[str] = FILTERS, inside: bool = False
) -> IndexNode:
    """Return a view as a node that leads to its parent: by `index_id` and PARENT, and with it to the whole document.

    Embeddings are given the view's text alone. The id is made of parent, kind, number and text: an equal view
    replaces itself. Of parent and document only the ids are noted, so that a view stays equal while these move.

    Args:
        parent: the node that is found by the view.
        view: its kind and text.
        number: among the parent's views of this kind, from 0.
        metadata_keys: of the parent's metadata that the view repeats, where flat.
        inside: whether the view carries its parent as `obj`.
    """
    known = {key: value for key, value in scalars(parent.metadata, without=()).items() if key in metadata_keys}
    metadata = {**known, VIEW: view.kind}
    unread = [key for key in parent.excluded_llm_metadata_keys if key in known]
    return IndexNode(
        id_=digest("view", parent.node_id, view.kind, str(number), view.text, length=32),
        index_id=parent.node_id,
        obj=parent if inside else None,
        text=view.text,
        extra_info=metadata,
        excluded_embed_metadata_keys=list(metadata),
        excluded_llm_metadata_keys=joined_keys(unread, [VIEW]),
        relationships={
            NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document_of(parent), node_type=ObjectType.DOCUMENT),
            NodeRelationship.PARENT: RelatedNodeInfo(node_id=parent.node_id, node_type=parent.get_type()),
        },
    )


def parent_of(node: BaseNode) -> str | None:
    """Return the id of the node that a found one leads to; None for one that leads nowhere.

    Stores that give a view back as a plain node keep its metadata and relationships.
    """
    if isinstance(node, IndexNode):
        return node.index_id
    return node.parent_node.node_id if VIEW in node.metadata and node.parent_node is not None else None


def with_content_ids(nodes: Iterable[BaseNode], *, metadata_keys: Sequence[str] = FILTERS) -> list[BaseNode]:
    """Return parents under ids that say what they are, and not where: an edit elsewhere leaves them as they are.

    Nodes of Catena are named by their offsets, so that a line added to the first section renames all others. For
    views in a vector store, where a new name means a new embedding, name parents by document, titles and text:

        parser = CatenaNodeParser(chunks=SectionChunkOptions())
        sections = with_content_ids(parser.get_nodes_from_documents(documents))

    Args:
        nodes: all parents of each whole document, in reading order; one that names no document keeps its id.
        metadata_keys: of metadata that views repeat: another value is another parent.

    Returns:
        Copies; PREVIOUS, NEXT, PARENT and CHILD name the new ids. Of equal ones the first, the second, … differ.
    """
    given = list(nodes)
    seen: Counter[str] = Counter()
    ids = []
    for node in given:
        said = _said(node, metadata_keys)
        ids.append(digest(said, str(seen[said]), length=32) if node.ref_doc_id else node.node_id)
        seen[said] += 1
    names = {node.node_id: name for node, name in zip(given, ids, strict=True)}
    return [renamed(node, name, lambda old: names.get(old, old)) for node, name in zip(given, ids, strict=True)]


def _said(node: BaseNode, metadata_keys: Sequence[str]) -> str:
    """Return the hash of all that the views of a parent are made from."""
    chunk = to_chunk(node)
    known = {key: repr(node.metadata.get(key)) for key in sorted({TITLE, TABLE_HEADER, "file_name", *metadata_keys})}
    return digest(chunk.document_id, repr(chunk.path), chunk.kind, repr(known), chunk.text, length=32)

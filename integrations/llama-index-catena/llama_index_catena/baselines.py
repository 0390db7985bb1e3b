"""Prepare nodes as systems beside the papers do: in atomic units, or under trees of summaries."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field, SerializeAsAny, field_serializer
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import LLM
from llama_index.core.schema import (
    BaseNode,
    NodeRelationship,
    NodeWithScore,
    ObjectType,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)

from catena import ParameterError, Ranking, Services, arun, prompts, run
from catena.effects import Step, all_together
from catena.model import TITLE, needs
from catena.structure import outline
from llama_index_catena.components import (
    CoreRetriever,
    DegradedEvent,
    TransformOfStep,
    checked_arguments,
    given_options,
    revived_options,
    tell_degraded,
    written_options,
)
from llama_index_catena.convert import to_node
from llama_index_catena.documents import document_of, title_of, to_core_document
from llama_index_catena.segment_nodes import linked_chunk
from llama_index_catena.services import CatenaEmbedding, core_embedder, model_services
from llama_index_catena.structure import linked, slice_node

with needs("catena-bench"):
    from catena_bench.baselines import (
        AtomicChunks,
        AtomicOptions,
        Clustering,
        ClusterSummaries,
        RaptorOptions,
        RaptorTree,
        collapsed,
        cut_atomic,
        node_cosines,
        raptor_tree,
        traverse,
    )

ATOMIC_SCHEMA = 1  # grows when equal documents and parameters give other nodes

_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (AtomicOptions, RaptorOptions, ClusterSummaries, Clustering)
}


class AtomicDegradedEvent(DegradedEvent):
    """Part of a document was cut at sentences, because no answer of the model was of use."""


class CatenaAtomicTransform(TransformOfStep):
    """Cuts documents into atomic units by a model, whose answers only say where to cut: no word is its own.

        IngestionPipeline(transformations=[CatenaAtomicTransform(llm)]).run(documents=documents)

    Nodes have ids, offsets, links and metadata as those of `CatenaNodeParser`. A window of which no answer was of use
    is cut at sentences, told in the log and as an `AtomicDegradedEvent`, or raises, as `options.on_error` has it.

    Args:
        llm: any LlamaIndex language model.
        options: windows, attempts, and what is done where the model fails.
        inside_sections: units end where sections do.
        num_workers: calls of the model that are in flight at once.
        journal: the file in which replies are kept.

    Raises:
        ParameterError: there is no model.
    """

    llm: SerializeAsAny[LLM] = Field(description="Who divides the text.")
    options: Any = Field(description="Windows, attempts, and what is done where the model fails.")
    inside_sections: bool = Field(default=True, description="Whether units end where sections do.")
    prompt_version: str = Field(default="", description="Version of the prompt; part of cache keys.")
    schema_version: int = Field(default=ATOMIC_SCHEMA, description="Version of the nodes made; part of cache keys.")

    @checked_arguments
    def __init__(self, llm: LLM, *, options: AtomicOptions | None = None, **fields: Any) -> None:
        if not isinstance(llm, LLM):
            raise ParameterError("llm", type(llm).__name__, "a LlamaIndex language model: it divides the text")
        how = given_options("options", options, {"AtomicOptions": AtomicOptions})
        own = {"llm": llm, "options": how or AtomicOptions(), "schema_version": ATOMIC_SCHEMA}
        super().__init__(**{**fields, **own, "prompt_version": prompts.load("atomic_units").version})

    @field_serializer("options")
    def _written(self, options: Any) -> Any:
        return written_options(options, _KINDS)

    def _services(self) -> Services:
        return model_services(self.llm, None, max_concurrency=self.num_workers)

    def _step(self, nodes: Sequence[BaseNode]) -> Step[list[AtomicChunks]]:
        documents = [to_core_document(node) for node in nodes]
        sections = [outline(each) if self.inside_sections else None for each in documents]
        return all_together(
            [cut_atomic(each, self.options, sections=of) for each, of in zip(documents, sections, strict=True)]
        )

    def _made(self, nodes: Sequence[BaseNode], found: Sequence[AtomicChunks]) -> list[BaseNode]:
        """Return the units of documents, or of nodes, as nodes in reading order."""
        units: list[TextNode] = []
        for node, done in zip(nodes, found, strict=True):
            tell_degraded(done.degraded, AtomicDegradedEvent)
            document = to_core_document(node)
            units += [slice_node(chunk, document, node) for chunk in done.chunks]
        return linked(units)


TREE_LEVEL = "tree_level"
"""Metadata key of a summary node: how far it stands above the nodes that were given, from 1."""

SUMMARY = "summary"
"""The `kind` in the metadata of a node whose text was made, and is no quotation."""

TREE_SCHEMA = 1  # grows when equal nodes and parameters give other summaries


class TreeDegradedEvent(DegradedEvent):
    """A summary was asked of a model and not given, and another stands in: `what` names it, `why` says why."""


def build_tree(
    nodes: Sequence[BaseNode],
    embed_model: BaseEmbedding | None = None,
    *,
    llm: LLM | None = None,
    options: RaptorOptions | None = None,
) -> RaptorTree:
    """Return the tree of summaries over the nodes of one document, for `CatenaTreeRetriever`.

    Args:
        nodes: of any parser, in reading order.
        embed_model: by which they are put into clusters; by default the shipped one.
        llm: who writes summaries; None takes central sentences.
        options: clusters, summaries and layers.

    Raises:
        ParameterError: nodes of several documents, or the options ask for a model that is not given.
        MissingExtraError: scikit-learn is not installed.
        ServiceError: the embedding model failed.
    """
    step, services = _building(nodes, embed_model, llm, options)
    return _told(run(step, services))


async def abuild_tree(
    nodes: Sequence[BaseNode],
    embed_model: BaseEmbedding | None = None,
    *,
    llm: LLM | None = None,
    options: RaptorOptions | None = None,
) -> RaptorTree:
    """As `build_tree`, without blocking the event loop."""
    step, services = await asyncio.to_thread(_building, nodes, embed_model, llm, options)  # may load the shipped one
    return _told(await arun(step, services, computes=True))


class CatenaTreeExtractor(TransformOfStep):
    """Adds to nodes the summaries of RAPTOR's tree over them, so that any index finds details and overviews alike.

        IngestionPipeline(transformations=[CatenaNodeParser(), CatenaTreeExtractor(llm=llm)]).run(documents=documents)

    A summary node has the `kind` "summary" and its `tree_level` in the metadata, names what it summarises as CHILD,
    and the document as SOURCE. Nodes given stay as they are; each document has a tree of its own.

    Args:
        llm: any LlamaIndex language model; None takes central sentences of the passages.
        embed_model: by which nodes are put into clusters; by default the shipped one.
        options: clusters, summaries and layers; who writes follows from `llm` where they are not given.
        num_workers: calls of the model that are in flight at once.
        journal: the file in which replies are kept.

    Raises:
        ParameterError: the options ask for a model that is not given.
    """

    llm: SerializeAsAny[LLM] | None = Field(default=None, description="Who writes summaries.")
    embed_model: SerializeAsAny[BaseEmbedding] | None = Field(default=None, description="By which nodes are alike.")
    options: Any = Field(default=None, description="Clusters, summaries and layers.")
    prompt_version: str = Field(default="", description="Version of the prompt; part of cache keys.")
    schema_version: int = Field(default=TREE_SCHEMA, description="Version of the nodes made; part of cache keys.")

    @checked_arguments
    def __init__(
        self,
        llm: LLM | None = None,
        *,
        embed_model: BaseEmbedding | None = None,
        options: RaptorOptions | None = None,
        **fields: Any,
    ) -> None:
        how = _options(revived_options(options, _KINDS), llm)
        version = prompts.load("tree_summary").version if how.summaries.by == "llm" else ""
        own = {"llm": llm, "embed_model": embed_model or CatenaEmbedding(), "options": how}
        super().__init__(**{**fields, **own, "prompt_version": version, "schema_version": TREE_SCHEMA})

    @field_serializer("options")
    def _written(self, options: Any) -> Any:
        return written_options(options, _KINDS)

    def _services(self) -> Services:
        return model_services(self.llm, self.embed_model, max_concurrency=self.num_workers)

    def _step(self, nodes: Sequence[BaseNode]) -> Step[list[RaptorTree]]:
        documents: dict[str, list[BaseNode]] = {}
        for node in nodes:
            if TREE_LEVEL not in node.metadata:
                documents.setdefault(document_of(node), []).append(node)
        return all_together([_tree(name, of, self.options) for name, of in documents.items()])

    def _made(self, nodes: Sequence[BaseNode], found: Sequence[RaptorTree]) -> list[BaseNode]:
        """Return the nodes, and behind them the summaries of each document, layer after layer."""
        by_id = {node.node_id: node for node in nodes}
        return [*nodes, *(made for tree in found for made in _summaries(_told(tree), by_id))]


class CatenaTreeRetriever(CoreRetriever[Ranking]):
    """Finds nodes of one document through its tree of summaries: in all layers at once, or from the root down.

        CatenaTreeRetriever(build_tree(nodes, embed_model, llm=llm), embed_model)

    What is found are the nodes that the tree was made of, so that each can be cited; which summary led to them is in
    their provenance (`view`). Several documents: one retriever each, fused by `CatenaRetriever.over`.

    Args:
        tree: of `build_tree`.
        embed_model: by which the tree was made; by default the shipped one.
        how: "collapsed" takes the best nodes of all layers and what stands under them; "traversal" goes down.
        similarity_top_k: nodes of the tree that are taken, in each layer or in all, >= 1.
        callback_manager: told of each retrieval, as by every LlamaIndex retriever.
        verbose: as LlamaIndex has it.

    Raises:
        ParameterError: an argument is out of range.
    """

    @checked_arguments
    def __init__(
        self,
        tree: RaptorTree,
        embed_model: BaseEmbedding | None = None,
        *,
        how: Literal["collapsed", "traversal"] = "collapsed",
        similarity_top_k: int = 5,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(callback_manager=callback_manager, verbose=verbose)
        if not isinstance(tree, RaptorTree):
            raise ParameterError("tree", type(tree).__name__, "what build_tree returns")
        if how not in ("collapsed", "traversal"):
            raise ParameterError("how", how, "'collapsed' or 'traversal'")
        if similarity_top_k < 1:
            raise ParameterError("similarity_top_k", similarity_top_k, "an integer >= 1")
        self.tree, self.how, self.similarity_top_k = tree, how, similarity_top_k
        self._services = Services(embedder=core_embedder(embed_model or CatenaEmbedding()))

    def _question(self, asked: QueryBundle) -> tuple[Step[Ranking], Services]:
        return self._step(asked.query_str), self._services

    def _nodes(self, asked: QueryBundle, found: Ranking) -> list[NodeWithScore]:
        return [to_node(hit, found) for hit in found.hits]

    def _step(self, query: str) -> Step[Ranking]:
        scores = yield from node_cosines(query, self.tree.vectors)
        if self.how == "traversal":
            return traverse(self.tree.tree, scores, k=self.similarity_top_k)
        return collapsed(self.tree.tree, scores, k=self.similarity_top_k).ranking


def _building(
    nodes: Sequence[BaseNode], embed_model: BaseEmbedding | None, llm: LLM | None, options: RaptorOptions | None
) -> tuple[Step[RaptorTree], Services]:
    documents = sorted({document_of(node) for node in nodes})
    if len(documents) > 1:
        raise ParameterError("nodes", f"those of {len(documents)} documents", "of one document: each has a tree")
    services = model_services(llm, embed_model or CatenaEmbedding())
    return _tree("".join(documents), nodes, _options(options, llm)), services


def _options(given: Any, llm: LLM | None) -> RaptorOptions:
    how = given or RaptorOptions(summaries=ClusterSummaries(by="offline" if llm is None else "llm"))
    if not isinstance(how, RaptorOptions):
        raise ParameterError("options", how, "RaptorOptions or None")
    if how.summaries.by == "llm" and llm is None:
        raise ParameterError("llm", None, "given with ClusterSummaries(by='llm'); after from_dict, given again")
    return how


def _tree(document_id: str, nodes: Sequence[BaseNode], options: RaptorOptions) -> Step[RaptorTree]:
    """Make the tree of one document; nodes count their places in the order given."""
    given = enumerate(linked_chunk(node).chunk for node in nodes)
    chunks = [replace(chunk, document_id=document_id, position=place) for place, chunk in given]
    return raptor_tree(document_id, chunks, options, title=title_of(nodes))


def _told(tree: RaptorTree) -> RaptorTree:
    tell_degraded(tree.degraded, TreeDegradedEvent)
    return tree


def _summaries(tree: RaptorTree, by_id: dict[str, BaseNode]) -> list[TextNode]:
    source = RelatedNodeInfo(node_id=tree.tree.document_id, node_type=ObjectType.DOCUMENT)
    found: dict[str, TextNode] = {}
    for node in tree.tree.nodes:
        if node.made:
            below = [by_id.get(child) or found[child] for child in node.children]
            titled = {TITLE: title} if (title := title_of(below)) else {}
            found[node.id] = TextNode(
                id_=node.id,
                text=node.text,
                metadata={**titled, "kind": SUMMARY, TREE_LEVEL: node.level},
                excluded_embed_metadata_keys=["kind", TREE_LEVEL],
                excluded_llm_metadata_keys=["kind", TREE_LEVEL],
                relationships={
                    NodeRelationship.SOURCE: source,
                    NodeRelationship.CHILD: [child.as_related_node_info() for child in below],
                },
            )
    return list(found.values())

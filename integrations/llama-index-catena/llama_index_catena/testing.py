"""Make any LlamaIndex class a subject of the conformance suites in `catena.testing`: ours, and your own.

    subject = retriever_subject(my_retriever, ["How tight are the screws?", "Which fuse is it?"])
    assert problems_of_retriever(subject) == ()

A subject is a frozen dataclass: `dataclasses.replace(subject, filtering=…, failures=…)` adds what only you know.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, Document, NodeWithScore, QueryBundle, TextNode, TransformComponent

from catena.testing import (
    DividerSubject,
    EmbedderSubject,
    EvaluatorSubject,
    Found,
    FusionSubject,
    RerankerSubject,
    RetrieverSubject,
)
from llama_index_catena.convert import provenance
from llama_index_catena.documents import text_of


def found_of(node: BaseNode, score: float | None = None) -> Found:
    """Return a node in the suites' words.

    Its routes and what failed are those of `llama_index_catena.convert.provenance`; its place those of
    `start_char_idx` and `end_char_idx` in the document that is its SOURCE.
    """
    told = provenance(node)
    start, end = (node.start_char_idx, node.end_char_idx) if isinstance(node, TextNode) else (None, None)
    return Found(
        id=node.node_id,
        text=text_of(node),
        score=score,
        metadata=node.metadata,
        routes=tuple(str(way["route"]) for way in told.get("routes", ())),
        told=tuple(f"{part['what']}: {part['why']}" for part in told.get("degraded", ())),
        document_id=node.ref_doc_id,
        start=start,
        end=end,
    )


def retriever_subject(
    retriever: BaseRetriever,
    queries: Sequence[str],
    *,
    limited: Callable[[int], BaseRetriever] | None = None,
    documents: Iterable[BaseNode] = (),
    given: Sequence[BaseNode | NodeWithScore] = (),
    name: str | None = None,
) -> RetrieverSubject:
    """Return a retriever as a subject of `catena.testing.ranking_conformance`.

    Args:
        retriever: any.
        queries: at least two that find something.
        limited: makes it anew so that it returns so many at most.
        documents: whole, of which what is found are slices; none, and offsets are not looked at.
        given: nodes that the retriever holds, which it shall not change.
        name: for the report; the class by default.
    """

    async def aask(query: str) -> list[Found]:
        return _scored(await retriever.aretrieve(query))

    return RetrieverSubject(
        name=name or type(retriever).__name__,
        queries=queries,
        ask=lambda query: _scored(retriever.retrieve(query)),
        aask=aask,
        ask_k=None if limited is None else lambda query, k: _scored(limited(k).retrieve(query)),
        snapshot=_snapshot(given) if given else None,
        text_of=_texts(documents),
        flat="scalars",
    )


def transform_subject(
    transform: TransformComponent,
    nodes: Sequence[BaseNode],
    *,
    documents: Iterable[BaseNode] | None = None,
    alone: bool = True,
    pickled: bool = True,
    again: dict[str, Any] | None = None,
    name: str | None = None,
) -> DividerSubject:
    """Return a node parser, an extractor or another transformation as a subject of `divider_conformance`.

    Args:
        transform: any.
        nodes: or documents, that it is given.
        documents: whole, of which what it makes are slices; by default `nodes`; none, and offsets are not looked at.
        alone: whether a document gives the same pieces without the others.
        pickled: whether a pickled copy shall work, as `IngestionPipeline(num_workers=2)` needs it.
        again: what `from_dict` is given again; None where there is no way back from `to_dict`.
        name: for the report; the class by default.
    """

    def made(of: Sequence[BaseNode], by: TransformComponent = transform) -> list[Found]:
        return [found_of(node) for node in by(list(of))]

    async def amake() -> list[Found]:
        return [found_of(node) for node in await transform.acall(list(nodes))]

    copies: dict[str, Callable[[], list[Found]]] = {}
    if pickled:
        copies["pickle"] = lambda: made(nodes, pickle.loads(pickle.dumps(transform)))
    if again is not None:
        copies["from_dict"] = lambda: made(nodes, type(transform).from_dict(transform.to_dict(), **again))
    return DividerSubject(
        name=name or type(transform).__name__,
        make=lambda: made(nodes),
        amake=amake,
        one_by_one=(lambda: [one for node in nodes for one in made([node])]) if alone else None,
        empty=lambda: made([]),
        blank=lambda: made([Document(id_="blank", text=" \n\n")]),
        snapshot=_snapshot(nodes),
        text_of=_texts(nodes if documents is None else documents),
        copies=copies,
    )


def loaded_subject(reader: Any, files: Sequence[Any], *, name: str | None = None) -> DividerSubject:
    """Return a reader as a subject of `catena.testing.divider_conformance`.

    Args:
        reader: with `load_data` and `aload_data` of one file; as `SimpleDirectoryReader` takes them.
        files: their paths.
        name: for the report; the class by default.
    """

    def load(by: Any = reader) -> list[Found]:
        return [found_of(document) for file in files for document in by.load_data(file)]

    async def amake() -> list[Found]:
        return [found_of(document) for file in files for document in await reader.aload_data(file)]

    return DividerSubject(
        name=name or type(reader).__name__,
        make=load,
        amake=amake,
        copies={
            "pickle": lambda: load(pickle.loads(pickle.dumps(reader))),
            "lazy_load_data": lambda: [found_of(one) for file in files for one in reader.lazy_load_data(file)],
        },
    )


def postprocessor_subject(
    postprocessor: BaseNodePostprocessor,
    nodes: Sequence[NodeWithScore],
    query: str,
    *,
    selects: bool = True,
    asks: bool = True,
    documents: Iterable[BaseNode] = (),
    limited: Callable[[int], BaseNodePostprocessor] | None = None,
    name: str | None = None,
) -> RerankerSubject:
    """Return a node postprocessor as a subject of `catena.testing.ranking_conformance`.

    Args:
        postprocessor: any: a reranker, or what makes other nodes of those found.
        nodes: that it is given.
        query: that some of them answer.
        selects: whether it returns some of what it is given, with ids and texts.
        asks: whether it needs a question.
        documents: whole, of which what it returns are slices; none, and offsets are not looked at.
        limited: makes it anew so that it returns so many at most.
        name: for the report; the class by default.
    """

    def rerank(question: str, by: BaseNodePostprocessor = postprocessor, *, empty: bool = False) -> list[Found]:
        return _scored(by.postprocess_nodes([] if empty else list(nodes), QueryBundle(question)))

    async def arerank(question: str) -> list[Found]:
        return _scored(await postprocessor.apostprocess_nodes(list(nodes), QueryBundle(question)))

    return RerankerSubject(
        name=name or type(postprocessor).__name__,
        query=query,
        rerank=rerank,
        arerank=arerank,
        given=_scored(nodes),
        selects=selects,
        asks=asks,
        rerank_k=None if limited is None else lambda question, k: rerank(question, limited(k)),
        snapshot=_snapshot(nodes),
        text_of=_texts(documents),
        flat="scalars",
    )


def embedding_subject(embed_model: BaseEmbedding, *, unit: bool = True, name: str | None = None) -> EmbedderSubject:
    """Return an embedding model as a subject of `catena.testing.embedder_conformance`.

    Args:
        embed_model: any.
        unit: whether its vectors have length 1.
        name: for the report; the class by default.
    """
    return EmbedderSubject(
        name=name or type(embed_model).__name__,
        embed=embed_model.get_text_embedding_batch,
        aembed=embed_model.aget_text_embedding_batch,
        embed_query=embed_model.get_query_embedding,
        aembed_query=embed_model.aget_query_embedding,
        unit=unit,
        copies={"pickle": lambda texts: pickle.loads(pickle.dumps(embed_model)).get_text_embedding_batch(texts)},
    )


def metric_subject(
    metric: BaseRetrievalMetric, *, cutoff: int | None = None, name: str | None = None
) -> EvaluatorSubject:
    """Return a retrieval metric as a subject of `catena.testing.evaluator_conformance`.

    Args:
        metric: any that is better when higher.
        cutoff: how many of the first it looks at.
        name: for the report; the class by default.
    """

    def judge(found: Sequence[str], wanted: Sequence[str], by: BaseRetrievalMetric = metric) -> float:
        return float(by.compute(query="any", expected_ids=list(wanted), retrieved_ids=list(found)).score)

    def copied(found: Sequence[str], wanted: Sequence[str]) -> float:
        return judge(found, wanted, pickle.loads(pickle.dumps(metric)))

    return EvaluatorSubject(name=name or type(metric).__name__, judge=judge, cutoff=cutoff, copies={"pickle": copied})


def fusion_subject(
    build: Callable[[list[BaseRetriever], list[float]], BaseRetriever],
    *,
    weighted: bool = True,
    name: str | None = None,
) -> FusionSubject:
    """Return what fuses retrievers as a subject of `catena.testing.ranking_conformance`.

    Args:
        build: makes it of retrievers and their weights.
        weighted: whether the weights shall act.
        name: for the report; the class by default.
    """

    def fuse(
        routes: Sequence[Sequence[Found] | Exception], weights: Sequence[float], *, changed: bool = False
    ) -> list[Found]:
        given = [_Given(route if isinstance(route, Exception) else _nodes(route)) for route in routes]
        found = _scored(build(list(given), list(weights)).retrieve("any question"))
        held = [node for one in given if not isinstance(one.answer, Exception) for node in one.answer]
        return _scored(held) if changed else found

    two: list[BaseRetriever] = [_Given([]), _Given([])]
    return FusionSubject(name=name or type(build(two, [1.0, 1.0])).__name__, fuse=fuse, weighted=weighted)


class _Given(BaseRetriever):
    """Answers any question with the nodes that it holds, or fails with an exception."""

    def __init__(self, answer: list[NodeWithScore] | Exception) -> None:
        super().__init__()
        self.answer = answer

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return list(self.answer)


def _nodes(found: Sequence[Found]) -> list[NodeWithScore]:
    """Return things as a vector index returns them: each time the same objects."""
    return [
        NodeWithScore(node=TextNode(id_=one.id or "", text=one.text, metadata=dict(one.metadata)), score=one.score)
        for one in found
    ]


def _scored(nodes: Iterable[NodeWithScore]) -> list[Found]:
    return [found_of(one.node, one.score) for one in nodes]


def _texts(documents: Iterable[BaseNode]) -> Callable[[str], str] | None:
    texts = {document.node_id: text_of(document) for document in documents}
    return texts.__getitem__ if texts else None


def _snapshot(nodes: Sequence[BaseNode | NodeWithScore]) -> Callable[[], list[Any]]:
    return lambda: [node.model_dump() for node in nodes]

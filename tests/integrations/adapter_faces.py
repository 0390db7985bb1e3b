"""How each adapter is called: a promise of both is written down once, and tested over LangChain and LlamaIndex."""

from __future__ import annotations

import asyncio
import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from blockbuster import blockbuster_ctx
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.stores import InMemoryStore
from langchain_fakes import Events, Fixed, ReplyingChatModel
from llama_index.core.schema import Document as LlamaIndexDocument
from llama_index.core.schema import ImageNode, NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode
from llama_index.core.tools import ToolMetadata
from llama_index_fakes import Finding, Replying, chain, docstore_of, listening

import langchain_catena as lc
import llama_index_catena as li
from catena.enrichment import ContextOptions
from catena.graph import node_of
from catena.structure import SectionChunkOptions
from catena.testing import Found
from langchain_catena import evaluation
from langchain_catena.graph_building import NodeKeys, to_graph_chunk
from langchain_catena.testing import evaluator_subject
from langchain_catena.testing import found_of as found_document
from llama_index_catena.convert import to_chunk
from llama_index_catena.testing import found_of as found_node
from llama_index_catena.testing import metric_subject

Said = str | Callable[[str], str]
"""What a model answers: the same to all, or by the prompt."""


def told(found: Found) -> Any:
    """Return what is said of how something was found."""
    said = found.metadata.get("catena", {})
    return json.loads(said) if isinstance(said, str) else said


def ids(found: Sequence[Found]) -> list[str | None]:
    return [each.id for each in found]


@dataclass(frozen=True)
class Answering:
    """Answers prompts; it can be pickled, as models can."""

    said: Said
    finish_reason: str = "stop"

    def __call__(self, prompt: str) -> str:
        return self.said(prompt) if callable(self.said) else self.said

    def reply(self, messages: Sequence[Any]) -> AIMessage:
        ended = {"finish_reason": self.finish_reason}
        return AIMessage(self("\n".join(each.text for each in messages)), response_metadata=ended)


def quoting(prompt: str) -> str:
    """Answer with a quote of the passage on the torque of the HX210, and with one that stands nowhere."""
    for number, body in re.findall(r'<passage number="(\d+)".*?>\n(.*?)</passage>', prompt, re.DOTALL):
        if found := re.search(r"Tighten the cover screws of the HX210 to [\d.]+ Nm", body):
            return (
                f"Tighten them to 4.5 Nm [{number}]. They are of gold [{number}].\n\nQUOTES\n"
                f'[{number}] "{found[0]}"\n[{number}] "The screws are made of gold"'
            )
    return "The passages do not say."


class Refused(Exception):
    """What a service fails with that is not tried again."""


class _Failing(Fixed):
    error: Any

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        raise self.error

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        raise self.error


class _Awaiting(Fixed):
    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        await asyncio.sleep(0)
        return list(self.docs)


class _AwaitingNodes(Finding):
    async def _aretrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        await asyncio.sleep(0)
        return self._retrieve(query_bundle)


class _FailingNodes(Finding):
    def __init__(self, error: Exception) -> None:
        super().__init__([])
        self.error = error

    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        raise self.error


class Face:
    """How an adapter is called, by the names that LangChain has for its classes and their options."""

    package: Any
    kinds: Mapping[str, str] = {}
    options: Mapping[str, str] = {}
    own_options: Mapping[str, Mapping[str, str]] = {}

    def named(self, kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
        names = {**self.options, **self.own_options.get(kind, {})}
        return {names.get(name, name): value for name, value in options.items()}

    def make(self, kind: str, *given: Any, **options: Any) -> Any:
        return getattr(self.package, self.kinds.get(kind, kind))(*given, **self.named(kind, options))

    def over(self, routes: Any, **options: Any) -> Any:
        return self.package.CatenaRetriever.over(routes, **self.named("", options))

    def sections(self: Any, *documents: Any) -> list[Any]:
        return self.chunks(*documents, chunks=SectionChunkOptions())

    def ask(self: Any, retriever: Any, question: str) -> list[Found]:
        return self.found(self.invoke(retriever, question))

    async def aask(self: Any, retriever: Any, question: str) -> list[Found]:
        return self.found(await self.ainvoke(retriever, question))

    def process(self: Any, stage: Any, pieces: Sequence[Any], question: str) -> list[Found]:
        """Return what a reranker, or another stage behind a retriever, makes of what was found."""
        return self.found(self.processed(stage, pieces, question))

    def answer(self: Any, source: Any, model: Any, question: str, **how: Any) -> dict[str, Any]:
        return self.told_of(self.answerer(source, model, **how)[0](question))

    async def aanswer(self: Any, source: Any, model: Any, question: str) -> dict[str, Any]:
        return self.told_of(await self.answerer(source, model)[1](question))


class LangChain(Face):
    """How LangChain's adapter is called."""

    name, retriever = "LangChain", "Fixed"
    package: Any = lc
    unblocked = partial(blockbuster_ctx, ["catena", "langchain_catena"])

    def document(self, id: str, text: str, **metadata: Any) -> Any:
        return Document(id=id, page_content=text, metadata={"source": id, **metadata})

    def chunks(self, *documents: Any, **how: Any) -> list[Any]:
        return lc.CatenaDocumentTransformer(**how).split_documents(documents)

    def node(self, id: str, text: str, document: str | None = None, **metadata: Any) -> Any:
        """Return a passage as a store keeps it, of this document."""
        source = {} if document is None else {"source": document}
        return Document(id=id, page_content=text, metadata={**source, **metadata})

    def chain(self, document: str, texts: Sequence[str], *, offsets: bool = True) -> list[Any]:
        """Return the passages of a document whose text is these texts one after the other, linked and counted."""
        starts = [sum(map(len, texts[:place])) for place in range(len(texts))]
        told = [{"title": f"Manual {document}", **({"start_index": start} if offsets else {})} for start in starts]
        return lc.with_links(
            self.node(f"{document}-{at}", text, document, **told[at]) for at, text in enumerate(texts)
        )

    def store(self, nodes: Sequence[Any]) -> Any:
        """Return a store that gives passages by id."""
        kept = InMemoryStore()
        kept.mset([(node.id, node) for node in nodes])
        return kept

    def piece(self, id: str, text: str, score: float | None = None, **metadata: Any) -> Any:
        """Return what a store found, with its score."""
        scored = {} if score is None else {"relevance_score": score}
        return self.node(id, text, **metadata, **scored)

    def scored(self, pieces: Sequence[Any], scores: Sequence[float]) -> list[Any]:
        """Return pieces as a store finds them, with these scores."""
        return [
            each.model_copy(update={"metadata": {**each.metadata, "relevance_score": score}})
            for each, score in zip(pieces, scores, strict=True)
        ]

    def unscored(self, pieces: Sequence[Any]) -> list[Any]:
        return list(pieces)

    def neighbours(self, piece: Any) -> tuple[Any, Any]:
        return piece.metadata.get("previous_id"), piece.metadata.get("next_id")

    def found(self, pieces: Sequence[Any]) -> list[Found]:
        return [found_document(each) for each in pieces]

    def transformed(self, transformer: Any, given: Sequence[Any]) -> list[Found]:
        return self.found(transformer.transform_documents(given))

    async def atransformed(self, transformer: Any, given: Sequence[Any]) -> list[Found]:
        return self.found(await transformer.atransform_documents(given))

    def finding(self, *pieces: Any) -> Any:
        """Return a retriever that finds these, whatever it is asked."""
        return Fixed(docs=pieces)

    def awaiting(self, *pieces: Any) -> Any:
        """Return one with async code of its own."""
        return _Awaiting(docs=pieces)

    def failing(self, error: Exception) -> Any:
        return _Failing(docs=[], error=error)

    def invoke(self, retriever: Any, question: str) -> list[Any]:
        return retriever.invoke(question)

    async def ainvoke(self, retriever: Any, question: str) -> list[Any]:
        return await retriever.ainvoke(question)

    def heard(self, retriever: Any, question: str) -> tuple[list[Found], list[str]]:
        """Return what is found, and what events name as degraded."""
        events = Events()
        found = self.found(retriever.invoke(question, {"callbacks": [events]}))
        return found, [told["what"] for name, told in events.seen if name == "catena_degraded"]

    def processed(self, stage: Any, pieces: Sequence[Any], question: str) -> list[Any]:
        return list(stage.compress_documents(pieces, question))

    async def aprocess(self, stage: Any, pieces: Sequence[Any], question: str) -> list[Found]:
        return self.found(await stage.acompress_documents(pieces, question))

    def load(self, paths: Sequence[Path], **how: Any) -> list[Any]:
        return lc.CatenaLoader(paths, **how).load()

    async def aload(self, paths: Sequence[Path], **how: Any) -> list[Any]:
        return await lc.CatenaLoader(paths, **how).aload()

    def planned(self, paths: Sequence[Path], **how: Any) -> int:
        return lc.CatenaLoader(paths, **how).plan().total.calls

    core_document: Any = staticmethod(lc.to_core_document)

    def model(self, said: Said, finish_reason: str = "stop") -> Any:
        return ReplyingChatModel(reply=Answering(said, finish_reason).reply)

    def asked(self, model: Any) -> int:
        return len(model.sent)

    def prompts(self, model: Any) -> list[str]:
        return ["\n".join(each.text for each in messages) for messages in model.sent]

    def answerer(self, source: Any, model: Any, **how: Any) -> tuple[Any, Any]:
        chain = lc.segment_answer_chain(source, model, **how)
        return chain.invoke, chain.ainvoke

    def told_of(self, answer: dict[str, Any]) -> dict[str, Any]:
        places = ({"start": each["start_index"], "end": each["end_index"]} for each in answer["citations"])
        cited = [{**each, **place} for each, place in zip(answer["citations"], places, strict=True)]
        return {**answer, "citations": cited, "texts": [each["text"] for each in answer["passages"]]}

    def searches(self, question: str, model: Any = None) -> list[str]:
        return lc.query_writer(model).invoke(question)

    def judge(self, kind: str, **options: Any) -> Any:
        """Return what scores a ranking: ids found, best first, and ids wanted."""
        makers = {
            "index": evaluation.log_rank_evaluator,
            "recall": evaluation.recall_evaluator,
            "measure": evaluation.measure_evaluator,
            "evidence": evaluation.evidence_evaluator,
        }
        return evaluator_subject(makers[kind](**options)).judge

    async def compared(self, model: Any, one: str, other: str) -> float | None:
        """Return the score of an answer beside another."""
        said = [{"answer": one}, {"answer": other}]
        scores = await evaluation.pairwise_evaluator(model)({"question": "How many?"}, said, {"answer": "Six."})
        return scores[0]

    def quoted(self, answer: str, texts: Sequence[str]) -> tuple[float, str]:
        found = evaluation.quote_evaluator()({"answer": answer, "documents": texts})
        return found["score"], found["comment"]

    def captioner(self, model: Any) -> Any:
        return lc.LangChainCaptioner(model)

    def shown(self, model: Any) -> list[tuple[str, str, bytes]]:
        """Return the prompts that a model was given with pictures, the kinds of these, and the pictures."""
        shown = []
        for (message,) in model.sent:
            text, picture = message.content
            head, _, data = picture["image_url"]["url"].partition(",")
            shown.append((text["text"], head.removeprefix("data:").removesuffix(";base64"), b64decode(data)))
        return shown

    def picture(self, id: str, text: str, file: Path) -> Any:
        return self.node(id, text, figure_file=str(file))

    def picture_file(self, piece: Any) -> Any:
        return piece.metadata.get("figure_file")

    def picture_in(self, piece: Any) -> Any:
        return None

    def in_context(self, document: Any, llm: Any, options: ContextOptions | None = None) -> list[Found]:
        """Return chunks with titles and summaries."""
        return self.found(self.chunks(document, context=options or ContextOptions(), llm=llm))

    def header(self, found: Found) -> str:
        return str(found.metadata["header"])

    def updated(self, graph: Any, embedder: Any, call: str = "update_graph", **changes: Any) -> Any:
        return getattr(lc, call)(graph, embedder, **changes)

    chunk: Any = staticmethod(lc.to_chunk)

    def graph_chunk(self, node: Any) -> Any:
        """Return a passage as the graph keeps it."""
        return node_of(to_graph_chunk(node, node.id, NodeKeys(), position=0)).chunk

    def embeddings(self, embedder: Any = None) -> Any:
        return lc.CatenaEmbeddings(embedder)


class LlamaIndex(Face):
    """How LlamaIndex's adapter is called."""

    name, retriever = "LlamaIndex", "Finding"
    kinds: Mapping[str, str] = {
        "CatenaAtomicTransformer": "CatenaAtomicTransform",
        "CatenaChainCompressor": "CatenaChainPostprocessor",
        "CatenaCaptionTransformer": "CatenaCaptionExtractor",
        "CatenaDocumentTransformer": "CatenaNodeParser",
        "CatenaEntityTransformer": "CatenaEntityExtractor",
        "CatenaSegmentExtractor": "CatenaSegmentPostprocessor",
        "CatenaViewTransformer": "CatenaViewExtractor",
    }
    options: Mapping[str, str] = {"k": "similarity_top_k", "embeddings": "embed_model"}
    own_options: Mapping[str, Mapping[str, str]] = {
        "CatenaChainCompressor": {"k": "top_n", "library": "graph"},
        "CatenaMultiViewRetriever": {"retrievers": "source"},
        "CatenaSegmentRetriever": {"retriever": "source", "library": "source"},
        "CatenaRetriever": {"library": "source", "services": "source"},
    }
    package: Any = li
    unblocked = partial(blockbuster_ctx, ["catena", "llama_index_catena"])

    def document(self, id: str, text: str, **metadata: Any) -> Any:
        return LlamaIndexDocument(id_=id, text=text, metadata=metadata)

    def chunks(self, *documents: Any, **how: Any) -> list[Any]:
        return li.CatenaNodeParser(**how).get_nodes_from_documents(list(documents))

    def node(self, id: str, text: str, document: str | None = None, **metadata: Any) -> Any:
        """Return a passage as a store keeps it, of this document."""
        source = {} if document is None else {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document)}
        return TextNode(id_=id, text=text, metadata=metadata, relationships=source)

    def chain(self, document: str, texts: Sequence[str], *, offsets: bool = True) -> list[Any]:
        """Return the passages of a document whose text is these texts one after the other, linked and counted."""
        return list(chain(document, texts, counted=True, offsets=offsets))

    def store(self, nodes: Sequence[Any]) -> Any:
        """Return a store that gives passages by id."""
        return docstore_of(nodes)

    def piece(self, id: str, text: str, score: float | None = None, **metadata: Any) -> Any:
        """Return what a store found, with its score."""
        return NodeWithScore(node=self.node(id, text, **metadata), score=score)

    def scored(self, pieces: Sequence[Any], scores: Sequence[float]) -> list[Any]:
        """Return pieces as a store finds them, with these scores."""
        return [NodeWithScore(node=node, score=score) for node, score in zip(pieces, scores, strict=True)]

    def unscored(self, pieces: Sequence[Any]) -> list[Any]:
        return [NodeWithScore(node=node) for node in pieces]

    def neighbours(self, piece: Any) -> tuple[Any, Any]:
        before, after = piece.prev_node, piece.next_node
        return before and before.node_id, after and after.node_id

    def found(self, pieces: Sequence[Any]) -> list[Found]:
        scored = [(each.node, each.score) if isinstance(each, NodeWithScore) else (each, None) for each in pieces]
        return [found_node(node, score) for node, score in scored]

    def transformed(self, transformer: Any, given: Sequence[Any]) -> list[Found]:
        return self.found(transformer(list(given)))

    async def atransformed(self, transformer: Any, given: Sequence[Any]) -> list[Found]:
        return self.found(await transformer.acall(list(given)))

    def finding(self, *pieces: Any) -> Any:
        """Return a retriever that finds these, whatever it is asked."""
        return Finding([(each.node, each.score) for each in pieces])

    def awaiting(self, *pieces: Any) -> Any:
        """Return one with async code of its own."""
        return _AwaitingNodes([(each.node, each.score) for each in pieces])

    def failing(self, error: Exception) -> Any:
        return _FailingNodes(error)

    def invoke(self, retriever: Any, question: str) -> list[Any]:
        return retriever.retrieve(question)

    async def ainvoke(self, retriever: Any, question: str) -> list[Any]:
        return await retriever.aretrieve(question)

    def heard(self, retriever: Any, question: str) -> tuple[list[Found], list[str]]:
        """Return what is found, and what events name as degraded."""
        with listening() as told:
            found = self.ask(retriever, question)
        return found, [event.what for event in told.events if isinstance(event, li.RouteDegradedEvent)]

    def processed(self, stage: Any, pieces: Sequence[Any], question: str) -> list[Any]:
        return stage.postprocess_nodes(list(pieces), query_str=question)

    async def aprocess(self, stage: Any, pieces: Sequence[Any], question: str) -> list[Found]:
        return self.found(await stage.apostprocess_nodes(list(pieces), query_str=question))

    def load(self, paths: Sequence[Path], **how: Any) -> list[Any]:
        return li.CatenaReader(**how).load_data(list(paths))

    async def aload(self, paths: Sequence[Path], **how: Any) -> list[Any]:
        return await li.CatenaReader(**how).aload_data(list(paths))

    def planned(self, paths: Sequence[Path], **how: Any) -> int:
        return li.CatenaReader(**how).plan(list(paths)).total.calls

    core_document: Any = staticmethod(li.to_core_document)

    def model(self, said: Said, finish_reason: str = "stop") -> Any:
        return Replying(by=Answering(said), finish_reason=finish_reason)

    def asked(self, model: Any) -> int:
        return len(model.asked)

    def prompts(self, model: Any) -> list[str]:
        return ["\n".join(str(each.content) for each in messages) for messages, _ in model.asked]

    def answerer(self, source: Any, model: Any, **how: Any) -> tuple[Any, Any]:
        engine = li.CatenaQueryEngine(source, model, **how)
        return engine.query, engine.aquery

    def told_of(self, response: Any) -> dict[str, Any]:
        told = response.metadata
        places = ({"start": each["start_char_idx"], "end": each["end_char_idx"]} for each in told["citations"])
        cited = [{**each, **place} for each, place in zip(told["citations"], places, strict=True)]
        texts = [each.node.get_content() for each in response.source_nodes]
        return {**told, "answer": str(response), "citations": cited, "texts": texts}

    def searches(self, question: str, model: Any = None) -> list[str]:
        tools = [ToolMetadata(name="manuals", description="manuals")]
        made = li.CatenaQuestionGenerator(model, n=2).generate(tools, QueryBundle(question))
        return [each.sub_question for each in made]

    def judge(self, kind: str, **options: Any) -> Any:
        """Return what scores a ranking: ids found, best first, and ids wanted."""
        makers = {
            "index": li.LogRankIndex,
            "recall": li.RecallAt,
            "measure": li.StandardMeasure,
            "evidence": li.EvidenceMeasure,
        }
        return metric_subject(makers[kind](**options)).judge

    async def compared(self, model: Any, one: str, other: str) -> float | None:
        """Return the score of an answer beside another."""
        pair = {"query": "How many?", "response": one, "second_response": other, "reference": "Six."}
        return (await li.CatenaPairwiseEvaluator(model).aevaluate(**pair)).score

    def quoted(self, answer: str, texts: Sequence[str]) -> tuple[float, str]:
        found = li.CatenaQuoteEvaluator().evaluate("q", answer, texts)
        return float(found.score or 0.0), str(found.feedback)

    def captioner(self, model: Any) -> Any:
        return li.LlamaIndexCaptioner(model)

    def shown(self, model: Any) -> list[tuple[str, str, bytes]]:
        """Return the prompts that a model was given with pictures, the kinds of these, and the pictures."""
        blocks = [message.blocks for (message,), _ in model.asked]
        return [(text.text, image.image_mimetype, image.resolve_image().read()) for text, image in blocks]

    def picture(self, id: str, text: str, file: Path) -> Any:
        return ImageNode(id_=id, text=text, image_path=str(file))

    def picture_file(self, piece: Any) -> Any:
        return piece.node.image_path

    def picture_in(self, piece: Any) -> Any:
        return piece.node.image

    def in_context(self, document: Any, llm: Any, options: ContextOptions | None = None) -> list[Found]:
        """Return chunks with titles and summaries."""
        extractor = li.CatenaContextExtractor(llm, options=options, show="header")
        return self.transformed(extractor, self.chunks(document))

    def header(self, found: Found) -> str:
        return str(found.metadata["context"])

    def updated(self, graph: Any, embedder: Any, call: str = "update_graph", **changes: Any) -> Any:
        return getattr(li, call)(graph, embed_model=embedder, **changes)

    chunk: Any = staticmethod(to_chunk)

    def graph_chunk(self, node: Any) -> Any:
        """Return a passage as the graph keeps it."""
        return node_of(to_chunk(node)).chunk

    def embeddings(self, embedder: Any = None) -> Any:
        return li.CatenaEmbedding(embedder)


FACES: tuple[LangChain, LlamaIndex] = (LangChain(), LlamaIndex())

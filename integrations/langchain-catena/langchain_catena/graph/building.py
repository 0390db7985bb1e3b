"""The graph of documents as they lie in a vector store: built at once, and kept as the documents come and go."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseLanguageModel

from catena.effects import Embed, Embedder, Failed, Services, Step, arun, ask, run, together
from catena.enrichment import GraphKeywords, keywords_of_view, make_views
from catena.graph import ChunkGraph, GraphOptions, Node, node_of
from catena.model import TITLE, Chunk, ParameterError
from langchain_catena.content_ids import content_id, source_name
from langchain_catena.graph.nodes import NodeKeys, node_id, said_by, said_keywords, titles_of, to_graph_chunk
from langchain_catena.places import PlaceKeys
from langchain_catena.services import LangChainLLM, to_embedder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from catena.graph import Progress

_BATCH = 256  # texts per request: large enough to be quick, small enough to be told of and stopped
_log = logging.getLogger(__name__)


class GraphDocuments(TypedDict, total=False):
    """What `build_graph` and `update_graph` are told of the documents, and how they work.

    Attributes:
        id_key: metadata key of the id in the graph, for stores that give documents back without an id of their own;
            by default the document's id, and of a document without one an id made of its content, as
            `with_content_ids` makes it.
        source_key: metadata key of the whole document that it is a piece of; by default "source", or else
            "document_id". One that says none is a whole document.
        position_key: metadata key of its place there, "position" by default. Where one of a source says none, all of
            that source stand in the order in which they are given.
        title_keys: metadata keys of the titles under which others may mention it; by default its title ("title") and
            its last heading ("heading_path").
        keyword_key: metadata key of its keywords: a list, or a text with ";" between them. By default, and where one
            says none, they are found in its text.
        llm: any chat model or LLM, which finds the keywords; where it fails, they are found without it, and the log
            says so.
        keywords: how it is asked, `GraphKeywords()` by default.
        services: journal, budget and limits of the calls of models; with a journal nothing is embedded twice.
        progress: told how far the graph is.
    """

    id_key: str | None
    source_key: str | None
    position_key: str
    title_keys: Sequence[str] | None
    keyword_key: str | None
    llm: BaseLanguageModel[Any] | None
    keywords: GraphKeywords | None
    services: Services | None
    progress: Progress | None


def build_graph(
    documents: Iterable[Document],
    embeddings: Embeddings | Embedder,
    options: GraphOptions | None = None,
    **how: Unpack[GraphDocuments],
) -> ChunkGraph:
    """Return the chunk-interaction graph of documents as they lie in a vector store.

        graph = build_graph(splits, embeddings)
        retriever = CatenaGraphRetriever(vectorstore=store, graph=graph)

    It can be kept (`graph.save(folder)`, `ChunkGraph.load(folder)`), and knows the documents: what a walk finds comes
    back as it was given here, metadata that JSON has no form for as text.

    Args:
        documents: pieces of any number of whole documents, those of each in reading order.
        embeddings: by which `page_content` is embedded; questions must be, too.
        options: which edges there are.
        **how: see `GraphDocuments`.

    Raises:
        ParameterError: two documents of one id, an option out of range.
        ServiceError: the embeddings failed.
        CatenaError: see `ChunkGraph.build`.
    """
    work = _work(_documents("documents", documents), how)
    return _built(work, run(work.asked(), work.services(embeddings)), options, how)


async def abuild_graph(
    documents: Iterable[Document],
    embeddings: Embeddings | Embedder,
    options: GraphOptions | None = None,
    **how: Unpack[GraphDocuments],
) -> ChunkGraph:
    """As `build_graph`, without blocking the event loop."""
    work = await asyncio.to_thread(_work, _documents("documents", documents), how)
    asked = await arun(work.asked(), work.services(embeddings))
    return await asyncio.to_thread(_built, work, asked, options, how)


def update_graph(
    graph: ChunkGraph,
    embeddings: Embeddings | Embedder,
    *,
    added: Iterable[Document] = (),
    removed: Iterable[str | Document] = (),
    removed_sources: Iterable[str] = (),
    **how: Unpack[GraphDocuments],
) -> ChunkGraph:
    """Return the graph with documents more and others less, with the edges of one that is built of what is left.

    What stays keeps its place: without the first of three, the others are still the second and the third, next to
    each other.

        graph = update_graph(graph, embeddings, added=changed, removed_sources=["manuals/hx210.md"])

    Args:
        graph: stays as it is.
        embeddings: by which the graph was built; only what is added is embedded.
        added: new documents, and new versions: one whose id is in the graph takes its place. Without positions those
            of a source come behind what the graph has of it.
        removed: by id, or as they were given.
        removed_sources: of which nothing stays but what is added.
        **how: see `GraphDocuments`, as when the graph was built.

    Raises:
        ParameterError: what is to be removed is not in the graph, two documents are of one id, or the embeddings are
            not those of the graph.
        ServiceError: the embeddings failed.
    """
    given = (_documents("added", added), _several("removed", removed), _several("removed_sources", removed_sources))
    work, gone = _changing(graph, *given, how)
    return _updated(graph, work, gone, run(work.asked(), work.services(embeddings)), how)


async def aupdate_graph(
    graph: ChunkGraph,
    embeddings: Embeddings | Embedder,
    *,
    added: Iterable[Document] = (),
    removed: Iterable[str | Document] = (),
    removed_sources: Iterable[str] = (),
    **how: Unpack[GraphDocuments],
) -> ChunkGraph:
    """As `update_graph`, without blocking the event loop."""
    given = (_documents("added", added), _several("removed", removed), _several("removed_sources", removed_sources))
    work, gone = await asyncio.to_thread(_changing, graph, *given, how)
    asked = await arun(work.asked(), work.services(embeddings))
    return await asyncio.to_thread(_updated, graph, work, gone, asked, how)


_Keywords = dict[str, tuple[str, ...]]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """Documents on their way into a graph."""

    documents: Sequence[Document]
    chunks: Sequence[Chunk]
    keys: NodeKeys
    maker: GraphKeywords | None
    how: GraphDocuments

    def services(self, embeddings: Embeddings | Embedder) -> Services:
        services = replace(self.how.get("services") or Services(), embedder=to_embedder(embeddings))
        llm = self.how.get("llm")
        return services if llm is None else replace(services, llm=LangChainLLM(llm))

    def asked(self) -> Step[tuple[_Keywords, NDArray[np.float32]]]:
        """Return by id the keywords that are said or that a model finds, and the vectors of all."""
        told = {
            chunk.id: said
            for chunk, document in zip(self.chunks, self.documents, strict=True)
            if (said := said_keywords(document, self.keys)) is not None
        }
        if self.maker is not None:
            told |= yield from _made(self.maker, [chunk for chunk in self.chunks if chunk.id not in told])
        texts = [document.page_content for document in self.documents]
        batches = [tuple(texts[at : at + _BATCH]) for at in range(0, len(texts), _BATCH)]
        replies = (yield from ask([Embed(texts=batch, purpose="graph") for batch in batches])) if batches else ()
        rows = [np.asarray(reply, dtype=np.float32) for reply in replies]
        return told, np.concatenate(rows) if rows else np.zeros((0, 0), np.float32)

    def nodes(self, keywords: Mapping[str, tuple[str, ...]]) -> list[Node]:
        return [
            node_of(chunk, keywords=keywords.get(chunk.id), titles=titles_of(document, self.keys))
            for chunk, document in zip(self.chunks, self.documents, strict=True)
        ]


def _documents(name: str, given: Iterable[Document]) -> list[Document]:
    documents = _several(name, given)
    for each in documents:
        if not isinstance(each, Document):
            raise ParameterError(name, type(each).__name__, "LangChain documents")
    return documents


def _several(name: str, given: Iterable[_T]) -> list[_T]:
    """Return what is given one by one; one text or one document is iterable, too, and a mistake."""
    if isinstance(given, str | Document):
        raise ParameterError(name, given, "a sequence, also of one alone")
    return list(given)


def _work(documents: Sequence[Document], how: GraphDocuments, behind: Callable[[str], int] | None = None) -> _Work:
    """Return documents as chunks under their ids and at their places, behind so many of their source."""
    unknown = sorted(how.keys() - GraphDocuments.__annotations__.keys())
    if unknown:
        raise ParameterError("option", unknown[0], f"one of {', '.join(GraphDocuments.__annotations__)}")
    titles, maker = how.get("title_keys"), how.get("keywords")
    if isinstance(titles, str):
        raise ParameterError("title_keys", titles, f"a sequence of keys, e.g. [{titles!r}]")
    if maker is not None and how.get("llm") is None and (how.get("services") or Services()).llm is None:
        raise ParameterError("llm", None, "a chat model or LLM: keywords=… says how it is asked")
    keys = NodeKeys(
        id=how.get("id_key"),
        source=how.get("source_key"),
        position=how.get("position_key", NodeKeys().position),
        titles=None if titles is None else tuple(titles),
        keywords=how.get("keyword_key"),
    )
    named = zip(documents, _ids(documents, keys), _places(documents, keys, behind), strict=True)
    chunks = [to_graph_chunk(document, name, keys, position=position) for document, name, position in named]
    default = GraphKeywords() if how.get("llm") is not None else None
    return _Work(documents=documents, chunks=chunks, keys=keys, maker=maker or default, how=how)


def _ids(documents: Sequence[Document], keys: NodeKeys) -> list[str]:
    """Return the id of each document; equal ones that have none are told apart by their order."""
    seen: Counter[str] = Counter()
    ids = []
    for document in documents:
        name, said = node_id(document, keys), said_by(document, keys)
        if name == content_id(said):
            name = content_id(said, seen[said])
            seen[said] += 1
        ids.append(name)
    return ids


def _places(documents: Sequence[Document], keys: NodeKeys, behind: Callable[[str], int] | None) -> list[int]:
    """Return the place of each document in its source."""
    said = PlaceKeys(position=keys.position)
    sources: dict[str, list[int]] = defaultdict(list)
    for number, document in enumerate(documents):
        sources[source_name(document, keys.source)].append(number)
    places = [0] * len(documents)
    for source, numbers in sources.items():
        known = [said.position_of(documents[number]) for number in numbers]
        start = behind(source) if behind is not None and None in known else 0
        for order, (number, place) in enumerate(zip(numbers, known, strict=True), start=start):
            places[number] = order if place is None or None in known else place
    return places


def _made(maker: GraphKeywords, chunks: Sequence[Chunk]) -> Step[_Keywords]:
    """Return by id the keywords that a model finds; of chunks at which it fails, none."""
    sources: dict[str, list[Chunk]] = defaultdict(list)
    for chunk in chunks:
        sources[chunk.document_id].append(chunk)
    steps = [make_views(each, [maker], title=str(each[0].metadata.get(TITLE, ""))) for each in sources.values()]
    results = yield from together(steps)
    found: _Keywords = {}
    for source, result in zip(sources, results, strict=True):
        if isinstance(result, Failed):
            raise result.error
        views, degraded = result
        found |= {view.chunk_id: keywords_of_view(view.text) for view in views}
        for part in degraded:
            _log.warning("%s: %s: %s; its keywords are found without the model", source, part.what, part.why)
    return found


def _built(
    work: _Work,
    asked: tuple[_Keywords, NDArray[np.float32]],
    options: GraphOptions | None,
    how: GraphDocuments,
) -> ChunkGraph:
    keywords, vectors = asked
    cancel = (how.get("services") or Services()).cancel
    return ChunkGraph.build(work.nodes(keywords), vectors, options, progress=how.get("progress"), cancel=cancel)


def _changing(
    graph: ChunkGraph,
    added: Sequence[Document],
    removed: Sequence[str | Document],
    sources: Sequence[str],
    how: GraphDocuments,
) -> tuple[_Work, set[str]]:
    """Return what is added, and the ids of all that goes: removed, of a source that goes, or of an older version."""
    keys = NodeKeys(id=how.get("id_key"), source=how.get("source_key"))
    gone = {each if isinstance(each, str) else node_id(each, keys, graph) for each in removed}
    if sources:
        gone |= {name for name in graph.ids if graph.chunk(name).document_id in sources}
    coming = set(_ids(added, keys))

    def behind(source: str) -> int:
        staying = (graph.chunk(name) for name in graph.ids if name not in gone and name not in coming)
        return 1 + max((chunk.position for chunk in staying if chunk.document_id == source), default=-1)

    work = _work(added, how, behind)
    return work, gone | {chunk.id for chunk in work.chunks if chunk.id in graph}


def _updated(
    graph: ChunkGraph,
    work: _Work,
    gone: set[str],
    asked: tuple[_Keywords, NDArray[np.float32]],
    how: GraphDocuments,
) -> ChunkGraph:
    keywords, vectors = asked
    cancel = (how.get("services") or Services()).cancel
    nodes, progress = work.nodes(keywords), how.get("progress")
    return graph.updated(added=nodes, vectors=vectors, removed=gone, progress=progress, cancel=cancel)

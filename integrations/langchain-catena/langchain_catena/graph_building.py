"""Build the graph of documents as they lie in a vector store, and keep it as the documents come and go."""

from __future__ import annotations

import json
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypedDict, TypeVar, Unpack

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseLanguageModel
from numpy.typing import NDArray

from catena import Chunk, ParameterError, Services, arun, run
from catena.effects import Embedder, Step, all_together, embed_texts
from catena.enrichment import GraphKeywords, keywords_of_view, make_views
from catena.graph import ChunkGraph, GraphOptions, Node, Progress, node_of
from catena.model import TITLE
from langchain_catena.convert import CHUNK_ID, POSITION, PROVENANCE, SCORE, scalars
from langchain_catena.places import PlaceKeys, content_id, content_of, source_name, to_linked
from langchain_catena.services import services_with

_log = logging.getLogger(__name__)
_CONTENT = "langchain_content"  # key, in the graph alone, of the content where that is not the chunk's exact text
_NESTED = "langchain_nested"  # of the metadata that a chunk cannot hold, as JSON; also says that this was a document
_T = TypeVar("_T")
_Keywords: TypeAlias = dict[str, tuple[str, ...]]


class GraphDocuments(TypedDict, total=False):
    """Options of `build_graph` and `update_graph`: how documents are read, and by which models.

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
    return run(_built(documents, options, how), _services(embeddings, how))


async def abuild_graph(
    documents: Iterable[Document],
    embeddings: Embeddings | Embedder,
    options: GraphOptions | None = None,
    **how: Unpack[GraphDocuments],
) -> ChunkGraph:
    """As `build_graph`, without blocking the event loop."""
    return await arun(_built(documents, options, how), _services(embeddings, how), computes=True)


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
    return run(_updated(graph, added, removed, removed_sources, how), _services(embeddings, how))


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
    step = _updated(graph, added, removed, removed_sources, how)
    return await arun(step, _services(embeddings, how), computes=True)


def _services(embeddings: Embeddings | Embedder, how: GraphDocuments) -> Services:
    return services_with(how.get("services"), llm=how.get("llm"), embeddings=embeddings)


def _told(how: GraphDocuments) -> dict[str, Any]:
    return {"progress": how.get("progress"), "cancel": (how.get("services") or Services()).cancel}


def _built(documents: Iterable[Document], options: GraphOptions | None, how: GraphDocuments) -> Step[ChunkGraph]:
    nodes, vectors = yield from _nodes(_documents("documents", documents), how)
    return ChunkGraph.build(nodes, vectors, options, **_told(how))


def _updated(
    graph: ChunkGraph,
    added: Iterable[Document],
    removed: Iterable[str | Document],
    removed_sources: Iterable[str],
    how: GraphDocuments,
) -> Step[ChunkGraph]:
    documents, sources = _documents("added", added), _several("removed_sources", removed_sources)
    keys = NodeKeys(id=how.get("id_key"), source=how.get("source_key"))
    gone = {each if isinstance(each, str) else node_id(each, keys, graph) for each in _several("removed", removed)}
    if sources:
        gone |= {name for name in graph.ids if graph.chunk(name).document_id in sources}
    coming = set(_ids(documents, keys))

    def behind(source: str) -> int:
        staying = (graph.chunk(name) for name in graph.ids if name not in gone and name not in coming)
        return 1 + max((chunk.position for chunk in staying if chunk.document_id == source), default=-1)

    nodes, vectors = yield from _nodes(documents, how, behind)
    gone |= {name for name in coming if name in graph}
    return graph.updated(added=nodes, vectors=vectors, removed=gone, **_told(how))


def _documents(name: str, given: Iterable[Document]) -> list[Document]:
    documents = _several(name, given)
    for each in documents:
        if not isinstance(each, Document):
            raise ParameterError(name, type(each).__name__, "LangChain documents")
    return documents


def _several(name: str, given: Iterable[_T]) -> list[_T]:
    """Return the given items as a list; refuse one text or one document, which is iterable, too."""
    if isinstance(given, str | Document):
        raise ParameterError(name, given, "a sequence, also of one alone")
    return list(given)


def _nodes(
    documents: Sequence[Document], how: GraphDocuments, behind: Callable[[str], int] | None = None
) -> Step[tuple[list[Node], NDArray[np.float32]]]:
    """Return documents as nodes under their ids and at their places, behind so many of their source, and vectors."""
    unknown = sorted(how.keys() - GraphDocuments.__annotations__.keys())
    if unknown:
        raise ParameterError("option", unknown[0], f"one of {', '.join(GraphDocuments.__annotations__)}")
    titles, maker = how.get("title_keys"), how.get("keywords")
    if isinstance(titles, str):
        raise ParameterError("title_keys", titles, f"a sequence of keys, e.g. [{titles!r}]")
    if maker is not None and how.get("llm") is None and (how.get("services") or Services()).llm is None:
        raise ParameterError("llm", None, "a chat model or LLM: keywords=… says how it is asked")
    if maker is None and how.get("llm") is not None:
        maker = GraphKeywords()
    keys = NodeKeys(
        id=how.get("id_key"),
        source=how.get("source_key"),
        position=how.get("position_key", NodeKeys().position),
        titles=None if titles is None else tuple(titles),
        keywords=how.get("keyword_key"),
    )
    named = zip(documents, _ids(documents, keys), _places(documents, keys, behind), strict=True)
    chunks = [to_graph_chunk(document, name, keys, position=position) for document, name, position in named]
    paired = zip(chunks, documents, strict=True)
    keywords = {chunk.id: said for chunk, document in paired if (said := said_keywords(document, keys)) is not None}
    if maker is not None:
        keywords |= yield from _made(maker, [chunk for chunk in chunks if chunk.id not in keywords])
    rows = yield from embed_texts([document.page_content for document in documents], "graph")
    nodes = [
        node_of(chunk, keywords=keywords.get(chunk.id), titles=titles_of(document, keys))
        for chunk, document in zip(chunks, documents, strict=True)
    ]
    return nodes, np.asarray(rows, dtype=np.float32).reshape(len(rows), -1 if rows else 0)


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
    found: _Keywords = {}
    for source, (views, degraded) in zip(sources, (yield from all_together(steps)), strict=True):
        found |= {view.chunk_id: keywords_of_view(view.text) for view in views}
        for part in degraded:
            _log.warning("%s: %s: %s; its keywords are found without the model", source, part.what, part.why)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKeys:
    """Metadata keys by which documents say which node of a graph they are, and what it is told of them.

    Attributes:
        id: of the node's id; None takes the document's own, and of one without an id what its content gives.
        source: of the whole document; "source", or else "document_id", where None.
        position: of the place in it.
        titles: under which others may mention it; None takes the title and the last heading.
        keywords: of a list, or a text with ";" between them; None finds them in the text.
    """

    id: str | None = None
    source: str | None = None
    position: str = POSITION
    titles: tuple[str, ...] | None = None
    keywords: str | None = None


def node_ids(document: Document, keys: NodeKeys) -> Iterator[str]:
    """Yield the ids under which a graph may have a document, the surest first; the last is made of its content."""
    own = None if keys.id is None else document.metadata.get(keys.id)
    for name in (own, document.id, document.metadata.get(CHUNK_ID)):
        if name not in (None, ""):
            yield str(name)
    yield content_id(said_by(document, keys))


def said_by(document: Document, keys: NodeKeys) -> str:
    """Return the hash of what a document says and whose it is, without the id that a store may have given it."""
    return content_of(document, source_name(document.model_copy(update={"id": None}), keys.source))


def node_id(document: Document, keys: NodeKeys, graph: Container[object] = ()) -> str:
    """Return the id that a graph has a document under; the surest of those possible where it has none of them."""
    surest = ""
    for name in node_ids(document, keys):
        if name in graph:
            return name
        surest = surest or name
    return surest


def to_graph_chunk(document: Document, chunk_id: str, keys: NodeKeys, *, position: int | None = None) -> Chunk:
    """Return a document as a chunk that `from_graph_chunk` gives back, also after the graph was kept on disk.

    Args:
        document: as its store has it; its content is what was embedded, its exact text what the chunk holds.
        chunk_id: in the graph.
        keys: of its metadata.
        position: in its source; what its metadata say, or else 0, where None.
    """
    places = PlaceKeys(position=keys.position)
    chunk = to_linked(document, places, name=source_name(document, keys.source)).chunk
    # how it was found
    own = {key: value for key, value in document.metadata.items() if key not in (SCORE, PROVENANCE)}
    kept = scalars(own)
    nested = (f"{json.dumps(key)}: {_written(value)}" for key, value in own.items() if key not in kept)
    kept[_NESTED] = "{" + ", ".join(nested) + "}"
    if document.page_content != chunk.text:
        kept[_CONTENT] = document.page_content
    return replace(chunk, id=chunk_id, position=chunk.position if position is None else position, metadata=kept)


def from_graph_chunk(chunk: Chunk) -> Document | None:
    """Return the document that a chunk of a graph was made of, None of one that was made of none.

    Metadata that JSON has no form for (dates, say) come back as text.
    """
    if _NESTED not in chunk.metadata:
        return None
    metadata = {key: value for key, value in chunk.metadata.items() if key not in (_CONTENT, _NESTED)}
    nested = json.loads(str(chunk.metadata[_NESTED]))
    content = str(chunk.metadata.get(_CONTENT, chunk.text))
    return Document(id=chunk.id, page_content=content, metadata=metadata | nested)


def titles_of(document: Document, keys: NodeKeys) -> tuple[str, ...] | None:
    """Return the titles that the metadata say; None where no keys name them."""
    if keys.titles is None:
        return None
    return tuple(title for key in keys.titles for title in _texts(document.metadata.get(key)))


def said_keywords(document: Document, keys: NodeKeys) -> tuple[str, ...] | None:
    """Return the keywords that the metadata say, None where they say none.

    Raises:
        ParameterError: there is something else than words.
    """
    found = None if keys.keywords is None else document.metadata.get(keys.keywords)
    if found is None:
        return None
    if isinstance(found, str):
        return keywords_of_view(found)
    if not isinstance(found, Sequence) or not all(isinstance(word, str) for word in found):
        what = f"metadata[{keys.keywords!r}] of document {document.id or document.page_content[:40]!r}"
        raise ParameterError(what, found, 'a list of words, or a text with ";" between them')
    return tuple(found)


def _written(value: object) -> str:
    try:
        return json.dumps(value, default=str)
    except (TypeError, ValueError):  # keys that are no text, or a circle
        return json.dumps(str(value))


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(map(str, value))
    return () if value is None else (str(value),)

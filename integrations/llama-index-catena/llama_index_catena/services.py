"""LlamaIndex's models and retrievers as Catena's services, and Catena's embedders as a LlamaIndex model.

Their errors become ours; where a LlamaIndex class has no async code of its own (its inherited methods would
block the event loop), the sync code runs in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import cache
from inspect import unwrap
from typing import TYPE_CHECKING, Any, cast

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole
from llama_index.core.bridge.pydantic import Field
from llama_index.core.llms import LLM, CustomLLM
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

from catena.effects import Complete, Search
from catena.errors import CatenaError, FilterError, InvalidReplyError, ParameterError
from catena.faults import service_error
from catena.model import Hit, Provenance, Ranking
from catena.ports import Completion, Embedder, Store
from llama_index_catena.convert import to_ranking

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FINISHED = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
    "safety": "content_filter",
    "refusal": "refusal",
}


class LlamaIndexEmbedder:
    """A LlamaIndex embedding model as the core's embedder; rows are brought to unit length.

    Args:
        embedding: any model.
        dim: length of its vectors; where it is not given, the model is asked once, when it is first needed.
    """

    def __init__(self, embedding: BaseEmbedding, *, dim: int | None = None) -> None:
        self._embedding = embedding
        self._dim = dim
        self.identity = f"llama-index:{embedding.class_name()}/{embedding.model_name}"

    @property
    def dim(self) -> int:
        """Length of a vector."""
        if self._dim is None:
            self._dim = len(self.embed_query("length"))
        return self._dim

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit rows, shape (len(texts), dim); a zero row stays zero."""
        if not texts:
            return self._rows([], texts)
        try:
            rows = self._embedding.get_text_embedding_batch(list(texts))
        except Exception as error:
            raise self._ours(error) from error
        return self._rows(rows, texts)

    async def aembed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `embed_documents`, without blocking the event loop."""
        if not texts or _inherits(self._embedding, BaseEmbedding, "_aget_text_embedding", "_aget_text_embeddings"):
            return await asyncio.to_thread(self.embed_documents, texts)
        try:
            rows = await self._embedding.aget_text_embedding_batch(list(texts))
        except Exception as error:
            raise self._ours(error) from error
        return self._rows(rows, texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return a unit vector, shape (dim,)."""
        try:
            row = self._embedding.get_query_embedding(text)
        except Exception as error:
            raise self._ours(error) from error
        return self._row(row)

    async def aembed_query(self, text: str) -> NDArray[np.float32]:
        """As `embed_query`, awaiting the model."""
        try:
            row = await self._embedding.aget_query_embedding(text)
        except Exception as error:
            raise self._ours(error) from error
        return self._row(row)

    def _row(self, row: Sequence[float]) -> NDArray[np.float32]:
        return cast("NDArray[np.float32]", self._rows([row], [""])[0])

    def _rows(self, rows: Sequence[Sequence[float]], texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        if not texts:
            return np.zeros((0, self.dim), dtype=np.float32)
        try:
            array = np.asarray(rows, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidReplyError(self.identity, "vectors of unlike lengths, or not of numbers") from None
        if array.ndim != 2 or len(array) != len(texts) or self._dim not in (None, array.shape[1]):
            expected = f"({len(texts)}, {self._dim or 'dim'})"
            raise InvalidReplyError(self.identity, f"vectors of shape {array.shape} where {expected} was due")
        lengths = np.linalg.norm(array, axis=1, keepdims=True)
        return (array / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)

    def _ours(self, error: Exception) -> CatenaError:
        return service_error(error, self.identity)


class LlamaIndexLLM:
    """A LlamaIndex language model as the core's.

    Args:
        llm: any model; it is asked through `chat`.
        max_tokens_name: under what name this model takes the limit of a reply; None gives it no limit.
    """

    def __init__(self, llm: LLM, *, max_tokens_name: str | None = "max_tokens") -> None:
        self._llm = llm
        self._max_tokens_name = max_tokens_name
        self.identity = f"llama-index:{llm.class_name()}/{llm.metadata.model_name}"

    def complete(self, request: Complete) -> Completion:
        """Return the reply to one prompt, with why it ended and what it took where the model says so."""
        try:
            return completion_of(self._llm.chat(_messages(request), **self._limit(request)))
        except Exception as error:
            raise service_error(error, self.identity) from error

    async def acomplete(self, request: Complete) -> Completion:
        """As `complete`, without blocking the event loop."""
        if isinstance(self._llm, CustomLLM) and _inherits(self._llm, CustomLLM, "achat"):
            return await asyncio.to_thread(self.complete, request)
        try:
            return completion_of(await self._llm.achat(_messages(request), **self._limit(request)))
        except Exception as error:
            raise service_error(error, self.identity) from error

    def _limit(self, request: Complete) -> dict[str, Any]:
        return {self._max_tokens_name: request.max_tokens} if self._max_tokens_name else {}


def _messages(request: Complete) -> list[ChatMessage]:
    system = [ChatMessage(role=MessageRole.SYSTEM, content=request.system)] if request.system else []
    return [*system, ChatMessage(role=MessageRole.USER, content=request.prompt)]


def completion_of(response: ChatResponse) -> Completion:
    """Return a chat response as the core's completion; what the model does not say is "stop" and 0 tokens."""
    said = {**_fields(response.raw), **response.additional_kwargs}
    usage = {**_fields(said.get("usage")), **said}
    choices = said.get("choices")
    first = _fields(choices[0]) if isinstance(choices, Sequence) and choices else {}
    reason = first.get("finish_reason") or said.get("finish_reason") or said.get("stop_reason")
    return Completion(
        text=response.message.content or "",
        finish_reason=_FINISHED.get(str(getattr(reason, "value", reason)).lower(), "stop"),
        input_tokens=_count(usage, "prompt_tokens", "input_tokens"),
        output_tokens=_count(usage, "completion_tokens", "output_tokens"),
    )


def _fields(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    return dict(getattr(value, "__dict__", {}))


def _count(usage: Mapping[str, Any], *names: str) -> int:
    return next((usage[name] for name in names if isinstance(usage.get(name), int)), 0)


class RetrieverStore:
    """LlamaIndex retrievers as routes of a core store; see `retriever_store`."""

    def __init__(self, retrievers: Mapping[str, BaseRetriever], beside: Store | None) -> None:
        self._retrievers = dict(retrievers)
        self._beside = beside

    @property
    def routes(self) -> tuple[str, ...]:
        """The names of the retrievers, then those of the store beside them."""
        others = self._beside.routes if self._beside is not None else ()
        return (*self._retrievers, *(name for name in others if name not in self._retrievers))

    def search(self, request: Search) -> Ranking:
        """Return what the retriever of that name found, at most `request.k` hits."""
        retriever = self._retrievers.get(request.route)
        if retriever is None:
            return self._other(request).search(request)
        _check(request)
        try:
            return _ranking(retriever.retrieve(QueryBundle(request.query)), request)
        except Exception as error:
            raise service_error(error, request.route) from error

    async def asearch(self, request: Search) -> Ranking:
        """As `search`, without blocking the event loop."""
        retriever = self._retrievers.get(request.route)
        if retriever is None:
            beside: Any = self._other(request)
            if hasattr(beside, "asearch"):
                return cast("Ranking", await beside.asearch(request))
            return await asyncio.to_thread(beside.search, request)
        _check(request)
        if _inherits(retriever, BaseRetriever, "_aretrieve"):
            return await asyncio.to_thread(self.search, request)
        try:
            return _ranking(await retriever.aretrieve(QueryBundle(request.query)), request)
        except Exception as error:
            raise service_error(error, request.route) from error

    def _other(self, request: Search) -> Store:
        if self._beside is None:
            raise ParameterError("route", request.route, f"one of {sorted(self._retrievers)}")
        return self._beside


def retriever_store(retrievers: Mapping[str, BaseRetriever], *, beside: Store | None = None) -> RetrieverStore:
    """Return a store whose routes are LlamaIndex retrievers, under the names given.

    How many nodes a retriever finds is set on the retriever. It embeds queries itself, and knows nothing of
    Catena's filters: a search with one is refused. Nodes come back as they were; two with equal texts and
    different ids stay two.

    Args:
        retrievers: route name -> retriever.
        beside: answers all other routes, e.g. `library.store`.

    Raises:
        ParameterError: there is no retriever.
    """
    if not retrievers:
        raise ParameterError("retrievers", dict(retrievers), "at least one name with its retriever")
    return RetrieverStore(retrievers, beside)


def _check(request: Search) -> None:
    if request.where:
        raise FilterError(request.where, f"the LlamaIndex retriever of route {request.route!r} takes no filter")


def _ranking(nodes: Sequence[NodeWithScore], request: Search) -> Ranking:
    ranking = to_ranking(nodes)
    hits = (
        Hit(hit.chunk, hit.score, (Provenance(route=request.route, rank=rank, score=hit.score),))
        for rank, hit in enumerate(ranking.hits, start=1)
        if request.among is None or hit.chunk.id in request.among
    )
    return Ranking.of(hits, ranking.scale).top(request.k)


@cache
def _shipped() -> Embedder:
    from catena.enrichment.static_embedding import StaticEmbedder

    return StaticEmbedder()


class CatenaEmbedding(BaseEmbedding):
    """A Catena embedder as a LlamaIndex embedding model; by default the shipped one: no key, no network.

    `model_name` is the embedder's identity, so that caches and stores tell models apart.

    Args:
        embedder: any Catena embedder; it is not serialised, and has to be given again with `from_dict`.
        fields: those of every LlamaIndex embedding model.

    Raises:
        ParameterError: the fields are those of another model than the embedder given.
    """

    embedder: Any = Field(  # an `Embedder`; a Protocol with properties, which pydantic would run to check it
        default=None, exclude=True, description="Any Catena embedder; the shipped static embedding by default."
    )

    def __init__(self, embedder: Embedder | None = None, **fields: Any) -> None:
        super().__init__(**{**fields, "embedder": embedder})
        identity = self._model.identity
        if self.model_name not in ("unknown", identity):
            raise ParameterError("embedder", identity, f"the embedder {self.model_name!r}, given again")
        self.model_name = identity

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which the model is serialised."""
        return "CatenaEmbedding"

    @property
    def _model(self) -> Embedder:
        return _shipped() if self.embedder is None else cast("Embedder", self.embedder)

    def _get_query_embedding(self, query: str) -> list[float]:
        return _floats(self._model.embed_query(query))

    async def _aget_query_embedding(self, query: str) -> list[float]:
        model: Any = self._model
        if hasattr(model, "aembed_query"):
            return _floats(await model.aembed_query(query))
        return await asyncio.to_thread(self._get_query_embedding, query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return [_floats(row) for row in self._model.embed_documents(texts)]

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return (await self._aget_text_embeddings([text]))[0]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        model: Any = self._model
        if hasattr(model, "aembed_documents"):
            return [_floats(row) for row in await model.aembed_documents(texts)]
        return await asyncio.to_thread(self._get_text_embeddings, texts)


def _floats(row: NDArray[np.float32]) -> list[float]:
    return [float(value) for value in row]


def _inherits(thing: object, base: type, *methods: str) -> bool:
    """Whether an object has these methods from the base class, whose async ones call the sync ones.

    LlamaIndex wraps inherited methods anew in every subclass, hence `unwrap`.
    """
    return all(unwrap(getattr(type(thing), name)) is unwrap(getattr(base, name)) for name in methods)

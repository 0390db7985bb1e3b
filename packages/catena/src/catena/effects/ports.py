"""The outside world as Catena sees it: what a model or a store must offer, with shapes and units.

A service needs its sync method only. Where it also has the async twin (`acomplete`, `aembed_documents`,
…), asyncio drivers await that; otherwise they run the sync one in a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import numpy as np
    from numpy.typing import NDArray

    from catena.effects.steps import Complete, CountWords, Expand, FetchById, FetchNodes, Search
    from catena.model import Chunk, Ranking
    from catena.model.neighbourhood import Neighbourhood, Nodes, WordCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A language model's reply, with why it ended and what it took."""

    text: str
    finish_reason: str = "stop"  # "stop" | "length" | "refusal" | "content_filter"
    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0  # of the output tokens, those that the model thought and did not show


@runtime_checkable
class LLM(Protocol):
    """A text-in, text-out language model."""

    @property
    def identity(self) -> str:
        """Service and model: replies kept under one identity are never served for another."""

    def complete(self, request: Complete) -> Completion:
        """Return the reply to one prompt; raise `ServiceError` on failure."""


@runtime_checkable
class Embedder(Protocol):
    """Texts to vectors whose dot product is their similarity."""

    @property
    def identity(self) -> str:
        """Model and version: vectors of different identities are never compared."""

    @property
    def dim(self) -> int:
        """Length of a vector."""

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit-length rows, shape (len(texts), dim), in the order of `texts`."""

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return one unit-length vector, shape (dim,)."""


@runtime_checkable
class TokenEmbedder(Protocol):
    """Texts to one vector per token, for late interaction: the dot product of two tokens is their similarity."""

    @property
    def identity(self) -> str:
        """Model and version: token vectors of different identities are never compared."""

    def embed_document_tokens(self, texts: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        """Return per text, in order, unit-length rows of shape (tokens, dim); (0, dim) for a text without tokens."""

    def embed_query_tokens(self, text: str) -> NDArray[np.float32]:
        """Return unit-length rows, shape (tokens, dim)."""


@runtime_checkable
class Reranker(Protocol):
    """Scores query and text together."""

    @property
    def identity(self) -> str: ...

    def score(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return one raw score per text, in order; higher is better, the unit is the model's own."""


@runtime_checkable
class Captioner(Protocol):
    """Describes a picture in words."""

    @property
    def identity(self) -> str: ...

    def caption(self, image: bytes, prompt: str) -> str:
        """Return a description of the image (PNG or JPEG bytes)."""


@runtime_checkable
class EntityRecognizer(Protocol):
    """Finds names in texts."""

    @property
    def identity(self) -> str: ...

    def recognise(self, texts: Sequence[str], labels: Sequence[str]) -> Sequence[Sequence[str]]:
        """Return per text, in order, the entities of these labels as printed; no labels: its own choice."""


@runtime_checkable
class Tokenizer(Protocol):
    """Counts the tokens of a text, for length limits and prices."""

    @property
    def identity(self) -> str: ...

    def count(self, text: str) -> int:
        """Return the number of tokens of the text."""


@runtime_checkable
class Store(Protocol):
    """Anything that ranks chunks for a query: our library, a server, a framework's retriever.

    A store may also say which names of documents a question says (`names(FindNames) -> NamesFound`), give chunks
    by their place (`chunks(FetchChunks)`), slices of documents (`texts(FetchText)`), their pages (`places(spans)`),
    documents (`whole(ids)`), what it holds (`inspect(Inspect) -> Holdings`) and the ranking of the whole formula in
    one go (`search_fused(SearchFused) -> Fused`), and have the async twin of each. What it lacks costs what rests on
    it, never the search. Where it has `snapshot() -> StoreSnapshot | None`, all that one step asks is answered
    from one state of it.
    """

    @property
    def routes(self) -> tuple[str, ...]:
        """The names of the routes it answers."""

    def search(self, request: Search) -> Ranking:
        """Return at most `request.k` hits of one route, best first.

        Raises:
            FilterError: the route cannot obey `request.where`; it is never ignored.
        """


class StoreSnapshot(Protocol):
    """One state of a store, for as long as it is open; it is taken when the store is first asked something."""

    @property
    def is_open(self) -> bool:
        """True once the store was asked something."""

    def active(self) -> AbstractContextManager[None]:
        """Answer this thread or task, and those that it starts, from this state until the block ends."""

    def close(self) -> None:
        """Let go of the state; what is still being answered is answered from it."""


@runtime_checkable
class Graph(Protocol):
    """A chunk-interaction graph that can be walked: in memory, of a library, or on a server.

    A graph may also say which nodes cover terms (`covering(FindCovering) -> Nodes`) and what joins two nodes, with
    the words that they share (`describe_edges(DescribeEdges) -> tuple[Edge | None, ...]`), and have the async twin of
    each method (`aexpand`, ...). What it lacks costs what rests on it: seeds by keywords, the words of the hops.
    """

    def expand(self, request: Expand) -> Neighbourhood:
        """Return the neighbours of nodes, and the edges by which they are."""

    def nodes(self, request: FetchNodes) -> Nodes:
        """Return nodes by id, in the order asked for, without those that it does not have."""

    def count_words(self, request: CountWords) -> WordCounts:
        """Return in how many nodes each word is."""

    def chunks_by_id(self, request: FetchById) -> tuple[Chunk | None, ...]:
        """Return the chunk of each id, None where there is none."""

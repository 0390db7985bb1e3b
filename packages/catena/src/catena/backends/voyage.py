"""Voyage AI's rerank and embedding models by its SDK (extra `voyage`), sync and async.

Tested against recordings made by hand from the documented shapes (`tests/backends/cassettes`), never against
the service itself.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final, Unpack

from catena.backends.hosted import (
    MODELS,
    Access,
    HostedEmbedder,
    HostedModel,
    HostedReranker,
    RatingPlan,
    in_order,
    portions,
    rating_plan,
    size_in_bytes,
)
from catena.model.errors import ServiceError

MAX_ITEMS: Final = 1_000  # documents of one rerank request, texts of one embedding request
MAX_ITEMS_OLD: Final = 128  # texts of one request to the models before voyage-3.5
SPARE_TOKENS: Final = 96  # of a window, for the special tokens that a model adds
# Tokens of query and one document together, and of one request: query * documents + all documents.
RERANK_TOKENS: Final[dict[str, tuple[int, int]]] = MODELS["voyage"]["rerankers"]
UNKNOWN_RERANKER: Final = (4_000, 300_000)
# Length of a vector, and tokens of one request.
EMBEDDERS: Final[dict[str, tuple[int, int]]] = MODELS["voyage"]["embedders"]
UNKNOWN_EMBEDDER_TOKENS: Final = 120_000
_THOUSAND: Final = ("voyage-4", "voyage-3.5", "voyage-3-large", "voyage-code-3", "voyage-finance-2", "voyage-law-2")


class _Voyage(HostedModel):
    """A model at Voyage AI.

    The SDK's resources are called, not its clients: those drop the index of a vector, which is its only tie to a
    text, run some models on this machine instead of the service's, and bring retries of their own.
    """

    service, package = "voyage", "voyageai"
    variable = "VOYAGE_API_KEY"
    resource: ClassVar[str]

    def _connect(self) -> None:
        import voyageai

        self._resource: Any = getattr(voyageai, self.resource)

    def _send(self, body: dict[str, Any], *, is_async: bool = False) -> Any:
        create = self._resource.acreate if is_async else self._resource.create
        access = {"api_key": self._account.key, "base_url": self._account.base_url, "request_timeout": self._timeout}
        return create(**access, model=self.model, truncation=self._truncate, **body)

    def _items(self, reply: Any) -> Iterable[Any]:
        """Return what the reply lists; the SDK takes statuses it does not know, as 529, for success."""
        if "data" not in reply and "detail" in reply:
            raise ServiceError(self.identity, f"overloaded or out of order: {self._account.words(reply)}", retry=True)
        items: Iterable[Any] = reply.data
        return items


class VoyageReranker(_Voyage, HostedReranker):
    """Scores texts in [0, 1] by a Voyage reranker. Failures come as `ServiceError`; the driver retries.

    Requests hold at most 1,000 documents, and no more tokens than the model takes at once, counted as UTF-8 bytes
    (never fewer than the tokens); more are split, and the whole question is asked again when one of its requests
    fails. An empty text is not sent and scores 0.0. What is too long for the service is not cut silently: by
    default a text that may not fit beside the query is scored in windows, by the best of them, and a query that
    is too long is refused by the service, which is an error.

    Args:
        model: its name at Voyage; one that `RERANK_TOKENS` does not know is taken to have the smallest limits.
        api_key: by default the environment's VOYAGE_API_KEY.
        truncate: send texts whole; the service drops what is too long, of the query, too.
        base_url: of another address; by default the one the key is for.
        timeout: seconds for one request.

    Raises:
        MissingExtraError: the SDK is not installed.
        ParameterError: there is no key.

    Source: https://docs.voyageai.com/reference/reranker-api
    """

    resource = "Reranking"

    def __init__(self, model: str = "rerank-2.5", **access: Unpack[Access]) -> None:
        super().__init__(model, **access)

    def _plan(self, query: str, texts: Sequence[str]) -> RatingPlan:
        pair, request = RERANK_TOKENS.get(self.model, UNKNOWN_RERANKER)
        # A long query leaves a quarter to the text: the service then refuses what does not fit after all.
        window = None if self._truncate else max(pair - size_in_bytes(query) - SPARE_TOKENS, pair // 4)
        return rating_plan(query, texts, window=window, max_count=MAX_ITEMS, max_size=request)

    def _body(self, query: str, documents: Sequence[str]) -> dict[str, Any]:
        return {"query": query, "documents": list(documents), "top_k": None}


class VoyageEmbedder(_Voyage, HostedEmbedder):
    """Embeds by a Voyage model, documents and queries as what they are. The driver retries.

    Requests hold at most 1,000 texts (128 for models before voyage-3.5), and no more tokens than the model takes
    at once, counted as UTF-8 bytes (never fewer than the tokens); more are split. A text longer than the model
    reads (32,000 tokens, 16,000 for voyage-law-2) is refused by the service, and that is an error, unless
    `truncate` is set. An empty text is refused before anything is sent.

    Args:
        model: its name at Voyage.
        dim: length of a vector; needed for a model that `EMBEDDERS` does not know, else chosen where the model
            leaves the choice (256, 512, 1024 or 2048 from voyage-3-large on).
        api_key: by default the environment's VOYAGE_API_KEY.
        truncate: let the service drop the end of a text that is too long.
        base_url: of another address; by default the one the key is for.
        timeout: seconds for one request.

    Raises:
        MissingExtraError: the SDK is not installed.
        ParameterError: there is no key, or the length of the vectors is not known.

    Source: https://docs.voyageai.com/reference/embeddings-api
    """

    resource = "Embedding"
    document_kind, query_kind = "document", "query"

    def __init__(self, model: str = "voyage-3.5", *, dim: int | None = None, **access: Unpack[Access]) -> None:
        default, self._max_tokens = EMBEDDERS.get(model, (None, UNKNOWN_EMBEDDER_TOKENS))
        super().__init__(model, default, dim, **access)

    def _parts(self, texts: Sequence[str]) -> list[Sequence[str]]:
        sizes = [size_in_bytes(text) for text in texts]
        most = MAX_ITEMS if self.model.startswith(_THOUSAND) else MAX_ITEMS_OLD
        return [texts[run] for run in portions(sizes, max_count=most, max_size=self._max_tokens)]

    def _body(self, texts: Sequence[str], kind: str) -> dict[str, Any]:
        chosen = {"output_dtype": None, "output_dimension": self._chosen, "encoding_format": "base64"}
        return {"input": list(texts), "input_type": kind, **chosen}

    def _vectors(self, reply: Any, count: int) -> Any:
        return in_order(((item.index, _vector(item.embedding)) for item in self._items(reply)), count)


def _vector(embedding: Any) -> Any:
    """Return the numbers of a vector: sent as base64 of float32, the lower byte first, or as a list."""
    import numpy as np

    return np.frombuffer(b64decode(embedding), dtype="<f4") if isinstance(embedding, str) else embedding

"""Voyage AI's rerank and embedding models by its SDK (extra `voyage`), sync and async.

Tested against recordings made by hand from the documented shapes (`tests/backends/cassettes`), never against
the service itself.
"""

from __future__ import annotations

from base64 import b64decode
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from catena.backends.hosted import (
    HostedEmbedder,
    account,
    in_order,
    portions,
    rating_plan,
    scores_in_order,
    size_in_bytes,
    stacked,
    unit_rows,
)
from catena.model.errors import MissingExtraError, ParameterError, ServiceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from catena.backends.hosted import RatingPlan

KEY: Final = "VOYAGE_API_KEY"
MAX_ITEMS: Final = 1_000  # documents of one rerank request, texts of one embedding request
MAX_ITEMS_OLD: Final = 128  # texts of one request to the models before voyage-3.5
SPARE_TOKENS: Final = 96  # of a window, for the special tokens that a model adds
# Tokens of query and one document together, and of one request: query * documents + all documents.
RERANK_TOKENS: Final = {
    "rerank-2.5": (32_000, 600_000),
    "rerank-2.5-lite": (32_000, 600_000),
    "rerank-2": (16_000, 600_000),
    "rerank-2-lite": (8_000, 600_000),
    "rerank-1": (8_000, 300_000),
    "rerank-lite-1": (4_000, 300_000),
}
UNKNOWN_RERANKER: Final = (4_000, 300_000)
# Length of a vector, and tokens of one request.
EMBEDDERS: Final = {
    "voyage-4-large": (1024, 120_000),
    "voyage-4": (1024, 320_000),
    "voyage-4-lite": (1024, 1_000_000),
    "voyage-3.5": (1024, 320_000),
    "voyage-3.5-lite": (1024, 1_000_000),
    "voyage-3-large": (1024, 120_000),
    "voyage-3": (1024, 120_000),
    "voyage-3-lite": (512, 120_000),
    "voyage-code-3": (1024, 120_000),
    "voyage-finance-2": (1024, 120_000),
    "voyage-law-2": (1024, 120_000),
    "voyage-multilingual-2": (1024, 120_000),
}
UNKNOWN_EMBEDDER_TOKENS: Final = 120_000
_THOUSAND: Final = ("voyage-4", "voyage-3.5", "voyage-3-large", "voyage-code-3", "voyage-finance-2", "voyage-law-2")


class _Voyage:
    """A model at Voyage AI.

    The SDK's resources are called, not its clients: those drop the index of a vector, which is its only tie to a
    text, run some models on this machine instead of the service's, and bring retries of their own.
    """

    def __init__(self, model: str, *settings: str, api_key: str | None, base_url: str | None, timeout: float) -> None:
        if find_spec("voyageai") is None:
            raise MissingExtraError("voyageai", "catena-core[voyage]")
        self._account = account("voyage", KEY, api_key, base_url)
        self.model, self._timeout = model, timeout
        self.identity = self._account.identity(model, *settings)
        _sdk()  # takes seconds: not in the first call, which may be inside an event loop

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        _sdk()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.identity!r})"

    def _access(self) -> dict[str, Any]:
        return {"api_key": self._account.key, "base_url": self._account.base_url, "request_timeout": self._timeout}

    def _items(self, reply: Any) -> Any:
        """Return what the reply lists; the SDK takes statuses it does not know, as 529, for success."""
        if "data" not in reply and "detail" in reply:
            raise ServiceError(self.identity, f"overloaded or out of order: {self._account.words(reply)}", retry=True)
        return reply.data


class VoyageReranker(_Voyage):
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

    def __init__(
        self,
        model: str = "rerank-2.5",
        *,
        api_key: str | None = None,
        truncate: bool = False,
        base_url: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        settings = ["truncated"] if truncate else []
        super().__init__(model, *settings, api_key=api_key, base_url=base_url, timeout=timeout)
        self._truncate = truncate

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Return one score in [0, 1] per text, in the order of `texts`.

        Raises:
            ServiceError: a request failed.
            ParameterError: the query is empty.
        """
        plan = self._plan(query, texts)
        try:
            return plan.scores(
                self._scores(_sdk().Reranking.create(**self._access(), **self._body(query, part)), part)
                for part in plan.requests
            )
        except Exception as error:
            raise self._account.failure(error, self.identity) from None

    async def ascore(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """As `score`, without blocking the event loop."""
        plan = self._plan(query, texts)
        try:
            return plan.scores(
                [
                    self._scores(await _sdk().Reranking.acreate(**self._access(), **self._body(query, part)), part)
                    for part in plan.requests
                ]
            )
        except Exception as error:
            raise self._account.failure(error, self.identity) from None

    def _plan(self, query: str, texts: Sequence[str]) -> RatingPlan:
        pair, request = RERANK_TOKENS.get(self.model, UNKNOWN_RERANKER)
        # A long query leaves a quarter to the text: the service then refuses what does not fit after all.
        window = max(pair - size_in_bytes(query) - SPARE_TOKENS, pair // 4)
        return rating_plan(
            query, texts, window=None if self._truncate else window, max_count=MAX_ITEMS, max_size=request
        )

    def _body(self, query: str, documents: Sequence[str]) -> dict[str, Any]:
        return {
            "query": query,
            "documents": list(documents),
            "model": self.model,
            "top_k": None,
            "truncation": self._truncate,
        }

    def _scores(self, reply: Any, documents: Sequence[str]) -> list[float]:
        return scores_in_order(((item.index, item.relevance_score) for item in self._items(reply)), len(documents))


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

    document_kind = "document"
    query_kind = "query"

    def __init__(
        self,
        model: str = "voyage-3.5",
        *,
        dim: int | None = None,
        api_key: str | None = None,
        truncate: bool = False,
        base_url: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        default, self._max_tokens = EMBEDDERS.get(model, (None, UNKNOWN_EMBEDDER_TOKENS))
        known = dim or default
        if known is None:
            raise ParameterError("dim", dim, f"given for {model!r}, whose vectors' length is not known here")
        settings = [f"{known} dimensions", *(["truncated"] if truncate else [])]
        super().__init__(model, *settings, api_key=api_key, base_url=base_url, timeout=timeout)
        self.dim: int = known
        self._chosen = None if dim == default else dim
        self._truncate = truncate

    def _reply(self, texts: Sequence[str], kind: str) -> Any:
        return _sdk().Embedding.create(**self._access(), **self._body(texts, kind))

    async def _areply(self, texts: Sequence[str], kind: str) -> Any:
        return await _sdk().Embedding.acreate(**self._access(), **self._body(texts, kind))

    def _parts(self, texts: Sequence[str]) -> list[Sequence[str]]:
        sizes = [size_in_bytes(text) for text in texts]
        most = MAX_ITEMS if self.model.startswith(_THOUSAND) else MAX_ITEMS_OLD
        return [texts[run] for run in portions(sizes, max_count=most, max_size=self._max_tokens)]

    def _body(self, texts: Sequence[str], kind: str) -> dict[str, Any]:
        return {
            "input": list(texts),
            "model": self.model,
            "input_type": kind,
            "truncation": self._truncate,
            "output_dtype": None,
            "output_dimension": self._chosen,
            "encoding_format": "base64",
        }

    def _rows(self, replies: Sequence[Any], texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the rows of all requests, each in the order of its texts, by the index that comes with it."""
        parts = []
        for reply, part in zip(replies, self._parts(texts), strict=True):
            pairs = ((item.index, _vector(item.embedding)) for item in self._items(reply))
            parts.append(unit_rows(in_order(pairs, len(part)), len(part), self.dim))
        return stacked(parts, self.dim)


def _sdk() -> Any:
    """Return the SDK; it does not say which of its names are public, so it is not typed here."""
    import voyageai

    return voyageai


def _vector(embedding: Any) -> Any:
    """Return the numbers of a vector: sent as base64 of float32, the lower byte first, or as a list."""
    import numpy as np

    return np.frombuffer(b64decode(embedding), dtype="<f4") if isinstance(embedding, str) else embedding

"""Cohere's rerank and embed models by its SDK (extra `cohere`), sync and async.

Tested against recordings made by hand from the documented shapes (`tests/backends/cassettes`), never against
the service itself.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Self

from catena.backends.hosted import HostedEmbedder, account, portions, rating_plan, scores_in_order, stacked, unit_rows
from catena.model.errors import MissingExtraError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from catena.backends.hosted import RatingPlan

KEY: Final = "CO_API_KEY"
MAX_DOCUMENTS: Final = 1_000  # of one rerank request; the API reference recommends no more
MAX_TEXTS: Final = 96  # of one embed request
MAX_TOKENS: Final = 4_096  # of a document; rerank-v4.0 and later read 32,768
SPARE_TOKENS: Final = 96  # of a window, for the special tokens that a model adds
DIMENSIONS: Final = {
    "embed-v4.0": 1536,
    "embed-english-v3.0": 1024,
    "embed-multilingual-v3.0": 1024,
    "embed-english-light-v3.0": 384,
    "embed-multilingual-light-v3.0": 384,
}
_ONCE: Final[dict[str, Any]] = {"max_retries": 0}  # the driver retries, not the SDK
# Each asynchronous call has its own connection: a kept one would belong to an event loop that may be gone.
_ONCE_ASYNC: Final[dict[str, Any]] = {**_ONCE, "additional_headers": {"Connection": "close"}}


class _Cohere:
    """A model at Cohere: the SDK's two clients, made anew where it is unpickled, with the key found there."""

    def __init__(self, model: str, *settings: str, api_key: str | None, base_url: str | None, timeout: float) -> None:
        if find_spec("cohere") is None:
            raise MissingExtraError("cohere", "catena-core[cohere]")
        self._account = account("cohere", KEY, api_key, base_url or os.environ.get("CO_API_URL"))
        self.model, self._timeout = model, timeout
        self.identity = self._account.identity(model, *settings)
        self._connect()

    def _connect(self) -> None:
        import cohere

        options: dict[str, Any] = {
            "api_key": self._account.key,
            "base_url": self._account.base_url,
            "timeout": self._timeout,
        }
        self._client: Any = cohere.ClientV2(**options)
        self._async_client: Any = cohere.AsyncClientV2(**options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.identity!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_client", "_async_client")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the kept connections."""
        self._client.__exit__(None, None, None)


class CohereReranker(_Cohere):
    """Scores texts in [0, 1] by a Cohere reranker. Failures come as `ServiceError`; the driver retries.

    Requests hold at most 1,000 documents; more are split, and the whole question is asked again when one of its
    requests fails. An empty text is not sent and scores 0.0. What is too long for the service is not cut
    silently: by default a text of more than `max_tokens` - 96 UTF-8 bytes (never more tokens than that) is
    scored in windows, by the best of them.

    Args:
        model: its name at Cohere.
        api_key: by default the environment's CO_API_KEY.
        max_tokens: of a document that the model reads, at least 256.
        truncate: send texts whole; the service drops what is beyond `max_tokens`.
        base_url: of another address, by default the environment's CO_API_URL.
        timeout: seconds for one request.

    Raises:
        MissingExtraError: the SDK is not installed.
        ParameterError: there is no key, or `max_tokens` is too small.

    Source: https://docs.cohere.com/reference/rerank
    """

    def __init__(
        self,
        model: str = "rerank-v3.5",
        *,
        api_key: str | None = None,
        max_tokens: int = MAX_TOKENS,
        truncate: bool = False,
        base_url: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        if max_tokens < 256:
            raise ParameterError("max_tokens", max_tokens, "at least 256")
        settings = [
            *([f"{max_tokens} tokens"] if max_tokens != MAX_TOKENS else []),
            *(["truncated"] if truncate else []),
        ]
        super().__init__(model, *settings, api_key=api_key, base_url=base_url, timeout=timeout)
        self._max_tokens, self._truncate = max_tokens, truncate

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Return one score in [0, 1] per text, in the order of `texts`.

        Raises:
            ServiceError: a request failed.
            ParameterError: the query is empty.
        """
        plan = self._plan(query, texts)
        try:
            return plan.scores(
                self._scores(self._client.rerank(**self._body(query, part), request_options=_ONCE), part)
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
                    self._scores(
                        await self._async_client.rerank(**self._body(query, part), request_options=_ONCE_ASYNC), part
                    )
                    for part in plan.requests
                ]
            )
        except Exception as error:
            raise self._account.failure(error, self.identity) from None

    def _plan(self, query: str, texts: Sequence[str]) -> RatingPlan:
        window = None if self._truncate else self._max_tokens - SPARE_TOKENS
        return rating_plan(query, texts, window=window, max_count=MAX_DOCUMENTS, max_size=None)

    def _body(self, query: str, documents: Sequence[str]) -> dict[str, Any]:
        return {
            "model": self.model,
            "query": query,
            "documents": list(documents),
            "max_tokens_per_doc": self._max_tokens,
        }

    @staticmethod
    def _scores(reply: Any, documents: Sequence[str]) -> list[float]:
        return scores_in_order(((item.index, item.relevance_score) for item in reply.results), len(documents))


class CohereEmbedder(_Cohere, HostedEmbedder):
    """Embeds by a Cohere model, documents and queries as what they are. The driver retries.

    Requests hold at most 96 texts; more are split. A text longer than the model reads (512 tokens for v3, 128,000
    for v4) is refused by the service, and that is an error, unless `truncate` is set. An empty text is refused
    before anything is sent.

    Args:
        model: its name at Cohere.
        dim: length of a vector; needed for a model that `DIMENSIONS` does not know, else chosen where the model
            leaves the choice (256, 512, 1024 or 1536 for embed-v4.0).
        api_key: by default the environment's CO_API_KEY.
        truncate: let the service drop the end of a text that is too long.
        base_url: of another address, by default the environment's CO_API_URL.
        timeout: seconds for one request.

    Raises:
        MissingExtraError: the SDK is not installed.
        ParameterError: there is no key, or the length of the vectors is not known.

    Source: https://docs.cohere.com/reference/embed
    """

    document_kind = "search_document"
    query_kind = "search_query"

    def __init__(
        self,
        model: str = "embed-v4.0",
        *,
        dim: int | None = None,
        api_key: str | None = None,
        truncate: bool = False,
        base_url: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        known = dim or DIMENSIONS.get(model)
        if known is None:
            raise ParameterError("dim", dim, f"given for {model!r}, whose vectors' length is not known here")
        settings = [f"{known} dimensions", *(["truncated"] if truncate else [])]
        super().__init__(model, *settings, api_key=api_key, base_url=base_url, timeout=timeout)
        self.dim: int = known
        self._chosen = {} if dim is None or dim == DIMENSIONS.get(model) else {"output_dimension": dim}
        self._truncate = "END" if truncate else "NONE"

    def _parts(self, texts: Sequence[str]) -> list[Sequence[str]]:
        return [texts[run] for run in portions([0] * len(texts), max_count=MAX_TEXTS)]

    def _reply(self, texts: Sequence[str], kind: str) -> Any:
        return self._client.embed(**self._body(texts, kind), request_options=_ONCE)

    async def _areply(self, texts: Sequence[str], kind: str) -> Any:
        return await self._async_client.embed(**self._body(texts, kind), request_options=_ONCE_ASYNC)

    def _body(self, texts: Sequence[str], kind: str) -> dict[str, Any]:
        return {
            "model": self.model,
            "input_type": kind,
            "texts": list(texts),
            "embedding_types": ["float"],
            "truncate": self._truncate,
            **self._chosen,
        }

    def _rows(self, replies: Sequence[Any], texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the rows of all requests; each request must have answered its own texts."""
        parts = zip(replies, self._parts(texts), strict=True)
        return stacked([unit_rows(reply.embeddings.float_, len(part), self.dim) for reply, part in parts], self.dim)

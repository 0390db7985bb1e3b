"""Cohere's rerank and embed models by its SDK (extra `cohere`), sync and async.

Tested against recordings made by hand from the documented shapes (`tests/backends/cassettes`), never against
the service itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Self, Unpack

from catena.backends.hosted import (
    MODELS,
    Access,
    HostedEmbedder,
    HostedModel,
    HostedReranker,
    RatingPlan,
    portions,
    rating_plan,
)
from catena.model.errors import ParameterError

MAX_DOCUMENTS: Final = 1_000  # of one rerank request; the API reference recommends no more
MAX_TEXTS: Final = 96  # of one embed request
MAX_TOKENS: Final = 4_096  # of a document; rerank-v4.0 and later read 32,768
SPARE_TOKENS: Final = 96  # of a window, for the special tokens that a model adds
DIMENSIONS: Final[dict[str, int]] = MODELS["cohere"]["embedders"]
_ONCE: Final[dict[str, Any]] = {"max_retries": 0}  # the driver retries, not the SDK
# Each asynchronous call has its own connection: a kept one would belong to an event loop that may be gone.
_ONCE_ASYNC: Final[dict[str, Any]] = {**_ONCE, "additional_headers": {"Connection": "close"}}


class _Cohere(HostedModel):
    """A model at Cohere: the SDK's two clients, made anew where it is unpickled, with the key found there."""

    service = package = "cohere"
    variable, address = "CO_API_KEY", "CO_API_URL"
    operation: ClassVar[str]

    def _connect(self) -> None:
        import cohere

        of_account = {"api_key": self._account.key, "base_url": self._account.base_url}
        options: dict[str, Any] = {**of_account, "timeout": self._timeout}
        self._client: Any = cohere.ClientV2(**options)
        self._async_client: Any = cohere.AsyncClientV2(**options)

    def _send(self, body: dict[str, Any], *, is_async: bool = False) -> Any:
        client, options = (self._async_client, _ONCE_ASYNC) if is_async else (self._client, _ONCE)
        return getattr(client, self.operation)(model=self.model, **body, request_options=options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the kept connections."""
        self._client.__exit__(None, None, None)


class CohereReranker(_Cohere, HostedReranker):
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

    operation = "rerank"

    def __init__(self, model: str = "rerank-v3.5", *, max_tokens: int = MAX_TOKENS, **access: Unpack[Access]) -> None:
        if max_tokens < 256:
            raise ParameterError("max_tokens", max_tokens, "at least 256")
        settings = [f"{max_tokens} tokens"] if max_tokens != MAX_TOKENS else []
        super().__init__(model, *settings, **access)
        self._max_tokens = max_tokens

    def _plan(self, query: str, texts: Sequence[str]) -> RatingPlan:
        window = None if self._truncate else self._max_tokens - SPARE_TOKENS
        return rating_plan(query, texts, window=window, max_count=MAX_DOCUMENTS, max_size=None)

    def _body(self, query: str, documents: Sequence[str]) -> dict[str, Any]:
        return {"query": query, "documents": list(documents), "max_tokens_per_doc": self._max_tokens}

    def _items(self, reply: Any) -> Any:
        return reply.results


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

    operation = "embed"
    document_kind, query_kind = "search_document", "search_query"

    def __init__(self, model: str = "embed-v4.0", *, dim: int | None = None, **access: Unpack[Access]) -> None:
        super().__init__(model, DIMENSIONS.get(model), dim, **access)

    def _parts(self, texts: Sequence[str]) -> list[Sequence[str]]:
        return [texts[run] for run in portions([0] * len(texts), max_count=MAX_TEXTS)]

    def _body(self, texts: Sequence[str], kind: str) -> dict[str, Any]:
        chosen = {} if self._chosen is None else {"output_dimension": self._chosen}
        cut = "END" if self._truncate else "NONE"
        return {"input_type": kind, "texts": list(texts), "embedding_types": ["float"], "truncate": cut, **chosen}

    def _vectors(self, reply: Any, count: int) -> Any:
        return reply.embeddings.float_

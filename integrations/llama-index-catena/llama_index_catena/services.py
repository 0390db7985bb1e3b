"""LlamaIndex's models as Catena's services.

Their errors become ours; where a LlamaIndex class has no async code of its own (its inherited methods would
block the event loop), the sync code runs in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from inspect import unwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ImageBlock, MessageRole, TextBlock
from llama_index.core.llms import LLM, CustomLLM

from catena.effects import Complete, Journal, Services
from catena.errors import CatenaError, InvalidReplyError, ParameterError
from catena.faults import service_error
from catena.ports import Completion, Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CAPTION_TOKENS = 400  # at most, of a caption; three sentences take some 100

_JPEG = b"\xff\xd8\xff"
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
        if not texts or inherits(self._embedding, BaseEmbedding, "_aget_text_embedding", "_aget_text_embeddings"):
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
        return self._chat(_messages(request), request.max_tokens)

    async def acomplete(self, request: Complete) -> Completion:
        """As `complete`, without blocking the event loop."""
        return await self._achat(_messages(request), request.max_tokens)

    def _chat(self, messages: Sequence[ChatMessage], max_tokens: int) -> Completion:
        try:
            return completion_of(self._llm.chat(messages, **self._limit(max_tokens)))
        except Exception as error:
            raise service_error(error, self.identity) from error

    async def _achat(self, messages: Sequence[ChatMessage], max_tokens: int) -> Completion:
        if isinstance(self._llm, CustomLLM) and inherits(self._llm, CustomLLM, "achat"):
            return await asyncio.to_thread(self._chat, messages, max_tokens)
        try:
            return completion_of(await self._llm.achat(messages, **self._limit(max_tokens)))
        except Exception as error:
            raise service_error(error, self.identity) from error

    def _limit(self, max_tokens: int) -> dict[str, Any]:
        return {self._max_tokens_name: max_tokens} if self._max_tokens_name else {}


class LlamaIndexCaptioner(LlamaIndexLLM):
    """A LlamaIndex language model that can see, as the core's captioner: `Library.open(..., captioner=...)`.

    Made as `LlamaIndexLLM`; the picture goes with the message as an `ImageBlock`.
    """

    def caption(self, image: bytes, prompt: str) -> str:
        """Return a description of the image (PNG or JPEG bytes).

        Raises:
            ServiceError: the call failed, or the reply was cut or refused.
        """
        return self._described(self._chat(_about(image, prompt), CAPTION_TOKENS))

    async def acaption(self, image: bytes, prompt: str) -> str:
        """As `caption`, without blocking the event loop."""
        return self._described(await self._achat(_about(image, prompt), CAPTION_TOKENS))

    def _described(self, completion: Completion) -> str:
        if completion.finish_reason != "stop":
            why = f"the caption did not end by itself (finish_reason {completion.finish_reason!r})"
            raise InvalidReplyError(self.identity, why)
        return completion.text


def language_model(llm: LLM | LlamaIndexLLM) -> LlamaIndexLLM:
    """Return a LlamaIndex language model as the core's; one that is the core's already as it is."""
    return llm if isinstance(llm, LlamaIndexLLM) else LlamaIndexLLM(llm)


def core_embedder(embed_model: BaseEmbedding | Embedder) -> Embedder:
    """Return a LlamaIndex embedding model as the core's; one that is the core's already as it is.

    Raises:
        ParameterError: it is neither.
    """
    if isinstance(embed_model, BaseEmbedding):
        return LlamaIndexEmbedder(embed_model)
    if not hasattr(embed_model, "embed_query"):
        allowed = "a LlamaIndex embedding model or a Catena embedder"
        raise ParameterError("embed_model", type(embed_model).__name__, allowed)
    return embed_model


def model_services(llm: LLM | None, embed_model: BaseEmbedding | None, **behaviour: Any) -> Services:
    """Return services of LlamaIndex's models, as far as they are given; `behaviour` as of `Services`."""
    return Services(
        llm=None if llm is None else LlamaIndexLLM(llm),
        embedder=None if embed_model is None else LlamaIndexEmbedder(embed_model),
        **behaviour,
    )


@contextmanager
def journalled(services: Services, path: str | Path | None) -> Iterator[Services]:
    """Keep replies in the journal at `path` while the context lasts; None leaves the services as they are."""
    if path is None:
        yield services
        return
    with Journal.open(path) as journal:
        yield replace(services, journal=journal)


@asynccontextmanager
async def ajournalled(services: Services, path: str | Path | None) -> AsyncIterator[Services]:
    """As `journalled`, without blocking the event loop."""
    if path is None:
        yield services
        return
    journal = await asyncio.to_thread(Journal.open, path)
    try:
        yield replace(services, journal=journal)
    finally:
        await asyncio.to_thread(journal.close)


def _about(image: bytes, prompt: str) -> list[ChatMessage]:
    kind = "image/jpeg" if image.startswith(_JPEG) else "image/png"
    return [
        ChatMessage(
            role=MessageRole.USER, blocks=[TextBlock(text=prompt), ImageBlock(image=image, image_mimetype=kind)]
        )
    ]


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


def inherits(thing: object, base: type, *methods: str) -> bool:
    """Whether an object has these methods from the base class, whose async ones call the sync ones.

    LlamaIndex wraps inherited methods anew in every subclass, hence `unwrap`.
    """
    return all(unwrap(getattr(type(thing), name)) is unwrap(getattr(base, name)) for name in methods)

"""LangChain models as the core's services, and the core's embedder as LangChain embeddings."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel, BaseLanguageModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from numpy.typing import NDArray

from catena.effects import Complete
from catena.errors import ParameterError, ServiceError
from catena.ports import Completion, Embedder


class LangChainEmbedder:
    """Any LangChain embeddings as the core's embedder; vectors are brought to unit length."""

    def __init__(self, embeddings: Embeddings, *, identity: str | None = None) -> None:
        self.embeddings = embeddings
        self.identity = identity or identity_of(embeddings)
        self._dim: int | None = None

    @property
    def dim(self) -> int:
        """Length of a vector; asked of the model once."""
        if self._dim is None:
            self._dim = len(self.embeddings.embed_query("dimension"))
        return self._dim

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return _unit(self.embeddings.embed_documents(list(texts)))

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return _unit_row(self.embeddings.embed_query(text))

    async def aembed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return _unit(await self.embeddings.aembed_documents(list(texts)))

    async def aembed_query(self, text: str) -> NDArray[np.float32]:
        return _unit_row(await self.embeddings.aembed_query(text))


def to_embedder(given: Embeddings | Embedder) -> Embedder:
    """Return embeddings of either kind as the core's embedder.

    Raises:
        ParameterError: they are neither.
    """
    if isinstance(given, CatenaEmbeddings):
        return given.embedder
    if isinstance(given, Embeddings):
        return LangChainEmbedder(given)
    # not isinstance(…, Embedder): that would ask some models for the length of their vectors
    if isinstance(given, type) or not (hasattr(given, "embed_documents") and hasattr(given, "embed_query")):
        raise ParameterError("embeddings", type(given).__name__, "LangChain's Embeddings, or an embedder of catena")
    return given


class CatenaEmbeddings(Embeddings):
    """The core's embedder (the shipped static one by default) for LangChain's vector stores: no key, no network.

    A text in which the embedder knows nothing ("😀", "") has a row of zeros in the core, and a cosine with it is no
    number: some stores refuse it, others return NaN. Here it gets one fixed direction, `(1, …, 1) / sqrt(dim)`, the
    same for all such texts. What a store finds for such a question tells nothing, but it fails nowhere. All other
    vectors are the core's.
    """

    def __init__(self, embedder: Embedder | None = None) -> None:
        if embedder is None:
            from catena.enrichment.static_embedding import StaticEmbedder

            embedder = StaticEmbedder()
        self.embedder = embedder

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [_directed(row) for row in self.embedder.embed_documents(texts)]

    def embed_query(self, text: str) -> list[float]:
        return _directed(self.embedder.embed_query(text))


class LangChainLLM:
    """Any LangChain chat model or LLM as the core's language model."""

    def __init__(self, model: BaseLanguageModel[Any], *, identity: str | None = None) -> None:
        self.model = model
        self.identity = identity or identity_of(model)

    def complete(self, request: Complete) -> Completion:
        return _completion(self.model.invoke(_messages(request)))

    async def acomplete(self, request: Complete) -> Completion:
        return _completion(await self.model.ainvoke(_messages(request)))


class LangChainCaptioner:
    """Any LangChain chat model that can see, as the core's captioner; the picture goes to it as a data URL.

        library = Library.open("manuals.catena", preparation=FIGURES, captioner=LangChainCaptioner(model))

    A caption that was cut or refused counts as failed.
    """

    def __init__(self, model: BaseChatModel, *, identity: str | None = None) -> None:
        self.model = model
        self.identity = identity or identity_of(model)

    def caption(self, image: bytes, prompt: str) -> str:
        return self._description(self.model.invoke(_seen(image, prompt)))

    async def acaption(self, image: bytes, prompt: str) -> str:
        return self._description(await self.model.ainvoke(_seen(image, prompt)))

    def _description(self, reply: BaseMessage) -> str:
        completion = _completion(reply)
        if completion.finish_reason != "stop":
            why = f"the caption did not end by itself (finish_reason {completion.finish_reason!r})"
            raise ServiceError(self.identity, why)
        return completion.text


def _directed(row: NDArray[np.float32]) -> list[float]:
    """Return a row as LangChain has it; one of zeros in the direction of all axes, at unit length."""
    if len(row) and not np.any(row):
        return [float(len(row) ** -0.5)] * len(row)
    return [float(number) for number in row]


def _unit(rows: Sequence[Sequence[float]]) -> NDArray[np.float32]:
    """Return the rows at unit length, shape (len(rows), dim); a zero row stays zero."""
    vectors = np.atleast_2d(np.asarray(rows, dtype=np.float32))
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units: NDArray[np.float32] = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return units


def _unit_row(row: Sequence[float]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = _unit([row])[0]
    return unit


def identity_of(model: object) -> str:
    """Return class and model name: what tells one model's replies and vectors from another's."""
    names = ("model", "model_name", "model_id", "deployment_name")
    name = next((value for key in names if isinstance(value := getattr(model, key, None), str)), "")
    return f"langchain:{type(model).__name__}:{name}" if name else f"langchain:{type(model).__name__}"


def _messages(request: Complete) -> list[BaseMessage]:
    system = [SystemMessage(request.system)] if request.system else []
    return [*system, HumanMessage(request.prompt)]


_JPEG = b"\xff\xd8\xff"


def _seen(image: bytes, prompt: str) -> list[BaseMessage]:
    """Return a message with text and picture, in the form of blocks that every provider's package takes."""
    kind = "image/jpeg" if image.startswith(_JPEG) else "image/png"
    url = f"data:{kind};base64,{base64.b64encode(image).decode('ascii')}"
    return [HumanMessage([{"type": "text", "text": prompt}, {"type": "image_url", "image_url": {"url": url}}])]


_ENDS = {"length": "length", "max_tokens": "length", "content_filter": "content_filter", "refusal": "refusal"}


def _completion(reply: BaseMessage | str) -> Completion:
    if isinstance(reply, str):
        return Completion(text=reply)
    about = reply.response_metadata
    reason = str(about.get("finish_reason") or about.get("stop_reason") or about.get("done_reason") or "stop").lower()
    usage = getattr(reply, "usage_metadata", None) or {}
    return Completion(
        text=reply.text if isinstance(reply.text, str) else reply.text(),
        finish_reason=_ENDS.get(reason, "stop"),
        input_tokens=usage.get("input_tokens", 0),
        output_tokens=usage.get("output_tokens", 0),
    )

"""LangChain models as the core's services, and the core's embedder as LangChain embeddings."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable
from numpy.typing import NDArray

from catena.effects import (
    LIMITS,
    Complete,
    Completion,
    Describe,
    Embedder,
    Schemas,
    caption_of,
    ending_told,
    limit_setting,
    smaller,
    turn_if_local,
    with_limit,
)
from catena.model import ParameterError, SchemaRefusedError


class LangChainEmbedder:
    """Any LangChain embeddings as the core's embedder; vectors are brought to unit length.

    A model in this process (`HuggingFaceEmbeddings`) is called by one thread at a time.
    """

    def __init__(self, embeddings: Embeddings, *, identity: str | None = None) -> None:
        self.embeddings = embeddings
        self.identity = identity or identity_of(embeddings)
        self._turn = turn_if_local(embeddings)
        self._dim: int | None = None

    @property
    def dim(self) -> int:
        """Length of a vector; asked of the model once."""
        if self._dim is None:
            self._dim = len(self.embed_query("dimension"))
        return self._dim

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        with self._turn:
            return _unit(self.embeddings.embed_documents(list(texts)))

    def embed_query(self, text: str) -> NDArray[np.float32]:
        with self._turn:
            return _unit_row(self.embeddings.embed_query(text))

    async def aembed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if not isinstance(self._turn, nullcontext):
            return await asyncio.to_thread(self.embed_documents, texts)
        return _unit(await self.embeddings.aembed_documents(list(texts)))

    async def aembed_query(self, text: str) -> NDArray[np.float32]:
        if not isinstance(self._turn, nullcontext):
            return await asyncio.to_thread(self.embed_query, text)
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
            from catena.enrichment import StaticEmbedder

            embedder = StaticEmbedder()
        self.embedder = embedder

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [_directed(row) for row in self.embedder.embed_documents(texts)]

    def embed_query(self, text: str) -> list[float]:
        return _directed(self.embedder.embed_query(text))


class LangChainLLM:
    """Any LangChain chat model or LLM as the core's language model.

    The limit of a reply is given to it by the setting that its class has for it ("max_tokens", "num_predict", ...),
    in a copy of the model, where its user set no smaller one; so it is inside `bind`, `with_retry` and
    `with_fallbacks`. A model in this process is called by one thread at a time. One whose profile says that it has
    structured output is given the JSON Schema of a reply, where there is one, until it refuses it: then
    `SchemaRefusedError` has the driver ask without.

    Args:
        model: any; one without such a setting is given the limit as `max_tokens_name`.
        identity: what replies are kept under; by default class and model.
        max_tokens_name: the argument of `invoke` that limits a reply; None gives such a model no limit.
    """

    def __init__(
        self,
        model: BaseLanguageModel[Any],
        *,
        identity: str | None = None,
        max_tokens_name: str | None = "max_tokens",
    ) -> None:
        self.model = model
        self.identity = identity or identity_of(model)
        self._turn = turn_if_local(model)
        self._argument = max_tokens_name
        says = getattr(model, "profile", None) or {}
        self._schemas = Schemas(limit_setting(model) is not None and bool(says.get("structured_output")))

    def complete(self, request: Complete) -> Completion:
        if not self._schemas.go_with(request):
            return self._answered(request, self._invoke(_messages(request), request.max_tokens))
        try:
            with self._turn:
                return self._formed(self._given_form(request).invoke(_messages(request)))
        except Exception as error:
            raise (self._schemas.refusal(request, error, self.identity) or error) from error.__cause__

    async def acomplete(self, request: Complete) -> Completion:
        if not self._schemas.go_with(request):
            return self._answered(request, await self._ainvoke(_messages(request), request.max_tokens))
        if not isinstance(self._turn, nullcontext):
            return await asyncio.to_thread(self.complete, request)
        try:
            return self._formed(await self._given_form(request).ainvoke(_messages(request)))
        except Exception as error:
            raise (self._schemas.refusal(request, error, self.identity) or error) from error.__cause__

    def _given_form(self, request: Complete) -> Any:
        model: Any = self._limited(request.max_tokens)
        return model.with_structured_output(json.loads(request.schema), include_raw=True)

    def _formed(self, said: Any) -> Completion:
        """Return a structured reply as its JSON; as it was written where it could not be parsed."""
        completion = _completion(said["raw"])
        if said["parsed"] is not None:
            return replace(completion, text=json.dumps(said["parsed"]))
        if not completion.text.strip() and completion.finish_reason == "stop":
            raise SchemaRefusedError(self.identity, "an empty reply with the schema; asked without", completion)
        return completion

    def _answered(self, request: Complete, completion: Completion) -> Completion:
        self._schemas.answered(request)
        return completion

    def _invoke(self, messages: list[BaseMessage], tokens: int) -> Completion:
        with self._turn:
            return _completion(self._limited(tokens).invoke(messages))

    async def _ainvoke(self, messages: list[BaseMessage], tokens: int) -> Completion:
        if not isinstance(self._turn, nullcontext):
            return await asyncio.to_thread(self._invoke, messages, tokens)
        return _completion(await self._limited(tokens).ainvoke(messages))

    def _limited(self, tokens: int) -> Runnable[Any, Any]:
        model: Runnable[Any, Any] = _limited(self.model, tokens, self._argument)
        return model


class LangChainCaptioner(LangChainLLM):
    """Any LangChain chat model that can see, as the core's captioner; the picture goes to it as a data URL.

        library = Library.open("manuals.catena", preparation=FIGURES, captioner=LangChainCaptioner(model))

    Made as `LangChainLLM`. A caption that was cut or refused counts as failed.
    """

    def describe(self, request: Describe) -> Completion:
        return self._invoke(_seen(request.image, request.prompt), request.max_tokens)

    async def adescribe(self, request: Describe) -> Completion:
        return await self._ainvoke(_seen(request.image, request.prompt), request.max_tokens)

    def caption(self, image: bytes, prompt: str) -> str:
        return caption_of(self.describe(Describe(image=image, prompt=prompt)), self.identity)

    async def acaption(self, image: bytes, prompt: str) -> str:
        return caption_of(await self.adescribe(Describe(image=image, prompt=prompt)), self.identity)


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


def _limited(model: Any, tokens: int, argument: str | None) -> Any:
    """Return a model whose replies have at most so many tokens, or fewer where its user set it so.

    What is around it, as of `bind`, `with_retry` and `with_fallbacks`, stays around the copy.

    Args:
        model: a model, or what is around it; what is none stays as it is.
        tokens: the limit.
        argument: of `invoke`, which limits a model that has no setting for it; None: such a model is not limited.
    """
    if (setting := limit_setting(model)) is not None:
        return with_limit(model, setting, tokens)
    fields = getattr(type(model), "model_fields", {})
    if "bound" in fields:
        own = {name: smaller(model.kwargs[name], tokens) for name in (*LIMITS, argument) if name in model.kwargs}
        inside = _limited(model.bound, tokens, argument)
        return model.model_copy(update={"bound": inside, "kwargs": {**model.kwargs, **own}})
    if "fallbacks" in fields:
        each = [_limited(one, tokens, argument) for one in (model.runnable, *model.fallbacks)]
        return model.model_copy(update={"runnable": each[0], "fallbacks": each[1:]})
    return model.bind(**{argument: tokens}) if argument and isinstance(model, BaseLanguageModel) else model


def _completion(reply: BaseMessage | str) -> Completion:
    if isinstance(reply, str):
        return Completion(text=reply)
    usage = getattr(reply, "usage_metadata", None) or {}
    return Completion(
        text=reply.text if isinstance(reply.text, str) else reply.text(),
        finish_reason=ending_told(reply.response_metadata),
        input_tokens=usage.get("input_tokens", 0),
        output_tokens=usage.get("output_tokens", 0),
        reasoning_tokens=(usage.get("output_token_details") or {}).get("reasoning") or 0,
    )

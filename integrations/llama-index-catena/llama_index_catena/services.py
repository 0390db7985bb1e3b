"""Use LlamaIndex's models as Catena's services, and Catena's embedders as LlamaIndex's.

Their errors become ours; where a LlamaIndex class has no async code of its own (its inherited methods would
block the event loop), the sync code runs in a thread.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache, partial
from inspect import unwrap
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from llama_index.core import Settings
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ImageBlock, MessageRole, TextBlock
from llama_index.core.bridge.pydantic import Field
from llama_index.core.llms import LLM, CustomLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.program.function_program import get_function_tool
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle, TextNode
from pydantic import BaseModel, create_model

from catena import ParameterError, Services
from catena.effects import (
    Complete,
    Completion,
    Describe,
    Embedder,
    Reranker,
    Schemas,
    as_core,
    caption_of,
    ending_told,
    errors_of,
    limit_setting,
    register,
    turn_if_local,
    with_limit,
)
from catena.model import InvalidReplyError, SchemaRefusedError, directed
from llama_index_catena.components import Component, checked_arguments
from llama_index_catena.documents import to_core_document

if TYPE_CHECKING:
    from numpy.typing import NDArray


class LlamaIndexEmbedder:
    """A LlamaIndex embedding model as the core's embedder; rows are brought to unit length.

    A model in this process (`HuggingFaceEmbedding`) is called by one thread at a time.

    Args:
        embedding: any model.
        dim: length of its vectors; where it is not given, the model is asked once, when it is first needed.
    """

    def __init__(self, embedding: BaseEmbedding, *, dim: int | None = None) -> None:
        self._embedding = embedding
        self._dim = dim
        self._turn = turn_if_local(embedding)
        self.identity = f"llama-index:{embedding.class_name()}/{embedding.model_name}"

    @property
    def dim(self) -> int:
        """Length of a vector."""
        if self._dim is None:
            self._dim = len(self.embed_query("length"))
        return self._dim

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit rows, shape (len(texts), dim); a zero row stays zero."""
        with self._errors(), self._turn if texts else nullcontext():
            rows = self._embedding.get_text_embedding_batch(list(texts)) if texts else []
        return self._rows(rows, len(texts))

    async def aembed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `embed_documents`, without blocking the event loop."""
        inherited = inherits(self._embedding, BaseEmbedding, "_aget_text_embedding", "_aget_text_embeddings")
        if not texts or inherited or not isinstance(self._turn, nullcontext):
            return await asyncio.to_thread(self.embed_documents, texts)
        with self._errors():
            return self._rows(await self._embedding.aget_text_embedding_batch(list(texts)), len(texts))

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return a unit vector, shape (dim,)."""
        with self._errors(), self._turn:
            return self._row(self._embedding.get_query_embedding(text))

    async def aembed_query(self, text: str) -> NDArray[np.float32]:
        """As `embed_query`, awaiting the model."""
        if not isinstance(self._turn, nullcontext):
            return await asyncio.to_thread(self.embed_query, text)
        with self._errors():
            return self._row(await self._embedding.aget_query_embedding(text))

    def _errors(self) -> AbstractContextManager[None]:
        return errors_of(self.identity, self._embedding)

    def _row(self, row: Sequence[float]) -> NDArray[np.float32]:
        return cast("NDArray[np.float32]", self._rows([row], 1)[0])

    def _rows(self, rows: Sequence[Sequence[float]], count: int) -> NDArray[np.float32]:
        if not count:
            return np.zeros((0, self.dim), dtype=np.float32)
        try:
            array = np.asarray(rows, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidReplyError(self.identity, "vectors of unlike lengths, or not of numbers") from None
        if array.ndim != 2 or len(array) != count or self._dim not in (None, array.shape[1]):
            expected = f"({count}, {self._dim or 'dim'})"
            raise InvalidReplyError(self.identity, f"vectors of shape {array.shape} where {expected} was due")
        lengths = np.linalg.norm(array, axis=1, keepdims=True)
        return (array / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)


class LlamaIndexLLM:
    """A LlamaIndex language model as the core's.

    A model that calls functions is given one that takes what is to be replied, where the form of that is known, until
    it refuses it: then `SchemaRefusedError` has the driver ask without. What it writes in place of a call is read.

    Args:
        llm: any model; it is asked through `chat`. One that runs in this process is called by one thread at a time.
        max_tokens_name: under what name this model takes the limit of a reply as an argument of `chat`; by default
            "max_tokens", or else the setting of this kind that its class has ("max_new_tokens", ...), in a copy of
            the model; None gives it no limit.
    """

    def __init__(self, llm: LLM, *, max_tokens_name: str | None = "") -> None:
        self._llm = llm
        self._turn = turn_if_local(llm)
        setting = limit_setting(llm) if max_tokens_name == "" else None
        self._setting = None if setting == "max_tokens" else setting
        self._max_tokens_name = ("" if self._setting else "max_tokens") if max_tokens_name == "" else max_tokens_name
        self.identity = f"llama-index:{llm.class_name()}/{llm.metadata.model_name}"
        self._schemas = Schemas(isinstance(llm, FunctionCallingLLM) and llm.metadata.is_function_calling_model)
        inherited = isinstance(llm, CustomLLM) and inherits(llm, CustomLLM, "achat")
        self._in_thread = inherited or not isinstance(self._turn, nullcontext)

    def complete(self, request: Complete) -> Completion:
        """Return the reply to one prompt, with why it ended and what it took where the model says so."""
        if not self._schemas.go_with(request):
            return self._answered(request, self._chat(_messages(request), request.max_tokens))
        with self._errors(request), self._turn:
            return self._formed(self._limited(request.max_tokens).chat_with_tools(**self._called(request)))

    async def acomplete(self, request: Complete) -> Completion:
        """As `complete`, without blocking the event loop."""
        if not self._schemas.go_with(request):
            return self._answered(request, await self._achat(_messages(request), request.max_tokens))
        if self._in_thread:
            return await asyncio.to_thread(self.complete, request)
        with self._errors(request):
            return self._formed(await self._limited(request.max_tokens).achat_with_tools(**self._called(request)))

    def _called(self, request: Complete) -> dict[str, Any]:
        tools = [get_function_tool(_form(request.schema))]
        history = _messages(request)
        return {"tools": tools, "chat_history": history, "tool_required": True, **self._limit(request.max_tokens)}

    def _formed(self, response: ChatResponse) -> Completion:
        """Return what a function was called with, as its JSON; what the model wrote where it called none."""
        model: Any = self._llm
        completion = completion_of(response)
        try:
            calls = model.get_tool_calls_from_response(response, error_on_no_tool_call=False)
        except (KeyError, TypeError, ValueError):  # a call that cannot be read
            calls = []
        if calls and calls[0].tool_kwargs:
            return replace(completion, text=json.dumps(calls[0].tool_kwargs))
        if not completion.text.strip() and completion.finish_reason == "stop":
            raise SchemaRefusedError(self.identity, "no function was called; asked without", completion)
        return completion

    def _answered(self, request: Complete, completion: Completion) -> Completion:
        self._schemas.answered(request)
        return completion

    def _chat(self, messages: Sequence[ChatMessage], max_tokens: int) -> Completion:
        with self._errors(), self._turn:
            return completion_of(self._limited(max_tokens).chat(messages, **self._limit(max_tokens)))

    async def _achat(self, messages: Sequence[ChatMessage], max_tokens: int) -> Completion:
        if self._in_thread:
            return await asyncio.to_thread(self._chat, messages, max_tokens)
        with self._errors():
            return completion_of(await self._limited(max_tokens).achat(messages, **self._limit(max_tokens)))

    def _errors(self, formed: Complete | None = None) -> AbstractContextManager[None]:
        """Have errors be ours; those of a request for a form say where the model refuses the schema."""
        refused = None if formed is None else partial(self._schemas.refusal, formed, service=self.identity)
        return errors_of(self.identity, self._llm, refused)

    def _limited(self, max_tokens: int) -> Any:
        return with_limit(self._llm, self._setting, max_tokens)

    def _limit(self, max_tokens: int) -> dict[str, Any]:
        return {self._max_tokens_name: max_tokens} if self._max_tokens_name else {}


class LlamaIndexCaptioner(LlamaIndexLLM):
    """A LlamaIndex language model that can see, as the core's captioner: `Services(captioner=...)` of a library.

    Made as `LlamaIndexLLM`; the picture goes with the message as an `ImageBlock`.
    """

    def describe(self, request: Describe) -> Completion:
        """Return the description of a picture, with why it ended and what it took."""
        return self._chat(_about(request), request.max_tokens)

    async def adescribe(self, request: Describe) -> Completion:
        """As `describe`, without blocking the event loop."""
        return await self._achat(_about(request), request.max_tokens)

    def caption(self, image: bytes, prompt: str) -> str:
        """Return a description of the image (PNG or JPEG bytes).

        Raises:
            ServiceError: the call failed, or the reply was cut or refused.
        """
        return caption_of(self.describe(Describe(image=image, prompt=prompt)), self.identity)

    async def acaption(self, image: bytes, prompt: str) -> str:
        """As `caption`, without blocking the event loop."""
        return caption_of(await self.adescribe(Describe(image=image, prompt=prompt)), self.identity)


class LlamaIndexReranker:
    """A LlamaIndex postprocessor that scores nodes, as the core's reranker: `CohereRerank`, `LLMRerank`, ….

    A model in this process is called by one thread at a time.

    Args:
        postprocessor: any; one that has a `top_n` is asked for all of the texts.
        left_out: the raw score of a text that it does not return, as `LLMRerank` does with what it finds irrelevant.
        identity: name of the model, to which a fitted calibration belongs; by default class and model.
    """

    def __init__(
        self, postprocessor: BaseNodePostprocessor, *, left_out: float = 0.0, identity: str | None = None
    ) -> None:
        if not isinstance(postprocessor, BaseNodePostprocessor):
            raise ParameterError("postprocessor", type(postprocessor).__name__, "a LlamaIndex node postprocessor")
        self._postprocessor, self._left_out = postprocessor, left_out
        self._turn = turn_if_local(postprocessor)
        self.identity = identity or f"llama-index:{postprocessor.class_name()}{_model_of(postprocessor)}"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one raw score per text, in order."""
        with errors_of(self.identity, self._postprocessor), self._turn:
            found = self._for(len(texts)).postprocess_nodes(_texts_as_nodes(texts), query_bundle=QueryBundle(query))
        return self._scores(found, len(texts))

    async def ascore(self, query: str, texts: Sequence[str]) -> list[float]:
        """As `score`, without blocking the event loop."""
        if not isinstance(self._turn, nullcontext):
            return await asyncio.to_thread(self.score, query, texts)
        nodes = _texts_as_nodes(texts)
        with errors_of(self.identity, self._postprocessor):
            found = await self._for(len(texts)).apostprocess_nodes(nodes, query_bundle=QueryBundle(query))
        return self._scores(found, len(texts))

    def _for(self, count: int) -> BaseNodePostprocessor:
        """Return the postprocessor as it scores so many texts; the user's own stays as it is."""
        if "top_n" not in type(self._postprocessor).model_fields:
            return self._postprocessor
        return self._postprocessor.model_copy(update={"top_n": count})

    def _scores(self, found: Sequence[NodeWithScore], count: int) -> list[float]:
        scores = [self._left_out] * count
        for each in found:
            if each.score is None or not each.node.node_id.isdecimal() or int(each.node.node_id) >= count:
                raise InvalidReplyError(self.identity, "a node without a score, or one that was not given")
            scores[int(each.node.node_id)] = float(each.score)
        return scores


def _texts_as_nodes(texts: Sequence[str]) -> list[NodeWithScore]:
    return [NodeWithScore(node=TextNode(id_=str(place), text=text)) for place, text in enumerate(texts)]


def _model_of(postprocessor: BaseNodePostprocessor) -> str:
    named = getattr(postprocessor, "model", None) or getattr(postprocessor, "model_name", None)
    if not isinstance(named, str):
        named = getattr(getattr(getattr(postprocessor, "llm", None), "metadata", None), "model_name", None)
    return f"/{named}" if isinstance(named, str) else ""


def core_reranker(reranker: Any) -> Reranker:
    """Return a reranker as the core's; a LlamaIndex postprocessor becomes one.

    Raises:
        ParameterError: it is neither.
    """
    own: Reranker = as_core("reranker", reranker)
    if not (hasattr(own, "score") or hasattr(own, "ascore")):
        raise ParameterError("reranker", type(reranker).__name__, "a Catena reranker or a LlamaIndex postprocessor")
    return own


@cache
def _shipped() -> Embedder:
    from catena.enrichment import StaticEmbedder

    return StaticEmbedder()


class CatenaEmbedding(Component, BaseEmbedding):
    """A Catena embedder as a LlamaIndex embedding model; by default the shipped one: no key, no network.

    `model_name` is the embedder's identity, so that caches and stores tell models apart. A text in which the embedder
    knows nothing ("😀") has a row of zeros in the core, with which a store has no cosine but NaN; here it gets one
    fixed direction, `(1, …, 1) / sqrt(dim)`.

    Args:
        embedder: any Catena embedder; it is not serialised, and has to be given again with `from_dict`.
        fields: those of every LlamaIndex embedding model.

    Raises:
        ParameterError: the fields are those of another model than the embedder given.
    """

    embedder: Any = Field(  # an `Embedder`; a Protocol with properties, which pydantic would run to check it
        default=None, exclude=True, description="Any Catena embedder; the shipped static embedding by default."
    )

    @checked_arguments
    def __init__(self, embedder: Embedder | None = None, **fields: Any) -> None:
        super().__init__(**{**fields, "embedder": embedder})
        identity = self.core.identity
        if self.model_name not in ("unknown", identity):
            raise ParameterError("embedder", identity, f"the embedder {self.model_name!r}, given again")
        self.model_name = identity

    @property
    def core(self) -> Embedder:
        """The embedder that it is in the core."""
        return _shipped() if self.embedder is None else cast("Embedder", self.embedder)

    def _get_query_embedding(self, query: str) -> list[float]:
        return directed(self.core.embed_query(query))

    async def _aget_query_embedding(self, query: str) -> list[float]:
        model: Any = self.core
        if hasattr(model, "aembed_query"):
            return directed(await model.aembed_query(query))
        return await asyncio.to_thread(self._get_query_embedding, query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return [directed(row) for row in self.core.embed_documents(texts)]

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return (await self._aget_text_embeddings([text]))[0]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        model: Any = self.core
        if hasattr(model, "aembed_documents"):
            return [directed(row) for row in await model.aembed_documents(texts)]
        return await asyncio.to_thread(self._get_text_embeddings, texts)


def language_model(llm: LLM | LlamaIndexLLM | None) -> LlamaIndexLLM:
    """Return a LlamaIndex language model as the core's, for None that of `Settings`; one of the core as it is."""
    return llm if isinstance(llm, LlamaIndexLLM) else LlamaIndexLLM(llm_given(llm))


def llm_given(llm: LLM | None) -> LLM:
    """Return a language model, for None that of `Settings`.

    Raises:
        ParameterError: `Settings` have none either.
    """
    try:
        return Settings.llm if llm is None else llm
    except (ImportError, ValueError) as error:  # LlamaIndex then looks for OpenAI's, its package and its key
        raise ParameterError("llm", None, "given, or set as llama_index.core.Settings.llm") from error


def core_embedder(embed_model: BaseEmbedding | Embedder) -> Embedder:
    """Return a LlamaIndex embedding model as the core's; one that is the core's already as it is.

    Raises:
        ParameterError: it is neither.
    """
    embedder: Embedder = as_core("embedder", embed_model)
    if not hasattr(embedder, "embed_query"):
        allowed = "a LlamaIndex embedding model or a Catena embedder"
        raise ParameterError("embed_model", type(embed_model).__name__, allowed)
    return embedder


def model_services(llm: LLM | None, embed_model: BaseEmbedding | None, **behaviour: Any) -> Services:
    """Return services of LlamaIndex's models, as far as they are given; `behaviour` as of `Services`."""
    models: Any = {"llm": llm, "embedder": embed_model}  # which become the core's there
    return Services(**models, **behaviour)


def _about(request: Describe) -> list[ChatMessage]:
    picture = ImageBlock(image=request.image, image_mimetype=request.media_type)
    return [ChatMessage(role=MessageRole.USER, blocks=[TextBlock(text=request.prompt), picture])]


def _messages(request: Complete) -> list[ChatMessage]:
    system = [ChatMessage(role=MessageRole.SYSTEM, content=request.system)] if request.system else []
    return [*system, ChatMessage(role=MessageRole.USER, content=request.prompt)]


_KINDS: Mapping[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool}


@cache
def _form(schema: str) -> type[BaseModel]:
    """Return the class of pydantic that a JSON Schema describes, as LlamaIndex wants it."""
    form = json.loads(schema)
    return cast("type[BaseModel]", _kind(form, form.get("title", "reply")))


def _kind(form: Mapping[str, Any], name: str) -> Any:
    if form["type"] == "array":
        return list[_kind(form["items"], name)]  # type: ignore[misc]
    if form["type"] == "object":
        inside = form["properties"].items()
        members: dict[str, Any] = {each: (_kind(inner, f"{name}_{each}"), ...) for each, inner in inside}
        return create_model(name, **members)
    return _KINDS[form["type"]]


def completion_of(response: ChatResponse) -> Completion:
    """Return a chat response as the core's completion; what the model does not say is "stop" and 0 tokens."""
    said = {**_fields(response.raw), **response.additional_kwargs}
    usage = {**_fields(said.get("usage")), **said}
    choices = said.get("choices")
    first = _fields(choices[0]) if isinstance(choices, Sequence) and choices else {}
    return Completion(
        text=response.message.content or "",
        finish_reason=ending_told({**said, **first}),
        input_tokens=_count(usage, "prompt_tokens", "input_tokens"),
        output_tokens=_count(usage, "completion_tokens", "output_tokens"),
        reasoning_tokens=_count(
            _fields(usage.get("completion_tokens_details") or usage.get("output_tokens_details")), "reasoning_tokens"
        ),
    )


def _fields(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    return dict(getattr(value, "__dict__", {}))


def _count(usage: Mapping[str, Any], *names: str) -> int:
    return next((usage[name] for name in names if isinstance(usage.get(name), int)), 0)


def inherits(thing: object, base: type, *methods: str) -> bool:
    """Return True where an object has these methods from the base class, whose async ones call the sync ones.

    LlamaIndex wraps inherited methods anew in every subclass, hence `unwrap`.
    """
    return all(unwrap(getattr(type(thing), name)) is unwrap(getattr(base, name)) for name in methods)


# The core takes LlamaIndex's models and documents wherever it is given them.
register("document", BaseNode, to_core_document)
register("llm", LLM, LlamaIndexLLM)
register("embedder", CatenaEmbedding, lambda model: model.core)
register("embedder", BaseEmbedding, LlamaIndexEmbedder)
register("reranker", BaseNodePostprocessor, LlamaIndexReranker)
register("captioner", LLM, LlamaIndexCaptioner)

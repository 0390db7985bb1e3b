"""LangChain models as the core's services, and the core's embedder as LangChain embeddings."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel, BaseLanguageModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableLambda, run_in_executor
from numpy.typing import NDArray

from catena import CatenaError, ParameterError, ServiceError, Services
from catena.effects import (
    LIMITS,
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
    smaller,
    turn_if_local,
    with_limit,
)
from catena.model import SchemaRefusedError, directed
from langchain_catena.convert import SCORE, to_core_document

_PLACE = "catena_place"  # metadata key by which a text is known again in what a compressor returns
_LIMITS = ("top_n", "top_k")  # fields by which compressors return only the best


class _InTurn:
    """Call the methods of a model; one in this process by one thread at a time."""

    def __init__(self, model: object, identity: str | None) -> None:
        self.identity = identity or identity_of(model)
        self._turn = turn_if_local(model)
        self._errors: Callable[..., AbstractContextManager[None]] = partial(errors_of, self.identity, model)

    def _call(self, thing: object, name: str, *given: Any) -> Any:
        with self._turn:
            return getattr(thing, name)(*given)

    async def _acall(self, thing: object, name: str, *given: Any) -> Any:
        if isinstance(self._turn, nullcontext):
            return await getattr(thing, f"a{name}")(*given)
        return await asyncio.to_thread(self._call, thing, name, *given)


class LangChainEmbedder(_InTurn):
    """Any LangChain embeddings as the core's embedder; vectors are brought to unit length.

    A model in this process (`HuggingFaceEmbeddings`) is called by one thread at a time.
    """

    def __init__(self, embeddings: Embeddings, *, identity: str | None = None) -> None:
        super().__init__(embeddings, identity)
        self.embeddings = embeddings
        self._dim: int | None = None

    @property
    def dim(self) -> int:
        """Length of a vector; asked of the model once."""
        if self._dim is None:
            self._dim = len(self.embed_query("dimension"))
        return self._dim

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        with self._errors():
            return _unit(self._call(self.embeddings, "embed_documents", list(texts)))

    def embed_query(self, text: str) -> NDArray[np.float32]:
        with self._errors():
            return _unit_row(self._call(self.embeddings, "embed_query", text))

    async def aembed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        with self._errors():
            return _unit(await self._acall(self.embeddings, "embed_documents", list(texts)))

    async def aembed_query(self, text: str) -> NDArray[np.float32]:
        with self._errors():
            return _unit_row(await self._acall(self.embeddings, "embed_query", text))


def to_embedder(given: Embeddings | Embedder) -> Embedder:
    """Return embeddings of either kind as the core's embedder.

    Raises:
        ParameterError: they are neither.
    """
    # not isinstance(…, Embedder): that would ask some models for the length of their vectors
    if isinstance(given, type) or not (hasattr(given, "embed_documents") and hasattr(given, "embed_query")):
        raise ParameterError("embeddings", type(given).__name__, "LangChain's Embeddings, or an embedder of catena")
    embedder: Embedder = as_core("embedder", given)
    return embedder


def services_with(
    services: Services | None,
    *,
    llm: BaseLanguageModel[Any] | None = None,
    embeddings: Embeddings | Embedder | None = None,
    captioner: BaseChatModel | None = None,
    or_static: bool = False,
) -> Services:
    """Return services with models of LangChain in place of their own.

    Args:
        services: None stands for those without any model.
        llm: any chat model or LLM.
        embeddings: of LangChain or of the core.
        captioner: a chat model that sees.
        or_static: take the shipped embedder where there is none.
    """
    embedder = None if embeddings is None else to_embedder(embeddings)
    models: dict[str, Any] = {"llm": llm, "captioner": captioner, "embedder": embedder}
    given = replace(services or Services(), **{name: each for name, each in models.items() if each is not None})
    return replace(given, embedder=_static()) if or_static and given.embedder is None else given


def _static() -> Embedder:
    from catena.enrichment import StaticEmbedder

    return StaticEmbedder()


class CatenaEmbeddings(Embeddings):
    """The core's embedder (the shipped static one by default) for LangChain's vector stores: no key, no network.

    A text in which the embedder knows nothing ("😀", "") has a row of zeros in the core, and a cosine with it is no
    number: some stores refuse it, others return NaN. Here it gets one fixed direction, `(1, …, 1) / sqrt(dim)`, the
    same for all such texts. What a store finds for such a question tells nothing, but it fails nowhere. All other
    vectors are the core's.
    """

    def __init__(self, embedder: Embedder | None = None) -> None:
        self.embedder = _static() if embedder is None else embedder

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [directed(row) for row in self.embedder.embed_documents(texts)]

    def embed_query(self, text: str) -> list[float]:
        return directed(self.embedder.embed_query(text))


class LangChainLLM(_InTurn):
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
        super().__init__(model, identity)
        self.model = model
        self._argument = max_tokens_name
        says = getattr(model, "profile", None) or {}
        self._schemas = Schemas(limit_setting(model) is not None and bool(says.get("structured_output")))

    def complete(self, request: Complete) -> Completion:
        if self._schemas.go_with(request):
            with self._errors(self._refusal(request)):
                return self._formed(self._call(self._given_form(request), "invoke", _messages(request)))
        completion = self._invoke(_messages(request), request.max_tokens)
        self._schemas.answered(request)
        return completion

    async def acomplete(self, request: Complete) -> Completion:
        if self._schemas.go_with(request):
            with self._errors(self._refusal(request)):
                return self._formed(await self._acall(self._given_form(request), "invoke", _messages(request)))
        completion = await self._ainvoke(_messages(request), request.max_tokens)
        self._schemas.answered(request)
        return completion

    def _refusal(self, request: Complete) -> Callable[[Exception], CatenaError | None]:
        return partial(self._schemas.refusal, request, service=self.identity)

    def _given_form(self, request: Complete) -> Any:
        model: Any = _limited(self.model, request.max_tokens, self._argument)
        return model.with_structured_output(json.loads(request.schema), include_raw=True)

    def _formed(self, said: Any) -> Completion:
        """Return a structured reply as its JSON; as it was written where it could not be parsed."""
        completion = _completion(said["raw"])
        if said["parsed"] is not None:
            return replace(completion, text=json.dumps(said["parsed"]))
        if not completion.text.strip() and completion.finish_reason == "stop":
            raise SchemaRefusedError(self.identity, "an empty reply with the schema; asked without", completion)
        return completion

    def _invoke(self, messages: list[BaseMessage], tokens: int) -> Completion:
        with self._errors():
            return _completion(self._call(_limited(self.model, tokens, self._argument), "invoke", messages))

    async def _ainvoke(self, messages: list[BaseMessage], tokens: int) -> Completion:
        with self._errors():
            return _completion(await self._acall(_limited(self.model, tokens, self._argument), "invoke", messages))


class LangChainCaptioner(LangChainLLM):
    """Any LangChain chat model that can see, as the core's captioner; the picture goes to it as a data URL.

        services = Services(captioner=LangChainCaptioner(model))
        library = Library.open("manuals.catena", preparation=FIGURES, services=services)

    Made as `LangChainLLM`. A caption that was cut or refused counts as failed.
    """

    def describe(self, request: Describe) -> Completion:
        return self._invoke(_seen(request), request.max_tokens)

    async def adescribe(self, request: Describe) -> Completion:
        return await self._ainvoke(_seen(request), request.max_tokens)

    def caption(self, image: bytes, prompt: str) -> str:
        return caption_of(self.describe(Describe(image=image, prompt=prompt)), self.identity)

    async def acaption(self, image: bytes, prompt: str) -> str:
        return caption_of(await self.adescribe(Describe(image=image, prompt=prompt)), self.identity)


class LangChainReranker(_InTurn):
    """Any LangChain reranker as the core's: `CohereRerank`, `VoyageAIRerank`, `FlashrankRerank`, cross encoders.

    A text's score is the `relevance_score` that the compressor writes; of a compressor around a cross encoder it is
    what that encoder gives, as `CrossEncoderReranker` writes none. Every text is scored: where the compressor has a
    `top_n` or `top_k`, a copy of it is asked for all. One that leaves texts out all the same (a threshold), or writes
    no score, is refused, as a text without a score has no probability. A model in this process is called by one
    thread at a time.

    Args:
        compressor: or a cross encoder itself.
        identity: names model and version; by default made from class and model.
    """

    def __init__(self, compressor: BaseDocumentCompressor | BaseCrossEncoder, *, identity: str | None = None) -> None:
        if not isinstance(compressor, BaseDocumentCompressor | BaseCrossEncoder):
            raise ParameterError("compressor", type(compressor).__name__, "a document compressor or a cross encoder")
        inner = getattr(compressor, "model", None)
        self.rater = inner if isinstance(inner, BaseCrossEncoder) else compressor
        super().__init__(self.rater, identity)

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        if not texts:
            return []
        with self._errors():
            if isinstance(self.rater, BaseCrossEncoder):
                return [float(score) for score in self._call(self.rater, "score", [(query, text) for text in texts])]
            given = _for_all(self.rater, texts), "compress_documents", _numbered(texts), query
            return self._scores(self._call(*given), len(texts))

    async def ascore(self, query: str, texts: Sequence[str]) -> list[float]:
        if not texts or isinstance(self.rater, BaseCrossEncoder):
            return await run_in_executor(None, self.score, query, texts)
        with self._errors():
            given = _for_all(self.rater, texts), "compress_documents", _numbered(texts), query
            return self._scores(await self._acall(*given), len(texts))

    def _scores(self, documents: Sequence[Document], count: int) -> list[float]:
        scores: dict[int, float] = {}
        for document in documents:
            place, score = document.metadata.get(_PLACE), document.metadata.get(SCORE)
            if not isinstance(place, int) or score is None:
                what = f"metadata[{SCORE!r}]" if isinstance(place, int) else "the metadata of the texts it was given"
                raise ServiceError(self.identity, f"returned documents without {what}: it cannot score texts")
            scores[place] = float(score)
        if len(scores) < count:
            what = f"scored {len(scores)} of {count} texts; switch its threshold and its limit off: top_n cuts later"
            raise ServiceError(self.identity, what)
        return [scores[place] for place in range(count)]


def _for_all(compressor: BaseDocumentCompressor, texts: Sequence[str]) -> BaseDocumentCompressor:
    """Return the compressor, or a copy that returns all texts where it would return the best of them."""
    wider = {name: len(texts) for name in _LIMITS if name in type(compressor).model_fields}
    return compressor.model_copy(update=wider) if wider else compressor


def _numbered(texts: Sequence[str]) -> list[Document]:
    return [Document(page_content=text, metadata={_PLACE: place}) for place, text in enumerate(texts)]


def to_reranker(given: Reranker | BaseDocumentCompressor | BaseCrossEncoder) -> Reranker:
    """Return a reranker of either kind as the core's."""
    reranker: Reranker = as_core("reranker", given)
    return reranker


def traced(reranker: Reranker) -> Reranker:
    """Return a reranker whose every call is a run in the trace of its caller, named by the reranker."""
    inner: Any = reranker  # may have `ascore`, which the port leaves open

    def score(given: dict[str, Any]) -> Sequence[float]:
        return reranker.score(given["query"], given["texts"])

    async def ascore(given: dict[str, Any]) -> Sequence[float]:
        scores: Sequence[float] = await inner.ascore(given["query"], given["texts"])
        return scores

    is_async = hasattr(inner, "ascore")
    call = RunnableLambda(score, ascore if is_async else None, name=reranker.identity)
    made = SimpleNamespace(
        identity=reranker.identity, score=lambda query, texts: call.invoke({"query": query, "texts": list(texts)})
    )
    if is_async:
        made.ascore = lambda query, texts: call.ainvoke({"query": query, "texts": list(texts)})
    return made


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


def _seen(request: Describe) -> list[BaseMessage]:
    """Return a message with text and picture, in the form of blocks that every provider's package takes."""
    url = f"data:{request.media_type};base64,{base64.b64encode(request.image).decode('ascii')}"
    parts: list[str | dict[Any, Any]] = [{"type": "text", "text": request.prompt}]
    return [HumanMessage([*parts, {"type": "image_url", "image_url": {"url": url}}])]


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


# The core then takes LangChain's models and documents as they are, wherever it is given them.
register("document", Document, to_core_document)
register("llm", BaseLanguageModel, LangChainLLM)
register("llm", Runnable, LangChainLLM)  # a model with something bound to it
register("embedder", CatenaEmbeddings, lambda embeddings: embeddings.embedder)
register("embedder", Embeddings, LangChainEmbedder)
register("reranker", BaseDocumentCompressor, LangChainReranker)
register("reranker", BaseCrossEncoder, LangChainReranker)
register("captioner", BaseChatModel, LangChainCaptioner)

"""Drive the core's steps from retrievers, compressors and transformers, inside the runs of LangChain."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from os import PathLike
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar, cast

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    BaseCallbackManager,
    CallbackManagerForRetrieverRun,
    Callbacks,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.documents import BaseDocumentCompressor, BaseDocumentTransformer, Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.runnables import ConfigurableFieldSpec, Runnable, RunnableConfig, RunnableLambda, ensure_config
from langchain_core.runnables.config import patch_config, set_config_context
from langchain_core.runnables.utils import get_unique_config_specs
from pydantic import BaseModel, BeforeValidator, ConfigDict, InstanceOf, model_validator
from typing_extensions import TypedDict  # pydantic makes schemas of no other before Python 3.12

from catena import Degraded, ParameterError, Ranking, Services, arun, run
from catena.effects import Step
from catena.library import BaseLibrary
from catena.model import meant
from langchain_catena.convert import is_unknown, unknown_document

DEGRADED = "catena_degraded"
"""Name of the custom event that tells of a route that failed while the others went on."""

UNKNOWN = "catena_unknown"
"""Name of the custom event that tells of a name in the question that stands nowhere in what was searched."""

_OF_LANGCHAIN = frozenset({"run_id", "verbose"})  # what a retriever's `invoke` takes besides its own options
_log = logging.getLogger(__name__)
T = TypeVar("T")


def run_within(callbacks: Callbacks, step: Step[T], services: Services) -> T:
    """Drive a step; runnables that it calls, in threads too, find callbacks, tags and options through the context."""
    if callbacks is None:
        return run(step, services)
    with set_config_context(_under(callbacks)) as context:
        return context.run(run, step, services)


async def arun_within(callbacks: Callbacks, step: Step[T], services: Services) -> T:
    """As `run_within`, without blocking the event loop."""
    if callbacks is None:
        return await arun(step, services)
    with set_config_context(_under(callbacks)) as context:
        return await asyncio.get_running_loop().create_task(arun(step, services), context=context)


def _under(callbacks: Callbacks) -> RunnableConfig:
    return patch_config(None, callbacks=cast("BaseCallbackManager", callbacks))  # a list of handlers does as well


def warn(parts: Sequence[Degraded]) -> None:
    """Write to the log what failed."""
    for part in parts:
        _log.warning("%s: %s", part.what, part.why)


def _refuse_path(given: Any) -> Any:
    if isinstance(given, str | PathLike):
        raise ParameterError("library", given, f"an open Library, as catena.Library.open({str(given)!r}) gives it")
    return given


LibraryField: TypeAlias = Annotated[InstanceOf[BaseLibrary], BeforeValidator(_refuse_path)]


class NamedFields(BaseModel):
    """A model that refuses a field it does not have, and says which one was meant."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, given: Any) -> Any:
        known = cls.model_fields
        for name in given if isinstance(given, Mapping) else ():
            if name not in known:
                there = f". There are: {', '.join(sorted(known))}"
                raise ValueError(f"{cls.__name__} has no field {name!r}{meant(name, known) or there}")
        return given


class CatenaBaseRetriever(NamedFields, BaseRetriever):
    """A retriever that answers a question by one step of the core.

    The retrievers and models inside are called with the tags, metadata and configurable values of the call, and
    `config_specs` lists what can be configured of them. A mistyped option is refused, and the right ones are named.
    What failed, and names that stand nowhere, are told in the log and in custom events.
    """

    asked: ClassVar[tuple[str, ...]]
    """The options of `invoke` besides the question; each goes before the retriever's own."""

    provider: ClassVar[str] = "catena"
    """The name in a trace of who finds."""

    def ranking(self, query: str, **asked: Any) -> Ranking:
        """Return the core's ranking: hits with provenance, what failed, and the names that stand nowhere."""
        return self._ranking_of(self._found(query, asked))

    async def aranking(self, query: str, **asked: Any) -> Ranking:
        """As `ranking`, without blocking the event loop."""
        return self._ranking_of(await self._afound(query, asked))

    def children(self) -> Iterator[object]:
        """Yield the retrievers and models inside."""
        yield from ()

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        inside = (child for child in self.children() if isinstance(child, Runnable))
        return get_unique_config_specs(spec for child in inside for spec in child.config_specs)

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        self._check(kwargs)
        with set_config_context(ensure_config(config)) as context:
            return context.run(super().invoke, input, config, **kwargs)

    async def ainvoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        self._check(kwargs)
        with set_config_context(ensure_config(config)) as context:
            found = super().ainvoke(input, config, **kwargs)
            return await asyncio.get_running_loop().create_task(found, context=context)

    @abstractmethod
    def _prepared(self, query: str, **asked: Any) -> tuple[Step[Any], Services]:
        """Return the step that answers a question, and the services that answer the step."""

    @abstractmethod
    def _documents(self, found: Any) -> list[Document]:
        """Return the result of the step as documents."""

    def _ranking_of(self, found: Any) -> Ranking:
        return cast("Ranking", found)

    def _found(self, query: str, asked: Mapping[str, Any], callbacks: Callbacks = None) -> Any:
        self._check(asked)
        return run_within(callbacks, *self._prepared(query, **asked))

    async def _afound(self, query: str, asked: Mapping[str, Any], callbacks: Callbacks = None) -> Any:
        self._check(asked)
        return await arun_within(callbacks, *self._prepared(query, **asked))

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **asked: Any
    ) -> list[Document]:
        found = self._found(query, asked, run_manager.get_child())
        for name, told in self._told(found):
            dispatch_custom_event(name, told, config={"callbacks": run_manager.get_child()})
        return [*self._first(found), *self._documents(found)]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **asked: Any
    ) -> list[Document]:
        found = await self._afound(query, asked, run_manager.get_child())
        for name, told in self._told(found):
            await adispatch_custom_event(name, told, config={"callbacks": run_manager.get_child()})
        return [*self._first(found), *(await asyncio.to_thread(self._documents, found))]  # some read the library

    def _told(self, found: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        """Write to the log, and yield as events, what failed and what stands nowhere."""
        ranking = self._ranking_of(found)
        warn(ranking.degraded)
        yield from ((DEGRADED, asdict(part)) for part in ranking.degraded)
        for name in ranking.unknown:
            _log.warning("%s", name)
            yield UNKNOWN, asdict(name)

    def _first(self, found: Any) -> list[Document]:
        """Return the document that names what stands nowhere, where the retriever is told to give one."""
        ranking = self._ranking_of(found)
        return [unknown_document(ranking)] if getattr(self, "tell_unknown", False) and ranking.unknown else []

    def _check(self, given: Mapping[str, Any]) -> None:
        for name in given:
            if name not in self.asked and name not in _OF_LANGCHAIN:
                what = f"an option of {type(self).__name__}.invoke"
                raise ParameterError(what, name, f"one of {', '.join(self.asked)}")

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        return LangSmithRetrieverParams(ls_retriever_name=self.provider, ls_vector_store_provider="catena")


class Compression(TypedDict):
    """The input of a compressor as a runnable."""

    documents: Sequence[Document]
    query: str


class CatenaBaseCompressor(NamedFields, BaseDocumentCompressor):
    """A compressor by one step of the core; a runnable as well, for chains without `ContextualCompressionRetriever`.

    Documents that tell of names that stand nowhere are no passages: they stay in front.
    """

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        found = run_within(callbacks, *self._prepared(documents, query))
        return [*filter(is_unknown, documents), *self._documents(found)]

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        found = await arun_within(callbacks, *self._prepared(documents, query))
        return [*filter(is_unknown, documents), *self._documents(found)]

    def as_runnable(self, *, name: str | None = None) -> Runnable[Compression, list[Document]]:
        """Return a runnable from `{"documents": …, "query": …}` to documents, traced under its name.

            found = {"documents": retriever, "query": RunnablePassthrough()} | rerank.as_runnable()

        Args:
            name: in traces; the class's by default.
        """

        def compress(given: Compression, config: RunnableConfig) -> list[Document]:
            return list(self.compress_documents(*_given(given), callbacks=config.get("callbacks")))

        async def acompress(given: Compression, config: RunnableConfig) -> list[Document]:
            return list(await self.acompress_documents(*_given(given), callbacks=config.get("callbacks")))

        made = RunnableLambda(compress, acompress, name=name or type(self).__name__)
        return made.with_types(input_type=Compression, output_type=list[Document])

    @abstractmethod
    def _prepared(self, documents: Sequence[Document], query: str) -> tuple[Step[Any], Services]:
        """Return the step that compresses documents, and the services that answer the step."""

    @abstractmethod
    def _documents(self, found: Any) -> list[Document]:
        """Return the result of the step as documents, and write to the log what failed."""


def _given(given: Any) -> tuple[Sequence[Document], str]:
    if not isinstance(given, Mapping) or not {"documents", "query"} <= given.keys():
        what = sorted(map(str, given)) if isinstance(given, Mapping) else type(given).__name__
        raise ParameterError("what a compressor is given", what, "a mapping with 'documents' and 'query'")
    return given["documents"], given["query"]


class CatenaBaseTransformer(BaseDocumentTransformer):
    """A transformer by one step of the core, which is a runnable as well."""

    def transform_documents(self, documents: Sequence[Document], **kwargs: Any) -> list[Document]:
        """Return the transformed documents; those given stay as they are."""
        given = self._read(documents)
        return self._transformed(given, run(self._step(given), self._services()))

    async def atransform_documents(self, documents: Sequence[Document], **kwargs: Any) -> list[Document]:
        """As `transform_documents`, without blocking the event loop."""
        if not self._asks():
            return await asyncio.to_thread(self.transform_documents, documents)
        given = await asyncio.to_thread(self._read, documents)
        services = await asyncio.to_thread(self._services)
        return self._transformed(given, await arun(self._step(given), services, computes=True))

    def as_runnable(self, *, name: str | None = None) -> Runnable[Sequence[Document], list[Document]]:
        """Return a runnable from documents to documents, traced under its name, its models' calls below it.

            chunks = (RunnableLambda(load) | transformer.as_runnable()).invoke("manuals")

        Args:
            name: in traces; the class's by default.
        """

        def transform(documents: Sequence[Document]) -> list[Document]:
            return list(self.transform_documents(documents))

        async def atransform(documents: Sequence[Document]) -> list[Document]:
            return list(await self.atransform_documents(documents))

        made = RunnableLambda(transform, atransform, name=name or type(self).__name__)
        return made.with_types(input_type=Sequence[Document], output_type=list[Document])

    @abstractmethod
    def _step(self, given: Any) -> Step[Any]:
        """Return the step that transforms what `_read` gives."""

    @abstractmethod
    def _services(self) -> Services:
        """Return the services that answer the step."""

    @abstractmethod
    def _transformed(self, given: Any, found: Any) -> list[Document]:
        """Return the result of the step as documents."""

    def _read(self, documents: Sequence[Document]) -> Any:
        """Read from the documents the input of the step."""
        return list(documents)

    def _asks(self) -> bool:
        """Return True where the step asks a service, False where it only computes."""
        return True

"""What the retrievers, compressors and transformers of this package share."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from langchain_core.documents import BaseDocumentCompressor, BaseDocumentTransformer, Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.runnables import ConfigurableFieldSpec, Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.config import set_config_context
from langchain_core.runnables.utils import get_unique_config_specs
from typing_extensions import TypedDict  # pydantic makes schemas of no other before Python 3.12

from catena.model import ParameterError
from langchain_catena.fields import NamedFields, check_options
from langchain_catena.running import for_children


class CatenaBaseRetriever(NamedFields, BaseRetriever):
    """A retriever whose children see what it was called with, and whose mistyped options are named.

    The retrievers and models inside are called with the tags, metadata and configurable values of the call, and
    `config_specs` lists what can be configured of them.
    """

    asked: ClassVar[type]
    """A typed dictionary of what `invoke` takes besides the question."""

    provider: ClassVar[str] = "catena"
    """What a trace names as who finds."""

    def children(self) -> Iterator[object]:
        """Yield the retrievers and models inside."""
        yield from ()

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        inside = (child for child in self.children() if isinstance(child, Runnable))
        return get_unique_config_specs(spec for child in inside for spec in child.config_specs)

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        check_options(self, kwargs, self.asked.__annotations__)
        with set_config_context(for_children(config)) as context:
            return context.run(super().invoke, input, config, **kwargs)

    async def ainvoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        check_options(self, kwargs, self.asked.__annotations__)
        with set_config_context(for_children(config)) as context:
            found = super().ainvoke(input, config, **kwargs)
            return await asyncio.get_running_loop().create_task(found, context=context)

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        return LangSmithRetrieverParams(ls_retriever_name=self.provider, ls_vector_store_provider="catena")


class Compression(TypedDict):
    """What a compressor as a runnable is given."""

    documents: Sequence[Document]
    query: str


class CatenaBaseCompressor(NamedFields, BaseDocumentCompressor):
    """A compressor that is a runnable as well, for chains without `ContextualCompressionRetriever`."""

    def as_runnable(self, *, name: str | None = None) -> Runnable[Compression, list[Document]]:
        """Return a runnable from `{"documents": …, "query": …}` to documents, traced under its name.

            found = {"documents": retriever, "query": RunnablePassthrough()} | rerank.as_runnable()

        Args:
            name: in traces; the class's by default.
        """

        def compress(given: Compression, config: RunnableConfig) -> list[Document]:
            documents, query = _given(given)
            return list(self.compress_documents(documents, query, callbacks=config.get("callbacks")))

        async def acompress(given: Compression, config: RunnableConfig) -> list[Document]:
            documents, query = _given(given)
            return list(await self.acompress_documents(documents, query, callbacks=config.get("callbacks")))

        made = RunnableLambda(compress, acompress, name=name or type(self).__name__)
        return made.with_types(input_type=Compression, output_type=list[Document])


class CatenaBaseTransformer(BaseDocumentTransformer):
    """A transformer that is a runnable as well."""

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
    def transform_documents(self, documents: Sequence[Document], **kwargs: Any) -> list[Document]:
        """Return what the documents become; they stay as they are."""

    @abstractmethod
    async def atransform_documents(self, documents: Sequence[Document], **kwargs: Any) -> list[Document]:
        """As `transform_documents`, without blocking the event loop."""


def _given(given: Any) -> tuple[Sequence[Document], str]:
    if not isinstance(given, Mapping) or not {"documents", "query"} <= given.keys():
        what = sorted(map(str, given)) if isinstance(given, Mapping) else type(given).__name__
        raise ParameterError("what a compressor is given", what, "a mapping with 'documents' and 'query'")
    return given["documents"], given["query"]

"""Catena's embedders as a LlamaIndex embedding model."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field

from catena.effects import Embedder
from catena.model import ParameterError
from llama_index_catena.arguments import checked_arguments
from llama_index_catena.components import Component

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@cache
def _shipped() -> Embedder:
    from catena.enrichment import StaticEmbedder

    return StaticEmbedder()


class CatenaEmbedding(Component, BaseEmbedding):
    """A Catena embedder as a LlamaIndex embedding model; by default the shipped one: no key, no network.

    `model_name` is the embedder's identity, so that caches and stores tell models apart.

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
        identity = self._model.identity
        if self.model_name not in ("unknown", identity):
            raise ParameterError("embedder", identity, f"the embedder {self.model_name!r}, given again")
        self.model_name = identity

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which the model is serialised."""
        return "CatenaEmbedding"

    @property
    def _model(self) -> Embedder:
        return _shipped() if self.embedder is None else cast("Embedder", self.embedder)

    def _get_query_embedding(self, query: str) -> list[float]:
        return _floats(self._model.embed_query(query))

    async def _aget_query_embedding(self, query: str) -> list[float]:
        model: Any = self._model
        if hasattr(model, "aembed_query"):
            return _floats(await model.aembed_query(query))
        return await asyncio.to_thread(self._get_query_embedding, query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return [_floats(row) for row in self._model.embed_documents(texts)]

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return (await self._aget_text_embeddings([text]))[0]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        model: Any = self._model
        if hasattr(model, "aembed_documents"):
            return [_floats(row) for row in await model.aembed_documents(texts)]
        return await asyncio.to_thread(self._get_text_embeddings, texts)


def _floats(row: NDArray[np.float32]) -> list[float]:
    return [float(value) for value in row]

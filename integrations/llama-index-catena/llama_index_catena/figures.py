"""Figures of a library as LlamaIndex image nodes, found by a question."""

from __future__ import annotations

import asyncio

from llama_index.core.callbacks import CallbackManager
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

from catena.effects import Step, arun, run
from catena.library import figures_step
from catena.model import Ranking
from catena.retrieval import Fusion
from llama_index_catena.arguments import Remade, checked_arguments
from llama_index_catena.convert import figure_node
from llama_index_catena.filters import Filters, where_of
from llama_index_catena.libraries import AnyLibrary, check_source, figure_file
from llama_index_catena.retrieval import tell

dispatcher = get_dispatcher(__name__)


class CatenaFigureRetriever(Remade, BaseRetriever):
    """Finds the figures of a library by their titles, the text around them, the words inside and their captions.

    Its nodes are `ImageNode`s with the file of the picture (`image_path`, in the library's own folder; where it
    cannot be written there, the picture itself). Documents have figures when they were indexed with
    `Preparation(engine="pypdfium2", figures=True)`. See `llama_index_catena.convert.figure_node` for the metadata.

    Args:
        library: an open library.
        similarity_top_k: how many figures, >= 0.
        where, filters: a further filter, e.g. `{"document_id": "manual.pdf"}`, or LlamaIndex's `MetadataFilters`.
        fusion: as `catena.retrieval.multi_route.retrieve` takes it.
        callback_manager: told of each retrieval, as by every LlamaIndex retriever.
        verbose: as LlamaIndex has it.
    """

    @checked_arguments
    def __init__(
        self,
        library: AnyLibrary,
        *,
        similarity_top_k: int = 4,
        where: Filters | None = None,
        filters: Filters | None = None,
        fusion: Fusion | None = None,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(callback_manager=callback_manager, verbose=verbose)
        check_source("library", library)
        self.similarity_top_k, self.where, self.fusion = similarity_top_k, where_of(where, filters), fusion
        self._library = library

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._nodes(run(self._step(query_bundle.query_str), self._library.services))

    @dispatcher.span
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        ranking = await arun(self._step(query_bundle.query_str), self._library.services)
        return await asyncio.to_thread(self._nodes, ranking)  # reads pictures, and writes their files

    def _step(self, question: str) -> Step[Ranking]:
        return figures_step(question, k=self.similarity_top_k, where=self.where, fusion=self.fusion)

    def _nodes(self, ranking: Ranking) -> list[NodeWithScore]:
        tell(ranking)
        found = self._library.figures(ranking)
        return [figure_node(hit, ranking, figure, figure_file(self._library, hit)) for figure, hit in found]

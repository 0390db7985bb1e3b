"""Build trees of summaries over documents (RAPTOR), and retrieve documents through them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseLanguageModel
from pydantic import Field, InstanceOf, PrivateAttr

from catena import ParameterError, Ranking, Services, arun, run
from catena.effects import Embedder, Step, all_together
from catena.model import needs
from catena.structure import outline
from langchain_catena.base import CatenaBaseRetriever, CatenaBaseTransformer, warn
from langchain_catena.convert import chunk_metadata, scalars, to_chunk, to_core_document, to_document
from langchain_catena.places import source_of
from langchain_catena.services import services_with, to_embedder
from langchain_catena.structure import OF_THE_PARENT_ALONE, in_whole, linked, to_cut

with needs("catena-bench"):
    from catena_bench.baselines import ClusterSummaries, RaptorOptions, RaptorTree, TreeWay, raptor_tree, search_trees


def build_trees(
    documents: Sequence[Document],
    embeddings: Embeddings | Embedder,
    *,
    llm: BaseLanguageModel[Any] | None = None,
    options: RaptorOptions | None = None,
    source_key: str | None = None,
    services: Services | None = None,
) -> tuple[RaptorTree, ...]:
    """Return one tree of summaries per source, for `CatenaTreeRetriever`; what a model fails at is told in the log.

    Args:
        documents: chunks of any splitter, those of one source in reading order.
        embeddings: of LangChain or of the core.
        llm: any chat model or LLM, which writes the summaries; without one they are sentences of the documents.
        options: clustering (extra `raptor`), layers, and how long summaries are.
        source_key: metadata key of whose a document is; "source", or else "document_id", where None.
        services: journal, budget and limits of the calls.

    Raises:
        ParameterError: a document does not say whose it is, or is there twice.
        MissingExtraError: a document is long enough for clusters, and scikit-learn is not installed.
    """
    outside = services_with(services, llm=llm, embeddings=embeddings)
    return _made(run(_grown(documents, _options(options, llm), source_key), outside))


async def abuild_trees(
    documents: Sequence[Document],
    embeddings: Embeddings | Embedder,
    *,
    llm: BaseLanguageModel[Any] | None = None,
    options: RaptorOptions | None = None,
    source_key: str | None = None,
    services: Services | None = None,
) -> tuple[RaptorTree, ...]:
    """As `build_trees`, without blocking the event loop; clusters are computed in threads."""
    outside = services_with(services, llm=llm, embeddings=embeddings)
    return _made(await arun(_grown(documents, _options(options, llm), source_key), outside, computes=True))


class CatenaTreeRetriever(CatenaBaseRetriever):
    """Finds documents through trees of summaries: a summary that is near to the question brings what it sums up.

        trees = build_trees(chunks, embeddings, llm=model)
        CatenaTreeRetriever(trees=trees, embeddings=embeddings, k=6)

    Documents come as they were given, with their metadata, `relevance_score` and provenance: in
    `metadata["catena"]["routes"]` the node that brought one, `view` "summary" or "raw". Summaries are not returned:
    they stand in no document. `ranking` and `aranking` return the core's `Ranking`.

    Attributes:
        trees: of `build_trees`.
        embeddings: by which they were built.
        k: documents returned; `invoke` takes it, too.
        way: "collapsed" ranks the nodes of all layers at once, "traversal" goes down from the roots.
    """

    asked: ClassVar[tuple[str, ...]] = ("k",)
    provider: ClassVar[str] = "catena-trees"

    trees: tuple[InstanceOf[RaptorTree], ...] = Field(exclude=True)
    embeddings: Any = Field(exclude=True)
    k: int = Field(default=4, ge=0)
    way: TreeWay = "collapsed"
    _outside: Services = PrivateAttr(default_factory=Services)  # one, so that a dead model is remembered

    def _prepared(self, query: str, **asked: Any) -> tuple[Step[Ranking], Services]:
        trees = [(each.tree, each.vectors) for each in self.trees]
        step = search_trees(query, trees, k=self.k if asked.get("k") is None else asked["k"], way=self.way)
        return step, replace(self._outside, embedder=to_embedder(self.embeddings))

    def _documents(self, found: Ranking) -> list[Document]:
        return [to_document(hit, found) for hit in found.hits]


def _options(given: RaptorOptions | None, llm: object) -> RaptorOptions:
    return given or RaptorOptions(summaries=ClusterSummaries(by="offline" if llm is None else "llm"))


def _grown(documents: Sequence[Document], how: RaptorOptions, source_key: str | None) -> Step[list[RaptorTree]]:
    sources: dict[str, list[Document]] = defaultdict(list)
    for document in documents:
        sources[source_of(document, source_key)].append(document)
    steps = []
    for source, parts in sources.items():
        chunks = [replace(to_chunk(part), document_id=source, position=place) for place, part in enumerate(parts)]
        steps.append(raptor_tree(source, chunks, how, title=str(parts[0].metadata.get("title", ""))))
    return (yield from all_together(steps))


def _made(trees: Sequence[RaptorTree]) -> tuple[RaptorTree, ...]:
    warn([part for each in trees for part in each.degraded])
    return tuple(trees)


with needs("catena-bench"):
    from catena_bench.baselines import AtomicChunks, AtomicOptions, cut_atomic


class CatenaAtomicTransformer(CatenaBaseTransformer):
    """Cuts documents into atomic units by a model, whose answers only say where to cut: no word is its own.

        units = CatenaAtomicTransformer(llm=model).transform_documents(CatenaLoader("manuals").load())

    Metadata are those of `CatenaDocumentTransformer`. A window of which no answer was of use is cut at sentences,
    and the log says so, or raises, as `options.on_error` has it.

    Args:
        llm: any chat model or LLM.
        options: windows, attempts, and what is done where the model fails.
        inside_sections: units end where sections do.
        services: journal, budget and limits of the model's calls, and the model where `llm` is not given.

    Raises:
        ParameterError: there is no model.
    """

    def __init__(
        self,
        *,
        llm: BaseLanguageModel[Any] | None = None,
        options: AtomicOptions | None = None,
        inside_sections: bool = True,
        services: Services | None = None,
    ) -> None:
        self.llm, self.services, self.inside_sections = llm, services, inside_sections
        self.options = options or AtomicOptions()
        if self._services().llm is None:
            raise ParameterError("llm", None, "a chat model or LLM: it divides the text")

    def _read(self, documents: Sequence[Document]) -> list[Document]:
        return [to_cut(document) for document in documents]

    def _services(self) -> Services:
        return services_with(self.services, llm=self.llm)

    def _step(self, given: Sequence[Document]) -> Step[list[AtomicChunks]]:
        whole = [to_core_document(each) for each in given]
        sections = [outline(each) if self.inside_sections else None for each in whole]
        cut = (cut_atomic(each, self.options, sections=of) for each, of in zip(whole, sections, strict=True))
        return all_together(list(cut))

    def _transformed(self, given: Sequence[Document], found: Sequence[AtomicChunks]) -> list[Document]:
        warn([part for done in found for part in done.degraded])
        return linked((document, _units(document, done)) for document, done in zip(given, found, strict=True))


def _units(document: Document, done: AtomicChunks) -> list[Document]:
    parent = {key: value for key, value in document.metadata.items() if key not in OF_THE_PARENT_ALONE}
    units = []
    for unit in done.chunks:
        known = {**scalars(parent), **unit.metadata}  # for its citation
        metadata = {**parent, **chunk_metadata(replace(in_whole(unit, document), metadata=known))}
        units.append(Document(id=unit.id, page_content=unit.text, metadata=metadata))
    return units

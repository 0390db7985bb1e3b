"""What tests of LangChain's slots share: one of each retriever, over one small library, and traces of their runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.stores import InMemoryStore
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from langchain_core.tracers.schemas import Run
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_fakes import charts

from catena import Library
from catena.library import Preparation
from catena.retrieval import ExactUnion
from langchain_catena import (
    CatenaDocumentTransformer,
    CatenaEmbeddings,
    CatenaFigureRetriever,
    CatenaGraphRetriever,
    CatenaMultiViewRetriever,
    CatenaRetriever,
    CatenaSectionRetriever,
    CatenaSegmentRetriever,
    CatenaViewIndex,
    CatenaViewTransformer,
)

MANUAL = """# {name} Manual

## Mounting

Tighten the cover screws to {torque} Nm. Use the supplied key.

## Maintenance

Check the seal of the cover every {months} months. The fuse is a {fuse}.
"""
QUESTION = "How tight are the cover screws of the HX210?"


@contextmanager
def small_library(folder: Path) -> Iterator[Library]:
    """Two manuals and two PDFs with two charts each, with their graph."""
    for name, torque, months, fuse in (("HX200", "3.2", 6, "T2A"), ("HX210", "4.5", 12, "T4A")):
        text = MANUAL.format(name=name, torque=torque, months=months, fuse=fuse)
        (folder / f"{name.lower()}.md").write_text(text, encoding="utf-8")
    for name in ("charts.pdf", "copy.pdf"):
        (folder / name).write_bytes(charts())
    with Library.open(folder / "library", preparation=Preparation(engine="pypdfium2", figures=True)) as opened:
        opened.index(sorted(folder.glob("*.*")))
        opened.build_graph()
        yield opened


def chunks() -> list[Document]:
    """The manuals as documents, cut."""
    texts = [
        MANUAL.format(name=name, torque=torque, months=6, fuse="T2A")
        for name, torque in (("HX200", "3.2"), ("HX210", "4.5"))
    ]
    about = [{"source": "hx200.md"}, {"source": "hx210.md"}]
    return CatenaDocumentTransformer(content="headed").create_documents(texts, about)


def store() -> InMemoryVectorStore:
    return InMemoryVectorStore.from_documents(chunks(), CatenaEmbeddings())


def retriever_of(kind: str, library: Library) -> BaseRetriever:
    """Return one of each, by the names in `RETRIEVERS`."""
    return RETRIEVERS[kind](library)


def _over(_: Library) -> BaseRetriever:
    return CatenaRetriever.over({"near": store().as_retriever(), "far": store().as_retriever()}, k=3)


def _behind(_: Library) -> BaseRetriever:
    kept = store()
    return CatenaSegmentRetriever(retriever=kept.as_retriever(), neighbours=kept, k=3)


def _views(_: Library) -> BaseRetriever:
    stores = {"vectorstore": InMemoryVectorStore(CatenaEmbeddings()), "docstore": InMemoryStore()}
    index = CatenaViewIndex(views=CatenaViewTransformer(["headed", "raw"]), **stores)
    index.add(chunks())
    return index.retriever(k=3, rule=ExactUnion())


def _per_view(_: Library) -> BaseRetriever:
    return CatenaMultiViewRetriever(retrievers={"near": store().as_retriever()}, rule=ExactUnion(), k=3)


RETRIEVERS: dict[str, Callable[[Library], BaseRetriever]] = {
    "library": lambda library: CatenaRetriever(library=library, k=3),
    "over": _over,
    "figures": lambda library: CatenaFigureRetriever(library=library, k=3),
    "segments": lambda library: CatenaSegmentRetriever(library=library, k=3),
    "behind": _behind,
    "views": _views,
    "per view": _per_view,
    "sections": lambda library: CatenaSectionRetriever(library=library, k=3),
    "graph": lambda library: CatenaGraphRetriever(library=library, k=3),
}


class Traces:
    """Keeps the runs of whoever is called with `config`."""

    def __init__(self) -> None:
        self.collector = RunCollectorCallbackHandler()

    @property
    def config(self) -> dict[str, Any]:
        return {"callbacks": [self.collector]}

    @property
    def root(self) -> Run:
        (root,) = self.collector.traced_runs
        return root


def children(run: Run) -> list[str]:
    """Return the names of the runs right below a run, sorted."""
    return sorted(child.name for child in run.child_runs)

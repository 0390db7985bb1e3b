"""What tests of the LangChain package share: fakes, libraries, one of each retriever, and traces of their runs."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.stores import InMemoryStore
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from langchain_core.tracers.schemas import Run
from langchain_core.vectorstores import InMemoryVectorStore
from reportlab.pdfgen.canvas import Canvas

import langchain_catena as lc
from catena import Library
from catena.library import Preparation
from catena.retrieval import ExactUnion
from catena.testing import FakeEmbedder

SUNSET = pytest.mark.filterwarnings("ignore:.*(langchain-community|Swig|swig):DeprecationWarning")


class ReplyingChatModel(BaseChatModel):
    """Replies by a function of the messages; `sent` keeps them."""

    reply: Callable[[list[BaseMessage]], str | AIMessage]
    sent: list[list[BaseMessage]] = []  # noqa: RUF012 - pydantic copies it

    @property
    def _llm_type(self) -> str:
        return "replying"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.sent.append(messages)
        reply = self.reply(messages)
        message = reply if isinstance(reply, AIMessage) else AIMessage(reply)
        return ChatResult(generations=[ChatGeneration(message=message)])


class Fixed(BaseRetriever):
    """Returns the documents that it was given, whatever the question."""

    docs: Sequence[Document]

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return list(self.docs)

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return list(self.docs)


class Broken(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        raise RuntimeError("the index is gone")


class Events(BaseCallbackHandler):
    """Keeps the custom events; `seen` has name and data."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []

    def on_custom_event(self, name: str, data: Any, **kwargs: Any) -> None:
        self.seen.append((name, data))


PROSE = "The housing keeps the water out of the device, which stands in the rain for many years."
CHARTS = (
    ("The chart counts the failures in the field.", "Figure 1: Failures by year", (30, 70, 45, 60)),
    ("The chart compares the pressure of two pumps.", "Figure 2: Pressure of the pumps", (65, 20, 55)),
)


def charts() -> bytes:
    """Return a PDF with a bar chart on each page."""
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=(595, 842), invariant=1)
    for sentence, caption, bars in CHARTS:
        canvas.setFont("Helvetica", 10)
        for line in range(4):
            canvas.drawString(60, 816 - 14 * line, PROSE)
        canvas.drawString(60, 760, sentence)
        canvas.line(120, 560, 360, 560)
        canvas.line(120, 560, 120, 650)
        for place, height in enumerate(bars):
            canvas.rect(140 + 50 * place, 560, 30, height, fill=1)
            canvas.drawString(148 + 50 * place, 548, f"T{place}")
        canvas.drawString(120, 526, caption)
        for line in range(4):
            canvas.drawString(60, 480 - 14 * line, PROSE)
        canvas.showPage()
    canvas.save()
    return out.getvalue()


MANUAL = (
    "# {name} Manual\n\n## Mounting\n\nTighten the cover screws to {torque} Nm. Use the supplied key.\n\n"
    "## Maintenance\n\nCheck the seal of the cover every {months} months. The fuse is a {fuse}.\n"
)
QUESTION = "How tight are the cover screws of the HX210?"


@contextmanager
def library_of(folder: Path, texts: Mapping[str, str], **options: Any) -> Iterator[Library]:
    """A library of files with these names and texts."""
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    with Library.open(folder / "library", **options) as opened:
        opened.index(sorted(folder.glob("*.*")))
        yield opened


def module_library(texts: Mapping[str, str], **options: Any) -> Any:
    """Return the fixture of a library that all tests of a module share."""

    @pytest.fixture(scope="module")
    def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
        with library_of(tmp_path_factory.mktemp("manuals"), texts, **options) as opened:
            yield opened

    return library


@contextmanager
def small_library(folder: Path) -> Iterator[Library]:
    """Two manuals and two PDFs with two charts each, with their graph."""
    for name in ("charts.pdf", "copy.pdf"):
        (folder / name).write_bytes(charts())
    told = (("HX200", "3.2", 6, "T2A"), ("HX210", "4.5", 12, "T4A"))
    texts = {f"{n.lower()}.md": MANUAL.format(name=n, torque=t, months=m, fuse=f) for n, t, m, f in told}
    with library_of(folder, texts, preparation=Preparation(engine="pypdfium2", figures=True)) as opened:
        opened.build_graph()
        yield opened


def chunks() -> list[Document]:
    """The manuals as documents, cut."""
    texts = [
        MANUAL.format(name=name, torque=torque, months=6, fuse="T2A")
        for name, torque in (("HX200", "3.2"), ("HX210", "4.5"))
    ]
    about = [{"source": "hx200.md"}, {"source": "hx210.md"}]
    return lc.CatenaDocumentTransformer(content="headed").create_documents(texts, about)


def store() -> InMemoryVectorStore:
    return InMemoryVectorStore.from_documents(chunks(), lc.CatenaEmbeddings())


def retriever_of(kind: str, library: Library) -> BaseRetriever:
    """Return one of each, by the names in `RETRIEVERS`."""
    return RETRIEVERS[kind](library)


def _over(_: Library) -> BaseRetriever:
    return lc.CatenaRetriever.over({"near": store().as_retriever(), "far": store().as_retriever()}, k=3)


def _behind(_: Library) -> BaseRetriever:
    kept = store()
    return lc.CatenaSegmentRetriever(retriever=kept.as_retriever(), neighbours=kept, k=3)


def _views(_: Library) -> BaseRetriever:
    stores = {"vectorstore": InMemoryVectorStore(lc.CatenaEmbeddings()), "docstore": InMemoryStore()}
    index = lc.CatenaViewIndex(views=lc.CatenaViewTransformer(["headed", "raw"]), **stores)
    index.add(chunks())
    return index.retriever(k=3, rule=ExactUnion())


def _per_view(_: Library) -> BaseRetriever:
    return lc.CatenaMultiViewRetriever(retrievers={"near": store().as_retriever()}, rule=ExactUnion(), k=3)


RETRIEVERS: dict[str, Callable[[Library], BaseRetriever]] = {
    "library": lambda library: lc.CatenaRetriever(library=library, k=3),
    "over": _over,
    "figures": lambda library: lc.CatenaFigureRetriever(library=library, k=3),
    "segments": lambda library: lc.CatenaSegmentRetriever(library=library, k=3),
    "behind": _behind,
    "views": _views,
    "per view": _per_view,
    "sections": lambda library: lc.CatenaSectionRetriever(library=library, k=3),
    "graph": lambda library: lc.CatenaGraphRetriever(library=library, k=3),
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


PASSAGES = (
    ("Arno Hale", "Arno Hale was a composer from Verdel, who wrote the opera Night Ferry."),
    ("Arno Hale", "In his last years Arno Hale taught harmony and kept bees."),
    ("Verdel", "Verdel is a town on the Ombra, known for glass. Its mayor is Lisa Prent."),
    ("Ombra", "The Ombra is 212 km long and rises in the Kesh hills."),
    ("Night Ferry", "Night Ferry is an opera in three acts, first given in 1931."),
    ("Banana", "A banana is a yellow fruit that ripens in the shade."),
    ("Pump", "The pump moves water through the hose at low speed."),
)
RIVER = "How long is the river at the town that Arno Hale, composer of Night Ferry, came from?"


def passages(*, ids: bool = True, **more: Any) -> list[Document]:
    """Return the passages, each leading to the next, as splits that know nothing of their place."""
    return [
        Document(
            id=f"p{number}" if ids else None,
            page_content=text,
            metadata={"title": title, "source": f"{title.lower()}.md", **more},
        )
        for number, (title, text) in enumerate(PASSAGES)
    ]


def embeddings() -> lc.CatenaEmbeddings:
    return lc.CatenaEmbeddings(FakeEmbedder(dim=48))


def ids(documents: Sequence[Document]) -> list[str | None]:
    return [document.id for document in documents]

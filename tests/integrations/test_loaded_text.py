"""What loaders of both frameworks read: plain text stays plain, and pages of a file are joined with their numbers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langchain_community.document_loaders import DirectoryLoader, PyPDFLoader, TextLoader
from langchain_core.documents import Document as LangChainDocument
from llama_index.core import SimpleDirectoryReader
from llama_index.core.readers.base import BaseReader
from llama_index.core.schema import Document as LlamaIndexDocument
from pypdf import PdfReader
from reportlab.pdfgen.canvas import Canvas

import langchain_catena
import llama_index_catena
from catena import Document, Library
from catena.effects import Complete, Journal, Services
from catena.formatting import FormatOptions
from catena.model import ParameterError, ServiceError
from catena.testing import FaithfulFormatter
from catena.text import MARKDOWN
from catena_bench.generated_pdfs import PdfStyle, render_pdf
from catena_bench.synthetic_manuals import manual_markdown
from langchain_catena import CatenaDocumentTransformer, CatenaLoader
from llama_index_catena import CatenaNodeParser
from llama_index_catena import documents as llama_index_convert

SCRIPT = "Mounting the pump\n\n# set the path\nexport PATH=/opt/pump\n\n# and start\npump --on\n"


class PDFReader(BaseReader):
    """Gives what `llama_index.readers.file.PDFReader` gives: that package wants a pypdf older than the pinned one."""

    def load_data(self, file: Path, extra_info: dict[str, Any] | None = None, **_: Any) -> list[LlamaIndexDocument]:
        reader = PdfReader(file)
        return [
            LlamaIndexDocument(
                text=page.extract_text(), metadata={"page_label": label, "file_name": file.name, **(extra_info or {})}
            )
            for page, label in zip(reader.pages, reader.page_labels, strict=True)
        ]


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PDF of three pages that prints a shell script on each."""
    path = tmp_path_factory.mktemp("manual") / "manual.pdf"
    canvas = Canvas(str(path), invariant=1)
    for number in range(1, 4):
        for row, line in enumerate(f"{SCRIPT}This is text of page {number} of the manual.".split("\n")):
            canvas.drawString(72, 700 - 14 * row, line)
        canvas.showPage()
    canvas.save()
    return path


def langchain_headings(path: Path, joined: bool) -> list[str]:
    pages = PyPDFLoader(str(path)).load()
    chunks = CatenaDocumentTransformer().split_documents(langchain_catena.join_pages(pages) if joined else pages)
    assert all("first_page" in chunk.metadata for chunk in chunks)
    return [chunk.metadata["heading_path"] for chunk in chunks if "heading_path" in chunk.metadata]


def llama_index_headings(path: Path, joined: bool) -> list[str]:
    pages = SimpleDirectoryReader(input_files=[path], file_extractor={".pdf": PDFReader()}).load_data()
    nodes = CatenaNodeParser().get_nodes_from_documents(llama_index_catena.join_pages(pages) if joined else pages)
    assert all("page_label" in node.metadata for node in nodes)
    return [node.metadata["header_path"] for node in nodes if node.metadata["header_path"] != "/"]


@pytest.mark.parametrize("joined", [False, True], ids=["pages", "joined"])
@pytest.mark.parametrize("headings", [langchain_headings, llama_index_headings])
def test_no_chunk_of_a_pdf_stands_under_a_comment_line(
    manual: Path, headings: Callable[..., list[str]], joined: bool
) -> None:
    assert headings(manual, joined) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["R-data.pdf", "libtasn1.pdf"])
def test_no_chunk_of_a_real_manual_stands_under_a_comment_line(data_at: Callable[..., Path], name: str) -> None:
    path = data_at("pdfs", name)
    assert langchain_headings(path, True) == []
    assert llama_index_headings(path, True) == []


def test_joined_pages_keep_their_numbers_in_chunks_and_in_a_library(manual: Path, tmp_path: Path) -> None:
    pages = PyPDFLoader(str(manual)).load()
    (joined,) = langchain_catena.join_pages(pages)
    chunks = CatenaDocumentTransformer(max_tokens=40).split_documents([joined])
    with Library.open(tmp_path / "library") as library:
        library.add(langchain_catena.to_core_document(joined))
        (hit, *_) = library.search("text of page 2").hits
        library.index([pages[2]])
        assert library.search("text of page 3", where={"page": 3}).hits
    single = CatenaDocumentTransformer().split_documents([pages[2]])[0].metadata
    assert (single["first_page"], single["last_page"]) == (3, 3)
    for number in (1, 2, 3):
        (chunk,) = [each for each in chunks if f"text of page {number} " in each.page_content]
        assert chunk.metadata["first_page"] <= number <= chunk.metadata["last_page"]
        assert f"page {number} " in joined.page_content[chunk.metadata["start_index"] : chunk.metadata["end_index"]]
    assert hit.chunk.pages is not None
    assert hit.chunk.pages[0] <= 2 <= hit.chunk.pages[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same text as a plain file, a script, and Markdown."""
    folder = tmp_path_factory.mktemp("texts")
    for name in ("notes.txt", "start.sh", "notes.md"):
        (folder / name).write_text(SCRIPT)
    return folder


def test_a_text_file_is_plain_by_any_loader_and_markdown_stays_markdown(folder: Path, tmp_path: Path) -> None:
    by_name: dict[str, set[bool]] = {}

    def told(name: str, headed: bool) -> None:
        by_name.setdefault(Path(name).name, set()).add(headed)

    ours = CatenaLoader([folder / "notes.txt", folder / "notes.md"]).load()
    theirs = DirectoryLoader(str(folder), loader_cls=TextLoader).load()
    for chunk in CatenaDocumentTransformer().split_documents([*ours, *theirs]):
        told(chunk.metadata["source"], "heading_path" in chunk.metadata)
    for node in CatenaNodeParser().get_nodes_from_documents(SimpleDirectoryReader(folder).load_data()):
        told(node.metadata["file_name"], node.metadata["header_path"] != "/")
    with Library.open(tmp_path / "library") as library:
        for document in theirs:
            library.add(langchain_catena.to_core_document(document))
        titles = {Path(info.source).name: info.title for info in library.documents()}
    assert by_name == {"notes.txt": {False}, "start.sh": {False}, "notes.md": {False, True}}  # text before a heading
    assert (titles["notes.txt"], titles["start.sh"]) == ("notes", "start")


def test_a_media_type_that_is_given_goes_before_what_metadata_say() -> None:
    page = LangChainDocument(page_content="# One\n\nText.", metadata={"source": "by_a_converter.pdf"})
    (chunk,) = CatenaDocumentTransformer(media_type="text/markdown").split_documents([page])
    assert chunk.metadata["heading_path"] == "One"
    with pytest.raises(ParameterError, match="media_type"):
        CatenaDocumentTransformer(media_type="text/html")  # type: ignore[arg-type]


def test_a_text_that_is_set_anew_is_read_as_the_one_before() -> None:
    document = llama_index_convert.from_core_document(Document(id="a.pdf", source="a.pdf", text="# A\n\nold"))
    document.set_content("# A\n\nnew")
    assert llama_index_convert.to_core_document(document).media_type == MARKDOWN


# Files whose Markdown a model writes.

TRUTHS = [manual_markdown(number, numbered=True, levels=2, words=100) for number in (2, 5)]
SMALL = FormatOptions(window=120, padding=30)


def faithful(prompt: str) -> str:
    """Answer with the true Markdown of the window that is shown, of whatever file."""
    for truth in TRUTHS:
        with suppress(ServiceError):
            return FaithfulFormatter(truth).complete(Complete(prompt=prompt, purpose="test")).text
    raise AssertionError("no file has this window")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("files")
    made = [folder / f"manual-{number}.pdf" for number in range(len(TRUTHS))]
    for path, truth in zip(made, TRUTHS, strict=True):
        path.write_bytes(render_pdf(truth, PdfStyle(running=False)).pdf)
    return made


def words(documents: list[Any], face: Any) -> list[list[str]]:
    return [face.core_document(each).text.split() for each in documents]


async def test_a_model_writes_every_page_once_and_the_journal_keeps_it(
    face: Any, files: list[Path], tmp_path: Path
) -> None:
    with Journal.open(tmp_path / "journal.db") as journal:
        model, again = face.model(faithful), face.model(faithful)
        how: dict[str, Any] = {"options": SMALL, "services": Services(journal=journal)}
        planned = face.planned(files, llm=model, **how)
        assert face.asked(model) == 0
        documents = face.load(files, llm=model, **how)
        assert face.asked(model) == planned > 1
        with face.unblocked():
            assert await face.aload(files, llm=again, **how) == documents
        assert face.asked(again) == 0
    assert words(documents, face) == [truth.split() for truth in TRUTHS]
    for document in documents:
        told, core = document.metadata, face.core_document(document)
        assert told["pages_by_model"] == len(core.page_starts) > 0
        assert (told["pages_asked_again"], told["pages_from_layout"]) == (0, 0)
        assert told["fidelity_recall"] == told["fidelity_precision"] == told["fidelity_order"] == 1.0


def test_pages_that_a_model_ruins_come_from_the_layout_and_are_named(face: Any, files: list[Path]) -> None:
    sorry = face.model("I am sorry, but I cannot help with that.")
    (document,), plain = face.load(files[:1], llm=sorry, options=SMALL), face.load(files[:1])
    assert words([document], face) == words(plain, face)
    told = document.metadata
    assert told["layout_pages"] == ", ".join(str(page) for page in range(1, told["pages_from_layout"] + 1)) != ""
    assert (told["pages_by_model"], told["fidelity_recall"]) == (0, 0.0)


def test_pages_without_text_are_named(face: Any, tmp_path: Path, caplog: Any) -> None:
    scan = tmp_path / "scan.pdf"
    canvas = Canvas(str(scan))
    canvas.drawString(72, 700, "One page has words.")
    canvas.showPage()
    canvas.rect(50, 50, 400, 600, fill=1)
    canvas.save()
    (document,) = face.load([scan])
    assert document.metadata["unread_pages"] == "2"

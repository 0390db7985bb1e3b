"""CatenaLoader: one document per file, pages kept through the chunks, any chat model as the formatter."""

from __future__ import annotations

import itertools
import re
import threading
import time
from pathlib import Path

import pytest
from langchain_core.documents import Document
from langchain_core.documents.base import Blob
from langchain_fakes import ReplyingChatModel, charts

from catena import Library
from catena.effects import Complete
from catena.formatting import FidelityReport, FormatOptions, Formatted
from catena.model import Document as CoreDocument
from catena.model import PageNote, ParameterError, Parsed, ParseError, ServiceError
from catena.testing import FaithfulFormatter
from catena_bench.generated_pdfs import PdfStyle, render_pdf
from catena_bench.synthetic_manuals import manual_markdown
from langchain_catena import CatenaBlobParser, CatenaDocumentTransformer, CatenaLoader, to_core_document
from langchain_catena.convert import loaded_document

SMALL = FormatOptions(window=250, padding=40)


def chat(truth: str, damage=None) -> ReplyingChatModel:
    """Return a chat model that knows the true Markdown of the windows that it is shown."""
    formatter = FaithfulFormatter(truth, damage)

    def reply(messages):
        time.sleep(0.001)  # would be noticed in the event loop
        return formatter.complete(Complete(system=messages[0].text, prompt=messages[1].text, purpose="")).text

    return ReplyingChatModel(reply=reply)


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def truth() -> str:
    return manual_markdown(3, numbered=True, levels=3, words=900)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, truth: str) -> Path:
    folder = tmp_path_factory.mktemp("files")
    (folder / "manual.pdf").write_bytes(render_pdf(truth, PdfStyle(running=False)).pdf)
    (folder / "note.md").write_text("# Note\n\nThe fuse is in the lid.\n")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    return folder


@pytest.fixture
def pdf(folder: Path) -> Path:
    return folder / "manual.pdf"


def test_a_folder_gives_one_document_per_file_that_can_be_read(folder: Path) -> None:
    manual, note = CatenaLoader(folder).load()
    assert note.page_content == "# Note\n\nThe fuse is in the lid.\n"
    assert note.metadata["title"] == "Note"
    assert note.metadata["source"].endswith("note.md")
    assert manual.metadata["state"] == "parsed"
    assert manual.metadata["total_pages"] > 1
    assert manual.id
    assert all(isinstance(value, str | int | float | bool) for value in manual.metadata.values())
    assert CatenaLoader([folder]).load() == [manual, note]


def test_chunks_of_a_loaded_file_know_their_pages_and_are_exact(pdf: Path, tmp_path: Path) -> None:
    (manual,) = CatenaLoader(pdf).load()
    chunks = CatenaDocumentTransformer().split_documents([manual])
    with Library.open(tmp_path / "library") as library:
        library.index(pdf)
        (info,) = library.documents()
        expected = [chunk.pages for chunk in library.get(info.id).chunks]
    assert [(chunk.metadata["first_page"], chunk.metadata["last_page"]) for chunk in chunks] == expected
    assert expected[-1][1] == manual.metadata["total_pages"]
    for chunk in chunks:
        metadata = chunk.metadata
        assert manual.page_content[metadata["start_index"] : metadata["end_index"]] == chunk.page_content
        assert "page_offsets" not in metadata
        assert f"page {metadata['first_page']}" in metadata["citation"].replace("pages", "page")


@pytest.mark.parametrize("offsets", ["0 5", "0 9 4 13", "1 13", "13", "0 x 13", "", "0 ² 13", "0 5 5 13"])
def test_pages_counted_in_another_text_are_not_believed(offsets: str) -> None:
    document = Document(page_content="Some text now", metadata={"page_offsets": offsets})
    assert to_core_document(document).page_starts == ((0, 5, 5) if offsets == "0 5 5 13" else ())


def test_pages_that_a_model_ruins_come_from_the_layout_and_are_named(pdf: Path, truth: str) -> None:
    def damage(request, answer):
        return "I am sorry, but I cannot help with that." if answer.startswith("# 1 ") else answer

    loader = CatenaLoader(pdf, llm=chat(truth, damage), options=SMALL)
    (document,) = loader.load()
    metadata, states = document.metadata, loader.fidelity[str(pdf)].states
    assert metadata["pages_from_layout"] == states["layout"] > 0
    assert len(metadata["layout_pages"].split(", ")) == states["layout"]
    summary = loader.fidelity[str(pdf)].as_json()["summary"]
    for share in ("recall", "precision", "order"):
        assert metadata[f"fidelity_{share}"] == summary[share]["min"]
    assert metadata["fidelity_recall"] < summary["recall"]["mean"] < 1.0
    numbers = [word for word in truth.split() if word.isdecimal()]
    assert all(number in document.page_content for number in numbers)


def test_files_are_written_side_by_side_in_their_order(folder: Path, tmp_path: Path) -> None:
    truths = {name: manual_markdown(seed, numbered=True, levels=2, words=300) for seed, name in enumerate("abc")}
    for name, text in truths.items():
        (tmp_path / f"{name}.pdf").write_bytes(render_pdf(text, PdfStyle(running=False)).pdf)
    formatters = [FaithfulFormatter(text) for text in truths.values()]
    two, calls = threading.Barrier(2, timeout=10), itertools.count()

    def reply(messages):
        if next(calls) < 2:  # neither is answered before the other is asked
            two.wait()
        request = Complete(system=messages[0].text, prompt=messages[1].text, purpose="")
        for formatter in formatters:
            try:
                return formatter.complete(request).text
            except ServiceError:  # another file's window
                continue
        return ""

    loader = CatenaLoader(tmp_path, llm=ReplyingChatModel(reply=reply), side_by_side=2)
    documents = loader.load()
    assert [words(document.page_content) for document in documents] == [words(text) for text in truths.values()]
    assert [Path(source).stem for source in loader.fidelity] == list("abc")


def test_a_file_that_gives_no_document_raises_or_is_named(tmp_path: Path) -> None:
    (tmp_path / "good.md").write_text("# Good\n\nText.\n")
    (tmp_path / "blank.md").write_text("  \n")
    (tmp_path / "odd.docx").write_bytes(b"PK\x03\x04")
    paths = [tmp_path / name for name in ("blank.md", "gone.pdf", "odd.docx", "good.md")]
    for path in paths[:3]:
        with pytest.raises(ParseError, match=path.name):
            CatenaLoader(path).load()
    loader = CatenaLoader(paths, on_error="skip")
    assert [document.metadata["title"] for document in loader.load()] == ["Good"]
    assert [Path(source).name for source in loader.failures] == ["blank.md", "gone.pdf", "odd.docx"]
    assert loader.failures[str(paths[1])].state == "missing"
    paths[0].write_text("# Late\n\nText.\n")
    assert len(loader.load()) == 2
    assert [Path(source).name for source in loader.failures] == ["gone.pdf", "odd.docx"]  # of the last load
    documents = CatenaLoader([paths[3], paths[2]]).lazy_load()  # one after the other, as they are asked for
    assert next(documents).metadata["title"] == "Good"
    with pytest.raises(ParseError, match=r"odd\.docx"):
        next(documents)


def test_pictures_are_written_where_the_markdown_links_to(tmp_path: Path) -> None:
    (tmp_path / "charts.pdf").write_bytes(charts())
    folder = tmp_path / "out"
    with pytest.raises(ParameterError, match="figure_folder must be a folder that can be written"):
        CatenaLoader(tmp_path / "charts.pdf", figure_folder=folder).load()
    folder.mkdir()
    (document,) = CatenaLoader(tmp_path / "charts.pdf", figure_folder=folder).load()
    links = re.findall(r"!\[Figure \d: [^\]]*\]\((\S+)", document.page_content)
    assert len(links) == 2
    assert all((folder / link).read_bytes().startswith(b"\x89PNG") for link in links)
    assert len(list((folder / "figures").iterdir())) == 2
    with pytest.raises(ParameterError, match="figure_folder must be None where a model writes"):
        CatenaLoader(tmp_path, llm=chat(""), figure_folder=folder)


def test_pages_that_gave_no_text_are_named() -> None:
    document = CoreDocument(id="a", text="One.", source="a.pdf", media_type="text/plain")
    states = enumerate(("no-text", "blank", "failed"), start=2)
    notes = tuple(PageNote(page=page, state=state, why="") for page, state in states)
    formatted = Formatted(document=document, fidelity=FidelityReport(document_id="a", source="a.pdf", pages=()))
    found = loaded_document(Parsed(document=document, notes=notes), formatted)
    assert found.metadata["unread_pages"] == "2, 4"


def test_blobs_become_markdown_with_their_pages() -> None:
    parser = CatenaBlobParser()
    blobs = [Blob.from_data(charts(), path="charts.pdf", metadata={"owner": "me"})]
    blobs.append(Blob.from_data("# HX210\n\nIt holds 3 bar.\n", path="hx210.md"))
    charted, manual = [document for blob in blobs for document in parser.lazy_parse(blob)]
    about = {"owner": "me", "total_pages": 2, "source": "charts.pdf"}
    assert charted.metadata.items() >= about.items()
    assert (manual.page_content, manual.metadata["title"]) == ("# HX210\n\nIt holds 3 bar.\n", "HX210")
    with pytest.raises(ParseError, match="empty"):
        parser.parse(Blob.from_data(" \n", path="a.md"))


def test_bad_options_are_named(folder: Path) -> None:
    with pytest.raises(ParameterError, match="on_error must be 'raise' or 'skip'"):
        CatenaLoader(folder, on_error="ignore")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="side_by_side must be at least 1"):
        CatenaLoader(folder, side_by_side=0)

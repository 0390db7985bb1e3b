"""CatenaReader: files as documents, by layout or by any LlamaIndex model, side by side, kept and checked."""

from __future__ import annotations

import pickle
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest
from llama_index.core import SimpleDirectoryReader
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.schema import MetadataMode

import catena
from catena.effects import Complete
from catena.formatting import FidelityReport, FormatOptions
from catena.library import Preparation, read
from catena.model import ParameterError, ParseError, ServiceError
from catena.testing import FaithfulFormatter
from catena_bench.generated_pdfs import PdfStyle, render_pdf
from catena_bench.synthetic_manuals import manual_markdown
from llama_index_catena import CatenaReader
from llama_index_catena.documents import to_core_document

DEMO = Path(catena.__file__).parent / "data" / "demo"
MANUALS = (DEMO / "halden-hx200-manual.pdf", DEMO / "halden-hx210-manual.pdf")
TRUTHS = [manual_markdown(number, numbered=True, levels=2, words=100) for number in (2, 5)]
SMALL = FormatOptions(window=120, padding=30)


class Formatter(CustomLLM):
    """A LlamaIndex model that knows the truth of all files."""

    asked: list[str] = []  # noqa: RUF012 - a pydantic field

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="formatter")

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        self.asked.append(prompt)
        request = Complete(prompt=prompt, purpose="test")
        for truth in TRUTHS:
            with suppress(ServiceError):
                return CompletionResponse(text=FaithfulFormatter(truth).complete(request).text)
        raise AssertionError("no file has this window")

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        yield self.complete(prompt)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    made = []
    for number, truth in enumerate(TRUTHS):
        made.append(tmp_path / f"manual-{number}.pdf")
        made[-1].write_bytes(render_pdf(truth, PdfStyle(running=False)).pdf)
    return made


@pytest.mark.slow
def test_without_a_model_the_document_is_the_cores() -> None:
    (document,) = CatenaReader().load_data(MANUALS[0])
    expected = read(MANUALS[0]).document
    assert to_core_document(document) == replace(expected, printed=b"")  # places of words stay in the library
    assert document.text_resource is not None
    assert document.text_resource.mimetype == "text/markdown"
    (again,) = CatenaReader().load_data(str(MANUALS[0]))
    assert again.to_dict() == document.to_dict()


def test_models_read_the_title_and_what_the_caller_gave_but_not_what_the_file_says_of_itself() -> None:
    (document,) = CatenaReader().load_data(MANUALS[0], extra_info={"plant": "Oulu", "author": "R. Halden"})
    for mode in (MetadataMode.EMBED, MetadataMode.LLM):
        assert document.get_metadata_str(mode).splitlines() == [
            "author: R. Halden",
            "title: HX200 Pressure Transmitter: Operating Manual",
            "plant: Oulu",
        ]
    assert document.metadata["producer"]


async def test_a_model_writes_the_markdown_of_several_files_side_by_side(files: list[Path], tmp_path: Path) -> None:
    reports: list[FidelityReport] = []
    model, journal = Formatter(asked=[]), tmp_path / "replies.db"
    reader = CatenaReader(llm=model, options=SMALL, on_report=reports.append, journal=journal)
    documents = reader.load_data(files)
    asked = len(model.asked)
    assert [document.text.split() for document in documents] == [truth.split() for truth in TRUTHS]
    assert [report.document_id for report in reports] == [document.id_ for document in documents]
    for document, report in zip(documents, reports, strict=True):
        assert document.metadata["pages_by_model"] == len(report.pages) > 0
        assert document.metadata["pages_asked_again"] == document.metadata["pages_from_layout"] == 0
        assert document.metadata["fidelity_recall"] == min(page.recall for page in report.pages)
        assert "fidelity" not in document.get_metadata_str(MetadataMode.LLM)
        assert "fidelity" not in document.get_metadata_str(MetadataMode.EMBED)
    assert [d.to_dict() for d in await reader.aload_data(files)] == [d.to_dict() for d in documents]
    assert [d.to_dict() for d in reader.lazy_load_data(files)] == [d.to_dict() for d in documents]
    assert [d.to_dict() for d in await reader.alazy_load_data(files)] == [d.to_dict() for d in documents]
    assert len(model.asked) == asked  # replies are kept


async def test_it_extracts_for_a_directory_reader(files: list[Path]) -> None:
    directory = SimpleDirectoryReader(
        input_files=[str(file) for file in files],
        file_extractor={".pdf": CatenaReader(llm=Formatter(), options=SMALL)},
        raise_on_error=True,
    )
    documents = directory.load_data()
    assert [document.metadata["file_name"] for document in documents] == ["manual-0.pdf", "manual-1.pdf"]
    assert [document.text.split() for document in documents] == [truth.split() for truth in TRUTHS]
    assert [d.to_dict() for d in await directory.aload_data()] == [d.to_dict() for d in documents]


def test_files_of_another_file_system_are_read(files: list[Path]) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/shelf/manual.pdf", files[0].read_bytes())
    (document,) = CatenaReader().load_data("/shelf/manual.pdf", fs=memory)
    assert document.text == CatenaReader().load_data(files[0])[0].text
    assert document.metadata["source"] == "/shelf/manual.pdf"
    with pytest.raises(ParseError, match=r"/shelf/none\.pdf: missing") as caught:
        CatenaReader().load_data("/shelf/none.pdf", fs=memory)
    assert pickle.loads(pickle.dumps(caught.value)).state == "missing"


def test_what_cannot_be_read_is_said_before_a_model_is_paid(files: list[Path], tmp_path: Path) -> None:
    model = Formatter(asked=[])
    with pytest.raises(ParseError, match="missing"):
        CatenaReader(llm=model, options=SMALL).load_data([*files, tmp_path / "none.pdf"])
    assert model.asked == []
    with pytest.raises(ParameterError, match="figures must be False in a reader"):
        CatenaReader(preparation=Preparation(engine="pypdfium2", figures=True))

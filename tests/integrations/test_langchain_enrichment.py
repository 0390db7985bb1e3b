"""Entities and figures: their metadata, their captions, and the search for pictures."""

from __future__ import annotations

import base64
import json
import logging
import pickle
import shutil
import time
from pathlib import Path

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_fakes import CHARTS, ReplyingChatModel, charts

from catena import Library
from catena.effects import Journal, Services
from catena.enrichment import CodeDetector, ExpertDetector, ExpertTerm, ExpertTerms
from catena.library import Preparation
from catena.model import InvalidReplyError, ParameterError, ServiceError
from catena.testing.fakes import FakeRecognizer
from langchain_catena import (
    CatenaDocumentTransformer,
    CatenaEntityTransformer,
    CatenaFigureRetriever,
    CatenaRetriever,
    LangChainCaptioner,
)

TEXTS = ("The HX-200 has an Osprey pump.", "Nothing is named here.", "Osprey and Kestrel, by Acme Pumps.")


def documents() -> list[Document]:
    made = [Document(id=f"d{n}", page_content=text, metadata={"source": "m.md"}) for n, text in enumerate(TEXTS)]
    return [*made, Document(page_content="Old.", metadata={"entities": "stale"})]


def entities(found: list[Document]) -> list[str]:
    return [document.metadata.get("entities", "") for document in found]


def names(messages) -> str:
    """Name the birds in each passage of the prompt, and one that no passage prints."""
    time.sleep(0.001)  # would be noticed in the event loop
    asked = messages[-1].text.split("<passage")[1:]
    return json.dumps([[n for n in ("Osprey", "Kestrel") if n in each] + ["Ghost"] for each in asked])


def test_codes_are_found_without_a_model_and_nothing_given_is_changed() -> None:
    given = documents()
    found = CatenaEntityTransformer().transform_documents(given)
    assert entities(found) == ["hx 200", "", "", ""]
    assert given == documents()
    assert [(each.id, each.page_content) for each in found] == [(each.id, each.page_content) for each in given]
    assert CatenaEntityTransformer([CodeDetector(weight=2)]).transform_documents(given) == found
    assert found[0].metadata == {"source": "m.md", "entities": "hx 200"}


def test_a_chat_model_and_a_recogniser_add_theirs_and_what_is_not_printed_is_refused(caplog) -> None:
    services = Services(recognizer=FakeRecognizer({"ORG": ["Acme Pumps"]}))
    transformer = CatenaEntityTransformer(llm=ReplyingChatModel(reply=names), services=services)
    with caplog.at_level(logging.WARNING, "langchain_catena"):
        found = transformer.transform_documents(documents())
    assert entities(found) == ["hx 200; osprey", "", "acme pumps; kestrel; osprey", ""]
    assert "Ghost" in caplog.text


def test_an_expert_list_gives_all_spellings() -> None:
    terms = ExpertTerms([ExpertTerm(name="Osprey", aliases=("OS pump",))])
    found = CatenaEntityTransformer([ExpertDetector(terms=terms)]).transform_documents(documents())
    assert entities(found) == ["os pump; osprey", "", "os pump; osprey", ""]


def test_titles_count_where_the_chunks_bear_them() -> None:
    manual = Document(page_content="# HX-210 Manual\n\n## Cover\n\nTighten the screws.\n")
    chunks = CatenaDocumentTransformer(content="headed").split_documents([manual])
    assert entities(CatenaEntityTransformer().transform_documents(chunks)) == ["hx 210"]


def test_a_model_that_fails_raises_or_is_told(caplog) -> None:
    model = ReplyingChatModel(reply=lambda _: "I cannot do that.")
    with caplog.at_level(logging.WARNING, "langchain_catena"):
        assert entities(CatenaEntityTransformer(llm=model).transform_documents(documents()))[0] == "hx 200"
    assert "language model at chunk d0" in caplog.text
    with pytest.raises(InvalidReplyError, match="no JSON list"):
        CatenaEntityTransformer(llm=model, on_error="raise").transform_documents(documents())


def test_replies_are_paid_for_once(tmp_path) -> None:
    with Journal.open(tmp_path / "journal.db") as journal:
        for calls in (1, 0):
            model = ReplyingChatModel(reply=names)
            CatenaEntityTransformer(llm=model, services=Services(journal=journal)).transform_documents(documents())
            assert len(model.sent) == calls


def test_no_documents_and_bad_options() -> None:
    assert CatenaEntityTransformer().transform_documents([]) == []
    for wrong in ([], ["spacy"]):
        with pytest.raises(ParameterError, match="detectors must be at least one detector"):
            CatenaEntityTransformer(wrong)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="on_error"):
        CatenaEntityTransformer(on_error="ignore").transform_documents([])  # type: ignore[arg-type]


def test_transformers_are_picklable() -> None:
    for transformer in (CatenaEntityTransformer(), CatenaDocumentTransformer(content="definition")):
        again = pickle.loads(pickle.dumps(transformer))
        assert again.transform_documents(documents()) == transformer.transform_documents(documents())


FIGURES = Preparation(engine="pypdfium2", figures=True)
PNG, JPEG = b"\x89PNG\r\n\x1a\n rest", b"\xff\xd8\xff rest"


def sees(messages) -> str:
    text, _ = messages[0].content
    return "Bars that fall to the right." if "Pressure" in text["text"] else "Bars of four years."


@pytest.fixture(scope="module")
def model() -> ReplyingChatModel:
    return ReplyingChatModel(reply=sees)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, model: ReplyingChatModel):
    folder = tmp_path_factory.mktemp("charts")
    (folder / "charts.pdf").write_bytes(charts())
    captioner = LangChainCaptioner(model)
    with Library.open(folder / "library", preparation=FIGURES, services=Services(captioner=captioner)) as opened:
        (outcome,) = opened.index(folder / "charts.pdf")
        assert (outcome.state, outcome.reason) == ("indexed", "")
        yield opened


@pytest.mark.parametrize(
    ("question", "page", "caption"),
    [
        ("failures in each year", 1, "Bars of four years."),
        ("pressure of the pumps", 2, "Bars that fall to the right."),
        ("which chart falls to the right", 2, "Bars that fall to the right."),
    ],
)
def test_a_figure_is_found_with_its_file_its_page_and_its_caption(library, question, page, caption) -> None:
    found, other = CatenaFigureRetriever(library=library).invoke(question)
    metadata = found.metadata
    assert (metadata["figure_page"], metadata["figure_title"]) == (page, CHARTS[page - 1][1])
    assert metadata["caption"] == caption
    assert (metadata["kind"], metadata["figure_kind"]) == ("figure", "drawing")
    assert metadata["first_page"] == page
    assert Path(metadata["figure_file"]).read_bytes().startswith(b"\x89PNG")
    assert metadata["figure_file"].endswith(metadata["figure"])
    assert metadata["relevance_score"] >= other.metadata["relevance_score"]
    assert {way["view"] for way in metadata["catena"]["routes"]} == {"caption"}
    assert metadata["figure"] in found.page_content  # by which an answer can refer to it
    assert caption in found.page_content
    flat = {key: value for key, value in metadata.items() if key != "catena"}
    assert all(isinstance(value, str | int | float) for value in flat.values())


def test_k_and_filters_are_obeyed_at_the_call(library: Library) -> None:
    retriever = CatenaFigureRetriever(library=library, where={"page": 1})
    assert [found.metadata["figure_page"] for found in retriever.invoke("pumps")] == [1]
    assert [found.metadata["figure_page"] for found in retriever.invoke("pumps", where={"page": 2})] == [2]
    assert len(CatenaFigureRetriever(library=library).invoke("chart", k=1)) == 1


def test_a_figure_is_found_where_no_file_can_be_written(library: Library) -> None:
    retriever = CatenaFigureRetriever(library=library, k=1)
    folder = Path(retriever.invoke("pumps")[0].metadata["figure_file"]).parent
    shutil.rmtree(folder)
    folder.write_text("in the way")
    try:
        (found,) = retriever.invoke("pumps")
    finally:
        folder.unlink()
    assert "figure_file" not in found.metadata
    assert found.metadata["figure_page"] == 2


def test_figures_are_among_what_the_other_retriever_finds(library: Library) -> None:
    found = CatenaRetriever(library=library, k=1).invoke("bars that fall to the right")
    assert found[0].metadata["kind"] == "figure"
    assert found[0].metadata["caption"] == "Bars that fall to the right."


async def test_the_picture_goes_to_the_model_as_a_data_url() -> None:
    model = ReplyingChatModel(reply=lambda _: "A pump.")
    captioner = LangChainCaptioner(model)
    assert captioner.caption(PNG, "What is it?") == "A pump."
    assert await captioner.acaption(JPEG, "What is it?") == "A pump."
    for (message,), image, kind in zip(model.sent, (PNG, JPEG), ("png", "jpeg"), strict=True):
        text, picture = message.content
        assert text == {"type": "text", "text": "What is it?"}
        head, _, data = picture["image_url"]["url"].partition(",")
        assert (head, base64.b64decode(data)) == (f"data:image/{kind};base64", image)
    assert captioner.identity == "langchain:ReplyingChatModel"


@pytest.mark.parametrize("reason", ["length", "max_tokens", "content_filter", "refusal"])
async def test_a_caption_that_was_cut_or_refused_counts_as_failed(reason: str) -> None:
    message = AIMessage("A pu", response_metadata={"finish_reason": reason})
    captioner = LangChainCaptioner(ReplyingChatModel(reply=lambda _: message))
    with pytest.raises(ServiceError, match="did not end by itself"):
        captioner.caption(PNG, "What is it?")
    with pytest.raises(ServiceError, match="did not end by itself"):
        await captioner.acaption(PNG, "What is it?")


def test_captions_are_paid_for_once(tmp_path: Path, library: Library) -> None:
    (tmp_path / "charts.pdf").write_bytes(charts())
    with Journal.open(tmp_path / "journal.db") as journal:
        for name in ("one", "two"):
            model = ReplyingChatModel(reply=sees)
            captioner = LangChainCaptioner(model)
            with Library.open(
                tmp_path / name, preparation=FIGURES, services=Services(captioner=captioner, journal=journal)
            ) as opened:
                opened.index(tmp_path / "charts.pdf")
            assert len(model.sent) == (2 if name == "one" else 0)

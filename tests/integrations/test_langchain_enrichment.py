"""CatenaEntityTransformer: who finds what, in order, without a change to what was given."""

from __future__ import annotations

import json
import logging
import pickle
import time

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.documents import Document
from langchain_fakes import ReplyingChatModel

from catena.effects import Journal, Services
from catena.enrichment import CodeDetector, ExpertDetector, ExpertTerm, ExpertTerms
from catena.model import InvalidReplyError, ParameterError
from catena.testing.fakes import FakeRecognizer
from langchain_catena import CatenaDocumentTransformer, CatenaEntityTransformer

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


async def test_async_gives_the_same_without_blocking_the_loop() -> None:
    transformer = CatenaEntityTransformer(llm=ReplyingChatModel(reply=names))
    plain = transformer.transform_documents(documents())
    with blockbuster_ctx(["catena", "langchain_catena"]):
        assert await transformer.atransform_documents(documents()) == plain


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

"""Reranking in LangChain: probabilities in its slot, its rerankers behind the core's port, documents whole."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_classic.retrievers.document_compressors import CrossEncoderReranker
from langchain_classic.retrievers.document_compressors.cross_encoder import BaseCrossEncoder as ClassicCrossEncoder
from langchain_core.callbacks import BaseCallbackHandler, CallbackManager
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables import RunnableLambda

from catena.effects import Journal, Services
from catena.model import ParameterError, Scale, ServiceError
from catena.segments import COHERE, Artefact, BetaCDF, Constant, Identity, fit_beta
from catena.testing import FakeReranker
from langchain_catena import CatenaRerank, LangChainReranker
from langchain_catena.places import Passages, PlaceKeys

QUERY = "torque of the cover screws"

ENCODERS = dict.fromkeys((BaseCrossEncoder, ClassicCrossEncoder))  # one and the same but in langchain-classic 1.0


def words_shared(query: str, text: str) -> float:
    """Share of the query's words that the text has: what the rerankers of these tests score by."""
    asked = query.lower().split()
    return sum(word in text.lower().split() for word in asked) / len(asked)


class Hosted(BaseDocumentCompressor):
    """Behaves as `CohereRerank`: the best three, with scores, as new documents without ids."""

    model: str = "rerank-v9"
    top_n: int | None = 3
    seen: list[int] = []  # noqa: RUF012 - pydantic copies it

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> list[Document]:
        self.seen.append(len(documents))
        scored = [
            Document(
                page_content=each.page_content,
                metadata={**each.metadata, "relevance_score": words_shared(query, each.page_content)},
            )
            for each in documents
        ]
        scored.sort(key=lambda each: -each.metadata["relevance_score"])
        return scored[: self.top_n]


class Choosy(Hosted):
    """Leaves out what is below a threshold."""

    threshold: float = 0.5

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> list[Document]:
        found = super().compress_documents(documents, query)
        return [each for each in found if each.metadata["relevance_score"] >= self.threshold]


class Silent(BaseDocumentCompressor):
    """Orders documents and writes no score."""

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> list[Document]:
        return list(documents)


class Forgetful(BaseDocumentCompressor):
    """Returns documents of its own."""

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> list[Document]:
        return [Document(page_content=each.page_content, metadata={"relevance_score": 1.0}) for each in documents]


class Encoder(*ENCODERS):
    """A cross encoder without torch."""

    model_name = "words"

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        return [words_shared(query, text) for query, text in text_pairs]


def documents() -> list[Document]:
    texts = ("the fuse", "torque of the cover screws", "the cover", "torque of screws", "nothing here")
    return [
        Document(id=f"d{n}", page_content=text, metadata={"source": "m.md", "page": n, "deep": {"kept": n}})
        for n, text in enumerate(texts)
    ]


def ranked(found: Sequence[Document]) -> list[tuple[str | None, float]]:
    return [(document.id, document.metadata["relevance_score"]) for document in found]


def test_scores_are_probabilities_and_the_raw_ones_stay_beside_them() -> None:
    found = CatenaRerank(reranker=FakeReranker(words_shared), calibration=COHERE).compress_documents(
        documents(), QUERY
    )
    raw = [document.metadata["catena"]["raw_score"] for document in found]
    assert [document.id for document in found] == ["d1", "d3", "d2", "d0", "d4"]
    assert raw == [1.0, 0.6, 0.4, 0.2, 0.0]
    assert [score for _, score in ranked(found)] == [float(COHERE(each)) for each in raw]
    about = found[1].metadata["catena"]
    assert about["scale"] == "probability"
    assert about["calibration"] == "beta-cdf(0.4, 0.4)"
    assert about["reranker"] == FakeReranker(words_shared).identity
    assert about["routes"][-1] == {"route": "rerank", "rank": 2, "score": 0.6, "view": "raw"}


def test_a_document_that_comes_twice_is_scored_once_and_equal_texts_stay_apart() -> None:
    twins = [Document(page_content="the cover", metadata={"source": name}) for name in "ab"]
    found = CatenaRerank(reranker=Encoder(), calibration=Identity()).compress_documents(
        [twins[0], twins[1], twins[0]], QUERY
    )
    assert [document.metadata["source"] for document in found] == ["a", "b"]


def test_what_was_found_and_what_failed_before_is_still_told() -> None:
    told = {
        "scale": "normalized",
        "routes": [{"route": "dense", "rank": 3, "score": 0.4, "view": "raw"}],
        "degraded": ["route lexical: it is gone"],
        "unknown": [{"text": "HX9", "near": ["HX7"]}],
        "mine": 1,
    }
    one = Document(page_content="the cover", metadata={"relevance_score": 0.7, "catena": told})
    (found,) = CatenaRerank(reranker=Encoder(), calibration=Identity()).compress_documents([one], QUERY)
    about = found.metadata["catena"]
    assert [way["route"] for way in about["routes"]] == ["dense", "rerank"]
    assert about["degraded"] == told["degraded"]
    assert about["unknown"] == told["unknown"]
    assert about["mine"] == 1


def test_of_two_rerankers_the_last_one_is_told() -> None:
    once = CatenaRerank(reranker=FakeReranker(lambda query, text: len(text) / 100), calibration=Constant())
    twice = CatenaRerank(reranker=Encoder(), calibration=Identity())
    found = twice.compress_documents(once.compress_documents(documents(), QUERY), QUERY)
    about = found[0].metadata["catena"]
    assert (about["raw_score"], about["reranker"], about["calibration"]) == (
        1.0,
        "langchain:Encoder:words",
        "identity",
    )
    assert [way["score"] for way in about["routes"]] == [0.26, 1.0]


def test_every_text_is_scored_whatever_the_compressor_would_return() -> None:
    hosted = Hosted()
    scores = LangChainReranker(hosted).score(QUERY, [each.page_content for each in documents()])
    assert scores == [0.2, 1.0, 0.4, 0.6, 0.0]
    assert hosted.top_n == 3, "the user's compressor is as it was"


@given(st.lists(st.sampled_from(["torque", "cover screws", "torque of the", "fuse"]), max_size=8))
def test_scores_are_in_the_order_of_the_texts(texts: list[str]) -> None:
    expected = [words_shared(QUERY, text) for text in texts]
    assert LangChainReranker(Hosted()).score(QUERY, texts) == expected
    assert LangChainReranker(Encoder()).score(QUERY, texts) == expected
    assert LangChainReranker(CrossEncoderReranker(model=Encoder())).score(QUERY, texts) == expected


def test_a_reranker_is_known_by_class_and_model() -> None:
    assert LangChainReranker(Hosted()).identity == "langchain:Hosted:rerank-v9"
    assert LangChainReranker(CrossEncoderReranker(model=Encoder())).identity == "langchain:Encoder:words"
    assert LangChainReranker(Hosted(), identity="mine").identity == "mine"


@pytest.mark.parametrize(
    ("compressor", "message"),
    [
        (Choosy(), r"scored 2 of 5 texts; switch its threshold and its limit off"),
        (Silent(), r"returned documents without metadata\['relevance_score'\]"),
        (Forgetful(), r"returned documents without the metadata of the texts it was given"),
    ],
)
def test_what_cannot_score_every_text_is_refused_aloud(compressor: BaseDocumentCompressor, message: str) -> None:
    with pytest.raises(ServiceError, match=message):
        CatenaRerank(reranker=compressor, calibration=COHERE).compress_documents(documents(), QUERY)


def test_a_failure_may_keep_the_old_order_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = CatenaRerank(reranker=Silent(), calibration=COHERE, on_failure="rank", top_n=2).compress_documents(
            documents(), QUERY
        )
    assert ranked(found) == [("d0", 0.8), ("d1", 0.8)]
    assert "reranker: langchain:Silent" in found[0].metadata["catena"]["degraded"][0]
    assert "raw_score" not in found[0].metadata["catena"]
    assert "old order" in caplog.text


def test_a_fit_of_another_reranker_is_refused_when_it_is_given() -> None:
    fit = fit_beta([place / 25 for place in range(1, 25)])
    mine = Artefact(fit=fit, model="langchain:Encoder:words")
    found = CatenaRerank(reranker=Encoder(), calibration=mine).compress_documents(documents(), QUERY)
    assert found[0].metadata["catena"]["calibration"] == fit.calibration.identity
    with pytest.raises(ValueError, match="fitted to scores of 'langchain:Encoder:words'"):
        CatenaRerank(reranker=Hosted(), calibration=mine)


def test_the_reranker_may_read_the_header_in_the_metadata() -> None:
    fake = FakeReranker(words_shared)
    one = Document(
        page_content="Tighten them.",
        metadata={"title": "HX7 manual", "heading_path": "HX7 manual › Cover", "document_summary": "On the HX7."},
    )
    CatenaRerank(reranker=fake, calibration=Identity(), headed=True).compress_documents([one], QUERY)
    ((_, (text,)),) = fake.calls
    assert "titled 'HX7 manual'. On the HX7." in text
    assert "section titled 'Cover'" in text
    assert text.endswith("\n\nTighten them.")


def test_what_was_scored_once_is_not_asked_again(tmp_path) -> None:
    hosted = Hosted()
    with Journal.open(tmp_path / "journal.db") as journal:
        rerank = CatenaRerank(reranker=hosted, calibration=COHERE, services=Services(journal=journal))
        assert rerank.compress_documents(documents(), QUERY) == rerank.compress_documents(documents(), QUERY)
    assert hosted.seen == [5]


def test_no_documents_are_no_calls() -> None:
    hosted = Hosted()
    assert CatenaRerank(reranker=hosted, calibration=COHERE).compress_documents([], QUERY) == []
    assert hosted.seen == []


def test_what_runs_inside_is_a_child_in_the_trace() -> None:
    class Traced(BaseDocumentCompressor):
        def compress_documents(self, documents, query, callbacks=None):
            scores = RunnableLambda(lambda texts: [words_shared(query, text) for text in texts], name="inner")
            found = scores.invoke([each.page_content for each in documents])
            return [
                each.model_copy(update={"metadata": {**each.metadata, "relevance_score": score}})
                for each, score in zip(documents, found, strict=True)
            ]

    class Names(BaseCallbackHandler):
        def __init__(self) -> None:
            self.seen: list[str | None] = []

        def on_chain_start(self, serialized, inputs, **kwargs) -> None:
            self.seen.append(kwargs.get("name"))

    names = Names()
    rerank = CatenaRerank(reranker=Traced(), calibration=COHERE)
    rerank.compress_documents(documents(), QUERY, callbacks=CallbackManager([names], [names]))
    rerank.compress_documents(documents(), QUERY, callbacks=[names])
    assert names.seen == ["langchain:Traced", "inner"] * 2


def test_bad_options_are_named() -> None:
    with pytest.raises(
        ParameterError, match="compressor must be a document compressor or a cross encoder, got 'str'"
    ):
        LangChainReranker("cohere")  # type: ignore[arg-type]
    for wrong in ({"reranker": "cohere"}, {"calibration": "cohere"}, {"top_n": -1}, {"surprise": 1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            CatenaRerank(**{"reranker": Encoder(), "calibration": COHERE, **wrong})


def test_its_documents_are_read_as_probabilities_by_what_comes_next() -> None:
    found = CatenaRerank(reranker=Encoder(), calibration=BetaCDF(0.5, 1.8)).compress_documents(documents(), QUERY)
    ranking = Passages(PlaceKeys(), positions_needed=False).ranking(found)
    assert ranking.scale is Scale.PROBABILITY
    assert [hit.score for hit in ranking.hits] == [score for _, score in ranked(found)]
    constant = CatenaRerank(reranker=Encoder(), calibration=Constant(0.7)).compress_documents(documents(), QUERY)
    assert {score for _, score in ranked(constant)} == {0.7}

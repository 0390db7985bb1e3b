"""Texts in which the shipped embedder knows nothing, in LangChain's stores."""

from __future__ import annotations

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_catena import CatenaEmbeddings, CatenaRetriever

UNKNOWN = ["\U0001f600", "", "\U0001f600 \U0001f680"]


@pytest.mark.parametrize("question", [UNKNOWN[0], UNKNOWN[2]])
def test_a_question_without_a_known_word_fails_nowhere(question: str) -> None:
    store = InMemoryVectorStore.from_documents(
        [Document(page_content="Tighten the screws."), Document(page_content=UNKNOWN[0])], CatenaEmbeddings()
    )

    found = store.similarity_search_with_score(question, k=2)
    assert np.isfinite([score for _, score in found]).all()
    assert len(CatenaRetriever.over({"mine": store.as_retriever()}).invoke(question)) == 2


def test_only_rows_of_zeros_are_given_a_direction() -> None:
    embeddings = CatenaEmbeddings()
    texts = [*UNKNOWN, "Tighten the screws.", "42"]
    core = embeddings.embedder.embed_documents(texts)
    rows = embeddings.embed_documents(texts)

    assert not core[:3].any()
    assert rows[0] == rows[1] == rows[2] == embeddings.embed_query(texts[0]) == [256**-0.5] * 256
    assert rows[3:] == core[3:].tolist()
    assert embeddings.embed_query(texts[3]) == rows[3]

"""MaxSim over token vectors: by hand, against brute force, as a route, and with MiniLM's own tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk

from catena.effects import Services, TokenEmbedder, arun, run
from catena.model import InvalidReplyError, MissingServiceError, ParameterError, View
from catena.retrieval import ExactUnion, collected, found_by, retrieve_views
from catena.retrieval.late_interaction import (
    EmbedTokens,
    TokenRows,
    answering_tokens,
    embed_tokens,
    late_interaction,
    max_sim,
)

WORDS = {"pump": (1.0, 0.0, 0.0), "level": (0.0, 1.0, 0.0), "colour": (0.0, 0.0, 1.0), "pumps": (0.8, 0.6, 0.0)}


class WordEmbedder:
    """One vector per known word."""

    identity = "words"

    def __init__(self) -> None:
        self.calls: list[object] = []

    def embed_document_tokens(self, texts):
        self.calls.append(tuple(texts))
        return [self._rows(text) for text in texts]

    def embed_query_tokens(self, text):
        self.calls.append(text)
        return self._rows(text)

    @staticmethod
    def _rows(text):
        return np.array([WORDS[word] for word in text.split() if word in WORDS], np.float32).reshape(-1, 3)


class AsyncWordEmbedder(WordEmbedder):
    """The same, with async twins, and no way to call it otherwise."""

    async def aembed_document_tokens(self, texts):
        return [self._rows(text) for text in texts]

    async def aembed_query_tokens(self, text):
        return self._rows(text)

    def embed_document_tokens(self, texts):
        raise AssertionError

    embed_query_tokens = embed_document_tokens


def services(embedder: object = None, **given) -> Services:
    handler = answering_tokens(embedder or WordEmbedder())  # type: ignore[arg-type]
    return Services(handlers={EmbedTokens: handler}, **given)


def brute_force(query: np.ndarray, texts: list[np.ndarray]) -> list[float]:
    return [sum(max(float(q @ d) for d in text) for q in query) if len(text) else -np.inf for text in texts]


# --- MaxSim ---


def test_max_sim_by_hand() -> None:
    rows = TokenRows.of([WordEmbedder._rows(text) for text in ("pump colour", "", "pumps", "level pump")])
    # pump: 1, -, 0.8, 1; level: 0, -, 0.6, 1
    scores = max_sim(WordEmbedder._rows("pump level"), rows)
    assert scores.tolist() == pytest.approx([1.0, -np.inf, 1.4, 2.0])


shapes = st.lists(st.integers(0, 9), min_size=1, max_size=8)


@given(shapes, st.integers(1, 4), st.integers(1, 12), st.integers(0, 2**31))
def test_blocks_of_any_size_give_what_brute_force_gives(sizes: list[int], tokens: int, block: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    texts = [draw.standard_normal((size, 3)).astype(np.float32) for size in sizes]
    query = draw.standard_normal((tokens, 3)).astype(np.float32)
    found = max_sim(query, TokenRows.of(texts), block=block)
    assert found.tolist() == pytest.approx(brute_force(query, texts), abs=1e-4)


@given(st.integers(1, 30), st.integers(1, 7), st.integers(0, 2**31))
def test_equal_texts_tie_wherever_they_stand(copies: int, block: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    text, query = (draw.standard_normal((size, 16)).astype(np.float32) for size in (3, 5))
    unit, asked = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (text, query))
    scores = max_sim(asked, TokenRows.of([unit] * copies), block=block)
    assert np.ptp(scores) <= 1e-5  # the last decimal kept


def test_no_tokens_find_nothing() -> None:
    rows = TokenRows.of([WordEmbedder._rows("pump")])
    assert max_sim(np.zeros((0, 3), np.float32), rows).tolist() == [-np.inf]
    assert max_sim(WordEmbedder._rows("pump"), TokenRows.of([])).tolist() == []
    assert max_sim(WordEmbedder._rows("pump"), TokenRows.of([np.zeros((0, 3))])).tolist() == [-np.inf]


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: TokenRows.of([np.ones(3)]), "shape"),
        (lambda: TokenRows.of([np.ones((2, 3)), np.ones((2, 4))]), "one dimension"),
        (lambda: TokenRows.of([np.full((1, 2), np.nan)]), "NaN"),
        (lambda: TokenRows.of(["pump"]), "token vectors must be"),  # type: ignore[list-item]
        (lambda: max_sim(np.ones((1, 2)), TokenRows.of([np.ones((1, 3))])), "3 dimensions"),
        (lambda: max_sim(np.ones((1, 3)), TokenRows.of([np.ones((1, 3))]), block=0), "block"),
    ],
)
def test_what_does_not_fit_is_refused(make, what: str) -> None:
    with pytest.raises(ParameterError, match=what):
        make()


# --- as steps and as a route ---


async def test_texts_are_embedded_in_batches_and_async_embedders_are_awaited() -> None:
    rows = await arun(embed_tokens(["pump level"]), services(AsyncWordEmbedder()))
    request = await arun(late_interaction("pump level"), services(AsyncWordEmbedder()))
    assert rows.rows.tolist() == request.vector.tolist() == [list(WORDS["pump"]), list(WORDS["level"])]
    embedder, texts = WordEmbedder(), ["pump", "level pump", "colour"]
    rows = run(embed_tokens(texts, batch=2), services(embedder))
    assert (sorted(map(len, embedder.calls)), rows.starts.tolist()) == ([1, 2], [0, 1, 3, 4])
    assert rows.rows.tolist() == [list(WORDS[word]) for word in " ".join(texts).split()]
    with pytest.raises(MissingServiceError, match="EmbedTokens"):
        run(late_interaction("pump"), Services())


CHUNKS = tuple(
    chunk(name, text, position=place)
    for place, (name, text) in enumerate({"a": "pump colour", "b": "pumps", "c": "nothing known"}.items())
)
VIEWS = (View(chunk_id="b", kind="keywords", text="colour"), View(chunk_id="c", kind="keywords", text="pump level"))


def test_late_interaction_is_a_route_over_any_view() -> None:
    embedder = WordEmbedder()
    store = run(collected(CHUNKS, VIEWS, dense=False, late=True), services(embedder))
    assert store.routes == ("late_interaction",)
    how = {"views": ("raw", "keywords"), "rule": ExactUnion(), "search": lambda kind: late_interaction}
    found = run(retrieve_views("pump level", k=3, **how), services(embedder, store=store))
    assert [hit.chunk.id for hit in found.hits] == ["b", "c", "a"]
    assert [found_by(hit) for hit in found.hits] == [{"raw": 1, "keywords": 2}, {"keywords": 1}, {"raw": 2}]
    assert found.hits[0].provenance[0].score == pytest.approx(1.4)
    assert embedder.calls.count("pump level") == 1, "the question's tokens are embedded once"


class WrongEmbedder(WordEmbedder):
    """Loses a text, and gives one number per token."""

    def embed_document_tokens(self, texts):
        return super().embed_document_tokens(texts)[1:]

    def embed_query_tokens(self, text):
        return np.ones(3, np.float32)


def test_replies_of_another_form_are_named() -> None:
    with pytest.raises(InvalidReplyError, match="1 arrays for 2 texts"):
        run(embed_tokens(["pump", "level"]), services(WrongEmbedder()))
    with pytest.raises(InvalidReplyError, match="shape"):
        run(late_interaction("pump"), services(WrongEmbedder()))
    with pytest.raises(ParameterError, match="batch"):
        run(embed_tokens(["pump"], batch=0), services())


# --- real tokens ---


@pytest.mark.torch
def test_minilm_gives_each_token_its_unit_vector(sentence_model) -> None:
    from catena.backends.sentence_transformers import SentenceTransformerTokenEmbedder

    embedder = SentenceTransformerTokenEmbedder(sentence_model)
    assert isinstance(embedder, TokenEmbedder)
    text = "The pump starts when the water level falls."
    (rows,) = embedder.embed_document_tokens([text])
    given = sentence_model.encode(text, output_value="token_embeddings").numpy()[1:-1]  # less [CLS] and [SEP]
    assert rows == pytest.approx(given / np.linalg.norm(given, axis=1, keepdims=True), abs=1e-5)
    assert embedder.embed_query_tokens(text) == pytest.approx(rows, abs=1e-5)
    assert embedder.embed_document_tokens([]) == []
    assert embedder.embed_document_tokens([""])[0].shape == (0, 384)


@pytest.mark.torch
def test_no_token_of_a_long_text_is_lost_and_the_models_prompt_is_none_of_it(sentence_model, monkeypatch) -> None:
    from catena.backends.sentence_transformers import SentenceTransformerTokenEmbedder

    embedder = SentenceTransformerTokenEmbedder(sentence_model)
    text = " ".join(f"Paragraph {i} describes the maintenance of pump number {i}." for i in range(80))
    tokens = sentence_model.tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)["input_ids"]
    assert len(tokens) > 3 * sentence_model.max_seq_length
    assert len(embedder.embed_document_tokens([text])[0]) == len(tokens)
    monkeypatch.setitem(sentence_model.prompts, "document", "passage to read: ")
    assert len(embedder.embed_document_tokens([text])[0]) == len(tokens)

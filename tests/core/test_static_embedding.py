"""The shipped embedder: what its vectors are, and that nothing but the text decides them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from catena.effects import Embedder
from catena.enrichment import SHIPPED, StaticEmbedder, static_embedding
from catena.model import ServiceError

EMBEDDER = StaticEmbedder()
REFERENCE = Tokenizer.from_file(str(SHIPPED / "tokenizer.json"))
WORDS = st.sampled_from(["cat", "Kitten,", "(1996)", "x-ray", "naïve", "北京", "☃", "antidisestablishmentarianism"])
TEXTS = st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=12).map(" ".join))


def similarity(a: str, b: str) -> float:
    return float(EMBEDDER.embed_query(a) @ EMBEDDER.embed_query(b))


# Golden numbers


def test_the_vectors_are_those_that_were_shipped() -> None:
    vector = EMBEDDER.embed_query("The pump starts when the water level falls.")
    assert StaticEmbedder().identity == "catena-static-minilm-256/2:0e963557"
    assert vector.shape == (EMBEDDER.dim,) == (256,)
    assert vector[:4] == pytest.approx([0.120263, -0.117098, -0.164570, -0.009494], abs=1e-5)


def test_like_meanings_are_nearer() -> None:
    for text, near, far in (
        ("cat", "kitten", "carburetor"),
        ("How do I reset the password?", "Changing your login credentials", "Replacing the air filter"),
        ("The firm's profit rose", "earnings of the company increased", "the river flooded the valley"),
        ("heart attack", "myocardial infarction", "railway station"),
    ):
        assert similarity(text, near) > similarity(text, far) + 0.1


def test_a_vector_is_the_normalised_sum_of_its_rows() -> None:
    rows = np.load(SHIPPED / "vectors.npy")
    text = "The flux capacitor was re-wired in 1985."
    total = rows[REFERENCE.encode(text).ids].astype(np.float64).sum(axis=0)
    assert EMBEDDER.embed_query(text) == pytest.approx(total / np.linalg.norm(total), abs=1e-6)


# Laws


@given(st.lists(TEXTS, max_size=6))
@example([])
def test_rows_are_unit_or_zero(texts: list[str]) -> None:
    vectors = EMBEDDER.embed_documents(texts)
    assert vectors.shape == (len(texts), 256)
    assert vectors.dtype == np.float32
    lengths = np.linalg.norm(vectors, axis=1)
    assert all(length == 0.0 or length == pytest.approx(1.0, abs=1e-6) for length in lengths)


@given(st.lists(TEXTS, min_size=1, max_size=6), st.randoms())
def test_a_vector_depends_on_its_text_alone(texts: list[str], random: Random) -> None:
    order = random.sample(range(len(texts)), len(texts))
    together, shuffled = EMBEDDER.embed_documents(texts), EMBEDDER.embed_documents([texts[i] for i in order])
    assert np.array_equal(together[order], shuffled)
    assert all(np.array_equal(row, EMBEDDER.embed_query(text)) for row, text in zip(together, texts, strict=True))


@given(TEXTS)
@example("x" * 100 + " " + "y" * 101)
@example("don't [UNK] [PAD] ##ing foo_bar 3.14 C++ a\x01b ÅNGSTRÖM e\u0301tude")
def test_words_are_cut_as_the_tokenizer_file_says(text: str) -> None:
    unknown = REFERENCE.token_to_id("[UNK]")
    expected = [i for i in REFERENCE.encode(" ".join(text.split()), add_special_tokens=False).ids if i != unknown]
    (pieces,) = EMBEDDER._pieces_of([text])
    assert [i for i in pieces.tolist() if i != unknown] == expected


@pytest.mark.parametrize("limit", ["_CHARACTERS_PER_BATCH", "_PIECES_PER_SUM", "_PARTS_KEPT"])
def test_no_limit_of_memory_shows_in_a_vector(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    texts = ["the quick brown fox", "jumps", "over the lazy dog " * 40, "", "again", "☃"]
    expected = EMBEDDER.embed_documents(texts)
    monkeypatch.setattr(static_embedding, limit, 3)
    assert np.array_equal(StaticEmbedder().embed_documents(texts), expected)


# Edges


def test_the_end_of_a_long_text_counts() -> None:
    text = "the weather was fine " * 20_000  # 80,000 pieces: more than one block of sums
    assert similarity(text + "carburetor " * 40_000, "carburetor") > similarity(text, "carburetor") + 0.5


def test_special_tokens_spelt_in_a_text_are_text() -> None:
    assert np.array_equal(EMBEDDER.embed_query("[UNK]"), EMBEDDER.embed_query("[ unk ]"))
    assert EMBEDDER.embed_query("[UNK]").any()
    assert np.array_equal(EMBEDDER.embed_query("cat\ud800 dog"), EMBEDDER.embed_query("cat dog"))
    assert isinstance(EMBEDDER, Embedder)


def test_a_word_with_an_unknown_rest_is_unknown_as_a_whole(tmp_path: Path) -> None:
    definition = json.loads((SHIPPED / "tokenizer.json").read_text(encoding="utf-8"))
    definition["model"]["vocab"] = {"[UNK]": 0, "a": 1, "##b": 2}
    vocabulary = json.dumps(definition).encode()
    np.save(tmp_path / "vectors.npy", np.array([[0, 0], [3, 0], [0, 4]], dtype=np.int8))
    (tmp_path / "tokenizer.json").write_bytes(vocabulary)
    sha256 = static_embedding.content_hash((tmp_path / "vectors.npy").read_bytes(), vocabulary)
    (tmp_path / "metadata.json").write_text(json.dumps({"name": "tiny", "version": "1", "sha256": sha256}))
    rows = StaticEmbedder(tmp_path).embed_documents(["ab", "abx", "a abx"])
    assert rows.tolist() == [pytest.approx([0.6, 0.8]), [0.0, 0.0], [1.0, 0.0]]


# The artefact


def test_it_loads_neither_torch_nor_model_libraries() -> None:
    program = (
        "import sys; from catena.enrichment.static_embedding import StaticEmbedder;"
        "assert StaticEmbedder().embed_query('cat').any();"
        "print([m for m in ('torch', 'transformers', 'sentence_transformers', 'model2vec') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


# Errors


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vectors.npy", (SHIPPED / "vectors.npy").read_bytes()[:-1] + b"?", r"not those metadata\.json describes"),
        *((name, None, name) for name in ("vectors.npy", "tokenizer.json", "metadata.json")),
        *(("metadata.json", content, r"metadata\.json is damaged") for content in (b"", b"[]", b"{}", b"\xff")),
    ],
)
def test_a_damaged_artefact_is_refused_by_name(tmp_path: Path, name: str, content: bytes | None, message: str):
    copy = tmp_path / "static"
    shutil.copytree(SHIPPED, copy)
    (copy / name).unlink()
    if content is not None:
        (copy / name).write_bytes(content)
    with pytest.raises(ServiceError, match=message):
        StaticEmbedder(copy)

"""What hosted rerankers and embedders share: windows, portions, order, errors; and what their recordings are."""

import pickle
import runpy
import socket
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.backends import (
    cohere,
    gliner_entities,
    hosted,
    openai,
    sentence_transformers,
    spacy_entities,
    tfidf,
    voyage,
)
from catena.backends.hosted import (
    MAX_MESSAGE,
    Account,
    account,
    in_order,
    portions,
    rating_plan,
    scores_in_order,
    unit_rows,
    windows,
)
from catena.model import InvalidReplyError, MissingExtraError, ServiceError

CASSETTES = Path(__file__).parent / "cassettes"
SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "write_cassettes.py"
words = st.text(st.sampled_from("ab é北🙂 \n"), max_size=200)


# Windows and portions


def test_a_text_is_cut_between_words():
    assert windows("one two three four", 9) == ["one two ", "three ", "four"]
    assert windows("one two", 7) == ["one two"]
    assert windows("ab abcdefgh", 4) == ["ab a", "bcde", "fgh"]


@given(words, st.integers(4, 50))
def test_windows_tile_the_text_and_fit(text, limit):
    pieces = windows(text, limit)
    assert "".join(pieces) == text
    assert all(0 < len(piece.encode()) <= limit for piece in pieces) or text == ""


def test_portions_end_where_count_or_size_is_full():
    assert portions([5, 5, 5], max_count=2) == (slice(0, 2), slice(2, 3))
    assert portions([5, 5, 5], max_count=9, max_size=10) == (slice(0, 2), slice(2, 3))
    assert portions([3, 50, 3, 3], max_count=9, max_size=10) == (slice(0, 1), slice(1, 2), slice(2, 4))
    assert portions([], max_count=2) == ()


@given(st.lists(st.integers(0, 20)), st.integers(1, 5), st.integers(20, 40))
def test_portions_tile_the_list_within_their_limits(sizes, count, size):
    runs = portions(sizes, max_count=count, max_size=size)
    assert [item for run in runs for item in sizes[run]] == sizes
    assert all(0 < run.stop - run.start <= count and sum(sizes[run]) <= size for run in runs)


def test_a_query_counts_once_per_piece():
    plan = rating_plan("12345", ["a" * 5] * 4, window=None, max_count=9, max_size=20)
    assert [len(request) for request in plan.requests] == [2, 2]


@given(st.lists(words, max_size=8), st.integers(4, 60), st.integers(1, 4))
def test_every_text_gets_the_score_of_its_best_piece(texts, window, count):
    plan = rating_plan("q", texts, window=window, max_count=count, max_size=None)
    value = {index: (index * 7 % 10) / 10 for index in range(len(plan.pieces))}
    scores = plan.scores([[value[i] for i in range(run.start, run.stop)] for run in plan.runs])
    for owner, text in enumerate(texts):
        own = [value[index] for index, of in enumerate(plan.owners) if of == owner]
        assert scores[owner] == max(own, default=0.0)
        assert bool(own) == bool(text.strip())


# Replies


@given(st.permutations(range(5)))
def test_values_are_put_back_by_index(order):
    assert in_order(((index, f"value {index}") for index in order), 5) == [f"value {index}" for index in range(5)]


@pytest.mark.parametrize(
    "pairs",
    [[(0, 1)], [(0, 1), (0, 1)], [(0, 1), (1, 1), (1, 2)], [(0, 1), (2, 1)], [(0, 1), (-1, 1)], [(0, 1), ("1", 1)]],
)
def test_indexes_that_do_not_fit_are_refused(pairs):
    with pytest.raises(ValueError, match=r"index|results"):
        in_order(pairs, 2)


@pytest.mark.parametrize("score", [None, "0.5", True, float("nan"), float("inf"), -0.01, 1.01])
def test_a_score_is_a_number_between_0_and_1(score):
    with pytest.raises(ValueError, match="score"):
        scores_in_order([(0, score)], 1)


def test_rows_become_unit():
    rows = unit_rows([[3.0, 4.0], [0.0, 2.0]], 2, 2)
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.0, 1.0]])
    assert rows.dtype == np.float32


@pytest.mark.parametrize(
    "rows", [[[1.0, 0.0]], [[1.0], [1.0]], [[1.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [np.nan, 1.0]]]
)
def test_vectors_without_place_or_direction_are_refused(rows):
    with pytest.raises(ValueError, match="vector"):
        unit_rows(rows, 2, 2)


# Errors


class SDKError(Exception):
    def __init__(self, status: int | None, body: object) -> None:
        super().__init__("headers: {'set-cookie': 'session=1'}")
        self.status_code, self.body, self.headers = status, body, {}


@pytest.fixture
def place() -> Account:
    return account("cloud", "CLOUD_KEY", "secret-word")


def test_what_a_service_says_is_short_and_without_the_key(place):
    error = place.failure(SDKError(422, {"message": "secret-word " * 100}), "cloud/model")
    assert isinstance(error, ServiceError)
    assert "secret-word" not in str(error)
    assert len(error.what) < MAX_MESSAGE + 40
    assert [len(place.words({"detail": "x" * size})) for size in (299, 300, 301)] == [299, 300, 301]
    assert place.words("x" * 302) == "x" * 300 + "…"


def test_the_key_is_taken_out_before_the_text_is_cut(place):
    body = "x" * (MAX_MESSAGE - 5) + "secret-word"
    assert "secre" not in str(place.failure(SDKError(400, body), "cloud/model"))


def test_a_reply_that_came_and_cannot_be_read_is_invalid(place):
    read = (AttributeError("results"), KeyError("data"), ValueError("index 0 twice"))
    for error in (SDKError(200, "<html>"), SDKError(299, ""), *read):
        assert isinstance(place.failure(error, "cloud/model"), InvalidReplyError)
    for error in (TimeoutError(), OSError("broken"), SDKError(300, "x")):
        assert not isinstance(place.failure(error, "cloud/model"), InvalidReplyError)


# Packages that are not there


@pytest.mark.parametrize(
    ("patched", "make", "extra"),
    [
        (hosted, lambda: cohere.CohereReranker(api_key="k"), "cohere"),
        (hosted, lambda: voyage.VoyageEmbedder(api_key="k"), "voyage"),
        (openai, lambda: openai.OpenAILLM("small", api_key="k"), "openai"),
        (hosted, lambda: openai.OpenAIEmbedder("small", api_key="k"), "openai"),
        (sentence_transformers, lambda: sentence_transformers.CrossEncoderReranker("mini"), "sentence-transformers"),
        (sentence_transformers, lambda: gliner_entities.GLiNERRecognizer("small", labels=["product"]), "gliner"),
        (sentence_transformers, lambda: spacy_entities.SpacyRecognizer("en_core_web_sm"), "spacy"),
        (tfidf, lambda: tfidf.TfidfScorer(["pump"]), "tfidf"),
    ],
)
def test_a_missing_package_is_named_with_the_line_that_installs_it(monkeypatch, patched, make, extra):
    monkeypatch.setattr(patched, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=rf"pip install './packages/catena\[{extra}\]'") as caught:
        make()
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


# The recordings


def test_every_recording_is_what_the_script_writes_and_says_so():
    files = {path.relative_to(CASSETTES).as_posix(): path.read_text("utf-8") for path in CASSETTES.glob("*/*.yaml")}
    assert files == runpy.run_path(str(SCRIPT))["all_cassettes"]()
    for text in files.values():
        assert text.startswith("# SYNTHETIC.")
        assert "\nsynthetic: true\n" in text
        assert "authorization" not in text.lower()


@pytest.mark.vcr
@pytest.mark.default_cassette("../test_cohere/rerank.yaml")
@pytest.mark.block_network
def test_a_replay_has_no_network_behind_it(vcr):
    with socket.socket() as connection, pytest.raises(RuntimeError, match="Network is disabled"):
        connection.connect(("127.0.0.1", 9))
    assert vcr.record_mode.value == "none"

"""The shipped fakes: the same replies everywhere, every call recorded, all ports fulfilled."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk

from catena.effects import LLM, Captioner, Complete, Completion, Embedder, EntityRecognizer, Reranker, Search, Store
from catena.effects.ports import Tokenizer
from catena.model import Chunk, Document, Hit, MissingExtraError, Ranking, Scale, ServiceError
from catena.testing import FakeCaptioner, FakeEmbedder, FakeLLM, FakeReranker, Flaky, ScriptedLLM, strategies
from catena.testing.fakes import AngleEmbedder, FakeRecognizer, FakeStore, FakeTokenizer, Slow

PORTS = {
    LLM: (FakeLLM(), ScriptedLLM([]), Flaky(FakeLLM(), [])),
    Embedder: (FakeEmbedder(), AngleEmbedder(), Slow(FakeEmbedder(), 0.0)),
    Reranker: (FakeReranker(),),
    Captioner: (FakeCaptioner(),),
    EntityRecognizer: (FakeRecognizer({}),),
    Tokenizer: (FakeTokenizer(),),
    Store: (FakeStore({}),),
}


def prompt(text: str, **more: str) -> Complete:
    return Complete(prompt=text, purpose="test", **more)


def test_each_fake_fulfils_its_port() -> None:
    for port, fakes in PORTS.items():
        assert all(isinstance(fake, port) for fake in fakes), port


def test_the_llm_replies_by_function_by_mapping_or_by_echo() -> None:
    assert FakeLLM(lambda request: request.prompt[::-1]).complete(prompt("abc")).text == "cba"
    by_prompt = FakeLLM({"a": "one"})
    assert by_prompt.complete(prompt("a")).text == "one"
    with pytest.raises(ServiceError, match="no reply was given for the prompt 'b'"):
        by_prompt.complete(prompt("b"))
    reply = FakeLLM().complete(prompt("say it again", system="be kind"))
    assert reply == Completion(text="say it again", input_tokens=5, output_tokens=3)
    whole = Completion(text="cut", finish_reason="length")
    assert FakeLLM(lambda _: whole).complete(prompt("a")) is whole


def test_the_scripted_llm_follows_its_script_and_says_when_it_ends() -> None:
    llm = ScriptedLLM(["one", ServiceError("m", "no"), Completion(text="three")])
    assert llm.complete(prompt("a")).text == "one"
    with pytest.raises(ServiceError, match="m: no"):
        llm.complete(prompt("b"))
    assert llm.complete(prompt("c")).text == "three"
    with pytest.raises(ServiceError, match="call 4, but only 3 replies were given"):
        llm.complete(prompt("d"))
    assert [call.prompt for call in llm.calls] == ["a", "b", "c", "d"]


@given(st.lists(st.text(), max_size=5), st.integers(1, 20))
def test_fake_vectors_are_unit_rows_that_depend_on_the_text_alone(texts: list[str], dim: int) -> None:
    rows = FakeEmbedder(dim).embed_documents(texts)
    assert (rows.shape, rows.dtype) == ((len(texts), dim), np.float32)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    for text, row in zip(texts, rows, strict=True):
        np.testing.assert_array_equal(FakeEmbedder(dim).embed_query(text), row)


def test_texts_that_share_words_are_near_and_a_text_may_be_its_angle() -> None:
    near, far = FakeEmbedder(256).embed_documents(["the red bolt of the door", "seventeen blue whales"])
    query = FakeEmbedder(256).embed_query("red bolt")
    assert query @ near > 0.4
    assert abs(query @ far) < 0.3
    for text, angle in {"0": (1, 0), "at 90 degrees": (0, 1), "-90.0": (0, -1), "none": (1, 0)}.items():
        np.testing.assert_allclose(AngleEmbedder().embed_query(text), angle, atol=1e-6)
        np.testing.assert_allclose(AngleEmbedder().embed_documents([text]), [angle], atol=1e-6)


def test_fakes_are_the_same_in_every_process_and_need_neither_pytest_nor_hypothesis_nor_numpy() -> None:
    code = (
        "import sys; from catena.testing.fakes import FakeEmbedder;"
        "print([name for name in ('pytest', 'hypothesis', 'numpy') if name in sys.modules]);"
        "print(FakeEmbedder(8).embed_query('red bolt').tobytes().hex())"
    )
    command = [sys.executable, "-c", code]
    printed = {
        subprocess.run(command, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True).stdout
        for seed in ("1", "2")
    }
    assert printed == {f"[]\n{FakeEmbedder(8).embed_query('red bolt').tobytes().hex()}\n"}


def test_rerankers_captioners_and_recognisers_take_functions_and_names() -> None:
    assert FakeReranker().score("red bolt", ["a red nut", "", "red bolt"]) == [0.5, 0.0, 1.0]
    assert FakeReranker().score("", ["a"]) == [0.0]
    assert FakeReranker(lambda query, text: float(len(text))).score("q", ["abc"]) == [3.0]
    asked = ((b"x", "p"), (b"x", "q"), (b"y", "p"))
    one, same, other = (FakeCaptioner().caption(*each) for each in asked)
    assert one == same != other
    recogniser = FakeRecognizer({"PART": ["bolt", "nut"], "TOOL": ["key"]})
    assert recogniser.recognise(["a nut, a bolt, a key"], []) == (("nut", "bolt", "key"),)
    assert recogniser.recognise(["a nut and a key", ""], ["TOOL"]) == (("key",), ())


def test_the_store_answers_by_ranking_by_function_and_by_words() -> None:
    red, blue = chunk("a", "a red bolt"), chunk("b", "a blue bolt")
    ranking = Ranking.of([Hit(red, 1.0), Hit(blue, 0.5)], Scale.SIMILARITY)
    store = FakeStore({"fixed": ranking, "made": lambda request: ranking, "words": [red, blue]})
    assert store.routes == ("fixed", "made", "words")
    for route in ("fixed", "made"):
        assert store.search(Search(route=route, query="q", k=1)).hits == (Hit(red, 1.0),)
    assert [hit.chunk.id for hit in store.search(Search(route="words", query="blue bolt", k=5)).hits] == ["b", "a"]
    assert store.search(Search(route="words", query="green", k=5)).hits == ()
    assert store.search(Search(route="fixed", query="q", k=5, among=("b",))).hits == (Hit(blue, 0.5),)
    with pytest.raises(ServiceError, match="no route 'x'"):
        store.search(Search(route="x", query="q", k=1))
    assert len(store.calls) == 6


def test_flaky_fails_at_the_given_calls_whatever_the_method_and_hides_async_twins() -> None:
    embedder = Flaky(FakeEmbedder(4), [None, ServiceError("m", "no")])
    assert (embedder.dim, embedder.identity) == (4, "fake-embedder-4")
    embedder.embed_documents(["a"])
    with pytest.raises(ServiceError, match="m: no"):
        embedder.embed_query("b")
    embedder.embed_query("c")
    assert embedder.calls == [("embed_documents", ["a"]), ("embed_query", "b"), ("embed_query", "c")]

    class Both(FakeLLM):
        async def acomplete(self, request: Complete) -> Completion:
            return Completion(text="past the wrapper")

    assert not hasattr(Flaky(Both(), []), "acomplete")


@given(strategies.chunkings(), strategies.documents())
def test_drawn_chunks_tile_their_document(drawn: tuple[Document, tuple[Chunk, ...]], other: Document) -> None:
    document, chunks = drawn
    assert "".join(chunk.text for chunk in chunks) == document.text
    assert [chunk.position for chunk in chunks] == list(range(len(chunks)))
    assert all(document.text[chunk.start : chunk.end] == chunk.text for chunk in chunks)
    assert len({chunk.id for chunk in chunks}) == len(chunks)
    assert all(0 <= start <= len(other.text) for start in other.page_starts)


@given(strategies.rankings(Scale.PROBABILITY, min_value=0.0, max_value=1.0))
def test_drawn_rankings_are_in_order_and_in_bounds(ranking: Ranking) -> None:
    scores = [hit.score for hit in ranking.hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0.0 <= score <= 1.0 for score in scores)
    assert ranking.scale is Scale.PROBABILITY


def test_strategies_name_the_extra_when_hypothesis_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.delitem(sys.modules, "catena.testing.strategies")
    with pytest.raises(MissingExtraError, match=r"hypothesis .* pip install './packages/catena\[testing\]'"):
        import catena.testing.strategies  # noqa: F401

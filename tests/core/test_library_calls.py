"""Mistakes in calls of a library: each is refused before anything is asked, and the message says what was meant."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from catena import Library
from catena.model import Document, ParameterError
from catena.testing import FakeEmbedder


@pytest.fixture
def library(tmp_path: Path):
    with Library.open(tmp_path / "lib", embedder=FakeEmbedder(16)) as opened:
        opened.add(Document(id="note", text="# Note\n\nThe torque is 2.4 N·m.\n"))
        yield opened


@pytest.mark.parametrize(
    ("method", "name", "told"),
    [
        ("search", "top_k", "here it is called 'k'"),
        ("search", "filter", "here it is called 'where'"),
        ("search", "fuson", "Did you mean 'fusion'?"),
        ("passages", "budget_token", "Did you mean 'budget_tokens'?"),
        ("segments", "route", "Did you mean 'routes'?"),
        ("answer", "answring", "Did you mean 'answering'?"),
        ("search_views", "top_k", "here it is called 'k'"),
        ("search_graph", "filters", "here it is called 'where'"),
        ("search_figures", "wher", "Did you mean 'where'?"),
    ],
)
def test_a_name_that_a_question_does_not_take_is_refused_with_the_nearest(
    library: Library, method: str, name: str, told: str
) -> None:
    with pytest.raises(ParameterError) as caught:
        getattr(library, method)("torque", **{name: 3})
    assert f"argument of Library.{method} must be one of '" in str(caught.value)
    assert f"got '{name}'" in str(caught.value)
    assert told in str(caught.value)
    with pytest.raises(ParameterError, match=f"argument of Library.a{method} "):
        asyncio.run(getattr(library, f"a{method}")("torque", **{name: 3}))


def test_a_name_of_another_method_is_not_said_to_be_of_this_one(library: Library) -> None:
    with pytest.raises(ParameterError) as caught:
        library.segments("torque", top_k=3)  # it has no k: a budget says how much comes
    assert "here it is called" not in str(caught.value)


def test_no_hits_asked_for_are_no_hits(library: Library) -> None:
    for ask in (library.search, library.search_figures, library.passages):
        assert ask("torque", k=0).hits == ()
    assert len(library.search("torque", k=1).hits) == 1


def test_an_answer_without_a_model_says_where_one_is_given(library: Library) -> None:
    with pytest.raises(ParameterError, match=r"llm must be given to Library\.open, as llm=a_language_model"):
        library.answer("torque")


def test_a_library_shows_its_name_and_how_much_is_in_it(library: Library, tmp_path: Path) -> None:
    assert repr(library) == "<Library 'lib': 1 document>"
    library.add(Document(id="other", text="Oil.\n"))
    assert repr(library).endswith(": 2 documents>")
    with Library.open(tmp_path / "mistyped", embedder=FakeEmbedder(16)) as empty:
        assert repr(empty).endswith(" 'mistyped': 0 documents>")
    assert repr(empty).endswith(" 'mistyped': closed, or not readable>")


class Foreign:
    dim = 3

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0, 0.0] for _ in texts]


def test_an_embedder_that_lacks_something_is_refused_with_what(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"Foreign, which lacks identity, embed_query"):
        Library.open(tmp_path / "lib", embedder=Foreign())
    with pytest.raises(ParameterError, match="FakeEmbedder, a class"):
        Library.open(tmp_path / "lib", embedder=FakeEmbedder)
    assert not (tmp_path / "lib").exists()

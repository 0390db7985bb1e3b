"""HTML to Markdown: the structure that is searched and cited, and nothing that is not shown."""

from __future__ import annotations

import pytest
from case_files import cases_of
from hypothesis import given
from hypothesis import strategies as st
from test_parsing_text import state_of

from catena.parsing import parse_bytes
from catena.parsing.hypertext import to_markdown


@pytest.mark.parametrize(("html", "markdown"), cases_of("cases_html.txt"))
def test_each_page_becomes_its_markdown(html: str, markdown: str) -> None:
    assert to_markdown(html)[0] == f"{markdown}\n"


def test_the_title_is_the_heads_or_the_first_heading_or_the_file_name() -> None:
    def title(html: str) -> str:
        return parse_bytes(html.encode(), "page.html").document.title

    assert title("<title> The \n page </title><h1>H</h1>x") == "The page"
    assert title("<h2>H</h2>x") == "H"
    assert title("<p>x") == "page"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("<meta charset='koi8-r'><p>Привет".encode("koi8-r"), "Привет\n"),
        ("<meta http-equiv=x content='text/html; charset=iso-8859-1'><p>5 €".encode("cp1252"), "5 €\n"),
        ("<meta charset=nonsense><p>Größe".encode("cp1252"), "Größe\n"),
        ("<?xml version='1.0' encoding='shift_jis'?><html><p>日本".encode("shift_jis"), "日本\n"),
        ("\ufeff<html><p>日本".encode("utf-16-le"), "日本\n"),
    ],
)
def test_encodings(data: bytes, text: str) -> None:
    assert parse_bytes(data, "x.html").document.text == text


def test_a_page_that_shows_nothing_is_empty() -> None:
    assert state_of(b"<html><script>all of it</script>", "x.html") == "empty"


@pytest.mark.parametrize(("number", "text"), [(f"&#{'9' * 5_000};", "\ufffd"), (f"&#{'0' * 5_000}65;", "A")])
def test_numbers_past_all_are_read_as_browsers_do(number: str, text: str) -> None:
    assert to_markdown(f"<p>a {number}</p>")[0] == f"a {text}\n"


WORDS = st.text("abcdefgh", min_size=1, max_size=6)
NAMES = ("p", "h1", "ul", "ol", "li", "table", "tr", "td", "caption", "pre", "code", "blockquote", "b", "br", "dd")
TAGS = st.sampled_from(NAMES)
PIECES = st.lists(st.one_of(WORDS, TAGS.map("<{}>".format), TAGS.map("</{}>".format)), max_size=40)


@given(PIECES)
def test_no_word_is_lost_whatever_the_tags(pieces: list[str]) -> None:
    markdown, _ = to_markdown(" ".join(pieces))
    shown = [character for character in markdown if character in "abcdefgh"]
    # sorted: a caption stands above its table, wherever in it it was written
    assert sorted(shown) == sorted("".join(piece for piece in pieces if not piece.startswith("<")))

"""HTML to Markdown: the structure that is searched and cited, and nothing that is not shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.model import ParseError
from catena.parsing import parse_bytes
from catena.parsing.hypertext import to_markdown


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("<h1>One <em>and</em>\n two</h1><h3>Deep</h3>", "# One and two\n\n### Deep"),
        ("<p>a<p>b<div>c</div>d", "a\n\nb\n\nc\n\nd"),
        ("<p>see <a href='http://x'>this</a> <b>now</b> &amp; <code>f_x</code>", "see this now & `f_x`"),
        ("<p>one<br>two", "one\ntwo"),
        ("<ul><li>a<li>b<ul><li>c</ul><li>d</ul>e", "- a\n- b\n   - c\n- d\n\ne"),
        ("<ol start=3><li>c<li>d</ol>", "3. c\n4. d"),
        ("<ul><li><p>a</p><p>b</p></li></ul>", "- a\n\n   b"),
        ("<pre><code class='language-c'>int  x;\n\ty</code></pre>", "```c\nint  x;\n\ty\n```"),
        ("<pre>a ``` b</pre>", "````\na ``` b\n````"),
        ("<blockquote>said</blockquote>", "> said"),
        ("<img src='a.png' alt='Figure  1'><img src='data:abc' alt=x>", "![Figure 1](a.png)![x]()"),
        ("<p># no heading</p><p>```</p>", "\\# no heading\n\n\\```"),
        ("<script>x</script><style>y</style><noscript>z</noscript><p>seen", "seen"),
        ("<dl><dt>term<dd>meaning</dl>", "term\n\n- meaning"),
        ("a<hr>b", "a\n\n***\n\nb"),
        ("fi \ufb01 &#xD800;", "fi fi \ufffd"),
    ],
)
def test_blocks(html: str, markdown: str) -> None:
    assert to_markdown(html)[0] == markdown + "\n"


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        ("<tr><th>A<th>B<tr><td>1<td>2|3", ["| A | B |", "| --- | --- |", "| 1 | 2\\|3 |"]),
        ("<tr><th>A<th colspan=2>B<tr><td>1<td>2<td>3", ["| A | B | B |", "| --- | --- | --- |", "| 1 | 2 | 3 |"]),
        ("<tr><td rowspan=2>A<td>B<tr><td>C", ["| A | B |", "| --- | --- |", "|  | C |"]),
        ("<caption>T</caption><tr><td>A<td>B", ["T", "", "| A | B |", "| --- | --- |"]),
        (
            "<tr><td><p>one</p><p>two</p><td><table><tr><td>in<td>ner</table>",
            ["| one two | in ner |", "| --- | --- |"],
        ),
        ("<tr><td>one<tr><td>two", ["one", "", "two"]),
        ("<tr><td colspan=x>A<td rowspan=99999999999>B", ["| A | B |", "| --- | --- |"]),
    ],
)
def test_tables(rows: str, lines: list[str]) -> None:
    assert to_markdown(f"<table>{rows}</table>")[0].splitlines() == lines


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
    with pytest.raises(ParseError) as caught:
        parse_bytes(b"<html><script>all of it</script>", "x.html")
    assert caught.value.state == "empty"


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("a <!-- b > c --!> d <!--> e <!---> f", "a d e f"),
        ("a <!-- b <b>c</b> > d", "a <!-- b c > d"),
        ("a <![b[> c <![> d", "a c d"),
        (f"a &#{'9' * 5_000}; b", "a \ufffd b"),
        (f"&#{'0' * 5_000}65; &#{'0' * 9};", "A \ufffd"),
    ],
    ids=["comments", "a comment without an end", "marked sections", "a number past all", "zeros"],
)
def test_odd_markup_costs_no_other_word(html: str, text: str) -> None:
    assert to_markdown(f"<p>{html}</p>")[0] == f"{text}\n"


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

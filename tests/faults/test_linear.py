"""Nothing foreign costs more than linear time: the readers, from a flood of one piece to their result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

import pytest
from growth import worse_than_linear as worse_than

from catena.answering import check_answer
from catena.effects import Complete, Completion, Services, run
from catena.formatting import format_markdown, planned_answer
from catena.library import prepare
from catena.model import Chunk, Document, Hit, Parsed
from catena.parsing import hypertext, latex
from catena.parsing.office import read_email
from catena.parsing.pdf_damage import found_objects
from catena.parsing.readers import HEAD, kind_of
from catena.parsing.text import markdown_title
from catena.retrieval import decompose
from catena.text import read_items, without_thoughts
from catena.text.loose_json import json_values

FLOOR = 0.02  # seconds
TOLERANCE = 3  # times linear growth: a square is 16 times it at these sizes
worse_than_linear = partial(worse_than, tolerance=TOLERANCE)
SIZES = (1_500, 6_000, 24_000)  # characters


def flood(piece: str, before: str = "", after: str = "") -> Callable[[int], str]:
    return lambda size: before + piece * (size // len(piece)) + after


def kind_of_unnamed(data: bytes) -> object:
    return kind_of(data, "unnamed")


def chunks(text: str) -> object:
    return prepare(Document(id="d", text=text))


def table(header: str, rows: str) -> Callable[[int], str]:
    """A table that is wide and long."""
    return lambda n: f"|a|{header * (n // 8)}\n|-|{'-|' * (n // 8)}\n{rows * (n // 16 // len(rows))}"


def places(size: int) -> bytes:
    """A stream of objects that goes back and forth."""
    head = b"9 0 8 %d " % size * (size // 20)
    return b"%%PDF-1.7\n7 0 obj\n<< /Type /ObjStm /First %d >>\nstream\n" % len(head) + head + b"/Type " * (size // 6)


def messages() -> Iterator[Callable[[int], bytes]]:
    """Yield e-mails with long headers, and with many parts."""
    for front, part, after in (
        (b"Subject: ", b"=?utf-8?q?a?= ", b"\n\nx"),
        (b"Content-Type: text/plain; ", b"a=b;", b"\n\nx"),
        (b"Content-Type: multipart/mixed; boundary=x\n\n", b"--x\nContent-Type: text/plain\n\nhello\n", b"--x--"),
    ):
        yield lambda n, front=front, part=part, after=after: front + part * (n // len(part)) + after  # type: ignore[misc]


def readings() -> Iterator[tuple[Callable[..., object], Callable[[int], object], Sequence[int], float]]:
    """Yield a reader, what it is flooded with, the sizes, and the seconds that a flood may cost in any case."""
    for piece in (b"<!-- c -->\n", b"<!---->", b"%", b"% a\n", b"<?xml>", b" ", b"<!--"):
        yield kind_of_unnamed, (lambda n, piece=piece: piece * (n // len(piece)) + b"x"), (100, HEAD), 0.005
    for front in ("", "---\n"):
        for made in (flood(" ", "# x", "y"), flood(" #", "# x", "y"), flood(" ", "title: x", "y")):
            titled = lambda n, front=front, made=made: f"{front}{made(n)}\n{front}"  # noqa: E731
            yield markdown_title, titled, (2_000, 8_000, 32_000), 0.005
    for piece in ("<!-- page 12 -->\n", "#\n", "a\n=\n", "# H\n", "a\u200d", "e\u0301", "a ", "."):
        yield chunks, flood(piece, after="\ntext\n"), SIZES, FLOOR
    for piece in ("|a|b|\n|-|-|\n\n", "- a\n", "> ", "[a](", "`a"):
        yield chunks, flood(piece, after="\ntext\n"), SIZES, FLOOR
    for header, rows in (("a|", "|b|\n"), (" |", f"|{'b|' * 20}\n")):
        yield chunks, table(header, rows), (6_000, 24_000, 96_000), FLOOR
    for piece in ("<h1>a</h1>", "<a ", "<p>a", "<div>", "<tr><td>a", "a&amp;", "<!-- x --!>", "<!--a--!><!--b>"):
        yield hypertext.to_markdown, flood(piece, "<p>a</p>"), (*SIZES, 96_000), FLOOR
    for piece in ("\\section{a}\n", "% a\n", "\\textbf{", "\\begin{lstlisting}[a\n", "$a", "\\verb|"):
        yield latex.to_markdown, flood(piece, "\\documentclass{a}\\begin{document}\n", "text"), SIZES, FLOOR
    yield from ((read_email, message, (*SIZES, 192_000), FLOOR) for message in messages())
    for piece in ("HX210 ", "pump? ", "compare HX200 and HX210 ", '"', "„ "):
        yield decompose, flood(piece), SIZES, FLOOR
    yield found_objects, places, SIZES, FLOOR


@pytest.mark.parametrize(("read", "made", "sizes", "floor"), list(readings()))
def test_what_is_foreign_is_read_in_linear_time(read, made, sizes, floor):
    assert not worse_than_linear(read, made, sizes, floor=floor)


class Echo:
    """Gives each window back."""

    identity = model = "echo"

    def complete(self, request: Complete) -> Completion:
        return planned_answer(request)


@pytest.mark.parametrize("piece", ["# x\n", "a ", "| a | b |\n"])
def test_a_model_formats_in_linear_time(piece: str) -> None:
    def formatted(text: str) -> object:
        parsed = Parsed(document=Document(id="d", text=text, media_type="text/plain"))
        return run(format_markdown(parsed), Services(llm=Echo()))

    sizes = (6_000, 24_000, 48_000)
    assert not worse_than_linear(formatted, flood(piece), sizes, floor=FLOOR, patience=10, tries=2)


REPLIES = {
    "white space": lambda n: f"It is{' ' * n}4 Nm [1].",
    "white space in a list": lambda n: f'["a",{" " * n}"b"{" " * n}',
    "lines": lambda n: f"It is{chr(10) * n}4 Nm [1].",
    "tabs before a quote": lambda n: f'A [1].\nQUOTES\n[1]{chr(9) * n}"seal',
    "open lists": lambda n: "[" * n,
    "open objects": lambda n: "{" * n,
    "open strings": lambda n: '["' * n,
    "escapes": lambda n: '["\\"' * n,
    "numbers": lambda n: "[1," * n,
    "fences": lambda n: "```\n" * n,
    "tags": lambda n: "<think>" * n,
    "other tags": lambda n: "</think>" * n + "<answer>" * n,
    "marks": lambda n: "*" * n + "_" * n,
    "stops": lambda n: "." * n,
    "quotation marks": lambda n: "“" * n + '"' * n,
    "quotes around an escape": lambda n: '"' * n + r"\q" + '"' * n,
    "marks of the end": lambda n: "</s>" * n,
    "white space at both ends": lambda n: " " * n + "<s>" + " " * n,
    "bullets": lambda n: "- \n" * n,
    "markers": lambda n: "[1] " * n,
    "digits": flood("9", "It is 4 Nm [", "]"),
    "digits of a value": flood("9", "It is ", " Nm [1]"),
    "abbreviations": flood("It is e.g. ", after="4 Nm [1]."),
    "a quote of many lines": flood("the screw \n", 'It is 4 Nm [1].\n\nQuotes:\n[1] "'),
    "a quote with gaps": flood(" ... tightened with", 'It is 4 Nm [1].\n\nQuotes:\n[1] "', '"'),
    "sentences begun": flood("the The is a ", after="[1]"),
}


@pytest.mark.parametrize("made", REPLIES.values(), ids=REPLIES)
def test_a_reply_is_read_in_linear_time(made: Callable[[int], str]) -> None:
    passages = [Hit(Chunk(id="c", document_id="d", text="The seal is 4 Nm.", start=0, end=17, position=0), 1.0)]

    def read(text: str) -> None:
        without_thoughts(text)
        list(json_values(text))
        check_answer(text, passages)
        with suppress(ValueError):
            read_items(text)

    assert not worse_than_linear(read, made, (1_000, 4_000, 16_000), floor=0.3)  # a square takes seconds

"""LaTeX source: structure becomes Markdown, no printed word is lost, no other file is read, nothing explodes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from case_files import cases_of
from hypothesis import given
from hypothesis import strategies as st
from test_parsing_text import state_of

from catena.model import PageNote
from catena.parsing import Limits, parse, parse_bytes, supported_suffixes
from catena.parsing.latex import to_markdown
from catena.parsing.latex_tokens import MAX_EXPANSIONS, MAX_PRODUCED


def md(source: str) -> str:
    return to_markdown(source).markdown.strip("\n")


ARTICLE = Path(__file__).with_name("article.tex").read_text(encoding="utf-8")


def test_an_article_is_divided_at_its_commands() -> None:
    found = to_markdown(ARTICLE)
    assert (found.title, found.notes) == ("On Long Documents", ())
    assert to_markdown(r"\section{First}\section{Second}").title == "First"
    assert found.markdown == (
        "# On Long Documents[^1]\n\nA. One, B. Two\n\n[^1] Paid by nobody.\n\nMay 2024\n\n"
        "## Abstract\n\nWe study Catena — a “system”.\n\n## Introduction\n\nSee Section [The method].\n\n"
        "### The method\n\nText.\n\n##### Note\n\nAs in [Introduction].\n"
    )


@pytest.mark.parametrize(("source", "expected"), cases_of("cases_latex.txt"))
def test_each_source_becomes_its_markdown(source: str, expected: str) -> None:
    assert md(source) == expected


def test_files_that_are_taken_in_are_named_and_not_read(tmp_path: Path) -> None:
    (tmp_path / "two.tex").write_text("secret words")
    (tmp_path / "one.tex").write_text("Words.\n\\input{two}\n\\include{two.tex}\\bibliography{refs}\n")
    found = parse(tmp_path / "one.tex")
    assert ("secret" in found.document.text, found.state) == (False, "partial")
    assert found.document.text.count("[not read: two") == 2
    why = "the file 'two', which it takes in by \\input, was not read"
    assert found.notes[0] == PageNote(page=1, state="text", why=why)
    assert [note.why.split("'")[1] for note in found.notes] == ["two", "two.tex", "refs"]


def test_a_source_is_known_by_its_name_or_its_first_command() -> None:
    assert {".tex", ".latex", ".ltx"} <= supported_suffixes()
    article = ARTICLE.encode()
    for name in ("a.tex", "a", "a.cls"):
        found = parse_bytes(article, name)
        said = (found.document.title, found.document.media_type, found.state)
        assert said == ("On Long Documents", "text/markdown", "parsed")
    assert parse_bytes(article, "a.txt").document.text == ARTICLE
    assert parse_bytes(b"only words", "notes.tex").document.title == "notes"
    stated = "\\usepackage[latin9]{inputenc}\\begin{document}5 €\\end{document}".encode("iso8859-15")
    assert parse_bytes(stated, "a.tex").document.text == "5 €\n"


@pytest.mark.parametrize(
    "source", ["% nothing", r"\documentclass{article}\begin{document}\vspace{1cm}\end{document}", "{}{}{}"]
)
def test_a_source_that_prints_nothing_is_empty(source: str) -> None:
    assert state_of(source.encode(), "a.tex") == "empty"


DEEP = 30_000
DEEP_SIGNS = (
    *(r"\emph{", r"\footnote{", r"\section{", r"\item[", r"\\[", r"\textcolor{", r"\begin{itemize}\item ", r"\verb"),
    *(r"\end{itemize}", r"\begin{tabular}{l}", r"\begin{equation}", "$ ", r"\[ ", "%\n", r"\iffalse ", r"\url{"),
    *(r"\newcommand{", "{", "}"),
)
HOSTILE = {
    **{sign: sign * 10_000 + " word" for sign in DEEP_SIGNS},
    "cells": r"\begin{tabular}{l}" + "&" * 50_000 + r"\\ word",
    "verbatim": "word" + r"\begin{verbatim}" * 20_000,
    "cycle": r"\def\a{\b}\def\b{\a}\a word",
    "growing": r"\def\a{\a\a}\a word",
    "laughs": "".join(rf"\def\q{chr(97 + n)}{{\q{chr(98 + n)}\q{chr(98 + n)}}}" for n in range(24)) + r"\qa word",
    "parameters": r"\newcommand{\a}[1]{#1#1\a{#1#1}}\a{x} word",
    "accents": r"\'" * DEEP + "{x} word",
    "references": r"\section{word}\label{a}" + r"\ref{a}" * DEEP,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_source_ends_with_its_words(name: str) -> None:
    found = to_markdown(HOSTILE[name])
    assert "word" in found.markdown
    assert len(found.markdown) < 20_000_000


LONG_MACRO = r"\documentclass{a}\newcommand\x[1]{" + "y" * 1_000 + r" }\begin{document}" + r"\x a" * 30_000 + " word"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (HOSTILE["growing"], f"were expanded {MAX_EXPANSIONS:,} times"),
        (LONG_MACRO, f"gave {MAX_PRODUCED:,} characters"),
    ],
    ids=["often", "long"],
)
def test_macros_without_end_are_said_and_kept_as_written(source: str, said: str) -> None:
    found = parse_bytes(source.encode(), "a.tex", limits=Limits(seconds=30))
    assert found.state == "partial"
    assert said in found.notes[0].why
    assert found.document.text.rstrip().endswith("word")
    assert len(found.document.text) < len(source) + 1.1 * MAX_PRODUCED


WORDS = st.integers(0, 10**6).map(lambda number: f"w{number}")
SHAPES = st.sampled_from([
    *("%s", "%s\n\n", "\\emph{%s}", "\\textbf{\\underline{%s}}", "{\\em %s}", "\\foo{%s}", "\\foo[%s]{x}"),
    *("\\section{%s}", "\\paragraph{%s} ", "\\footnote{%s}", "\\begin{itemize}\\item %s\\end{itemize}"),
    *("\\begin{enumerate}\n\\item[%s] x\n", "\\end{enumerate}", "\\begin{quote}%s\\end{quote}", "\\end{quote}"),
    *("\\begin{odd}%s", "\\begin{tabular}{ll}%s & y \\\\\n", " & %s \\\\ ", "\\end{tabular}", "\\caption{%s}"),
    *("\\multicolumn{2}{c}{%s}", "$%s$", "\\[%s\\]", "\\begin{verbatim}%s\\end{verbatim}", "\\verb|%s|"),
    *("\\begin{figure}%s", "\\end{figure}", "\\href{u}{%s}", "\\url{%s}", "\\textcolor{red}{%s}", "\\cite{%s}"),
    *("\\begin{table}%s", "\\end{table}", "\\begin{equation}%s\\end{equation}", "\\begin{align}", "{", "}"),
    *("\\begin{abstract}%s\\end{abstract}", "\\\\", "~", "$", "[", "]", "\\item %s", "\\par ", "\\mbox{%s}"),
])  # fmt: skip


@given(st.lists(st.tuples(SHAPES, WORDS), max_size=12))
def test_every_printed_word_is_kept(parts: list[tuple[str, str]]) -> None:
    source = " ".join(shape % word if "%s" in shape else shape for shape, word in parts)
    expected = {word for shape, word in parts if "%s" in shape}
    found = to_markdown(f"start {source} stop").markdown
    assert {"start", "stop"} | expected <= set(re.findall(r"\w+", found))
    assert found == to_markdown(f"start {source} stop").markdown


@given(st.text(st.sampled_from("\\{}[]$&#%~ab*\n '\"-@|"), max_size=40))
def test_any_text_ends_well_and_keeps_plain_words(text: str) -> None:
    assert "first" in to_markdown(f"first {text}\n\nlast words").markdown


def test_a_source_that_is_cut_anywhere_ends_well() -> None:
    for case in cases_of("cases_latex.txt"):
        source = str(case.values[0])
        for cut in re.finditer(r"(?<=[A-Za-z*])(?![A-Za-z])|(?<=[\[{$])", source):
            assert md(f"first {source[: cut.end()]}") or "document}" in source


def test_ends_that_are_not_there_are_looked_for_fifty_times_and_texts_in_each_other_are_a_hundred() -> None:
    for begun in (r"\url{", r"\iffalse"):
        assert [md(f"{begun}\n\n" * times + r"\url{a%b}") for times in (50, 51)] == ["a%b", "a"]
    assert len(re.findall(r"(?m)^\[\^\d+\] ", md(r"\footnote{" * 150 + "a"))) == 100


@pytest.mark.parametrize(
    "piece",
    [
        *(r"\caption{a ", r"\href{a}{b", r"\lstinline[", r"\author{a}\maketitle ", r"\begin{tabular}{l}a "),
        *(r"\footnote{", r"\footnote "),
    ],
)
def test_what_is_nested_without_end_is_read_in_the_time_of_its_length(piece: str) -> None:
    printed = md(f"\\begin{{document}}{piece * 10_000} end\\end{{document}}")
    assert "end" in printed
    assert len(printed) < 20 * 10_000 * len(piece)

"""LaTeX source: structure becomes Markdown, no printed word is lost, no other file is read, nothing explodes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.model import Document, PageNote, ParseError
from catena.parsing import SUPPORTED_SUFFIXES, Limits, parse, parse_bytes
from catena.parsing.latex import to_markdown
from catena.parsing.latex_tokens import MAX_EXPANSIONS, MAX_PRODUCED
from catena.structure import cut_sections, outline
from catena.text.tables import read_table


def md(source: str) -> str:
    return to_markdown(source).markdown.strip("\n")


ARTICLE = r"""% a comment
\documentclass[11pt]{article}
\usepackage{amsmath} Not printed.
\newcommand{\sys}{Catena}
\title{On \emph{Long} Documents\thanks{Paid by nobody.}}
\author{A. One \and B. Two}
\date{May 2024}
\begin{document}
\maketitle
\tableofcontents
\begin{abstract}
We study \sys{} --- a ``system''.
\end{abstract}
\section[Short]{Introduction}\label{sec:intro}
See Section~\ref{sec:method}.% gone
\subsection*{The method}\label{sec:method}
Text.
\paragraph{Note} As in \ref{sec:intro}.
\end{document}
Not printed either.
"""


def test_an_article_is_divided_at_its_commands() -> None:
    found = to_markdown(ARTICLE)
    assert (found.title, found.notes) == ("On Long Documents", ())
    assert found.markdown == (
        "# On Long Documents[^1]\n\nA. One, B. Two\n\n[^1] Paid by nobody.\n\nMay 2024\n\n"
        "## Abstract\n\nWe study Catena — a “system”.\n\n## Introduction\n\nSee Section [The method].\n\n"
        "### The method\n\nText.\n\n##### Note\n\nAs in [Introduction].\n"
    )


def test_a_book_without_a_title_begins_with_its_highest_division() -> None:
    source = r"\part{P}\chapter{C}\section{S}\subsection{T}\subsubsection{U}\paragraph{V}\subparagraph{W} x"
    assert md(source).split("\n\n") == ["# P", "## C", "### S", "#### T", "##### U", "###### V", "###### W", "x"]
    assert md(r"\section{S} x \subparagraph{W} y") == "# S\n\nx\n\n##### W\n\ny"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            r"na\"ive caf\'e \v{S}koda \c cedille \^\i le \aa ngstr\"{o}m \ss",
            "naïve café Škoda çedille île ångström ß",
        ),
        (r"1--2 --- it's ``so'' `x' ?`Que?", "1–2 — it’s “so” ‘x’ ¿Que?"),
        (r"5\,\% of \$3 \& \#1 \_ \{x\} a~b \ldots{} \S 4", "5 % of $3 & #1 _ {x} a b … §4"),
        (r"{\bf bold} \textbf{b\emph{i}} \unknown{kept} \foo[opt]{too}", "bold bi kept [opt]too"),
        (r"a\footnote{Note \emph{x}.} b", "a[^1] b\n\n[^1] Note x."),
        (r"\cite[p.~3]{knuth84}; \citep{a,b}", "[knuth84, p. 3]; [a,b]"),
        (
            r"\url{http://a.b/c_d%20e} \href{http://x.y/#z}{a \emph{link}}",
            "http://a.b/c_d%20e [a link](<http://x.y/#z>)",
        ),
        (r"\verb|x_$y| and \verb*+a|b+ and \texttt{c}", "`x_$y` and `a|b` and c"),
        ("one\ntwo % three\nfour%\n  five%\n\nsix", "one two fourfive\n\nsix"),
        (r"50\% % gone", "50%"),
        (r"\textcolor{red}{words} \hspace{2cm}\vspace*{1em}here \index{gone}", "words here"),
        (r"a \iffalse hidden \ifx b \fi hidden \else shown \fi end", "a shown end"),
        ("\\begin{quote}One.\n\nTwo.\\end{quote}After.", "> One.\n\n> Two.\n\nAfter."),
        (r"\begin{comment} gone \section{x} \end{comment}kept", "kept"),
        (
            r"\newtheorem{thm}{Theorem}\begin{thm}All.\end{thm}\begin{proof}By it.\end{proof}",
            "Theorem. All.\n\nProof. By it.",
        ),
        (r"\section{A {B} \textit{C}}", "# A B C"),
        ("- no list\n\n1. none\n\n# no heading\n\n===", "\\- no list\n\n1\\. none\n\n\\# no heading\n\n\\==="),
    ],
)
def test_what_is_printed(source: str, expected: str) -> None:
    assert md(source) == expected


def test_lists_keep_their_nesting() -> None:
    source = r"""
\begin{itemize}
  \item First
  \item Second
  \begin{enumerate}
    \item inner
    \item[b)] own mark

    more of it
  \end{enumerate}
\end{itemize}
\begin{description}\item[Pump] lifts.\item[\emph{Foot}] stands.\end{description}
"""
    assert md(source) == (
        "- First\n- Second\n   1. inner\n   2. **b)** own mark\n\n      more of it\n\n"
        "- **Pump** lifts.\n- **Foot** stands."
    )


def test_formulas_keep_their_source_on_one_line() -> None:
    assert md(r"Let $x_i^2$ and \(y < 1\) be.") == "Let $x_i^2$ and $y < 1$ be."
    assert md("Then\n\\[ a\n= b % why\n+ c \\]\nholds.") == "Then\n\n$$a = b + c$$\n\nholds."
    assert (
        md("\\begin{align*}\na &= b \\\\\n- c\n\\end{align*}") == "$$\\begin{align*} a &= b \\\\ - c \\end{align*}$$"
    )
    assert md("costs $5 here\n\nand 6$ there") == "costs $5 here\n\nand 6$ there"


def test_what_does_not_belong_together_ends_nothing() -> None:
    assert md(r"\begin{quote}a \end{itemize} b } c\end{quote} d") == "> a b c\n\nd"
    assert md(r"{\begin{itemize}\item a {b \item c \end{itemize} d") == "- a b\n- c\n\nd"
    assert md(r"$a \$ b$ \$ c") == "$a \\$ b$ $ c"


def test_verbatim_text_is_never_read() -> None:
    source = "\\begin{lstlisting}[language=Python]\n# x\n\\section{nope} % stays\n\n``` y\n\\end{lstlisting}\nz"
    assert md(source) == "````python\n# x\n\\section{nope} % stays\n\n``` y\n````\n\nz"
    assert md("\\begin{verbatim}\nnever closed \\section{a}") == "```\nnever closed \\section{a}\n```"


def test_a_simple_table_is_a_table_with_its_caption() -> None:
    source = r"""\begin{table}[htbp]\centering
\caption{Sizes}\label{tab:s}
\begin{tabular}{@{}l|r@{}}
\toprule Name & \textbf{Value} \\ \midrule
a \& b & $|x|$ \\[2pt]
\multicolumn{2}{c}{wide} \\ \hline
last & \begin{tabular}{c} in \\ ner \end{tabular} \\
\end{tabular}\end{table}"""
    assert md(source) == (
        "**Table: Sizes**\n\n| Name | Value |\n| --- | --- |\n| a & b | $\\|x\\|$ |\n| wide |  |\n"
        "| last | in ner |\n\n[tab:s]"
    )
    text = md(source)
    document = Document(id="d", text=f"# T\n\n{text.removesuffix('[tab:s]')}")
    assert [chunk.kind for chunk in cut_sections(document, outline(document))] == ["table"]
    assert read_table(text, text.index("| Name"), text.index("\n\n[tab"))


def test_a_figure_is_a_picture_under_its_caption_and_one_column_or_very_many_are_paragraphs() -> None:
    source = r"\begin{figure}[t]\includegraphics[width=3cm]{img/p.png}\caption{The [pump]}\label{fig:p}\end{figure}"
    assert md(source) == "![The \\[pump\\] \\[fig:p\\]](<img/p.png>)"
    assert md(r"\begin{figure}Drawn here.\caption{It}\end{figure}") == "Drawn here.\n\nFigure: It"
    assert md(r"\begin{tabular}{l} a \\ b \end{tabular}") == "a\n\nb"
    many = " & ".join(f"c{number}" for number in range(100))
    assert md(rf"\begin{{tabular}}{{l}}{many}\end{{tabular}}") == many.replace(" &", "")


def test_macros_are_expanded_where_they_are_simple() -> None:
    source = r"""\newcommand{\pair}[2][one]{(#1, #2)}\def\tri#1#2#3{#3#2#1}\let\old\sys\newcommand\sys{Cat}
\pair{two} \pair[uno]{dos} \tri abc \sys{} \def\odd#1.{gone}\odd x.
\newcommand{\link}[1]{\href{http://a/#1}{#1}}\link{b}
\newenvironment{box}[1]{\begin{center}#1}{\end{center}}\begin{box}{kept}\end{box}
\renewcommand{\section}[1]{no}\section{Yes}
"""
    assert md(source) == "(one, two) (uno, dos) cba Cat x. [b](<http://a/b>)\n\nkept\n\n# Yes"


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
    assert {".tex", ".latex", ".ltx"} <= SUPPORTED_SUFFIXES
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
    with pytest.raises(ParseError) as caught:
        parse_bytes(source.encode(), "a.tex")
    assert caught.value.state == "empty"


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


# packages and classes


SLIDES = r"""\documentclass[aspectratio=169]{beamer}
\title{A talk}\subtitle{In short}\author[AO]{A. One}\institute{Somewhere}
\begin{document}
\begin{frame}\titlepage\end{frame}
\section{Pumps}
\begin{frame}<1->[fragile]{How they \emph{work}}{And why}
\begin{itemize}[<+->]
\item<1-> First \alert<2>{point}
\item Second, where 1 <2> holds
\end{itemize}
\begin{columns}[t]\begin{column}{0.5\textwidth}Left.\end{column}\begin{column}{0.5\textwidth}Right.\end{column}\end{columns}
\end{frame}
\begin{frame}
\frametitle<1>{Seals}
Text.
\end{frame}
\end{document}"""


def test_frames_are_sections_and_overlays_are_not_printed() -> None:
    assert md(SLIDES) == (
        "# A talk\n\nIn short\n\nA. One\n\nSomewhere\n\n## Pumps\n\n### How they work\n\nAnd why\n\n"
        "- First point\n- Second, where 1 <2> holds\n\nLeft.\n\nRight.\n\n### Seals\n\nText."
    )


def test_a_title_without_maketitle_stands_where_its_class_prints_it() -> None:
    source = (
        r"\documentclass{elsarticle}\begin{document}\begin{frontmatter}\title{Pumps}\author[1]{A. One}"
        r"\address[1]{Somewhere}\begin{abstract}Short.\end{abstract}\end{frontmatter}\section{Seals}x\end{document}"
    )
    assert md(source) == "# Pumps\n\nA. One\n\nSomewhere\n\n## Abstract\n\nShort.\n\n## Seals\n\nx"


@pytest.mark.parametrize(
    ("source", "printed"),
    [
        (
            r"\usepackage[english,ngerman]{babel}\begin{document}f\"ur f" + '"ur "`Ma"s"\' aus"=ge',
            "für für „Maß“ aus-ge",
        ),
        (r"\usepackage{german}\begin{document}" + '"Uber', "Über"),
        (r"\begin{document}" + 'a "quoted" word', 'a "quoted" word'),
        (r"\og mot \fg{} et \no 5", "« mot » et n° 5"),
        (r"\SI{5}{\milli\watt}, \qty[x=1]{3e8}{\metre\per\second\squared}, \si{kg.m}", "5 mW, 3e8 m/s², kg.m"),
        (r"\newcommand{\unit}[1]{(#1)}\unit{m}", "(m)"),
        (r"\strange{one}{two}{three} \textbf{a}b", "one two three ab"),
        (r"\strange{one} {two}", "one two"),
        (r"\lstinline{x = {1}} \lstinline[language=C]!int a{;!", "`x = {1}` `int a{;`"),
        (
            r"\begin{lstlisting}[language={[LaTeX]TeX}, caption={Of a pump}, shortcaption=no]" + "\nx\n"
            r"\end{lstlisting}",
            "Listing: Of a pump\n\n```tex\nx\n```",
        ),
        (
            r"\begin{tabular}{ll}a & b \\ \cmidrule(lr){1-2}\cmidrule[1pt](l{2pt}r{1pt}){1-1} c & d \\\end{tabular}",
            "| a | b |\n| --- | --- |\n| c | d |",
        ),
        (
            r"\begin{algorithmic}\Require $n$\ForAll{$i$}\State add\EndFor\IF{$a$}\STATE stop\ENDIF\end{algorithmic}",
            "Require: $n$\n\nfor all $i$\n\nadd\n\nif $a$\n\nstop",
        ),
    ],
)
def test_what_packages_print(source: str, printed: str) -> None:
    assert md(source) == printed


@pytest.mark.parametrize(
    "piece",
    [r"\caption{a ", r"\href{a}{b", r"\lstinline[", r"\author{a}\maketitle ", r"\begin{tabular}{l}a ", r"\footnote{"],
)
def test_what_is_nested_without_end_is_read_in_the_time_of_its_length(piece: str) -> None:
    printed = md(f"\\begin{{document}}{piece * 10_000} end\\end{{document}}")
    assert "end" in printed
    assert len(printed) < 20 * 10_000 * len(piece)

"""Which LaTeX commands and environments do what, as far as a reader sees it."""

from __future__ import annotations

from collections.abc import Mapping

RANKS: Mapping[str, int] = {
    name: rank
    for rank, name in enumerate(
        ("part", "chapter", "section", "subsection", "subsubsection", "paragraph", "subparagraph")
    )
}

DEFINITIONS = ("newcommand", "renewcommand", "providecommand", "def", "let")

FILES = frozenset({
    "input", "include", "subfile", "import", "subimport", "includepdf", "lstinputlisting", "verbatiminput",
    "bibliography", "addbibresource", "inputminted",
})  # fmt: skip
"""Commands that take another file in."""

LISTS: Mapping[str, bool] = {
    **dict.fromkeys(
        ("itemize", "description", "compactitem", "compactdesc", "list", "trivlist", "asparaitem"), False
    ),
    **dict.fromkeys(("enumerate", "compactenum", "asparaenum", "inparaenum"), True),
}
"""Environments that are lists, and whether they are numbered."""

QUOTES = frozenset({"quote", "quotation", "verse", "displayquote"})

# What stands after \begin{...}: m for an argument in braces, o for one in brackets; none of it is printed.
TABLES: Mapping[str, str] = {
    "tabular": "om",
    "tabularx": "mom",
    "tabulary": "mom",
    "longtable": "om",
    "supertabular": "m",
    "xltabular": "omm",
    "tblr": "om",
    "array": "om",
}
FLOATS: Mapping[str, str] = {
    "figure": "o",
    "wrapfigure": "omom",
    "sidewaysfigure": "o",
    "subfigure": "om",
    "table": "o",
    "wraptable": "omom",
    "sidewaystable": "o",
    "subtable": "om",
}
UNSEEN_OPTIONS: Mapping[str, str] = {
    "minipage": "ooom",
    "multicols": "mo",
    "adjustbox": "m",
    "spacing": "m",
    "algorithm": "o",
    "algorithmic": "o",
    "adjustwidth": "mm",
    "landscape": "",
    "otherlanguage": "m",
    "tcolorbox": "o",
    "mdframed": "o",
    "scope": "o",
    "column": "om",
    "columns": "o",
    "picture": "",
    "CJK": "mm",
}

FRONT = ("subtitle", "author", "affil", "affiliation", "institute", "address", "date")
"""What the title of a document is printed with, in this order."""

STATEMENTS: Mapping[str, str] = {
    **dict.fromkeys(("state", "statex", "endif", "endfor", "endwhile", "endloop", "endprocedure", "endfunction"), ""),
    **{"if": "if", "elsif": "else if", "else": "else", "for": "for", "forall": "for all", "while": "while"},
    **{"repeat": "repeat", "until": "until", "loop": "loop", "procedure": "procedure", "function": "function"},
    **{"require": "Require:", "ensure": "Ensure:"},
}
"""What begins a line of an algorithm, in small letters: packages differ in them."""

INVISIBLE: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("documentclass", "usepackage", "RequirePackage", "bibliographystyle", "pagestyle", "thispagestyle"),
            *("pagenumbering", "hypersetup", "geometry", "graphicspath", "selectlanguage", "setlist", "lstset"),
            *("hspace", "vspace", "phantom", "hphantom", "vphantom", "index", "glossary", "color", "linespread"),
            *("newcounter", "stepcounter", "refstepcounter", "newlength", "newif", "newsavebox", "hyphenation"),
            *("usetikzlibrary", "captionsetup", "theoremstyle", "rowcolor", "cellcolor", "columncolor", "cline"),
            *("nocite", "includeonly", "bibliographyunit", "pagecolor", "markright", "enlargethispage", "vskip"),
            *("rowcolors", "label@", "hyperlink@", "specialrule", "arrayrulecolor", "addlinespace"),
        ),
        "om",
    ),
    **dict.fromkeys(("setlength", "addtolength", "setcounter", "addtocounter", "fontsize", "settowidth"), "mm"),
    **dict.fromkeys(("definecolor", "addcontentsline", "DeclareMathOperator", "DeclarePairedDelimiter"), "mmm"),
    **dict.fromkeys(("textcolor", "colorbox", "scalebox", "rotatebox", "foreignlanguage", "raisebox"), "om"),
    **dict.fromkeys(("resizebox", "multirow", "rule"), "omm"),
    **dict.fromkeys(("parbox",), "ooom"),
    **dict.fromkeys(("makebox", "framebox"), "oo"),
    **dict.fromkeys(("hyperref", "footnotemark", "marginpar", "pagebreak", "nopagebreak"), "o"),
    **dict.fromkeys(("hypertarget", "hyperlink"), "m"),
    "DeclareMathOperator": "mm",
    "markboth": "mm",
    "addlinespace": "o",
}
"""Commands whose arguments, as far as they are named here (m in braces, o in brackets), nobody sees."""

"""List the LaTeX commands and environments that are known, and print their symbols, accents and units."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pylatexenc.latex2text import LatexNodes2Text, get_default_latex_context_db

from catena.parsing.latex_tokens import Token, names


def _table(pairs: str) -> dict[str, str]:
    """Read a table from pairs as in "name=value other=value"."""
    return dict(pair.split("=", 1) for pair in pairs.split())


def _all(value: str, listed: str) -> dict[str, str]:
    """Give the same value to each of the listed names."""
    return dict.fromkeys(listed.split(), value)


RANKS = {
    name: rank
    for rank, name in enumerate(names("part chapter section subsection subsubsection paragraph subparagraph"))
}

DEFINITIONS = ("newcommand", "renewcommand", "providecommand", "def", "let")

FILES = frozenset(
    names(
        "input include subfile import subimport includepdf lstinputlisting verbatiminput bibliography "
        "addbibresource inputminted"
    )
)
"""Commands that take another file in."""

LISTS = {
    **dict.fromkeys(names("itemize description compactitem compactdesc list trivlist asparaitem"), False),
    **dict.fromkeys(names("enumerate compactenum asparaenum inparaenum"), True),
}
"""Environments that are lists, and whether they are numbered."""

QUOTES = frozenset({"quote", "quotation", "verse", "displayquote"})

# The arguments behind \begin{...}, of which none is printed: m for one in braces, o for one in brackets.
TABLES = _table("tabular=om tabularx=mom tabulary=mom longtable=om supertabular=m xltabular=omm tblr=om array=om")
FLOATS = _table(
    "figure=o wrapfigure=omom sidewaysfigure=o subfigure=om table=o wraptable=omom sidewaystable=o subtable=om"
)
UNSEEN_OPTIONS = _table(
    "minipage=ooom multicols=mo adjustbox=m spacing=m algorithm=o algorithmic=o adjustwidth=mm landscape= "
    "otherlanguage=m tcolorbox=o mdframed=o scope=o column=om columns=o picture= CJK=mm"
)

FRONT = ("subtitle", "author", "affil", "affiliation", "institute", "address", "date")
"""What the title of a document is printed with, in this order."""

STATEMENTS = {
    **_all("", "state statex endif endfor endwhile endloop endprocedure endfunction"),
    **_table(
        "if=if else=else for=for while=while repeat=repeat until=until loop=loop procedure=procedure "
        "function=function require=Require: ensure=Ensure:"
    ),
    **{"elsif": "else if", "forall": "for all"},
}
"""What begins a line of an algorithm, in small letters: packages differ in them."""

INVISIBLE = {
    **_all(
        "om",
        "documentclass usepackage RequirePackage bibliographystyle pagestyle thispagestyle pagenumbering hypersetup "
        "geometry graphicspath selectlanguage setlist lstset hspace vspace phantom hphantom vphantom index glossary "
        "color linespread newcounter stepcounter refstepcounter newlength newif newsavebox hyphenation "
        "usetikzlibrary captionsetup theoremstyle rowcolor cellcolor columncolor cline nocite includeonly "
        "bibliographyunit pagecolor markright enlargethispage vskip rowcolors label@ hyperlink@ specialrule "
        "arrayrulecolor textcolor colorbox scalebox rotatebox foreignlanguage raisebox",
    ),
    **_all("o", "addlinespace hyperref footnotemark marginpar pagebreak nopagebreak"),
    **_all("mm", "setlength addtolength setcounter addtocounter fontsize settowidth DeclareMathOperator markboth"),
    **_all("mmm", "definecolor addcontentsline DeclarePairedDelimiter"),
    **_all("omm", "resizebox multirow rule"),
    **_all("ooom", "parbox"),
    **_all("oo", "makebox framebox"),
    **_all("m", "hypertarget hyperlink"),
}
"""Commands that print none of the arguments that are listed here (m in braces, o in brackets)."""

ACCENTS = frozenset("'`^\"~=.cvuHkrbdt")  # names of commands that put a mark on the next letter

_SYMBOLS = _table(
    "LaTeX=LaTeX TeX=TeX LaTeXe=LaTeX2e BibTeX=BibTeX copyright=© S=§ P=¶ pounds=£ euro=€ %=% /= -= today= "
    "glqq=„ grqq=“ glq=‚ grq=‘ flqq=« frqq=» textregistered=® texttrademark=™ slash=/ textasciitilde=~ "
    "textasciicircum=^ @= textbackslash=\\ textless=< langle=⟨ textellipsis=… dots=…"
) | {">": " ", "quad": " ", "qquad": " ", "og": "« ", "fg": " »", "no": "n° ", "and": ", "}
_SYMBOLS |= {"newline": " ", "linebreak": " ", "space": " "}
DOTLESS = {"i": "i", "j": "j"}  # letters that bear an accent instead of their dot
_TYPOGRAPHY = (("---", "—"), ("--", "–"), ("``", "“"), ("''", "”"), ("?`", "¿"), ("!`", "¡"), ("`", "‘"), ("'", "’"))
_ANY = re.compile("|".join(re.escape(mark) for mark, _ in _TYPOGRAPHY))
_PRINTED = dict(_TYPOGRAPHY)
_SHORTHANDS = {
    **_table('"a=ä "o=ö "u=ü "A=Ä "O=Ö "U=Ü "s=ß "z=ß "S=SS "Z=SZ "`=„ "\'=“ "<=« ">=» "~=- "-= ""= "|= "/=/'),
    '"=': "-",
}
_SHORTHAND = re.compile("|".join(map(re.escape, _SHORTHANDS)))


def german(words: str) -> str:
    """Return words with the shorthands of German sources as they are printed: f"ur is für."""
    return _SHORTHAND.sub(lambda match: _SHORTHANDS[match.group()], words)


def typeset(words: str) -> str:
    """Return words with dashes and quotation marks as they are printed."""
    return _ANY.sub(lambda match: _PRINTED[match.group()], words)


@lru_cache(maxsize=4096)
def symbol(name: str) -> str | None:
    """Return the character that a command prints, or None where it is no such command."""
    if name in _SYMBOLS:
        return _SYMBOLS[name]
    spec = _database().get_macro_spec(name)
    printed = getattr(spec, "simplify_repl", None)
    return printed if isinstance(printed, str) and "%" not in printed and printed[:1] != "<" else None


@lru_cache(maxsize=4096)
def accented(mark: str, letters: str) -> str:
    """Return letters of which the first bears an accent: e with ' is é."""
    first, rest = letters[:1], letters[1:]
    printed = _to_text().latex_to_text(f"\\{mark}{{{first}}}") if first.isalpha() else first
    return unicodedata.normalize("NFC", printed) + rest


@lru_cache(maxsize=1)
def _database() -> Any:
    return get_default_latex_context_db()


@lru_cache(maxsize=1)
def _to_text() -> LatexNodes2Text:
    return LatexNodes2Text()


_UNITS = _table(
    "pico=p nano=n micro=µ milli=m centi=c deci=d hecto=h kilo=k mega=M giga=G tera=T kibi=Ki mebi=Mi gibi=Gi "
    "tebi=Ti metre=m meter=m gram=g kilogram=kg second=s ampere=A kelvin=K mole=mol candela=cd hertz=Hz "
    "newton=N pascal=Pa joule=J watt=W coulomb=C volt=V farad=F ohm=Ω siemens=S weber=Wb tesla=T henry=H "
    "lumen=lm lux=lx becquerel=Bq gray=Gy sievert=Sv litre=L liter=L minute=min hour=h day=d degree=° "
    "arcminute=′ arcsecond=″ celsius=°C degreeCelsius=°C percent=% bar=bar tonne=t hectare=ha electronvolt=eV "
    "decibel=dB bit=bit byte=B radian=rad angstrom=Å"
)
_PREFIXES = frozenset(list(_UNITS)[:15])
_POWERS = {"squared": "²", "cubed": "³"}


def unit(tokens: Sequence[Token]) -> str:
    r"""Return a unit as it is printed, with "·" between its parts and "/" before those behind \per.

    Of a command that is no unit known here, the name is printed.
    """
    printed, between = "", ""
    for token in tokens:
        if token.kind not in {"command", "text"}:
            continue
        name = token.text.rstrip("*") if token.kind == "command" else ""
        if name == "per":
            between = "/"
        elif name in _POWERS:
            printed += _POWERS[name]
        else:
            printed += (between if printed or between == "/" else "") + (_UNITS.get(name, name) or token.text)
            between = "" if name in _PREFIXES or not name else "·"
    return printed

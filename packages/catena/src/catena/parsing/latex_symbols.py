"""What LaTeX commands for single characters, accents and typographic marks print."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Any

from pylatexenc.latex2text import (
    LatexNodes2Text,
    get_default_latex_context_db,
)

ACCENTS = frozenset("'`^\"~=.cvuHkrbdt")  # names of commands that put a mark on the next letter

_MORE = {
    **{"LaTeX": "LaTeX", "TeX": "TeX", "LaTeXe": "LaTeX2e", "BibTeX": "BibTeX", "copyright": "©", "S": "§", "P": "¶"},
    **{"pounds": "£", "euro": "€", "%": "%", "/": "", "-": "", "today": "", "glqq": "„", "grqq": "“", "glq": "‚"},
    **{"grq": "‘", "flqq": "«", "frqq": "»", "textregistered": "®", "texttrademark": "™", "slash": "/", ">": " "},
    **{"textasciitilde": "~", "textasciicircum": "^", "quad": " ", "qquad": " ", "@": "", "textbackslash": "\\"},
    **{"textless": "<", "langle": "⟨", "og": "« ", "fg": " »", "no": "n° "},
    **{"newline": " ", "linebreak": " ", "and": ", ", "textellipsis": "…", "dots": "…", "space": " "},
}
_DOTLESS = {"i": "i", "j": "j"}
_TYPOGRAPHY = (("---", "—"), ("--", "–"), ("``", "“"), ("''", "”"), ("?`", "¿"), ("!`", "¡"), ("`", "‘"), ("'", "’"))
_ANY = re.compile("|".join(re.escape(mark) for mark, _ in _TYPOGRAPHY))
_PRINTED = dict(_TYPOGRAPHY)


_SHORTHANDS = {
    **{
        '"a': "ä",
        '"o': "ö",
        '"u': "ü",
        '"A': "Ä",
        '"O': "Ö",
        '"U': "Ü",
        '"s': "ß",
        '"z': "ß",
        '"S': "SS",
        '"Z': "SZ",
    },
    **{'"`': "„", "\"'": "“", '"<': "«", '">': "»", '"=': "-", '"~': "-", '"-': "", '""': "", '"|': "", '"/': "/"},
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
    if name in _MORE:
        return _MORE[name]
    spec = _database().get_macro_spec(name)
    printed = getattr(spec, "simplify_repl", None)
    return printed if isinstance(printed, str) and "%" not in printed and printed[:1] != "<" else None


@lru_cache(maxsize=4096)
def accented(mark: str, letters: str) -> str:
    """Return letters of which the first bears an accent: e with ' is é."""
    first, rest = letters[:1], letters[1:]
    printed = _to_text().latex_to_text(f"\\{mark}{{{first}}}") if first.isalpha() else first
    return unicodedata.normalize("NFC", printed) + rest


def dotless(name: str) -> str | None:
    r"""Return the letter of \i and \j, on which accents stand."""
    return _DOTLESS.get(name)


@lru_cache(maxsize=1)
def _database() -> Any:
    return get_default_latex_context_db()


@lru_cache(maxsize=1)
def _to_text() -> LatexNodes2Text:
    return LatexNodes2Text()

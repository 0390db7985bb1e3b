"""Words as the lexical route counts them, and critical terms as the keyword route compares them.

Both work for any language: no stop list, no stemmer, no dictionary. Letters are compared after NFKC and
case folding, so that "ﬁ", "ＡＢＣ" and "STRASSE" meet "fi", "abc" and "straße".
"""

from __future__ import annotations

import re
import unicodedata

# Scripts written without spaces between words: Thai, Lao, Myanmar, Khmer, kana, bopomofo, Han.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3031-\u3035\u3041-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Combining marks of spaced scripts, which `\w` leaves out although they are inside words.
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06ed\u0711\u0730-\u074a\u07a6-\u07b0\u0900-\u0963\u0971-\u0dff\u0f18-\u0fbc\u1a00-\u1aff\u1dc0-\u1dff"
)
_LETTER = rf"(?:(?![{UNSPACED}])[^\W_]|[{_MARKS}])"
_WORDS = re.compile(
    rf"(?P<unspaced>[{UNSPACED}]+)|(?P<number>\d+(?:[.,]\d+)+(?!\w))|(?P<word>{_LETTER}+(?:_+{_LETTER}+)*)"
)
# The same in less time, for folded texts in which the last of these finds nothing, and for those of ASCII alone.
_SPACED_WORDS = re.compile(r"\d+(?:[.,]\d+)+(?!\w)|[^\W_]+(?:_+[^\W_]+)*")
_ASCII_WORDS = re.compile(
    r"[a-z][a-z0-9]*+(?:_+[a-z0-9]+)*|[0-9]+(?:[.,][0-9]+)+(?!\w)|[0-9][a-z0-9]*+(?:_+[a-z0-9]+)*", re.ASCII
)
_UNSPACED_OR_MARK = re.compile(f"[{UNSPACED}{_MARKS}]")
_UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}]")

_DASHES = dict.fromkeys(map(ord, "-_\u2010\u2011\u2012\u2013\u2014\u2015\u2212"), " ")
_QUOTES = dict.fromkeys(map(ord, "\u2018\u2019\u02bc"), "'") | dict.fromkeys(map(ord, "\u201c\u201d"), '"')
_SEPARATORS = _DASHES | _QUOTES | dict.fromkeys(range(0xD800, 0xE000), "\ufffd")  # a lone surrogate has no bytes
_KEY = 6  # characters
_EDGES = " .,;:!?\"'`*|()[]{}<>«»\u3001\u3002\u300c\u300d\uff1a"


def folded(text: str) -> str:
    """Return the text in NFKC with case folded: equal for spellings that differ in case or width only."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def tokenise(text: str) -> list[str]:
    """Return the words of the text, folded, in order, repetitions kept.

    A word is a run of letters and digits, underscores inside it included ("STM32F103R4" and "f_cpu" are
    one each, as in Unicode's UAX #29); a number with its decimal part is one ("3.3-V" is "3.3" and "v").
    A run of a script without spaces gives each character and each pair of neighbours: a question of one
    character finds something, and pairs rank what is alike.
    """
    text = folded(text)
    if text.isascii():
        return _ASCII_WORDS.findall(text)
    if not _UNSPACED_OR_MARK.search(text):
        return _SPACED_WORDS.findall(text)
    words: list[str] = []
    for match in _WORDS.finditer(text):
        run = match.group()
        words.append(run) if match.lastgroup != "unspaced" else words.extend(_singles_and_pairs(run))
    return words


def _singles_and_pairs(run: str) -> list[str]:
    return [*run, *(run[i : i + 2] for i in range(len(run) - 1))]


def word_keys(text: str) -> list[str]:
    """Return the words of the text as the graph counts them, in order, repetitions kept.

    Words of more than six characters are cut to six, so that most forms of a word are one, in any language that
    inflects at the end of words.

    Source: truncation as a stemmer: McNamee and Mayfield, Information Retrieval 7, 2004.
    """
    return [word[:_KEY] for word in tokenise(text)]


def word_key(word: str) -> str:
    """Return one word of `tokenise` as the graph counts it."""
    return word[:_KEY]


def same_words(one: str, other: str) -> bool:
    """Return whether two titles differ in case, punctuation and spacing at most."""
    return tokenise(one) == tokenise(other)


def normalise_query(text: str) -> str:
    """Return the text in the form in which critical terms are looked for in it.

    Folded; hyphens, underscores and white space of any length become one space, because people write
    "ESP32-C6", "ESP32_C6" and "ESP32 C6" for one thing. All other punctuation stays: it is part of codes
    ("ATmega168P/PA", "C++", "3.5").
    """
    if text.isascii():
        return " ".join(text.lower().replace("-", " ").replace("_", " ").split())
    return " ".join(folded(text).translate(_SEPARATORS).split())


def normalise_term(text: str) -> str:
    """Return a critical term in the only form that is stored and compared; "" when nothing is left.

    As `normalise_query`, without brackets, quotes and full stops at either end. Not unified: "HX-200" is
    "hx 200" and "HX200" is "hx200"; where both spellings are in use, both are terms.
    """
    return normalise_query(text).strip(_EDGES)


def is_border(text: str, position: int) -> bool:
    """Return whether a term may begin or end at `position` of a text from `normalise_query`.

    Borders lie at both ends of the text and beside any character that is not part of a word, except inside
    a decimal number ("3|.5") and before a closing run of "+" or "#" ("c|++"): there the longer thing is a
    different thing. Scripts without spaces have a border everywhere.
    """
    if position <= 0 or position >= len(text):
        return True
    before, after = text[position - 1], text[position]
    if before.isalnum() and after.isalnum():
        return bool(_UNSPACED_CHARACTER.match(before) or _UNSPACED_CHARACTER.match(after))
    if after in "+#" and (before.isalnum() or before in "+#"):
        rest = text[position:].lstrip("+#")
        return bool(rest) and rest[0].isalnum()
    if after in ".," and before.isdigit():
        return not text[position + 1 : position + 2].isdigit()
    if before in ".," and after.isdigit():
        return not text[max(0, position - 2) : position - 1].isdigit()
    return True

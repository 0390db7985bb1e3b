"""Divide texts into words, tokens and sentences, sequences into runs, and bring critical terms into one form.

It works in any language: no stop list, no stemmer, no dictionary. Letters are compared after NFKC and
case folding, so that "ﬁ", "ＡＢＣ" and "STRASSE" meet "fi", "abc" and "straße".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

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

RAISED = "⁰¹²³⁴-⁹⁺⁻"
"""Digits and signs as they stand in exponents and marks of notes, as a regex class."""

_TO_RAISED = str.maketrans("0123456789+-−–", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")
_RAISABLE = re.compile(r"[-+−–]?\d{1,4}(?:, ?\d{1,3})*[-+−–]?|[-+−–]")
_RAISED_RUN = re.compile(f"[{RAISED}]++")
_SHORT_WORD = re.compile(r"(?<![^\W\d_])[^\W\d_]{1,2}\Z")  # as units are: m², km³
_EDGES = " .,;:!?\"'`*|()[]{}<>«»\u3001\u3002\u300c\u300d\uff1a"


# A character of a script without spaces, a number with its sign, a word with its apostrophes: what a copy must keep.
PRINTED_WORD = (
    rf"(?P<unspaced>[{UNSPACED}])"
    r"|(?P<number>(?:(?<![\w)\]%°.,])[-+])?(?:(?<![\w.,])[.,])?\d+(?:[.,:']\d+)*)"
    rf"|(?P<word>[^\W\d_{UNSPACED}](?:[^\W_{UNSPACED}]|(?<=[^\W_])['_]+(?=[^\W_]))*)"
)
_NEGATIONS = frozenset((
    "not", "no", "never", "without", "neither", "nor", "cannot", "none", "nothing", "nicht", "kein", "keine",
    "keinen", "keiner", "keinem", "keines", "nie", "niemals", "ohne", "weder", "ne", "pas", "jamais", "sans", "aucun",
    "aucune", "non", "mai", "senza", "nunca", "sin", "ningún", "ninguna", "não", "nem", "sem", "не", "нет", "без",
    "никогда", "不", "没", "無", "无", "未", "勿", "禁",
))  # fmt: skip


def negates(word: str) -> bool:
    """Return whether a word in small letters is "not" or its like."""
    return word in _NEGATIONS or word.endswith("n't")


def folded(text: str) -> str:
    """Return the text in NFKC with case folded: equal for spellings that differ in case or width only.

    Raised digits are a word of their own, unless they stand behind a short word: "Net³" is "net 3", "m³" is "m3".
    """
    if text.isascii():
        return text.lower()
    text = _RAISED_RUN.sub(_apart, text)
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def raised(text: str) -> str:
    """Return a raised number, or sign, in raised digits, which no number beside it takes up; others as given."""
    return text.strip().translate(_TO_RAISED) if _RAISABLE.fullmatch(text.strip()) else text


def _apart(run: re.Match[str]) -> str:
    """Return raised digits as they are behind a unit, else as a word of their own, for they are a note's mark."""
    before = run.string[max(0, run.start() - 3) : run.start()]
    return run[0] if _SHORT_WORD.search(before) else f" {run[0]} "


def numbers_of(written: str) -> tuple[float, ...]:
    """Return the numbers that a spelling may mean: "1,200" is 1200 or 1.2, "1,20" and "1.234,5" are certain."""
    text = re.sub(r"[\s'’]", "", written)
    marks = re.findall(r"[.,]", text)
    if not marks:
        return (float(text),)
    last = marks[-1]
    whole, _, after = text.rpartition(last)
    if len(set(marks)) > 1:
        return (float(re.sub(r"[.,]", "", whole) + "." + after),)
    if len(marks) > 1:
        return (float(text.replace(last, "")),)
    decimal = float(f"{whole}.{after}")
    grouped = len(after) == 3 and 0 < len(whole) <= 3 and not whole.startswith("0")
    return (decimal, float(whole + after)) if grouped else (decimal,)


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
        if match.lastgroup == "unspaced":
            words += [*run, *(run[i : i + 2] for i in range(len(run) - 1))]
        else:
            words.append(run)
    return words


def is_unspaced(word: str) -> bool:
    """Return whether a word of `tokenise` is of a script without spaces: one character, or a pair of neighbours."""
    return bool(_UNSPACED_CHARACTER.match(word))


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


def common_beginning(one: str, other: str) -> int:
    """Return the number of characters with which both begin."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


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


CJK = (
    "\u1100-\u11ff\u2e80-\u303f\u3040-\u30ff\u3100-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f"
    "\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
"""Scripts written without spaces, each character about one token, as a regex class."""

_CHARACTERS_PER_TOKEN = 6  # of a word: ordinary words are one token, long or coded ones several

_CJK = re.compile(f"[{CJK}]")
_FOREIGN = re.compile(r"[^\x00-\x7f]+")
_MARK_BYTES = bytes(code for code in range(128) if not chr(code).isalnum() and not chr(code).isspace())
_NOT_ALNUM = bytes(code for code in range(128) if not chr(code).isalnum())
_SPACED = bytes(code if chr(code).isalnum() else ord(" ") for code in range(256))


class _AsciiTwins(dict[int, str]):
    """Map each other character to a letter, a mark (CJK characters too) or a space, for counting."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        twin = "a" if character.isalnum() and not _CJK.match(character) else "#"
        self[code] = " " if character.isspace() else twin
        return self[code]


_TWINS = _AsciiTwins()


def count_tokens(text: str) -> int:
    """Return the approximate number of subword tokens of the text.

    `tokens = marks + max(words, ceil(characters of words / 6))`, where a word is a run of letters and digits,
    and every other character but white space is a mark; so is each character of the CJK scripts, which
    are written without spaces. It is subadditive: two texts joined never count more than their sum.

    Args:
        text: any text.

    Returns:
        A number >= 0; 0 only for white space.
    """
    raw = (text if text.isascii() else _FOREIGN.sub(lambda run: run[0].translate(_TWINS), text)).encode()
    words = len(raw.translate(_SPACED).split())
    letters = len(raw.translate(None, _NOT_ALNUM))
    marks = len(raw) - len(raw.translate(None, _MARK_BYTES))
    return marks + max(words, -(-letters // _CHARACTERS_PER_TOKEN))


# a run of marks is tried once, at its first: else a line of dots takes quadratic time
_END = re.compile(r"(?<![.!?])[.!?]++[\"'”’»)\]*_]*(?=\s)|[。！？；…．]+[”’」』）】]*|(?<![؟۔।])[؟۔।]++(?=\s)")
_WORD_BEFORE = re.compile(r"[\w.]{1,12}\Z")
_ABBREVIATION = re.compile(
    r"al|approx|art|bzw|ca|cf|chs?|co|corp|dept|dr|e\.g|eg|eqs?|etc|exs?|figs?|i\.e|ie|inc|jr|ltd|max|min|mr|mrs|ms|"
    r"nos?|pp?|prof|refs?|resp|secs?|sr|st|tab|u\.s|usw|vol|vs|z\.b"
)


def sentence_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Yield where sentences of [start, end) end, white space after them included, the last one excluded.

    A full stop ends no sentence after a known abbreviation, an initial ("J.") or a bare number at the
    start of its line ("3."), nor before a lower-case letter. CJK marks end one without a space.

    Args:
        text: the whole text; the offsets refer to it.
        start: first character looked at.
        end: one after the last.

    Yields:
        Ascending offsets strictly between start and end.
    """
    for match in _END.finditer(text, start, end):
        after = match.end()
        while after < end and text[after].isspace():
            after += 1
        if after < end and not (match.group()[0] == "." and _is_no_stop(text, start, match.start(), after)):
            yield after


def _is_no_stop(text: str, start: int, stop: int, after: int) -> bool:
    if text[after].islower():
        return True
    found = _WORD_BEFORE.search(text, max(start, stop - 12), stop)
    word = found.group().lower() if found else ""
    line_begins = found is not None and text[max(start, stop - 24) : found.start()].rpartition("\n")[2].strip() == ""
    is_initial, is_ordinal = len(word) == 1 and word.isalpha(), word.isdigit() and line_begins
    return bool(_ABBREVIATION.fullmatch(word)) or is_initial or is_ordinal


def runs_of(items: Iterable[T], joins: Callable[[T, T], bool]) -> Iterator[list[T]]:
    """Yield runs of items, in order: each item of a run but the first joins the one before it.

    Args:
        items: any.
        joins: tells of an item and the next one whether that goes on with it.
    """
    run: list[T] = []
    for item in items:
        if run and not joins(run[-1], item):
            yield run
            run = []
        run.append(item)
    if run:
        yield run

"""Decode bytes: find their encoding, and say whether it is known or a guess."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter
from itertools import pairwise
from math import inf
from typing import NamedTuple

LEAST = 0.8  # score of a reading below which its encoding is a guess
MARGIN = 0.02  # a reading whose score is nearer than this to the best one may as well be the right one
SHORT = 1_000  # bytes of a text that looks like chaos to the detector where it has signs like "±" and "°"
SAMPLE = 60_000  # bytes that are judged
# letters beyond ASCII from which on the readings of another encoding with several bytes a letter do not count
SURE = 25
REPAIRED = 10  # characters beyond ASCII for each byte that is no UTF-8, from which on it is UTF-8 that was damaged

# The encodings of the web and of older systems, the commoner first: of equal readings the first one is taken.
_KNOWN = (
    "cp1252", "cp932", "gb18030", "big5", "cp949", "euc_jp", "cp1251", "koi8_r", "cp1250", "cp1253", "cp1254",
    "cp1255", "cp1256", "cp1257", "cp1258", "iso8859_2", "iso8859_5", "iso8859_7", "iso8859_15", "koi8_u", "cp866",
    "mac_roman", "cp850", "cp437", "cp852", "mac_cyrillic", "cp874", "cp037", "cp500", "cp273",
)  # fmt: skip
_MANY_BYTES = ("cp932", "gb18030", "big5", "cp949", "euc_jp")
# Encodings of seven bits, as ASCII has: by what no plain text holds, and by what one may hold, too.
_SEVEN_BITS = (("iso2022_kr", "\x1b$)C", True), ("iso2022_jp", "\x1b$", True), ("hz", "~{", False))
_NAMES = {"iso2022_jp": "iso-2022-jp", "iso2022_kr": "iso-2022-kr", "cp932": "shift_jis"} | {
    f"cp125{digit}": f"windows-125{digit}" for digit in range(9)
}
_MARKS = frozenset("°±×÷µ§©®²³¹½¼¾ªº·\u00a0\u00ad")  # signs of every language, some of which count as letters
_SIGNS = frozenset({"Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sm"})  # not So: boxes of a wrong code page
_WORD = re.compile(r"\w++")
_BYTE_ORDER = (  # UTF-32 before UTF-16, whose mark it begins with
    (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"),
)  # fmt: skip


class Decoded(NamedTuple):
    """A text, the name of its encoding, and in words why that is not sure ("" where it is)."""

    text: str
    encoding: str
    doubt: str = ""


def marked(data: bytes) -> tuple[str, bytes] | None:
    """Return the encoding that the first bytes say, and the bytes after its mark; None where nothing says one.

    UTF-16 without a mark is known by its zero bytes.
    """
    for mark, name in _BYTE_ORDER:
        if data.startswith(mark):
            return name, data[len(mark) :]
    head = data[:4096]
    even, odd = head[::2].count(0), head[1::2].count(0)
    if len(data) % 2 or min(even, odd) or 5 * max(even, odd) <= len(head):
        return None
    return "utf-16-le" if odd else "utf-16-be", data


def decoded(data: bytes, stated: str = "") -> Decoded:
    """Return bytes without a mark as text: UTF-8 where they are, else as stated, else as their letters say.

    Args:
        data: the bytes.
        stated: an encoding that the text itself names, as web pages do; one that is unknown or does not fit is
            passed over.

    Source: the candidates are those of charset-normalizer; they are weighed by `_score`.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return _as_stated(data, stated) or _damaged(data) or _guessed(data)
    return _seven_bits(data, text) or Decoded(text, "utf-8")


def _seven_bits(data: bytes, text: str) -> Decoded | None:
    """Return bytes that might be ASCII decoded by an encoding of seven bits; None where they are of none."""
    for name, mark, is_sure in _SEVEN_BITS:
        if mark in text and (found := _decodes(data, name)) and not found.isascii():
            return Decoded(found, _told(name), "" if is_sure else f"its encoding is a guess: {_told(name)}")
    return None


def is_visible(text: str) -> bool:
    """Return whether a reader sees anything of a text: a letter, a number, a sign or punctuation.

    White space, control codes, marks of direction, soft hyphens and accents without a letter are nothing to see.
    """
    return any(unicodedata.category(each)[0] in "LNPS" and each not in _BLANK for each in set(text))


# letters and signs without ink; what replaces broken bytes
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800\ufffd")


def _as_stated(data: bytes, stated: str) -> Decoded | None:
    try:
        name = codecs.lookup(stated).name if stated else "utf-8"
        if name == "utf-8":
            return None
        if name in {"ascii", "iso8859-1"}:  # as browsers take these two
            return Decoded(data.decode("cp1252"), "windows-1252")
        return Decoded(str(data.decode(name)), name)
    except (LookupError, ValueError):  # an unknown name, or bytes that do not fit it
        return None


def _damaged(data: bytes) -> Decoded | None:
    """Return the text of bytes that are UTF-8 but for few bytes, or but for a cut end; None where they are not."""
    text = data.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    whole = sum(not each.isascii() for each in text) - broken
    is_cut = whole > 0 and broken == 1 and text.endswith("\ufffd")
    if whole < REPAIRED * broken and not is_cut:
        return None
    places = "1 place is" if broken == 1 else f"{broken} places are"
    return Decoded(text, "utf-8", f"{places} not UTF-8, and shown as \ufffd")


def _guessed(data: bytes) -> Decoded:
    readings: dict[str, float] = {}
    for sample in _samples(data):
        readings |= _readings(sample)
    ranked = sorted(readings, key=lambda name: (-readings[name], _KNOWN.index(name)))
    for name, second in pairwise([*ranked, ""]):
        if text := _decodes(data, name):
            is_near = readings[name] - readings.get(second, -inf) < MARGIN
            rival = second if is_near else _also_read(data, text, name)
            return Decoded(text, _told(name), _doubt(name, readings[name], rival))
    return Decoded(data.decode("latin-1"), "latin-1", _doubt("latin-1", 0.0, ""))


def _readings(sample: bytes) -> dict[str, float]:
    """Return the encodings that give different texts, each with its score."""
    from charset_normalizer import from_bytes

    found: dict[str, float] = {}
    for match in from_bytes(sample, cp_isolation=list(_KNOWN)):
        name = next((known for known in _KNOWN if known in match.could_be_from_charset), match.encoding)
        many_bytes = match.multi_byte_usage > 0.1  # such letters are too many to be called usual
        found[name] = 1 - 2 * match.chaos if many_bytes else _score(str(match)) * (1 - match.chaos)
    if len(sample) < SHORT and "cp1252" not in found and (text := _decodes(sample, "cp1252")):
        found["cp1252"] = _score(text)
    return found


def _also_read(data: bytes, text: str, name: str) -> str:
    """Return another encoding of several bytes a letter that a short text in one fits as well, "" where none does."""
    if name not in _MANY_BYTES or sum(not each.isascii() for each in text) >= SURE:
        return ""
    return next((each for each in _MANY_BYTES if _decodes(data, each) not in ("", text)), "")


def _told(name: str) -> str:
    return _NAMES.get(name, name)


def _doubt(name: str, score: float, rival: str) -> str:
    if score >= LEAST and not rival:
        return ""
    beside = f"; {_told(rival)} would do as well" if rival else ""
    return f"its encoding is a guess: {_told(name)}, confidence {score:.2f}{beside}"


def _decodes(data: bytes, name: str) -> str:
    try:
        return data.decode(name)
    except UnicodeDecodeError:
        return ""


def _samples(data: bytes) -> tuple[bytes, ...]:
    """Return the data; of much, lines with bytes beyond ASCII, which alone tell encodings apart.

    A line that is too long is cut, perhaps within a letter, so that it is given cut at four places.
    """
    if len(data) <= SAMPLE:
        return (data,)
    parts: list[bytes] = []
    room = SAMPLE
    for line in data.splitlines(keepends=True):
        if line.isascii():
            continue
        plain = len(line) - len(line.lstrip(bytes(range(128))))
        part = line[max(plain - 200, 0) :]
        if len(part) > room:
            if parts:
                break
            return tuple(part[: room - cut] for cut in range(4))
        parts.append(part)
        room -= len(part)
    return (b"".join(parts),)


def _score(text: str) -> float:
    """Return how much of what is not ASCII a language explains, from 0 to 1.

    Counted are the letters of words that have one beyond ASCII, as far as they are usual in the one language that has
    most of them (a wrong reading mixes alphabets within words), and signs, as far as they are common ones.
    """
    from charset_normalizer.constant import FREQUENCIES

    signs = [each for each in text if not each.isascii() and (each in _MARKS or not each.isalpha())]
    usual = sum(each in _MARKS or unicodedata.category(each) in _SIGNS for each in signs)
    words = (word for word in _WORD.findall(text.translate(_WITHOUT_MARKS)) if not word.isascii())
    letters = Counter(each for word in words for each in word.lower() if each.isalpha())
    explained = max(sum(letters[each] for each in set(language)) for language in FREQUENCIES.values())
    whole = len(signs) + sum(letters.values())
    return (usual + explained) / whole if whole else 1.0


_WITHOUT_MARKS = dict.fromkeys(map(ord, _MARKS), " ")

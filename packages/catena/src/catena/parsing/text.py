"""Text files as they are: which encoding, and what the title is."""

from __future__ import annotations

import codecs
import re

from catena.parsing.failures import Unreadable

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?\r?\n)?---[ \t]*(\r?\n|\Z)", re.DOTALL)
_FRONT_TITLE = re.compile(r"^title[ \t]*:[ \t]*(.+?)[ \t]*\r?$", re.MULTILINE)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_ATX = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+?)(?:[ \t]+#+)?[ \t]*$")
_SETEXT = re.compile(r"^ {0,3}(=+|-+)[ \t]*$")


def decode(data: bytes, *, stated: str = "") -> tuple[str, str]:
    """Return the text and the name of its encoding; line ends are kept as they are.

    A byte order mark decides, and is not part of the text; else UTF-16 by its zero bytes; else the encoding
    that the file states; else UTF-8; else Windows-1252, which reads every Latin-1 file too.

    Args:
        data: the bytes of the file.
        stated: an encoding that the file itself names, as web pages do; one that is unknown or does not fit
            is passed over.

    Raises:
        Unreadable: "empty", or "malformed" for zero bytes, a broken marked encoding and lone surrogates.
    """
    encoding, body = _encoding(data)
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != "utf-8" or len(body) < len(data):
            what = f"it is {encoding.upper()} by its first bytes, but byte {error.start} is not"
            raise Unreadable("malformed", what, "saving it as UTF-8") from None
        if _has_surrogates(body):
            what = f"byte {error.start} is half of a surrogate pair, which no text may hold"
            raise Unreadable("malformed", what, "saving it as UTF-8") from None
        text, encoding = _one_byte(body, stated)
    if "\0" in text:
        raise Unreadable("malformed", f"it has a zero byte at character {text.index(chr(0))}: it is no text file")
    if not text.strip():
        raise Unreadable("empty", "it holds no text")
    return text, encoding


def _one_byte(data: bytes, stated: str) -> tuple[str, str]:
    """Decode what is not UTF-8, as stated or as Windows-1252, as Latin-1 where that has no character."""
    try:
        codec = codecs.lookup(stated) if stated else None
        if codec is not None and codec.name not in {"ascii", "iso8859-1", "utf-8"}:  # as browsers take the first two
            return str(data.decode(codec.name)), codec.name
    except (LookupError, ValueError):  # an unknown name, or bytes that do not fit it
        codec = None
    try:
        return data.decode("cp1252"), "windows-1252"
    except UnicodeDecodeError:
        return data.decode("latin-1"), "latin-1"


def _encoding(data: bytes) -> tuple[str, bytes]:
    for mark, name in _MARKS:
        if data.startswith(mark):
            return name, data[len(mark) :]
    head = data[:4096]
    if len(head) >= 4 and len(data) % 2 == 0:
        even, odd = head[0::2].count(0), head[1::2].count(0)
        if odd > 0.4 * len(head) / 2 and not even:
            return "utf-16-le", data
        if even > 0.4 * len(head) / 2 and not odd:
            return "utf-16-be", data
    return "utf-8", data


def _has_surrogates(data: bytes) -> bool:
    """Return whether it is UTF-8 but for surrogates, each of which its three bytes encode."""
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


MAX_TITLE = 1_000  # characters: a title is repeated with every chunk of its document


def markdown_title(text: str) -> str:
    """Return the title that the front matter states, or the first heading, or ""; at most `MAX_TITLE` of it."""
    return _markdown_title(text)[:MAX_TITLE].rstrip()


def _markdown_title(text: str) -> str:
    front = _FRONT_MATTER.match(text)
    if front:
        stated = _FRONT_TITLE.search(front.group(1) or "")
        if stated and stated.group(1).strip("\"' "):
            return stated.group(1).strip("\"' ")
        text = text[front.end() :]
    fence, before = "", ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark.group(1).startswith(fence) and not line.strip(" `~") else fence
        elif mark:
            fence = mark.group(1)
        elif heading := _ATX.match(line):
            return heading.group(1).strip()
        elif before.strip() and _SETEXT.match(line):
            return before.strip()
        before = "" if fence else line
    return ""

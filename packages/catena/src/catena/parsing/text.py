"""Text files as they are: which encoding, and what the title is."""

from __future__ import annotations

import re
from typing import Any

from catena.parsing.failures import Unreadable
from catena.text.encodings import Decoded, decoded, is_visible, marked
from catena.text.headings import atx_title
from catena.text.loaded import MARKDOWN, PLAIN

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf]")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?\r?\n)?---[ \t]*(\r?\n|\Z)", re.DOTALL)
_FRONT_TITLE = re.compile(r"^title[ \t]*+:(.+)$", re.MULTILINE)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_ATX = re.compile(r"^ {0,3}#{1,6}[ \t](.+)")
_SETEXT = re.compile(r"^ {0,3}(=+|-+)[ \t]*$")


def decode(data: bytes, *, stated: str = "") -> Decoded:
    """Return the text of a file, the name of its encoding, and why that is a guess; line ends are kept as they are.

    A byte order mark decides, and is not part of the text; else UTF-16 by its zero bytes; else `encodings.decoded`.

    Args:
        data: the bytes of the file.
        stated: an encoding that the file itself names, as web pages do; one that is unknown or does not fit
            is passed over.

    Raises:
        Unreadable: "empty", or "malformed" for zero bytes, a broken marked encoding and lone surrogates.
    """
    found = _marked(data) or decoded(data, stated)
    if "\0" in found.text:
        place = found.text.index("\0")
        raise Unreadable("malformed", f"it has a zero byte at character {place}: it is no text file")
    check_visible(found.text, "it holds no text")
    return found


def check_visible(text: str, what: str) -> None:
    """Refuse a text that shows nothing.

    Raises:
        Unreadable: "empty", with `what` for a reason.
    """
    if not text.strip():
        raise Unreadable("empty", what)
    if not is_visible(text):
        raise Unreadable("empty", "nothing in it can be seen: control codes, spaces and marks alone")


def _marked(data: bytes) -> Decoded | None:
    mark = marked(data)
    try:
        if mark is not None:
            return Decoded(mark[1].decode(mark[0]), mark[0])
    except UnicodeDecodeError as error:
        what = f"it is {error.encoding.upper()} by its first bytes, but byte {error.start} is not"
        raise Unreadable("malformed", what, "saving it as UTF-8") from None
    if _has_surrogates(data):
        raise Unreadable("malformed", "it holds halves of surrogate pairs, which no text may", "saving it as UTF-8")
    return None


def read_markdown(data: bytes) -> dict[str, Any]:
    """Return Markdown as it is, its title and its encoding.

    Raises:
        Unreadable: it is no text.
    """
    found = decode(data)
    return told(found, MARKDOWN, markdown_title(found.text))


def read_plain(data: bytes) -> dict[str, Any]:
    """Return plain text as it is, without a title, and its encoding.

    Raises:
        Unreadable: it is no text.
    """
    return told(decode(data), PLAIN)


def _has_surrogates(data: bytes) -> bool:
    """Return whether it is UTF-8 but for surrogates, each of which its three bytes encode."""
    if not _SURROGATE.search(data):
        return False
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def told(found: Decoded, media_type: str, title: str = "") -> dict[str, Any]:
    """Return what the reading process says of a text, with a note where its encoding is a guess."""
    about = {"text": found.text, "title": title, "encoding": found.encoding, "media_type": media_type}
    return {**about, "notes": [found.doubt] * bool(found.doubt)}


MAX_TITLE = 1_000  # characters: a title is repeated with every chunk of its document


def markdown_title(text: str) -> str:
    """Return the title that the front matter states, or the first heading, or ""; at most `MAX_TITLE` of it."""
    return _markdown_title(text)[:MAX_TITLE].rstrip()


def _markdown_title(text: str) -> str:
    front = _FRONT_MATTER.match(text)
    if front:
        stated = _FRONT_TITLE.search(front.group(1) or "")
        if stated and (title := stated.group(1).strip().strip("\"' ")):
            return title
        text = text[front.end() :]
    fence, before = "", ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark.group(1).startswith(fence) and not line.strip(" `~") else fence
        elif mark:
            fence = mark.group(1)
        elif (heading := _ATX.match(line)) and (title := atx_title(heading.group(1))):
            return title
        elif before.strip() and _SETEXT.match(line):
            return before.strip()
        before = "" if fence else line
    return ""

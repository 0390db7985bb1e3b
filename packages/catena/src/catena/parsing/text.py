"""Read text and Markdown files as they are, with their encoding and title; write Markdown block by block."""

from __future__ import annotations

import re
from collections.abc import Sequence

from catena.parsing.protocol import Unreadable
from catena.parsing.readers import FileText
from catena.text import MARKDOWN, PLAIN, Decoded, atx_title, decoded, is_visible, marked

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


def read_markdown(data: bytes) -> FileText:
    """Return Markdown as it is, its title and its encoding.

    Raises:
        Unreadable: it is no text.
    """
    found = decode(data)
    return file_text(found, MARKDOWN, markdown_title(found.text))


def read_plain(data: bytes) -> FileText:
    """Return plain text as it is, without a title, and its encoding.

    Raises:
        Unreadable: it is no text.
    """
    return file_text(decode(data), PLAIN)


def _has_surrogates(data: bytes) -> bool:
    """Return whether it is UTF-8 but for surrogates, each of which its three bytes encode."""
    if not _SURROGATE.search(data):
        return False
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def file_text(found: Decoded, media_type: str, title: str = "", notes: Sequence[str] = ()) -> FileText:
    """Return a text with its encoding, and a note where that is a guess."""
    notes = (*[found.doubt] * bool(found.doubt), *notes)
    metadata = {"encoding": found.encoding}
    return FileText(text=found.text, title=title, media_type=media_type, metadata=metadata, notes=notes)


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


MAX_INDENT = 8  # levels of lists and quotations that are shown; deeper text stays at this level

_MARK = re.compile(r"(#{1,6}(?=\s|\Z)|`{3}|~{3}|[-+*>](?=\s|\Z)|(?:=+|-+)\Z|<(?=[A-Za-z/!?])|\[(?=[^\]]*\]:))")
_NUMBER = re.compile(r"(\d{1,9})([.)])(?=\s|\Z)")
_TICKS = re.compile(r"`+")
_BAR = re.compile(r"(?<!\\)\|")
_MOST_COLUMNS = 64  # of a table; a wider one is written as paragraphs


class MarkdownBlocks:
    """The lines written so far."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.lists: list[int] = []  # next number of each open list; 0 for bullets
        self.quotes = 0
        self._item = ""  # the mark of a list item whose first block is still to come
        self._tight = False

    def open_list(self, first: int = 0) -> None:
        """Begin a list whose items are numbered from `first` on; 0 for bullets."""
        self.lists.append(first)

    def close_list(self) -> None:
        """End the innermost list."""
        self.lists.pop()
        self._item, self._tight = "", bool(self.lists)

    def item(self) -> None:
        """Let the next block be the first of a list item."""
        if self.lists and self.lists[-1]:
            self._item = f"{self.lists[-1]}. "
            self.lists[-1] += 1
        else:
            self._item = "- "

    def heading(self, level: int, title: str) -> None:
        """Write a heading, outside lists and quotations, where alone it divides the document."""
        self.lines += ["", f"{'#' * level} {title}"] if self.lines else [f"{'#' * level} {title}"]
        self._tight = False

    def paragraph(self, text: str) -> None:
        """Write a paragraph of one line."""
        text = _NUMBER.sub(r"\1\\\2", text, count=1) if _NUMBER.match(text) else text
        self.write([f"\\{text}" if _MARK.match(text) else text])

    def code(self, lines: Sequence[str], language: str = "") -> None:
        """Write a fenced block; nothing where no line shows anything."""
        if any(line.strip() for line in lines):
            fence = "`" * max(3, 1 + max((len(run) for line in lines for run in _TICKS.findall(line)), default=0))
            self.write([fence + language, *lines, fence])

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Write a table whose first row is its header; one column, or very many, as paragraphs."""
        rows = [row for row in rows if any(row)]
        columns = max(map(len, rows), default=0)
        if columns < 2 or columns > _MOST_COLUMNS:
            for row in rows:
                self.paragraph(" ".join(cell for cell in row if cell))
            return
        self.grid([[*row, *[""] * (columns - len(row))] for row in rows])

    def grid(self, rows: Sequence[Sequence[str]]) -> None:
        """Write rows of equal length as a table; the first one is its header."""
        cells = ([_BAR.sub(r"\|", cell) for cell in row] for row in rows)
        header, *body = (f"| {' | '.join(row)} |" for row in cells)
        self.write([header, f"|{' --- |' * len(rows[0])}", *body])

    def write(self, lines: Sequence[str]) -> None:
        """Append a block, indented by its lists and quotations; items of one list follow each other closely."""
        depth = min(len(self.lists), MAX_INDENT)
        mark, self._item = self._item, ""
        outer = "> " * min(self.quotes, MAX_INDENT) + "   " * max(depth - 1, 0)
        rest = outer + ("   " if depth else "")
        first = outer + mark if mark else rest
        if self.lines and not (mark and self._tight):
            self.lines.append("")
        rest += " " * (len(mark) - 3 if mark else 0)
        self.lines += [(rest if number else first) + line for number, line in enumerate(lines)]
        self._tight = bool(mark)

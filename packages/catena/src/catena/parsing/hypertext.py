"""Convert HTML to Markdown in one pass over the tags: no tree, so no nesting is too deep; nothing is ever fetched.

Headings, lists, tables, quotations and code keep their structure; links and emphasis keep their words only,
because a view that is searched is better without addresses and stars. A table gets one header row; the text of
a merged cell is put where `merged_cells.unmerged` says.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

from catena.parsing.readers import FileText
from catena.parsing.runs import readable_text
from catena.parsing.text import MAX_TITLE, MarkdownBlocks, check_visible, decode, file_text
from catena.text import MARKDOWN, TABLE_TAGS, HtmlTable, raised

_UNSEEN = frozenset(
    {"script", "style", "template", "noscript", "svg", "iframe", "object", "canvas", "audio", "video"}
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = frozenset({
    "address", "article", "aside", "body", "center", "dd", "details", "dialog", "div",
    "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "html",
    "legend", "main", "nav", "option", "p", "section", "summary",
    "li", "pre", *_HEADINGS,
})  # fmt: skip
_BEGIN_ONLY = frozenset({"blockquote", "hr", "ol", "table", "ul"})  # what their end means depends on what is open
_CODE = frozenset({"code", "kbd", "samp", "tt"})
_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight-source|brush:)-?\s?([\w+#-]+)")
_STRUCTURE_MARK = re.compile(r"^(#{1,6}\s|`{3}|~{3}|(?:=+|-+)$)", re.MULTILINE)
_CHARSET = re.compile(
    rb"<meta[^<>]+charset\s*+=\s*+(?:[\"']\s*+)?([\w.:-]+)|<\?xml[^<>]+encoding\s*+=\s*+[\"']([\w.:-]+)", re.I
)
_COMMENT_END = re.compile(r"--!?>")
_LONG_NUMBER = re.compile(r"(?<=&#)[0-9]{9,}")
_BREAK = "\0"  # a forced line end, while the white space around it is collapsed


def read_html(data: bytes) -> FileText:
    """Return a page as Markdown, its title and its encoding.

    Raises:
        Unreadable: the page shows no text ("empty"), or is not text at all ("malformed").
    """
    found = decode(data, stated=stated_charset(data))
    markdown, title = to_markdown(found.text)
    check_visible(markdown, "the page shows no text")
    return file_text(found._replace(text=markdown), MARKDOWN, title)


def stated_charset(data: bytes) -> str:
    """Return the encoding that the page states in its first 1,024 bytes, or ""."""
    found = _CHARSET.search(data[:1024])
    return b"".join(filter(None, found.groups())).decode("ascii") if found else ""


def to_markdown(html: str) -> tuple[str, str]:
    """Return the page as Markdown, and its title: that of its head, else its first heading."""
    # eight digits are past Unicode, as more are; `int` refuses thousands
    html = _LONG_NUMBER.sub(lambda number: number[0].lstrip("0")[:8] or "0", html)
    closed, mark, rest = html.rpartition(">")
    writer = _Writer()
    writer.feed(closed + mark + rest.replace("<", "&lt;"))  # no tag: the parser would search each to the end of all
    writer.close()
    writer.finish()
    return "\n".join(writer.blocks.lines).strip("\n") + "\n", writer.title or writer.first_heading


class _Writer(HTMLParser):
    """Collects the words of a block until a tag ends it, then writes it with its marks."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks = MarkdownBlocks()
        self.title = ""
        self.first_heading = ""
        self._words: list[str] = []
        self._unseen = ""  # the element whose content is skipped
        self._in_title = False
        self._heading = 0
        self._code_block: str | None = None  # its language, inside <pre>
        self._table: HtmlTable | None = None
        self._nested_tables = 0
        self._raised: int | None = None  # the first of the words of an open <sup>
        self._comments_end = True  # False once one did not: none behind it can

    def parse_comment(self, i: int, report: bool = True) -> int:
        """Pass over the comment at `i`; the mark of one that never ends is text, so that no word is lost."""
        begun = i + len("<!--")
        if self.rawdata.startswith((">", "->"), begun):  # an empty one, in the HTML standard
            return self.rawdata.index(">", begun) + 1
        found = _COMMENT_END.search(self.rawdata, begun) if self._comments_end else None
        if found is not None:
            return found.end()
        self._comments_end = False
        self.handle_data("<!--")
        return begun

    def parse_html_declaration(self, i: int) -> int:
        """Pass over `<!...>` to its next ">", as browsers do: no search for the end of a marked section."""
        return self.rawdata.index(">", i) + 1

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._unseen:
            return
        values = {name: value or "" for name, value in attrs}
        match tag:
            case _ if tag in _UNSEEN:
                self._unseen = tag
            case "title":
                self._in_title = not self.title
            case "br":
                self._words.append("\n" if self._code_block is not None else _BREAK)
            case "img":
                self._image(values)
            case "sup":
                self._raised = len(self._words)
            case _ if self._table is not None:
                self._inside_table(tag, values)
            case _ if tag in _CODE:
                self._tick(values)
            case _ if tag in _BLOCKS | _BEGIN_ONLY:
                self._open(tag, values)

    def _open(self, tag: str, values: dict[str, str]) -> None:
        """Begin a block outside tables."""
        self._flush()
        match tag:
            case "pre":
                self._code_block = _language(values)
            case "ul":
                self.blocks.open_list()
            case "ol":
                start = values.get("start", "1")
                self.blocks.open_list(int(start) if start.isdecimal() and len(start) < 10 else 1)
            case "li" | "dd":
                self.blocks.item()
            case "blockquote":
                self.blocks.quotes += 1
            case "table":
                self._table = HtmlTable()
            case "hr":
                self.blocks.write(["***"])
            case _:
                self._heading = _HEADINGS.get(tag, 0)

    def handle_endtag(self, tag: str) -> None:
        if self._unseen:
            self._unseen = "" if tag == self._unseen else self._unseen
        elif tag == "title":
            self._in_title = False
        elif tag == "sup" and self._raised is not None:
            said, self._raised = self._words[self._raised :], None
            text = raised("".join(said))
            gap = " " if self._table is not None and text.isascii() else ""
            self._words[len(self._words) - len(said) :] = [gap, text, gap]
        elif self._table is not None:
            self._end_inside_table(tag)
        elif tag in _CODE:
            self._tick({})
        else:
            self._close(tag)

    def _close(self, tag: str) -> None:
        """End a block outside tables; end tags without a beginning do nothing."""
        if tag in _BLOCKS:
            self._flush()
        elif tag in {"ul", "ol"} and self.blocks.lists:
            self._flush()
            self.blocks.close_list()
        elif tag == "blockquote" and self.blocks.quotes:
            self._flush()
            self.blocks.quotes -= 1

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title = " ".join(readable_text(self.title + data[:MAX_TITLE]).split())[:MAX_TITLE]
        elif not self._unseen and data:
            self._words.append(data if self._code_block is not None else data.replace(_BREAK, ""))

    def finish(self) -> None:
        """Write what was never closed."""
        self._end_table()
        self._flush()

    def _tick(self, values: dict[str, str]) -> None:
        if self._code_block is None:
            self._words.append("`")
        elif not self._code_block and values:
            self._code_block = _language(values)

    def _image(self, values: dict[str, str]) -> None:
        alt = " ".join(values.get("alt", "").split())
        source = values.get("src", "")
        if alt or source:
            self._words.append(f"![{alt}]({'' if source.startswith('data:') else source.strip()})")

    def _inside_table(self, tag: str, values: dict[str, str]) -> None:
        table = self._table
        assert table is not None
        self._nested_tables += tag == "table"
        if self._nested_tables or tag not in TABLE_TAGS:
            self._words.append("`" if tag in _CODE else " ")
        else:
            table.add(self._taken())
            table.open(tag, values)

    def _end_inside_table(self, tag: str) -> None:
        assert self._table is not None
        if tag == "table" and not self._nested_tables:
            self._end_table()
        elif self._nested_tables or tag not in TABLE_TAGS:
            self._nested_tables -= tag == "table"
            self._words.append("`" if tag in _CODE else " ")
        else:
            self._table.add(self._taken())
            self._table.close(tag)

    def _taken(self) -> str:
        """Return the words collected so far as one line."""
        text = " ".join(readable_text("".join(self._words).replace(_BREAK, " ")).split())
        self._words = []
        return text

    def _flush(self) -> None:
        """Write the block that ends here."""
        raw, self._words = "".join(self._words), []
        heading, self._heading = self._heading, 0
        language, self._code_block = self._code_block, None
        if language is not None:
            self.blocks.code(raw.removeprefix("\n").rstrip().splitlines(), language)
            return
        lines = [" ".join(readable_text(line).split()) for line in raw.split(_BREAK)]
        text = "\n".join(line for line in lines if line)
        if not text:
            return
        if heading:
            text = text.replace("\n", " ")
            self.first_heading = self.first_heading or text[:MAX_TITLE].rstrip()
            self.blocks.write(["#" * heading + " " + text])
        else:
            self.blocks.write(_STRUCTURE_MARK.sub(r"\\\1", text).split("\n"))

    def _end_table(self) -> None:
        """Write the caption and the table; a table of one column as plain paragraphs."""
        table, self._table, self._nested_tables = self._table, None, 0
        if table is None:
            return
        table.add(self._taken())
        found = table.finish()
        rows = [found.header, *found.rows]
        if found.caption:
            self.blocks.write([found.caption])
        if len(found.header) > 1:
            self.blocks.grid([[cell.replace("|", "\\|") for cell in row] for row in rows])
            return
        for cell in (cell for row in rows for cell in row if cell):
            self.blocks.write([cell])


def _language(values: dict[str, str]) -> str:
    found = _LANGUAGE.search(values.get("class", ""))
    return found.group(1) if found else ""

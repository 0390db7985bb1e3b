"""Read Office files, e-books and e-mail as Markdown: headings, lists and tables stay, slides and sheets are places.

Each becomes HTML first, and then what a web page becomes. The Office formats are opened by office_oxide (the extra
`[office]`), which fetches nothing and runs nothing, messages of Outlook by olefile (the same extra); archives are not
unpacked beyond `MAX_UNPACKED` bytes.
"""

from __future__ import annotations

import email
import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message
from email.utils import format_datetime
from functools import reduce
from html import escape
from io import BytesIO
from itertools import accumulate, islice
from operator import add
from typing import Any, NamedTuple
from urllib.parse import unquote
from xml.parsers.expat import ExpatError, ParserCreate
from zipfile import BadZipFile, ZipFile

from catena.parsing.hypertext import stated_charset, to_markdown
from catena.parsing.protocol import SAVE_ANEW, Unreadable, reason
from catena.parsing.readers import FileText
from catena.parsing.text import decode

MAX_UNPACKED = 200_000_000  # bytes of one archive

_UNTITLED = re.compile(r"(powerpoint presentation|document|untitled|pr[äe]sentation|presentation)?\d*", re.IGNORECASE)
_COLUMNS = 200  # of a sheet that are read
_CUT = re.compile(r"(?:<p>)?\[(\d+) of \d+ rows not shown[^\[\]]*\](?:</p>)?")
_LAST_COLUMN = re.compile(rb'<dimension ref="[A-Z]{1,3}\d+:([A-Z]{1,3})\d+"')
_CELL = re.compile(rb'<c [^>]*?\br="([A-Z]{1,3}\d{1,7})"')
_NO_VALUE = re.compile(rb"</f>(?:<v\s*/>|<v></v>)?\s*</c>")
_CORE, _STYLES = "docProps/core.xml", "word/styles.xml"
_OLD_OR_LOCKED = b"\xd0\xcf\x11\xe0"


def _file_text(
    pages: Iterable[tuple[str, str]], title: str | None, metadata: Mapping[str, str], notes: Sequence[str] = ()
) -> FileText:
    """Return pages of HTML, each with its label, "" for text without pages.

    Args:
        pages: label and HTML of each.
        title: "" for the first heading, None for the name of the file.
        metadata: of the document.
        notes: what is missing from it.
    """
    texts: list[str] = []
    labels: list[str] = []
    for label, html in pages:
        text, heading = to_markdown(html)
        title = heading if title == "" else title
        texts.append(text.strip() + "\n")
        labels.append(label)
    starts = tuple(accumulate((len(text) + 1 for text in texts[:-1]), initial=0))
    paged = any(labels)
    return FileText(
        text="\n".join(texts), title=title or "", metadata=metadata, notes=notes,
        page_starts=starts if paged else (), page_labels=labels if paged else (),
    )  # fmt: skip


class _Archive:
    """A ZIP archive of which no more is unpacked than `MAX_UNPACKED` bytes."""

    def __init__(self, data: bytes) -> None:
        try:
            self._file = ZipFile(BytesIO(data))
        except (BadZipFile, ValueError, NotImplementedError) as error:
            what = f"it is no whole ZIP archive, as files of this kind are ({reason(error)})"
            raise Unreadable("malformed", what, SAVE_ANEW) from None
        self._left = MAX_UNPACKED

    @property
    def names(self) -> list[str]:
        """The names of its members."""
        return self._file.namelist()

    def read(self, name: str) -> bytes:
        """Unpack a member; it and all before it may have `MAX_UNPACKED` bytes."""
        try:
            with self._file.open(name) as member:
                data = member.read(self._left + 1)
        except KeyError:
            raise Unreadable("malformed", f"there is no {name} in it") from None
        self._left -= len(data)
        if self._left < 0:
            raise Unreadable("bomb", f"it unpacks to more than {MAX_UNPACKED} bytes")
        return data

    def without_pictures(self) -> bytes:
        """Return an archive of its XML alone, unpacked: pictures would come back as text, and are not looked at."""
        kept = BytesIO()
        with ZipFile(kept, "w") as file:
            for name in filter(re.compile(r"\.(xml|rels)\Z").search, self.names):
                file.writestr(name, self.read(name))
        return kept.getvalue()


def read_docx(data: bytes) -> FileText:
    """Return a document of Word, whose pages are not counted: a program makes them when it shows it."""
    found = _office(data, "docx")
    html = "".join(_html(section["elements"]) for section in found["sections"])
    archive = _Archive(data)
    about = _elements(archive.read(_CORE)) if _CORE in archive.names else []
    stated = _first(about, "title")  # office_oxide tells the first heading, where there is none
    title = _styled_title(archive) if _UNTITLED.fullmatch(stated) else stated
    return _file_text([("", html)], title, _about(found))


def _styled_title(archive: _Archive) -> str:
    """Return the first paragraph of the style whose name, in any language's Word, is Title; "" without one."""
    if _STYLES not in archive.names:
        return ""
    styles = _elements(archive.read(_STYLES))
    named = [place for place, each in enumerate(styles) if each.name == "name" and each.given.get("val") == "Title"]
    before = reversed(styles[: named[0]] if named else [])
    wanted = next((each.given.get("styleId") for each in before if each.name == "style"), None)
    pieces: list[str] = []
    state = {"in_title": False, "is_over": False}

    def start(name: str, given: Mapping[str, str]) -> None:
        if name == "pStyle":
            state["in_title"] = given.get("val") == wanted is not None and not state["is_over"]

    def end(name: str) -> None:
        if name == "p" and state["in_title"]:
            state["in_title"], state["is_over"] = False, bool("".join(pieces).strip())

    _read_xml(
        archive.read("word/document.xml"), start, end,
        lambda text: pieces.append(text) if state["in_title"] else None,
    )  # fmt: skip
    return " ".join("".join(pieces).split())


def read_pptx(data: bytes) -> FileText:
    """Return slides as pages, each with the notes of its speaker."""
    found = _office(data, "pptx")
    slides: list[tuple[str, str]] = []
    for number, slide in enumerate(found["sections"], start=1):
        notes = slide.get("speaker_notes")
        spoken = f"<p>Speaker notes:</p>{_html(notes)}" if notes else ""
        slides.append((f"slide {number}{_hidden(slide)}", _html(slide["elements"]) + spoken))
    title = str(found["metadata"].get("title") or "").strip()
    return _file_text(slides, "" if _UNTITLED.fullmatch(title) else title, _about(found))


def read_xlsx(data: bytes) -> FileText:
    """Return sheets as pages; rows that a blank row ends are a table, and a single cell above it stands before it.

    Of a sheet 10,000 rows and 200 columns are read; a note tells of the others, and of formulas without a value.
    """
    found = _office(data, "xlsx")
    sheets = [sheet for sheet in found["sections"] if sheet["elements"]]
    labels = [f"sheet {sheet['title']}{_hidden(sheet)}" for sheet in sheets]
    titles = [f"<h1>{escape(sheet['title'])}</h1>" for sheet in sheets]
    tables = ["".join(map(_sheet_html, sheet["elements"])) for sheet in sheets]
    cuts = ((label, cut) for label, table in zip(labels, tables, strict=True) for cut in _CUT.finditer(table))
    notes = [f"{label}: {cut[1]} rows are not read, 10,000 are" for label, cut in cuts]
    notes += _unseen_cells(_Archive(data))
    tables = [_CUT.sub("", table) for table in tables]
    return _file_text(zip(labels, map(add, titles, tables), strict=True), None, _about(found), notes)


def _unseen_cells(archive: _Archive) -> Iterator[str]:
    """Yield which cells of a workbook give no text, by the names of its sheets."""
    names = _sheet_names(archive)
    for name in filter(re.compile(r"xl/worksheets/[^/]+\.xml\Z").match, archive.names):
        xml, file = archive.read(name), posixpath.basename(name)
        sheet = f"sheet {names[file]}" if file in names else file
        last = _LAST_COLUMN.search(xml)
        columns = reduce(lambda number, letter: number * 26 + letter - 64, last[1], 0) if last else 0
        if columns > _COLUMNS:
            yield f"{sheet}: {columns - _COLUMNS} columns are not read, {_COLUMNS} are"
        if formulas := [found.start() for found in _NO_VALUE.finditer(xml)]:
            cell = _CELL.match(xml, max(0, xml.rfind(b"<c ", 0, formulas[0])))
            first = f" (in cell {cell[1].decode()}{' first' if formulas[1:] else ''})" if cell else ""
            what = f"{len(formulas):,} formulas have" if formulas[1:] else "1 formula has"
            yield f"{sheet}: {what} no value{first}, for the program that wrote the file computed none"


def _sheet_names(archive: _Archive) -> dict[str, str]:
    """Return the name of each sheet of a workbook by the file that holds it, as far as it says so."""
    book, links = "xl/workbook.xml", "xl/_rels/workbook.xml.rels"
    if not {book, links}.issubset(archive.names):
        return {}
    targets = _given(_elements(archive.read(links)), "Relationship")
    files = {given.get("Id"): posixpath.basename(given.get("Target", "")) for given in targets}
    sheets = _given(_elements(archive.read(book)), "sheet")
    return {files[given["id"]]: given.get("name", "") for given in sheets if given.get("id") in files}


def _office(data: bytes, kind: Any) -> Mapping[str, Any]:
    """Return a file as office_oxide sees it: metadata, and sections of elements."""
    from office_oxide import Document  # an extra

    if data.startswith(_OLD_OR_LOCKED):
        raise Unreadable("encrypted", "it is encrypted, or of an older format than its name says")
    found: Mapping[str, Any] = json.loads(Document.from_bytes(_Archive(data).without_pictures(), kind).to_ir_json())
    return found


def _about(found: Mapping[str, Any]) -> dict[str, str]:
    about = found["metadata"]
    return {name: str(about[name]) for name in ("author", "subject", "created", "modified") if about.get(name)}


def _hidden(section: Mapping[str, Any]) -> str:
    return " (hidden)" if section.get("hidden") else ""


def _html(nodes: Sequence[Mapping[str, Any]]) -> str:
    return "".join(map(_node_html, nodes))


def _node_html(node: Mapping[str, Any]) -> str:
    """Return an element of office_oxide as HTML; of those that are not known, what is in them."""
    inner = node.get("content", ())
    match node.get("type"):
        case "text":
            html = escape(str(node["text"]))
            html = f"<sup>{html}</sup>" if node.get("vertical_align") == "superscript" else html
        case "line_break":
            html = "<br>"
        case "heading":
            html = f"<h{node['level']}>{_html(inner)}</h{node['level']}>"
        case "paragraph":
            html = f"<p>{_html(inner)}</p>"
        case "list":
            html = _list_html(node)
        case "table":
            html = _table_html(row["cells"] for row in node["rows"])
        case _:
            html = _html(inner)
    return html


def _list_html(node: Mapping[str, Any]) -> str:
    items = (
        f"<li>{_html(item['content'])}{_list_html(item['nested']) if item.get('nested') else ''}</li>"
        for item in node["items"]
    )
    mark = "ol" if node.get("ordered") else "ul"
    return f"<{mark}>{''.join(items)}</{mark}>"


def _table_html(rows: Iterable[Sequence[Mapping[str, Any]]]) -> str:
    written = ("".join(_cell_html(_html(cell["content"]), cell) for cell in row) for row in rows)
    return f"<table><tr>{'</tr><tr>'.join(written)}</tr></table>"


def _cell_html(content: str, spans: Mapping[str, Any]) -> str:
    return f'<td colspan="{spans["col_span"]}" rowspan="{spans["row_span"]}">{content}</td>'


def _sheet_html(node: Mapping[str, Any]) -> str:
    if node.get("type") != "table":
        return _node_html(node)
    html: list[str] = []
    rows: list[Sequence[Mapping[str, Any]]] = []
    for row in [*node["rows"], {"cells": ()}]:
        filled = [cell for cell in row["cells"] if _html(cell["content"]) not in {"", "<p></p>"}]
        if not rows and len(filled) == 1:
            html.append(f"<p>{_html(filled[0]['content'])}</p>")
        elif filled:
            rows.append(row["cells"])
        elif rows:
            html.append(_table_html(rows))
            rows = []
    return "".join(html)


def _read_xml(data: bytes, start: Callable[..., None], end: Callable[..., None], text: Callable[..., None]) -> None:
    """Walk through XML; names are told without their namespaces.

    Raises:
        Unreadable: it is no XML ("malformed"), or declares entities ("bomb"), of which small files make large ones.
    """

    def refuse(*_: Any) -> None:
        raise Unreadable("bomb", "its XML declares entities, which files of this kind do not")

    def local(name: str) -> str:
        return name.rpartition("}")[2]

    parser = ParserCreate(namespace_separator="}")
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = lambda name, given: start(local(name), {local(key): given[key] for key in given})
    parser.EndElementHandler = lambda name: end(local(name))
    parser.CharacterDataHandler = text
    try:
        parser.Parse(data, True)
    except ExpatError as error:
        raise Unreadable("malformed", f"its XML is broken ({reason(error)})") from None


class _Element(NamedTuple):
    """An element of XML: its name, its attributes, and the pieces of text in it and in what it holds."""

    name: str
    given: Mapping[str, str]
    pieces: list[str]

    @property
    def text(self) -> str:
        return " ".join("".join(self.pieces).split())


def _elements(data: bytes) -> list[_Element]:
    """Return all elements of a short XML file, in their order; texts are those of elements without others in them."""
    found: list[_Element] = []
    _read_xml(
        data,
        lambda name, given: found.append(_Element(name, given, [])),
        lambda name: None,
        lambda text: found[-1].pieces.append(text),  # noqa: PLW0108  the last one changes
    )
    return found


def _first(elements: Iterable[_Element], name: str) -> str:
    return next((each.text for each in elements if each.name == name and each.text), "")


def _given(elements: Iterable[_Element], name: str) -> list[Mapping[str, str]]:
    return [each.given for each in elements if each.name == name]


_ODT_TAGS = {"p": "p", "list": "ul", "list-item": "li", "table": "table", "table-row": "tr"}
_ODT_SIGNS = {"s": " ", "tab": " ", "line-break": "<br>"}
_RAISED = re.compile(r"super|[1-9]")  # of a text-position, which may be told in percent
_ODT_UNSEEN = frozenset({"tracked-changes", "annotation", "table-of-content", "note-citation", "desc", "title"})


def read_odt(data: bytes) -> FileText:
    """Return a text document of OpenDocument; notes stand in brackets where they are set."""
    archive = _Archive(data)
    writer = _OdtWriter()
    _read_xml(archive.read("content.xml"), writer.start, writer.end, writer.text)
    about = _elements(archive.read("meta.xml")) if "meta.xml" in archive.names else []
    kept = {"author": _first(about, "initial-creator"), "created": _first(about, "creation-date")}
    return _file_text([("", "".join(writer.html))], _first(about, "title"), kept)


class _OdtWriter:
    """The HTML of an OpenDocument text so far."""

    def __init__(self) -> None:
        self.html: list[str] = []
        self._unseen = self._notes = 0
        self._levels: list[int] = []
        self._style = ""  # whose properties are read
        self._raised: set[str] = set()  # styles
        self._spans: list[bool] = []  # of those that are open: whether it is raised

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._unseen += name in _ODT_UNSEEN
        if self._unseen:
            return
        if name == "style":
            self._style = attributes.get("name", "")
        elif name == "text-properties":
            self._raised |= {self._style} if _RAISED.match(attributes.get("text-position", "")) else set()
        elif name == "span":
            self._spans.append(attributes.get("style-name", "") in self._raised)
            self.html += ["<sup>"] * self._spans[-1]
        elif name == "note":
            self._notes += 1
            self.html.append(" [")
        elif name == "h":
            self._levels.append(min(max(int(attributes.get("outline-level", "1")), 1), 6))
            self.html.append(f"<h{self._levels[-1]}>")
        elif name == "table-cell":
            columns, rows = (attributes.get(f"number-{what}-spanned", "1") for what in ("columns", "rows"))
            self.html.append(_cell_html("", {"col_span": columns, "row_span": rows}).removesuffix("</td>"))
        elif name in _ODT_TAGS and not self._notes:
            self.html.append(f"<{_ODT_TAGS[name]}>")
        elif name in _ODT_SIGNS:
            self.html.append(_ODT_SIGNS[name])

    def end(self, name: str) -> None:
        if not self._unseen:
            if name == "note":
                self._notes -= 1
                self.html.append("]")
            elif name == "h":
                self.html.append(f"</h{self._levels.pop()}>")
            elif name == "span":
                self.html += ["</sup>"] * self._spans.pop()
            elif name == "table-cell":
                self.html.append("</td>")
            elif name in _ODT_TAGS and not self._notes:
                self.html.append(f"</{_ODT_TAGS[name]}>")
        self._unseen -= name in _ODT_UNSEEN

    def text(self, text: str) -> None:
        if not self._unseen:
            self.html.append(escape(text))


def read_epub(data: bytes) -> FileText:
    """Return the chapters of a book in their order; their headings are the places."""
    archive = _Archive(data)
    roots = _given(_elements(archive.read("META-INF/container.xml")), "rootfile")
    package = next((given.get("full-path", "") for given in roots), "")
    about = _elements(archive.read(package))
    listed = {given.get("id"): given for given in _given(about, "item")}
    order = [listed.get(given.get("idref"), {}) for given in _given(about, "itemref")]
    pages = (item for item in order if "href" in item and "nav" not in item.get("properties", "").split())
    beside = posixpath.dirname(package)
    paths = [posixpath.normpath(posixpath.join(beside, unquote(item["href"]))) for item in pages]
    kept = {"author": _first(about, "creator"), "created": _first(about, "date")}
    return _file_text(_chapters(archive, paths), _first(about, "title"), kept)


def _chapters(archive: _Archive, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    for path in dict.fromkeys(paths):
        data = archive.read(path)
        yield "", decode(data, stated=stated_charset(data)).text if data.strip() else ""


MAX_HEADER = 2_000  # characters of a header; Python takes the square of them to read one
_TOLD = ("From", "To", "Cc", "Date")
_DESCRIBING = ("Content-Type", "Content-Disposition")
_NAMED = 20  # attachments that are named


def read_email(data: bytes) -> FileText:
    """Return a message below its subject; its plain text if it has one, else its HTML; attachments are told of."""
    message = email.message_from_bytes(data)
    bodies: dict[str, Message] = {}
    attached: list[str] = []
    for part in message.walk():
        for name in _DESCRIBING:
            if len(str(part.get(name, ""))) > MAX_HEADER:
                del part[name]
        if part.get_content_disposition() == "attachment" or part.get_filename():
            attached.append(part.get_filename() or part.get_content_type())
        elif not part.is_multipart():
            bodies.setdefault(part.get_content_type(), part)
    body = bodies.get("text/plain") or bodies.get("text/html")
    return _message_text(message, "" if body is None else _body_html(body), attached)


def _message_text(headers: Message, body: str, attached: Sequence[str], notes: Sequence[str] = ()) -> FileText:
    subject = _header(headers, "Subject")
    told = {name: value for name in _TOLD if (value := _header(headers, name))}
    top = "".join(f"<p>{name}: {escape(value)}</p>" for name, value in told.items())
    html = (f"<h1>{escape(subject)}</h1>" if subject else "") + top + body
    if attached:
        notes = [*notes, f"its attachments are not read: {', '.join(attached[:_NAMED])}"]
    return _file_text([("", html)], subject, {name.lower(): value for name, value in told.items()}, notes)


def _body_html(part: Message) -> str:
    payload = part.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    text = decode(data, stated=part.get_content_charset() or "").text if data.strip() else ""
    if part.get_content_type() == "text/html":
        return text
    return _paragraphs(text)


def _paragraphs(text: str) -> str:
    paragraphs = re.split(r"\n\s*\n", text.replace("\r\n", "\n"))
    return "".join(f"<p>{escape(each.strip()).replace(chr(10), '<br>')}</p>" for each in paragraphs)


def _header(message: Message, name: str) -> str:
    written = str(message.get(name, ""))[:MAX_HEADER]
    with suppress(HeaderParseError, LookupError, ValueError):  # in an encoding that nobody knows it stays as it is
        written = str(make_header(decode_header(written)))
    return " ".join(written.split())


# MS-OXPROPS: properties by their numbers
_OUTLOOK = {"Subject": "0037", "To": "0E04", "Cc": "0E03"}
_HEADERS, _SENDER, _ADDRESSES, _FILE_NAMES = "007D", "0C1A", ("5D01", "0C1F"), ("3707", "3704", "3001")
_PLAIN, _HTML_BODY, _RTF, _SENT = "1000", "1013", "1009", b"\x40\x00\x39\x00"
_PREAMBLE = re.compile(r"\AMicrosoft Mail Internet Headers[^\n]*\n")


def read_msg(data: bytes) -> FileText:
    """Return a message as Outlook saves it, as `read_email` returns one; a body in RTF alone is told of."""
    from olefile import OleFileIO  # an extra

    try:
        with OleFileIO(BytesIO(data)) as file:
            return _outlook_text(file)
    except (OSError, ValueError, IndexError, TypeError) as error:
        raise Unreadable("malformed", f"it is no whole Outlook message ({reason(error)})", "saving it anew") from None


def _outlook_text(file: Any) -> FileText:
    def said(*tags: str, folder: str = "") -> str:
        """Return the first property that is there, in UTF-16, an older encoding, or bytes."""
        for path in (f"{folder}__substg1.0_{tag}{kind}" for tag in tags for kind in ("001F", "001E", "0102")):
            if file.exists(path) and not (folder and file.get_size(path) > MAX_HEADER):
                data = file.openstream(path).read()
                if path.endswith("001F"):
                    return str(data.decode("utf-16-le", "replace")).rstrip("\0")
                if data := data.rstrip(b"\0"):
                    return decode(data, stated=stated_charset(data)).text
        return ""

    headers, address = email.message_from_string(_PREAMBLE.sub("", said(_HEADERS))), said(*_ADDRESSES)
    known = {name: said(tag) for name, tag in _OUTLOOK.items()}
    known |= {"From": f"{said(_SENDER)} <{address}>" if "@" in address else said(_SENDER), "Date": _sent(file)}
    for name in known.keys() - headers.keys():
        headers[name] = known[name]
    folders = (path[0] + "/" for path in file.listdir(streams=False, storages=True) if path[0].startswith("__attach"))
    named = islice(dict.fromkeys(folders), _NAMED)
    attached = [said(*_FILE_NAMES, folder=folder) or "one without a name" for folder in named]
    plain = said(_PLAIN).strip()
    body = _paragraphs(plain) if plain else said(_HTML_BODY)
    only_rtf = not body and file.exists(f"__substg1.0_{_RTF}0102")
    return _message_text(headers, body, attached, ["its text is RTF, which is not read"] if only_rtf else [])


def _sent(file: Any) -> str:
    """Return when it was sent, as headers have it: 100 nanoseconds since 1601, in one of the rows of 16 bytes."""
    rows = file.openstream("__properties_version1.0").read()
    for at in range(32, len(rows), 16):
        if rows[at : at + 4] == _SENT:
            with suppress(OverflowError):
                passed = timedelta(microseconds=int.from_bytes(rows[at + 8 : at + 16], "little") // 10)
                return format_datetime(datetime(1601, 1, 1, tzinfo=UTC) + passed)
    return ""

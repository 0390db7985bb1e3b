r"""Convert LaTeX to Markdown in one pass over the tokens: no tree, so no nesting is too deep; reads no other file.

Sections, lists, tables, quotations, verbatim text and footnotes keep their structure, mathematics its source
between dollars. A command that is not known is dropped and its arguments stay, so that no word is lost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from catena.parsing import latex_tokens as known
from catena.parsing.latex_tokens import Reader, Token, accented, as_source, caption_of, german, symbol, typeset, unit
from catena.parsing.readers import FileText
from catena.parsing.runs import readable_text
from catena.parsing.text import MAX_TITLE, MarkdownBlocks, check_visible, decode, file_text
from catena.text.loaded import MARKDOWN

_INPUT_ENCODING = re.compile(rb"\\usepackage\s*\[\s*([\w-]+)\s*\]\s*\{inputenc\}")
_ENCODINGS = {"latin9": "iso8859-15", "ansinew": "cp1252", "applemac": "mac-roman", "latin2": "iso8859-2"}
_HEADING = re.compile(rf"\\({'|'.join(known.RANKS)})\*?\s*[\[{{]")
_HAS_TITLE = re.compile(r"\\title\s*[\[{]")
_PRINTS_TITLE = re.compile(r"\\(?:maketitle|titlepage)(?![A-Za-z@])|\\begin\s*\{frontmatter\}")
_IS_GERMAN = re.compile(r"\\usepackage\s*+(?:\[(?=[^\]\\]{0,400}?german)[^\]\\]{0,800}+\]\s*+\{babel\}|\{n?german\})")
_IS_BEAMER = re.compile(r"\\documentclass\s*(?:\[[^\]]{0,400}\]\s*)?\{beamer\}")
_OVERLAY = re.compile(r"\A<[-+\d.,|@:a-z]*>")  # on which slides of a frame something is shown
_BEGIN = re.compile(r"^[^%\n]*\\begin\s*\{document\}", re.MULTILINE)
_REFERENCE = re.compile("\ue000([^\ue000\ue001]*)\ue001")  # marks of our own, in an area without characters
_FOOTNOTE = re.compile(r"\[\^\d+\]")
_DEEPEST = 100  # texts taken aside in each other; what is deeper stays in the text around it
_LONGEST_REFERENCE = 200  # characters of a title that replaces a reference


class Converted(NamedTuple):
    """A source as Markdown, its title, and what of it could not be read, in words."""

    markdown: str
    title: str
    notes: tuple[str, ...]


def read_latex(data: bytes) -> FileText:
    """Return a source as Markdown, its title, its encoding, and in words what of it is not there.

    Raises:
        Unreadable: the source prints no text ("empty"), or is not text at all ("malformed").
    """
    stated = _INPUT_ENCODING.search(data[:65_536])
    name = stated[1].decode("ascii") if stated else ""
    source = decode(data, stated=_ENCODINGS.get(name, name))
    found = to_markdown(source.text)
    check_visible(found.markdown, "the source prints no text")
    return file_text(source._replace(text=found.markdown), MARKDOWN, found.title, found.notes)


def to_markdown(source: str) -> Converted:
    r"""Return a LaTeX source as Markdown; what comes before its \begin{document} is read for definitions only."""
    writer = _Writer(source)
    writer.run()
    text = _REFERENCE.sub(lambda match: f"[{writer.labels.get(match[1], match[1])}]", "\n".join(writer.blocks.lines))
    return Converted(text.strip("\n") + "\n", writer.title or writer.first_heading, tuple(writer.notes))


class _Frame(NamedTuple):
    """Something open: a group, an environment, or a text that is taken aside until its end."""

    kind: str  # "group", "argument", "option" or "environment"
    name: str = ""
    end: Callable[[str], None] | None = None  # is given the text that was taken aside


_NOTHING, _GROUP = _Frame(""), _Frame("group")
_UNKNOWN = _Frame("group", "argument of a command that is not known")


class _Writer:
    """Collects the words of a block until something ends it, then writes it with its marks."""

    def __init__(self, source: str) -> None:
        self._commands = self._handlers()
        self.reader = Reader(source, (frozenset(self._commands) | known.INVISIBLE.keys()) - _OF_PACKAGES)
        self.blocks = MarkdownBlocks()
        self.title = self.first_heading = ""
        self.labels: dict[str, str] = {}
        self.notes: list[str] = []
        self._title_words = ""
        self._front: dict[str, list[str]] = {name: [] for name in known.FRONT}
        self._german = _IS_GERMAN.search(source) is not None
        self._beamer = _IS_BEAMER.search(source) is not None
        self._preamble = _BEGIN.search(source) is not None
        self._words: list[list[str]] = [[]]  # of the block, and of each text taken aside
        self._frames: list[_Frame] = []
        self._open: Counter[str] = Counter()  # names of open environments
        self._rows: list[list[list[str]]] = []  # of each open table
        self._pictures: list[list[str]] = []  # of each open float
        self._captions: list[list[str]] = []
        self._footnotes: list[str] = []
        self._footnote = 0
        self._theorems: dict[str, str] = {"proof": "Proof"}
        self._just_headed = ""
        highest = min((known.RANKS[match[1]] for match in _HEADING.finditer(source)), default=known.RANKS["section"])
        is_titled = bool(_PRINTS_TITLE.search(source) and _HAS_TITLE.search(source))
        self._highest = 1 + is_titled  # level of the highest division
        self._shift = self._highest - highest
        self._slide = self._shift + known.RANKS["subsection"] + ("\\subsection" in source)  # level of its title

    def run(self) -> None:
        """Read all tokens, and end what is still open."""
        while (token := self.reader.next()) is not None and not (token.kind == "end" and token.text == "document"):
            self._token(token)
        while self._frames:
            self._close()
        self._flush()
        if self.reader.spent:
            self._note(f"its macros {self.reader.spent}; the rest is left as written")

    def _token(self, token: Token) -> None:
        match token.kind:
            case "text" | "code" | "math" | "display":
                self._inline(token)
            case "space" | "~":
                self._say(" ")
            case "par":
                self._flush()
            case "begin":
                self._begin(token.text)
            case "end":
                self._end(token.text)
            case "command":
                self._command(token)
            case "raw":
                self._raw(token)
            case "fence":
                self._fence(token)
            case _:
                self._mark(token)

    def _inline(self, token: Token) -> None:
        match token.kind:
            case "text":
                self._say(typeset(german(token.text) if self._german else token.text))
            case "code":
                ticks = "`" * (1 + max(map(len, re.findall(r"`+", token.text)), default=0))
                self._say(f"{ticks}{token.text}{ticks}" if token.text.strip() else "")
            case "display" if not self._is_aside:
                self._flush()
                self._emit(lambda: self.blocks.write([f"$${token.text}$$"]))
            case _:
                self._say(f"${token.text}$")

    def _mark(self, token: Token) -> None:
        """Open or close a group or an option; end a cell."""
        top = self._top
        match token.kind:
            case "{":
                self._frames.append(_GROUP)
            case "}":
                if top.kind in {"group", "argument"}:
                    self._close()
                if top is _UNKNOWN and self._opens_argument():
                    self._say(" ")
            case "]" if top.kind == "option":
                self._close()
            case "&" if top.name in known.TABLES:
                self._cell()
            case _:
                self._say(token.source)

    @property
    def _top(self) -> _Frame:
        return self._frames[-1] if self._frames else _NOTHING

    @property
    def _is_aside(self) -> bool:
        return bool(self._words[1:])

    def _say(self, words: str) -> None:
        self._words[-1].append(words)

    def _opens_argument(self) -> bool:
        """Open an argument of a command that is not known, if one is next."""
        if is_open := self.reader.is_next("{"):
            self.reader.raw()
            self._frames.append(_UNKNOWN)
        return is_open

    def _aside(self, kind: str, end: Callable[[str], None]) -> None:
        """Take what comes next aside, up to its end."""
        if self._words[_DEEPEST:]:
            self._frames.append(_Frame(kind))
            return
        self._frames.append(_Frame(kind, "", end))
        self._words.append([])

    def _argument(self, end: Callable[[str], None]) -> None:
        """Pass over an option, and take the next argument aside; without braces a word, a formula, a sign or none."""
        self.reader.optional()
        found = self.reader.next()
        while found is not None and found.kind == "space":
            found = self.reader.next()
        if found is None:
            return
        self._aside("argument", end)
        match found.kind:
            case "{":
                return
            case "text" | "math" | "code":
                self._inline(found)
            case "command" if (printed := symbol(found.text)) is not None:
                self._say(printed)
            case _:
                self.reader.push([found])
        self._close()

    def _close(self) -> None:
        """End what was opened last."""
        frame = self._frames.pop()
        if frame.kind == "environment":
            self._open[frame.name] -= 1
            self._end_environment(frame.name)
        elif frame.end is not None:
            frame.end(self._taken(self._words.pop()))

    @staticmethod
    def _taken(words: list[str]) -> str:
        return " ".join(readable_text("".join(words)).split())

    def _flush(self) -> None:
        """Write the paragraph that ends here, and the footnotes in it."""
        if self._is_aside:
            self._say(" ")
            return
        text, self._words[0] = self._taken(self._words[0]), []
        if text:
            self._emit(lambda: self.blocks.paragraph(text))
        if not self._preamble:
            notes, self._footnotes = self._footnotes, []
            for note in notes:
                self.blocks.paragraph(note)

    def _emit(self, write: Callable[[], None]) -> None:
        if not self._preamble:
            self._just_headed = ""
            write()

    def _note(self, what: str) -> None:
        if what not in self.notes:
            self.notes.append(what)

    # commands

    def _command(self, token: Token) -> None:
        name = token.text.rstrip("*") if token.text != "*" else "*"
        handler = self._commands.get(name)
        if self._beamer:
            self._pass_overlay()
        if handler is not None:
            handler(name)
        elif name in known.ACCENTS:
            self._accent(name)
        elif (letter := known.DOTLESS.get(name)) is not None:
            self._say(letter)
        elif name in known.INVISIBLE:
            self._skip(known.INVISIBLE[name])
        elif "cite" in name.lower():
            self._cite(name)
        elif (printed := symbol(name)) is not None:
            self._say(printed)
        elif self.reader.spent and name in self.reader.macros:
            self._say(f"{token.source} ")
        else:
            self._opens_argument()

    def _handlers(self) -> dict[str, Callable[[str], None]]:
        handlers: dict[str, Callable[[str], None]] = {
            **dict.fromkeys(known.RANKS, self._section), **dict.fromkeys(known.FILES, self._file),
            **dict.fromkeys(known.DEFINITIONS, lambda name: self.reader.define(name)),  # noqa: PLW0108  made later
            **dict.fromkeys(("ref", "eqref", "pageref", "autoref", "cref", "Cref", "nameref", "vref"), self._refer),
            **dict.fromkeys(("footnote", "thanks", "footnotetext", "endnote"), self._note_below),
            **dict.fromkeys(("\\", "tabularnewline", "cr"), self._break),
            **dict.fromkeys(known.FRONT, lambda name: self._argument(self._front[name].append)),
            **dict.fromkeys(("SI", "qty"), self._quantity),
            **dict.fromkeys(("si", "unit"), lambda _: self._say(unit(self._in_brackets()))),
            **{written: self._statement for name in known.STATEMENTS for written in _spellings(name)},
        }  # fmt: skip
        return handlers | {
            "newtheorem": self._theorem, "title": self._title,
            "maketitle": self._make_title, "titlepage": self._make_title,
            "frametitle": lambda _: self._slide_title(), "cmidrule": self._rule, "item": self._item,
            "bibitem": self._bibitem, "label": self._label,
            "caption": lambda _: self._argument(self._captioned),
            "par": lambda _: self._flush(), "multicolumn": self._multicolumn,
            "iffalse": lambda _: self.reader.lexer.skip_conditional(),
            **dict.fromkeys(("newenvironment", "renewenvironment"), lambda _: self._skip("moomm")),
        }  # fmt: skip

    def _skip(self, arguments: str) -> None:
        """Pass over arguments: m for one in braces, o for one in brackets."""
        for kind in arguments:
            {"m": self.reader.argument, "o": self.reader.optional}[kind]()

    def _section(self, name: str) -> None:
        self._flush()
        level = min(6, max(1, known.RANKS[name] + self._shift))
        self._argument(lambda title: self._heading(level, title))

    def _heading(self, level: int, title: str) -> None:
        if self._is_aside:  # in a cell or a caption
            self._say(f" {title} ")
        elif title and not self._preamble:
            self.blocks.heading(level, title)
            self.first_heading = self.first_heading or title[:MAX_TITLE].rstrip()
            self._just_headed = title
            self._flush()

    def _title(self, _: str) -> None:
        def titled(title: str) -> None:
            self._title_words = title[:MAX_TITLE].rstrip()
            self.title = _FOOTNOTE.sub("", self._title_words).strip()

        self._argument(titled)

    def _make_title(self, _: str) -> None:
        notes, self._footnotes = self._footnotes, []  # below the title, not above it
        self._flush()
        self._footnotes = notes
        if self._title_words and not self._preamble:
            self.blocks.heading(1, self._title_words)
        for said in self._front.values():
            if line := ", ".join(each.replace(" , ", ", ") for each in said if each):
                self._words[0].append(line)
                self._flush()
            said.clear()  # printed once, however often it is asked for
        self._title_words = ""

    def _accent(self, mark: str) -> None:
        tokens = self.reader.argument()
        letters = "".join(
            known.DOTLESS.get(token.text.rstrip("*")) or symbol(token.text) or ""
            if token.kind == "command" else token.text if token.kind in {"text", "space"} else ""
            for token in tokens
        )  # fmt: skip
        if letters:
            self._say(accented(mark, letters))
        else:
            self.reader.push([*tokens])

    def _cite(self, name: str) -> None:
        options = [option for option in (self.reader.optional(), self.reader.optional()) if option]
        keys = " ".join(as_source(self.reader.argument()).split())
        more = [" ".join(typeset(as_source(option).replace("~", " ")).split()) for option in options]
        if keys:
            self._say(f"[{', '.join([keys, *more])}]")

    def _refer(self, _: str) -> None:
        for key in as_source(self.reader.argument()).split(","):
            if key.strip():
                self._say(f"\ue000{key.strip()}\ue001")

    def _label(self, _: str) -> None:
        key = as_source(self.reader.argument()).strip()
        if not key or self._preamble:
            return
        if self._pictures:
            self._captions[-1].append(f"[{key}]")
        elif self._just_headed and not "".join(map("".join, self._words)).strip():
            self.labels[key] = self._just_headed[:_LONGEST_REFERENCE]
        elif not any(frame.kind == "argument" for frame in self._frames[-3:]):
            self._say(f"[{key}]")

    def _note_below(self, _: str) -> None:
        self._footnote += 1
        number = self._footnote
        self._say(f"[^{number}]")
        self._argument(lambda text: self._footnotes.append(f"[^{number}] {text}"))

    def _file(self, name: str) -> None:
        self.reader.optional()
        self.reader.optional()
        file = as_source(self.reader.argument()).strip()
        if name in {"import", "subimport"}:
            file += as_source(self.reader.argument()).strip()
        if file:
            self._note(f"the file {file!r}, which it takes in by \\{name}, was not read")
            self._say(f" [not read: {file}] ")

    def _in_brackets(self) -> tuple[Token, ...]:
        """Return the next argument, its option passed over."""
        self.reader.optional()
        return self.reader.argument()

    def _quantity(self, _: str) -> None:
        number = "".join(token.source for token in self._in_brackets()).strip()
        self.reader.optional()
        self._say(f"{number} {unit(self.reader.argument())}".rstrip())

    def _statement(self, name: str) -> None:
        if self._open["algorithmic"]:
            self._flush()
            self._say(f"{known.STATEMENTS[name.lower()]} ")
        self._opens_argument()

    def _rule(self, _: str) -> None:
        r"""Pass over the trimming and the columns of \cmidrule(lr){2-3}."""
        self.reader.optional()
        token = self.reader.raw()
        if token is not None and not token.text.startswith("("):
            self.reader.push([token])
        elif token is not None and ")" not in token.text:  # (l{2pt}r{2pt})
            while self.reader.argument() and (token := self.reader.raw()) is not None and ")" not in token.text:
                pass
        self.reader.argument()

    def _pass_overlay(self) -> None:
        token = self.reader.raw()
        if token is not None:
            rest = _OVERLAY.sub("", token.text)
            if token.kind != "text":
                self.reader.push([token])
            elif rest:
                self.reader.push([Token("text", rest, rest)])

    def _slide_title(self) -> None:
        self._flush()
        self._pass_overlay()
        while self.reader.optional() is not None:
            pass
        if self.reader.is_next("{"):
            self._argument(lambda title: self._heading(self._slide, title))

    def _raw(self, token: Token) -> None:
        text = token.text.strip().replace("\\%", "%").replace("\\#", "#").replace("\\_", "_").replace("\\&", "&")
        match token.more:
            case "includegraphics" if self._pictures and not self._is_aside:
                self._pictures[-1].append(text)
            case "includegraphics":
                self._say(f"![]({text})")
            case "href":
                self._argument(lambda words: self._say(f"[{words}](<{text}>)" if text else words))
            case _:
                self._say(text)

    def _fence(self, token: Token) -> None:
        if self._is_aside:
            self._inline(token._replace(kind="code", text=" ".join(token.text.split())))
            return
        self._flush()
        code = [readable_text(line) for line in token.text.strip("\n").split("\n")]
        if caption := caption_of(token.source):
            self._emit(lambda: self.blocks.paragraph(f"Listing: {typeset(caption)}"))
        self._emit(lambda: self.blocks.code(code, token.more))

    def _theorem(self, _: str) -> None:
        name = as_source(self.reader.argument()).strip()
        self.reader.optional()
        printed = typeset(as_source(self.reader.argument())).strip()
        self.reader.optional()
        self._theorems[name] = printed

    # environments

    def _begin(self, name: str) -> None:
        base = name.rstrip("*")
        if base == "document":
            self._preamble = False  # nothing that stood before is printed
            self._frames, self._open = [], Counter()
            self._words, self._rows, self._pictures, self._captions = [[]], [], [], []
            return
        if self._words[_DEEPEST:]:
            return
        self._flush()
        self._open[base] += 1
        self._frames.append(_Frame("environment", base))
        if base == "frame" and self._beamer:
            self._slide_title()
        else:
            self._begin_environment(base)

    def _begin_environment(self, base: str) -> None:
        if base in known.LISTS:
            self._skip("o")
            self.blocks.open_list(int(known.LISTS[base]))
        elif base in known.QUOTES:
            self.blocks.quotes += 1
        elif base in known.TABLES:
            self._skip(known.TABLES[base])
            self._rows.append([[]])
            self._words.append([])
        elif base in known.FLOATS:
            self._skip(known.FLOATS[base])
            self._pictures.append([])
            self._captions.append([])
        elif base in {"abstract", "thebibliography"}:
            self._skip("m" if base == "thebibliography" else "")
            if self._open["frontmatter"]:
                self._make_title("")
            self._heading(self._highest, "Abstract" if base == "abstract" else "References")
            if base == "thebibliography":
                self.blocks.open_list()
        elif base in self._theorems:
            self._say(f"{self._theorems[base]}. ")
        elif base in known.UNSEEN_OPTIONS:
            self._skip(known.UNSEEN_OPTIONS[base])

    def _end(self, name: str) -> None:
        """End an environment and all that was left open in it; one that was never begun ends nothing."""
        base = name.rstrip("*")
        if not (count := self._open[base]):
            return
        while self._open[base] == count:
            self._close()

    def _end_environment(self, name: str) -> None:
        if name in known.TABLES:
            self._end_table()
            return
        self._flush()
        if name in known.LISTS or name == "thebibliography":
            self.blocks.close_list()
        elif name in known.QUOTES:
            self.blocks.quotes -= 1
        elif name == "frontmatter":
            self._make_title("")
        elif name in known.FLOATS:
            self._end_float(name)

    def _item(self, _: str) -> None:
        while self._top.kind not in {"", "environment"}:
            self._close()  # what an item leaves open ends with it
        self._flush()
        self.blocks.item()
        bracket = self.reader.after_space()
        if bracket is not None and bracket.kind == "[":
            self._aside("option", lambda term: self._say(f"**{term}** " if term else ""))
        elif bracket is not None:
            self.reader.push([bracket])

    def _bibitem(self, _: str) -> None:
        self._flush()
        self.reader.optional()
        self.blocks.item()
        self._say(f"[{as_source(self.reader.argument()).strip()}] ")

    # tables and floats

    def _break(self, _: str) -> None:
        if self._top.name in known.TABLES:
            self.reader.optional()
            self._cell()
            self._rows[-1].append([])
        else:
            self._say(" ")

    def _cell(self) -> None:
        self._rows[-1][-1].append(self._taken(self._words[-1]))
        self._words[-1] = []

    def _multicolumn(self, _: str) -> None:
        count = as_source(self.reader.argument()).strip()
        self.reader.argument()
        columns = int(count) if re.fullmatch(r"[1-9]\d?", count) else 1

        def spread(text: str) -> None:
            self._say(text)
            if self._top.name in known.TABLES:
                for _ in range(1, columns):
                    self._cell()

        self._argument(spread)

    def _end_table(self) -> None:
        self._cell()
        self._words.pop()
        rows = self._rows.pop()
        if self._is_aside:  # a table in a cell
            self._say(" ".join(cell for row in rows for cell in row if cell))
            return
        self._flush()
        self._emit(lambda: self.blocks.table(rows))

    def _captioned(self, text: str) -> None:
        is_table = any(self._open[name] for name in known.FLOATS if "table" in name)
        if self._captions and not is_table and not self._captions[-1]:
            self._captions[-1].append(text)
        elif self._is_aside or not is_table:
            self._say(f" {text} ")
        else:
            self._flush()
            self._emit(lambda: self.blocks.write([f"**Table: {text}**"]))
            self._flush()

    def _end_float(self, name: str) -> None:
        pictures, captions = self._pictures.pop(), self._captions.pop()
        text = " ".join(part for part in captions if part)
        if pictures:
            first, *others = pictures
            alt = text.replace("[", "\\[").replace("]", "\\]")
            self._emit(lambda: self.blocks.write([f"![{alt}](<{first}>)"]))
            for other in others:
                self._emit(lambda other=other: self.blocks.write([f"![](<{other}>)"]))  # type: ignore[misc]
        elif text:
            self._emit(lambda: self.blocks.paragraph(text if "table" in name else f"Figure: {text}"))
        self._flush()


def _spellings(name: str) -> tuple[str, str]:
    r"""Return the spellings that packages give a statement of an algorithm: \ForAll, \FORALL; \if is TeX's own."""
    inner = {"elsif": "ElsIf", "forall": "ForAll"}.get(name, name.capitalize())
    return f"End{name[3:].capitalize()}" if name.startswith("end") else inner, name.upper()


# names that authors who do not use these packages give macros of their own
_OF_PACKAGES = frozenset({"SI", "qty", "si", "unit", *known.FRONT[:-1]} - {"author"}) | {
    written for name in known.STATEMENTS for written in _spellings(name)
}

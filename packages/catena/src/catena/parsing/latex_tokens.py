"""Cut LaTeX source into tokens, expand its macros within limits, and print its symbols, accents and units.

Mathematics and verbatim text stay whole.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from pylatexenc.latex2text import LatexNodes2Text, get_default_latex_context_db

_KNOWN: Mapping[str, Any] = tomllib.loads(files("catena").joinpath("data", "latex.toml").read_text(encoding="utf-8"))


def listed(name: str) -> frozenset[str]:
    """Return the names of commands or environments under a key of the table `data/latex.toml`."""
    return frozenset(_KNOWN[name].split())


RANKS = {name: rank for rank, name in enumerate(_KNOWN["ranks"].split())}
DEFINITIONS = ("newcommand", "renewcommand", "providecommand", "def", "let")
FILES = listed("files")
LISTS = dict.fromkeys(listed("bullets"), False) | dict.fromkeys(listed("numbered"), True)
"""Environments that are lists, and whether they are numbered."""

QUOTES, TABLES, FLOATS = listed("quotes"), _KNOWN["tables"], _KNOWN["floats"]
UNSEEN_OPTIONS, STATEMENTS = _KNOWN["unseen_options"], _KNOWN["statements"]
FRONT = ("subtitle", "author", "affil", "affiliation", "institute", "address", "date")
"""What the title of a document is printed with, in this order."""

INVISIBLE = {name: arguments for arguments, names in _KNOWN["invisible"].items() for name in names.split()}
"""Commands that print none of the arguments that are listed here (m in braces, o in brackets)."""

VERBATIM = listed("verbatim") | {"comment"}
MATH = listed("math") | {f"{name}*" for name in listed("math")}

_ENVIRONMENT = re.compile(r"\\(begin|end)[ \t]*\{([^{}\\\n]{0,80})\}")
_COMMAND = re.compile(r"\\(?:(?P<word>[A-Za-z@]+\*?)(?:[ \t]*\n?[ \t]*(?!\n)|[ \t]*)|(?P<sign>.|\n|\Z))", re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]+")
_TEXT = re.compile(r"[^\\{}\[\]$&~%#\s]+|.", re.DOTALL)
_COMMENT = re.compile(r"%[^\n]*(?:\n[ \t]*)?")
_PARAGRAPH = r"(\n)[ \t]*\n"
_OPENS_MATH = re.compile(r"\$\$?|\\[(\[]")
# by what opens a formula: what closes it, as a pattern with the mark as its group, and the kind of the token
_FORMULAS = {
    "$$": (r"(?<!\\)(?:\\\\)*(\$\$)", "display"), "$": (r"(?<!\\)(?:\\\\)*(\$)", "math"),
    r"\(": (r"(\\\))", "math"), r"\[": (r"(\\\])", "display"),
}  # fmt: skip
_VERB = re.compile(
    r"\\(?:verb|lstinline)\*?(?:\[[^\]\n]{0,400}\])?[ \t]*"
    r"(?P<code>\{(?:[^{}\n]|\{[^{}\n]*\}){0,400}\}|([^\sA-Za-z*{])(?:(?!\2).)*\2)"
)
_RAW = re.compile(
    r"\\(?P<word>url|href|path|nolinkurl|includegraphics)\*?[ \t]*+(?P<options>\[[^\]]{0,400}+\])?[ \t]*+\{"
)
_OPTION = re.compile(r"[ \t]*(?:\[(?P<options>(?:[^\]{}]|\{[^{}]*\})*)\])?[ \t]*")
_LISTING = re.compile(r"\\begin[ \t]*\{lstlisting\}")
_CAPTION = re.compile(r"(?<![a-z])caption\s*+=\s*+(?:\{(?:\[[^\]{}]*+\])?(?P<braced>[^{}]*+)\}|(?P<bare>[^,{}]*+))")
_LANGUAGE = re.compile(r"language\s*+=\s*+\{?(?:\[[^\]=]*+\])?\s*+([\w+#-]++)")
_MINTED = re.compile(r"\{([\w+#-]+)\}")
_BRACES = re.compile(r"\\.|[{}]|\n[ \t]*\n", re.DOTALL)
_CONDITIONALS = re.compile(r"\\(?:(if[A-Za-z@]*)|(else)(?![A-Za-z@])|(fi)(?![A-Za-z@]))")
_LONGEST_ADDRESS = 4_000  # characters
_MOST_FAILURES = 50  # ends looked for in vain, after which none is looked for any more
_COMMENT_IN_MATH = re.compile(r"(?<!\\)%[^\n]*(?:\n|\Z)")


class Token(NamedTuple):
    """A piece of the source.

    Attributes:
        kind: "command", "begin", "end", "space", "par", "text", "param", "math", "display", "code", "fence", "raw",
            or the character itself for {, }, [, ], & and ~.
        text: a command's or environment's name, a parameter's number, words, or the text between the marks.
        source: as written.
        more: of a fence its language, of a raw argument its command.
    """

    kind: str
    text: str
    source: str
    more: str = ""


class Lexer:
    """The tokens of a source, one at a time; no source takes more than time in proportion to its length."""

    def __init__(self, source: str) -> None:
        self.source = source.replace("\r\n", "\n").replace("\r", "\n")
        self._at = 0
        self._failures = 0  # conditionals and addresses without an end
        self._found: Counter[str] = Counter()  # by the pattern of a mark: where it was found last

    def next(self) -> Token | None:
        """Return the next token, or None at the end."""
        source, at = self.source, self._at
        while at < len(source):
            if source[at] != "%":
                return self._token(at)
            at = _end(_COMMENT, source, at)
            if source.startswith("\n", at):
                return self._take("par", at, _end(_SPACE, source, at))
        self._at = at
        return None

    def _token(self, at: int) -> Token:
        source = self.source
        if opening := _OPENS_MATH.match(source, at):
            return self._math(at, opening.group())
        match source[at]:
            case "\\":
                return self._command(at)
            case " " | "\t" | "\n":
                end = _end(_SPACE, source, at)
                return self._take("par" if source.count("\n", at, end) > 1 else "space", at, end)
            case "#" if source[at + 1 : at + 2].isdigit():
                return self._take("param", at, at + 2, source[at + 1])
            case "{" | "}" | "[" | "]" | "&" | "~":
                return self._take(source[at], at, at + 1)
        return self._take("text", at, _end(_TEXT, source, at))

    def skip_conditional(self) -> None:
        r"""Pass over what \iffalse leaves out, up to its \else or \fi, where there is one."""
        depth = 1
        if self._failures > _MOST_FAILURES:
            return
        for match in _CONDITIONALS.finditer(self.source, self._at):
            depth += 1 if match[1] else -1 if match[3] else 0
            if depth == 0 or (depth == 1 and match[2]):
                self._at = match.end()
                return
        self._failures += 1

    def _take(self, kind: str, start: int, end: int, text: str | None = None, more: str = "") -> Token:
        self._at = end
        source = self.source[start:end]
        return Token(kind, source if text is None else text, source, more)

    def _command(self, at: int) -> Token:
        source = self.source
        if match := _ENVIRONMENT.match(source, at):
            return self._environment(match)
        if match := _VERB.match(source, at):
            return self._take("code", at, match.end(), match["code"][1:-1])
        if match := _RAW.match(source, at):
            address = self._address(match.end())
            if address is not None:
                end = match.end() + len(address) + 1
                return self._take("raw", at, end, address, match["word"])
        match = _COMMAND.match(source, at)
        assert match is not None
        name = match["word"] or match["sign"]
        return self._take("command", at, match.end(), " " if name in "\n\t" else name)

    def _environment(self, match: re.Match[str]) -> Token:
        kind, name = match[1], match[2].strip()
        if kind == "end" or name not in VERBATIM | MATH:
            return self._take(kind, match.start(), match.end(), name)
        closing = f"\\end{{{name}}}"
        stop = self._find(f"({re.escape(closing)})", match.end())
        inner, after = self.source[match.end() : stop], stop + len(closing)
        is_closed = self.source.startswith(closing, stop)
        if name in MATH and not is_closed:
            return self._take(kind, match.start(), match.end(), name)
        if name in MATH:
            plain = name.rstrip("*") in {"equation", "displaymath", "math"}
            body = inner if plain else f"{match.group()}{inner}{closing}"
            return self._take("display", match.start(), after, in_one_line(body))
        if name in {"comment", "filecontents", "filecontents*"} and is_closed:
            return self._take("space", match.start(), after, " ")
        code, language = inner, "latex" if name in {"tikzpicture", "pgfpicture", "forest"} else ""
        if name in {"lstlisting", "minted", "Verbatim", "Verbatim*", "BVerbatim"}:
            option = _OPTION.match(inner)
            assert option is not None
            code, found = inner[option.end() :], _LANGUAGE.search(option["options"] or "")
            language = found[1].lower() if found else ""
            if name == "minted" and (named := _MINTED.match(code)):
                code, language = code[named.end() :], named[1]
        return self._take("fence", match.start(), after, code, language)

    def _math(self, start: int, opening: str) -> Token:
        """Return a formula, which no blank line may interrupt; an opening mark without an end stays as it is."""
        pattern, kind = _FORMULAS[opening]
        inside = start + len(opening)  # closing marks are as long
        end = self._find(pattern, inside)
        formula = self.source[inside:end]
        if end >= self._find(_PARAGRAPH, inside) or not formula.strip():
            return self._take("text", start, inside)
        return self._take(kind, start, end + len(opening), in_one_line(formula))

    def _find(self, pattern: str, start: int) -> int:
        """Return where a mark comes next, else the end; what was found once is not looked for again."""
        if self._found[pattern] <= start:
            found = re.compile(pattern).search(self.source, start)
            self._found[pattern] = found.start(1) if found else len(self.source)
        return self._found[pattern]

    def _address(self, start: int) -> str | None:
        """Return an argument that is closed on the same paragraph, or None."""
        depth = 1
        if self._failures > _MOST_FAILURES:
            return None
        for match in _BRACES.finditer(self.source, start, start + _LONGEST_ADDRESS):
            depth += {"{": 1, "}": -1}.get(match.group(), 0)
            if depth == 0:
                return self.source[start : match.start()]
            if match.group().startswith("\n"):
                break
        self._failures += 1
        return None


def in_one_line(math: str) -> str:
    """Return a formula without comments and line ends: on a line of its own it cannot be taken for Markdown."""
    return " ".join(_COMMENT_IN_MATH.sub(" ", math).split())


def caption_of(listing: str) -> str:
    """Return the caption that the options of a listing give it, as written; "" where there is none."""
    begin = _LISTING.match(listing)
    option = _OPTION.match(listing, begin.end()) if begin else None
    found = _CAPTION.search(option["options"] or "") if option else None
    return " ".join((found["braced"] or found["bare"] or "").split()) if found else ""


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


MAX_EXPANSIONS = 20_000  # of macros in one file; a book has some thousands
MAX_PRODUCED = 2_000_000  # characters that they may produce

_MOST_IN_VAIN = 1_000_000  # tokens, among which ends of arguments are looked for that are not there


@dataclass(frozen=True, slots=True)
class Macro:
    """The definition of a command: parameters from 1, the first one optional where it has a default."""

    parameters: int
    default: tuple[Token, ...] | None
    body: tuple[Token, ...]


class Reader:
    """The tokens of a source with macros expanded; tokens can be put back."""

    def __init__(self, source: str, reserved: frozenset[str]) -> None:
        self.lexer = Lexer(source)
        self.macros: dict[str, Macro] = {}
        self.spent = ""  # which limit was reached: what follows is not expanded
        self._reserved = reserved
        self._pushed: list[Token] = []
        self._expansions = self._produced = 0
        self._patience = _MOST_IN_VAIN

    def next(self) -> Token | None:
        """Return the next token that is no macro, or None at the end."""
        while (token := self.raw()) is not None:
            macro = self.macros.get(token.text) if token.kind == "command" and not self.spent else None
            if macro is None:
                return token
            self._expand(macro)
        return None

    def raw(self) -> Token | None:
        """Return the next token as it is."""
        return self._pushed.pop() if self._pushed else self.lexer.next()

    def peek(self) -> Token | None:
        """Return the next token as it is, and leave it there."""
        token = self.raw()
        self.push([token] if token else [])
        return token

    def is_next(self, kind: str) -> bool:
        """Tell whether the next token is of this kind."""
        token = self.peek()
        return token is not None and token.kind == kind

    def push(self, tokens: Sequence[Token]) -> None:
        """Put tokens back, so that they come next, in order."""
        self._pushed.extend(reversed(tokens))

    def argument(self) -> tuple[Token, ...]:
        """Return the next argument without its braces; nothing where its brace is never closed."""
        token = self.after_space()
        if token is None or token.kind in {"}", "par", "end", "begin"}:
            self.push([token] if token else [])
            return ()
        match token.kind:
            case "{":
                return self._until("}", token) or ()
            case "text":  # one character is an argument too
                first, rest = token.text[:1], token.text[1:]
                self.push([Token("text", rest, rest)] if rest else [])
                return (Token("text", first, first),)
        return (token,)

    def optional(self) -> tuple[Token, ...] | None:
        """Return the option in brackets that comes next, or None."""
        space = self.raw()
        token = self.raw() if space is not None and space.kind == "space" else space
        if token is None or token.kind != "[":
            self.push([one for one in (space, token if token is not space else None) if one])
            return None
        return self._until("]", token)

    def define(self, command: str) -> None:
        r"""Read a definition by \newcommand, \def or \let, and keep it where it is a simple one."""
        name = self.argument()
        command = command.rstrip("*")
        known = name[0].text if len(name) == 1 and name[0].kind == "command" else ""
        parameters, default = 0, None
        simple = True
        if command == "def":
            while (token := self.peek()) is not None and token.kind != "{":
                if token.kind == "par":
                    return
                self.raw()
                parameters += token.kind == "param"
                simple = simple and token.kind in {"param", "space"}
        elif command == "let":
            token = self.after_space()
            if token is not None and token.source != "=":
                self.push([token])
            self._keep(known, Macro(0, None, self.argument()))
            return
        else:
            count = as_source(self.optional() or ()).strip()
            parameters = int(count) if count in set("123456789") else 0
            default = self.optional()
        body = self.argument()
        if simple:
            self._keep(known, Macro(parameters, default, body))

    def _keep(self, name: str, macro: Macro) -> None:
        if name and name not in self._reserved:
            self.macros[name] = macro

    def _expand(self, macro: Macro) -> None:
        arguments: list[tuple[Token, ...]] = []
        if macro.parameters and macro.default is not None:
            arguments.append(self.optional() or macro.default)
        while len(arguments) < macro.parameters:
            arguments.append(self.argument())
        body: list[Token] = []
        for token in macro.body:
            if token.kind == "param":
                number = int(token.text)
                body.extend(arguments[number - 1] if 0 < number <= len(arguments) else ())
            elif "#" in token.text and token.kind in {"math", "display", "raw", "code"}:
                text = token.text
                for number, argument in enumerate(arguments, start=1):
                    text = text.replace(f"#{number}", as_source(argument)[:1_000])
                body.append(token._replace(text=text))
            else:
                body.append(token)
        self._expansions += 1
        self._produced += sum(1 + len(token.text) for token in body)
        if self._expansions >= MAX_EXPANSIONS:
            self.spent = f"were expanded {MAX_EXPANSIONS:,} times"
        elif self._produced >= MAX_PRODUCED:
            self.spent = f"gave {MAX_PRODUCED:,} characters"
        self.push(body)

    def after_space(self) -> Token | None:
        """Return the next token that is no space."""
        token = self.raw()
        while token is not None and token.kind == "space":
            token = self.raw()
        return token

    def _until(self, closing: str, opened: Token) -> tuple[Token, ...] | None:
        """Return the tokens up to the mark that closes what was opened; where there is none, put all back."""
        taken: list[Token] = []
        depth = 0
        while len(taken) < self._patience:
            token = self.raw()
            if token is None:
                break
            if token.kind == closing and depth == 0:
                return tuple(taken)
            taken.append(token)
            depth += {"{": 1, "}": -1}.get(token.kind, 0)
            if depth < 0 or (closing == "]" and token.kind == "par"):
                break
        self._patience -= len(taken)
        self.push([opened, *taken] if closing == "]" else taken)
        return None


def as_source(tokens: Sequence[Token]) -> str:
    """Return tokens as they were written."""
    return "".join(token.source for token in tokens)


ACCENTS = frozenset("'`^\"~=.cvuHkrbdt")  # names of commands that put a mark on the next letter

DOTLESS = {"i": "i", "j": "j"}  # letters that bear an accent instead of their dot
_TYPOGRAPHY = (("---", "—"), ("--", "–"), ("``", "“"), ("''", "”"), ("?`", "¿"), ("!`", "¡"), ("`", "‘"), ("'", "’"))
_ANY = re.compile("|".join(re.escape(mark) for mark, _ in _TYPOGRAPHY))
_PRINTED = dict(_TYPOGRAPHY)
_SHORTHANDS: Mapping[str, str] = _KNOWN["german"]
_SHORTHAND = re.compile("|".join(map(re.escape, _SHORTHANDS)))


def german(words: str) -> str:
    """Return words with the shorthands of German sources as they are printed: f"ur is für."""
    return _SHORTHAND.sub(lambda match: _SHORTHANDS[match.group()], words)


def typeset(words: str) -> str:
    """Return words with dashes and quotation marks as they are printed."""
    return _ANY.sub(lambda match: _PRINTED[match.group()], words)


_database, _to_text = cache(get_default_latex_context_db), cache(LatexNodes2Text)


@lru_cache(maxsize=4096)
def symbol(name: str) -> str | None:
    """Return the character that a command prints, or None where it is no such command."""
    if name in _KNOWN["symbols"]:
        return str(_KNOWN["symbols"][name])
    spec = _database().get_macro_spec(name)
    printed = getattr(spec, "simplify_repl", None)
    return printed if isinstance(printed, str) and "%" not in printed and not printed.startswith("<") else None


@lru_cache(maxsize=4096)
def accented(mark: str, letters: str) -> str:
    """Return letters of which the first bears an accent: e with ' is é."""
    first, rest = letters[:1], letters[1:]
    printed = _to_text().latex_to_text(f"\\{mark}{{{first}}}") if first.isalpha() else first
    return unicodedata.normalize("NFC", printed) + rest


_PREFIXES: Mapping[str, str] = _KNOWN["prefixes"]
_UNITS: Mapping[str, str] = {**_PREFIXES, **_KNOWN["units"]}
_POWERS = {"squared": "²", "cubed": "³"}


def unit(tokens: Sequence[Token]) -> str:
    r"""Return a unit as it is printed, with "·" between its parts and "/" before those behind \per.

    Of a command that is no unit known here, the name is printed.
    """
    printed, between = "", ""
    for token in tokens:
        if token.kind not in {"command", "text"}:
            continue
        name = token.text.rstrip("*") if token.kind == "command" else ""
        if name == "per":
            between = "/"
        elif name in _POWERS:
            printed += _POWERS[name]
        else:
            printed += (between if printed or between == "/" else "") + (_UNITS.get(name, name) or token.text)
            between = "" if name in _PREFIXES or not name else "·"
    return printed

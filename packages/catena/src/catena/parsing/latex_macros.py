"""The author's own macros of a LaTeX source, expanded within limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catena.parsing.latex_tokens import Lexer, Token

MAX_EXPANSIONS = 20_000  # of macros in one file; a book has some thousands
MAX_PRODUCED = 2_000_000  # characters that they may produce

_LONGEST_ARGUMENT = 50_000  # tokens
_LONGEST_OPTION = 1_000  # tokens
_MOST_FAILURES = 50  # arguments without an end, after which none is looked for any more


@dataclass(frozen=True, slots=True)
class Macro:
    """What stands for a command: parameters from 1, the first one optional where it has a default."""

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
        self._expansions = self._produced = self._failures = 0

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

    def push(self, tokens: Sequence[Token]) -> None:
        """Put tokens back, so that they come next, in order."""
        self._pushed.extend(reversed(tokens))

    def argument(self) -> tuple[Token, ...]:
        """Return the next argument without its braces; nothing where its brace is never closed."""
        token = self._after_space()
        if token is None or token.kind in {"}", "par", "end", "begin"}:
            self.push([token] if token else [])
            return ()
        if token.kind != "{":
            if token.kind == "text" and len(token.text) > 1:  # one character is an argument too
                self.push([Token("text", token.text[1:], token.text[1:])])
                return (Token("text", token.text[0], token.text[0]),)
            return (token,)
        return self._until("}", token, _LONGEST_ARGUMENT)

    def optional(self) -> tuple[Token, ...] | None:
        """Return what stands in brackets next, or None where nothing does."""
        space = self.raw()
        token = self.raw() if space is not None and space.kind == "space" else space
        if token is None or token.kind != "[":
            self.push([one for one in (space, token if token is not space else None) if one])
            return None
        failures = self._failures
        found = self._until("]", token, _LONGEST_OPTION)
        return found if self._failures == failures else None

    def define(self, command: str) -> None:
        r"""Read a definition by \newcommand, \def or \let, and keep it where it is a simple one."""
        name = self.argument()
        command = command.rstrip("*")
        known = name[0].text if len(name) == 1 and name[0].kind == "command" else ""
        parameters, default = 0, None
        simple = True
        if command == "def":
            while (token := self.raw()) is not None and token.kind != "{":
                parameters += token.kind == "param"
                simple = simple and token.kind in {"param", "space"}
                if token.kind == "par":
                    return
            self.push([token] if token else [])
        elif command == "let":
            token = self._after_space()
            if token is not None and token.source != "=":
                self.push([token])
            body = self.argument()
            self._keep(known, Macro(0, None, body))
            return
        else:
            count = as_source(self.optional() or ()).strip()
            parameters = int(count) if count.isdecimal() and len(count) == 1 else 0
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

    def _after_space(self) -> Token | None:
        token = self.raw()
        while token is not None and token.kind == "space":
            token = self.raw()
        return token

    def _until(self, closing: str, opened: Token, longest: int) -> tuple[Token, ...]:
        """Return the tokens up to the mark that closes what was opened; put all back where there is none."""
        taken: list[Token] = []
        depth = 0
        while self._failures < _MOST_FAILURES and len(taken) < longest:
            token = self.raw()
            if token is None:
                break
            if token.kind == closing and depth == 0:
                return tuple(taken)
            taken.append(token)
            depth += {"{": 1, "}": -1}.get(token.kind, 0)
            if depth < 0 or (closing == "]" and token.kind == "par"):
                break
        self._failures += 1
        self.push([opened, *taken] if closing == "]" else taken)
        return ()


def as_source(tokens: Sequence[Token]) -> str:
    """Return tokens as they were written."""
    return "".join(token.source for token in tokens)

"""How commands end when they do not end well: one message, one line of advice, an exit code, no traceback."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typer import Exit
from typer.core import TyperGroup

from catena.cli.console import err
from catena.cli.terminal import printable
from catena.errors import CancelledError, CatenaError, ParseError, UnknownDocumentError

OK, SOME_FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: all went well; an input failed or nothing was found; usage or an error; stopped by Ctrl-C."""

_HINT = " Try: "

# Advice that errors give to Python programs, in the words of the command line.
_IN_COMMANDS = {
    "parse(path, password=...)": "the same command with --password",
    "create=True": "catena index FILES --library PATH makes one",
}


class ProblemError(Exception):
    """A command cannot do what was asked; `hint` is what to do next."""

    def __init__(self, what: str, hint: str, code: int = WRONG) -> None:
        super().__init__(what, hint, code)
        self.what, self.hint, self.code = what, hint, code


class Commands(TyperGroup):
    """The group of all commands; it turns every way to fail into a message and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run one command line and exit with its code."""
        try:
            code = super().main(args, prog_name or "catena", complete_var, False, windows_expand_args, **extra)
        except Exception as error:
            code = _usage(error)
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            _let_go_of_stdout()
        sys.exit(code if isinstance(code, int) else OK)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and say what went wrong."""
        try:
            return super().invoke(ctx)
        except Exit:
            raise
        except (KeyboardInterrupt, CancelledError):
            hint = "the same command again: what is in the library already is skipped"
            say("what was written to a library is kept", hint, label="Stopped")
            raise Exit(INTERRUPTED) from None
        except Exception as error:
            if hasattr(error, "format_message"):  # wrong usage, for `main` to report
                raise
            raise Exit(_failed(error, bool(ctx.params.get("verbose")))) from None


def say(what: str, hint: str, *, label: str = "Error") -> None:
    """Write what went wrong to stderr, and below it the one line of advice."""
    from rich.text import Text

    console = err()
    console.print(Text.assemble((f"{label}: ", "bold red"), printable(what)), soft_wrap=True)
    console.print(Text.assemble(("Try: ", "bold"), printable(hint, one_line=True)), soft_wrap=True)


def check_targets(*files: Path | None) -> None:
    """Refuse files that could not be written in the end, before any work.

    Raises:
        ProblemError: the folder of one is not there.
    """
    for file in filter(None, files):
        if not file.parent.is_dir():
            raise ProblemError(f"cannot write {file}: its folder is not there", "a folder that exists")


def split_hint(message: str) -> tuple[str, str]:
    """Return a message of an error without its advice, and the advice ("" if there is none)."""
    what, _, hint = message.rpartition(_HINT) if _HINT in message else (message, "", "")
    if "Limits(" in hint:
        hint = f"reading it from Python with {hint}"
    return what.rstrip("."), _IN_COMMANDS.get(hint, hint)


def _failed(error: Exception, verbose: bool) -> int:
    if verbose:
        sys.stderr.write(printable("".join(traceback.format_exception(error))))
    if isinstance(error, BrokenPipeError):  # the reader of our output has seen enough
        _let_go_of_stdout()
        return OK
    what, hint, code = _told(error)
    say(printable(what, one_line=True), hint)
    return code


def _told(error: Exception) -> tuple[str, str, int]:
    """Return what went wrong, the advice and the exit code."""
    if isinstance(error, ProblemError):
        return error.what, error.hint, error.code
    if isinstance(error, CatenaError):
        what, hint = split_hint(str(error))
        return what, hint or _advice(error), SOME_FAILED if isinstance(error, ParseError) else WRONG
    if isinstance(error, OSError):
        return f"{error.strerror or type(error).__name__}: {error.filename or 'a file'}", "another path", WRONG
    return f"{type(error).__name__}: {error}", "catena -v COMMAND … for the traceback, then report it", WRONG


def _let_go_of_stdout() -> None:
    """Send what is still to be written nowhere: its reader has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _advice(error: CatenaError) -> str:
    if isinstance(error, UnknownDocumentError):
        return "catena status --library PATH lists the documents"
    if isinstance(error, ParseError):
        return "opening the file in a viewer; the name and the type may be wrong"
    return "catena doctor, or the same command with --help"


def _usage(error: Exception) -> int:
    """Report wrong usage; the CLI library's error knows the command it belongs to."""
    message = getattr(error, "format_message", None)
    if message is None:  # not wrong usage: it went wrong before any command ran
        return _failed(error, verbose=False)
    context = getattr(error, "ctx", None)
    name = context.command_path if context is not None else "catena"
    say(message().rstrip("."), f"{name} --help")
    return WRONG

"""End a command that fails: with one message, one line of advice, an exit code and no traceback."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from typer import Exit

from catena.cli.console import err, out, printable, tell
from catena.cli.examples import IN_COMMANDS
from catena.model import NO_DOCUMENTS, CancelledError, CatenaError, Degraded, Outcome, ParseError, Ranking
from catena.model.errors import BudgetExceededError, DamagedLibraryError, ParameterError, UnknownDocumentError, needs
from catena.model.near_names import meant, names_in, nearest

if TYPE_CHECKING:
    from catena.segments import Extraction

OK, SOME_FAILED, WRONG, OUT_OF_BUDGET, DAMAGED, INTERRUPTED = 0, 1, 2, 3, 4, 130
"""Exit codes: all went well; an input failed or nothing was found; usage or an error; the cap of spending was
reached; a library is not sound; stopped by Ctrl-C."""

_ASKING = frozenset({"search", "report"})  # commands whose one argument is a question
_CODES = {ParseError: SOME_FAILED, BudgetExceededError: OUT_OF_BUDGET, DamagedLibraryError: DAMAGED}
_CHOICE = re.compile(r"'([^']*)' is not (?:one of )?('.*')")  # as the CLI library refuses a value
_SLASH = re.compile(r"[/\\]")
_PATH = re.compile(r"(?<![\w.:/~-])(?:[A-Za-z]:[\\/]|/)[^\s'\":;,()<>]+")

_HINT = " Try: "

_LIMITS = {"seconds": "--timeout", "seconds_per_page": "--timeout", "memory_bytes": "--memory"}
_LIMIT = re.compile(rf"a higher Limits\(({'|'.join(_LIMITS)})=")
_OF_TLS = "ca_certs= with the authority"  # how long advice begins that ends in what holds here, too


class ProblemError(Exception):
    """A command cannot do what was asked; `hint` is what to do next."""

    def __init__(self, what: str, hint: str, code: int = WRONG) -> None:
        super().__init__(what, hint, code)
        self.what, self.hint, self.code = what, hint, code


def refuse(options: Mapping[str, object], what: str, hint: str) -> None:
    """Refuse the first option, by its name, that was given: what is wrong with it is `what`, which names it at "{}".

    Raises:
        ProblemError: there is one.
    """
    for name in (name for name, value in options.items() if value):
        raise ProblemError(what.format(name), hint)


def no_files() -> ProblemError:
    """Return what to say of paths that lead to no file."""
    hint = "a path that holds PDF, HTML, Markdown, LaTeX, text, Office files, EPUB or e-mail"
    return ProblemError("there are no files in these folders", hint, SOME_FAILED)


def end_with(failed: Sized, files: int) -> None:
    """End with the exit code of failure where some of the files were not read.

    Raises:
        ProblemError: some were not.
    """
    if failed:
        what = f"{len(failed)} of {files} files were not read"
        raise ProblemError(what, "the path and the type of the files named above", SOME_FAILED)


def say(what: str, hint: str, *, label: str = "Error", more: Mapping[str, str] | None = None) -> None:
    """Write what went wrong to stderr, below it `more` in lines with a label, and last the one line of advice."""
    from rich.text import Text

    console = err()
    console.print(Text.assemble((f"{label}: ", "bold red"), printable(what)), soft_wrap=True)
    for name, told in (more or {}).items():
        console.print(Text.assemble((f"{name}: ", "bold"), printable(told, one_line=True)), soft_wrap=True)
    console.print(Text.assemble(("Try: ", "bold"), printable(hint, one_line=True)), soft_wrap=True)


def check_targets(
    *files: Path | None, pictures: Iterable[Path | None] = (), inputs: Iterable[Path | None] = ()
) -> None:
    """Refuse files that could not be written in the end, or only over what the command reads, before any work.

    Args:
        files: to be written.
        pictures: to be written by catena-view, as .png or .html.
        inputs: that the command reads.

    Raises:
        ProblemError: the folder of one is not there, it is one of the `inputs` under another name, or a picture of
            another kind.
        MissingExtraError: there are pictures, and catena-view is not installed.
    """
    drawn = [each for each in pictures if each is not None]
    for picture in drawn:
        if picture.suffix.lower() not in (".png", ".html"):
            raise ProblemError(f"{picture.name} is neither .png nor .html", "a file name that ends in one of them")
    read = [each for each in inputs if each is not None and each.exists()]
    for file in filter(None, (*files, *drawn)):
        if not file.parent.is_dir():
            raise ProblemError(f"cannot write {file}: its folder is not there", "a folder that exists")
        if not os.access(file if file.exists() else file.parent, os.W_OK):
            raise ProblemError(f"cannot write {file}: you may not write there", "a folder of your own")
        if file.exists() and (same := next((each for each in read if file.samefile(each)), None)):
            also = "" if file == same else f", which is {same}"
            raise ProblemError(
                f"{file}{also} is read by this command, and would be overwritten", "another name for what is written"
            )
    if drawn:
        with needs("catena-view"):
            import_module("catena_view")


@contextmanager
def stopped_with(kept: str | Callable[[], str], hint: str = "the same command again") -> Iterator[None]:
    """Let Ctrl-C end the work inside with a line about what is kept, and the advice `hint`.

    Raises:
        Exit: it was stopped.
    """
    try:
        yield
    except (KeyboardInterrupt, CancelledError):
        say(kept if isinstance(kept, str) else kept(), hint, label="Stopped")
        raise Exit(INTERRUPTED) from None


def check_question(question: str) -> None:
    """Refuse a question that says nothing, before any work.

    Raises:
        ProblemError: it is empty, or white space.
    """
    if not question.strip():
        raise ProblemError("the question is empty", "what you would ask a colleague, in quotes")


def tell_degraded(degraded: Sequence[Degraded]) -> None:
    """Say what failed, or is not as it was asked for, while the rest went on."""
    for each in degraded:
        whole = each.what in ("segments", "filter") or each.why == NO_DOCUMENTS
        what = each.what if whole else f"without {each.what}"
        tell(f"{what}: {each.why}")


def tell_unknown(found: Ranking | Extraction) -> None:
    """Say which names of the question stand nowhere."""
    for name in found.unknown:
        tell(name)


def tell_found(found: Ranking | Extraction, *, as_json: bool) -> None:
    """Say what failed; and where something was found nevertheless, which names of the question stand nowhere.

    What is shown below, for a person, is headed: the best of what is about others has the best score, too.
    """
    tell_degraded(found.degraded)
    if getattr(found, "hits", None) or getattr(found, "segments", None):
        tell_unknown(found)
        if found.unknown and not as_json:
            names = ", ".join(name.text for name in found.unknown)
            out().print(
                printable(f"About others than {names}, by how well they fit the rest:", one_line=True), style="bold"
            )


def stands_nowhere(found: Ranking | Extraction) -> ProblemError:
    """Return that nothing was found because the question names what is not there, and which names are near."""
    what = "; ".join(map(str, found.unknown))
    near = any(name.near for name in found.unknown)
    hint = "a name that is there, or --keep-neighbours for what is said of the others" if near else "other words"
    return ProblemError(f"nothing was found: {what}", hint, SOME_FAILED)


def split_hint(message: str) -> tuple[str, str]:
    """Return a message of an error without its advice, and the advice ("" if there is none)."""
    what, _, hint = message.rpartition(_HINT) if _HINT in message else (message, "", "")
    if found := _LIMIT.match(hint):
        return what.rstrip("."), f"the same command with a higher {_LIMITS[found[1]]}"
    if "Limits(" in hint:
        hint = f"reading it from Python with {hint}"
    if hint.startswith(_OF_TLS):
        hint = "--ca-certs FILE with the authority that signed its certificate; https:// only where it speaks TLS"
    return what.rstrip("."), IN_COMMANDS.get(hint, hint)


def unread(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return those of files that failed, or were cut by time or memory: for these the next run does what is left."""
    return [outcome for outcome in outcomes if outcome.state == "failed" or outcome.cut]


def hints_for(failed: Sequence[Outcome]) -> list[str]:
    """Return what to do about files that failed, each hint once; of several files, with those it is for."""
    files: dict[str, list[str]] = {}
    for outcome in failed:
        if hint := split_hint(outcome.reason)[1]:
            files.setdefault(hint, []).append(outcome.source)
    if len(failed) == 1:
        return list(files)
    return [f"for {named(names)}: {hint}" for hint, names in files.items()]


def named(names: Sequence[str], most: int = 5) -> str:
    """Return the first of some names, in one line that a terminal may show, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return printable(", ".join(names[:most]), one_line=True) + more


def failed(error: Exception, verbose: bool) -> int:
    """Say what went wrong, with the traceback where `verbose`, and return the exit code."""
    if verbose:
        from catena.effects.redaction import redact, secrets_of

        told = "".join(traceback.format_exception(error))
        sys.stderr.write(printable(redact(told, secrets_of(None))))  # those of the environment
    if isinstance(error, BrokenPipeError):  # the reader of our output has seen enough
        let_go_of_stdout()
        return OK
    what, hint, code = _told(error)
    more = {"Kept": error.kept} if isinstance(error, CatenaError) else {}
    if type(error).__module__ == CatenaError.__module__:  # else the catalogue has no section for it
        more["See"] = f"catena explain-error {type(error).__name__}"
    say(printable(what, one_line=True), hint, more=more)
    return code


def _told(error: Exception) -> tuple[str, str, int]:
    """Return what went wrong, the advice and the exit code."""
    if isinstance(error, ProblemError):
        return error.what, error.hint, error.code
    if isinstance(error, CatenaError):
        what, hint = split_hint(str(error))
        code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), WRONG)
        return what, hint or _advice(error), code
    if isinstance(error, OSError):
        what = f"{error.strerror or type(error).__name__}: {error.filename or 'a file'}"
        return _public(what), "another path", WRONG
    what = _public(f"{type(error).__name__}: {error}")
    return what, "catena -v COMMAND … for the traceback, then report it", WRONG


def _public(text: str) -> str:
    """Return what an unforeseen error says, without secrets, and of paths that were not typed only the last part."""
    from catena.effects.redaction import redact, secrets_of

    typed = [word for argument in sys.argv[1:] for word in {argument, argument.rpartition("=")[2]} if word]

    def shown(found: re.Match[str]) -> str:
        path = found[0]
        return path if any(path.startswith(word) for word in typed) else f"…/{_SLASH.split(path)[-1]}"

    return _PATH.sub(shown, redact(text, secrets_of(None)))


def let_go_of_stdout() -> None:
    """Send what is still to be written nowhere: its reader has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _advice(error: CatenaError) -> str:
    if isinstance(error, UnknownDocumentError):
        return "catena status --library PATH lists the documents"
    if isinstance(error, ParseError):
        return "opening the file in a viewer; the name and the type may be wrong"
    if isinstance(error, ParameterError):
        near = nearest(error.value, names_in(error.allowed)) if isinstance(error.value, str) else None
        return near or "the same command with --help, which says what may be given"
    return error.usual_advice


def wrong_usage(error: Exception) -> int:
    """Report wrong usage; the CLI library's error knows the command it belongs to."""
    message = getattr(error, "format_message", None)
    if message is None:  # not wrong usage: it went wrong before any command ran
        return failed(error, verbose=False)
    if type(error).__name__ == "NoArgsIsHelpError":  # of a group without a command: its help is the message
        sys.stderr.write(f"{message()}\n")
        return WRONG
    context = getattr(error, "ctx", None)
    name = context.command_path if context is not None else "catena"
    what = message().rstrip(".").replace("Value error, ", "")
    refused = _CHOICE.search(what)
    hint = f"{name} --help"
    if "unexpected extra argument" in what and name.rpartition(" ")[2] in _ASKING:
        hint = f'quotes around the whole question, as in {name} "Which fuse is right?"'
    say(what + (meant(refused[1], names_in(refused[2])) if refused else ""), hint)
    return WRONG

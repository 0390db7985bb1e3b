"""Find a command by its name, import its module when it is run, and turn every failure into an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from catena import __version__
from catena.cli.console import PLAIN
from catena.cli.examples import GREETING, list_in_sections, with_examples
from catena.cli.failures import INTERRUPTED, OK, failed, let_go_of_stdout, say, wrong_usage
from catena.model.errors import CancelledError, MissingExtraError

_GROUP = "catena.commands"  # of entry points, by which installed packages add commands: name -> function or group
COMMANDS = {
    name: EntryPoint(name, f"catena.cli.{where}", _GROUP)
    for name, where in {
        "demo": "demo:demo", "parse": "parse:parse", "segment": "segment:segment", "views": "views:views",
        "index": "library:index", "search": "search:search", "cells": "search:cells", "figures": "figures:figures",
        "ask": "ask:ask", "evaluate": "measure:evaluate", "tune": "measure:tune", "calibrate": "measure:calibrate",
        "graph": "graph:app", "status": "library:status", "delete": "library:delete", "verify": "library:verify",
        "doctor": "doctor:doctor", "explain-error": "doctor:explain_error",
    }.items()
}  # fmt: skip
PACKAGES = {
    "report": "catena-view", "show": "catena-view", "server": "catena-server", "plan": "catena-server",
    "questions": "catena-bench", "judge": "catena-bench",
}  # fmt: skip
"""Command that is not in the core -> the package that adds it."""

RESUMED = frozenset({"index", "ask"})
"""Commands that write to a library as they go; what others keep, as replies of models, they say themselves."""


class Commands(TyperGroup):
    """The group of all commands; it turns every way to fail into a message and an exit code."""

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, *more: Any, **extra: Any) -> Any:
        """Run one command line and exit with its code."""
        PLAIN.set("--json" in (sys.argv[1:] if args is None else args))
        try:
            code = super().main(args, prog_name or "catena", *more, **{**extra, "standalone_mode": False})
        except Exception as error:
            code = wrong_usage(error)
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            let_go_of_stdout()
        sys.exit(code if isinstance(code, int) else OK)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, those that installed packages add behind those of the core."""
        return list(dict.fromkeys((*COMMANDS, *entry_points(group=_GROUP).names)))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name, imported now; None where there is none."""
        if self.commands.get(cmd_name) is None:
            added = () if cmd_name in COMMANDS else entry_points(group=_GROUP, name=cmd_name)
            if where := COMMANDS.get(cmd_name) or next(iter(added), None):
                self.commands[cmd_name] = _made(cmd_name, where.load())
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; of one in a package that is not installed, say which that is."""
        if self.get_command(ctx, args[0]) is None:
            if args[0] in PACKAGES:
                raise MissingExtraError(f"`catena {args[0]}`", PACKAGES[args[0]])
            self.commands = dict.fromkeys(self.list_commands(ctx), cast("Any", None))  # names to suggest
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands in the order in which one meets them."""
        list_in_sections(self.list_commands(ctx), formatter)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and say what went wrong."""
        try:
            return super().invoke(ctx)
        except typer.Exit:
            raise
        except (KeyboardInterrupt, CancelledError):
            into_library = ctx.invoked_subcommand in RESUMED
            goes_on = "what is in the library already is skipped" if into_library else "it begins anew"
            kept = (
                "what was written to a library is kept" if into_library else "libraries are whole, and as they were"
            )
            say(kept, f"the same command again: {goes_on}", label="Stopped")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if hasattr(error, "format_message"):  # wrong usage, for `main` to report
                raise
            raise typer.Exit(failed(error, bool(ctx.params.get("verbose")))) from None


class _Command(TyperCommand):
    """A command that takes its argument LIBRARY as an option, too, as other commands have it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put what -l or --library names in the place of the argument."""
        if self.params and self.params[0].metavar == "LIBRARY":
            for at, word in enumerate(args):
                name, given, path = word.partition("=")
                if name in ("-l", "--library"):
                    rest = args[at + 1 :]
                    args = [path, *args[:at], *rest] if given else [*rest[:1], *args[:at], *rest[1:]]
                    break
        return super().parse_args(ctx, args)


def _made(name: str, found: Any) -> Any:
    """Return the command or the group of commands of a function or a `Typer`, its examples below its help."""
    if isinstance(found, typer.Typer):
        for each in found.registered_commands:
            each.cls = _Command
        with_examples(found, f"{name} ")
        return get_group(found)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name, cls=_Command)(found)
    with_examples(alone)
    return get_command(alone)


app = typer.Typer(
    name="catena",
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help without rich is there in half the time
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"catena {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def catena(
    context: typer.Context,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """From long, look-alike documents to the few passages that answer a question, each cited.

    Data goes to stdout, progress and errors to stderr.

    Exit codes: 0 all went well, 1 an input failed or nothing was found, 2 wrong usage or an error,
    3 the cap of spending was reached, 4 a library is not sound, 130 stopped by Ctrl-C (the same command
    goes on where it stopped).
    """
    if context.invoked_subcommand is None:
        typer.echo(GREETING, nl=False)

"""The commands by name; each module holds the commands of one kind, and imports what is slow when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from catena import __version__
from catena.cli import (
    ask,
    calibrate,
    demo,
    doctor,
    evaluate,
    explain_error,
    figures,
    graph,
    judge,
    library,
    parse,
    plan,
    questions,
    report,
    search,
    segment,
    server,
    show_views,
    tune,
)
from catena.cli.examples import GREETING, with_examples
from catena.cli.failures import Commands

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


app.command()(demo.demo)
app.command()(parse.parse)
app.command()(segment.segment)
app.command()(show_views.views)
app.command()(library.index)
app.command()(search.search)
app.command()(report.report)
app.command()(figures.figures)
app.command()(ask.ask)
app.command()(questions.questions)
app.command()(evaluate.evaluate)
app.command()(judge.judge)
app.command()(tune.tune)
app.command()(calibrate.calibrate)
app.add_typer(graph.app, name="graph")
app.command()(library.status)
app.command()(library.delete)
app.command()(library.verify)
app.add_typer(server.app, name="server")
app.command()(plan.plan)
app.command()(doctor.doctor)
app.command()(explain_error.explain_error)

with_examples(app)

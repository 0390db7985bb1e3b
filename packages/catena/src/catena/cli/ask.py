"""`catena ask`: files and a question to cited passages, and to a written answer where a model is named."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catena.cli.console import err, out, write_json
from catena.cli.failures import SOME_FAILED, ProblemError, split_hint
from catena.cli.figures import places, shown_figures
from catena.cli.library import indexed
from catena.cli.llm_options import BaseUrl, opened_llm
from catena.cli.options import (
    AsJson,
    Engine,
    EntityNames,
    Figures,
    KeepNeighbours,
    NoNames,
    Number,
    Password,
    PdfEngine,
    RuledTables,
    names_options,
    preparation_of,
)
from catena.cli.search import ranking_as_json, stands_nowhere, tell_unknown
from catena.cli.terminal import printable
from catena.errors import ServiceError

if TYPE_CHECKING:
    from catena.answering.answer import Answer
    from catena.backends.openai_llm import OpenAILLM
    from catena.library import Library, SearchOptions
    from catena.model import Hit, Outcome, Ranking
    from catena.pipeline import Preparation


def ask(
    words: Annotated[
        list[str], typer.Argument(metavar="FILES… QUESTION", help="Files or folders, then the question in quotes.")
    ],
    *,
    k: Number = 5,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Let this OpenAI-compatible model write an answer.")
    ] = None,
    base_url: BaseUrl = None,
    library: Annotated[
        Path | None,
        typer.Option("--library", "-l", metavar="PATH", help="Keep the files in this library, and search all of it."),
    ] = None,
    entity: EntityNames = None,
    keep_neighbours: KeepNeighbours = False,
    no_names: NoNames = False,
    engine: PdfEngine = Engine.PYPDF,
    ruled_tables: RuledTables = False,
    figures: Figures = False,
    password: Password = None,
    as_json: AsJson = False,
) -> None:
    """Answer a question from files: numbered passages with citations, and with --model a written answer.

    The key of the model is read from CATENA_API_KEY or OPENAI_API_KEY. Without --model nothing leaves this machine.
    No model is asked where a name of the question stands nowhere in the files: then that is the answer.
    """
    *files, question = words
    if not files and library is None:
        raise ProblemError("there are no files to ask", f'catena ask FILE "{question}"')
    if base_url is not None and model is None:
        raise ProblemError("--base-url needs the name of a model", "--model NAME")
    options: SearchOptions = {"k": k, **names_options(entity, keep_neighbours, no_names)}
    llm = None if model is None else opened_llm(model, base_url)
    preparation = preparation_of(engine, ruled_tables, figures)
    with _opened(library, preparation, create=bool(files)) as opened:
        outcomes = indexed(opened, [*map(Path, files)], password) if files else ()
        ranking = opened.search(question, **options)
        shown = shown_figures(opened, ranking.hits)
    if library is None:  # its files are gone with it
        shown = {chunk: (figure, None) for chunk, (figure, _) in shown.items()}
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    for outcome in failed if ranking.hits or len(failed) > 1 else ():
        err().print(printable(f"not read: {_told(outcome)}", one_line=True), style="red", soft_wrap=True)
    if not ranking.hits:
        if as_json:
            nothing = ranking_as_json(question, ranking)
            write_json({"answer": None, "problem": None, **nothing, "files": outcomes})
        raise _nothing_found(failed) if failed or not ranking.unknown else stands_nowhere(ranking)
    tell_unknown(ranking)
    answer, problem = _answer(llm, question, ranking)
    if as_json:
        found = ranking_as_json(question, ranking, figures=shown)
        write_json({"answer": answer, "problem": problem, **found, "files": outcomes})
    else:
        _show(question, ranking.hits, answer, places(shown))
    if problem is not None:
        where = "OPENAI_API_KEY or CATENA_API_KEY, --model and --base-url; the passages above needed no model"
        raise ProblemError(f"no answer was written: {problem}", where)
    if failed:
        raise ProblemError(f"{len(failed)} of {len(outcomes)} files were not read", _hint(failed), SOME_FAILED)


@contextmanager
def _opened(path: Path | None, preparation: Preparation, *, create: bool) -> Iterator[Library]:
    """Open the given library, or one that is gone afterwards."""
    from catena.library import Library

    with ExitStack() as stack:
        if path is None:
            folder = tempfile.TemporaryDirectory(prefix="catena-ask-", ignore_cleanup_errors=True)
            path = Path(stack.enter_context(folder)) / "library"
        yield stack.enter_context(Library.open(path, preparation=preparation, create=create))


def _nothing_found(failed: Sequence[Outcome]) -> ProblemError:
    if failed:
        what = f"not read: {_told(failed[0])}" if len(failed) == 1 else f"{len(failed)} files were not read"
        return ProblemError(f"{what}; no passage was found", _hint(failed), SOME_FAILED)
    return ProblemError("no passage was found", "other words, or other files", SOME_FAILED)


def _told(failed: Outcome) -> str:
    return f"{failed.source}: {split_hint(failed.reason)[0]}"


def _hint(failed: Sequence[Outcome]) -> str:
    hints = (split_hint(outcome.reason)[1] for outcome in failed)
    return next(filter(None, hints), "the path and the type of the files named above")


def _answer(llm: OpenAILLM | None, question: str, ranking: Ranking) -> tuple[Answer | None, str | None]:
    """Return the answer and no problem, or no answer and the problem; neither where no model was named."""
    if llm is None:
        return None, None
    from catena.answering.answer import answer
    from catena.effects import Services, run

    try:
        with llm, err().status("the model is writing …"):
            return run(answer(question, ranking.hits, nowhere=ranking.unknown), Services(llm=llm)), None
    except ServiceError as error:
        return None, str(error)


def _show(question: str, passages: Sequence[Hit], answer: Answer | None, figures: Mapping[str, str]) -> None:
    from rich.text import Text

    from catena.cli.views import passages as listed

    if answer is not None:
        out().print(Text(printable(answer.text) + "\n"))
        if answer.unknown:
            numbers = ", ".join(map(str, answer.unknown))
            err().print(
                f"taken out of the answer: citations of passages that do not exist ({numbers})", style="yellow"
            )
        if not answer.cited:
            err().print("the answer cites no passage: do not rely on it", style="yellow")
    out().print(listed(passages, question, answer.cited if answer else None, figures=figures))

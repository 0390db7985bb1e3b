"""Make a data set of questions with answer scopes from documents by a model: `catena questions`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catena import Entry
from catena.cli.console import out, printable, tell, write_json
from catena.cli.failures import ProblemError, end_with
from catena.cli.llm_options import ModelOptions, done
from catena.cli.options import AsJson, FilePaths, ReadingChoices, grouped, listed
from catena.cli.views import sections_of
from catena.effects import Step, all_together
from catena.text import normalise_term

if TYPE_CHECKING:
    from rich.table import Table

    from catena_bench.questions.dataset import QuestionType
    from catena_bench.questions.generation import GeneratedQuestions, Rejected

REJECTED_SHOWN = 20  # questions that were not used; --json has all


@grouped
def questions(
    paths: FilePaths,
    *,
    llm: Annotated[str, typer.Option("--llm", metavar="MODEL", help="The OpenAI-compatible model that writes them.")],
    folder: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Write the data set there: two files.")
    ] = None,
    per_section: Annotated[
        int, typer.Option("--per-section", min=1, metavar="N", help="Questions asked for of each section.")
    ] = 3,
    types: Annotated[
        list[str] | None,
        typer.Option("--types", metavar="NAME,…", help="Only these types; NAME=MEANING is one of your own."),
    ] = None,
    guidance: Annotated[
        str, typer.Option("--guidance", metavar="TEXT", help="Told to the model, e.g. whom the questions are for.")
    ] = "",
    asking: ModelOptions,
    plan: Annotated[bool, typer.Option("--plan", help="Say what the model would take; ask nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the data set that is in the folder.")] = False,
    reading: ReadingChoices,
    as_json: AsJson = False,
) -> None:
    """Make a data set for measuring search from your own documents: questions, answers, and where each answer stands.

    A model writes questions of eight types about each section, and copies the sentences that answer them. A question
    is used when these stand in the section, so that the scope of each answer is known in characters; the others are
    shown with the reason. The folder then holds documents.jsonl.gz and questions.jsonl.gz: for `catena-bench views`
    and `catena-bench tables`, and for `catena_bench.questions.dataset` in Python; `catena evaluate` reads another
    layout. The key of the model is read from CATENA_API_KEY or OPENAI_API_KEY; its replies are kept in the journal,
    so that a stopped run goes on where it ended.
    """
    from catena.structure import SectionChunkOptions

    wanted = _types(types)
    if not plan:
        _check_target(folder, force=force)
    preparation = replace(reading.preparation(), chunks=SectionChunkOptions())
    with asking.services(llm, dry=plan) as services:
        entries, failed = sections_of(paths, preparation, reading.password)
        step = _all(entries, per_section, wanted, guidance)
        if plan or folder is None:
            counts = {"documents": len(entries), "sections": sum(len(entry.chunks) for entry in entries)}
            asking.show_plan(step, services, counts, as_json=as_json)
            return
        made = done(step, services, "asking", "sections")
    _write(folder, entries, made, force=force)
    _tell(made)
    if as_json:
        write_json(_as_json(folder, entries, made, wanted))
    else:
        _show(folder, entries, made, wanted)
    end_with(failed, len(entries) + len(failed))


def _types(given: Sequence[str] | None) -> tuple[QuestionType, ...]:
    """Return the types of questions: all eight, or those that were named.

    Raises:
        ProblemError: a name is none of them.
    """
    from catena_bench.questions.dataset import EIGHT_TYPES, QuestionType

    if given is None:
        return EIGHT_TYPES
    known = {normalise_term(each.name): each for each in EIGHT_TYPES}
    found: list[QuestionType] = []
    for item in given:
        name, _, meaning = item.partition("=")
        if meaning.strip():
            found.append(QuestionType(name.strip(), meaning.strip()))
            continue
        for named in listed([item]):
            if normalise_term(named) not in known:
                names = ", ".join(each.name for each in EIGHT_TYPES)
                raise ProblemError(f"--types {named}: there is no such type", f"{names}; or NAME=MEANING")
            found.append(known[normalise_term(named)])
    if not found:
        raise ProblemError("--types names no type of question", '--types "comparative,cause and effect"')
    return tuple({normalise_term(each.name): each for each in found}.values())


def _check_target(folder: Path | None, *, force: bool) -> None:
    """Refuse a folder that is not to be written to, before any model is asked.

    Raises:
        ProblemError: there is none, it is a file, or it holds a data set that is not to be replaced.
    """
    from catena_bench.questions.dataset import DOCUMENTS, QUESTIONS

    if folder is None:
        raise ProblemError("the data set needs a place", "--out FOLDER; --plan needs none")
    if folder.exists() and not folder.is_dir():
        raise ProblemError(f"{folder} is no folder", "another --out")
    there = sorted(path.name for name in (DOCUMENTS, QUESTIONS) for path in folder.glob(f"{name}.jsonl*"))
    if there and not force:
        raise ProblemError(f"{folder} holds {there[0]} already", "another --out, or --force to replace it")


def _all(
    entries: Sequence[Entry], per_section: int, types: Sequence[QuestionType], guidance: str
) -> Step[GeneratedQuestions]:
    """Ask about all documents side by side, and return what was made of them as if they were one.

    Raises:
        CatenaError: not a failure of the model, but of what surrounds it.
    """
    from catena_bench.questions.generation import GeneratedQuestions, generate_scope_questions

    steps = [
        generate_scope_questions(
            entry.document, entry.chunks, per_section=per_section, types=types, guidance=guidance
        )
        for entry in entries
    ]
    results = yield from all_together(steps)
    names = [each.name for each in fields(GeneratedQuestions)]
    return GeneratedQuestions(
        **{name: tuple(each for made in results for each in getattr(made, name)) for name in names}
    )


def _write(folder: Path, entries: Sequence[Entry], made: GeneratedQuestions, *, force: bool) -> None:
    from catena_bench.questions.dataset import ScopeDataset, write_scope_dataset

    if not made.questions:
        reasons = [*(lost.why for lost in made.degraded), *(each.reason for each in made.rejected)]
        why = next(iter(reasons), "no section is long enough to be asked about")
        raise ProblemError(
            f"there is no question, and nothing was written: {why}", "another model, or other files", 1
        )
    dataset = ScopeDataset.of([(entry.document, entry.sections) for entry in entries], made.questions)
    write_scope_dataset(folder, dataset, overwrite=force)


def _tell(made: GeneratedQuestions) -> None:
    """Say on stderr for which sections there are no questions because the model failed."""
    from catena.cli.rendering import number

    for part in made.degraded[:REJECTED_SHOWN]:
        tell(f"no {part.what}: {part.why}")
    if made.degraded:
        lost = number(len(made.degraded), "section")
        tell(f"no questions about {lost}; the same command with --force asks for these again")


def _as_json(
    folder: Path, entries: Sequence[Entry], made: GeneratedQuestions, types: Sequence[QuestionType]
) -> dict[str, Any]:
    from catena_bench.questions.dataset import type_distribution

    return {
        "out": folder,
        "documents": len(entries),
        "sections": sum(len(entry.chunks) for entry in entries),
        "too_short": len(made.too_short),
        "questions": len(made.questions),
        "types": type_distribution(made.questions, types),
        "rejected": made.rejected,
        "degraded": made.degraded,
    }


def _show(folder: Path, entries: Sequence[Entry], made: GeneratedQuestions, types: Sequence[QuestionType]) -> None:
    from catena.cli.rendering import number
    from catena_bench.questions.generation import LEAST_WORDS

    rejected, short = made.rejected, len(made.too_short)
    sections = sum(len(entry.chunks) for entry in entries)
    out().print(_distribution(made, types))
    if rejected:
        out().print(_rejected(rejected))
    about = f"{number(sections, 'section')} of {number(len(entries), 'document')}"
    told = [f"{number(len(made.questions), 'question')} about {about}"]
    told += [f"{number(short, 'section')} of fewer than {LEAST_WORDS} words not asked about"] * bool(short)
    told += [f"{number(len(rejected), 'question')} not used"] * bool(rejected)
    out().print(f"{'; '.join(told)}. Written: {printable(str(folder), one_line=True)}")


def _distribution(made: GeneratedQuestions, types: Sequence[QuestionType]) -> Table:
    """Return how many questions are of each type, as Figure 5 of the paper has it."""
    from catena.cli.rendering import table
    from catena_bench.questions.dataset import type_distribution

    listed = table("Type", "Questions#", "Share#")
    for name, share in type_distribution(made.questions, types).items():
        listed.add_row(printable(name, one_line=True), str(share.count), f"{share.share:.0%}")
    return listed


def _rejected(rejected: Sequence[Rejected]) -> Table:
    from catena.cli.rendering import table

    more = f", the first {REJECTED_SHOWN} of {len(rejected)}" if len(rejected) > REJECTED_SHOWN else ""
    listed = table("Question", "Why not", title=f"Not used{more}")
    for each in rejected[:REJECTED_SHOWN]:
        listed.add_row(printable(each.question, one_line=True), printable(each.reason, one_line=True))
    return listed

"""The command `catena-bench graph`: what it takes, what it tells, and what it writes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from catena.cli.failures import ProblemError, check_targets
from catena.cli.llm_options import ModelOptions, stoppable
from catena.cli.option_groups import grouped
from catena.effects import Services, Tariff
from catena.graph import FeatureScorer
from catena.model import CatenaError, ParameterError
from catena_bench import graph, graph_answers, graph_pictures
from catena_bench.graph_embedding import STATIC, embedder_named, model_named
from catena_bench.graph_measures import CUTOFFS
from catena_bench.graph_methods import USUAL
from catena_bench.graph_rankings import HYBRID
from catena_bench.graph_setting import Setting, Tuning
from catena_bench.graph_studies import STUDIES
from catena_bench.graph_tuning import TUNED
from catena_bench.sizes import sizes_of
from catena_bench.tables_cli import services_of

app = typer.Typer(add_completion=False, rich_markup_mode=None)

Figures = Mapping[str, float | str]


@app.command("graph")
@grouped
def command(
    *,
    data: Annotated[Path, typer.Option(help="A folder with dev_corpus and dev_questions, .jsonl or .jsonl.gz.")],
    embedder: Annotated[
        str, typer.Option(help="static, minilm, or the name or path of a sentence-transformers model.")
    ] = STATIC,
    methods: Annotated[str, typer.Option(help="Which, between commas.")] = ",".join(USUAL),
    k: Annotated[str, typer.Option("--k", help="Cutoffs of recall.")] = ",".join(map(str, CUTOFFS)),
    size: Annotated[
        list[str] | None, typer.Option(help="questions=NUMBER: ask only so many; train=NUMBER: fine-tune on so many.")
    ] = None,
    train_on: Annotated[
        Path | None, typer.Option(help="A folder whose train split scorers are trained on [that of --data].")
    ] = None,
    scorer: Annotated[
        Path | None,
        typer.Option(help="A file of scripts/train_walk_scorer.py, for walk and scorer_only [the shipped]."),
    ] = None,
    fine_tune: Annotated[
        bool, typer.Option("--fine-tune", help=f"Also {TUNED}: train the encoder of --embedder with the scorer.")
    ] = False,
    epochs: Annotated[int | None, typer.Option(min=1, help="Of --fine-tune [1].")] = None,
    studies: Annotated[str, typer.Option(help=f"Which, of {','.join(STUDIES)}.")] = "",
    cache: Annotated[Path | None, typer.Option(help="A folder in which vectors are kept between runs.")] = None,
    llm: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="Let this model answer, from chains in three orders, from gold, from nothing."
        ),
    ] = None,
    asking: ModelOptions,
    plan: Annotated[bool, typer.Option("--plan", help="Say what the model would take; ask nothing.")] = False,
    plots: Annotated[
        Path | None, typer.Option(help="A folder to draw pictures into, of the methods and of each study.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Where to write it; stdout otherwise.")] = None,
) -> None:
    """Ask questions of several hops, each of the whole corpus: JSON to a file or stdout, the rest to stderr.

    With --llm replies are kept in the journal: the same command again goes on where it stopped, and pays for nothing
    twice. The key is read from CATENA_API_KEY or OPENAI_API_KEY.
    """
    console = Console(stderr=True)

    def tell(message: str) -> None:
        console.print(f"graph: {message}", markup=False, highlight=False)

    try:
        check_targets(json_file, plots)
        sizes = sizes_of(size or [], ("questions", "train"))
        cutoffs, chosen = _cutoffs(k), tuple(dict.fromkeys((*_listed(methods), *([TUNED] if fine_tune else []))))
        name, model = embedder_named(embedder)
        figures: dict[str, float | str] = {"about.data": data.resolve().name, "about.embedder": name}
        if not fine_tune and (epochs is not None or "train" in sizes):
            raise ProblemError("--epochs and --size train=NUMBER say how to fine-tune", "also --fine-tune")
        tuning = None
        if fine_tune:
            tuning = Tuning(model=model_named(embedder), epochs=epochs or 1, questions=sizes.get("train"))
        asking.require(llm, plan=plan)
        figures |= {} if llm is None else {"about.model": llm}
        tariff = asking.spending.tariff() if plan else None
        with (
            services_of(llm, asking, dry=plan) as services,
            stoppable(services.journal) if services.journal is not None else nullcontext(),
        ):
            figures |= graph.run(
                data,
                embedder=model,
                methods=chosen,
                k=cutoffs,
                questions=sizes.get("questions"),
                cache=cache,
                train_on=train_on,
                scorer=None if scorer is None else FeatureScorer.load(scorer),
                tuning=tuning,
                studies=_listed(studies),
                answers=None if llm is None else partial(_answers, services=services, tariff=tariff),
                tell=tell,
            )
        measured = [method for method in chosen if f"recall_at_5.{method}" in figures]
        for picture in graph_pictures.draw(figures, measured, plots) if plots is not None else ():
            tell(f"drew {picture}")
    except (CatenaError, ProblemError) as error:
        what = f"{error.what}. Try: {error.hint}" if isinstance(error, ProblemError) else str(error)
        console.print(f"error: {what}", markup=False, soft_wrap=True)
        raise typer.Exit(2) from None
    console.print(table(figures, measured, cutoffs))
    text = json.dumps(figures, indent=1, sort_keys=True) + "\n"
    if json_file is None:
        sys.stdout.write(text)
    else:
        json_file.write_text(text, encoding="utf-8")


def table(figures: Figures, methods: Sequence[str], cutoffs: Sequence[int]) -> Table:
    """Return a line for each method: its figures in percent, and what it has over hybrid at 5."""
    passages, questions = figures["n_passages"], figures["n_questions"]
    title = (
        f"{figures['about.data']}, {figures['about.embedder']}: {questions:,} questions over {passages:,} passages"
    )
    measures = [*(f"recall_at_{k}" for k in sorted({*cutoffs, 5})), "all_at_5"]
    shown = Table("percent", *(measure.replace("_", " ") for measure in measures), f"over {HYBRID} at 5", title=title)
    for method in methods:
        key = f"difference.recall_at_5.{method}-{HYBRID}"
        over = (
            f"{figures[key]:+.1f} [{figures[f'{key}.low']:+.1f}, {figures[f'{key}.high']:+.1f}]"
            if key in figures
            else ""
        )
        shown.add_row(method, *(f"{figures[f'{measure}.{method}']:.1f}" for measure in measures), over)
    return shown


def _answers(setting: Setting, *, services: Services, tariff: Tariff | None) -> Mapping[str, float]:
    """Let the model answer, or with a tariff only say what that would take."""
    if tariff is None:
        return graph_answers.answered(setting, services)
    return graph_answers.planned(setting, services, tariff)


def _listed(given: str) -> tuple[str, ...]:
    return tuple(name for part in given.split(",") if (name := part.strip()))


def _cutoffs(given: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in _listed(given))
    except ValueError:
        raise ParameterError("k", given, "whole numbers between commas") from None

"""Declare the command `catena-bench graph`: its options, its messages, and the table and JSON that it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from catena import ParameterError, Services
from catena.cli.failures import ProblemError, check_targets
from catena.cli.llm_options import ModelOptions
from catena.cli.options import grouped
from catena.effects import Tariff
from catena.graph import FeatureScorer
from catena_bench import graph
from catena_bench.graph import CUTOFFS, STUDIES, USUAL, answered, planned
from catena_bench.graph_data import STATIC, embedder_named, model_named
from catena_bench.graph_setting import HYBRID, TUNED, Setting, Tuning
from catena_bench.options import (
    JsonFile,
    OnlyPlan,
    errors_told,
    names_in,
    services_of,
    sizes_of,
    teller,
    write_figures,
)
from catena_bench.pictures import draw

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
    plan: OnlyPlan = False,
    plots: Annotated[
        Path | None, typer.Option(help="A folder to draw pictures into, of the methods and of each study.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Ask questions of several hops, each of the whole corpus: JSON to a file or stdout, the rest to stderr.

    With --llm replies are kept in the journal: the same command again goes on where it stopped, and pays for nothing
    twice. The key is read from CATENA_API_KEY or OPENAI_API_KEY.
    """
    console = Console(stderr=True)
    tell = teller("graph", console)
    with errors_told(console):
        check_targets(json_file, plots)
        sizes = sizes_of(size or [], ("questions", "train"))
        cutoffs, chosen = _cutoffs(k), tuple(dict.fromkeys((*names_in(methods), *([TUNED] if fine_tune else []))))
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
        with services_of(llm, asking, dry=plan) as services:
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
                studies=names_in(studies),
                answers=None if llm is None else partial(_answers, services=services, tariff=tariff),
                tell=tell,
            )
        measured = [method for method in chosen if f"recall_at_5.{method}" in figures]
        for picture in draw(figures, measured, plots) if plots is not None else ():
            tell(f"drew {picture}")
    console.print(table(figures, measured, cutoffs))
    write_figures(figures, json_file)


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
        return answered(setting, services)
    return planned(setting, services, tariff)


def _cutoffs(given: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in names_in(given))
    except ValueError:
        raise ParameterError("k", given, "whole numbers between commas") from None

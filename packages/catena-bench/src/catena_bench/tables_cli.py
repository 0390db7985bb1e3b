"""Declare the command `catena-bench tables`: its options, its messages, and the Markdown and JSON that it writes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from catena import ParameterError, Services
from catena.cli.failures import check_targets
from catena.cli.llm_options import ModelOptions, Spending
from catena.cli.options import grouped
from catena.effects import Plan
from catena_bench.options import OnlyPlan, errors_told, names_in, services_of, teller, write_figures
from catena_bench.tables import TABLES, USUAL, TableChoice, make, told_of, with_tasks
from catena_bench.tables_asking import Ledger, by_purpose, planning
from catena_bench.tables_asking import asking as asking_for
from catena_bench.tables_forms import JUDGED_AT, document_of, figures_of
from catena_bench.tables_material import By, TabledDocument, read_tabled_documents
from catena_bench.views_retrievers import KNOWN, Dense, Retriever, embedder_of, retrievers_of
from catena_bench.views_retrievers import USUAL as RETRIEVERS

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@grouped
def tables(
    *,
    data: Annotated[Path, typer.Option(help="A data set, as `catena questions` writes it, or a folder of several.")],
    table: Annotated[
        str | None, typer.Option(help=f"Which, of {','.join(TABLES)} [{','.join(USUAL)}, and 5 with --llm].")
    ] = None,
    retrievers: Annotated[str, typer.Option(help=f"Which, of {','.join(KNOWN)}.")] = ",".join(RETRIEVERS),
    embedder: Annotated[
        str | None, typer.Option(help="Name or path of a sentence-transformers model: one retriever more.")
    ] = None,
    llm: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Let this model make views, atomic units and summaries.")
    ] = None,
    views_by: Annotated[By | None, typer.Option(help="Who makes the views [llm with --llm].")] = None,
    judge: Annotated[bool, typer.Option("--judge", help="Let the model answer and judge too: Figure 3.")] = False,
    judge_at: Annotated[str, typer.Option(help="At which k.")] = ",".join(f"{k:g}" for k in JUDGED_AT),
    questions: Annotated[
        int | None, typer.Option(min=1, help="Ask only so many questions about each document.")
    ] = None,
    asking: ModelOptions,
    plan: OnlyPlan = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Where to write all figures.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Where to write the tables; stdout otherwise.")] = None,
) -> None:
    """Run the tables of MC-indexing on documents of one's own: JSON, Markdown, progress on stderr.

    Without --llm nobody is asked: views are made offline, sentences stand where the paper has atomic units, and
    RAPTOR's summaries are sentences too; the tables say so. With it, replies are kept in the journal: the same
    command again goes on where it stopped, and pays for nothing twice. The key is read from CATENA_API_KEY or
    OPENAI_API_KEY.
    """
    console = Console(stderr=True)
    with errors_told(console):
        check_targets(json_file, markdown)
        asking.require(llm, plan=plan)
        choice = TableChoice(
            tables=names_in(table) if table is not None else (*USUAL, *(["5"] if llm else [])),
            judged_at=_cutoffs(judge_at) if judge else (),
            views_by=views_by or ("llm" if llm else "offline"),
            by="llm" if llm else "offline",
        )
        engines = retrievers_of(names_in(retrievers), embedder)
        sources = read_tabled_documents(data, questions)
        run = _Run(sources, engines, choice, llm or "", teller("tables", console))
        with services_of(llm, asking, dry=plan) as services:
            text, figures = run.planned(services, asking.spending) if plan else run.done(services)
    if json_file is not None:
        write_figures(figures, json_file)
    if markdown is None or plan:
        sys.stdout.write(text)
    else:
        markdown.write_text(text, encoding="utf-8")


class _Run:
    """One run of the command, for real or planned; both return the text and the figures to write."""

    def __init__(
        self,
        sources: tuple[TabledDocument, ...],
        retrievers: tuple[Retriever, ...],
        choice: TableChoice,
        model: str,
        tell: Callable[[str], None],
    ) -> None:
        self.sources, self.retrievers, self.choice, self.model = sources, retrievers, choice, model
        self.embedder = embedder_of(retrievers)
        self.tell = tell

    def done(self, services: Services) -> tuple[str, Mapping[str, float | str]]:
        """Make the tables."""
        ledger = Ledger()
        ask = asking_for(services, self.embedder, ledger, self.tell)
        materials, found = make(self.sources, self.retrievers, self.choice, ask, self.tell)
        if "5" in self.choice.tables:
            found = with_tasks(found, ledger.tasks)
        told = told_of(
            materials,
            self.choice,
            model=self.model,
            embedder=self.embedder.name,
            dense=any(isinstance(each, Dense) for each in self.retrievers),
        )
        figures: dict[str, float | str] = {
            "about.model": self.model,
            "about.views_by": self.choice.views_by,
            "about.units_by": self.choice.by,
            "about.clustered_by": self.embedder.name,
            "n_documents": len(materials),
            "n_questions": sum(len(each.asked.questions) for each in materials),
            "n_degraded": sum(len(each.degraded) for each in materials),
        }
        for each in found:
            figures |= figures_of(each)
        return document_of("MC-indexing on these documents", told, found), figures

    def planned(self, services: Services, spending: Spending) -> tuple[str, Mapping[str, float | str]]:
        """Say what the model would be asked, and ask nothing."""
        plans: list[Plan] = []
        tariff = spending.tariff()
        ask = planning(services, self.embedder, plans, tariff)
        make(self.sources, self.retrievers, self.choice, ask, self.tell)
        usages = by_purpose(plans)
        figures: dict[str, float | str] = {"plan.kept": sum(each.kept for each in plans)}
        lines = []
        for purpose, usage in usages.items():
            key = f"plan.{purpose.replace(' ', '_')}"
            figures |= {
                f"{key}.calls": usage.calls, f"{key}.tokens_in": usage.input_tokens,
                f"{key}.tokens_out_at_most": usage.output_tokens, f"{key}.cost_at_most": usage.cost,
            }  # fmt: skip
            cost = f", {usage.cost:,.2f} at most" if spending.priced else ""
            lines.append(
                f"{purpose}: {usage.calls:,} calls, {usage.input_tokens:,} tokens in, "
                f"at most {usage.output_tokens:,} out{cost}"
            )
        calls = sum(usage.calls for usage in usages.values())
        lines.append(f"{calls:,} calls in all; {figures['plan.kept']:,} replies are kept already")
        lines.append(
            "Estimated: what is asked again for replies of no use, RAPTOR above its first layer, answers, judgements."
        )
        return "\n".join(lines) + "\n", figures


def _cutoffs(given: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in names_in(given))
    except ValueError:
        found = ()
    if not found or any(k not in (*JUDGED_AT, 10.0) for k in found):
        raise ParameterError("judge-at", given, "of 1.5, 3, 5 and 10, between commas")
    return found

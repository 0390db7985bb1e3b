"""Run the tables of MC-indexing on documents, questions and models of one's own: `catena-bench tables`.

| scheme | what is returned | what it is found by |
|---|---|---|
| fixed100, fixed200, fixed300 | whole sentences up to so many word pieces | their text |
| fixed100_content, … | the same, inside sections | their text |
| raptor | leaves of 300 word pieces | RAPTOR's tree of summaries, traversed |
| units, units_plus | atomic units, or sentences; so many more that they have the tokens of sections | their text |
| content_raw, content_keywords, content_summary | sections | one view |
| mc_indexing | sections | three views, by the paper's quota |
| fixed300_views, fixed200_views | fixed lengths | three views, by the paper's quota |
| catena | sections | as Catena finds them by default |

Nothing is cut off before it is embedded, beyond the window of an encoder too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from catena import ParameterError, Services
from catena.cli.failures import check_targets
from catena.cli.llm_options import ModelOptions
from catena.cli.options import grouped, listed
from catena.effects import Plan
from catena_bench import tables_forms, tables_schemes
from catena_bench.figures import Tell
from catena_bench.options import OnlyPlan, errors_told, services_of, teller, write_figures
from catena_bench.tables_asking import Asker, Ledger, by_purpose, plan_figures, planning
from catena_bench.tables_asking import asking as asking_for
from catena_bench.views_data import AskedDocument, read_asked_documents
from catena_bench.views_retrievers import KNOWN, Dense, Retriever, embedder_of, retrievers_of
from catena_bench.views_retrievers import USUAL as RETRIEVERS

TABLES = ("1", "2", "4", "5", "6", "7", "9", "10", "11")
USUAL = ("1", "2", "4", "6", "7", "10")
_SAME = {"11": "4"}  # of other documents in the paper
_VIEWED = {tables_schemes.SECTIONS: {"2", "4", "10"}, "fixed200": {"9"}, "fixed300": {"6"}}
_SEARCHED = {
    tables_schemes.SECTIONS: {"2", "4", "10"},
    "fixed100": {"2", "10"},
    "fixed200": {"2", "9", "10"},
    "fixed300": {"2", "6", "10"},
    "fixed200_content": {"9"},
    "fixed300_content": {"6"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChoice:
    """The tables to show, and the makers of what they need.

    Attributes:
        tables: numbers out of `TABLES`; Table 5 needs a model.
        judged_at: the k at which answers are compared (Figure 3); () for no answers. It needs a model.
        views_by: who makes the views.
        by: who divides into units and summarises for RAPTOR: "llm", or "offline" for sentences and their choice.
    """

    tables: tuple[str, ...]
    judged_at: tuple[float, ...] = ()
    views_by: tables_schemes.By = "offline"
    by: tables_schemes.By = "offline"

    def __post_init__(self) -> None:
        if not self.tables and not self.judged_at:
            raise ParameterError("table", "", f"at least one of {', '.join(TABLES)}")
        for number in self.tables:
            if number == "3":
                raise ParameterError("table", number, f"of {', '.join(TABLES)}; for Table 3, run once per --llm")
            if number not in TABLES:
                raise ParameterError("table", number, f"of {', '.join(TABLES)}")
        if self.by == "offline":
            if self.views_by == "llm":
                raise ParameterError("views-by", self.views_by, "'offline' without a model. Try: --llm NAME")
            if self.judged_at or "5" in self.tables:
                what = "--judge" if self.judged_at else "table 5"
                raise ParameterError(what, "asked for", "left out without a model. Try: --llm NAME")
        object.__setattr__(self, "tables", tuple(dict.fromkeys(_SAME.get(number, number) for number in self.tables)))

    @property
    def searched(self) -> frozenset[str]:
        """Names of the chunks that are searched."""
        chosen = set(self.tables)
        judged = (tables_schemes.SECTIONS, tables_forms.BASELINE) if self.judged_at else ()
        return frozenset([*(name for name, needed in _SEARCHED.items() if needed & chosen), *judged])

    @property
    def wanted(self) -> tables_schemes.Wanted:
        """Return what has to be made of the documents."""
        chosen = set(self.tables)
        viewed = [name for name, needed in _VIEWED.items() if needed & chosen]
        if self.judged_at and tables_schemes.SECTIONS not in viewed:
            viewed.append(tables_schemes.SECTIONS)
        return tables_schemes.Wanted(
            viewed=tuple(viewed),
            units=bool({"2", "7", "10"} & chosen),
            tree="2" in chosen,
            views_by=self.views_by,
            by=self.by,
        )


def make(
    sources: Sequence[AskedDocument], retrievers: Sequence[Retriever], choice: TableChoice, ask: Asker, tell: Tell
) -> tuple[tuple[tables_schemes.TableMaterial, ...], tuple[tables_forms.PaperTable, ...]]:
    """Make of the documents what the tables need, search it, and let answers be judged if that was chosen.

    Args:
        sources: documents with questions.
        retrievers: at least one.
        choice: what is to be shown.
        ask: who answers the requests.
        tell: is told how far the run is.

    Returns:
        What was made, and the tables but for Table 5, which is known at the end only (`table_5`).

    Raises:
        CatenaError: not a failure of a model, but of what surrounds it (no service, the budget, the journal).
    """
    number = sum(len(each.questions) for each in sources)
    tell(f"{len(sources):,} documents, {number:,} questions: cutting, views, units, trees")
    materials = ask(tables_schemes.make_material(sources, choice.wanted))
    how = tables_schemes.SchemeRun(
        chunks=choice.searched, shipped="2" in choice.tables, factor=tables_schemes.factor_of(materials)
    )
    found = dict(_searched(materials, retrievers, how, tell)) if how.chunks else {}
    measured = tables_forms.TableInputs(materials=materials, found=found, wanted=choice.wanted, factor=how.factor)
    tables = []
    for name in choice.tables:
        if name in _MAKERS:
            tell(f"table {name}")
            tables.append(_MAKERS[name](measured))
    if choice.judged_at:
        tell(f"answers from sections and from {tables_forms.BASELINE}")
        tables.append(tables_forms.figure_3(ask(tables_forms.judge(materials, found, choice.judged_at))))
    return materials, tuple(tables)


def told_of(
    materials: Sequence[tables_schemes.TableMaterial], choice: TableChoice, *, model: str, embedder: str, dense: bool
) -> tuple[str, ...]:
    """Return how the tables were made, a sentence each: what a model did, and what stood in where there was none."""
    lines = [
        f"{sum(len(each.asked.questions) for each in materials):,} questions, each asked of its own document, about "
        f"{len(materials):,} documents; intervals (95%), tokens and figures by document are in the JSON.",
        f"Keywords and summaries: {f'by {model}' if choice.views_by == 'llm' else 'offline, by no model'}; a section "
        "of at most 200 tokens is its own summary.",
    ]
    if choice.wanted.units and choice.by == "offline":
        lines.append("Sentence units stand where the paper has atomic units, which a model cuts (--llm).")
    if choice.wanted.tree:
        by = f"by {model}" if choice.by == "llm" else "of sentences chosen offline"
        lines.append(
            f"RAPTOR: leaves of {tables_schemes.LEAVES} tokens, clusters by {embedder}, summaries {by}, traversed."
        )
    if dense:
        lines.append("No text is cut off before it is embedded: a longer one is the mean of its windows.")
    if undivided := sum(not each.asked.divided for each in materials):
        lines.append(f"{undivided:,} documents have no sections: the whole of each is one, which is found always.")
    if lost := [each for material in materials for each in material.degraded]:
        lines.append(f"{len(lost):,} texts that the model was asked for are missing, the first: {lost[0].what}.")
    return tuple(lines)


def _searched(
    materials: Sequence[tables_schemes.TableMaterial],
    retrievers: Sequence[Retriever],
    how: tables_schemes.SchemeRun,
    tell: Tell,
) -> Iterator[tuple[str, Sequence[tables_schemes.Searched]]]:
    for retriever in retrievers:
        found = []
        for number, material in enumerate(materials, start=1):
            found.append(tables_schemes.searched(material, retriever, how))
            if number * 10 // len(materials) != (number - 1) * 10 // len(materials):
                tell(f"{retriever.name}: {number:,} of {len(materials):,} documents searched")
        yield retriever.name, tuple(found)


_MAKERS: Mapping[str, Callable[[tables_forms.TableInputs], tables_forms.PaperTable]] = {
    "1": lambda measured: tables_forms.table_1(measured.materials),
    "2": tables_forms.table_2,
    "4": tables_forms.table_4,
    "6": lambda measured: tables_forms.table_of_length(measured, 300),
    "7": lambda measured: tables_forms.table_7(
        measured.materials, tables_forms.names_of(measured.wanted, measured.factor)[tables_schemes.UNITS]
    ),
    "9": lambda measured: tables_forms.table_of_length(measured, 200),
    "10": tables_forms.table_10,
}


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
    views_by: Annotated[tables_schemes.By | None, typer.Option(help="Who makes the views [llm with --llm].")] = None,
    judge: Annotated[bool, typer.Option("--judge", help="Let the model answer and judge too: Figure 3.")] = False,
    judge_at: Annotated[str, typer.Option(help="At which k.")] = ",".join(f"{k:g}" for k in tables_forms.JUDGED_AT),
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
            tables=listed([table]) if table is not None else (*USUAL, *(["5"] if llm else [])),
            judged_at=_cutoffs(judge_at) if judge else (),
            views_by=views_by or ("llm" if llm else "offline"),
            by="llm" if llm else "offline",
        )
        engines = retrievers_of(listed([retrievers]), embedder)
        sources = read_asked_documents(data, questions)
        run = _Run(sources, engines, choice, llm or "", teller("tables", console))
        with services_of(llm, asking, dry=plan) as services:
            text, figures = run.planned(services, asking) if plan else run.done(services)
    if json_file is not None:
        write_figures(figures, json_file)
    if markdown is None or plan:
        sys.stdout.write(text)
    else:
        markdown.write_text(text, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of the command, for real or planned; both return the text and the figures to write."""

    sources: tuple[AskedDocument, ...]
    retrievers: tuple[Retriever, ...]
    choice: TableChoice
    model: str
    tell: Tell

    @property
    def embedder(self) -> Dense:
        """Return the embedder of what is clustered."""
        return embedder_of(self.retrievers)

    def done(self, services: Services) -> tuple[str, Mapping[str, float | str]]:
        """Make the tables."""
        ledger = Ledger()
        ask = asking_for(services, self.embedder, ledger, self.tell)
        materials, found = make(self.sources, self.retrievers, self.choice, ask, self.tell)
        if "5" in self.choice.tables:
            numbers = {f"table{number}": place for place, number in enumerate(TABLES)}
            tables = (*found, tables_forms.table_5(ledger.tasks))
            found = tuple(sorted(tables, key=lambda table: numbers.get(table.key, len(TABLES))))
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
            figures |= tables_forms.figures_of(each)
        return tables_forms.document_of("MC-indexing on these documents", told, found), figures

    def planned(self, services: Services, asking: ModelOptions) -> tuple[str, Mapping[str, float | str]]:
        """Say what the model would be asked, and ask nothing."""
        plans: list[Plan] = []
        tariff = asking.tariff()
        ask = planning(services, self.embedder, plans, tariff)
        make(self.sources, self.retrievers, self.choice, ask, self.tell)
        usages = by_purpose(plans)
        figures: dict[str, float | str] = {"plan.kept": sum(each.kept for each in plans)}
        lines = []
        for purpose, usage in usages.items():
            figures |= plan_figures(f"plan.{purpose.replace(' ', '_')}", [usage])
            cost = f", {usage.cost:,.2f} at most" if asking.priced else ""
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
        found = tuple(float(part) for part in listed([given]))
    except ValueError:
        found = ()
    if not found or any(k not in (*tables_forms.JUDGED_AT, 10.0) for k in found):
        raise ParameterError("judge-at", given, "of 1.5, 3, 5 and 10, between commas")
    return found

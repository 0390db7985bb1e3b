"""Run `catena segment`: divide a file into sections by meaning, and show every repair of a model's answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catena.cli.console import err, out, plain, printable, write_json
from catena.cli.failures import SOME_FAILED, ProblemError, tell_degraded
from catena.cli.llm_options import ModelOptions, stoppable
from catena.cli.options import AsJson, DryRun, FieldsOf, Given, ReadingChoices, grouped, option
from catena.effects import Services, Step
from catena.effects import plan as planned
from catena.model import Document, lines_in
from catena.structure.segment_repair import Repair
from catena.structure.segment_tree import Segmentation
from catena.structure.segmentation import PLANNED_ANSWERS, SegmentOptions, segment_with_llm

if TYPE_CHECKING:
    from rich.table import Table


@grouped
def segment(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A PDF, HTML, Markdown or text file.")],
    *,
    llm: Annotated[
        str | None, option("MODEL", "Let this OpenAI-compatible model divide it, and name the parts.")
    ] = None,
    divided: Annotated[Given, FieldsOf(SegmentOptions, under="--under")],
    asking: ModelOptions,
    plan: DryRun = False,
    reading: ReadingChoices,
    as_json: AsJson = False,
) -> None:
    """Divide a file into sections by meaning: where its embedding turns, or, with --llm, as a model says.

    The sections tile the text also where the answer of the model is wrong: each repair of it is shown. The key of the
    model is read from CATENA_API_KEY or OPENAI_API_KEY; replies are kept in the journal, so that nothing is paid for
    twice. `catena index --segmentation` divides files so while it indexes them.
    """
    from catena.effects import run
    from catena.enrichment.static_embedding import StaticEmbedder
    from catena.library.pipeline import read

    asking.require(llm, plan=plan)
    with asking.services(llm, dry=plan) as opened:
        services = Services(embedder=StaticEmbedder()) if llm is None else opened
        document = read(file, reading.preparation(), source=str(file), password=reading.password).document
        step = _step(document, llm, divided)
        if plan:
            found = planned(step, services, tariff=asking.tariff(), stand_ins=PLANNED_ANSWERS)
            remark = "Where a window begins depends on the answer before it: this is an estimate."
            counts = {"kept": found.kept, "exact": found.exact}
            asking.write_plan(found, counts, [] if found.exact else [remark], as_json=as_json)
            return
        with stoppable(services.journal), err().status("dividing the text …"):
            segmentation = run(step, services)
    tell_degraded(segmentation.degraded)
    if as_json:
        write_json(_as_json(document, segmentation))
    elif segmentation.sections:
        _show(document, segmentation)
    if not segmentation.sections:
        raise ProblemError(f"{file} has no text to divide", "a file with text; a scan needs OCR", SOME_FAILED)


def _step(document: Document, llm: str | None, divided: Given) -> Step[Segmentation]:
    from catena.structure.embedding_segmentation import EmbeddingOptions, segment_by_embedding

    if llm is None:
        return segment_by_embedding(document, EmbeddingOptions(**divided))
    return segment_with_llm(document, SegmentOptions(**divided))


def _as_json(document: Document, found: Segmentation) -> dict[str, Any]:
    """Return the sections with their lines, from 1, and every repair; offsets are 0-based, [start, end)."""
    sections = [
        {
            **plain(section),
            "lines": lines_in(document.text, section.start, section.end),
            "characters": section.end - section.start,
            "generated": section.position in found.generated,
        }
        for section in found.sections
    ]
    return {
        "source": document.source,
        "characters": len(document.text),
        "sections": sections,
        "repairs": found.repairs,
        "degraded": found.degraded,
    }


def _show(document: Document, found: Segmentation) -> None:
    from rich.text import Text

    from catena.cli.rendering import number, table

    listed = table("Title", "Lines#", "Characters#")
    for section in found.sections:
        first, last = lines_in(document.text, section.start, section.end)
        indent = "  " * max(0, section.level - 1)
        style = "italic" if section.position in found.generated else ""
        title = Text(indent + printable(section.title or "(no title)", one_line=True), style=style)
        listed.add_row(title, f"{first}-{last}" if first != last else str(first), f"{section.end - section.start:,}")
    out().print(listed)
    if found.repairs:
        out().print(_repairs(found.repairs))
    made = f", {number(len(found.generated), 'title')} not printed in it" if found.generated else ""
    repaired = f"; {number(len(found.repairs), 'repair')} of what the model answered" if found.repairs else ""
    out().print(f"{number(len(found.sections), 'section')}{made}{repaired}")


def _repairs(repairs: Sequence[Repair]) -> Table:
    """Return every repair; lines are those that the model was shown, which cut long ones into several."""
    from catena.cli.rendering import table

    made = table("Repair", "Shown lines#", "Section#", "Was", "Became", title="What was put right")
    for each in repairs:
        first, last = each.lines
        place = "" if each.section is None else str(each.section + 1)
        made.add_row(
            each.kind.replace("_", " "), f"{first}-{last}", place,
            printable(each.was, one_line=True), printable(each.became, one_line=True),
        )  # fmt: skip
    return made

"""`catena parse --llm`: files to Markdown with a language model, planned, paid for once, and checked page by page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catena.cli.console import out, write_json
from catena.cli.failures import ProblemError
from catena.cli.llm_options import stoppable
from catena.cli.terminal import printable

if TYPE_CHECKING:
    from rich.table import Table

    from catena.cli.llm_options import Spending
    from catena.effects import Event, Plan, Services, Step
    from catena.formatting.fidelity_report import FidelityReport
    from catena.formatting.llm_markdown import FormatOptions, Formatted
    from catena.model.layout import Parsed


def formatted(
    parsed: Mapping[Path, Parsed], services: Services, options: FormatOptions
) -> dict[Path, tuple[Parsed, FidelityReport]]:
    """Format files side by side, with a progress bar on stderr.

    Returns:
        Each file with its document as the model wrote it, and its report.

    Raises:
        Exit: it was stopped by Ctrl-C; stderr says what is kept.
        CatenaError: the budget would be passed, or the journal failed.
    """
    from catena.effects import Failed, run

    with stoppable(services.journal), _progress(_windows(parsed, options)) as tell:
        results = run(_all(parsed, options), replace(services, progress=tell))
    done: dict[Path, tuple[Parsed, FidelityReport]] = {}
    for (file, before), result in zip(parsed.items(), results, strict=True):
        if isinstance(result, Failed):
            raise result.error
        done[file] = replace(before, document=result.document), result.fidelity
    return done


def show_plan(
    parsed: Mapping[Path, Parsed], services: Services, options: FormatOptions, spending: Spending, *, as_json: bool
) -> None:
    """Write what formatting these files would take; nothing is called."""
    from catena.effects import plan
    from catena.formatting.llm_markdown import PLANNED_ANSWERS

    found = plan(_all(parsed, options), services, tariff=spending.tariff(), stand_ins=PLANNED_ANSWERS)
    if found.stopped_by:
        raise ProblemError(f"the plan stopped: {found.stopped_by}", "the same command without --plan")
    windows = _windows(parsed, options)
    if as_json:
        write_json({"files": len(parsed), "windows": windows, "kept": found.kept, **usage_as_json(found, spending)})
        return
    out().print(usage_table(found, spending))
    more = "An answer that is not faithful is asked for once again; that is not counted."
    kept = f"{found.kept} of {windows} windows are in the journal already. " if found.kept else ""
    out().print(f"{kept}{more}")


def told(report: FidelityReport) -> str:
    """Return in one line who wrote how many pages, and name the pages of the layout formatter."""
    from catena.cli.views import number

    states = report.states
    by_layout = [str(page.page) for page in report.pages if page.state == "layout"]
    parts = [f"{number(states['llm'], 'page')} by the model"]
    if states["re-asked"]:
        parts.append(f"{states['re-asked']} asked again")
    if by_layout:
        shown = ", ".join(by_layout[:20]) + (" …" if len(by_layout) > 20 else "")
        parts.append(f"{len(by_layout)} from the layout: {shown}")
        parts.append(f"because of {_reasons(report)}")
    return "; ".join(parts)


def _reasons(report: FidelityReport) -> str:
    """Return what was wrong with the model's pages, the most frequent first; for no answer, why there was none."""
    faults = [fault for page in report.pages if page.state == "layout" for fault in page.faults]
    kinds = [kind for kind, _ in Counter(fault.kind for fault in faults).most_common()]
    silent = next((f" ({fault.detail})" for fault in faults if fault.kind == "no-answer" and fault.detail), "")
    return ", ".join(kind + (silent if kind == "no-answer" else "") for kind in kinds) or "too little recall or order"


def write_fidelity(reports: Sequence[FidelityReport], target: Path) -> None:
    """Write one report as an object, several as a list."""
    import json

    values = [report.as_json() for report in reports]
    text = json.dumps(values[0] if len(values) == 1 else values, ensure_ascii=False, indent=2)
    target.write_text(text + "\n", encoding="utf-8")


def draw_fidelity(reports: Sequence[FidelityReport], target: Path) -> None:
    """Draw the strip of one report; of several, one picture each, numbered from 1."""
    from catena.plots.fidelity import fidelity_strip

    for report, path in zip(reports, pictures(target, len(reports)), strict=True):
        if report.pages:
            fidelity_strip(report, path)


def pictures(target: Path, count: int) -> list[Path]:
    """Return where so many pictures go: `target` for one, numbered from 1 for several."""
    if count == 1:
        return [target]
    return [target.with_stem(f"{target.stem}-{number}") for number in range(1, count + 1)]


def _all(parsed: Mapping[Path, Parsed], options: FormatOptions) -> Step[list[Any]]:
    from catena.effects import together
    from catena.formatting.llm_markdown import format_markdown

    steps: list[Step[Formatted]] = [format_markdown(each, options) for each in parsed.values()]
    return together(steps)


def _windows(parsed: Mapping[Path, Parsed], options: FormatOptions) -> int:
    from catena.formatting.llm_markdown import window_count

    return sum(window_count(each, options) for each in parsed.values())


def usage_as_json(found: Plan, spending: Spending) -> dict[str, Any]:
    """Return calls, tokens and, where prices were given, money of all that would be asked."""
    total = found.total
    money = {"cost": round(total.cost, 6)} if spending.priced else {}
    return {"calls": total.calls, "input_tokens": total.input_tokens, "output_tokens": total.output_tokens, **money}


def usage_table(found: Plan, spending: Spending) -> Table:
    """Return calls, tokens and money by purpose, as a table."""
    from rich.table import Table

    table = Table("purpose", box=None, pad_edge=False)
    for name in ("calls", "tokens in", "tokens out", *(["money"] if spending.priced else [])):
        table.add_column(name, justify="right")
    rows = [*found.by_purpose.items(), *([("in all", found.total)] if len(found.by_purpose) != 1 else [])]
    for purpose, usage in rows:
        money = [f"{usage.cost:,.4f}"] if spending.priced else []
        table.add_row(
            printable(purpose), f"{usage.calls:,}", f"{usage.input_tokens:,}", f"{usage.output_tokens:,}", *money
        )
    return table


@contextmanager
def _progress(windows: int) -> Iterator[Any]:
    """Show how many windows are done, how many came from the journal and how many were asked for again."""
    from catena.cli.progress import progress
    from catena.formatting.drafts import PURPOSE_AGAIN

    done = kept = again = 0
    with progress("formatting", "windows", windows) as show:

        def tell(event: Event) -> None:
            nonlocal done, kept, again
            if event.kind not in {"finished", "cached", "failed"}:
                return
            second = event.purpose == PURPOSE_AGAIN
            done, again = done + (not second), again + second
            kept += event.kind == "cached"
            notes = [f"{kept} kept"] * bool(kept) + [f"{again} again"] * bool(again)
            show(completed=done, notes=", ".join(notes))

        yield tell

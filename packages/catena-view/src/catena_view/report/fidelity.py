"""The fidelity strips of a report, and the reader of those that `catena parse --fidelity` wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from catena.model import EvaluationError
from catena_view.plots.fidelity import FidelityReportLike, fidelity_strip
from catena_view.report.values import Missing, PageRow, Strip, Strips

_NONE = Missing(
    missing="No fidelity was given: a library does not keep how faithful the Markdown of its pages is.",
    hint="catena parse FILE.pdf --llm MODEL --fidelity FILE.json, then catena report … --fidelity FILE.json",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFidelity:
    """A fidelity report as it was kept; `source` names its document."""

    source: str
    pages: tuple[PageRow, ...]


def read_fidelity(path: str | Path) -> tuple[KeptFidelity, ...]:
    """Read what `catena parse --fidelity` wrote: one report, or a list of them.

    Raises:
        EvaluationError: the file cannot be read, or holds something else.
    """
    source = Path(path)
    try:
        found = json.loads(source.read_text(encoding="utf-8"))
        reports = found if isinstance(found, list) else [found]
        return tuple(_report(report) for report in reports)
    except OSError as error:
        what = f"{source.name} cannot be read: {error.strerror or 'not readable'}"
        raise EvaluationError(f"{what}. Try: the file that catena parse --fidelity wrote") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        what = f"{source.name} is no fidelity report ({type(error).__name__}: {error})"
        raise EvaluationError(f"{what}. Try: the file that catena parse --fidelity wrote") from error


def _report(report: Mapping[str, Any]) -> KeptFidelity:
    pages = (_page(lambda name, page=page: page[name]) for page in report["pages"])  # type: ignore[misc]
    return KeptFidelity(source=str(report["source"]), pages=tuple(pages))


def _page(told: Callable[[str], Any]) -> PageRow:
    return PageRow(
        page=int(told("page")),
        recall=float(told("recall")),
        precision=float(told("precision")),
        order=float(told("order")),
        state=str(told("state")),
        faults=tuple(map(_fault, told("faults"))),
    )


def _fault(fault: Any) -> str:
    """Return a fault in words: as it was kept, or as `format_markdown` gives it."""
    if isinstance(fault, str):
        return fault
    kind, detail = (fault["kind"], fault["detail"]) if isinstance(fault, dict) else (fault.kind, fault.detail)
    return f"{kind}: {detail}" if detail else kind


def strips_shown(reports: Sequence[FidelityReportLike]) -> Strips | Missing:
    """Return the strips of reports that have pages.

    Raises:
        EvaluationError: a share is not in [0, 1].
    """
    held = [report for report in reports if report.pages]
    return Strips(strips=tuple(map(_strip, held))) if held else _NONE


def _strip(report: FidelityReportLike) -> Strip:
    return Strip(
        title=Path(str(getattr(report, "source", ""))).name or "a document",
        caption=str(getattr(fidelity_strip(report), "caption", "")),
        pages=tuple(_page(partial(getattr, page)) for page in report.pages),
    )

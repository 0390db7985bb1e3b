"""The fidelity strips of a report, and the reader of those that `catena parse --fidelity` wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
class KeptPage:
    """A page of a kept report; `faults` are in words."""

    page: int
    recall: float
    precision: float
    order: float
    state: str
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFidelity:
    """A fidelity report as it was kept; `source` names its document."""

    source: str
    pages: tuple[KeptPage, ...]


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
    return KeptFidelity(source=str(report["source"]), pages=tuple(_page(page) for page in report["pages"]))


def _page(page: Mapping[str, Any]) -> KeptPage:
    return KeptPage(
        page=int(page["page"]),
        recall=float(page["recall"]),
        precision=float(page["precision"]),
        order=float(page["order"]),
        state=str(page["state"]),
        faults=tuple(_fault(fault["kind"], fault["detail"]) for fault in page["faults"]),
    )


def strips_shown(reports: Sequence[FidelityReportLike]) -> Strips | Missing:
    """Return the strips of reports that have pages.

    Raises:
        EvaluationError: a share is not in [0, 1].
    """
    held = [report for report in reports if report.pages]
    return Strips(strips=tuple(map(_strip, held))) if held else _NONE


def _strip(report: FidelityReportLike) -> Strip:
    picture = fidelity_strip(report)
    return Strip(
        title=Path(str(getattr(report, "source", ""))).name or "a document",
        caption=str(getattr(picture, "caption", "")),
        pages=tuple(
            PageRow(
                page=page.page,
                recall=float(page.recall),
                precision=float(page.precision),
                order=float(page.order),
                state=page.state,
                faults=tuple(
                    fault if isinstance(fault, str) else _fault(fault.kind, fault.detail) for fault in page.faults
                ),
            )
            for page in report.pages
        ),
    )


def _fault(kind: str, detail: str) -> str:
    return f"{kind}: {detail}" if detail else kind

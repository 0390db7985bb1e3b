"""The fidelity of a whole document, page by page, in a shape that can be kept and drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from catena.formatting.fidelity_check import Fault

PageSource: TypeAlias = Literal["llm", "re-asked", "layout"]
"""The model's first answer was taken; its second; none, and the page is as the layout formatter wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFidelity:
    """How faithful the Markdown of one page is.

    Attributes:
        page: counted from 1.
        recall, precision, order: shares from 0 to 1, as in `Fidelity`, of the answer that was judged last.
        state: whose text the page has in the end.
        faults: what was wrong with the answers that were not taken; kept although the page was mended.
    """

    page: int
    recall: float
    precision: float
    order: float
    state: PageSource = "llm"
    faults: tuple[Fault, ...] = ()

    @property
    def worst(self) -> float:
        """The least of the three shares."""
        return min(self.recall, self.precision, self.order)

    def as_json(self) -> dict[str, Any]:
        """Return the page as an object of `FidelityReport.as_json`."""
        return {
            "page": self.page,
            "recall": round(self.recall, 6),
            "precision": round(self.precision, 6),
            "order": round(self.order, 6),
            "state": self.state,
            "faults": [{"kind": fault.kind, "detail": fault.detail} for fault in self.faults],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FidelityReport:
    """The fidelity of one document.

    Attributes:
        document_id: of the document in the library.
        source: where it was read from.
        pages: in order.
    """

    document_id: str
    source: str
    pages: tuple[PageFidelity, ...]

    def worst(self, n: int = 5) -> tuple[PageFidelity, ...]:
        """Return at most `n` pages, the least faithful first; equal ones in order."""
        return tuple(sorted(self.pages, key=lambda page: (page.worst, page.page))[:n])

    @property
    def states(self) -> dict[PageSource, int]:
        """How many pages each state has."""
        counts = Counter(page.state for page in self.pages)
        return {"llm": counts["llm"], "re-asked": counts["re-asked"], "layout": counts["layout"]}

    def as_json(self) -> dict[str, Any]:
        """Return a stable object of plain JSON values.

        `{"version": 1, "document_id": str, "source": str, "summary": {"pages": int, "states": {"llm": int,
        "re-asked": int, "layout": int}, "recall": {"mean": float, "min": float}, "precision": …, "order": …,
        "faults": {kind: count}}, "worst": [page, …], "pages": [{"page": int from 1, "recall": float, "precision":
        float, "order": float, "state": str, "faults": [{"kind": str, "detail": str}, …]}, …]}`. Shares are rounded
        to six places; those of a document without pages are 1. `worst` holds at most five page numbers.
        """
        return {
            "version": 1,
            "document_id": self.document_id,
            "source": self.source,
            "summary": {
                "pages": len(self.pages),
                "states": dict(self.states),
                "recall": _summary(page.recall for page in self.pages),
                "precision": _summary(page.precision for page in self.pages),
                "order": _summary(page.order for page in self.pages),
                "faults": dict(sorted(Counter(fault.kind for page in self.pages for fault in page.faults).items())),
            },
            "worst": [page.page for page in self.worst()],
            "pages": [page.as_json() for page in self.pages],
        }


def _summary(values: Iterable[float]) -> dict[str, float]:
    shares = tuple(values)
    if not shares:
        return {"mean": 1.0, "min": 1.0}
    return {"mean": round(sum(shares) / len(shares), 6), "min": round(min(shares), 6)}

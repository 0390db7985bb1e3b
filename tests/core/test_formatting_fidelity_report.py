"""The fidelity report: worst pages, sums, and the shape that is written to disk."""

from __future__ import annotations

import json

from catena.formatting import FidelityReport
from catena.formatting.fidelity_check import Fault
from catena.formatting.fidelity_report import PageFidelity

PAGES = (
    PageFidelity(page=1, recall=1.0, precision=1.0, order=1.0),
    PageFidelity(
        page=2,
        recall=0.5,
        precision=1.0,
        order=0.75,
        state="layout",
        faults=(Fault(kind="omission", detail="'12 mA'"), Fault(kind="order", detail="'a'")),
    ),
    PageFidelity(
        page=3, recall=0.9, precision=0.8, order=1.0, state="re-asked", faults=(Fault(kind="order", detail=""),)
    ),
)
REPORT = FidelityReport(document_id="d", source="a.pdf", pages=PAGES)


def test_the_shape_on_disk_is_stable() -> None:
    assert json.loads(json.dumps(REPORT.as_json())) == {
        "version": 1,
        "document_id": "d",
        "source": "a.pdf",
        "summary": {
            "pages": 3,
            "states": {"llm": 1, "re-asked": 1, "layout": 1},
            "recall": {"mean": 0.8, "min": 0.5},
            "precision": {"mean": 0.933333, "min": 0.8},
            "order": {"mean": 0.916667, "min": 0.75},
            "faults": {"omission": 1, "order": 2},
        },
        "worst": [2, 3, 1],
        "pages": [
            {"page": 1, "recall": 1.0, "precision": 1.0, "order": 1.0, "state": "llm", "faults": []},
            {
                "page": 2,
                "recall": 0.5,
                "precision": 1.0,
                "order": 0.75,
                "state": "layout",
                "faults": [{"kind": "omission", "detail": "'12 mA'"}, {"kind": "order", "detail": "'a'"}],
            },
            {
                "page": 3,
                "recall": 0.9,
                "precision": 0.8,
                "order": 1.0,
                "state": "re-asked",
                "faults": [{"kind": "order", "detail": ""}],
            },
        ],
    }


def test_worst_pages_come_first_and_ties_by_page() -> None:
    assert [page.page for page in REPORT.worst(2)] == [2, 3]
    twins = FidelityReport(
        document_id="d", source="", pages=(PAGES[0], PageFidelity(page=4, recall=1, precision=1, order=1))
    )
    assert [page.page for page in twins.worst()] == [1, 4]


def test_a_document_without_pages_has_a_report() -> None:
    empty = FidelityReport(document_id="d", source="", pages=()).as_json()
    assert empty["summary"]["recall"] == {"mean": 1.0, "min": 1.0}
    assert empty["worst"] == empty["pages"] == []

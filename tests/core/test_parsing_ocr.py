"""Pages without text: read by OCR where that is wanted, told of, and nothing is lost where OCR fails."""

from __future__ import annotations

from importlib.util import find_spec
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import numpy as np
import pypdfium2
import pytest
from drawn_pages import pdf, text
from reportlab.lib.utils import ImageReader

from catena.library import Preparation
from catena.model import MissingExtraError, ParseError
from catena.parsing import Limits, parse_bytes, pdf_pypdfium2
from catena.parsing.pdf_reading import read_pdf

SAID = ["The pump is mounted on a vertical line", "Tighten the cover to 12 Nm"]


def scan() -> bytes:
    """Return a PDF of a page with text, and of that page as a picture."""

    def written(canvas: Any) -> None:
        for line, said in enumerate(SAID):
            text(canvas, said, 70, 100 + 40 * line, size=16)

    picture = pypdfium2.PdfDocument(pdf(written))[0].render(scale=2).to_pil()
    return pdf(written, lambda canvas: canvas.drawImage(ImageReader(picture), 0, 0, *canvas._pagesize))


class Seen:
    """An OCR that finds the given lines, at their places in pixels of the page that it was shown."""

    def __init__(self, *lines: tuple[str, float, float]) -> None:
        self.lines = lines
        self.shapes: list[tuple[int, ...]] = []

    def __call__(self, image: Any) -> Any:
        self.shapes.append(image.shape)
        boxes = [[[x, y], [x + 400, y + 1], [x + 400, y + 31], [x, y + 30]] for _, x, y in self.lines]
        return SimpleNamespace(txts=tuple(said for said, _, _ in self.lines), boxes=np.array(boxes, dtype=np.float32))


def pages(finder: Any, monkeypatch: pytest.MonkeyPatch, **how: Any) -> list[dict[str, Any]]:
    monkeypatch.setattr(pdf_pypdfium2, "_recogniser", lambda: finder)
    events = list(read_pdf(scan(), password=None, max_pages=9, ocr=True, **how))
    return [event for event in events if event["event"] == "page"]


@pytest.mark.parametrize("engine", ["pypdf", "pypdfium2"])
def test_only_pages_without_text_are_read_so_and_their_lines_have_places(monkeypatch, engine: str) -> None:
    seen = Seen((SAID[1], 150.0, 300.0), (SAID[0], 150.0, 200.0))
    written, scanned = pages(seen, monkeypatch, engine=engine)
    assert (len(seen.shapes), written["note"], scanned["note"]) == (1, "", "read by OCR")
    assert [line[0] for line in scanned["lines"]] == SAID
    assert scanned["state"] == "text"
    left, top = scanned["lines"][0][1], scanned["lines"][0][3]
    assert (left, top) == (pytest.approx(72), pytest.approx(200 * 72 / 150, abs=4))  # 150 dots per inch


def test_a_page_on_which_ocr_sees_nothing_or_fails_stays_without_text(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [page["state"] for page in pages(Seen(), monkeypatch)] == ["text", "no-text"]

    def failing(_: Any) -> None:
        raise RuntimeError("bad_alloc")

    page = pages(failing, monkeypatch)[1]
    assert (page["state"], page["note"]) == (
        "no-text", "it has no text layer; OCR failed (RuntimeError: bad_alloc)",
    )  # fmt: skip


def test_what_ocr_costs_is_granted_and_its_reading_is_another() -> None:
    limits = Limits(seconds_per_page=2, memory_bytes=1_000)
    assert limits.for_ocr() == Limits(seconds_per_page=30, memory_bytes=3_000)
    assert Preparation(ocr=True).fingerprint(b"x") != Preparation().fingerprint(b"x")


@pytest.mark.skipif(find_spec("rapidocr") is not None, reason="rapidocr is there")
def test_the_extra_is_named_where_it_is_not_installed() -> None:
    with pytest.raises(MissingExtraError, match=r"catena(?:-core)?\[ocr\]"):
        parse_bytes(scan(), "scan.pdf", ocr=True)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("rapidocr") is None, reason="needs rapidocr (extra ocr)")
def test_a_scan_is_read_with_the_models_of_the_wheel() -> None:
    picture = BytesIO()
    whole = pypdfium2.PdfDocument(scan())
    whole.del_page(0)
    whole.save(picture)
    with pytest.raises(ParseError, match=r"no-text: .*Try: parse\(path, ocr=True\)"):
        parse_bytes(picture.getvalue(), "scan.pdf")
    read = parse_bytes(picture.getvalue(), "scan.pdf", ocr=True)
    assert [line for line in SAID if line in read.document.text] == SAID
    assert (read.state, [(note.page, note.why) for note in read.notes]) == ("partial", [(1, "read by OCR")])

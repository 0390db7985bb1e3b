"""The figures of one PDF: found page by page, cropped when all pages are known, in the reading process."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from catena.model.layout import Page
from catena.parsing.failures import reason
from catena.parsing.figure_images import cropped
from catena.parsing.figure_objects import drawn_on
from catena.parsing.figure_regions import Region, find_regions, without_decorations
from catena.parsing.frames import Matrix

MAX_ON_PAGE = 40
MAX_IN_FILE = 2_000
MAX_BYTES = 200_000_000  # of all pictures of one file, packed


class FigureFinder:
    """Collects pages, and looks for figures when all of them were sent, so that no page's text waits for that.

    Args:
        dpi: dots per inch of the crops; 0 looks for none.
    """

    def __init__(self, dpi: float) -> None:
        self._dpi = dpi
        self._pages: list[tuple[Page, Matrix]] = []
        self._regions: dict[int, list[Region]] = {}
        self._heights: dict[int, float] = {}
        self._problems: dict[int, str] = {}

    def note(self, shown: Page, base: Matrix) -> None:
        """Keep in mind a page that was read, and the matrix from its user space to its top left corner."""
        if self._dpi and shown.lines:
            self._pages.append((shown, base))

    def look(self, page: Any, shown: Page, base: Matrix) -> None:
        """Note the figures of a page; what goes wrong costs its figures, not its text.

        Args:
            page: of pypdfium2.
            shown: what was read of it.
            base: from its user space to points from the top left corner.
        """
        number, size = shown.number, (shown.width, shown.height)
        try:
            if max(abs(a - b) for a, b in zip(page.get_size(), size, strict=True)) > 1:
                return  # a page whose box says nothing: what is rendered would not be what was measured
            found = find_regions(drawn_on(page, base, size), shown.lines, shown.tables, size)
        except MemoryError:
            raise
        except Exception as error:  # whatever PDFium's objects do
            self._problems[number] = f"figures were not looked for ({reason(error)})"
            return
        self._heights[number] = shown.height
        self._regions[number] = found[:MAX_ON_PAGE]
        if len(found) > MAX_ON_PAGE:
            self._problems[number] = f"{len(found) - MAX_ON_PAGE} figures more than {MAX_ON_PAGE} were left out"

    def events(self, file: Any) -> Iterator[dict[str, Any]]:
        """Yield one "figure" per crop and one "no-figure" per page where something went wrong."""
        for shown, base in self._pages:
            page = file[shown.number - 1]
            self.look(page, shown, base)
            page.close()
        taken = count = 0
        for number, regions in without_decorations(self._regions, self._heights).items():
            for region in regions:
                if taken > MAX_BYTES or count >= MAX_IN_FILE:
                    self._problems[number] = "figures were left out: the file has more than a document holds"
                    break
                try:
                    event = _event(file, number, region, self._dpi)
                except MemoryError:
                    raise
                except Exception as error:  # as above
                    self._problems[number] = f"a figure was not cropped ({reason(error)})"
                    continue
                taken, count = taken + len(event["png"]), count + 1
                yield event
        for number, why in sorted(self._problems.items()):
            yield {"event": "no-figure", "page": number, "why": why}


def _event(file: Any, number: int, region: Region, dpi: float) -> dict[str, Any]:
    data, width, height = cropped(file[number - 1], region.box, dpi, photo=region.kind == "bitmap")
    return {
        "event": "figure",
        "page": number,
        "box": [round(side, 2) for side in region.box],
        "kind": region.kind,
        "size": [width, height],
        "png": base64.b64encode(data).decode("ascii"),
    }

"""A real Chromium for the tests of the report page, and pages to look at; skipped by name where there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import catena
from catena.evaluation import BankQuestion, Gold
from catena.formatting import FidelityReport
from catena.formatting.fidelity_check import PageFidelity
from catena_view.report import Report, report

QUESTION = "Which torque does the cover of the pump need?"
HACKED = '<img src=x onerror="window.hacked=1"><script>window.hacked=2</script></script><b>bold</b>'
MANUALS = {
    "pump.md": (
        f"# Pump manual {HACKED}\n\n## Cover\n\nThe torque of the cover is 1.8 N·m; see the seal in the "
        f"valve manual. {HACKED}\n\n## Storage\n\nKeep it dry.\n\n### Long storage\n\nTurn it once a month.\n"
    ),
    "valve.md": "# Valve manual\n\n## Seal\n\nThe seal has the torque of a cover.\n\n## Spring\n\nOil.\n",
    "report.md": "# Field report\n\n## Failures\n\nTwo covers of pumps failed: the torque was too low.\n",
}


def _chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("CATENA_BROWSER") or next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The system's Chromium, headless; CATENA_BROWSER names another."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (nox session `browser`)")
    found = _chromium()
    if found is None:
        pytest.skip("needs Chromium: apt-get install chromium, or CATENA_BROWSER=PATH")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])  # root has no sandbox
        yield opened
        opened.close()


@dataclass
class Looked:
    """A page that is open, and what it did besides showing itself."""

    page: Any
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def texts(self, selector: str) -> list[str]:
        return [text.strip() for text in self.page.locator(selector).all_text_contents()]

    def focused(self) -> str:
        """Return what has the focus: its tag, id and label."""
        return self.page.evaluate(
            "(({tagName, id, ariaLabel, textContent}) => `${tagName} ${id} ${ariaLabel ?? textContent.slice(0, 60)}`)"
            "(document.activeElement)"
        )


@pytest.fixture
def look(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Looked]]:
    """Opens a report as a file; every request but that for the file is recorded and refused."""
    contexts = []

    def opened(shown: Report, *, width: int = 1300, height: int = 850, **options: Any) -> Looked:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        file = shown.save(tmp_path / f"page-{len(contexts)}.html")
        looked = Looked(context.new_page())

        def route(each: Any) -> None:
            if each.request.url == file.as_uri():
                each.continue_()
            else:
                looked.requests.append(each.request.url)
                each.abort()

        context.route("**/*", route)
        looked.page.on("console", lambda message: looked.messages.append(message.text))
        looked.page.on("pageerror", lambda error: looked.messages.append(str(error)))
        looked.page.on("dialog", lambda dialog: (looked.messages.append("dialog"), dialog.dismiss()))
        looked.page.goto(file.as_uri())
        return looked

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A report in which no part is missing, about documents that would like to be scripts."""
    folder = tmp_path_factory.mktemp("documents")
    for name, text in MANUALS.items():
        (folder / name).write_text(text, encoding="utf-8")
    pages = tuple(PageFidelity(page=n, recall=1 - n / 50, precision=1.0, order=1.0) for n in range(1, 8))
    kept = FidelityReport(document_id="pump.md", source="pump.pdf", pages=pages)
    bank = [BankQuestion(id="q", text=QUESTION, gold=(Gold(name="g", document="pump.md", heading="Cover"),))]
    with catena.Library.open(folder / "lib") as library:
        library.index([folder / name for name in MANUALS])
        library.build_graph()
        return report(library, QUESTION, name=f"pumps {HACKED}", questions=bank, fidelity=[kept])


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A report of a library without a graph, asked for a name that stands nowhere."""
    folder = tmp_path_factory.mktemp("bare")
    (folder / "hx200.md").write_text("# HX200 manual\n\n## Fuse\n\nThe fuse of the HX200 is slow.\n")
    with catena.Library.open(folder / "lib") as library:
        library.index(folder / "hx200.md")
        return report(library, "Which fuse has the HX220?", name="bare")

"""Write the table of docs/conformance.md: what the suites give for every adapter, each run now."""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path

from catena.testing.conformance import ConformanceReport

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "conformance.md"
BEGIN, END = "<!-- counts: scripts/write_conformance.py writes what follows -->\n", "<!-- end of counts -->\n"
HEAD = "| framework | adapter | suite | checks made | problems | left out |\n|---|---|---|---|---|---|\n"
FRAMEWORKS = {
    "LangChain": ("langchain_conformance_cases", "langchain_catena"),
    "LlamaIndex": ("llama_index_conformance_cases", "llama_index_catena"),
}


def row(framework: str, report: ConformanceReport) -> str:
    """Return the line of one adapter."""
    left_out = ", ".join(report.left_out) or "none"
    counts = f"{len(report.made)} | {len(report.problems)}"
    return f"| {framework} | `{report.subject}` | {report.suite} | {counts} | {left_out} |\n"


def reports() -> Iterator[tuple[str, ConformanceReport]]:
    """Run every case of both frameworks."""
    from blockbuster import blockbuster_ctx

    sys.path.insert(0, str(ROOT / "tests" / "integrations"))
    for framework, (module, package) in FRAMEWORKS.items():
        cases = import_module(module)
        with tempfile.TemporaryDirectory() as folder:
            world = cases.World(Path(folder), partial(blockbuster_ctx, ["catena", package]))
            for case in cases.CASES.values():
                yield framework, case(world)
            world.close()


def main() -> None:
    """Write the table."""
    warnings.simplefilter("ignore")
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    table = HEAD + "".join(row(framework, report) for framework, report in reports())
    PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()

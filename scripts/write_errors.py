"""Write docs/errors.md from what the classes of errors say of themselves; with `--check` only say if it is stale.

What stands in a section from its first fenced block on is an example, written by hand and kept.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from catena.cli.doctor import Explained, catalogue
from catena_bench.servers.distributions import NoServersError

PAGE = Path(__file__).resolve().parents[1] / "docs" / "errors.md"
_SECTION = re.compile(r"^## (\w+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_EXAMPLE = re.compile(r"^```.*", re.MULTILINE | re.DOTALL)


def sections() -> tuple[Explained, ...]:
    """Return what the page is to have: the core's errors, then those of the benchmarks."""
    return (*catalogue(), Explained.of(NoServersError))


def written(page: str) -> str:
    """Return the page with each section as its class says it, and with the examples that it has."""
    begin = page.partition("\n## ")[0].rstrip("\n")
    examples = {name: found[0] for name, text in _SECTION.findall(page) if (found := _EXAMPLE.search(text))}
    parts = [f"{each.markdown()}\n{examples.get(each.name, '')}".rstrip("\n") for each in sections()]
    return "\n\n".join([begin, *parts]) + "\n"


def main() -> int:
    """Write the page, or say with exit code 1 that it is stale."""
    page = PAGE.read_text(encoding="utf-8")
    new = written(page)
    if "--check" in sys.argv[1:]:
        print(f"{PAGE.name} is {'current' if new == page else 'stale. Try: python scripts/write_errors.py'}")
        return int(new != page)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The bundled manuals in a folder and on a server, and what two answers of an adapter over them differ in."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catena.enrichment import Keywords, Summaries
from catena.library import Library, Preparation
from catena_bench.servers import ask
from catena_server import Call, ElasticsearchTransport, Flavour, ServerLibrary, upload_graph

ROOT = Path(__file__).parents[2]
MANUALS = ROOT / "packages/catena/src/catena/data/demo"
QUESTIONS = [row["question"] for row in json.loads((MANUALS / "questions.json").read_text(encoding="utf-8"))][:3]
BOTH = "How do the warm-up times of the HX200 and the HX210 differ?"
NOWHERE = "How tight are the cover screws of the HX290?"
ALL = 500  # more than there are chunks: how deep a route of the embedded library must look to be exact
GONE = "http://127.0.0.1:9"  # nobody listens there


class Line:
    """A transport to a server that is gone while `cut` is set; closed, it connects anew, for another event loop."""

    flavour: Flavour = "elasticsearch"

    def __init__(self, url: str, api_key: str) -> None:
        self.cut, self.identity = False, f"elasticsearch at {url}"
        self._url, self._key = url, api_key or None
        self._ends: dict[str, ElasticsearchTransport] = {}

    def perform(self, call: Call) -> Any:
        return self._end().perform(call)

    async def aperform(self, call: Call) -> Any:
        return await self._end().aperform(call)

    def close(self) -> None:
        for end in self._ends.values():
            end.close()
        self._ends.clear()

    async def aclose(self) -> None:
        for end in self._ends.values():
            await end.aclose()
        self._ends.clear()

    def _end(self) -> ElasticsearchTransport:
        url = GONE if self.cut else self._url
        if url not in self._ends:
            self._ends[url] = ElasticsearchTransport.connect(url, api_key=self._key)
        return self._ends[url]


@dataclass(frozen=True, slots=True, kw_only=True)
class Twins:
    """One library, embedded and on a server, with the same documents and the same graph."""

    local: Library
    served: ServerLibrary
    line: Line


@contextmanager
def twins(folder: Path, url: str, api_key: str, name: str) -> Iterator[Twins]:
    """Index the manuals twice."""
    shutil.copytree(MANUALS, folder / "manuals")
    how, line = Preparation(views=(Keywords(by="offline"), Summaries(by="offline"))), Line(url, api_key)
    with (
        Library.open(folder / "library", preparation=how) as local,
        ServerLibrary.open(line, name, home=folder, preparation=how) as served,
    ):
        local.index(folder / "manuals")
        local.build_graph()
        served.index(folder / "manuals")
        upload_graph(line, name, local.graph)
        try:
            yield Twins(local=local, served=served, line=line)
        finally:
            for index in ask(f"{url}/{name}-*/_settings/index.uuid", api_key=api_key):
                ask(f"{url}/{index}", method="DELETE", api_key=api_key)


def differences(found: Any, wanted: Any, at: str = "") -> Iterator[str]:
    """Yield where JSON-like answers differ, scores by more than 1e-4.

    Where the server sums the whole formula in one request, it does not say at which rank a route, or the view that it
    searches, had a chunk: such ranks are None.
    """
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        yield from (f"{at}.{key}: only in one" for key in sorted(set(found) ^ set(wanted)))
        for key in found.keys() & wanted.keys():
            yield from differences(found[key], wanted[key], f"{at}.{key}")
    elif isinstance(found, list | tuple) and isinstance(wanted, list | tuple) and len(found) == len(wanted):
        for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
            yield from differences(one, other, f"{at}[{place}]")
    elif isinstance(found, float) and isinstance(wanted, float):
        if abs(found - wanted) > 1e-4:
            yield f"{at}: {found} and {wanted}"
    elif found != wanted and not (found is None and (at.endswith(".rank") or ".views." in at)):
        yield f"{at}: {found!r} and {wanted!r}"


def missing_of(package: str, url: str, name: str, capsys: Any) -> list[str]:
    """Run the first block of an adapter's README and its part on servers; return what that promises and prints not.

    Args:
        package: the adapter.
        url: of the server.
        name: with which the names of indices begin there.
        capsys: of the test.
    """
    readme = (ROOT / "integrations" / package / "README.md").read_text(encoding="utf-8")
    first = re.findall(r"^```python\n(.*?)^```", readme, re.M | re.S)[0]
    (part,) = re.findall(r"^## On a search server\n(.*?)^## ", readme, re.M | re.S)
    code = "".join(re.findall(r"^```py\n(.*?)^```", part, re.M | re.S)).replace("http://127.0.0.1:9200", url)
    for index in ("manuals", "pumps"):
        code = code.replace(f'"{index}"', f'"{name}-{index}"', 1)
    scope: dict[str, Any] = {}
    exec(compile(first, "README.md", "exec"), scope)
    exec(compile(code, "README.md", "exec"), scope)
    for each in ("library", "pumps"):
        if callable(close := getattr(scope[each], "close", None)):
            close()
    said = capsys.readouterr().out
    return [line for line in re.findall(r"(?:^|  )# (\S.*)", code, re.M) if line not in said and "…" not in line]


async def closing(line: Any, asked: Awaitable[Any]) -> Any:
    """Return what is awaited, and close the line's connections of this event loop."""
    try:
        return await asked
    finally:
        await line.aclose()

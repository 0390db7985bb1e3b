"""All four systems on a real server: the answers of the embedded library over the same files, order and scores."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from catena.enrichment import Keywords, Summaries
from catena.graph import PAPER, GraphResult, GraphSearch
from catena.library import Library, Preparation
from catena.model import Hit, Ranking
from catena.retrieval import ExactUnion, PaperQuota, RankFusion, ViewSearch
from catena.segments import Extraction, SegmentSearch
from catena.structure import SectionChunkOptions
from catena_bench.synthetic_manuals import manual_markdown
from catena_server import ServerLibrary

DEMO = Path(__file__).parents[2] / "packages/catena/src/catena/data/demo"
ASKED = [row["question"] for row in json.loads((DEMO / "questions.json").read_text(encoding="utf-8"))]
NAMED = ("Which fuse does the HX200 take?", "HX210 accuracy", "Is the HX999 waterproof?", "halden", "xyzzy")
DEEP = 3_000  # hits per route: all of them; of segments three times as many, and a server gives 10,000 at once
CLOSE = 1e-4


@dataclass(frozen=True, slots=True)
class Both:
    """One collection, twice: in a folder, and on a server."""

    here: Library
    there: ServerLibrary


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's PDFs and generated manuals with tables, numbered and not."""
    home = tmp_path_factory.mktemp("systems")
    files = home / "files"
    files.mkdir()
    for path in sorted(DEMO.glob("*.pdf")):
        (files / path.name).write_bytes(path.read_bytes())
    for seed in range(2):
        (files / f"manual-{seed}.md").write_text(manual_markdown(seed, numbered=bool(seed % 2)), encoding="utf-8")
    return home


def filled(folder: Path, url: str, key: str, name: str, preparation: Preparation) -> Both:
    here = Library.open(folder / f"library-{name}", preparation=preparation)
    connection = {"api_key": key} if key else None
    there = ServerLibrary.open(url, name, connection=connection, home=folder, preparation=preparation)
    outcomes = [library.index(folder / "files") for library in (here, there)]
    assert outcomes[0] == outcomes[1]
    assert there.verify() == here.verify() == ()
    return Both(here, there)


@pytest.fixture
def both(
    request: pytest.FixtureRequest, folder: Path, es_url: str, es_api_key: str, fresh_index: Callable[..., str]
) -> Iterator[Both]:
    held = filled(folder, es_url, es_api_key, fresh_index(es_url, "w6"), request.param)
    yield held
    held.there.close()
    held.here.close()


def prepared_as(preparation: Preparation) -> Any:
    return pytest.mark.parametrize("both", [preparation], indirect=True, ids=["one"])


def assert_same(found: Ranking, wanted: Ranking) -> None:
    assert [hit.chunk for hit in found.hits] == [hit.chunk for hit in wanted.hits]
    assert scores(found.hits) == pytest.approx(scores(wanted.hits), abs=CLOSE)
    assert found.scale == wanted.scale
    assert (found.unknown, found.degraded) == (wanted.unknown, wanted.degraded)


def scores(hits: Sequence[Hit]) -> list[float]:
    return [hit.score for hit in hits]


def places(hits: Sequence[Hit]) -> list[Any]:
    """Return by which view and route each hit was found, and at which rank."""
    return [sorted((way.route, way.view or "", way.rank) for way in hit.provenance) for hit in hits]


@prepared_as(Preparation(figures=True, engine="pypdfium2"))
def test_hiqa_finds_chunks_tables_and_figures_by_names_and_filters(both: Both) -> None:
    here, there = both.here, both.there
    for question in (*ASKED, *NAMED):
        assert_same(there.search(question, k=20, depth=DEEP), here.search(question, k=20, depth=DEEP))
    for where in ({"kind": "table"}, {"$and": [{"kind": "text"}, {"title": {"$exists": True}}]}, {"kind": "none"}):
        filtered: Any = {"k": 20, "depth": DEEP, "where": where}
        assert_same(there.search(ASKED[0], **filtered), here.search(ASKED[0], **filtered))
    by_rank: Any = {"k": 20, "depth": DEEP, "fusion": RankFusion(), "entities": ("E07",)}
    assert_same(there.search(ASKED[0], **by_rank), here.search(ASKED[0], **by_rank))
    assert there.search("Is the HX999 waterproof?").unknown
    figures = there.search_figures("wiring of the terminals", k=5)
    assert_same(figures, here.search_figures("wiring of the terminals", k=5))
    assert [there.figure(hit) for hit in figures.hits] == [here.figure(hit) for hit in figures.hits]
    assert figures.hits
    found = here.search(ASKED[0], k=5)
    assert there.sections(found) == here.sections(found)
    assert there.sections(found, descendants=True) == here.sections(found, descendants=True)
    assert [there.get(info.id) for info in there.documents()] == [here.get(info.id) for info in here.documents()]
    assert there.ledger() == here.ledger()
    assert there.vanished() == here.vanished() == ()


@prepared_as(Preparation(chunks=SectionChunkOptions(), views=(Keywords(by="offline"), Summaries(by="offline"))))
def test_mc_indexing_finds_sections_under_every_view(both: Both) -> None:
    here, there = both.here, both.there
    rules: tuple[Any, ...] = (PaperQuota(), ExactUnion())
    for question in (*ASKED[:4], *NAMED[:2]):
        assert_same(there.search(question, k=10, depth=DEEP), here.search(question, k=10, depth=DEEP))
        assert_same(there.passages(question, budget_tokens=300), here.passages(question, budget_tokens=300))
        assert_same(there.read(question, budget_tokens=300), here.read(question, budget_tokens=300))
        for routes in (("dense",), ("lexical",), ("dense", "lexical")):
            for rule in rules:
                how = ViewSearch(views=("headed", "keywords", "summary"), routes=routes, rule=rule)
                found, wanted = there.search_views(question, how, k=6), here.search_views(question, how, k=6)
                assert_same(found, wanted)
                assert wanted.hits
                assert places(found.hits) == places(wanted.hits)
    assert there.store.view_kinds() == here.store.view_kinds()


@prepared_as(Preparation())
def test_textrag_extracts_the_same_segments(both: Both) -> None:
    here, there = both.here, both.there
    how = SegmentSearch(depth=DEEP)
    for question in (*ASKED, *NAMED):
        assert_same_segments(there.segments(question, how), here.segments(question, how))
    decomposed = replace(how, queries_by="decomposition")
    question = f"{ASKED[0]} And {ASKED[1]}"
    assert_same_segments(there.segments(question, decomposed), here.segments(question, decomposed))

    async def asked() -> list[Extraction]:
        found = await asyncio.gather(*(there.asegments(question, how) for question in ASKED))
        await there.aclose()
        return list(found)

    for found, question in zip(asyncio.run(asked()), ASKED, strict=True):
        assert_same_segments(found, here.segments(question, how))


def assert_same_segments(found: Extraction, wanted: Extraction) -> None:
    assert [hit.segment for hit in found.segments] == [hit.segment for hit in wanted.segments]
    assert [hit.value for hit in found.segments] == pytest.approx([hit.value for hit in wanted.segments], abs=CLOSE)
    assert (found.unknown, found.degraded, found.asked) == (wanted.unknown, wanted.degraded, wanted.asked)


@prepared_as(Preparation())
def test_iier_walks_the_same_chains_over_a_graph_of_the_servers_own_chunks(both: Both) -> None:
    here, there = both.here, both.there
    assert not there.has_graph
    here.build_graph()
    there.build_graph()
    for question in (*ASKED, *NAMED):
        for how in (GraphSearch(), GraphSearch(walk=PAPER)):
            assert_same_chains(there.search_graph(question, how), here.search_graph(question, how))
    found = here.search(ASKED[0], k=5)
    assert_same_chains(there.widen(ASKED[0], found), here.widen(ASKED[0], found))
    assert there.verify() == ()
    there.delete("files/manual-0.md")
    assert ["build_graph" in problem for problem in there.verify()] == [True]
    here.delete("files/manual-0.md")
    there.build_graph()
    assert_same_chains(there.search_graph(ASKED[0]), here.search_graph(ASKED[0]))
    there.drop_graph()
    assert not there.has_graph
    assert there.verify() == ()


def assert_same_chains(found: GraphResult, wanted: GraphResult) -> None:
    assert_same(found.ranking, wanted.ranking)
    assert [chain.chunks for chain in found.chains] == [chain.chunks for chain in wanted.chains]
    assert found.keywords == wanted.keywords

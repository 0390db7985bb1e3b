"""The same question with the same options gives the same hits, scores and citations, whoever asks it.

Asked through `Library` and its async methods, `ServerLibrary`, the command line, the report, and both adapters.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from typer.testing import CliRunner

import langchain_catena
import llama_index_catena
from catena import Library
from catena.cli.app import app
from catena.effects import Retry, Services
from catena.enrichment import Keywords, StaticEmbedder
from catena.graph import GraphSearch
from catena.library import Preparation
from catena.model import Document, FilterError, Ranking, ServiceError, citation
from catena.retrieval import SECTION_ROUTES, RankFusion, ReadingOptions, ScoreFusion, ViewSearch
from catena.segments import Extraction
from catena.structure import SectionChunkOptions
from catena_server import ServerLibrary
from catena_view.report import ReportOptions
from catena_view.report import report as page_of

PROSE = " ".join(
    f"The pump of row {number} turns slowly while valve {number % 7} stays open." for number in range(40)
)
NEEDLE = "Tighten the cover screws of the housing to {torque} Nm with the short lever."
K = 6

Rows = list[tuple[str, float, str]]
Found = dict[str, Rows | None]
Options = Mapping[str, Any]


def manual(name: str, torque: str) -> Document:
    needle = NEEDLE.format(torque=torque)
    power = f"The fuse of the {name} holds 3 A.\n\n| part | current |\n|---|---|\n| motor | 2 A |"
    sections = {"Running": f"{PROSE}\n\n{needle}\n\n{PROSE}", "Power": power, "See also": "See the other manual."}
    text = f"# {name} Manual\n\n" + "".join(f"## {title}\n\n{said}\n\n" for title, said in sections.items())
    starts = (0, text.index(needle) - 200, text.index("## Power"), text.index("## See also"))
    return Document(id=f"{name.lower()}.md", text=text, title=f"{name} Manual", page_starts=starts)


class Speechless(StaticEmbedder):
    """Embeds documents, and fails at questions."""

    def embed_query(self, text: str) -> Any:
        raise ServiceError(self.identity, "out of order")


@dataclass(frozen=True)
class Asked:
    """A library and those who ask it."""

    library: Library
    path: Path

    @property
    def server(self) -> ServerLibrary:
        held: Any = self.library
        return ServerLibrary(held.store, held._graph, held.services, held.preparation, self.path)


SECTIONS = Preparation(chunks=SectionChunkOptions(), views=(Keywords(by="offline"),))
PREPARATIONS = {"chunks": Preparation(), "sections": SECTIONS}


@pytest.fixture(scope="module", params=PREPARATIONS)
def asked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    path = tmp_path_factory.mktemp("parity") / "library"
    with Library.open(path, preparation=PREPARATIONS[request.param]) as library:
        torques = {"HX200": "1.8", "HX210": "2.4", "LX90": "4.5", "LX80": "5"}
        library.add(*(manual(name, torque) for name, torque in torques.items()))
        library.add(replace(manual("HX200", "1.9"), id="old/hx200.md"))  # a title that two documents have
        yield Asked(library, path)


@pytest.fixture(scope="module")
def degraded(asked: Asked) -> Iterator[Asked]:
    how: Any = {"embedder": Speechless(), "services": Services(retry=Retry(attempts=1))}
    with Library.open(asked.path, preparation=asked.library.preparation, **how) as library:
        yield Asked(library, asked.path)


def rows(ranking: Ranking) -> Rows:
    return [(hit.chunk.id, hit.score, citation(hit.chunk)) for hit in ranking.hits]


def documents(found: Any) -> Rows:
    return [(each.id, each.metadata["relevance_score"], each.metadata["citation"]) for each in found]


def nodes(found: Any) -> Rows:
    return [
        (each.node.node_id, each.score, each.node.metadata["citation"])
        for each in found
        if each.node.metadata.get("kind") != "notice"
    ]


def typed(command: str, question: str, path: Path, options: Options) -> Rows | None:
    """Return what the command line finds; None where it refuses options that could do nothing."""
    words = [command, question, "-l", str(path), "--json"]
    names = {"k": "-k", "where": "--where", "budget_tokens": "--budget-tokens"}
    several = {"routes": "-r", "entities": "--entity"}
    for name, value in options.items():
        if name in several:
            words += [word for each in value or () for word in (several[name], each)]
        elif name in names and value is not None:
            words += [names[name], json.dumps(value)]
        words += ["--fusion", "rank"] if isinstance(value, RankFusion) else []
        words += ["--no-names"] if name == "by_name" and value is False else []
        words += ["--keep-neighbours"] if name == "on_unknown" and value == "keep" else []
        words += ["--passages"] if name == "reading" else []
        words += [f"--{name}"] if name in ("graph", "segments") else []
    result = CliRunner().invoke(app, words)
    if result.exit_code == 2:
        return None
    found = json.loads(result.stdout)
    if "segments" in options:
        return [(hit["segment"]["id"], hit["value"], hit["citation"]) for hit in found["segments"]]
    return [(hit["chunk"]["id"], hit["score"], hit["citation"]) for hit in found["hits"]]


def is_typed(options: Options) -> bool:
    """Whether the command line has these options."""
    unheard = {"depth", "on_route_error"} & options.keys()
    return not unheard and not isinstance(options.get("fusion"), ScoreFusion)


def found_by(at: Asked, ask: str, chain: Any, index: Any, question: str, *given: Any, **options: Any) -> Found:
    """Return what each face finds: a method of the library, a retriever of LangChain and one of LlamaIndex."""
    limited = {name: value for name, value in options.items() if name == "k" and ask in ("passages", "read")}
    of = {"segments": cut, "search_graph": lambda found: rows(found.ranking)}.get(ask, rows)
    return {
        "Library": of(getattr(at.library, ask)(question, *given, **options)),
        "Library async": of(asyncio.run(getattr(at.library, f"a{ask}")(question, *given, **options))),
        "ServerLibrary": of(getattr(at.server, ask)(question, *given, **options)),
        "LangChain": documents(chain.invoke(question, **limited)),
        "LangChain async": documents(asyncio.run(chain.ainvoke(question, **limited))),
        "LlamaIndex": nodes(index.retrieve(question)),
        "LlamaIndex async": nodes(asyncio.run(index.aretrieve(question))),
    }


def searches(at: Asked, question: str, options: Options) -> Found:
    chain = langchain_catena.CatenaRetriever(library=at.library, **options)
    renamed = {"similarity_top_k" if name == "k" else name: value for name, value in options.items()}
    entities = renamed.pop("entities", None) or ()
    index = llama_index_catena.CatenaRetriever(at.library, **renamed)
    found = found_by(at, "search", chain, index, question, **options)
    if entities:  # which LlamaIndex takes with the question alone
        found["LlamaIndex"] = rows(index.ranking(question, entities=entities))
        found["LlamaIndex async"] = rows(asyncio.run(index.aranking(question, entities=entities)))
    return found


def agree(found: Mapping[str, Rows | None]) -> Rows:
    """Check that all faces found the same, and return it."""
    expected = found["Library"] or []
    wrong = {face: told for face, told in found.items() if told is not None and told != expected}
    assert not wrong, f"{sorted(wrong)} differ from Library: {expected} {wrong}"
    return expected


PLAIN = "How tight are the cover screws?"
QUESTIONS = {
    "plain": (PLAIN, {}),
    "with names": ("Which fuse have the HX210 and the LX90?", {}),
    "an unknown name": ("Which fuse has the HX220?", {"on_unknown": "keep"}),
    "filtered": (PLAIN, {"where": {"$or": [{"page": {"$lte": 1}}, {"document_id": "lx90.md"}]}}),
}
OPTIONS: list[dict[str, Any]] = [
    {},
    dict.fromkeys(("routes", "fusion", "depth", "where", "entities")),
    dict.fromkeys(("by_name", "on_unknown", "on_route_error")),
    {"routes": ("lexical", "dense")},
    {"routes": SECTION_ROUTES},
    {"routes": SECTION_ROUTES, "fusion": None},
    {"routes": ("lexical",)},
    {"routes": ("passages", "lexical")},
    {"fusion": ScoreFusion(alpha=0.3)},
    {"fusion": RankFusion()},
    {"depth": 7},
    {"by_name": False},
    {"entities": ("LX90",)},
]


@pytest.mark.parametrize(
    "condition", [c if c == "plain" else pytest.param(c, marks=pytest.mark.slow) for c in QUESTIONS]
)
def test_every_face_finds_the_same_chunks(asked: Asked, condition: str) -> None:
    question, own = QUESTIONS[condition]
    for chosen in OPTIONS:
        options = {"k": K, **chosen, **own}
        found = searches(asked, question, options)
        if is_typed(options):
            found["command line"] = typed("search", question, asked.path, options)
        assert agree(found) or chosen.get("routes") == ("passages", "lexical")


@pytest.mark.slow
def test_every_face_goes_on_without_the_route_that_fails(degraded: Asked) -> None:
    for chosen in OPTIONS:
        assert agree(searches(degraded, PLAIN, {"k": K, **chosen})), chosen
    ours: list[Any] = [langchain_catena.CatenaRetriever(library=degraded.library)]
    ours.append(llama_index_catena.CatenaRetriever(degraded.library))
    for ranking in (degraded.library.search(PLAIN), *(each.ranking(PLAIN) for each in ours)):
        assert [part.what for part in ranking.degraded] == ["route dense"]


def test_how_many_are_found_where_nobody_says_so(asked: Asked) -> None:
    found = searches(asked, PLAIN, {"k": None})
    assert len(agree({**found, "command line": typed("search", PLAIN, asked.path, {})})) == 10


def test_the_report_shows_the_ranking_of_the_library(asked: Asked) -> None:
    where = {"page": {"$lte": 1}}
    shown = page_of(asked.library, PLAIN, ReportOptions(k=K, where=where)).contents.ranking.hits
    expected = asked.library.search(PLAIN, k=K, where=where)
    assert [(row.score, row.citation) for row in shown] == [row[1:] for row in rows(expected)]
    assert all(row.whole == pytest.approx(row.score) for row in shown)  # the parts are those of the formula used


PASSAGES: list[dict[str, Any]] = [
    {},
    {"where": None, "k": None},
    {"k": 2},
    {"where": {"page": {"$lte": 1}}},
    {"fusion": RankFusion(), "routes": ("lexical", "dense"), "by_name": False},
]


@pytest.mark.slow
@pytest.mark.parametrize("budget", [120, 400])
@pytest.mark.parametrize("reading", [None, ReadingOptions()])
def test_every_face_reads_the_same(asked: Asked, budget: int, reading: ReadingOptions | None) -> None:
    ask, how = ("read", {}) if reading is None else ("passages", {"reading": reading})
    for chosen in PASSAGES:
        others = {"budget_tokens": budget, **how, **{name: value for name, value in chosen.items() if name != "k"}}
        chain = langchain_catena.CatenaSectionRetriever(library=asked.library, **others)
        index = llama_index_catena.CatenaRetriever(asked.library, similarity_top_k=chosen.get("k"), **others)
        options = {"budget_tokens": budget, **how, **chosen}
        found = found_by(asked, ask, chain, index, PLAIN, **options)
        if "k" not in chosen:
            found["command line"] = typed("search", PLAIN, asked.path, options)
        assert agree(found)


def test_a_passage_obeys_a_filter_on_pages_with_its_own(asked: Asked) -> None:
    for where, allowed in [({"page": {"$lte": 1}}, {1}), ({"$not": {"page": {"$ne": 2}}}, {2})]:
        for read in (asked.library.passages, asked.library.read):
            found = read(PLAIN, budget_tokens=5_000, where=where)
            assert {hit.chunk.pages[0] for hit in found.hits if hit.chunk.pages} <= allowed
    reached = asked.library.passages(PLAIN, budget_tokens=5_000, where={"page": {"$lte": 1}}).hits
    assert reached


SEGMENTS: list[dict[str, Any]] = [
    {},
    {"where": None, "fusion": None, "by_name": None, "on_unknown": None},
    {"fusion": RankFusion()},
    {"fusion": ScoreFusion(alpha=0.3), "by_name": False},
    {"where": {"first_page": {"$lte": 1}}},
    {"routes": ("lexical",), "entities": ("LX90",)},
]


def cut(found: Extraction) -> Rows:
    return [(hit.segment.id, hit.value, citation(hit.segment)) for hit in found.segments]


@pytest.mark.slow
@pytest.mark.parametrize("question", [question for question, _ in QUESTIONS.values()])
def test_every_face_finds_the_same_segments(asked: Asked, question: str) -> None:
    for options in SEGMENTS:
        chain = langchain_catena.CatenaSegmentRetriever(library=asked.library, **options)
        index = llama_index_catena.CatenaSegmentRetriever(asked.library, **options)
        found = found_by(asked, "segments", chain, index, question, **options)
        if is_typed(options):
            found["command line"] = typed("search", question, asked.path, {"segments": True, **options})
        assert agree(found) or question == "Which fuse has the HX220?"


WALKS: list[dict[str, Any]] = [{}, {"where": None}, {"where": {"first_page": {"$lte": 1}}}]


@pytest.mark.slow
@pytest.mark.parametrize("routes", [None, ("lexical", "dense"), SECTION_ROUTES])
def test_every_face_walks_to_the_same_chunks(asked: Asked, routes: Sequence[str] | None) -> None:
    asked.library.build_graph()
    how = GraphSearch(routes=routes)
    for options in WALKS:
        chain = langchain_catena.CatenaGraphRetriever(library=asked.library, how=how, k=K, **options)
        index = llama_index_catena.CatenaGraphRetriever(library=asked.library, how=how, similarity_top_k=K, **options)
        found = found_by(asked, "search_graph", chain, index, PLAIN, how, k=K, **options)
        typing = {"routes": routes, "k": K, "graph": True, **options}
        assert agree({**found, "command line": typed("search", PLAIN, asked.path, typing)})


@pytest.mark.parametrize("asked", ["sections"], indirect=True)
@pytest.mark.parametrize("budget", [None, 400])
def test_every_face_finds_the_same_under_several_views(asked: Asked, budget: int | None) -> None:
    how = ViewSearch(views=("headed", "keywords"))
    for where in (None, {"heading_path": "Running"}):
        options: Any = {"views": how, "budget_tokens": budget, "where": where}
        chain = langchain_catena.CatenaSectionRetriever(library=asked.library, **options)
        index = llama_index_catena.CatenaRetriever(asked.library, **options)
        if budget is None:
            assert agree(found_by(asked, "search_views", chain, index, PLAIN, how, where=where))
        else:
            assert agree(found_by(asked, "read", chain, index, PLAIN, **options))


# Filters.


ALIASES: list[tuple[Options, Options]] = [
    ({"first_page": {"$lte": 1}}, {"page": {"$lte": 1}}),
    ({"heading_path": "Power"}, {"path": "Power"}),
    ({"header_path": {"$contains": "Power"}}, {"path": {"$contains": "Power"}}),
    (
        {"$not": {"$and": [{"headings": "Power"}, {"first_page": 3}]}},
        {"$not": {"$and": [{"path": "Power"}, {"page": 3}]}},
    ),
]


@pytest.mark.parametrize(("where", "same"), ALIASES)
def test_what_hits_call_a_field_is_its_name_in_filters(asked: Asked, where: Options, same: Options) -> None:
    assert agree(searches(asked, PLAIN, {"k": K, "where": where})) == rows(
        asked.library.search(PLAIN, k=K, where=same)
    )
    assert cut(asked.library.segments(PLAIN, where=where)) == cut(asked.library.segments(PLAIN, where=same))


def filters_of(*parts: tuple[str, str, Any], condition: str = "and") -> MetadataFilters:
    filters = [
        MetadataFilter(key=key, operator=FilterOperator(operator), value=value) for key, operator, value in parts
    ]
    return MetadataFilters(filters=filters, condition=FilterCondition(condition))


def llama_index_retrievers(library: Library, **options: Any) -> list[Any]:
    return [
        llama_index_catena.CatenaRetriever(library, **options),
        llama_index_catena.CatenaRetriever(library, budget_tokens=500, **options),
        llama_index_catena.CatenaSegmentRetriever(library, **options),
        llama_index_catena.CatenaFigureRetriever(library, **options),
        llama_index_catena.CatenaGraphRetriever(library=library, **options),
    ]


def test_llama_index_takes_its_own_filters_wherever_filters_are(asked: Asked) -> None:
    asked.library.build_graph()
    given = filters_of(("first_page", "<=", 1), ("document_id", "in", ["hx200.md", "lx90.md"]))
    where = {"$and": [{"page": {"$lte": 1}}, {"document_id": {"$in": ["hx200.md", "lx90.md"]}}]}
    expected = [nodes(each.retrieve(PLAIN)) for each in llama_index_retrievers(asked.library, where=where)]
    assert sum(map(bool, expected)) == 4  # there are no figures
    for options in ({"where": given}, {"filters": given}, {"filters": where}, {"where": where, "filters": given}):
        assert [nodes(each.retrieve(PLAIN)) for each in llama_index_retrievers(asked.library, **options)] == expected


@pytest.mark.parametrize(
    ("given", "same"),
    [
        (
            filters_of(("document_id", "any", ["hx200.md", "lx90.md"])),
            {"document_id": {"$in": ["hx200.md", "lx90.md"]}},
        ),
        (filters_of(("path", "all", ["Running"])), {"path": "Running"}),
        (MetadataFilter(key="path", value="Power"), {"path": "Power"}),
        ([MetadataFilter(key=k, value=k) for k in ("path", "title")], {"path": "path", "title": "title"}),
    ],
)
def test_every_form_of_llama_index_filters_is_taken(asked: Asked, given: Any, same: Options) -> None:
    found = [
        nodes(llama_index_catena.CatenaRetriever(asked.library, where=each).retrieve(PLAIN)) for each in (given, same)
    ]
    assert found[0] == found[1]
    assert bool(found[0]) is not isinstance(given, list)


@pytest.mark.parametrize(
    ("field", "meant"), [("titel", "title"), ("frist_page", "first_page"), ("heading_paths", "heading_path")]
)
def test_every_face_refuses_a_field_that_nothing_has_and_names_the_one_that_was_meant(
    asked: Asked, field: str, meant: str
) -> None:
    library, where = asked.library, {field: "HX210 Manual"}
    library.build_graph()
    how: Any = {"library": library, "where": where}
    chain = [
        langchain_catena.CatenaRetriever(**how),
        langchain_catena.CatenaSectionRetriever(**how, budget_tokens=500),
        langchain_catena.CatenaSegmentRetriever(**how),
        langchain_catena.CatenaFigureRetriever(**how),
        langchain_catena.CatenaGraphRetriever(**how),
    ]
    asks = [getattr(library, name) for name in ("search", "passages", "segments", "search_figures", "search_graph")]
    faces: list[Callable[[], object]] = [
        *(lambda ask=ask: ask(PLAIN, where=where) for ask in asks),
        lambda: library.widen(PLAIN, library.search(PLAIN), where=where),
        *(lambda each=each: each.invoke(PLAIN) for each in chain),
        *(lambda each=each: asyncio.run(each.ainvoke(PLAIN)) for each in chain),
        *(lambda each=each: each.retrieve(PLAIN) for each in llama_index_retrievers(library, where=where)),
        *(
            lambda each=each: asyncio.run(each.aretrieve(PLAIN))
            for each in llama_index_retrievers(library, where=where)
        ),
    ]
    for ask in faces:
        with pytest.raises(FilterError, match=rf"has the field '{field}'\. Did you mean '{meant}'\?"):
            ask()

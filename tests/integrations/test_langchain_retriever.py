"""CatenaRetriever and CatenaSectionRetriever: hits, names in the question, sections, and any retriever as a route."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any, ClassVar

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_fakes import Broken, Events, Fixed, ReplyingChatModel, module_library

import langchain_catena as lc
from catena import Library
from catena.effects import Search, Services
from catena.enrichment import Keywords, Summaries
from catena.library import Preparation
from catena.model import FilterError, ParameterError, Scale, Unknown
from catena.retrieval import ExactUnion, ReadingOptions, RoutedStore, ViewSearch
from catena.structure import SectionChunkOptions
from catena.text import count_tokens

NAMES = ("HX200", "HX210", "HX220", "HX230")
TEXT = "# {0} Manual\n\n## Power\n\nThe fuse holds {1} A.\n\n| part | current |\n|---|---|\n| motor | {1} A |\n\n"
TEXT += "## Cover\n\nTighten the screws.\n"
library = module_library({f"{name.lower()}.md": TEXT.format(name, n) for n, name in enumerate(NAMES, start=2)})
NOWHERE = "How strong is the fuse of the HX990?"
OSPREY = "How strong is the fuse of the Osprey?"


def titles(documents: list[Document]) -> list[str]:
    return [document.metadata["title"].split()[0] for document in documents]


def exact(library: Library, document: Document) -> bool:
    text = library.get(document.metadata["document_id"]).document.text
    return text[document.metadata["start_index"] : document.metadata["end_index"]] == document.page_content


# Names in the question.


async def test_a_name_that_stands_nowhere_gives_nothing_and_says_why(library: Library, caplog) -> None:
    retriever, events, later = lc.CatenaRetriever(library=library), Events(), Events()
    with caplog.at_level(logging.WARNING, "langchain_catena"):
        assert retriever.invoke(NOWHERE, {"callbacks": [events]}) == []
    assert "'HX990' stands nowhere in the documents; near it: HX2" in caplog.text
    ranking = retriever.ranking(NOWHERE)
    (unknown,) = ranking.unknown
    assert (unknown.text, set(unknown.near)) == ("HX990", set(NAMES))
    with blockbuster_ctx(["catena", "langchain_catena"]):
        assert await retriever.ainvoke(NOWHERE, {"callbacks": [later]}) == []
        assert await retriever.aranking(NOWHERE) == ranking
    assert events.seen == later.seen == [("catena_unknown", {"text": "HX990", "near": unknown.near})]


def test_what_is_missing_is_told_in_front_where_asked_for(library: Library) -> None:
    teller = lc.CatenaRetriever(library=library, k=1, tell_unknown=True, whole_sections=True)
    (told,) = teller.invoke(NOWHERE)
    assert told.page_content.startswith("'HX990' stands nowhere in the documents; near it: HX2")
    assert told.metadata["kind"] == "unknown"
    assert teller.invoke("Is the HX200 or the HX990 stronger?")[0].metadata["kind"] == "unknown"
    assert "unknown" not in [each.metadata["kind"] for each in teller.invoke("fuse of the HX210")]


def test_names_that_the_caller_knows_go_with_the_question(library: Library) -> None:
    retriever = lc.CatenaRetriever(library=library)
    fixed = lc.CatenaRetriever(library=library, entities=("Osprey",))
    asked, told = OSPREY.lower(), (Unknown("osprey"),)  # with its capital it is taken for a name without being told
    assert retriever.ranking(asked).unknown == fixed.ranking(asked, entities=()).unknown == ()
    assert retriever.ranking(asked, entities=["Osprey"]).unknown == told
    assert fixed.ranking(asked).unknown == fixed.ranking(asked, entities=None).unknown == told


def test_bad_options_are_named(library: Library) -> None:
    for options, match in (
        ({}, "give either library"),
        ({"library": library, "services": library.services}, "give either library"),
        ({"services": library.services, "whole_sections": True}, "whole_sections=True needs library"),
        ({"library": library, "on_unknown": "guess"}, "on_unknown"),
        ({"library": library, "detectors": ("spacy",)}, "detectors"),
    ):
        with pytest.raises(ValueError, match=match):
            lc.CatenaRetriever(**options)  # type: ignore[arg-type]
    for options, match in (
        ({"budget_tokens": 0}, "budget_tokens"),
        ({"reading": ReadingOptions()}, "give budget_tokens"),
        ({"views": "summary"}, "ViewSearch"),
        ({"views": ViewSearch(), "by_name": True}, "by_name=… does nothing with views"),
    ):
        with pytest.raises(ValueError, match=match):
            lc.CatenaSectionRetriever(library=library, **options)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="whole number"):
        lc.CatenaSectionRetriever(library=library, k=1.5).invoke(NOWHERE)


# Sections.

PROSE = " ".join(f"The pump of row {number} turns slowly while the valve stays open." for number in range(80))
NEEDLE = "Tighten the cover screws of the housing to 4.5 Nm with the short lever."
LONG = f"# HX210 Manual\n\n## Running\n\n{PROSE}\n\n{NEEDLE}\n\n{PROSE}\n\n## Power\n\nThe fuse holds 3 A.\n"
QUESTION = "How tight are the cover screws of the HX210?"


def about(messages: list[Any]) -> str:
    words = [word for word in ("pump", "valve", "fuse", "screws", "motor") if word in messages[-1].text]
    return f"This section is about {' and '.join(words)}." if "summar" in messages[0].text.lower() else str(words)


sections = module_library(
    {"hx210.md": LONG, "hx220.md": LONG.replace("HX210", "HX220").replace("4.5", "3.2")},
    preparation=Preparation(chunks=SectionChunkOptions(), views=(Keywords(), Summaries(over_tokens=0))),
    llm=lc.LangChainLLM(ReplyingChatModel(reply=about)),
)


def test_sections_are_those_of_the_library_by_passage_and_by_view(sections: Library) -> None:
    retriever = lc.CatenaSectionRetriever(library=sections, k=2)
    assert retriever.ranking(QUESTION) == sections.search(QUESTION, k=2)
    assert NEEDLE in retriever.invoke(QUESTION)[0].page_content
    for k, how in ((2, ViewSearch(rule=ExactUnion())), (1.5, ViewSearch())):
        by_views = lc.CatenaSectionRetriever(library=sections, k=k, views=how)
        assert by_views.ranking(QUESTION) == sections.search_views(QUESTION, how, k=k)
        assert set(by_views.invoke(QUESTION)[0].metadata["catena"]["views"]) <= {"headed", "keywords", "summary"}
    with pytest.raises(ParameterError, match="views"):
        lc.CatenaSectionRetriever(library=sections, views=ViewSearch(views=("questions",))).invoke(QUESTION)


@pytest.mark.parametrize("views", [None, ViewSearch(rule=ExactUnion())])
def test_a_budget_returns_what_says_most(sections: Library, views: ViewSearch | None) -> None:
    retriever = lc.CatenaSectionRetriever(library=sections, budget_tokens=300, views=views)
    found = retriever.invoke(QUESTION)
    assert NEEDLE in found[0].page_content
    assert exact(sections, found[0])
    assert sum(count_tokens(each.page_content) for each in found) <= 300
    if views is None:
        assert retriever.ranking(QUESTION) == sections.read(QUESTION, budget_tokens=300)
    assert 1 <= len(retriever.invoke(QUESTION, budget_tokens=100)) < len(found)
    few = lc.CatenaSectionRetriever(library=sections, views=views, budget_tokens=300, reading=ReadingOptions(hits=1))
    assert {each.metadata["heading_path"] for each in few.invoke(QUESTION)} == {"HX210 Manual › Running"}
    assert few.invoke(QUESTION, k=2) != few.invoke(QUESTION, k=0) == []


# Any retriever as a route.

FOUND = [
    Document(id=name, page_content=text, metadata={"relevance_score": score, "page": page})
    for page, (name, score, text) in enumerate((("a", 7.0, "3 bar."), ("b", 2.0, "Opens."), ("c", 1.0, "Red.")), 1)
]


class Paged(Fixed):
    """Returns what it was given; of a page, where it is asked for one."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any, page: int | None = None) -> list[Document]:
        return [one for one in self.docs if page in (None, one.metadata["page"])]


def over(route: Any, **options: Any) -> lc.CatenaRetriever:
    return lc.CatenaRetriever(services=Services(store=RoutedStore({"mine": route})), routes=("mine",), **options)


def test_order_rules_and_scores_are_kept_raw() -> None:
    jumbled = [FOUND[2], FOUND[0], Document(id="x", page_content="no score")]
    found = lc.RetrieverStore({"mine": Fixed(docs=jumbled)}).search(Search(route="mine", query="q", k=2))
    assert found.scale is Scale.RANK
    assert [(hit.chunk.id, hit.score, hit.provenance[0].score) for hit in found.hits] == [
        ("c", 1, 1.0),
        ("a", 0.5, 7),
    ]


def test_ids_are_the_documents_or_those_under_a_key_or_made() -> None:
    bare = [Document(page_content="one", metadata={"_id": 5, "_score": 3.5}), Document(page_content="two")]
    request = Search(route="mine", query="q", k=5)
    keyed = RoutedStore({"mine": lc.retriever_route(Fixed(docs=bare), id_key="_id", score_key="_score")})
    first, second = keyed.search(request).hits
    assert (first.chunk.id, first.provenance[0].score) == ("5", 3.5)
    made = RoutedStore({"mine": lc.retriever_route(Fixed(docs=bare))}).search(request).hits
    assert made[1].chunk.id == second.chunk.id != made[0].chunk.id
    assert bare[0].id is None  # inputs are not changed
    same = [Document(page_content="same", metadata={"source": name, "deep": {"kept": 1}}) for name in "ab"]
    found = lc.CatenaRetriever.over({"one": Fixed(docs=same)}).invoke("x")
    assert [each.metadata["source"] for each in found] == ["a", "b"]  # equal texts of two sources stay two
    assert found[0].metadata["deep"] == {"kept": 1}


def test_a_filter_is_refused_or_obeyed() -> None:
    with pytest.raises(FilterError, match="filter inside the retriever"):
        over(lc.retriever_route(Broken())).invoke("q", where={"page": 2})  # and it is not asked
    obeying = over(lc.retriever_route(Paged(docs=FOUND), obey=lambda where: {"page": where["page"]}))
    assert [document.id for document in obeying.invoke("q", where={"page": 2})] == ["b"]
    assert [document.id for document in obeying.invoke("q")] == ["a", "b", "c"]


async def test_any_runnable_from_a_question_to_documents_is_a_route() -> None:
    for made in (RunnableLambda(lambda _: FOUND), Fixed(docs=FOUND)):
        for only_async in (False, True):
            asked = over(lc.retriever_route(made, only_async=only_async))
            assert [document.id for document in asked.invoke("q")] == ["a", "b", "c"]
            with blockbuster_ctx(["catena", "langchain_catena"]):
                assert [document.id for document in await asked.ainvoke("q")] == ["a", "b", "c"]
    with pytest.raises(ParameterError, match="retriever must be a LangChain retriever"):
        lc.retriever_route(object())  # type: ignore[arg-type]
    for made in (lc.from_elasticsearch_store, lc.from_elasticsearch_retriever):
        with pytest.raises(ParameterError, match=r"object\.client must be there"):
            made(object())


def test_a_route_that_is_dead_is_left_alone_at_the_next_question() -> None:
    class Down(Fixed):
        asked: ClassVar[list[str]] = []

        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            self.asked.append(query)
            raise ConnectionError("refused")

    asked = lc.CatenaRetriever.over({"up": Fixed(docs=FOUND), "down": Down(docs=[])})
    for _ in range(3):
        found = asked.invoke("q")
    assert len(Down.asked) == 2
    assert "not asked" in str(found[0].metadata["catena"]["degraded"])


def test_the_readme_of_the_package_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    readme = Path(__file__).parents[2] / "integrations/langchain-catena/README.md"
    monkeypatch.chdir(tmp_path)
    code = "".join(re.findall(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL))
    scope: dict[str, Any] = {}
    exec(code, scope)
    scope["library"].close()
    promised = re.findall(r"(?:^|  )# (\S.*)", code, re.MULTILINE)
    said = capsys.readouterr().out
    assert len(promised) == 11
    assert [line for line in promised if line not in said] == []

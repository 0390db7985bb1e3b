"""CatenaRetriever in LangChain: the standard suite, scores and ids, async, callbacks, known traps."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_fakes import Broken, Fixed

from catena import Library
from catena.model import FilterError, RouteError
from langchain_catena import CatenaRetriever, CatenaSegmentRetriever

MANUAL = """# {name} Manual

## Mounting

Tighten the cover screws to {torque} Nm. Use the supplied key.

## Maintenance

Check the seal of the cover every {months} months.

| Parameter | Value |
|---|---|
| Fuse | {fuse} |
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("manuals")
    for name, torque, months, fuse in (("HX200", "3.2", 6, "T2A"), ("HX210", "4.5", 12, "T4A")):
        text = MANUAL.format(name=name, torque=torque, months=months, fuse=fuse)
        (folder / f"{name.lower()}.md").write_text(text, encoding="utf-8")
    with Library.open(folder / "library") as opened:
        opened.index(sorted(folder.glob("*.md")))
        yield opened


@pytest.fixture
def retriever(library: Library) -> CatenaRetriever:
    return CatenaRetriever(library=library, k=3)


def test_the_named_product_comes_first_with_id_score_and_citation(retriever: CatenaRetriever) -> None:
    for name, torque in (("HX200", "3.2"), ("HX210", "4.5")):
        first = retriever.invoke(f"How tight are the cover screws of the {name}?")[0]
        assert torque in first.page_content
        assert first.metadata["citation"] == f"{name} Manual › Mounting, lines 3-5"
        assert first.metadata["relevance_score"] > 0
        assert first.id


def test_offsets_are_exact(retriever: CatenaRetriever, library: Library) -> None:
    for document in retriever.invoke("cover", k=10):
        text = library.get(document.metadata["document_id"]).document.text
        assert text[document.metadata["start_index"] : document.metadata["end_index"]] == document.page_content


def test_filters_and_k_are_obeyed_at_the_call(retriever: CatenaRetriever) -> None:
    only = retriever.invoke("cover screws", k=10, where={"title": "HX200 Manual"})
    assert only
    assert {document.metadata["title"] for document in only} == {"HX200 Manual"}
    assert len(retriever.invoke("cover screws", k=2)) == 2
    with pytest.raises(FilterError):
        retriever.invoke("cover", where={"title": {"$like": "HX"}})


async def test_a_field_that_nothing_has_is_refused_as_by_the_library(library: Library) -> None:
    wrong, named = {"titel": "HX200 Manual"}, "Did you mean 'title'"
    for kind in (CatenaRetriever, CatenaSegmentRetriever):
        with pytest.raises(FilterError, match=named):
            kind(library=library).invoke("cover", where=wrong)
        with pytest.raises(FilterError, match=named), blockbuster_ctx(["catena", "langchain_catena"]):
            await kind(library=library, where=wrong).ainvoke("cover")


def test_whole_sections(library: Library) -> None:
    sections = CatenaRetriever(library=library, k=4, whole_sections=True).invoke("fuse of the HX210")
    assert sections[0].page_content.startswith("## Maintenance")
    assert "T4A" in sections[0].page_content
    assert len({section.id for section in sections}) == len(sections)


class Recorder(BaseCallbackHandler):
    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def on_retriever_start(self, serialized, query, *, run_id, parent_run_id=None, **kwargs) -> None:
        self.events.append(("start", parent_run_id))

    def on_custom_event(self, name, data, **kwargs) -> None:
        self.events.append((name, data))


def twins() -> list[Document]:
    return [Document(id=i, page_content="same text", metadata={"source": i}) for i in ("left", "right")]


def test_child_calls_are_children_in_the_trace() -> None:
    fused = CatenaRetriever.over({"one": Fixed(docs=twins()), "two": Fixed(docs=twins())})
    recorder = Recorder()
    fused.invoke("anything", {"callbacks": [recorder]})
    parents = [parent for _, parent in recorder.events]
    assert parents[0] is None
    assert len(parents) == 3
    assert len(set(parents[1:])) == 1
    assert parents[1] is not None


def test_equal_texts_of_two_documents_stay_two_with_scores_and_metadata() -> None:
    found = CatenaRetriever.over({"one": Fixed(docs=twins()), "two": Fixed(docs=twins()[::-1])}).invoke("x")
    assert sorted(document.metadata["source"] for document in found) == ["left", "right"]
    assert all(document.metadata["relevance_score"] > 0 for document in found)


def test_documents_without_ids_are_kept_apart_by_source() -> None:
    docs = [Document(page_content="same text", metadata={"source": name, "deep": {"kept": 1}}) for name in "ab"]
    found = CatenaRetriever.over({"one": Fixed(docs=docs)}).invoke("x")
    assert [document.metadata["source"] for document in found] == ["a", "b"]
    assert found[0].metadata["deep"] == {"kept": 1}


def test_weights_act() -> None:
    left, right = twins()
    routes = {"one": Fixed(docs=[left, right]), "two": Fixed(docs=[right, left])}
    assert CatenaRetriever.over(routes, weights={"one": 0.99, "two": 0.01}).invoke("x")[0].id == "left"
    assert CatenaRetriever.over(routes, weights={"one": 0.01, "two": 0.99}).invoke("x")[0].id == "right"


def test_a_failing_route_degrades_aloud() -> None:
    recorder = Recorder()
    fused = CatenaRetriever.over({"good": Fixed(docs=twins()), "bad": Broken()})
    found = fused.invoke("x", {"callbacks": [recorder]})
    assert len(found) == 2
    assert "route bad" in found[0].metadata["catena"]["degraded"][0]
    assert "the index is gone" in found[0].metadata["catena"]["degraded"][0]
    assert [name for name, _ in recorder.events if name == "catena_degraded"] == ["catena_degraded"]


def test_a_failing_route_raises_when_asked_to() -> None:
    fused = CatenaRetriever.over({"good": Fixed(docs=twins()), "bad": Broken()}, on_route_error="raise")
    with pytest.raises(RouteError, match=r"route 'bad' failed: .*the index is gone"):
        fused.invoke("x")


def test_foreign_retrievers_refuse_filters_instead_of_ignoring_them() -> None:
    with pytest.raises(FilterError, match="filter inside the retriever"):
        CatenaRetriever.over({"one": Fixed(docs=twins())}).invoke("x", where={"source": "left"})


def test_one_source_is_asked_for(library: Library) -> None:
    with pytest.raises(ValueError, match="give either library"):
        CatenaRetriever()
    with pytest.raises(ValueError, match="give either library"):
        CatenaRetriever(library=library, services=library.services)
    with pytest.raises(ValueError, match="whole_sections=True needs library"):
        CatenaRetriever(services=library.services, whole_sections=True)


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

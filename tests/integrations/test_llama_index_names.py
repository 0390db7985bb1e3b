"""Names in LlamaIndex: each gets its share, and one that stands nowhere is told by every way that there is."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index_models import Saying
from llama_index_spans import listening

from catena import Library
from catena.effects import Services
from catena.enrichment import ExpertDetector, ExpertTerms, RecognizerDetector
from catena.model import MissingServiceError, ModelMismatchError, ServiceError
from catena.retrieval import RankFusion, ScoreFusion, Tuned
from catena.testing import FakeEmbedder, Flaky
from catena.testing.fakes import FakeRecognizer, FakeStore
from llama_index_catena import CatenaRetriever, RouteDegradedEvent, UnknownNameEvent, retriever_store
from llama_index_catena.convert import NOTICE, UNKNOWN, provenance, to_chunk

NAMES = ("HX200", "HX210", "HX240", "QT55", "QT60", "ZB7")
BOTH = "Which has the greater cover torque, the HX200 or the QT55?"
NOWHERE = "What is the cover torque of the HX230?"
SAID = "'HX230' stands nowhere in the documents; near it: "


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("manuals")
    for number, name in enumerate(NAMES):
        text = (
            f"# {name} manual\n\n## Cover\n\nThe cover torque is {number} Nm.\n\n## Fuse\n\nIt has {number} fuses.\n"
        )
        (folder / f"{name.lower()}.md").write_text(text, encoding="utf-8")
    with Library.open(folder / "library", embedder=FakeEmbedder()) as opened:
        opened.index(sorted(folder.glob("*.md")))
        yield opened


def found(nodes: list[NodeWithScore]) -> list[str]:
    return [node.metadata["title"].removesuffix(" manual") for node in nodes]


def test_each_product_of_a_question_gets_its_share(library: Library) -> None:
    nodes = CatenaRetriever(library, similarity_top_k=2).retrieve(BOTH)
    assert sorted(found(nodes)) == ["HX200", "QT55"]
    assert {way["view"] for node in nodes for way in provenance(node.node)["routes"] if way["route"] == "name"}
    without = CatenaRetriever(library, by_name=False).ranking(BOTH)
    assert without == library.search(BOTH, by_name=False)
    assert CatenaRetriever(library).ranking(BOTH) == library.search(BOTH) != without


async def test_a_name_that_stands_nowhere_gives_a_notice_and_nothing_else(library: Library) -> None:
    retriever = CatenaRetriever(library)
    (node,) = retriever.retrieve(NOWHERE)
    assert node.text.startswith(SAID)
    assert (node.metadata["kind"], node.score) == (NOTICE, 0.0)
    for mode in (MetadataMode.LLM, MetadataMode.EMBED):
        assert node.node.get_content(mode) == node.text
    assert [n.to_dict() for n in await retriever.aretrieve(NOWHERE)] == [node.to_dict()]
    assert to_chunk(node.node).text == node.text
    assert CatenaRetriever(library, notice=False).retrieve(NOWHERE) == []
    (other,) = retriever.retrieve("Torque of the HX230, please?")
    assert other.node_id != node.node_id


async def test_the_ranking_says_it(library: Library) -> None:
    retriever = CatenaRetriever(library)
    ranking = retriever.ranking(NOWHERE)
    assert ranking == await retriever.aranking(QueryBundle(NOWHERE)) == library.search(NOWHERE)
    assert [(name.text, ranking.hits) for name in ranking.unknown] == [("HX230", ())]


def test_the_log_and_an_event_say_it(library: Library, caplog: pytest.LogCaptureFixture) -> None:
    with listening() as told, caplog.at_level(logging.WARNING):
        CatenaRetriever(library).retrieve(NOWHERE)
    (event,) = [e for e in told.events if isinstance(e, UnknownNameEvent)]
    assert (event.text, event.class_name()) == ("HX230", "UnknownNameEvent")
    assert set(event.near) >= {"HX200", "HX210"}
    assert SAID in caplog.text


def test_models_read_it_with_the_passages_about_the_others(library: Library) -> None:
    question = "Which has the greater cover torque, the QT55 or the HX230?"
    notice, *nodes = CatenaRetriever(library, similarity_top_k=2).retrieve(question)
    assert notice.node.get_content(MetadataMode.LLM).startswith(SAID)
    assert found(nodes)[0] == "QT55"
    for node in nodes:
        assert f"{UNKNOWN}: {SAID}" in node.node.get_content(MetadataMode.LLM)
        assert UNKNOWN not in node.node.get_content(MetadataMode.EMBED)
        assert [name["text"] for name in provenance(node.node)["unknown"]] == ["HX230"]
        assert UNKNOWN not in to_chunk(node.node).metadata
    (_, section, *_) = CatenaRetriever(library, expand_to="section").retrieve(question)
    assert f"{UNKNOWN}: {SAID}" in section.node.get_content(MetadataMode.LLM)


def test_neighbours_are_kept_on_request(library: Library) -> None:
    nodes = CatenaRetriever(library, on_unknown="keep").retrieve(NOWHERE)
    assert len(nodes) > 1
    assert all(node.metadata[UNKNOWN].startswith(SAID) for node in nodes)


async def test_a_query_engine_says_that_the_name_stands_nowhere(library: Library) -> None:
    engine = RetrieverQueryEngine.from_args(CatenaRetriever(library), llm=MockLLM())
    for answer in (engine.query(NOWHERE), await engine.aquery(NOWHERE)):
        assert SAID in str(answer)
        assert [node.metadata["kind"] for node in answer.source_nodes] == [NOTICE]


async def test_async_never_blocks_the_loop(library: Library) -> None:
    retriever = CatenaRetriever(library, expand_to="section", detectors=[ExpertDetector(terms=ExpertTerms(["ZB7"]))])
    for question in (BOTH, NOWHERE):
        with blockbuster_ctx(["catena", "llama_index_catena"]):
            nodes = await retriever.aretrieve(question)
        assert [n.to_dict() for n in nodes] == [n.to_dict() for n in retriever.retrieve(question)]


QUESTION = "Does the left gripper of the Aurelia have a fuse?"


def test_names_are_found_by_detectors_a_model_and_the_caller(library: Library) -> None:
    def unknown(entities: tuple[str, ...] = (), **options: Any) -> list[str]:
        ranking = CatenaRetriever(library, **options).ranking(QUESTION, entities=entities)
        return [name.text.lower() for name in ranking.unknown]

    assert unknown() == []
    assert unknown(("Aurelia",)) == ["aurelia"]
    assert unknown(detectors=[ExpertDetector(terms=ExpertTerms(["Borealis"]))]) == []
    assert unknown(detectors=[ExpertDetector(terms=ExpertTerms(["Aurelia"]))]) == ["aurelia"]
    assert unknown(llm=Saying(reply='[["Aurelia", "Borealis"]]')) == ["aurelia"]
    recognizing = replace(library.services, recognizer=FakeRecognizer({"PRODUCT": ["Aurelia"]}))
    retriever = CatenaRetriever(recognizing, detectors=[RecognizerDetector()])
    assert [name.text.lower() for name in retriever.ranking(QUESTION).unknown] == ["aurelia"]


def test_a_detector_that_fails_costs_its_names_and_is_told(library: Library) -> None:
    broken = replace(library.services, recognizer=Flaky(FakeRecognizer({}), [ServiceError("ner", "no model")] * 9))
    retriever = CatenaRetriever(broken, detectors=[RecognizerDetector()])
    with listening() as told:
        assert found(retriever.retrieve(BOTH))[0] in {"HX200", "QT55"}
    (event,) = [e for e in told.events if isinstance(e, RouteDegradedEvent)]
    assert "recogniser" in event.what
    with pytest.raises(ServiceError, match="no model"):
        CatenaRetriever(broken, detectors=[RecognizerDetector()], on_route_error="raise").retrieve(BOTH)
    with pytest.raises(MissingServiceError, match="Recognise"):
        CatenaRetriever(library, detectors=[RecognizerDetector()]).retrieve(BOTH)


def weights(model: str) -> Tuned:
    return Tuned(
        alpha=0.1, beta=0.4, adopted=True, chosen=(0.1, 0.4), usual=(0.2, 0.2), objective="log-rank", k=None, n=12,
        depth=10, questions=20, groups=6, left_out=0, held_out=0.9, held_out_usual=0.8, gain=0.1, interval=(0.0, 0.2),
        detectable=0.05, folds=(), alphas=(), betas=(), surface=(), model=model,
    )  # fmt: skip


def test_tuned_weights_are_those_of_the_source(library: Library) -> None:
    model = library.services.embedder.identity  # type: ignore[union-attr]
    tuned = weights(model)
    retriever = CatenaRetriever(library, fusion=tuned, by_name=False)
    plain = CatenaRetriever(library, fusion=ScoreFusion(alpha=0.1, beta=0.4), by_name=False)
    assert retriever.ranking(BOTH) == plain.ranking(BOTH)
    with pytest.raises(ModelMismatchError, match="other-model"):
        CatenaRetriever(library, fusion=weights("other-model"))


class Fixed(BaseRetriever):
    """A LlamaIndex retriever that returns what it was given."""

    def __init__(self, *texts: str) -> None:
        super().__init__()
        self.nodes = [NodeWithScore(node=TextNode(id_=text, text=text), score=1.0) for text in texts]

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self.nodes


def test_names_are_known_beside_retrievers_too(library: Library) -> None:
    store = retriever_store({"notes": Fixed("HX200 note", "a note")}, beside=library.store)
    services = Services(embedder=library.services.embedder, store=store)
    retriever = CatenaRetriever(
        services, routes=["lexical", "dense", "notes"], fusion=RankFusion(), similarity_top_k=20
    )
    assert [name.text for name in retriever.ranking(NOWHERE).unknown] == ["HX230"]
    ranking = retriever.ranking(BOTH)
    shares = {
        way.view: hit for hit in ranking.hits for way in hit.provenance if way.route == "name" and way.rank == 1
    }
    assert {hit.chunk.document_id for hit in shares.values()} == {"hx200.md", "qt55.md"}
    notes = [hit for hit in ranking.hits if hit.chunk.document_id not in {info.id for info in library.documents()}]
    assert {hit.chunk.id for hit in notes} == {"HX200 note", "a note"}
    assert all(way.route == "notes" for hit in notes for way in hit.provenance)  # no share: they bear no name
    for nameless in (None, FakeStore({"lexical": []})):
        services = Services(store=retriever_store({"notes": Fixed("x"), "other": Fixed("y")}, beside=nameless))
        ranking = CatenaRetriever(services, routes=["notes", "other"], fusion=RankFusion()).ranking(NOWHERE)
        assert (ranking.unknown, len(ranking.hits)) == ((), 2)


def test_beside_llama_indexes_own_fusion(library: Library) -> None:
    """Over the same routes, ours gives each product its share, and says what stands nowhere; the built-in cannot."""
    routes = [CatenaRetriever(library, routes=[route], similarity_top_k=10) for route in ("lexical", "dense")]
    builtin = QueryFusionRetriever(
        routes, llm=MockLLM(), num_queries=1, mode="reciprocal_rerank", similarity_top_k=2, use_async=False
    )
    ours = CatenaRetriever(library, routes=["lexical", "dense"], similarity_top_k=2)
    assert sorted(found(ours.retrieve(BOTH))) == ["HX200", "QT55"]
    assert {node.metadata["kind"] for node in builtin.retrieve(NOWHERE)} == {"text"}
    assert [node.metadata["kind"] for node in ours.retrieve(NOWHERE)] == [NOTICE]
    fused = QueryFusionRetriever([ours, Fixed("a note")], llm=MockLLM(), num_queries=1, use_async=False)
    assert any(node.text.startswith(SAID) for node in fused.retrieve(NOWHERE))

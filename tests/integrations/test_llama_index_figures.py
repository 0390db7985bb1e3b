"""Figures in LlamaIndex: found as image nodes with their files, captioned by any model that sees."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ImageBlock, MessageRole, TextBlock
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import ImageNode, MetadataMode
from llama_index_models import Saying
from llama_index_spans import listening

import catena
from catena import Library
from catena.effects import Captioner, Describe, Services, arun, ask, run
from catena.library import Preparation
from catena.model import FilterError, InvalidReplyError, LibraryError, ServiceError
from catena.testing import FakeEmbedder
from llama_index_catena import CatenaFigureRetriever, LlamaIndexCaptioner
from llama_index_catena.convert import provenance, to_chunk

REPORT = Path(catena.__file__).parent / "data" / "demo" / "halden-field-reliability-report-2025.pdf"
FIGURES = Preparation(engine="pypdfium2", figures=True)
QUESTION = "failures of all products by half-year"
TITLE = "Figure 2. Failures per 100 device-years of all products, by half-year"
SEEN = "A line falls from nine to four; a tortoise sits on it."
PNG, JPEG = b"\x89PNG\r\n\x1a\n...", b"\xff\xd8\xff..."


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("report")
    captioner = LlamaIndexCaptioner(Saying(reply=SEEN))
    with Library.open(
        folder / "library", preparation=FIGURES, embedder=FakeEmbedder(), services=Services(captioner=captioner)
    ) as opened:
        opened.index([REPORT])
        yield opened


async def test_a_figure_is_found_with_its_file_and_all_that_is_known_of_it(library: Library) -> None:
    retriever = CatenaFigureRetriever(library, similarity_top_k=1)
    (found,) = retriever.retrieve(QUESTION)
    (hit,) = library.search_figures(QUESTION, k=1).hits
    node = found.node
    assert isinstance(node, ImageNode)
    assert (node.node_id, found.score, node.text) == (hit.chunk.id, hit.score, hit.chunk.text)
    assert node.image_path == str(library.figure_file(hit))
    assert Path(node.image_path).read_bytes() == library.figure(hit).png
    assert node.image_mimetype == "image/png"
    known = {name: node.metadata[name] for name in ("figure_title", "caption", "kind", "first_page", "last_page")}
    assert known == {"figure_title": TITLE, "caption": SEEN, "kind": "figure", "first_page": 4, "last_page": 4}
    assert node.metadata["figure"] == Path(node.image_path).name
    assert node.metadata["citation"].startswith("Field Reliability Report 2025 › 6 Development over time, page 4")
    assert {way["route"] for way in provenance(node)["routes"]} == {"dense", "lexical"}
    assert all(isinstance(value, str | int | float | bool) for value in node.metadata.values())
    assert node.ref_doc_id == hit.chunk.document_id
    assert to_chunk(node).kind == "figure"
    assert [n.to_dict() for n in await retriever.aretrieve(QUESTION)] == [found.to_dict()]
    (by_caption,) = CatenaFigureRetriever(library, similarity_top_k=1).retrieve("tortoise")
    assert by_caption.metadata["caption"] == SEEN


async def test_async_never_blocks_the_loop(library: Library) -> None:
    with blockbuster_ctx(["catena", "llama_index_catena"]), listening() as told:
        assert await CatenaFigureRetriever(library).aretrieve(QUESTION)
    assert told.ancestors("CatenaFigureRetriever._aretrieve")[0] == "CatenaFigureRetriever.aretrieve"


def test_filters_and_lengths_act(library: Library) -> None:
    assert len(CatenaFigureRetriever(library).retrieve(QUESTION)) == 2
    assert CatenaFigureRetriever(library, similarity_top_k=0).retrieve(QUESTION) == []
    assert CatenaFigureRetriever(library, where={"title": "another"}).retrieve(QUESTION) == []
    with pytest.raises(FilterError, match="unknown operator"):
        CatenaFigureRetriever(library, where={"title": {"$like": "x"}}).retrieve(QUESTION)


def test_a_query_engine_can_refer_to_a_figure(library: Library) -> None:
    engine = RetrieverQueryEngine.from_args(CatenaFigureRetriever(library, similarity_top_k=1), llm=MockLLM())
    answer = engine.query(QUESTION)
    (source,) = answer.source_nodes
    for said in (TITLE, SEEN, source.metadata["figure"], "page 4"):
        assert said in str(answer)
    assert "routes" not in source.node.get_content(MetadataMode.LLM)


def test_a_model_that_sees_is_shown_the_picture(library: Library) -> None:
    (found,) = CatenaFigureRetriever(library, similarity_top_k=1).retrieve(QUESTION)
    assert isinstance(found.node, ImageNode)
    assert found.node.resolve_image() == found.node.image_path
    block = ImageBlock(path=Path(found.node.image_path or ""))
    (hit,) = library.search_figures(QUESTION, k=1).hits
    assert block.resolve_image().read() == library.figure(hit).png


def test_where_no_file_can_be_written_the_picture_itself_is_in_the_node(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> Path:
        raise LibraryError("library", "the folder is read-only")

    monkeypatch.setattr(library, "figure_file", refused)
    (found,) = CatenaFigureRetriever(library, similarity_top_k=1).retrieve(QUESTION)
    (hit,) = library.search_figures(QUESTION, k=1).hits
    assert isinstance(found.node, ImageNode)
    assert found.node.image_path is None
    assert base64.b64decode(found.node.image or "") == library.figure(hit).png


class Awaited(Saying):
    """As `Saying`, and truly async."""

    async def achat(self, messages: Any, **options: Any) -> ChatResponse:
        self.asked.append((list(messages), options))
        return ChatResponse(message=ChatMessage(role=MessageRole.ASSISTANT, content=f"awaited {self.reply}"))


@pytest.mark.parametrize(("image", "mimetype"), [(PNG, "image/png"), (JPEG, "image/jpeg")])
async def test_the_picture_goes_with_the_prompt(image: bytes, mimetype: str) -> None:
    model = Awaited(reply=SEEN, asked=[])
    captioner = LlamaIndexCaptioner(model)
    assert isinstance(captioner, Captioner)
    services, request = Services(captioner=captioner), Describe(image=image, prompt="What is it?")
    assert run(ask([request]), services) == [SEEN]
    assert await arun(ask([request]), services) == [f"awaited {SEEN}"]
    for messages, options in model.asked:
        (message,) = messages
        text, picture = message.blocks
        assert (message.role, text) == (MessageRole.USER, TextBlock(text="What is it?"))
        assert (picture.resolve_image().read(), picture.image_mimetype) == (image, mimetype)
        assert options == {"max_tokens": 400}


async def test_what_is_no_caption_is_refused() -> None:
    for reason in ("length", "content_filter"):
        captioner = LlamaIndexCaptioner(Saying(reply="A line falls fr", finish_reason=reason))
        with pytest.raises(InvalidReplyError, match="did not end by itself"):
            captioner.caption(PNG, "What is it?")
        with pytest.raises(InvalidReplyError, match="did not end by itself"):
            await captioner.acaption(PNG, "What is it?")
    with pytest.raises(ServiceError) as caught:
        LlamaIndexCaptioner(Saying(reply="fail")).caption(PNG, "What is it?")
    assert "abc123" not in str(caught.value)

"""Transformers of LangChain documents: chunks, sections, contexts, units, entities, captions; and figures found."""

from __future__ import annotations

import base64
import copy
import json
import logging
import pickle
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given
from hypothesis import strategies as st
from langchain_classic.retrievers.multi_vector import MultiVectorRetriever
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_fakes import CHARTS, ReplyingChatModel, charts

import langchain_catena as lc
from catena import Library
from catena.effects import Journal, Services
from catena.enrichment import CodeDetector, ContextOptions, ExpertDetector, ExpertTerm, ExpertTerms
from catena.library import FixedLength, Preparation
from catena.model import InvalidReplyError, ParameterError, ServiceError
from catena.structure import EmbeddingOptions, SectionChunkOptions, SegmentOptions
from catena.testing.fakes import FakeRecognizer
from catena.text import count_tokens

TEXT = "# Manual\r\n\r\n" + "\r\n\r\n".join(
    f"## Part {part}\r\n\r\nIntro of part {part}.\r\n\r\n### Details {part}\r\n\r\n"
    + "\r\n".join(f"Screw {part}.{line} is\ttightened to {line} Nm 世界." for line in range(40))
    for part in range(3)
)
WHOLE = Document(page_content=TEXT, metadata={"source": "manual.md", "extra": {"nested": [1, None]}})


def cutter(max_tokens: int, content: Any = "raw") -> lc.CatenaDocumentTransformer:
    return lc.CatenaDocumentTransformer(max_tokens=max_tokens, min_tokens=1, content=content)


def sliced(text: str, chunks: list[Document]) -> list[str]:
    """Return what the chunks hold, where that is exactly what stands at their offsets."""
    held = [each.metadata.get("raw_text", each.page_content) for each in chunks]
    assert [text[each.metadata["start_index"] : each.metadata["end_index"]] for each in chunks] == held
    return held


def neighbours(chunks: list[Document]) -> bool:
    ids = [each.id for each in chunks]
    after, before = ([each.metadata.get(key) for each in chunks] for key in ("next_id", "previous_id"))
    places = [each.metadata["position"] for each in chunks]
    return (places, after, before) == (list(range(len(ids))), [*ids[1:], None], [None, *ids[:-1]])


# Chunks.


@given(
    st.text(max_size=300) | st.text(alphabet="#ab c\n.|-`", max_size=200),
    st.sampled_from([None, SectionChunkOptions(), FixedLength(tokens=5)]),
)
def test_ids_are_derived_and_slices_exact_for_any_text(text: str, how: Any) -> None:
    cut = lc.CatenaDocumentTransformer(chunks=how, content="headed")
    chunks = cut.split_documents([Document(page_content=text)])
    assert chunks == cut.split_documents([Document(page_content=text)])
    assert len({chunk.id for chunk in chunks}) == len(chunks)
    assert all(sliced(text, chunks))
    assert bool(chunks) == bool(text.strip())


@pytest.mark.parametrize("content", ["raw", "headed", "definition"])
@pytest.mark.parametrize("again", ["raw", "headed"])
def test_chunks_of_chunks_stand_in_the_whole_document(content: str, again: str) -> None:
    chunks = lc.with_uuids(cutter(320, content).transform_documents([WHOLE]))
    assert all(each.metadata["extra"] == {"nested": [1, None]} for each in chunks)
    for cut in (cutter(64, again), cutter(40, again)):
        before = [chunk.model_copy(deep=True) for chunk in chunks]
        small = cut.transform_documents(chunks)
        assert chunks == before
        chunks, lines = small, TEXT.split("\r\n")
        for each, text in zip(small, sliced(TEXT, small), strict=True):
            about = each.metadata
            assert text.strip() in "\r\n".join(lines[about["first_line"] - 1 : about["last_line"]])
            assert (about["heading_path"][:6], about["source"]) == ("Manual", "manual.md")
        assert len({each.metadata["document_id"] for each in small}) == 1
        assert len({lc.to_chunk(each).id for each in small}) == len(small)
        assert neighbours(small)


async def test_units_of_chunks_stand_in_the_whole_document_too() -> None:
    units = lc.CatenaAtomicTransformer(llm=ReplyingChatModel(reply=lambda _: "no answer of any use"))
    chunks = cutter(320).transform_documents([WHOLE])[:3]
    cut = units.transform_documents(chunks)
    assert len(cut) > len(chunks)
    assert await units.atransform_documents(chunks) == cut
    assert sliced(TEXT, cut)
    assert neighbours(cut)

    def divided(messages: list[Any]) -> str:
        passage = messages[-1].text.split("<passage>\n")[1].split("\n</passage>")[0]
        return "\n".join(f"{part.strip()}." for part in passage.replace("\n", ". ").split(".") if part.strip())

    text = "# HX210\n\nThe pump holds 3 bar. The valve opens at 5 bar.\n\n## Cover\n\nIt has four screws.\n"
    made = lc.CatenaAtomicTransformer(llm=ReplyingChatModel(reply=divided)).transform_documents(
        [Document(page_content=text, metadata={"source": "hx210.md"})]
    )
    said = ["# HX210", "The pump holds 3 bar.", "The valve opens at 5 bar.", "## Cover", "It has four screws."]
    assert sliced(text, made) == said
    assert (made[-1].metadata["source"], made[-1].metadata["heading_path"][-5:]) == ("hx210.md", "Cover")
    with pytest.raises(ParameterError, match="llm must be a chat model"):
        lc.CatenaAtomicTransformer()


def test_a_document_that_comes_twice_does_not_follow_itself() -> None:
    once, parts = cutter(64).transform_documents([WHOLE]), cutter(320).transform_documents([WHOLE])
    assert cutter(64).transform_documents([WHOLE, WHOLE]) == [*once, *once]
    assert cutter(64).transform_documents([*parts, *parts]) == cutter(64).transform_documents(parts) * 2
    part = Document(page_content=TEXT[100:400], metadata={"source": "manual.md", "start_index": 100})
    assert sliced(part.page_content, cutter(40).transform_documents([part]))  # of another's splitter: a whole one


def test_headed_content_is_found_and_a_definition_leads_to_the_whole_table() -> None:
    text = (
        "# Pump\n\n## Limits\n\n| Quantity | max |\n|---|---|\n| Pressure | 9 bar |\n\n## Use\n\nTurn it on slowly.\n"
    )
    (headed, _) = lc.CatenaDocumentTransformer(content="headed").create_documents([text])
    assert headed.page_content.startswith("Pump › Limits\n| Quantity | max |")
    chunks = lc.CatenaDocumentTransformer(content="definition").create_documents([text])
    shown = ["Pump › Limits\nQuantity, max\nPressure", "Pump › Use\nTurn it on slowly."]
    assert [chunk.page_content for chunk in chunks] == shown
    store, one = InMemoryVectorStore(lc.CatenaEmbeddings()), {"k": 1}
    retriever = MultiVectorRetriever(
        vectorstore=store, docstore=InMemoryStore(), id_key="chunk_id", search_kwargs=one
    )
    retriever.vectorstore.add_documents(chunks)
    retriever.docstore.mset([(chunk.metadata["chunk_id"], lc.whole_chunk(chunk)) for chunk in chunks])
    (found,) = retriever.invoke("maximum pressure")
    assert ("9 bar" in sliced(text, [found])[0], "raw_text" in found.metadata) == (True, False)


@pytest.mark.parametrize("content", ["raw", "headed", "definition"])
def test_what_prints_no_title_is_named_by_its_source_or_not_at_all(content: Any) -> None:
    cut = lc.CatenaDocumentTransformer(content=content)
    nameless, noted, kept = cut.transform_documents(
        Document(page_content="Six screws.", **more)
        for more in ({}, {"id": "notes"}, {"metadata": {"source": "notes/pump guide.txt"}})
    )  # a generator
    assert (nameless.page_content, "title" in nameless.metadata) == ("Six screws.", False)
    above = [""] * 2 if content == "raw" else ["notes\n", "pump guide\n"]
    assert [each.page_content for each in (noted, kept)] == [f"{title}Six screws." for title in above]
    assert kept.metadata["citation"] == "pump guide, line 1"
    assert lc.whole_chunk(noted).page_content == "Six screws."


def test_chunks_are_whole_sections_or_of_a_fixed_length_and_shown_whole() -> None:
    prose = " ".join(f"The pump of row {number} turns slowly while the valve stays open." for number in range(160))
    text = f"# HX210 Manual\n\n## Running\n\n{prose}\n\n## Power\n\nIt holds 3 A.\n\n## See also\n\nThe other.\n"
    parent = Document(page_content=text, metadata={"source": "hx210.md"})
    whole = SectionChunkOptions(leave_out=("See also",))
    for content in ("headed", "definition"):
        running, power = lc.CatenaDocumentTransformer(chunks=whole, content=content).split_documents([parent])
        assert running.page_content.startswith("HX210 Manual › Running\n")  # and not its last passage
        assert running.page_content.endswith(prose)
        assert running.metadata["next_id"] == power.id
        assert all(isinstance(value, str | int | float | bool) for value in running.metadata.values())
    for inside in (True, False):
        fixed = FixedLength(tokens=100, inside_sections=inside)
        found = lc.CatenaDocumentTransformer(chunks=fixed).split_documents([parent])
        assert all(count_tokens(each) <= 100 for each in sliced(text, found))
        assert neighbours(found)


def test_bad_options_are_named() -> None:
    for options, match in (
        ({"content": "both"}, "content must be 'raw', 'headed', 'definition' or 'context'"),
        ({"context": ContextOptions(embed=True)}, "content must be 'context' where the context's embed is True"),
        ({"context": ContextOptions()}, "llm must be a chat model or LLM: segmentation or context asks it"),
        ({"segmentation": SegmentOptions()}, "llm must be a chat model or LLM: segmentation or context asks it"),
        ({"media_type": "text/html"}, "media_type"),
    ):
        with pytest.raises(ParameterError, match=match):
            lc.CatenaDocumentTransformer(**options)  # type: ignore[arg-type]
    made = lc.CatenaDocumentTransformer().create_documents(["One.", "Two."], [{"n": 1}, {"n": 2}])
    assert [document.metadata["n"] for document in made] == [1, 2]
    with pytest.raises(ParameterError, match=r"metadatas must be as many as texts \(2\), got 1"):
        lc.CatenaDocumentTransformer().create_documents(["One.", "Two."], [{}])


# Sections by meaning.

PARTS = (
    "The pump is primed before its first use.\nOpen the valve and wait until the air is out.\nClose it again.",
    "The fuse lies behind the cover.\nIt is rated 250 mA, slow.\nNever replace it with a larger one.",
    "Clean the housing with a damp cloth.\nUse no solvents.\n\tDry it at once.",
)
LINES = "\n".join(PARTS) + "\n"
PLAIN = Document(id="p", page_content=LINES, metadata={"source": "p.txt"})


def dividing(messages: list[BaseMessage]) -> str:
    """Answer with the three parts of the text, by the numbers of their first lines."""
    first, last = map(int, re.findall(r"Divide lines (\d+) to (\d+)\.", str(messages[-1].content))[-1])
    titles = {first: "Priming", first + 3: "Fuse", first + 6: "Cleaning"}
    return json.dumps([{"title": t, "start": n} for n, t in titles.items() if n <= last])


def by_meaning(model: Any, **options: Any) -> list[Document]:
    how = SegmentOptions(min_section=0)
    return lc.CatenaDocumentTransformer(segmentation=how, llm=model, min_tokens=1, **options).split_documents([PLAIN])


def test_sections_of_a_model_are_paths_of_exact_slices_and_asked_for_once(tmp_path: Path, caplog) -> None:
    model = ReplyingChatModel(reply=dividing)
    with Journal.open(tmp_path / "journal.db") as journal:
        chunks, again = (by_meaning(model, services=Services(journal=journal)) for _ in range(2))
    assert chunks == again
    assert len(model.sent) == 1
    assert [chunk.metadata["heading_path"] for chunk in chunks] == ["Priming", "Fuse", "Cleaning"]
    assert sliced(LINES, chunks) == [*(f"{part}" for part in PARTS)]
    assert [chunk.metadata["first_line"] for chunk in chunks] == [1, 4, 7]
    assert all(chunk.metadata["generated_title"] for chunk in chunks)
    assert neighbours(chunks)
    with caplog.at_level(logging.WARNING):
        silly = by_meaning(ReplyingChatModel(reply=lambda _: "I would rather not."))
    assert "".join(sliced(LINES, silly)).split() == LINES.split()
    assert "divided at headings and paragraphs" in caplog.text


@pytest.mark.parametrize("embeddings", [None, DeterministicFakeEmbedding(size=8)])
async def test_embeddings_divide_without_a_model(embeddings: Any) -> None:
    how = EmbeddingOptions(shortest=60, longest=200)
    by = lc.CatenaDocumentTransformer(segmentation=how, embeddings=embeddings)
    chunks = by.transform_documents([PLAIN])
    assert chunks == await by.atransform_documents([PLAIN])
    assert "\n".join(sliced(LINES, chunks)).split() == LINES.split()
    assert len(chunks) > 1
    assert all(chunk.metadata["heading_path"] for chunk in chunks)


# Context.

CARE = "# Care\n\nClean it with a damp cloth, never with solvents.\n\n# Fuse\n\nIt is rated 250 mA, slow.\n"
HX7 = Document(id="hx7", page_content=CARE, metadata={"source": "hx7.md"})
ABOUT, FUSE = "This document is about: keeping the HX7 in order.", "This section is about: the fuse."


def saying(messages: list[BaseMessage]) -> str:
    """Answer in the form that each of the prompts asks for."""
    prompt = str(messages[-1].content) + str(messages[0].content)
    if "This document is about" in prompt:
        return ABOUT
    if "This section is about" in prompt:
        return FUSE if "250 mA" in prompt else "This section is about: cleaning."
    return "HX7 handbook"


def in_context(**options: Any) -> lc.CatenaDocumentTransformer:
    return lc.CatenaDocumentTransformer(
        **{"context": ContextOptions(), "llm": ReplyingChatModel(reply=saying), **options}
    )


async def test_titles_and_summaries_are_in_the_metadata_and_in_the_content_if_asked(caplog) -> None:
    untitled = Document(page_content="No heading stands here, only text.")
    before = copy.deepcopy([HX7, untitled])
    chunks = in_context().transform_documents([HX7, untitled])
    with blockbuster_ctx(["catena", "langchain_catena"]):
        assert await in_context().atransform_documents([HX7, untitled]) == chunks
    assert [HX7, untitled] == before
    assert [part.split("\n")[0] for part in sliced(CARE, chunks[:2])] == ["# Care", "# Fuse"]
    fuse = chunks[1].metadata
    assert (fuse["document_summary"], fuse["section_summary"]) == (ABOUT, FUSE)
    assert ABOUT in fuse["header"]
    assert fuse["header"].endswith(f"titled 'Fuse'. {FUSE}")
    assert chunks[2].metadata["title"] == "HX7 handbook"  # made where none is printed
    shown = in_context(context=ContextOptions(embed=True), content="context").transform_documents([HX7])
    assert [each.page_content for each in shown] == [
        f"{each.metadata['header']}\n\n{raw}" for each, raw in zip(shown, sliced(CARE, shown), strict=True)
    ]
    bare = lc.CatenaDocumentTransformer(content="context").transform_documents([HX7])[1].page_content
    assert bare.startswith("Document context: the following excerpt is from a document")
    with caplog.at_level(logging.WARNING):
        mute = in_context(llm=ReplyingChatModel(reply=lambda _: "...")).transform_documents([HX7])
    assert sliced(CARE, mute) == sliced(CARE, shown)
    assert "document_summary" not in mute[0].metadata
    assert "missing of titles and summaries" in caplog.text


def test_without_a_model_the_shipped_embedding_makes_summaries() -> None:
    offline = lc.CatenaDocumentTransformer(context=ContextOptions(by="offline")).transform_documents([HX7])
    assert offline[1].metadata["section_summary"] == "It is rated 250 mA, slow."
    assert offline[0].metadata["document_summary"]


def test_summaries_reach_the_header_of_a_segment() -> None:
    store = InMemoryVectorStore.from_documents(
        in_context(content="context").transform_documents([HX7]), lc.CatenaEmbeddings()
    )
    found = store.similarity_search("fuse rating", k=2)
    (segment,) = lc.CatenaSegmentExtractor(neighbours=store, content="headed").compress_documents(found, "fuse")
    assert segment.metadata["header"].endswith(ABOUT)
    assert segment.page_content == f"{segment.metadata['header']}\n\n{sliced(CARE, [segment])[0]}"


# Entities.

BIRDS = [
    Document(id=f"d{n}", page_content=text, metadata={"source": "m.md"})
    for n, text in enumerate(("The HX-200 has an Osprey pump.", "Nothing.", "Osprey and Kestrel, by Acme Pumps."))
] + [Document(page_content="Old.", metadata={"entities": "stale"})]


def entities(transformer: lc.CatenaEntityTransformer) -> list[str]:
    return [document.metadata.get("entities", "") for document in transformer.transform_documents(BIRDS)]


def names(messages: list[Any]) -> str:
    """Name the birds in each passage of the prompt, and one that no passage prints."""
    asked = messages[-1].text.split("<passage")[1:]
    return json.dumps([[n for n in ("Osprey", "Kestrel") if n in each] + ["Ghost"] for each in asked])


def test_entities_are_found_by_each_detector_and_what_is_not_printed_is_refused(tmp_path: Path, caplog) -> None:
    before = copy.deepcopy(BIRDS)
    by_rule = lc.CatenaEntityTransformer()
    assert (
        entities(by_rule) == entities(lc.CatenaEntityTransformer([CodeDetector(weight=2)])) == ["hx 200", "", "", ""]
    )
    assert before == BIRDS
    first = pickle.loads(pickle.dumps(by_rule)).transform_documents(BIRDS)[0]
    assert (first.id, first.metadata) == ("d0", {"source": "m.md", "entities": "hx 200"})
    terms = ExpertTerms([ExpertTerm(name="Osprey", aliases=("OS pump",))])
    by_list = lc.CatenaEntityTransformer([ExpertDetector(terms=terms)])
    assert entities(by_list) == ["os pump; osprey", "", "os pump; osprey", ""]
    with Journal.open(tmp_path / "journal.db") as journal, caplog.at_level(logging.WARNING, "langchain_catena"):
        for calls in (1, 0):  # replies are paid for once
            model = ReplyingChatModel(reply=names)
            services = Services(recognizer=FakeRecognizer({"ORG": ["Acme Pumps"]}), journal=journal)
            found = entities(lc.CatenaEntityTransformer(llm=model, services=services))
            assert found == ["hx 200; osprey", "", "acme pumps; kestrel; osprey", ""]
            assert len(model.sent) == calls
    assert "Ghost" in caplog.text


def test_a_detector_that_fails_raises_or_is_told_and_bad_options_are_named(caplog) -> None:
    model = ReplyingChatModel(reply=lambda _: "I cannot do that.")
    with caplog.at_level(logging.WARNING, "langchain_catena"):
        assert entities(lc.CatenaEntityTransformer(llm=model))[0] == "hx 200"
    assert "language model at chunk d0" in caplog.text
    with pytest.raises(InvalidReplyError, match="no JSON list"):
        entities(lc.CatenaEntityTransformer(llm=model, on_error="raise"))
    for wrong in ([], ["spacy"]):
        with pytest.raises(ParameterError, match="detectors must be at least one detector"):
            lc.CatenaEntityTransformer(wrong)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="on_error"):
        lc.CatenaEntityTransformer(on_error="ignore").transform_documents([])  # type: ignore[arg-type]


# Pictures.

FIGURES = Preparation(engine="pypdfium2", figures=True)
PNG, JPEG = b"\x89PNG\r\n\x1a\n rest", b"\xff\xd8\xff rest"


async def test_pictures_get_captions_and_other_documents_stay(tmp_path: Path, caplog) -> None:
    file, asked = tmp_path / "cover.png", []
    file.write_bytes(PNG)
    about = {"figure_file": str(file), "figure_title": "Figure 1", "heading_path": "HX210 › Cover"}
    given = [
        Document(id="i", page_content="The cover.", metadata=about),
        Document(id="t", page_content="No picture."),
        Document(id="u", page_content="Gone.", metadata={"figure_file": str(tmp_path / "none.png")}),
    ]

    def seeing(messages: list[BaseMessage]) -> str:
        asked.append(str(messages[-1].content))
        time.sleep(0.001)  # would be noticed in the event loop
        return "A grey cover with six screws."

    model = ReplyingChatModel(reply=seeing)
    transformer = lc.CatenaCaptionTransformer(llm=model)
    with blockbuster_ctx(["catena", "langchain_catena"]):
        found = await transformer.atransform_documents(given)
    assert found == transformer.transform_documents(given)
    assert [each.metadata.get("caption") for each in found] == ["A grey cover with six screws.", None, None]
    assert all("caption" not in each.metadata for each in given)
    assert all(part in asked[0] for part in ("Figure 1", "HX210 › Cover", "The cover."))
    assert "picture of u" in caplog.text
    shown = lc.CatenaCaptionTransformer(llm=model, picture=lambda _: file.read_bytes()).transform_documents(given)
    assert [len(each.metadata["caption"]) for each in shown] == [29] * 3
    refusing = lc.CatenaCaptionTransformer(llm=ReplyingChatModel(reply=lambda _: "I'm sorry, I cannot see."))
    assert refusing.transform_documents(given) == given
    assert "caption of i" in caplog.text
    with pytest.raises(ParameterError, match="a chat model that sees"):
        lc.CatenaCaptionTransformer()


async def test_the_picture_goes_to_the_model_as_a_data_url_and_a_cut_caption_counts_as_failed() -> None:
    model = ReplyingChatModel(reply=lambda _: "A pump.")
    captioner = lc.LangChainCaptioner(model)
    assert captioner.caption(PNG, "What is it?") == await captioner.acaption(JPEG, "What is it?") == "A pump."
    for (message,), image, kind in zip(model.sent, (PNG, JPEG), ("png", "jpeg"), strict=True):
        text, picture = message.content
        assert text == {"type": "text", "text": "What is it?"}
        head, _, data = picture["image_url"]["url"].partition(",")
        assert (head, base64.b64decode(data)) == (f"data:image/{kind};base64", image)
    assert captioner.identity == "langchain:ReplyingChatModel"
    for told in ({"finish_reason": "length"}, {"stop_reason": "max_tokens"}, {"finish_reason": "content_filter"}):
        cut = lc.LangChainCaptioner(
            ReplyingChatModel(reply=lambda _, told=told: AIMessage("A", response_metadata=told))
        )
        with pytest.raises(ServiceError, match="did not end by itself"):
            cut.caption(PNG, "What is it?")
        with pytest.raises(ServiceError, match="did not end by itself"):
            await cut.acaption(PNG, "What is it?")


def sees(messages: list[BaseMessage]) -> str:
    text, _ = messages[0].content
    return "Bars that fall to the right." if "Pressure" in text["text"] else "Bars of four years."  # type: ignore[index]


def test_figures_are_found_with_file_page_and_caption_which_are_paid_for_once(tmp_path: Path) -> None:
    model = ReplyingChatModel(reply=sees)
    (tmp_path / "charts.pdf").write_bytes(charts())
    with Journal.open(tmp_path / "journal.db") as journal:
        services = Services(captioner=lc.LangChainCaptioner(model), journal=journal)
        for name in ("again", "library"):
            with Library.open(tmp_path / name, preparation=FIGURES, services=services) as library:
                library.index(tmp_path / "charts.pdf")
        assert len(model.sent) == 2
    with Library.open(tmp_path / "library", preparation=FIGURES) as library:
        retriever = lc.CatenaFigureRetriever(library=library)
        for question, page, caption in (
            ("failures in each year", 1, "Bars of four years."),
            ("which chart falls to the right", 2, "Bars that fall to the right."),
        ):
            found, other = retriever.invoke(question)
            metadata = found.metadata
            assert (metadata["figure_page"], metadata["figure_title"]) == (page, CHARTS[page - 1][1])
            assert (metadata["first_page"], metadata["caption"]) == (page, caption)
            assert (metadata["kind"], metadata["figure_kind"]) == ("figure", "drawing")
            assert Path(metadata["figure_file"]).read_bytes().startswith(b"\x89PNG")
            assert metadata["figure_file"].endswith(metadata["figure"])
            assert metadata["relevance_score"] >= other.metadata["relevance_score"]
            assert metadata["figure"] in found.page_content  # by which an answer can refer to it
            assert caption in found.page_content
            flat = {key: value for key, value in metadata.items() if key != "catena"}
            assert all(isinstance(value, str | int | float) for value in flat.values())
        assert [each.metadata["figure_page"] for each in retriever.invoke("pumps", where={"page": 1})] == [1]
        assert len(retriever.invoke("chart", k=1)) == 1
        (first,) = lc.CatenaRetriever(library=library, k=1).invoke("bars that fall to the right")
        assert (first.metadata["kind"], first.metadata["caption"]) == ("figure", "Bars that fall to the right.")
        folder = Path(found.metadata["figure_file"]).parent
        shutil.rmtree(folder)
        folder.write_text("in the way")  # no file can be written
        (bare, _) = retriever.invoke("which chart falls to the right")
        assert ("figure_file" in bare.metadata, bare.metadata["figure_page"]) == (False, 2)

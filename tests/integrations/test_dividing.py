"""Documents divided and described in both frameworks: chunks, units, contexts, entities, captions, figures."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from adapter_faces import FACES, Refused, ids
from conformance_world import PUMP, divided
from hypothesis import given
from hypothesis import strategies as st
from langchain_fakes import CHARTS, charts

from catena import Library
from catena.effects import Describe, Services, arun, ask, run
from catena.enrichment import CodeDetector, ContextOptions, ExpertDetector, ExpertTerm, ExpertTerms, LLMDetector
from catena.library import FixedLength, Preparation
from catena.model import InvalidReplyError, ParameterError, ServiceError
from catena.structure import SectionChunkOptions, SegmentOptions
from catena.testing import Found, strategies

# Chunks.


def sliced(text: str, pieces: list[Found]) -> list[str]:
    """Return what pieces hold, where that is exactly what stands at their offsets."""
    held = [each.slice_text or each.text for each in pieces]
    assert [text[each.start : each.end] for each in pieces] == held
    return held


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.name)
@given(
    text=strategies.texts() | st.text(alphabet="#ab c\n.|-`", max_size=100),
    how=st.sampled_from(
        [{"max_tokens": 1}, {"max_tokens": 8}, {"chunks": SectionChunkOptions()}, {"chunks": FixedLength(tokens=5)}]
    ),
)
def test_ids_are_derived_and_slices_exact_for_any_text(face: Any, text: str, how: dict[str, Any]) -> None:
    how = {"min_tokens": 0, **how} if "max_tokens" in how else how
    chunks = face.found(face.chunks(face.document("d", text), **how))
    assert chunks == face.found(face.chunks(face.document("d", text), **how))
    assert len({*ids(chunks)}) == len(chunks)
    assert all(sliced(text, chunks))
    assert [chunk.start for chunk in chunks] == sorted(chunk.start or 0 for chunk in chunks)
    assert bool(chunks) == bool(text.strip())


def test_a_document_becomes_chunks_with_exact_offsets_kinds_lines_and_neighbours(face: Any) -> None:
    made = face.chunks(face.document("pump.md", PUMP), min_tokens=0)
    chunks = face.found(made)
    assert [(each.text, each.metadata["kind"]) for each in chunks] == [
        ("# Pump\n\nRead this first.", "text"),
        ("## Screws M6/M8\n\nTighten to 12 Nm.", "text"),
        ("## Cover\n\nTighten to 12 Nm.", "text"),
        ("| part | torque |\n|---|---|\n| lid | 3 Nm |", "table"),
    ]
    assert [(each.metadata["first_line"], each.metadata["last_line"]) for each in chunks] == [
        (1, 3), (5, 7), (9, 11), (13, 15),
    ]  # fmt: skip
    assert [each.metadata["position"] for each in chunks] == [0, 1, 2, 3]
    assert chunks[1].metadata["citation"].endswith("Screws M6/M8, lines 5-7")
    assert chunks[2].start == PUMP.index("## Cover")
    names = ids(chunks)
    assert [face.neighbours(each) for each in made] == list(zip([None, *names[:-1]], [*names[1:], None], strict=True))


SHEET = "# HX210\n\nThe pump holds 3 bar. The valve opens at 5 bar.\n\n## Cover\n\nIt has four screws.\n"


async def test_units_are_exact_slices_that_know_their_section(face: Any) -> None:
    transformer = face.make("CatenaAtomicTransformer", llm=face.model(divided))
    made = face.transformed(transformer, [face.document("hx210.md", SHEET)])
    said = ["# HX210", "The pump holds 3 bar.", "The valve opens at 5 bar.", "## Cover", "It has four screws."]
    assert sliced(SHEET, made) == said
    assert [each.metadata["position"] for each in made] == [0, 1, 2, 3, 4]
    assert "Cover" in made[-1].metadata["citation"]
    with face.unblocked():
        assert await face.atransformed(transformer, [face.document("hx210.md", SHEET)]) == made


# Sections by meaning.

PARTS = (
    "The pump is primed before its first use.\nOpen the valve and wait until the air is out.\nClose it again.",
    "The fuse lies behind the cover.\nIt is rated 250 mA, slow.\nNever replace it with a larger one.",
    "Clean the housing with a damp cloth.\nUse no solvents.\n\tDry it at once.",
)
LINES = "\n".join(PARTS) + "\n"


def dividing(prompt: str) -> str:
    """Answer with the three parts of the text, by the numbers of their first lines."""
    first, last = map(int, re.findall(r"Divide lines (\d+) to (\d+)\.", prompt)[-1])
    titles = {first: "Priming", first + 3: "Fuse", first + 6: "Cleaning"}
    return json.dumps([{"title": t, "start": n} for n, t in titles.items() if n <= last])


def by_meaning(face: Any, said: Any, **how: Any) -> list[Found]:
    options = {"segmentation": SegmentOptions(min_section=0, **how), "llm": face.model(said), "min_tokens": 1}
    return face.found(face.chunks(face.document("p.txt", LINES, media_type="text/plain"), **options))


def test_a_model_divides_by_meaning_and_where_its_answer_is_of_no_use_paragraphs_do(face: Any, caplog: Any) -> None:
    chunks = by_meaning(face, dividing)
    assert [re.findall("Priming|Fuse|Cleaning", each.metadata["citation"])[-1] for each in chunks] == [
        "Priming", "Fuse", "Cleaning",
    ]  # fmt: skip
    assert sliced(LINES, chunks) == list(PARTS)
    assert [each.metadata["first_line"] for each in chunks] == [1, 4, 7]
    assert all(each.metadata["generated_title"] for each in chunks)
    with caplog.at_level(logging.WARNING):
        silly = by_meaning(face, "I would rather not.")
    assert "".join(sliced(LINES, silly)).split() == LINES.split()
    assert re.search("divided at headings and paragraphs|segmentation of lines", caplog.text)
    with pytest.raises(ServiceError):
        by_meaning(face, "I would rather not.", on_error="raise")


# Context.

CARE = "# Care\n\nClean it with a damp cloth, never with solvents.\n\n# Fuse\n\nIt is rated 250 mA, slow.\n"
ABOUT, FUSE = "This document is about: keeping the HX7 in order.", "This section is about: the fuse."


def saying(prompt: str) -> str:
    """Answer in the form that each of the prompts asks for."""
    if "Heading of the section" in prompt:
        return FUSE if "250 mA" in prompt else "This section is about: cleaning."
    return ABOUT if "This document is about" in prompt else "HX7 handbook"


def test_titles_and_summaries_are_in_the_metadata_and_in_a_header_if_asked(face: Any, caplog: Any) -> None:
    care, fuse = face.in_context(face.document("hx7.md", CARE), face.model(saying))
    assert [each.metadata["document_summary"] for each in (care, fuse)] == [ABOUT, ABOUT]
    assert fuse.metadata["section_summary"] == FUSE
    header = face.header(fuse)
    assert ABOUT in header
    assert header.endswith(f"titled 'Fuse'. {FUSE}")
    assert sliced(CARE, [care, fuse])[1] == "# Fuse\n\nIt is rated 250 mA, slow."
    with caplog.at_level(logging.WARNING):
        mute = face.in_context(face.document("hx7.md", CARE), face.model("..."))
    assert sliced(CARE, mute) == sliced(CARE, [care, fuse])
    assert not any("document_summary" in each.metadata for each in mute)
    assert "summary of" in caplog.text
    offline = face.in_context(face.document("hx7.md", CARE), None, ContextOptions(by="offline"))
    assert offline[1].metadata["section_summary"] == "It is rated 250 mA, slow."


# Entities.

BIRDS = ("The HX-200 has an Osprey pump.", "Nothing.", "Osprey and Kestrel, by Acme Pumps.")


def entities(face: Any, *detectors: Any, **how: Any) -> list[set[str]]:
    """Return the entities of each passage, however they are written."""
    given = [face.node(f"d{number}", text, "m.md") for number, text in enumerate(BIRDS)]
    made = face.transformed(face.make("CatenaEntityTransformer", list(detectors) or None, **how), given)
    said = [each.metadata.get("entities", "") for each in made]
    return [{name.lower().replace("-", " ") for name in each.split("; ") if name} for each in said]


def naming(prompt: str) -> str:
    """Name the birds in each passage of the prompt, and one that no passage prints."""
    asked = prompt.split("<passage")[1:]
    return json.dumps([[n for n in ("Osprey", "Kestrel") if n in each] + ["Ghost"] for each in asked])


def test_entities_are_found_by_each_detector_and_what_is_not_printed_is_refused(face: Any, caplog: Any) -> None:
    code = [{"hx 200"}, set(), set()]
    assert entities(face) == entities(face, CodeDetector(weight=2)) == code
    expert = ExpertDetector(terms=ExpertTerms([ExpertTerm(name="Osprey", aliases=("OS pump",))]))
    assert entities(face, expert) == [{"os pump", "osprey"}, set(), {"os pump", "osprey"}]
    with caplog.at_level(logging.WARNING):
        assert entities(face, llm=face.model(naming)) == [{"hx 200", "osprey"}, set(), {"osprey", "kestrel"}]
    assert "Ghost" in caplog.text


def test_a_detector_that_fails_costs_its_entities_and_is_told_or_raises(face: Any, caplog: Any) -> None:
    mute = face.model("I cannot do that.")
    with caplog.at_level(logging.WARNING):
        assert entities(face, llm=mute)[0] == {"hx 200"}
    assert "language model at chunk d0" in caplog.text
    with pytest.raises(InvalidReplyError, match="no JSON list"):
        entities(face, CodeDetector(), LLMDetector(), llm=mute, on_error="raise")
    with pytest.raises(ParameterError, match="detectors must be at least one detector"):
        face.make("CatenaEntityTransformer", [])


# Pictures.

PNG, JPEG = b"\x89PNG\r\n\x1a\n rest", b"\xff\xd8\xff rest"
SEEN = "A grey cover with six screws."


async def test_pictures_get_captions_and_others_stay_as_they_are(face: Any, tmp_path: Path, caplog: Any) -> None:
    file = tmp_path / "cover.png"
    file.write_bytes(PNG)
    given = [face.picture("i", "The cover.", file), face.node("t", "No picture.")]
    transformer = face.make("CatenaCaptionTransformer", llm=face.model(SEEN))
    with face.unblocked():
        found = await face.atransformed(transformer, given)
    assert found == face.transformed(transformer, given)
    assert [each.metadata.get("caption") for each in found] == [SEEN, None]
    refusing = face.make("CatenaCaptionTransformer", llm=face.model("I'm sorry, I cannot see."))
    with caplog.at_level(logging.WARNING):
        assert [each.metadata.get("caption") for each in face.transformed(refusing, given)] == [None, None]
    assert "caption of i" in caplog.text


@pytest.mark.parametrize(("image", "kind"), [(PNG, "image/png"), (JPEG, "image/jpeg")])
async def test_the_picture_goes_to_the_model_with_the_prompt(face: Any, image: bytes, kind: str) -> None:
    model = face.model(SEEN)
    services, request = Services(captioner=face.captioner(model)), Describe(image=image, prompt="What is it?")
    assert run(ask([request]), services) == await arun(ask([request]), services) == [SEEN]
    assert face.shown(model) == [("What is it?", kind, image)] * 2


@pytest.mark.parametrize("reason", ["length", "content_filter"])
async def test_a_caption_that_was_cut_counts_as_failed(face: Any, reason: str) -> None:
    captioner = face.captioner(face.model("A line falls fr", finish_reason=reason))
    with pytest.raises(InvalidReplyError, match="did not end by itself"):
        captioner.caption(PNG, "What is it?")
    with pytest.raises(InvalidReplyError, match="did not end by itself"):
        await captioner.acaption(PNG, "What is it?")


def failing(prompt: str) -> str:
    raise Refused("api_key=abc123 was cut off")


async def test_a_captioner_that_fails_says_so_without_its_secrets(face: Any) -> None:
    captioner, request = face.captioner(face.model(failing)), Describe(image=PNG, prompt="What is it?")
    for call in (
        lambda: run(ask([request]), Services(captioner=captioner)),
        lambda: captioner.caption(PNG, "What is it?"),
        lambda: asyncio.run(captioner.acaption(PNG, "What is it?")),
    ):
        with pytest.raises(ServiceError, match="was cut off") as caught:
            await asyncio.to_thread(call)
        assert "abc123" not in str(caught.value)


def sees(prompt: str) -> str:
    return "Bars that fall to the right." if "Pressure" in prompt else "Bars of four years."


async def test_figures_are_found_with_file_page_and_caption(face: Any, tmp_path: Path) -> None:
    (tmp_path / "charts.pdf").write_bytes(charts())
    how = {"preparation": Preparation(engine="pypdfium2", figures=True)}
    services = Services(captioner=face.captioner(face.model(sees)))
    with Library.open(tmp_path / "library", services=services, **how) as library:
        library.index(tmp_path / "charts.pdf")
        retriever = face.make("CatenaFigureRetriever", library=library)
        for question, page, caption in (
            ("failures in each year", 1, "Bars of four years."),
            ("which chart falls to the right", 2, "Bars that fall to the right."),
        ):
            raw = face.invoke(retriever, question)
            found, other = face.found(raw)
            (hit, _) = library.search_figures(question).hits
            assert (found.id, found.score) == (hit.chunk.id, hit.score)
            metadata = found.metadata
            assert (metadata["first_page"], metadata["last_page"], metadata["caption"]) == (page, page, caption)
            assert (metadata["figure_title"], metadata["kind"]) == (CHARTS[page - 1][1], "figure")
            file = Path(face.picture_file(raw[0]))
            assert (file.read_bytes(), file.name) == (library.figure(hit).png, metadata["figure"])
            with face.unblocked():
                assert await face.aask(retriever, question) == [found, other]
        only = face.make("CatenaFigureRetriever", library=library, where={"page": 1}, k=1)
        assert [each.metadata["first_page"] for each in face.ask(only, "pumps")] == [1]
        shutil.rmtree(file.parent)
        file.parent.write_text("in the way")  # no file can be written
        (bare, _) = face.invoke(retriever, "which chart falls to the right")
        assert face.picture_file(bare) is None
        assert face.found([bare])[0].metadata["first_page"] == 2
        inside = base64.b64encode(library.figure(hit).png).decode()
        assert face.picture_in(bare) == (inside if face.name == "LlamaIndex" else None)

"""Chunks: what is cut where, and the law that nothing is lost, moved, repeated or too long."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_structure_outline import markdown_lines, texts

from catena.model import Chunk, Document, ParameterError, span_id
from catena.structure import (
    HEADING_ONLY,
    TABLE_HEADER,
    ChunkOptions,
    blocks_of,
    count_tokens,
    cut,
    cut_fixed,
    headed_views,
    outline,
    table_views,
)
from catena.structure.context_view_texts import passage_views
from catena.structure.sentences import sentence_ends
from conftest import needs_data

limits = st.integers(1, 40)
counters = st.sampled_from([count_tokens, len, lambda text: len(text.split())])


def document(text: str, media_type: str = "text/markdown") -> Document:
    return Document(id="d", text=text, media_type=media_type, page_starts=(0, len(text) // 2))


def chunks_of(text: str, max_tokens: int = 320, min_tokens: int = 0) -> tuple[Chunk, ...]:
    found = document(text)
    options = ChunkOptions(max_tokens=max_tokens, min_tokens=min(min_tokens, max_tokens))
    return cut(found, outline(found), options=options)


def check_law(found: Document, chunks: tuple[Chunk, ...], limit: int, count: object = count_tokens) -> None:
    at = 0
    for position, chunk in enumerate(chunks):
        assert chunk.position == position
        assert chunk.start >= at
        assert not found.text[at : chunk.start].strip()
        assert found.text[chunk.start : chunk.end] == chunk.text
        assert chunk.text.strip()
        assert len(chunk.text) == 1 or count(chunk.text.strip()) <= limit  # type: ignore[operator]
        assert chunk.id == span_id(found.id, chunk.kind, chunk.start, chunk.end)
        assert chunk.place == found.place_of(chunk.start, chunk.end)
        at = chunk.end
    assert not found.text[at:].strip()


@given(texts, limits, st.integers(0, 20), counters, st.sampled_from(["text/markdown", "text/plain"]))
def test_chunks_tile_their_sections(text: str, limit: int, small: int, count: object, media_type: str) -> None:
    found = document(text, media_type)
    sections = outline(found)
    chunks = cut(found, sections, options=ChunkOptions(max_tokens=limit, min_tokens=min(small, limit)), count=count)  # type: ignore[arg-type]
    check_law(found, chunks, limit, count)
    for chunk in chunks:
        section = sections[chunk.section]
        assert section.start <= chunk.start <= chunk.end <= section.end
        assert chunk.path == section.path
        assert bool(chunk.metadata.get(HEADING_ONLY)) == (
            section.level > 0 and not text[section.body_start : section.end].strip()
        )


@given(texts, limits, st.booleans())
def test_fixed_length_chunks_obey_the_same_law(text: str, limit: int, inside: bool) -> None:
    found = document(text)
    sections = outline(found)
    chunks = cut_fixed(found, sections if inside else None, tokens=limit)
    check_law(found, chunks, limit)
    if inside:
        assert all(chunk.end <= sections[chunk.section].end for chunk in chunks)


@given(markdown_lines)
def test_blocks_given_or_asked_for_give_the_same_chunks(lines: list[str]) -> None:
    found = document("\n".join(lines))
    blocks = blocks_of(found)
    assert outline(found, blocks=blocks) == outline(found)
    assert cut(found, outline(found), blocks=blocks) == cut(found, outline(found))


def test_a_short_section_is_one_chunk_with_its_heading() -> None:
    text = "# A\n\nOne.\n\n- x\n- y\n\n    code\tkept\n\n## B\n\nTwo.\n"
    assert [chunk.text for chunk in chunks_of(text)] == ["# A\n\nOne.\n\n- x\n- y\n\n    code\tkept", "## B\n\nTwo."]


def test_tables_and_figures_are_chunks_of_their_own_with_their_captions() -> None:
    text = (
        "# A\n\nFirst words.\n\nTable 1. Sizes\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nMore words.\n\n"
        "![x](y.png)\n\nFigure 2: a picture\n\nLast words.\n"
    )
    assert [(chunk.kind, chunk.text.splitlines()[0]) for chunk in chunks_of(text)] == [
        ("text", "# A"),
        ("table", "Table 1. Sizes"),
        ("text", "More words."),
        ("figure", "![x](y.png)"),
        ("text", "Last words."),
    ]
    assert chunks_of(text)[3].text.endswith("Figure 2: a picture")


def test_text_that_is_too_small_joins_the_table_after_it_inside_its_section() -> None:
    text = "# A\n\nSizes:\n\n| a |\n|---|\n| 1 |\n\nNote.\n\n# B\n\nx\n"
    assert [(chunk.kind, chunk.path) for chunk in chunks_of(text, min_tokens=8)] == [
        ("table", ("A",)),
        ("text", ("B",)),
    ]
    assert chunks_of(text, min_tokens=8)[0].text.endswith("Note.")


def test_a_long_table_is_cut_between_rows_and_keeps_its_header_in_metadata() -> None:
    rows = "".join(f"| r{row} | {row} |\n" for row in range(30))
    first, *rest = chunks_of(f"# A\n\n| name | n |\n|---|---|\n{rows}", max_tokens=60)
    assert first.text.startswith("# A")
    assert TABLE_HEADER not in first.metadata
    assert len(rest) == 2
    for chunk in rest:
        assert chunk.kind == "table"
        assert chunk.text.startswith("| r")
        assert chunk.metadata[TABLE_HEADER] == "| name | n |\n|---|---|"


WIDE = {
    "Markdown": lambda n: f"|{'a|' * n}\n|{'-|' * n}\n|{'b|' * n}",
    "HTML": lambda n: f"<table><tr>{'<th>a' * n}<tr>{'<td>b' * n}</table>",
    "a caption": lambda n: f"<table><caption>{'a ' * n}</caption><tr><th>a<th>b{'<tr><td>b<td>c' * n}</table>",
}


@pytest.mark.parametrize("made", WIDE.values(), ids=WIDE)
def test_the_views_of_a_wide_table_grow_with_it_and_not_with_its_square(made: Callable[[int], str]) -> None:
    def length(n: int) -> int:
        made_of = document(made(n))
        chunks = chunks_of(made_of.text)
        found = (*headed_views(made_of, chunks), *passage_views(chunks), *table_views(made_of, chunks))
        return sum(len(view.text) for view in found) + sum(len(str(chunk.metadata)) for chunk in chunks)

    assert length(8_000) < 5 * length(2_000)


def test_a_long_section_is_cut_at_the_mildest_border_into_even_pieces() -> None:
    paragraph = "Some words stand here today. And more of them follow it."
    chunks = chunks_of("# A\n\n" + f"{paragraph}\n\n" * 6, max_tokens=50)
    assert [chunk.text.count(paragraph) for chunk in chunks] == [3, 3]
    sentences = chunks_of("# A\n\n" + "Dr. Who has 3.5 of them. " * 20, max_tokens=40)
    assert all(chunk.text.endswith("them.") for chunk in sentences)
    assert sentences[0].text.startswith("# A\n\nDr. Who")


def test_the_cap_holds_for_one_word_of_ten_thousand_letters() -> None:
    chunks = chunks_of("x" * 10_000, max_tokens=100)
    assert max(count_tokens(chunk.text) for chunk in chunks) <= 100
    assert len(chunks) < 40


@pytest.mark.parametrize(
    "text",
    ["." * 100_000, "a." * 50_000, "中。" * 20_000, "! " * 20_000],
    ids=["dots", "no spaces", "chinese", "marks"],
)
def test_hostile_sentences_are_cut_in_linear_time(text: str) -> None:
    check_law(document(text), chunks_of(text), 320)
    check_law(document(text), cut_fixed(document(text), tokens=100), 100)


def test_heading_only_sections_say_so() -> None:
    chunks = chunks_of("# A\n\n## B\n\ntext\n")
    assert [bool(chunk.metadata.get(HEADING_ONLY)) for chunk in chunks] == [True, False]


def test_sentences_end_in_any_language() -> None:
    text = "See Fig. 3 of J. Smith. It works! 你好。再见？ok. then\n3. Third"
    ends = [0, *sentence_ends(text, 0, len(text)), len(text)]
    parts = [text[start:end] for start, end in itertools.pairwise(ends)]
    assert parts == ["See Fig. 3 of J. Smith. ", "It works! ", "你好。", "再见？", "ok. then\n3. Third"]


@given(st.text(), st.text())
def test_tokens_are_subadditive(first: str, second: str) -> None:
    assert count_tokens(first + second) <= count_tokens(first) + count_tokens(second)
    assert (count_tokens(first) == 0) == (not first.strip())


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("two words.", 3), ("你好，world", 4), ("x" * 13, 3), ("a_b", 3), ("naïve café", 2)]
)
def test_token_counts(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_tokens": 0, "min_tokens": 0}, "max_tokens must be an integer >= 1, got 0"),
        ({"max_tokens": 10, "min_tokens": 11}, r"min_tokens must be between 0 and max_tokens \(10\), got 11"),
    ],
)
def test_options_name_the_bad_parameter(options: dict[str, int], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        ChunkOptions(**options)
    with pytest.raises(ParameterError, match="tokens must be an integer >= 1, got 0"):
        cut_fixed(document("x"), tokens=0)


@pytest.mark.slow
def test_the_law_holds_over_real_pages() -> None:
    path = needs_data("structured", "aws_documentation", "pages.jsonl.gz")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as rows:
        for page in map(json.loads, rows):
            found = document(page["text"])
            check_law(found, cut(found, outline(found)), 320)

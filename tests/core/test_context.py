"""Headers of passages: the words of dsRAG, nothing for what is not known, and from any chunk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.model import Chunk, ParameterError, Segment
from catena.structure import (
    CONTEXT,
    DOCUMENT_SUMMARY,
    DSRAG,
    SECTION_SUMMARY,
    HeaderTemplate,
    chunk_header,
    context_view,
    reader_text,
    segment_header,
)

DOCUMENT = "This document is about: the yearly report of Northmoor."
SECTION = "This section is about: what Northmoor owed."
KNOWN = {"title": "Northmoor 2021", DOCUMENT_SUMMARY: DOCUMENT, SECTION_SUMMARY: SECTION}
DOCUMENT_LINE = "Document context: the following excerpt is from a document titled 'Northmoor 2021'. " + DOCUMENT
SECTION_LINE = "Section context: this excerpt is from the section titled 'Debts'. " + SECTION


def chunk(**told) -> Chunk:
    given = {"metadata": KNOWN, "path": ("Debts",), **told}
    return Chunk(id="c", document_id="d", position=0, start=0, end=2, text="x.", **given)


def segment(**told) -> Segment:
    given = {"metadata": KNOWN, "path": ("Debts",), **told}
    return Segment(id="s", document_id="d", start=0, end=2, text="x.", chunk_ids=("c",), **given)


def without(*keys: str) -> dict[str, str]:
    return {key: text for key, text in KNOWN.items() if key not in keys}


# published: the forms of dsRAG 0.5, get_chunk_header and get_segment_header


def test_the_whole_chunk_header_is_that_of_dsrag():
    assert chunk_header(chunk()) == f"{DOCUMENT_LINE}\n\n{SECTION_LINE}"


def test_the_segment_header_is_the_line_of_the_document():
    assert segment_header(segment()) == segment_header(chunk()) == DOCUMENT_LINE


def test_a_view_and_a_readers_text_are_header_empty_line_text():
    assert context_view(chunk()).text == f"{DOCUMENT_LINE}\n\n{SECTION_LINE}\n\nx."
    assert (context_view(chunk()).kind, context_view(chunk()).chunk_id) == (CONTEXT, "c")
    assert reader_text(segment()) == f"{DOCUMENT_LINE}\n\nx."


# what is missing is not printed


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"metadata": without(DOCUMENT_SUMMARY, SECTION_SUMMARY)},
         "Document context: the following excerpt is from a document titled 'Northmoor 2021'.\n\n"
         "Section context: this excerpt is from the section titled 'Debts'."),
        ({"metadata": without("title")}, f"Document context: {DOCUMENT}\n\n{SECTION_LINE}"),
        ({"path": ()}, f"{DOCUMENT_LINE}\n\nSection context: {SECTION}"),
        ({"metadata": {}}, "Section context: this excerpt is from the section titled 'Debts'."),
        ({"metadata": without(SECTION_SUMMARY), "path": ()}, DOCUMENT_LINE),
        ({"metadata": {"title": "", DOCUMENT_SUMMARY: " "}, "path": ("",)}, ""),
        ({"metadata": {}, "path": ()}, ""),
    ],
)  # fmt: skip
def test_only_what_is_known_is_said(told, expected):
    assert chunk_header(chunk(**told)) == expected


def test_the_documents_title_is_not_named_again_as_a_section():
    assert chunk_header(chunk(metadata={"title": "Northmoor 2021"}, path=("NORTHMOOR  2021",))).count("titled") == 1
    below = chunk(metadata={"title": "Northmoor 2021"}, path=("Northmoor 2021", "Debts"))
    assert chunk_header(below).endswith("the section titled 'Debts'.")


def test_all_headings_above_name_the_section_or_only_the_last_ones():
    deep = chunk(metadata={}, path=("3 Money", "3.2 Debts", "Banks"))
    assert chunk_header(deep).endswith("titled '3 Money › 3.2 Debts › Banks'.")
    assert chunk_header(deep, template=HeaderTemplate(levels=1)).endswith("titled 'Banks'.")
    assert chunk_header(deep, template=HeaderTemplate(levels=9)) == chunk_header(deep)


def test_a_title_is_filled_in_as_it_is():
    odd = chunk(metadata={"title": "The {title} \\1\n of  'it'"}, path=())
    assert chunk_header(odd).endswith("a document titled 'The {title} \\1 of 'it''.")


def test_metadata_of_other_kinds_from_a_users_own_store_is_said_in_words():
    assert "titled '2021'" in chunk_header(chunk(metadata={"title": 2021}))


def test_a_template_of_ones_own_words():
    german = HeaderTemplate(
        document="Dokument:", document_title="„{title}“.", section="", section_title="Kapitel {title}."
    )
    assert (
        chunk_header(chunk(), template=german)
        == f"Dokument: „Northmoor 2021“. {DOCUMENT}\n\nKapitel Debts. {SECTION}"
    )
    silent = HeaderTemplate(document_title="", section_title="")
    assert chunk_header(chunk(metadata={"title": "T"}), template=silent) == ""


@pytest.mark.parametrize("given", [{"document_title": "named"}, {"section_title": "{}"}, {"levels": -1}])
def test_a_template_that_could_not_work_is_refused(given):
    with pytest.raises(ParameterError):
        HeaderTemplate(**given)


WORDS = st.text(alphabet="ab é\n{}", max_size=8)


@given(WORDS, WORDS, st.lists(WORDS, max_size=3), WORDS, st.sampled_from([DSRAG, HeaderTemplate(levels=1)]))
def test_headers_hold_what_is_known_on_at_most_two_lines_and_nothing_empty(title, about, path, said, template):
    told = chunk(metadata={"title": title, DOCUMENT_SUMMARY: about, SECTION_SUMMARY: said}, path=tuple(path))
    header = chunk_header(told, template=template)
    lines = header.split("\n\n") if header else []
    assert len(lines) <= 2
    assert all(line == " ".join(line.split()) for line in lines)
    assert "titled ''" not in header
    for text in (title, about, said):
        assert " ".join(text.split()) in header
    assert bool(header) == any(text.strip() for text in (title, about, said, *path[-template.levels :]))
    assert header == chunk_header(segment(metadata=told.metadata, path=told.path), template=template)

"""Hypothesis strategies for Catena's values, for laws about code that takes them.

Text is mixed on purpose: headings, tables, CJK, combining marks and line ends of every kind.
"""

from __future__ import annotations

from typing import Any

from catena.model import Chunk, Document, Hit, MissingExtraError, Ranking, Scale, span_id

try:
    from hypothesis import strategies as st
except ImportError:
    raise MissingExtraError("hypothesis", "catena-core[testing]") from None

_LINES = st.one_of(
    st.sampled_from(["", "# Title", "## Part 1.2", "| a | b |\n|---|---|\n| 1 | 2 |", "- item", "```\n# code\n```"]),
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40),
    st.text(alphabet="的安全手册。 é́\u200d\t", max_size=20),
)
_LINE_ENDS = st.sampled_from(["\n", "\n\n", "\r\n", "\n"])


def texts(max_lines: int = 12) -> st.SearchStrategy[str]:
    """Return texts of lines as they occur in files."""
    lines = st.lists(st.tuples(_LINES, _LINE_ENDS), max_size=max_lines)
    return lines.map(lambda pairs: "".join(line + end for line, end in pairs))


@st.composite
def documents(draw: st.DrawFn, text: st.SearchStrategy[str] | None = None) -> Document:
    """Return documents, half of them with pages, some of which print their own numbers."""
    body = draw(text if text is not None else texts())
    starts: tuple[int, ...] = ()
    if draw(st.booleans()):
        starts = (0, *sorted(draw(st.sets(st.integers(1, len(body)), max_size=4)))) if body else (0,)
    printed = st.tuples(*(st.sampled_from(("", "iv", "A-3", str(page))) for page in range(1, len(starts) + 1)))
    labels = draw(st.just(()) | printed)
    name = draw(st.from_regex(r"[a-z]{1,8}", fullmatch=True))
    return Document(
        id=name, text=body, title=name.title(), source=f"{name}.pdf", page_starts=starts, page_labels=labels
    )


@st.composite
def chunkings(
    draw: st.DrawFn, document: st.SearchStrategy[Document] | None = None
) -> tuple[Document, tuple[Chunk, ...]]:
    """Return a document and chunks that tile its text."""
    whole = draw(document if document is not None else documents())
    size = len(whole.text)
    cuts = sorted(draw(st.sets(st.integers(1, size - 1), max_size=6))) if size > 1 else []
    spans = list(zip([0, *cuts], [*cuts, size], strict=True)) if size else []
    placed = [(position, whole.place_of(start, end)) for position, (start, end) in enumerate(spans)]
    return whole, tuple(
        Chunk(
            id=span_id(whole.id, "text", start, end),
            document_id=whole.id,
            position=position,
            start=start,
            end=end,
            text=whole.text[start:end],
            path=(whole.title,),
            **place.parts,
        )
        for (position, place), (start, end) in zip(placed, spans, strict=True)
    )


@st.composite
def chunks(draw: st.DrawFn) -> Chunk:
    """Return single chunks; a small set of ids makes rankings overlap."""
    name, position = draw(st.sampled_from("abc")), draw(st.integers(0, 5))
    text = f"passage {position} of {name}"
    start = position * 100
    return Chunk(
        id=f"{name}{position}", document_id=name, position=position, start=start, end=start + len(text), text=text
    )


def rankings(scale: Scale = Scale.SIMILARITY, max_size: int = 8, **score: Any) -> st.SearchStrategy[Ranking]:
    """Return rankings of overlapping chunks.

    Args:
        scale: of the scores.
        max_size: hits at most, before those of one chunk are joined.
        score: bounds for `hypothesis.strategies.floats`; [-10, 10] when not given.
    """
    bounds = {"min_value": -10.0, "max_value": 10.0, **score}
    hits = st.builds(Hit, chunks(), st.floats(allow_nan=False, **bounds))
    return st.lists(hits, max_size=max_size).map(lambda found: Ranking.of(found, scale))

"""Options of `catena index` about what a chunk is: a short piece of a section, a whole section, or a fixed length."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from catena.cli.failures import ProblemError

if TYPE_CHECKING:
    from catena.library.pipeline import FixedLength
    from catena.structure.chunking import ChunkOptions
    from catena.structure.section_chunks import SectionChunkOptions


class ChunksName(StrEnum):
    """What is found and shown as one."""

    PASSAGES = "passages"
    SECTIONS = "sections"
    FIXED = "fixed"


ChunksOption: TypeAlias = Annotated[
    ChunksName,
    typer.Option("--chunks", help="Find pieces of sections, whole sections (MC-indexing), or fixed lengths."),
]
MaxTokens: TypeAlias = Annotated[
    int | None,
    typer.Option("--max-tokens", min=1, metavar="N", help="Of one passage [320], or of one fixed length [300]."),
]
AcrossSections: TypeAlias = Annotated[
    bool, typer.Option("--across-sections", help="Let fixed lengths run across headings.")
]


def chunking(
    name: ChunksName, max_tokens: int | None, across_sections: bool
) -> ChunkOptions | SectionChunkOptions | FixedLength:
    """Return what a chunk is, as the options say.

    Raises:
        ProblemError: an option could do nothing.
    """
    from catena.library.pipeline import FixedLength
    from catena.structure.chunking import ChunkOptions
    from catena.structure.section_chunks import SectionChunkOptions

    if across_sections and name is not ChunksName.FIXED:
        raise ProblemError("--across-sections is about fixed lengths", "--chunks fixed with it")
    if name is ChunksName.SECTIONS:
        if max_tokens is not None:
            raise ProblemError(
                "--max-tokens cuts nothing: a section is one chunk, whatever its length",
                "--chunks passages, or --chunks fixed",
            )
        return SectionChunkOptions()
    if name is ChunksName.FIXED:
        usual = FixedLength(inside_sections=not across_sections)
        return usual if max_tokens is None else FixedLength(tokens=max_tokens, inside_sections=not across_sections)
    if max_tokens is None:
        return ChunkOptions()
    return ChunkOptions(max_tokens=max_tokens, min_tokens=min(max_tokens, ChunkOptions().min_tokens))

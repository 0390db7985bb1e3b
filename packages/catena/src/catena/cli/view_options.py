"""Options about views: which kinds are made of each chunk, and by whom."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from catena.cli.failures import ProblemError

if TYPE_CHECKING:
    from catena.enrichment.view_maker import ViewMaker


class MadeBy(StrEnum):
    """Who makes views."""

    OFFLINE = "offline"
    LLM = "llm"


MADE: Mapping[str, str] = {
    "keywords": "terms that stand out",
    "summary": "of what is longer than 200 tokens",
    "questions": "that it answers",
}
"""Kinds of view that the command line makes, and what they are."""

BY_MODEL_ONLY = "questions"

ViewKinds: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--views", metavar="KIND,…", help="Make views of each chunk: keywords, summary, questions."),
]


def listed(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names in options that may be repeated, or hold several names with commas between, each once."""
    names = (name.strip() for each in given or () for name in each.split(","))
    return tuple(dict.fromkeys(filter(None, names)))


def made_kinds(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the kinds of view to be made.

    Raises:
        ProblemError: nobody makes one of them.
    """
    kinds = listed(given)
    check_known(kinds, MADE)
    if given and not kinds:
        raise ProblemError("--views names no kind of view", "--views keywords,summary")
    return kinds


def check_known(kinds: Sequence[str], known: Collection[str]) -> None:
    """Refuse a kind of view that is not among the known ones.

    Raises:
        ProblemError: there is one.
    """
    for kind in (kind for kind in kinds if kind not in known):
        raise ProblemError(f"--views {kind}: there is no such kind of view", ", ".join(known))


def check_makers(kinds: Sequence[str], by: MadeBy | None, option: str = "--views-by") -> None:
    """Refuse what nobody can make, and a maker who has nothing to make.

    Args:
        kinds: of views.
        by: who makes them, None where nobody was named.
        option: that names who.

    Raises:
        ProblemError: a model is needed, or `by` could do nothing.
    """
    if by is not None and not kinds:
        raise ProblemError(f"{option} says who makes views", "--views keywords,summary with it")
    if BY_MODEL_ONLY in kinds and by is not MadeBy.LLM:
        raise ProblemError(f"--views {BY_MODEL_ONLY}: only a model writes these", f"{option} llm --llm NAME")


def makers_of(kinds: Sequence[str], by: MadeBy | None, language: str = "") -> tuple[ViewMaker, ...]:
    """Return the makers of these kinds of view.

    Args:
        kinds: in the order in which they are made.
        by: who; offline where nobody was named.
        language: of what a model writes, in words; "" is the content's own.
    """
    from catena.enrichment.views import Keywords, Questions, Summaries

    who: Literal["llm", "offline"] = "llm" if by is MadeBy.LLM else "offline"
    makers: dict[str, ViewMaker] = {
        "keywords": Keywords(by=who, language=language),
        "summary": Summaries(by=who, language=language),
        "questions": Questions(language=language),
    }
    return tuple(makers[kind] for kind in kinds)

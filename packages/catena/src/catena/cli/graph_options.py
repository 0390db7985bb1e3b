"""Options of commands that walk over the graph of a library: which walk, whose scores, what is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from catena.cli.failures import ProblemError
from catena.cli.segment_views import check_curve

if TYPE_CHECKING:
    from catena.graph.options import GraphOptions
    from catena.graph.scoring import Scorer
    from catena.graph.walk_options import WalkOptions
    from catena.library import Library


class WalkName(StrEnum):
    """How a walk goes over the graph."""

    BEST_FIRST = "best_first"
    PAPER = "paper"
    BEAM = "beam"


SHIPPED, UNTRAINED, SIMILARITY = "shipped", "untrained", "similarity"

GraphOption: TypeAlias = Annotated[
    bool,
    typer.Option("--graph", help="Find chains of passages over the graph of the library (`catena graph build`)."),
]
WalkOption: TypeAlias = Annotated[
    WalkName | None, typer.Option("--walk", help="Of --graph: how it goes over the graph [best_first].")
]
ScorerOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--scorer",
        metavar=f"{SHIPPED}|{UNTRAINED}|{SIMILARITY}|FILE",
        help=f"Of --graph: who scores hops; FILE is of `catena graph train` [{SHIPPED}].",
    ),
]
MaxLength: TypeAlias = Annotated[
    int | None, typer.Option("--max-length", min=1, metavar="N", help="Of --graph: passages of a chain [5].")
]
BeamWidth: TypeAlias = Annotated[
    int | None, typer.Option("--beam-width", min=1, metavar="N", help="Of --walk beam: paths side by side [3].")
]
PictureOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--picture", metavar="FILE.png|html", help="Of --graph: draw the chains on the graph."),
]
StripOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--strip", metavar="FILE.png|html", help="Of --graph: draw the chains hop by hop."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edges:
    """What joins the passages of a graph that is built, as it is typed; see `grouped`."""

    neighbours: Annotated[
        int, typer.Option("--neighbours", min=0, metavar="K", help="Join each passage with so many nearest ones.")
    ] = 5
    keywords_more_than: Annotated[
        int,
        typer.Option("--keywords-more-than", min=0, metavar="T", help="Join what shares more keywords."),
    ] = 2
    no_mentions: Annotated[
        bool, typer.Option("--no-mentions", help="Do not join a passage with those whose titles it says.")
    ] = False

    def options(self) -> GraphOptions:
        """Return which edges there are."""
        from catena.graph.options import GraphOptions

        return GraphOptions(
            neighbours=self.neighbours, keywords_more_than=self.keywords_more_than, mentions=not self.no_mentions
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphChoices:
    """What the options say about chains; None where one was not given."""

    graph: bool = False
    walk: WalkName | None = None
    scorer: str | None = None
    max_length: int | None = None
    beam_width: int | None = None
    picture: Path | None = None
    strip: Path | None = None

    def check(self, others: Mapping[str, object]) -> None:
        """Refuse options that could do nothing.

        Args:
            others: options that a search for chains does not obey, and whether they were given.

        Raises:
            ProblemError: there is one.
        """
        own = {
            "--walk": self.walk, "--scorer": self.scorer, "--max-length": self.max_length,
            "--beam-width": self.beam_width, "--picture": self.picture, "--strip": self.strip,
        }  # fmt: skip
        if not self.graph:
            for option in (name for name, value in own.items() if value is not None):
                raise ProblemError(f"{option} is about chains over the graph", "--graph with it")
            return
        for option in (name for name, value in others.items() if value):
            raise ProblemError(f"--graph obeys no {option}", "the same without it")
        if self.beam_width is not None and self.walk is not WalkName.BEAM:
            raise ProblemError("--beam-width is of a beam", "--walk beam with it")
        for picture in (self.picture, self.strip):
            check_curve(picture)

    def options(self, budget_tokens: int | None = None) -> WalkOptions:
        """Return how the walk goes; what was not said is as usual."""
        from catena.graph.walk_options import WalkOptions

        said: dict[str, Any] = {
            "strategy": None if self.walk is None else self.walk.value,
            "max_length": self.max_length,
            "width": self.beam_width,
            "budget_tokens": budget_tokens,
        }
        return WalkOptions(**{name: value for name, value in said.items() if value is not None})

    def scored_by(self, library: Library) -> Scorer | None:
        """Return who scores the hops; None leaves it to the search.

        Args:
            library: whose vectors the scorer is given.

        Raises:
            ParameterError: a file holds no scorer, or one of another embedding model.
        """
        from catena.graph.feature_scorer import FeatureScorer
        from catena.graph.scoring import SimilarityScorer
        from catena.graph.untrained import UntrainedScorer
        from catena.library.graph_training import load_scorer

        if self.scorer is None:
            return None
        if self.scorer == SHIPPED:
            return FeatureScorer.shipped()
        if self.scorer == UNTRAINED:
            return UntrainedScorer()
        if self.scorer == SIMILARITY:
            return SimilarityScorer()
        return load_scorer(self.scorer, encoder=library.stats().embedder)

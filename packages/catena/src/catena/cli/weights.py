"""Declare the options about routes and their weights, and make the formula that joins their rankings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from catena.cli.failures import ProblemError

if TYPE_CHECKING:
    from catena.library import BaseLibrary, Library
    from catena.retrieval.fusion import Fusion, ScoreFusion


class RouteName(StrEnum):  # typer takes lists of enums, none of literals
    """The routes of a library; "passages" ranks long chunks, such as sections, by their best passage."""

    DENSE = "dense"
    LEXICAL = "lexical"
    KEYWORD = "keyword"
    PASSAGES = "passages"


RouteOption: TypeAlias = Annotated[
    list[RouteName] | None, typer.Option("--route", "-r", help="Only this route; may be given several times.")
]
FusionOption: TypeAlias = Annotated[
    Literal["score", "rank"], typer.Option(help="Join routes by score (HiQA's formula) or by reciprocal rank.")
]


def route_names(given: Sequence[RouteName] | None) -> tuple[str, ...]:
    """Return the routes that were named, each once."""
    return tuple(dict.fromkeys(name.value for name in given or ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Options that decide how the rankings of routes become one.

    Attributes:
        routes: that were named; () for the library's own.
        fusion: by score or by rank.
        alpha, beta: of the formula; None leaves it as it is.
        tuned: file with weights.
    """

    routes: tuple[str, ...] = ()
    fusion: str = "score"
    alpha: float | None = None
    beta: float | None = None
    tuned: Path | None = None

    @property
    def _by_hand(self) -> bool:
        return not (self.alpha is None and self.beta is None)

    def check(self, *, figures: bool, about_names: bool) -> None:
        """Refuse options that could do nothing, and weights outside their domain.

        Args:
            figures: whether only figures are searched.
            about_names: whether an option is about names in the question.

        Raises:
            ProblemError: there is one.
            ParameterError: a weight is outside its domain.
        """
        from catena.retrieval.fusion import ScoreFusion

        ranks = self.fusion == "rank"
        self._changed(ScoreFusion())
        if ranks and self._by_hand:
            raise ProblemError("--alpha and --beta weigh scores; ranks have none", "--fusion score")
        weighed = self._by_hand or self.tuned is not None
        if len(self.routes) == 1 and weighed:
            what = "weights set routes against each other; here is only one"
            raise ProblemError(what, "several --route, or none")
        if figures and (weighed or self.routes or ranks):
            what = "--figures has its own routes and weights"
            raise ProblemError(what, "--figures without --route, --fusion, --alpha")
        if (len(self.routes) == 1 or figures) and about_names:
            what = "names are looked for where several routes are asked, and not for figures"
            raise ProblemError(what, "the same without --entity, --keep-neighbours and --no-names")
        if (ranks or self._by_hand) and self.tuned is not None:
            what = "--tuned, and --alpha or --beta (or --fusion rank), each decide the weights"
            raise ProblemError(what, "one of them")

    def formula(self, opened: Library, path: Path, *, own_routes: bool = True) -> Fusion | None:
        """Return what makes one ranking of several; None leaves the choice to the library.

        Args:
            opened: the library.
            path: its path, as messages name it.
            own_routes: whether the library chooses the routes where none was named.

        Raises:
            ProblemError: passages are to be searched, and there are none.
        """
        from catena.retrieval.tuning import Tuned

        by_routes = self.of_routes(opened, own_routes=own_routes)
        if self.tuned is not None:
            return Tuned.load(self.tuned).fusion_for(opened.stats().embedder, path=str(path))
        return by_routes

    def of_routes(self, opened: BaseLibrary, *, own_routes: bool = True) -> Fusion | None:
        """As `formula`, where no file decides.

        Args:
            opened: the library.
            own_routes: as there.

        Raises:
            ProblemError: passages are to be searched, and there are none.
        """
        from catena.retrieval.fusion import RankFusion
        from catena.retrieval.routes import DEFAULT_ROUTES
        from catena.structure.passages import PASSAGE

        if "passages" in self.routes and not opened.store.has_view(PASSAGE):
            what = "--route passages is for long chunks, and those of this library have no passages"
            raise ProblemError(what, "catena index --chunks sections, or another --route")
        if self.fusion == "rank":
            return RankFusion()
        if not self._by_hand:
            return None
        return self._changed(opened.formula(self.routes or (None if own_routes else DEFAULT_ROUTES)))

    def of_view(self, usual: Fusion) -> Fusion:
        """Return what joins the routes within one view, where `usual` does if nothing was said."""
        from catena.retrieval.fusion import RankFusion, ScoreFusion

        if self.fusion == "rank":
            return RankFusion()
        return self._changed(usual) if isinstance(usual, ScoreFusion) else usual

    def _changed(self, formula: ScoreFusion) -> ScoreFusion:
        """Return a formula with the weights that were given."""
        given: dict[str, Any] = {"alpha": self.alpha, "beta": self.beta}
        return replace(formula, **{name: weight for name, weight in given.items() if weight is not None})

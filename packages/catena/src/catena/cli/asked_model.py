"""Commands that ask one model one step of work: its options together, its plan, and its run with a bar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from catena.cli.asking_progress import asking_bar
from catena.cli.console import out, write_json
from catena.cli.failures import ProblemError
from catena.cli.llm_options import ModelOptions, Spending, stoppable

if TYPE_CHECKING:
    from catena.effects import Request, Services, Step
    from catena.effects.planning import StandIn

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedModel:
    """The model that a command asks, and what its options say of it.

    Attributes:
        llm: its name; None where nobody is asked.
        options: where it is, how it is asked, what it may cost.
        plan: whether nothing is asked, only counted.
    """

    llm: str | None = None
    options: ModelOptions = field(default_factory=ModelOptions)
    plan: bool = False

    @property
    def spending(self) -> Spending:
        """Prices and cap."""
        return self.options.spending

    def check(self) -> None:
        """Refuse options about a model where none is named.

        Raises:
            ProblemError: there is one.
        """
        self.options.require(self.llm, plan=self.plan)

    @contextmanager
    def services(self) -> Iterator[Services]:
        """Open the model and its journal; a missing key or extra is said at once."""
        if self.llm is None:
            from catena.effects import Services

            yield Services()
            return
        with self.options.services(self.llm, dry=self.plan) as services:
            yield services

    def show_plan(
        self,
        step: Step[Any],
        services: Services,
        counts: Mapping[str, int],
        *,
        stand_ins: Mapping[type[Request], StandIn] | None = None,
        as_json: bool,
    ) -> None:
        """Write what a step would ask; nothing is asked.

        Args:
            step: the work.
            services: as opened.
            counts: of what it is about, by name, for JSON.
            stand_ins: answers to go on with.
            as_json: whether to write JSON.
        """
        from catena.cli.parse_llm import usage_as_json, usage_table
        from catena.cli.views import number
        from catena.effects import plan

        found = plan(step, services, tariff=self.spending.tariff(), stand_ins=stand_ins)
        if found.stopped_by:
            raise ProblemError(f"the plan stopped: {found.stopped_by}", "the same command without --plan")
        if as_json:
            write_json({**counts, "kept": found.kept, **usage_as_json(found, self.spending)})
            return
        out().print(usage_table(found, self.spending))
        if found.kept:
            out().print(f"{number(found.kept, 'answer')} are in the journal already.")


def done(step: Step[T], services: Services, what: str, noun: str) -> T:
    """Run a step with a bar on stderr; a stop by Ctrl-C says what is kept.

    Args:
        step: the work.
        services: as opened.
        what: is being done, for the bar.
        noun: of what one request is about, in the plural.
    """
    from catena.effects import run

    with stoppable(services.journal), asking_bar(what, noun) as tell:
        return run(step, replace(services, progress=tell))

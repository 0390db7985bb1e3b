"""Declare the options of commands that ask a language model: address, price, journal; and plan calls."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from catena.cli.console import out, printable, write_json
from catena.cli.failures import ProblemError, refuse, stopped_with
from catena.cli.options import given_options, option
from catena.cli.progress import asking_bar

if TYPE_CHECKING:
    from rich.table import Table

    from catena.backends.openai import OpenAICaptioner, OpenAILLM
    from catena.effects import Budget, Journal, Plan, Request, Services, Step, Tariff
    from catena.effects.planning import StandIn


T = TypeVar("T")
JOURNAL = Path("catena-journal.db")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """Options of every command that asks a model: its address, and the pace and size of requests; see `grouped`."""

    base_url: Annotated[str | None, option("URL", "Where the model is, if not at OpenAI.")] = None
    model_timeout: Annotated[
        float | None, option("SECONDS", "Wait so long for a sign of the model [120].", min=0.1)
    ] = None
    concurrency: Annotated[int | None, option("N", "Ask so many things at once [8].", min=1)] = None
    requests_per_minute: Annotated[float | None, option("N", "Ask no faster [as fast as it answers].", min=0.01)] = (
        None
    )
    max_output_tokens: Annotated[int | None, option("N", "Of one reply [by what it is asked for].", min=1)] = None
    reasoning_effort: Annotated[str | None, option("WORD", "How long the model may think: low, medium, high.")] = None

    def require(self, model: str | None, naming: str = "--llm NAME", **also: object) -> None:
        """Refuse options about a model where none is named.

        Args:
            model: its name.
            naming: the option that names one.
            also: further options about it, by their names with underscores; those that are falsy were not given.

        Raises:
            ProblemError: there is one.
        """
        if model is None:
            more = {f"--{name.replace('_', '-')}": value for name, value in also.items()}
            refuse(dict.fromkeys(given_options(self), True) | more, "{} needs the name of a model", naming)

    def opened_llm(self, model: str) -> OpenAILLM:
        """Return the model before any work is done: a missing key or extra is said at once.

        Raises:
            ProblemError: OpenAI is asked without a key.
            MissingExtraError: the SDK is not installed.
        """
        from catena.backends.openai import OpenAILLM

        return OpenAILLM(model, **self._request)

    def opened_captioner(self, model: str) -> OpenAICaptioner:
        """Return the model that describes figures, as `opened_llm` does."""
        from catena.backends.openai import OpenAICaptioner

        return OpenAICaptioner(model, **self._request)

    @property
    def _request(self) -> dict[str, Any]:
        waiting = {} if self.model_timeout is None else {"timeout": self.model_timeout}
        return {
            "api_key": _key(self.base_url), "base_url": self.base_url, "reasoning_effort": self.reasoning_effort,
            **waiting,
        }  # fmt: skip

    @property
    def behaviour(self) -> dict[str, Any]:
        """The arguments that these options are for `Services`."""
        from catena.effects import Complete, Describe, Limiter

        rate = self.requests_per_minute
        said = {
            "max_concurrency": self.concurrency,
            "limiter": None if rate is None else Limiter({Complete: rate, Describe: rate}),
            "output_tokens": self.max_output_tokens,
        }
        return {name: value for name, value in said.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions(CallOptions):
    """The options of commands that keep a model's replies and count what they cost."""

    journal: Annotated[Path | None, option("PATH", f"Keep replies there, paid for once [{JOURNAL} here].")] = None
    price_in: Annotated[float | None, option("MONEY", "Of a million tokens read by the model.", min=0)] = None
    price_out: Annotated[float | None, option("MONEY", "Of a million tokens written by it.", min=0)] = None
    budget: Annotated[float | None, option("MONEY", "Stop before more than this is spent.", min=0)] = None

    @property
    def priced(self) -> bool:
        """Say if a price was given."""
        return self.price_in is not None or self.price_out is not None

    def tariff(self) -> Tariff:
        """Return how tokens are priced."""
        from catena.effects import Complete, Describe, Price, Tariff

        price = Price(input=self.price_in or 0.0, output=self.price_out or 0.0)
        return Tariff(prices={Complete: price, Describe: price} if self.priced else {})

    def cap(self) -> Budget:
        """Return a budget that books what is spent and stops at the cap.

        Raises:
            ProblemError: there is a cap, but no price.
        """
        from catena.effects import Budget

        if self.budget is not None and not self.priced:
            raise ProblemError(
                "--budget needs prices to count with", "--price-in and --price-out, per million tokens"
            )
        return Budget(self.budget, tariff=self.tariff())

    @contextmanager
    def services(self, model: str | None, *, dry: bool = False) -> Iterator[Services]:
        """Open the services of a run, and close them after it; a missing key or extra is said at once.

        Args:
            model: who answers; None where no model is asked.
            dry: nothing will be called; a journal that is not there is not made.
        """
        from catena.effects import Journal, Services

        if model is None:
            yield Services()
            return
        budget, journal = self.cap(), self.journal or JOURNAL
        with ExitStack() as stack:
            llm = stack.enter_context(self.opened_llm(model))
            kept = stack.enter_context(Journal.open(journal)) if not dry or journal.exists() else None
            yield Services(llm=llm, journal=kept, budget=budget, **self.behaviour)

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
        from catena.cli.rendering import number
        from catena.effects import plan

        found = plan(step, services, tariff=self.tariff(), stand_ins=stand_ins)
        remarks = [f"{number(found.kept, 'answer')} are in the journal already."] * (found.kept > 0)
        self.write_plan(found, counts, remarks, as_json=as_json)

    def write_plan(self, found: Plan, counts: Mapping[str, object], remarks: Iterable[str], *, as_json: bool) -> None:
        """Write calls, tokens and, where prices were given, money of all that would be asked.

        Args:
            found: the plan.
            counts: of what it is about, by name, for JSON.
            remarks: sentences below the table.
            as_json: whether to write JSON.

        Raises:
            ProblemError: the plan did not come to its end.
        """
        if found.stopped_by:
            raise ProblemError(f"the plan stopped: {found.stopped_by}", "the same command without --plan")
        total = found.total
        if as_json:
            money = {"cost": round(total.cost, 6)} if self.priced else {}
            tokens = {"input_tokens": total.input_tokens, "output_tokens": total.output_tokens}
            write_json({**counts, "kept": found.kept, "calls": total.calls, **tokens, **money})
            return
        out().print(_usage(found, priced=self.priced))
        if told := " ".join(filter(None, remarks)):
            out().print(told)


def _key(base_url: str | None) -> str | None:
    key = os.environ.get("CATENA_API_KEY") or os.environ.get("OPENAI_API_KEY")
    if key is None and base_url is None and not os.environ.get("OPENAI_BASE_URL"):
        raise ProblemError(
            "there is no key for OpenAI", "setting OPENAI_API_KEY, or --base-url for a server of your own"
        )
    return key


@contextmanager
def stoppable(journal: Journal | None, also: str = "") -> Iterator[None]:
    """Let Ctrl-C end the work inside with a word about what is kept.

    Raises:
        Exit: it was stopped.
    """

    def kept() -> str:
        assert journal is not None
        count = journal.count()
        return f"{count} {'reply is' if count == 1 else 'replies are'} kept in {journal.path}{also}"

    if journal is None:
        yield
        return
    with stopped_with(kept, "the same command again: it goes on where it stopped"):
        yield


def _usage(found: Plan, *, priced: bool) -> Table:
    """Return calls, tokens and money by purpose, as a table."""
    from rich.table import Table

    table = Table("purpose", box=None, pad_edge=False)
    for name in ("calls", "tokens in", "tokens out", *(["money"] if priced else [])):
        table.add_column(name, justify="right")
    rows = [*found.by_purpose.items(), *([("in all", found.total)] if len(found.by_purpose) != 1 else [])]
    for purpose, usage in rows:
        money = [f"{usage.cost:,.4f}"] if priced else []
        table.add_row(
            printable(purpose), f"{usage.calls:,}", f"{usage.input_tokens:,}", f"{usage.output_tokens:,}", *money
        )
    return table


def done(step: Step[T], services: Services, what: str, noun: str, total: int | None = None, *, again: str = "") -> T:
    """Run a step with a bar on stderr; a stop by Ctrl-C says what is kept.

    Args:
        step: the work.
        services: as opened.
        what: is being done, for the bar.
        noun: of what one request is about, in the plural.
        total: as `asking_bar` takes it.
        again: as there.
    """
    from catena.effects import run

    with stoppable(services.journal), asking_bar(what, noun, total, again=again) as tell:
        return run(step, replace(services, progress=tell))

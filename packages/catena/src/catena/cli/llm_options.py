"""Options of commands that ask a language model: which one, where, what it costs, and where its replies are kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catena.cli.failures import INTERRUPTED, ProblemError, say

if TYPE_CHECKING:
    from catena.backends.openai_captioner import OpenAICaptioner
    from catena.backends.openai_llm import OpenAILLM
    from catena.effects import Budget, Journal, Services, Tariff

JOURNAL = Path("catena-journal.db")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """Where a model is and how it is asked: options of every command that asks one, declared here; see `grouped`."""

    base_url: Annotated[
        str | None, typer.Option("--base-url", metavar="URL", help="Where the model is, if not at OpenAI.")
    ] = None
    model_timeout: Annotated[
        float | None,
        typer.Option(
            "--model-timeout", min=0.1, metavar="SECONDS", help="Wait so long for a sign of the model [120]."
        ),
    ] = None
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", min=1, metavar="N", help="Ask so many things at once [8].")
    ] = None
    requests_per_minute: Annotated[
        float | None,
        typer.Option("--requests-per-minute", min=0.01, metavar="N", help="Ask no faster [as fast as it answers]."),
    ] = None
    max_output_tokens: Annotated[
        int | None,
        typer.Option("--max-output-tokens", min=1, metavar="N", help="Of one reply [by what it is asked for]."),
    ] = None
    reasoning_effort: Annotated[
        str | None,
        typer.Option("--reasoning-effort", metavar="WORD", help="How long the model may think: low, medium, high."),
    ] = None

    @property
    def given(self) -> dict[str, object]:
        """The options that were given, by their names as they are typed."""
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        return {f"--{name.replace('_', '-')}": value for name, value in values if value is not None}

    def require(self, model: str | None, naming: str = "--llm NAME", **also: object) -> None:
        """Refuse options about a model where none is named.

        Args:
            model: its name.
            naming: the option that names one.
            also: further options about it, by their names with underscores; those that are falsy were not given.

        Raises:
            ProblemError: there is one.
        """
        more = [f"--{name.replace('_', '-')}" for name, value in also.items() if value]
        for option in (*self.given, *more) if model is None else ():
            raise ProblemError(f"{option} needs the name of a model", naming)

    def opened_llm(self, model: str) -> OpenAILLM:
        """Return the model before any work is done: a missing key or extra is said at once.

        Raises:
            ProblemError: OpenAI is asked without a key.
            MissingExtraError: the SDK is not installed.
        """
        from catena.backends.openai_llm import OpenAILLM

        return OpenAILLM(model, **self._request)

    def opened_captioner(self, model: str) -> OpenAICaptioner:
        """Return the model that describes figures, as `opened_llm` does."""
        from catena.backends.openai_captioner import OpenAICaptioner

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
        """What these options say to `Services` and to `Library.open`."""
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

    journal: Annotated[
        Path | None,
        typer.Option("--journal", metavar="PATH", help=f"Keep replies there, paid for once [{JOURNAL} here]."),
    ] = None
    price_in: Annotated[
        float | None,
        typer.Option("--price-in", min=0, metavar="MONEY", help="Of a million tokens read by the model."),
    ] = None
    price_out: Annotated[
        float | None, typer.Option("--price-out", min=0, metavar="MONEY", help="Of a million tokens written by it.")
    ] = None
    budget: Annotated[
        float | None, typer.Option("--budget", min=0, metavar="MONEY", help="Stop before more than this is spent.")
    ] = None

    @property
    def spending(self) -> Spending:
        """Prices and cap."""
        return Spending(price_in=self.price_in, price_out=self.price_out, cap=self.budget)

    @contextmanager
    def services(self, model: str, *, dry: bool = False) -> Iterator[Services]:
        """Open the services of a run, and close them after it.

        Args:
            model: who answers.
            dry: nothing will be called; a journal that is not there is not made.
        """
        from catena.effects import Journal, Services

        budget, journal = self.spending.budget(), self.journal or JOURNAL
        with ExitStack() as stack:
            llm = stack.enter_context(self.opened_llm(model))
            kept = stack.enter_context(Journal.open(journal)) if not dry or journal.exists() else None
            yield Services(llm=llm, journal=kept, budget=budget, **self.behaviour)


def _key(base_url: str | None) -> str | None:
    key = os.environ.get("CATENA_API_KEY") or os.environ.get("OPENAI_API_KEY")
    if key is None and base_url is None and not os.environ.get("OPENAI_BASE_URL"):
        raise ProblemError(
            "there is no key for OpenAI", "setting OPENAI_API_KEY, or --base-url for a server of your own"
        )
    return key


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What a run may cost: prices per million tokens in any one currency, and the cap."""

    price_in: float | None = None
    price_out: float | None = None
    cap: float | None = None

    @property
    def priced(self) -> bool:
        """Whether a price was given."""
        return self.price_in is not None or self.price_out is not None

    def tariff(self) -> Tariff:
        """Return how tokens are priced."""
        from catena.effects import Complete, Describe, Price, Tariff

        price = Price(input=self.price_in or 0.0, output=self.price_out or 0.0)
        return Tariff(prices={Complete: price, Describe: price} if self.priced else {})

    def budget(self) -> Budget:
        """Return a budget that books what is spent and stops at the cap.

        Raises:
            ProblemError: there is a cap, but no price.
        """
        from catena.effects import Budget

        if self.cap is not None and not self.priced:
            raise ProblemError(
                "--budget needs prices to count with", "--price-in and --price-out, per million tokens"
            )
        return Budget(self.cap, tariff=self.tariff())


@contextmanager
def stoppable(journal: Journal | None, also: str = "") -> Iterator[None]:
    """Let Ctrl-C end the work inside with a word about what is kept.

    Raises:
        Exit: it was stopped.
    """
    from catena.model.errors import CancelledError

    try:
        yield
    except (KeyboardInterrupt, CancelledError):
        if journal is None:
            raise
        count = journal.count()
        kept = f"{count} {'reply is' if count == 1 else 'replies are'} kept in {journal.path}{also}"
        say(kept, "the same command again: it goes on where it stopped", label="Stopped")
        raise typer.Exit(INTERRUPTED) from None

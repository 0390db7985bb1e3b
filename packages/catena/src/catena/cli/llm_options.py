"""Options of commands that ask a language model: which one, where, what it costs, and where its replies are kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from catena.cli.failures import INTERRUPTED, ProblemError, say

if TYPE_CHECKING:
    from catena.backends.openai_captioner import OpenAICaptioner
    from catena.backends.openai_llm import OpenAILLM
    from catena.effects import Budget, Journal, Services, Tariff

JOURNAL = Path("catena-journal.db")

BaseUrl: TypeAlias = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="Where the model is, if not at OpenAI.")
]
JournalPath: TypeAlias = Annotated[
    Path | None,
    typer.Option("--journal", metavar="PATH", help=f"Keep replies there, paid for once [{JOURNAL} here]."),
]
PriceIn: TypeAlias = Annotated[
    float | None, typer.Option("--price-in", min=0, metavar="MONEY", help="Of a million tokens read by the model.")
]
PriceOut: TypeAlias = Annotated[
    float | None, typer.Option("--price-out", min=0, metavar="MONEY", help="Of a million tokens written by it.")
]
SpendingCap: TypeAlias = Annotated[
    float | None, typer.Option("--budget", min=0, metavar="MONEY", help="Stop before more than this is spent.")
]


def opened_llm(model: str, base_url: str | None) -> OpenAILLM:
    """Return the model before any work is done: a missing key or extra is said at once.

    Raises:
        ProblemError: OpenAI is asked without a key.
        MissingExtraError: the SDK is not installed.
    """
    from catena.backends.openai_llm import OpenAILLM

    return OpenAILLM(model, api_key=_key(base_url), base_url=base_url)


def opened_captioner(model: str, base_url: str | None) -> OpenAICaptioner:
    """Return the model that describes figures, as `opened_llm` does."""
    from catena.backends.openai_captioner import OpenAICaptioner

    return OpenAICaptioner(model, api_key=_key(base_url), base_url=base_url)


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
    from catena.errors import CancelledError

    try:
        yield
    except (KeyboardInterrupt, CancelledError):
        if journal is None:
            raise
        count = journal.count()
        kept = f"{count} {'reply is' if count == 1 else 'replies are'} kept in {journal.path}{also}"
        say(kept, "the same command again: it goes on where it stopped", label="Stopped")
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def asking(llm: OpenAILLM, journal: Path, spending: Spending, *, dry: bool = False) -> Iterator[Services]:
    """Open the services of a run, and close them after it.

    Args:
        llm: who answers.
        journal: where replies are kept.
        spending: prices and cap.
        dry: nothing will be called; a journal that is not there is not made.
    """
    from catena.effects import Journal, Services

    budget = spending.budget()
    with ExitStack() as stack:
        stack.enter_context(llm)
        kept = stack.enter_context(Journal.open(journal)) if not dry or journal.exists() else None
        yield Services(llm=llm, journal=kept, budget=budget)

"""Count the tokens and the money of calls: estimate before a call, book after it, and cap both."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

from annotated_types import Ge

from catena.effects.ports import Completion
from catena.effects.steps import Complete, Describe, Embed, Rate, Recognise, Request
from catena.model import BudgetExceededError, Checked, ParameterError

IMAGE_TOKENS = 1_500  # what vision models charge for one page-sized picture, roughly
ROUNDING = 1e-9  # relative; ten times 0.1 fits into a cap of 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Price(Checked):
    """The price of one type of request, in any one currency."""

    input: Annotated[float, Ge(0)] = 0.0  # per million tokens
    output: Annotated[float, Ge(0)] = 0.0  # per million tokens
    call: Annotated[float, Ge(0)] = 0.0  # per request, e.g. for rerankers


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, calls and money that requests took; usages add up."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    @property
    def tokens(self) -> int:
        """Tokens in and out."""
        return self.input_tokens + self.output_tokens


def approximate_tokens(text: str) -> int:
    """Return about the number of tokens of any current model: 4 ASCII characters each, any other its own."""
    ascii_characters = len(text.encode("ascii", "ignore"))
    return -(-ascii_characters // 4) + len(text) - ascii_characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff(Checked):
    """Prices by type of request (none: free), and the counter of tokens."""

    prices: Mapping[type[Request], Price] = field(default_factory=dict)
    count: Callable[[str], int] = approximate_tokens

    def before(self, request: Request) -> Usage:
        """Return the most that a request will take: all its input, and the longest reply it allows."""
        match request:
            case Complete():
                return self._usage(request, self.count(request.system + request.prompt), request.max_tokens)
            case Embed() | Recognise():
                return self._usage(request, sum(map(self.count, request.texts)))
            case Rate():
                query = self.count(request.query)
                return self._usage(request, sum(query + self.count(text) for text in request.texts))
            case Describe():
                return self._usage(request, IMAGE_TOKENS + self.count(request.prompt), request.max_tokens)
        return self._usage(request)

    def after(self, request: Request, reply: Any) -> Usage:
        """Return what a request took: as the service reported it, or else counted."""
        before = self.before(request)
        if isinstance(reply, Completion):
            output = reply.output_tokens or self.count(reply.text)
            return self._usage(request, reply.input_tokens or before.input_tokens, output)
        if isinstance(request, Describe) and isinstance(reply, str):
            return self._usage(request, before.input_tokens, self.count(reply))
        return before

    def _usage(self, request: Request, input_tokens: int = 0, output_tokens: int = 0) -> Usage:
        price = self.prices.get(type(request), Price())
        cost = price.call + (price.input * input_tokens + price.output * output_tokens) / 1e6
        return Usage(1, input_tokens, output_tokens, cost)


class Budget:
    """A cap that no run passes: on money, on tokens, or on both; shared by all runs that hold it.

    Before a call, the most it can take is set aside, so that the cap holds however many calls are in flight;
    after it, what it took is booked. The cap is passed only where the service counts more tokens than `count`.

    Args:
        cap: in the currency of the prices.
        max_tokens: in and out together.
        tariff: prices and the token counter.
    """

    def __init__(
        self, cap: float | None = None, *, max_tokens: int | None = None, tariff: Tariff | None = None
    ) -> None:
        for name, limit in (("cap", cap), ("max_tokens", max_tokens)):
            if limit is not None and not limit >= 0:
                raise ParameterError(name, limit, "a number >= 0")
        if cap is not None and not (tariff and tariff.prices):
            raise ParameterError("tariff", tariff, "given with prices, as a cap on money needs them")
        self.cap, self.max_tokens = cap, max_tokens
        self.tariff = tariff or Tariff()
        self._spent, self._aside = Usage(), Usage()
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:
        allowed = "None in what other processes are given: they would not count together"
        raise ParameterError("budget", "a cap", allowed)

    @property
    def spent(self) -> Usage:
        """Usage booked so far."""
        return self._spent

    def reserve(self, request: Request) -> Usage:
        """Set aside the most that a request can take.

        Raises:
            BudgetExceededError: it would not fit.
        """
        most = self.tariff.before(request)
        with self._lock:
            then = self._spent + self._aside + most
            what = f"{getattr(request, 'purpose', type(request).__name__)!r} (at most {most.tokens} tokens)"
            if self.cap is not None and then.cost > self.cap * (1 + ROUNDING):
                raise BudgetExceededError(self.cap, self._spent.cost, what)
            if self.max_tokens is not None and then.tokens > self.max_tokens:
                raise BudgetExceededError(self.max_tokens, self._spent.tokens, f"{what}, counted in tokens")
            self._aside += most
        return most

    def settle(self, reserved: Usage, used: Usage) -> None:
        """Book what a call took, and free what was set aside for it."""
        with self._lock:
            self._spent += used
            back = Usage(-reserved.calls, -reserved.input_tokens, -reserved.output_tokens, -reserved.cost)
            self._aside += back

"""A dry run: what a step would ask, and what that would take, without calling any service."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from catena.effects import steps
from catena.effects.budget import Tariff, Usage
from catena.effects.ports import Completion
from catena.effects.services import Services
from catena.effects.steps import Embed, Failed, Request, Step
from catena.model import CatenaError, Ranking, Scale, ServiceError

StandIn = Callable[[Any], Any]
"""request -> the reply that a dry run goes on with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The calls, tokens and money that a step would take.

    A step goes on with the replies it gets, so only its first rounds are certain: those up to the first reply
    that the journal did not have. Later rounds are estimates, made with stand-in replies.

    Attributes:
        by_purpose: what would be called, the costliest purpose first; output is the most the requests allow.
        kept: requests that the journal answers, for nothing.
        rounds, exact_rounds: batches of requests in all, and those that do not depend on a stand-in.
        stopped_by: why the step could not be followed to its end; "" when it was.
    """

    by_purpose: Mapping[str, Usage]
    kept: int
    rounds: int
    exact_rounds: int
    stopped_by: str

    @property
    def total(self) -> Usage:
        """All that would be called."""
        return sum(self.by_purpose.values(), Usage())

    @property
    def exact(self) -> bool:
        """True where every request counted here is certain to be made."""
        return self.rounds == self.exact_rounds and not self.stopped_by


def plan(
    step: Step[Any],
    services: Services,
    *,
    tariff: Tariff | None = None,
    stand_ins: Mapping[type[Request], StandIn] | None = None,
) -> Plan:
    """Follow a step without calling any service, and count what it would ask.

    Args:
        step: as given to `run`; it is used up.
        services: its journal answers what it holds; of the other services only names and sizes are looked at.
        tariff: prices and token counter; those of `services.budget` when not given, else free.
        stand_ins: replies to go on with, by type of request, where those of `STAND_INS` would mislead; their
            length is then what is counted as output.
    """
    follower = _Follower(services, tariff, stand_ins or {})
    stopped_by = ""
    with closing(step):
        try:
            batch = next(step)
            while True:
                batch = step.send(follower.replies(batch))
        except StopIteration:
            pass
        except Exception as error:  # a stand-in reply that the step cannot use
            stopped_by = str(error) or type(error).__name__
    ordered = sorted(follower.by_purpose.items(), key=lambda item: (-item[1].cost, -item[1].tokens, item[0]))
    return Plan(
        by_purpose=dict(ordered),
        kept=follower.kept,
        rounds=follower.rounds,
        exact_rounds=follower.exact_rounds,
        stopped_by=stopped_by,
    )


class _Follower:
    """Answers a step's batches from the journal or with stand-ins, and counts."""

    def __init__(self, services: Services, tariff: Tariff | None, stand_ins: Mapping[type[Request], StandIn]) -> None:
        self.services = services
        self.tariff = tariff or (services.budget.tariff if services.budget is not None else Tariff())
        self.own = stand_ins
        self.stand_ins = {**STAND_INS, Embed: self._vectors, **stand_ins}
        self.by_purpose: dict[str, Usage] = {}
        self.kept = self.rounds = self.exact_rounds = 0
        self._certain = True
        self._asked: dict[str, Any] = {}

    def replies(self, batch: Sequence[Request]) -> list[Any]:
        self.rounds += 1
        self.exact_rounds += self._certain
        return [self._reply(request) for request in batch]

    def _reply(self, request: Request) -> Any:
        key, kept = self._from_journal(request)
        if kept is not None:
            self.kept += 1
            return kept
        if key in self._asked:  # the run will find it in the journal by then
            self.kept += 1
            return self._asked[key]
        self._certain = False
        reply = self._stand_in(request)
        purpose = str(getattr(request, "purpose", type(request).__name__))
        usage = self.tariff.after(request, reply) if type(request) in self.own else self.tariff.before(request)
        self.by_purpose[purpose] = self.by_purpose.get(purpose, Usage()) + usage
        if key:
            self._asked[key] = reply
        return reply

    def _from_journal(self, request: Request) -> tuple[str, Any]:
        journal = self.services.journal
        if journal is None:
            return "", None
        try:
            handler = self.services.handler(type(request))
            if handler.form is None:
                return "", None
            key, payload = journal.find(handler.identity, request)
        except CatenaError:  # nobody to answer it, or nothing to read: the run itself will say so
            return "", None
        try:
            return key, None if payload is None else handler.form.revive(request, payload)
        except Exception:  # no longer valid: it will be asked for again
            return key, None

    def _stand_in(self, request: Request) -> Any:
        if type(request) not in self.stand_ins:
            return Failed(ServiceError("plan", f"no stand-in reply to {type(request).__name__} requests"))
        return self.stand_ins[type(request)](request)

    def _vectors(self, request: Embed) -> Any:
        import numpy as np

        rows = np.zeros((len(request.texts), getattr(self.services.embedder, "dim", 1)), dtype=np.float32)
        rows[:, 0] = 1.0
        return rows


STAND_INS: Mapping[type[Request], StandIn] = {
    steps.Complete: lambda request: Completion(text="stand-in"),
    steps.Rate: lambda request: (0.0,) * len(request.texts),
    steps.Describe: lambda request: "stand-in",
    steps.Recognise: lambda request: ((),) * len(request.texts),
    steps.Search: lambda request: Ranking((), Scale.SIMILARITY),
    steps.FindNames: lambda request: steps.NamesFound(),
    steps.FetchChunks: lambda request: ((),) * len(request.spans),
    steps.FetchText: lambda request: (None,) * len(request.spans),
}

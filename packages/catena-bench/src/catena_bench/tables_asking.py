"""Answer the requests of a step: vectors are made here, a model is asked or only planned, and its tasks are counted.

What a model was asked is written down by task, as in the paper's Table 5.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Protocol, TypeVar

from catena import Services, run
from catena.effects import Complete, Completion, Embed, Embedder, Event, Failed, Plan, Request, Step, Tariff, plan
from catena.enrichment.views import PLANNED
from catena.model import EvaluationError, digest
from catena_bench.baselines import PURPOSE as UNITS
from catena_bench.baselines import planned_answer
from catena_bench.figures import Tell
from catena_bench.judges import PURPOSE as JUDGE

T = TypeVar("T")

SHORT_ANSWER = "short answer"
TREE_SUMMARY = "tree summary"
_NEWS = 20  # messages about a run, at most


class Asker(Protocol):
    """Follows a step to its end, and returns what it returns."""

    def __call__(self, step: Step[T]) -> T: ...


@dataclass(slots=True, kw_only=True)
class Task:
    """Requests, words, tokens and seconds of one purpose; replies of the journal count, but for the seconds.

    Attributes:
        failed: requests without a reply of use.
        seconds: of `timed` requests in all, from their start to their end, waiting to ask again included.
    """

    requests: int = 0
    failed: int = 0
    words_in: int = 0
    words_out: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    timed: int = 0


@dataclass(slots=True)
class Ledger:
    """The tasks of a language model, by purpose."""

    tasks: defaultdict[str, Task] = field(default_factory=lambda: defaultdict(Task))
    _lock: Lock = field(default_factory=Lock)

    def note(self, request: Complete, reply: Completion | Failed) -> None:
        """Write down a request with its reply."""
        task = self.tasks[request.purpose]
        task.requests += 1
        task.words_in += len(f"{request.system} {request.prompt}".split())
        if isinstance(reply, Failed):
            task.failed += 1
            return
        task.words_out += len(reply.text.split())
        task.tokens_in += reply.input_tokens
        task.tokens_out += reply.output_tokens

    def clock(self, tell: Tell) -> Callable[[Event], None]:
        """Return a listener to the events of a run: it takes the time of each purpose, and tells how far the run is.

        Of requests side by side the sum of their ends minus that of their starts is the sum of their times.
        """
        told = 0

        def hear(event: Event) -> None:
            nonlocal told
            with self._lock:
                task, now = self.tasks[event.purpose], time.monotonic()
                if event.kind == "started" and event.attempt == 1:
                    task.seconds -= now
                if event.kind in ("finished", "failed"):
                    task.seconds += now
                    task.timed += 1
            if event.kind in ("finished", "failed", "cached") and event.done * _NEWS // event.total != told:
                told = event.done * _NEWS // event.total
                tell(f"{event.done:,} of {event.total:,} requests answered")

        return hear


def asking(services: Services, embedder: Embedder, ledger: Ledger, tell: Tell) -> Asker:
    """Return a function that follows steps: by the model of `services`, vectors by `embedder`, not journalled."""
    told = replace(services, progress=ledger.clock(tell))

    def ask(step: Step[T]) -> T:
        return run(_followed(step, embedder, ledger), told)

    return ask


def planning(services: Services, embedder: Embedder, plans: list[Plan], tariff: Tariff | None = None) -> Asker:
    """Return a function that follows steps without a model: its requests go to `plans`, stand-ins are its replies."""

    def ask(step: Step[T]) -> T:
        results: list[T] = []
        followed = _into(results, _followed(step, embedder, None))
        plans.append(plan(followed, services, tariff=tariff, stand_ins={Complete: stand_in}))
        if not results:
            raise EvaluationError(f"the plan could not be followed to its end: {plans[-1].stopped_by}")
        return results[0]

    return ask


def stand_in(request: Complete) -> Completion:
    """Return the reply that a plan goes on with, charged as the longest one that the request allows.

    A summary of a tree has none of use: the sentences that then stand in for it are clustered as summaries would be.
    """
    if request.purpose == UNITS:
        text = planned_answer(request).text
    elif request.purpose == TREE_SUMMARY:
        text = "-"
    elif request.purpose == JUDGE:
        text = 'A stand-in. {"answer_1_score": 5, "answer_2_score": 5}'
    elif request.purpose == SHORT_ANSWER:
        text = f"stand-in {digest(request.prompt)}"  # two equal answers would not be judged
    else:
        text = PLANNED.get(request.purpose, "stand-in")
    return Completion(text=text, output_tokens=request.max_tokens)


def by_purpose(plans: list[Plan]) -> Mapping[str, Any]:
    """Return the usage of several plans by purpose, in order of names."""
    found: dict[str, Any] = {}
    for each in plans:
        for purpose, usage in each.by_purpose.items():
            found[purpose] = found[purpose] + usage if purpose in found else usage
    return dict(sorted(found.items()))


def plan_figures(key: str, usages: Iterable[Any]) -> dict[str, float]:
    """Return `KEY.calls`, `.tokens_in`, `.tokens_out_at_most` and `.cost_at_most`, the sums of usages."""
    names = {
        "calls": "calls",
        "tokens_in": "input_tokens",
        "tokens_out_at_most": "output_tokens",
        "cost_at_most": "cost",
    }
    listed = list(usages)
    return {f"{key}.{name}": sum(getattr(usage, of) for usage in listed) for name, of in names.items()}


def _followed(step: Step[T], embedder: Embedder, ledger: Ledger | None) -> Step[T]:
    """Follow a step: embed here, let everything else out, each of equal requests once, and write down the replies."""
    with closing(step):
        try:
            batch = next(step)
            while True:
                outside = list(dict.fromkeys(request for request in batch if not isinstance(request, Embed)))
                answers = dict(zip(outside, (yield outside) if outside else (), strict=True))
                for request, reply in answers.items():
                    if ledger is not None and isinstance(request, Complete):
                        ledger.note(request, reply)
                batch = step.send(
                    [_vectors(each, embedder) if isinstance(each, Embed) else answers[each] for each in batch]
                )
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


def _vectors(request: Request, embedder: Embedder) -> Any:
    assert isinstance(request, Embed)
    if request.kind == "document":
        return embedder.embed_documents(request.texts)
    return [embedder.embed_query(text) for text in request.texts]


def _into(results: list[T], step: Step[T]) -> Step[None]:
    results.append((yield from step))

"""From a batch of files to all that is written of them: one pure function, the same in every process everywhere.

    path | bytes -read, section, cut, views, terms, embed-> Entry, ViewVectors -entry_actions-> Action*

What differs between drivers (a loop, processes, Ray) is only who calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from catena.effects import Failed, Journal, Services, Step, run, together
from catena.library.file_ingestion import STOPPING, FileIngestion, Input
from catena.library.pipeline import Preparation
from catena.model import Outcome, View
from catena.model.errors import CatenaError, ModelMismatchError, ParameterError
from catena.server.actions import Action, entry_actions, kinds_of
from catena.server.layout import IndexLayout

Models: TypeAlias = Callable[[], Services]
"""Makes the models in the process that is to use them; picklable, as a module's function or `functools.partial`."""


def shipped_models() -> Services:
    """Return the shipped embedder and nothing else: no key, no network."""
    from catena.enrichment.static_embedding import StaticEmbedder

    return Services(embedder=StaticEmbedder())


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All that decides what is written of a file, as a value that other processes can be sent.

    Attributes:
        layout: of the set that the files go to.
        preparation: how files become entries.
        models: makes what the preparation asks, with their limits; a budget or a limiter in it is each process's own.
        journal: path of the file that keeps the models' replies, which all processes of one machine may share: a
            batch that is done again pays nothing again. None keeps none.
        password: opens encrypted PDFs.
    """

    layout: IndexLayout
    preparation: Preparation = field(default_factory=Preparation)
    models: Models = shipped_models
    journal: str | None = None
    password: str | None = field(default=None, repr=False)

    @contextmanager
    def opened(self) -> Iterator[Services]:
        """Make the models and open the journal; for many batches, not for each.

        Raises:
            ModelMismatchError: the set holds vectors of another model.
            ParameterError: the preparation asks for a model that is not made.
            JournalError: the journal cannot be opened.
        """
        services = self.models()
        embedder = services.embedder
        if embedder is None:
            raise ParameterError("models", "no embedder", "a function whose Services have one")
        if (embedder.identity, embedder.dim) != (self.layout.embedder, self.layout.dim):
            made = f"{self.layout.embedder} ({self.layout.dim})"
            what = f"its vectors are of {made}, and the recipe's model is {embedder.identity} ({embedder.dim})"
            raise ModelMismatchError(self.layout.name, what, "the same model, or another name")
        _files(self, services).check_models()
        if self.journal is None:
            yield services
            return
        with Journal.open(self.journal) as journal:
            yield replace(services, journal=journal)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDocument:
    """How one input ended, and what is written of it.

    Attributes:
        actions: none unless the outcome is "indexed" or "partial".
        kinds: of view that the actions have words or vectors of, sorted.
    """

    outcome: Outcome
    actions: tuple[Action, ...] = field(default=(), repr=False)
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedBatch:
    """One `PreparedDocument` per input, in their order."""

    documents: tuple[PreparedDocument, ...]


def prepare_batch(inputs: Sequence[Input], recipe: Recipe, services: Services | None = None) -> PreparedBatch:
    """Return what is written of files: parsed, divided, cut, with views, terms and vectors.

    Nothing is sent anywhere but to the models that the recipe names, no file is written but its journal, and equal
    inputs with equal replies give equal actions. No failure of a file leaves this function: its outcome says it.

    Args:
        inputs: whose `known` is compared, None counting as "": no store is asked.
        recipe: what decides.
        services: what `recipe.opened()` gave, to open it once for many batches.

    Raises:
        ModelMismatchError: the set holds vectors of another model than the recipe makes.
        ParameterError: the preparation asks for a model that was not given.
        CancelledError, BudgetExceededError, JournalError, MissingServiceError: as in `Library.index`.
    """
    if services is None:
        with recipe.opened() as opened:
            return prepare_batch(inputs, recipe, opened)
    files = _files(recipe, services)
    results = run(together([_taken(files, given, recipe) for given in inputs]), services)
    for result in results:
        if isinstance(result, Failed):
            raise result.error
    return PreparedBatch(documents=tuple(result for result in results if not isinstance(result, Failed)))


def _taken(files: FileIngestion, given: Input, recipe: Recipe) -> Step[PreparedDocument]:
    outcome, addition = yield from files.taken(given, recipe.password)
    if addition is None:
        return PreparedDocument(outcome=outcome)
    try:
        actions = entry_actions(*addition, recipe.layout)
    except STOPPING:
        raise
    except CatenaError as error:
        return PreparedDocument(outcome=_failed(given, str(error)))
    return PreparedDocument(outcome=outcome, actions=actions, kinds=tuple(sorted(kinds_of(*addition))))


def _failed(given: Input, reason: str) -> Outcome:
    return Outcome(source=given.source, document_id=given.document_id, state="failed", reason=reason)


class _NothingHeld:
    """What is asked of a store, where `Input.known` says all that is known of older versions."""

    def fingerprint(self, document_id: str) -> str | None:
        return None

    def known_vectors(self, document_id: str) -> Mapping[tuple[str, str], Any]:
        return {}

    def made_views(self, document_id: str) -> Mapping[str, Sequence[View]]:
        return {}

    def whole(self, ids: Sequence[str]) -> tuple[None, ...]:
        return (None,) * len(ids)


def _files(recipe: Recipe, services: Services) -> FileIngestion:
    return FileIngestion(_NothingHeld(), services, recipe.preparation, Path())

"""Build components of LlamaIndex on steps of the core: checked, serialised and pickled whole, told of failures."""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import partial, wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Generic, ParamSpec, Self, TypeVar

from llama_index.core.bridge.pydantic import BaseModel, Field
from llama_index.core.extractors import BaseExtractor
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import BaseComponent, BaseNode, NodeWithScore, QueryBundle, QueryType, TransformComponent

from catena import Degraded, Journal, ParameterError, Services, arun, run
from catena.effects import Step

dispatcher = get_dispatcher("llama_index_catena")
"""The events and spans of this package."""

P = ParamSpec("P")

T = TypeVar("T")


def checked_with(more: Collection[str] = ()) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """As `checked_arguments`, for a constructor that passes arguments of these names on."""

    def decorated(init: Callable[P, None]) -> Callable[P, None]:
        parameters = list(signature(init).parameters.values())[1:]
        own = {each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
        has_fields = not more and any(each.kind is Parameter.VAR_KEYWORD for each in parameters)

        @wraps(init)
        def checked(*args: P.args, **kwargs: P.kwargs) -> None:
            made = type(args[0])
            if "library" in kwargs and "source" in own - {"library", *kwargs}:  # as LangChain's retrievers call it
                kwargs["source"] = kwargs.pop("library")
            known = {*own, *more, *(getattr(made, "model_fields", {}) if has_fields else ())}
            if unknown := [name for name in kwargs if name not in known]:
                allowed = f"one of {', '.join(map(repr, sorted(known)))}"
                raise ParameterError(f"argument of {made.__name__}", unknown[0], allowed)
            held = vars(args[0])
            is_first = issubclass(made, Remade) and "_made_of" not in held  # not of a class above it
            if is_first:
                held["_made_of"] = (args[1:], kwargs)
            init(*args, **kwargs)
            if is_first:
                held["_as_made"] = dict(held)

        return checked

    return decorated


def checked_arguments(init: Callable[P, None]) -> Callable[P, None]:
    """Have a constructor refuse arguments that it has no place for; the error names the nearest it has.

    Fields of a pydantic model are known, those of subclasses too: pydantic itself passes over what it does not know,
    and a mistyped `max_tokns` would be the default without a word.
    """
    return checked_with()(init)


class Remade:
    """Pickled as what it was made of, and what was set on it since: stores and connections are opened anew.

    The constructor is one of `checked_with`. Names that begin with "_" are its own to make.
    """

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        held = vars(self)
        (args, kwargs), made = held["_made_of"], held["_as_made"]
        public = {name: value for name, value in held.items() if not name.startswith("_")}
        plain = (str, int, float, bool, dict, list, tuple, type(None))
        fresh = {name: each for name, each in public.items() if isinstance(each, plain) or each is not made.get(name)}
        return partial(type(self), *args, **kwargs), (), fresh


class NamedEvent(BaseEvent):
    """An event under the name of its class."""

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the event."""
        return cls.__name__


class DegradedEvent(NamedEvent):
    """A part of some work failed while the rest went on: `what` names it, `why` says what happened."""

    what: str
    why: str


def tell_degraded(parts: Iterable[Degraded], event: type[DegradedEvent], *, of: str = "") -> None:
    """Write to the log of the event's module, and tell as events, what failed; `of` names where."""
    log = logging.getLogger(event.__module__)
    for part in parts:
        log.warning("%s%s: %s", f"{of}: " if of else "", part.what, part.why)
        dispatcher.event(event(what=part.what, why=part.why))


class Component(BaseComponent):
    """A component that is read again from what was written of it, and that survives pickling whole or not at all.

    What children must give is not declared with `abstractmethod`: LlamaIndex makes a span of every call of such a
    method, and a user's trace would show our helpers.
    """

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which the component is serialised."""
        return cls.__name__

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Self:
        """Return the component as it was written, with what cannot be written given again.

        Raises:
            ParameterError: a model is neither known to LlamaIndex by its name nor given again, or as of the class.
        """
        given = {key: value for key, value in {**data, **kwargs}.items() if key != "class_name"}
        for name in ("llm", "embed_model"):
            if isinstance(given.get(name), dict):
                given[name] = _revived(name, given[name])
        return cls(**given)

    def __getstate__(self) -> dict[str, Any]:
        """Return all that the component is; LlamaIndex would leave out in silence what does not pickle.

        Raises:
            ParameterError: something does not pickle; callback managers are left out, and made anew.
        """
        state = BaseModel.__getstate__(self)
        kept = dict(state["__dict__"])
        if "callback_manager" in kept and not _pickles(kept["callback_manager"]):
            del kept["callback_manager"]
        check_pickles(type(self).__name__, {**kept, **(state.get("__pydantic_private__") or {})})
        return {**state, "__dict__": kept}


class JournalledComponent(Component):
    """A component that asks models, and keeps their replies."""

    journal: str | None = Field(default=None, exclude=True, description="The file in which replies are kept.")

    def _services(self) -> Services:
        """Return the models that answer."""
        raise NotImplementedError

    def _run(self, step: Step[T]) -> T:
        with journalled(self._services(), self.journal) as services:
            return run(step, services)

    async def _arun(self, step: Step[T], *, computes: bool = False) -> T:
        outside = await asyncio.to_thread(self._services)  # may load the shipped embedding
        async with ajournalled(outside, self.journal) as services:
            return await arun(step, services, computes=computes)


class TransformOfStep(JournalledComponent, TransformComponent):
    """A transformation that a step of the core makes, called and awaited."""

    num_workers: int = Field(default=4, exclude=True, description="Calls in flight at once.")

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """Return what is made of nodes."""
        return self._made(nodes, self._run(self._step(nodes)))

    @dispatcher.span
    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """As calling it, without blocking the event loop."""
        if not self._asks:
            return await asyncio.to_thread(self, nodes)
        step = await asyncio.to_thread(self._step, nodes)
        return await asyncio.to_thread(self._made, nodes, await self._arun(step, computes=True))

    @property
    def _asks(self) -> bool:
        """Return False where no model is asked, and all is computing."""
        return True

    def _step(self, nodes: Sequence[BaseNode]) -> Step[Any]:
        """Return the step over all nodes."""
        raise NotImplementedError

    def _made(self, nodes: Sequence[BaseNode], found: Any) -> list[BaseNode]:
        """Return nodes of what the step found, and tell what failed."""
        raise NotImplementedError


class ExtractorComponent(JournalledComponent, BaseExtractor):
    """An extractor whose cache keys say what it makes, and not how it is run; its async call has a span, too."""

    in_place: bool = Field(default=False, description="Whether to process nodes in place.")
    disable_template_rewrite: bool = Field(default=True, description="Whether to leave the nodes' template as it is.")
    show_progress: bool = Field(default=False, exclude=True, description="Whether to show progress.")
    num_workers: int = Field(default=4, exclude=True, description="Calls in flight at once.")

    def extract(self, nodes: Sequence[BaseNode]) -> list[dict[str, Any]]:
        """Return the metadata of each node."""
        return self._metadata(nodes, self._run(self._step(nodes)))

    @dispatcher.span
    async def aextract(self, nodes: Sequence[BaseNode]) -> list[dict[str, Any]]:
        """As `extract`, without blocking the event loop."""
        if not self._asks:
            return await asyncio.to_thread(self.extract, nodes)
        step = await asyncio.to_thread(self._step, nodes)
        return self._metadata(nodes, await self._arun(step))

    @dispatcher.span
    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """As calling it, without blocking the event loop."""
        return await super().acall(nodes, **kwargs)

    @property
    def _asks(self) -> bool:
        """Return False where no model is asked, and all is computing."""
        return True

    def _step(self, nodes: Sequence[BaseNode]) -> Step[Any]:
        """Return the step that makes the metadata of all nodes."""
        raise NotImplementedError

    def _metadata(self, nodes: Sequence[BaseNode], made: Any) -> list[dict[str, Any]]:
        """Return metadata per node of what the step made, and tell what failed."""
        raise NotImplementedError


class CoreRetriever(Remade, BaseRetriever, Generic[T]):
    """A retriever that has a step of the core find something, and makes nodes of it."""

    def _question(self, asked: QueryBundle) -> tuple[Step[T], Services]:
        """Return the step that answers a question, and the services that it asks."""
        raise NotImplementedError

    def _nodes(self, asked: QueryBundle, found: T) -> list[NodeWithScore]:
        """Return what the step found as nodes, and tell what failed."""
        raise NotImplementedError

    def _found(self, query: QueryType) -> T:
        return run(*self._question(bundle_of(query)))

    async def _afound(self, query: QueryType) -> T:
        return await arun(*self._question(bundle_of(query)))

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._nodes(query_bundle, self._found(query_bundle))

    @dispatcher.span
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = await self._afound(query_bundle)
        return await asyncio.to_thread(self._nodes, query_bundle, found)  # some read sections or pictures from disk


class CorePrompts:
    """Prompts of the core, which LlamaIndex does not change."""

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        """Leave the prompts as they are."""


def bundle_of(query: QueryType) -> QueryBundle:
    """Return a question as a bundle; a bundle as it is."""
    return QueryBundle(query) if isinstance(query, str) else query


@contextmanager
def journalled(services: Services, path: str | Path | None) -> Iterator[Services]:
    """Keep replies in the journal at `path` while the context lasts; None leaves the services as they are."""
    if path is None:
        yield services
        return
    with Journal.open(path) as journal:
        yield replace(services, journal=journal)


@asynccontextmanager
async def ajournalled(services: Services, path: str | Path | None) -> AsyncIterator[Services]:
    """As `journalled`, without blocking the event loop."""
    if path is None:
        yield services
        return
    journal = await asyncio.to_thread(Journal.open, path)
    try:
        yield replace(services, journal=journal)
    finally:
        await asyncio.to_thread(journal.close)


def written_options(value: Any, kinds: Mapping[str, type[Any]], *, key: str = "kind") -> Any:
    """Return options as plain data that `revived_options` reads, what is of none of these kinds as its `repr`."""
    if isinstance(value, tuple | list):
        return [written_options(each, kinds, key=key) for each in value]
    if value is None or isinstance(value, str | int | float):
        return value
    if is_dataclass(value) and type(value) is kinds.get(type(value).__name__):
        held = {each.name: written_options(getattr(value, each.name), kinds, key=key) for each in fields(value)}
        return {key: type(value).__name__, **held}
    return repr(value)


def revived_options(written: Any, kinds: Mapping[str, type[Any]], *, key: str = "kind") -> Any:
    """Return options from what `written_options` wrote; what is no such thing comes back as it is."""
    if isinstance(written, list):
        return tuple(revived_options(each, kinds, key=key) for each in written)
    if not isinstance(written, dict) or written.get(key) not in kinds:
        return written
    held = {name: revived_options(value, kinds, key=key) for name, value in written.items() if name != key}
    return kinds[written[key]](**held)


def given_options(name: str, given: Any, kinds: Mapping[str, type[Any]], *, key: str = "kind") -> Any:
    """Return options of one of these kinds as they are, or from their written form; None as it is.

    Raises:
        ParameterError: they are neither.
    """
    how = revived_options(given, kinds, key=key)
    if how is not None and not isinstance(how, tuple(kinds.values())):
        raise ParameterError(name, given, f"{', '.join(kinds)} or None")
    return how


def check_pickles(owner: str, parts: dict[str, Any]) -> None:
    """Raise `ParameterError` for the first part that cannot travel to another process."""
    for name, part in parts.items():
        if not _pickles(part):
            allowed = f"something that can be pickled, for a {owner} that travels to another process"
            raise ParameterError(name, type(part).__name__, allowed)


def _pickles(part: Any) -> bool:
    try:
        pickle.dumps(part)
    except Exception:  # each class has exceptions of its own
        return False
    return True


def _revived(name: str, written: dict[str, Any]) -> Any:
    """Return a model from its written form, as far as LlamaIndex has a name for it."""
    from llama_index.core.embeddings.loading import load_embed_model  # imports every vendor's class that is there
    from llama_index.core.llms.loading import load_llm

    from llama_index_catena.services import CatenaEmbedding  # is a component itself

    kind = written.get("class_name")
    if kind == CatenaEmbedding.class_name():
        return CatenaEmbedding.from_dict(written)
    try:
        return (load_llm if name == "llm" else load_embed_model)(dict(written))
    except Exception as error:  # of the model's own constructor, e.g. a key that is not written down
        raise ParameterError(name, kind, f"given again: from_dict(data, {name}=...)") from error

"""What all components of ours do alike: nothing of them is lost on paper, or between processes."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Self

from llama_index.core.bridge.pydantic import BaseModel, Field
from llama_index.core.embeddings.loading import load_embed_model
from llama_index.core.extractors import BaseExtractor
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.llms.loading import load_llm
from llama_index.core.schema import BaseComponent, BaseNode

from catena.model import ParameterError

dispatcher = get_dispatcher(__name__)


class Component(BaseComponent):
    """A component that is read again from what was written of it, and that survives pickling whole or not at all."""

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


class ExtractorComponent(Component, BaseExtractor):
    """An extractor whose cache keys say what it makes, and not how it is run; its async call has a span, too."""

    show_progress: bool = Field(default=False, exclude=True, description="Whether to show progress.")
    num_workers: int = Field(default=4, exclude=True, description="Calls in flight at once.")

    @dispatcher.span
    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """As calling it, without blocking the event loop."""
        return await super().acall(nodes, **kwargs)


def written_options(value: Any, kinds: Mapping[str, type[Any]]) -> Any:
    """Return options as plain data that `revived_options` reads, what is of none of these kinds as its `repr`."""
    if isinstance(value, tuple | list):
        return [written_options(each, kinds) for each in value]
    if value is None or isinstance(value, str | int | float):
        return value
    if is_dataclass(value) and type(value) is kinds.get(type(value).__name__):
        held = {each.name: written_options(getattr(value, each.name), kinds) for each in fields(value)}
        return {"kind": type(value).__name__, **held}
    return repr(value)


def revived_options(written: Any, kinds: Mapping[str, type[Any]]) -> Any:
    """Return options from what `written_options` wrote; what is no such thing comes back as it is."""
    if isinstance(written, list):
        return tuple(revived_options(each, kinds) for each in written)
    if not isinstance(written, dict) or written.get("kind") not in kinds:
        return written
    held = {key: revived_options(value, kinds) for key, value in written.items() if key != "kind"}
    return kinds[written["kind"]](**held)


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
    from llama_index_catena.embedding import CatenaEmbedding  # is a component itself

    kind = written.get("class_name")
    if kind == CatenaEmbedding.class_name():
        return CatenaEmbedding.from_dict(written)
    try:
        return (load_llm if name == "llm" else load_embed_model)(dict(written))
    except Exception as error:  # of the model's own constructor, e.g. a key that is not written down
        raise ParameterError(name, kind, f"given again: from_dict(data, {name}=...)") from error

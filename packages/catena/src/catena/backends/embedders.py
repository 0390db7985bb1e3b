"""Make the embedder of a name, as `Library.open(path, embedder="minilm")` and `catena index --embedder` know it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from catena.backends.hosted import NO_KEY
from catena.model.errors import ParameterError, needs

if TYPE_CHECKING:
    from catena.effects.ports import Embedder

EMBEDDER_NAMES: Final = (
    "static", "minilm", "sentence-transformers:NAME", "openai:MODEL", "cohere:MODEL", "voyage:MODEL",
)  # fmt: skip


def embedder_named(name: str) -> tuple[Embedder, str]:
    """Return the embedder of a name, and the name by which any other process finds it; "" for the shipped one.

    Args:
        name: "static" (the shipped one), "minilm" (all-MiniLM-L6-v2 without torch, the package catena-minilm),
            "sentence-transformers:" with a model's name or path, "cohere:", "voyage:" or "openai:" with a model's
            name, or "openai:" with a model and the address of a server that speaks the protocol and wants no key:
            "openai:nomic-embed-text@http://localhost:11434/v1". Keys are the environment's; that of OpenAI goes to
            OPENAI_BASE_URL alone, never to the address of a name.

    Raises:
        ParameterError: there is no such name, or no key for it.
        MissingExtraError: its package is not installed.
        ServiceError: the model cannot be loaded, or its server cannot be reached.
    """
    kind, _, model = name.partition(":")
    if name == "static":
        from catena.enrichment.static_embedding import StaticEmbedder

        return StaticEmbedder(), ""
    if name == "minilm":
        with needs("catena-minilm"):
            return import_module("catena_minilm").MiniLMEmbedder(), name
    if kind == "sentence-transformers" and model:
        where = str(Path(model).resolve()) if Path(model).is_dir() else model
        return _class_of("SentenceTransformerEmbedder")(where), f"{kind}:{where}"
    if kind in ("cohere", "voyage") and model:
        return _class_of(f"{kind.title()}Embedder")(model), name
    if kind == "openai" and model:
        return _of_openai(model), name
    raise ParameterError("embedder", name, f"one of {', '.join(EMBEDDER_NAMES)}, or an embedder of your own")


def _of_openai(given: str) -> Embedder:
    model, at, address = given.partition("@")
    parts = urlsplit(address)
    if parts.password or parts.query or (at and parts.scheme not in ("http", "https")):
        # not shown: a password may be in it
        raise ParameterError("embedder", f"openai:{model}@…", "with an http(s) address that holds no password")
    # Names stand in libraries, also in those of strangers: no key of ours goes where they say.
    access = {"base_url": address, "api_key": NO_KEY} if at else {}
    made: Embedder = _class_of("OpenAIEmbedder")(model, **access)
    return made


def _class_of(name: str) -> Any:
    """Return a class of this room; nothing that uses names of embedders depends on the SDKs of all of them."""
    return getattr(import_module("catena.backends"), name)

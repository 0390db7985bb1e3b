"""The limit of a reply at a model of a framework: the setting that its class has for it, changed in a copy."""

from __future__ import annotations

from typing import Any, TypeVar

Model = TypeVar("Model")

_SETTINGS = ("max_completion_tokens", "max_tokens", "max_output_tokens", "num_predict", "max_new_tokens")


def limit_setting(model: object) -> str | None:
    """Return the field by which a pydantic model limits its replies ("max_tokens", "num_predict", ...), or None."""
    fields = getattr(type(model), "model_fields", {})
    return next((name for name in _SETTINGS if name in fields), None)


def with_limit(model: Model, setting: str | None, tokens: int) -> Model:
    """Return a copy of a model whose replies have at most `tokens` tokens, or fewer where its user set it so.

    Args:
        model: a pydantic model; it is not changed.
        setting: as by `limit_setting`; None leaves the model as it is.
        tokens: the limit.
    """
    given: Any = model
    if setting is None:
        return model
    own = getattr(given, setting) if setting in given.model_fields_set else None
    limit = min(own, tokens) if isinstance(own, int) and own > 0 else tokens
    copied: Model = given.model_copy(update={setting: limit})
    return copied

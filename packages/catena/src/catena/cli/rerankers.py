"""Who scores question and text together, as an option names it: cohere:MODEL, voyage:MODEL, cross-encoder:PATH."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from catena.cli.failures import ProblemError

if TYPE_CHECKING:
    from catena.effects.ports import Reranker

RERANKER_KEYS = {"cohere": "CO_API_KEY", "voyage": "VOYAGE_API_KEY"}
"""Service -> the variable of the environment that holds its key."""


def opened_reranker(named: str) -> Reranker:
    """Return the reranker `cohere:MODEL`, `voyage:MODEL` or `cross-encoder:PATH`; its key is in the environment.

    Raises:
        ProblemError: there is no such kind, no model, or no key.
        MissingExtraError: its package is not installed.
        ServiceError: the model cannot be loaded.
    """
    kind, _, model = named.partition(":")
    if kind not in (*RERANKER_KEYS, "cross-encoder"):
        raise ProblemError(f"--rerank knows no {kind!r}", "--rerank cohere:MODEL, voyage:MODEL or cross-encoder:PATH")
    if not model:
        raise ProblemError(
            f"--rerank {kind} needs a model", f"--rerank {kind}:{'MODEL' if kind in RERANKER_KEYS else 'PATH'}"
        )
    if kind in RERANKER_KEYS and not os.environ.get(RERANKER_KEYS[kind], "").strip():
        raise ProblemError(f"there is no key for {kind}", f"setting {RERANKER_KEYS[kind]} in the environment")
    if kind == "cohere":
        from catena.backends.cohere import CohereReranker

        return CohereReranker(model)
    if kind == "voyage":
        from catena.backends.voyage import VoyageReranker

        return VoyageReranker(model)
    from catena.backends.sentence_transformers import CrossEncoderReranker

    return CrossEncoderReranker(model)

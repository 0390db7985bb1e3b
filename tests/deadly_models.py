"""Models that end the process that asks them: a module of its own, since other processes import it."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

import numpy as np

from catena.effects import Services
from catena.enrichment import StaticEmbedder


class Deadly(StaticEmbedder):
    """An embedder that one text ends the process of."""

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        if any("poison" in text for text in texts):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().embed_documents(texts)


def deadly() -> Services:
    return Services(embedder=Deadly())

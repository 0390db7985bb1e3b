"""The embedders of `catena-bench graph`, and their vectors kept between runs: a corpus is embedded once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePath
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from catena.effects import Embedder
from catena.enrichment import StaticEmbedder
from catena.model import MissingExtraError, ParameterError, digest, text_digest
from catena_bench.views_retrievers import MINILM, minilm, sentence_transformer

STATIC, MINI = "static", "minilm"
_BATCH = 1_024  # texts between two writings: what is lost when a run is stopped

Vector = NDArray[np.float32]


def embedder_named(name: str) -> tuple[str, Embedder]:
    """Return an embedder and the name that it has in figures.

    Args:
        name: "static" (the shipped one), "minilm" (all-MiniLM-L6-v2), or the name or path of a sentence-transformers
            model.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ParameterError: the package that brings MiniLM is not installed.
        ServiceError: the model cannot be loaded.
    """
    if name == STATIC:
        return STATIC, StaticEmbedder()
    if find_spec("sentence_transformers") is None:
        raise MissingExtraError("sentence-transformers", "sentence-transformers")
    if name != MINI:
        return PurePath(name).name, sentence_transformer(PurePath(name).name, name)
    if find_spec(MINILM) is None:
        raise ParameterError("embedder 'minilm'", MINILM, "a package that is installed, or --embedder PATH instead")
    return MINI, minilm()


def model_named(name: str) -> str:
    """Return the name or path by which sentence-transformers loads an embedder of `embedder_named`.

    Raises:
        ParameterError: it is the shipped embedding, which has no network to train, or MiniLM is not installed.
    """
    if name == STATIC:
        raise ParameterError("embedder", name, "minilm or a sentence-transformers model, to be fine-tuned")
    if name != MINI:
        return name
    if find_spec(MINILM) is None:
        raise ParameterError("embedder 'minilm'", MINILM, "a package that is installed, or --embedder PATH instead")
    return str(import_module(MINILM).get_model_path())


class KeptVectors:
    """An embedder that keeps what it embedded: in memory, and in a folder where one is given.

    The folder has one file per embedder, of (digest of the text, vector); documents and questions are told apart,
    because models may embed them differently. A file that cannot be read is made anew.

    Args:
        embedder: who embeds what is not kept yet.
        folder: made where it is not there; None keeps nothing beyond this process.
        tell: is told how far the embedding is.
    """

    def __init__(
        self, embedder: Embedder, folder: Path | None = None, tell: Callable[[str], None] = lambda message: None
    ) -> None:
        self.identity, self.dim = embedder.identity, embedder.dim
        self._embedder, self._tell = embedder, tell
        self._path = None if folder is None else folder / f"{digest(embedder.identity)}.npz"
        self._kept: dict[str, Vector] = self._read()

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return one unit row per text."""
        return self._rows("d", texts, self._embedder.embed_documents)

    def embed_queries(self, texts: Sequence[str]) -> Vector:
        """Return one unit row per question."""
        return self._rows("q", texts, lambda some: np.stack([self._embedder.embed_query(text) for text in some]))

    def embed_query(self, text: str) -> Vector:
        """Return the unit vector of a question."""
        row: Vector = self.embed_queries([text])[0]
        return row

    def _rows(self, kind: str, texts: Sequence[str], embed: Callable[[Sequence[str]], Vector]) -> Vector:
        keys = [f"{kind}{text_digest(text)}" for text in texts]
        new = list({key: text for key, text in zip(keys, texts, strict=True) if key not in self._kept}.items())
        for at in range(0, len(new), _BATCH):
            some = new[at : at + _BATCH]
            rows = embed([text for _, text in some])
            self._kept.update(zip((key for key, _ in some), rows, strict=True))
            if len(new) > 1:
                self._write()
            if len(new) > _BATCH:
                self._tell(f"embedded {at + len(some):,} of {len(new):,} texts")
        return np.stack([self._kept[key] for key in keys]) if keys else np.zeros((0, self.dim), np.float32)

    def _read(self) -> dict[str, Vector]:
        if self._path is None or not self._path.is_file():
            return {}
        try:
            with self._path.open("rb") as file, np.load(file, allow_pickle=False) as held:
                keys, rows = held["keys"].tolist(), held["rows"]
            if rows.shape != (len(keys), self.dim):
                raise ValueError(f"rows of shape {rows.shape}")
        except (OSError, ValueError, KeyError, BadZipFile, EOFError) as error:
            self._tell(f"the kept vectors cannot be read ({error}); they are made anew")
            return {}
        return dict(zip(keys, rows, strict=True))

    def _write(self) -> None:
        """Write all that is kept, whole or not at all."""
        if self._path is None:
            return
        part = self._path.with_suffix(f".{os.getpid()}.part")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as file:
                np.savez(file, keys=np.array(list(self._kept)), rows=np.stack(list(self._kept.values())))
            os.replace(part, self._path)
        except OSError as error:
            raise ParameterError("cache", str(self._path.parent), f"a folder to write into ({error})") from None

"""Read passages asked as one corpus and questions with evidence in several of them; embed them once.

A row of `SPLIT_corpus.jsonl` (or `.jsonl.gz`) is `{id, title, text}`, of `SPLIT_questions.jsonl` `{id, question,
supporting, answers}` with `supporting` the ids of passages; a passage without a title is its text alone, and accepted
answers are read where there are any. What else stands in a row is not read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from catena import Chunk, Document, Entry, ParameterError, Section
from catena.effects import Embedder
from catena.enrichment import StaticEmbedder, critical_terms
from catena.model import SOURCE, TITLE, digest, lines_in, span_id, text_digest
from catena.structure import headed_views
from catena_bench.collection import of_layout, stored, stored_rows
from catena_bench.figures import Tell, silent
from catena_bench.views_retrievers import minilm, minilm_path, sentence_transformer

DEV, TRAIN = "dev", "train"


STATIC, MINI = "static", "minilm"
_BATCH = 1_024  # texts between two writings: what is lost when a run is stopped
Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class HopQuestion:
    """A question, the ids of the chunks that are its evidence, and the accepted answers, where they are known."""

    id: str
    text: str
    evidence: tuple[str, ...]
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A corpus of passages, each one chunk of a document of its own, and the questions asked of all of it.

    Attributes:
        chunks: by ascending id. Ids are digests: in the order of the file, evidence may come first, and ties would
            go to it.
        documents: in the order of the chunks.
        questions: those that have evidence, in the order of the file.
        unknown: how many pieces of evidence are in no row of the corpus; they count as not found.
    """

    name: str
    documents: tuple[Document, ...]
    chunks: tuple[Chunk, ...]
    questions: tuple[HopQuestion, ...]
    unknown: int

    def entries(self) -> Iterator[Entry]:
        """Yield what a library stores of each passage."""
        for document, chunk in zip(self.documents, self.chunks, strict=True):
            size = len(document.text)
            section = Section(
                id=span_id(document.id, "section", 0, size), document_id=document.id, position=0, level=0, title="",
                path=(), start=0, body_start=0, end=size, tree_end=size,
            )  # fmt: skip
            yield Entry(
                document=document,
                sections=(section,),
                chunks=(chunk,),
                views=headed_views(document, (chunk,)),
                terms=critical_terms(document, (chunk,)),
            )


def has_split(data: Path, split: str) -> bool:
    """Return whether both files of a split are there."""
    return all(stored(data, f"{split}_{part}") is not None for part in ("corpus", "questions"))


def read_split(data: Path, split: str = DEV, most: int | None = None) -> Split:
    """Read one split of a folder of the layout.

    Args:
        data: the folder.
        split: "dev" or "train".
        most: keep only so many questions, those whose ids have the lowest digests; the corpus is always whole.

    Raises:
        ParameterError: a file is not there or not of the layout, two passages have one id, or no question has
            evidence.
    """
    if not has_split(data, split):
        allowed = f"a folder with {split}_corpus.jsonl and {split}_questions.jsonl (or .jsonl.gz)"
        raise ParameterError("data", str(data), allowed)
    with of_layout(data, f"{split} rows with all fields of the layout"):
        passages = [_passage(row) for row in stored_rows(data, f"{split}_corpus")]
        ids = {document.id: chunk.id for document, chunk in passages}
        asked = [_asked(row, ids) for row in stored_rows(data, f"{split}_questions")]
    if len(ids) < len(passages):
        raise ParameterError(f"{split}_corpus", f"{len(passages)} rows with {len(ids)} ids", "one row for each id")
    judged = [question for question in asked if question.evidence]
    if not judged or not passages:
        raise ParameterError("data", str(data), "passages, and questions with at least one supporting passage each")
    if most is not None:
        lowest = set(sorted((question.id for question in judged), key=digest)[:most])
        judged = [question for question in judged if question.id in lowest]
    known = set(ids.values())
    ordered = sorted(passages, key=lambda pair: pair[1].id)
    return Split(
        name=f"{data.resolve().name} {split}",
        documents=tuple(document for document, _ in ordered),
        chunks=tuple(chunk for _, chunk in ordered),
        questions=tuple(judged),
        unknown=sum(chunk_id not in known for question in judged for chunk_id in question.evidence),
    )


def _passage(row: Mapping[str, Any]) -> tuple[Document, Chunk]:
    title = str(row.get("title") or "")
    text = f"{title}\n{row['text']}" if title else str(row["text"])
    document = Document(id=str(row["id"]), title=title, text=text, media_type="text/plain")
    chunk = Chunk(
        id=span_id(document.id, "chunk", 0, len(text)),
        document_id=document.id,
        position=0,
        start=0,
        end=len(text),
        text=text,
        path=(title,) if title else (),
        lines=lines_in(text, 0, len(text)),
        metadata={TITLE: title, SOURCE: document.id},
    )
    return document, chunk


def _asked(row: Mapping[str, Any], ids: Mapping[str, str]) -> HopQuestion:
    """Return a question; evidence that is in no row of the corpus keeps an id that no chunk has."""
    supporting = dict.fromkeys(map(str, row.get("supporting") or ()))
    evidence = tuple(ids.get(passage, f"not in the corpus: {passage}") for passage in supporting)
    answers = tuple(map(str, row.get("answers") or ()))
    return HopQuestion(id=str(row["id"]), text=str(row["question"]), evidence=evidence, answers=answers)


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
    if name == MINI:
        return MINI, minilm()
    return PurePath(name).name, sentence_transformer(PurePath(name).name, name)


def model_named(name: str) -> str:
    """Return the name or path by which sentence-transformers loads an embedder of `embedder_named`.

    Raises:
        ParameterError: it is the shipped embedding, which has no network to train, or MiniLM is not installed.
    """
    if name == STATIC:
        raise ParameterError("embedder", name, "minilm or a sentence-transformers model, to be fine-tuned")
    return minilm_path() if name == MINI else name


class KeptVectors:
    """An embedder that keeps what it embedded: in memory, and in a folder where one is given.

    The folder has one file per embedder, of (digest of the text, vector); documents and questions are told apart,
    because models may embed them differently. A file that cannot be read is made anew.

    Args:
        embedder: who embeds what is not kept yet.
        folder: made where it is not there; None keeps nothing beyond this process.
        tell: is told how far the embedding is.
    """

    def __init__(self, embedder: Embedder, folder: Path | None = None, tell: Tell = silent) -> None:
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

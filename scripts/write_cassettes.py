"""Write the recordings in tests/backends/cassettes by hand: no service is asked.

Every file is made from a table below, from the shapes that the services document; the vectors are shortened to
four numbers. `python scripts/write_cassettes.py` writes them anew.
"""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent.parent / "tests" / "backends" / "cassettes"
HEADER = """\
# SYNTHETIC. Written by scripts/write_cassettes.py from the shapes that the service documents.
# No service was asked: a test that replays this shows how such a reply is read, and nothing about the service.
"""
QUERY = "Which fuse does the pump need?"
DOCUMENTS = ("The pump needs a 250 mA fuse.", "Tighten the screws.", "Fuses are behind the cover.")
TEXTS = ("first text", "second text", "third text")
VECTORS = ((3.0, 0.0, 0.0, 4.0), (0.0, 2.0, 0.0, 0.0), (1.0, 1.0, 1.0, 1.0))
SCORES = (0.91, 0.03, 0.42)
BEST_FIRST = (0, 2, 1)
PHRASES = {status.value: status.phrase for status in HTTPStatus}


@dataclass(frozen=True)
class Reply:
    """One reply; a string body is sent as it is."""

    body: Any
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        return self.body if isinstance(self.body, str) else json.dumps(self.body)


def interaction(uri: str, body: dict[str, Any], reply: Reply) -> dict[str, Any]:
    """Return one exchange, as vcrpy reads it."""
    content = "text/html" if reply.text.startswith("<") else "application/json"
    return {
        "request": {
            "method": "POST",
            "uri": uri,
            "body": json.dumps(body, ensure_ascii=False),
            "headers": {"Content-Type": ["application/json"]},
        },
        "response": {
            "status": {"code": reply.status, "message": PHRASES.get(reply.status, "Overloaded")},
            "headers": {"Content-Type": [content], **{name: [value] for name, value in reply.headers}},
            "body": {"string": reply.text},
        },
    }


def cassette(uri: str, *exchanges: tuple[dict[str, Any], Reply]) -> str:
    """Return the text of a recording."""
    interactions = [interaction(uri, body, reply) for body, reply in exchanges]
    content = {"synthetic": True, "interactions": interactions, "version": 1}
    return HEADER + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=110)


RETRY_DATE = "Wed, 21 Oct 2015 07:28:00 GMT"  # past: wait no longer


def failures(error: Any) -> dict[str, Reply]:
    """Return the replies that are errors; `error` makes a body of a message."""
    return {
        "400": Reply(error("the query has 9000 tokens, at most 8000 are allowed"), 400),
        "401": Reply(error("invalid api token"), 401),
        "403": Reply(error("this key may not use this model"), 403),
        "422": Reply(error("invalid value for parameter: " + "long " * 200), 422),
        "429": Reply(error("too many requests"), 429, (("Retry-After", "7"),)),
        "429_date": Reply(error("too many requests"), 429, (("Retry-After", RETRY_DATE),)),
        "429_bare": Reply(error("too many requests"), 429),
        "500": Reply(error("internal server error"), 500),
        "503": Reply("<html>Service Unavailable</html>", 503, (("Retry-After", "3"),)),
        "529": Reply(error("the service is overloaded"), 529),
    }


def cohere() -> dict[str, str]:
    """Return the recordings of Cohere's v2/rerank and v2/embed, by file name."""
    place = "https://api.cohere.com/v2/"

    def ask(*documents: str) -> dict[str, Any]:
        return {"model": "rerank-v3.5", "query": QUERY, "documents": list(documents), "max_tokens_per_doc": 4096}

    def results(*pairs: tuple[int, Any]) -> Reply:
        body = {
            "id": "0b6f6c5e-0000-4000-8000-000000000000",
            "results": [{"index": index, "relevance_score": score} for index, score in pairs],
            "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}},
        }
        return Reply(body)

    def embed(kind: str, *texts: str) -> dict[str, Any]:
        return {
            "texts": list(texts),
            "model": "embed-v4.0",
            "input_type": kind,
            "output_dimension": 4,
            "embedding_types": ["float"],
            "truncate": "NONE",
        }

    def embeddings(*vectors: tuple[float, ...]) -> Reply:
        body = {
            "id": "1c7a7d6f-0000-4000-8000-000000000000",
            "texts": [],
            "embeddings": {"float": [list(vector) for vector in vectors]},
            "meta": {"api_version": {"version": "2"}, "billed_units": {"input_tokens": 6}},
            "response_type": "embeddings_by_type",
        }
        return Reply(body)

    good = results(*((index, SCORES[index]) for index in BEST_FIRST))
    whole, all_texts = ask(*DOCUMENTS), embed("search_document", *TEXTS)
    wrong = {
        "malformed": Reply('{"id": "0b6f6c5e", "results": [{"index": 0, "rel'),
        "html": Reply("<html>Sign in to the hotel network</html>"),
        "missing": Reply({"id": "0b6f6c5e", "meta": {}}),
    }
    wrong_scores = {
        "short": results((0, 0.9), (1, 0.1)),
        "duplicate": results((0, 0.9), (0, 0.8), (1, 0.1)),
        "out_of_range": results((0, 0.9), (3, 0.8), (1, 0.1)),
        "negative": results((0, 0.9), (-1, 0.8), (1, 0.1)),
        "no_score": results((0, 0.9), (2, None), (1, 0.1)),
    }
    wrong_rows = {
        "short": embeddings(*VECTORS[:2]),
        "ragged": embeddings(VECTORS[0], VECTORS[1], (1.0, 1.0)),
        "zero": embeddings(*VECTORS[:2], (0.0, 0.0, 0.0, 0.0)),
        "other_type": Reply({"id": "1c7a7d6f", "embeddings": {"int8": [[1, 2, 3, 4]] * 3}}),
    }
    bad = failures(lambda message: {"id": "2d8b8e70", "message": message})
    rerank, vectors = place + "rerank", place + "embed"
    return {
        "rerank.yaml": cassette(rerank, (whole, good)),
        "rerank_split.yaml": cassette(
            rerank,
            (ask(*DOCUMENTS[:2]), results((1, SCORES[1]), (0, SCORES[0]))),
            (ask(DOCUMENTS[2]), results((0, SCORES[2]))),
        ),
        **{f"rerank_{name}.yaml": cassette(rerank, (whole, reply), (whole, good)) for name, reply in bad.items()},
        **{f"rerank_{name}.yaml": cassette(rerank, (whole, r)) for name, r in (wrong | wrong_scores).items()},
        "embed.yaml": cassette(vectors, (all_texts, embeddings(*VECTORS))),
        "embed_query.yaml": cassette(vectors, (embed("search_query", QUERY), embeddings(VECTORS[0]))),
        "embed_split.yaml": cassette(
            vectors,
            (embed("search_document", *TEXTS[:2]), embeddings(*VECTORS[:2])),
            (embed("search_document", TEXTS[2]), embeddings(VECTORS[2])),
        ),
        **{
            f"embed_{name}.yaml": cassette(vectors, (all_texts, reply), (all_texts, embeddings(*VECTORS)))
            for name, reply in bad.items()
        },
        **{f"embed_{name}.yaml": cassette(vectors, (all_texts, r)) for name, r in (wrong | wrong_rows).items()},
    }


def voyage() -> dict[str, str]:
    """Return the recordings of Voyage's v1/rerank and v1/embeddings, by file name."""
    place = "https://api.voyageai.com/v1/"

    def ask(*documents: str) -> dict[str, Any]:
        return {
            "query": QUERY,
            "documents": list(documents),
            "model": "rerank-2.5",
            "top_k": None,
            "truncation": False,
        }

    def results(*pairs: tuple[int, Any]) -> Reply:
        data = [{"index": index, "relevance_score": score} for index, score in pairs]
        return Reply({"object": "list", "data": data, "model": "rerank-2.5", "usage": {"total_tokens": 30}})

    def embed(kind: str, *texts: str) -> dict[str, Any]:
        return {
            "input": list(texts),
            "model": "voyage-3.5",
            "input_type": kind,
            "truncation": False,
            "output_dtype": None,
            "output_dimension": 4,
            "encoding_format": "base64",
        }

    def embeddings(*pairs: tuple[int, Any]) -> Reply:
        data = [{"object": "embedding", "embedding": vector, "index": index} for index, vector in pairs]
        return Reply({"object": "list", "data": data, "model": "voyage-3.5", "usage": {"total_tokens": 6}})

    def packed(vector: tuple[float, ...]) -> str:
        return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()

    good = results(*((index, SCORES[index]) for index in BEST_FIRST))
    rows = embeddings(*((index, packed(VECTORS[index])) for index in range(3)))
    whole, all_texts = ask(*DOCUMENTS), embed("document", *TEXTS)
    wrong = {
        "malformed": Reply('{"object": "list", "data": [{"index": 0, "rel'),
        "html": Reply("<html>Sign in to the hotel network</html>"),
        "missing": Reply({"object": "list", "model": "rerank-2.5"}),
    }
    wrong_scores = {
        "short": results((0, 0.9), (1, 0.1)),
        "duplicate": results((0, 0.9), (0, 0.8), (1, 0.1)),
        "out_of_range": results((0, 0.9), (3, 0.8), (1, 0.1)),
        "negative": results((0, 0.9), (-1, 0.8), (1, 0.1)),
        "no_score": results((0, 0.9), (2, None), (1, 0.1)),
    }
    wrong_rows = {
        "short": embeddings((0, packed(VECTORS[0])), (1, packed(VECTORS[1]))),
        "duplicate": embeddings(*((0, packed(VECTORS[index])) for index in range(3))),
        "ragged": embeddings((0, packed(VECTORS[0])), (1, packed(VECTORS[1])), (2, packed((1.0, 1.0)))),
        "zero": embeddings((0, packed(VECTORS[0])), (1, packed(VECTORS[1])), (2, packed((0.0,) * 4))),
        "not_base64": embeddings(*((index, "abc") for index in range(3))),
    }
    bad = failures(lambda message: {"detail": message})
    rerank, vectors = place + "rerank", place + "embeddings"
    return {
        "rerank.yaml": cassette(rerank, (whole, good)),
        "rerank_split.yaml": cassette(
            rerank,
            (ask(*DOCUMENTS[:2]), results((1, SCORES[1]), (0, SCORES[0]))),
            (ask(DOCUMENTS[2]), results((0, SCORES[2]))),
        ),
        **{f"rerank_{name}.yaml": cassette(rerank, (whole, reply), (whole, good)) for name, reply in bad.items()},
        **{f"rerank_{name}.yaml": cassette(rerank, (whole, r)) for name, r in (wrong | wrong_scores).items()},
        "embed.yaml": cassette(vectors, (all_texts, rows)),
        "embed_any_order.yaml": cassette(
            vectors, (all_texts, embeddings(*((index, list(VECTORS[index])) for index in BEST_FIRST)))
        ),
        "embed_query.yaml": cassette(vectors, (embed("query", QUERY), embeddings((0, packed(VECTORS[0]))))),
        "embed_split.yaml": cassette(
            vectors,
            (embed("document", *TEXTS[:2]), embeddings((0, packed(VECTORS[0])), (1, packed(VECTORS[1])))),
            (embed("document", TEXTS[2]), embeddings((0, packed(VECTORS[2])))),
        ),
        **{
            f"embed_{name}.yaml": cassette(vectors, (all_texts, reply), (all_texts, rows))
            for name, reply in bad.items()
        },
        **{f"embed_{name}.yaml": cassette(vectors, (all_texts, r)) for name, r in (wrong | wrong_rows).items()},
    }


def all_cassettes() -> dict[str, str]:
    """Return every recording by its path below the folder."""
    services = {"test_cohere": cohere(), "test_voyage": voyage()}
    return {f"{folder}/{name}": text for folder, files in services.items() for name, text in files.items()}


def main() -> None:
    """Write them all, and remove those that no table has."""
    written = all_cassettes()
    for path in FOLDER.glob("*/*.yaml"):
        if path.relative_to(FOLDER).as_posix() not in written:
            path.unlink()
    for name, text in written.items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    print(f"{len(written)} recordings in {FOLDER.relative_to(FOLDER.parent.parent.parent)}")


if __name__ == "__main__":
    main()

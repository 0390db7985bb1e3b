"""What tests of the graph in LangChain share: passages that lead from one to the next, and stores of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.documents import Document

from catena.testing import FakeEmbedder
from langchain_catena import CatenaEmbeddings

PASSAGES = (
    ("Arno Hale", "Arno Hale was a composer from Verdel, who wrote the opera Night Ferry."),
    ("Arno Hale", "In his last years Arno Hale taught harmony and kept bees."),
    ("Verdel", "Verdel is a town on the Ombra, known for glass. Its mayor is Lisa Prent."),
    ("Ombra", "The Ombra is 212 km long and rises in the Kesh hills."),
    ("Night Ferry", "Night Ferry is an opera in three acts, first given in 1931."),
    ("Banana", "A banana is a yellow fruit that ripens in the shade."),
    ("Pump", "The pump moves water through the hose at low speed."),
)
QUESTION = "How long is the river at the town that Arno Hale, composer of Night Ferry, came from?"


def passages(*, ids: bool = True, **more: Any) -> list[Document]:
    """Return the passages as splits of files that know their title, and nothing of their place."""
    return [
        Document(
            id=f"p{number}" if ids else None,
            page_content=text,
            metadata={"title": title, "source": f"{title.lower()}.md", **more},
        )
        for number, (title, text) in enumerate(PASSAGES)
    ]


def embeddings() -> CatenaEmbeddings:
    return CatenaEmbeddings(FakeEmbedder(dim=48))


def ids(documents: Sequence[Document]) -> list[str | None]:
    return [document.id for document in documents]

"""The table of slots: every part of the core, every class of both adapters, each of the base that the table says."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langchain_core.document_loaders import BaseBlobParser, BaseLoader
from langchain_core.documents import BaseDocumentCompressor, BaseDocumentTransformer
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever as LangChainRetriever
from langchain_core.stores import BaseStore
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.evaluation import BaseEvaluator
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
from llama_index.core.extractors import BaseExtractor
from llama_index.core.node_parser import NodeParser
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.question_gen.types import BaseQuestionGenerator
from llama_index.core.readers.base import BaseReader
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.retrievers import BaseRetriever as LlamaIndexRetriever
from llama_index.core.schema import TransformComponent

import langchain_catena
import llama_index_catena

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "packages/catena/src/catena"
LANGCHAIN = (
    BaseLoader, BaseBlobParser, BaseDocumentTransformer, LangChainRetriever, BaseDocumentCompressor, Embeddings,
    BaseStore,
)  # fmt: skip
LLAMA_INDEX = (
    BaseReader, NodeParser, BaseExtractor, TransformComponent, LlamaIndexRetriever, BaseNodePostprocessor,
    BaseRetrievalMetric, BaseEvaluator, BaseQueryEngine, BaseSynthesizer, BaseQuestionGenerator, BaseEmbedding,
)  # fmt: skip
PLAIN = {"function", "evaluator", "service", "class"}  # slots that a framework gives no base for
NO_STAGES = {  # not on a way
    "backends", "cli", "library", "model", "plots", "prompts", "report", "server", "testing", "text",
}  # fmt: skip


def table_of(page: str) -> list[list[str]]:
    """Return the rows of the table whose first column is headed "part of the core"."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| part of the core |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


ROWS = table_of("docs/slots.md")
SIDES = [
    pytest.param(langchain_catena, LANGCHAIN, 1, id="langchain"),
    pytest.param(llama_index_catena, LLAMA_INDEX, 3, id="llama-index"),
]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def slots_of(cell: str) -> list[str]:
    return [part.strip().strip("`") for part in cell.split(",")]


def found(package: ModuleType, name: str) -> Any:
    """Return what a dotted name means: a class, its method, or something of a submodule."""
    value: Any = package
    for part in name.split("."):
        if isinstance(value, ModuleType) and not hasattr(value, part):
            value = importlib.import_module(f"{value.__name__}.{part}")
        else:
            value = getattr(value, part)
    return value


def named(column: int) -> Iterator[str]:
    for row in ROWS:
        yield from quoted(row[column])


def test_every_part_is_there_and_every_stage_has_one() -> None:
    parts = list(named(0))
    for part in parts:
        importlib.import_module(part)
    stages = {folder.parent.name for folder in CORE.glob("*/__init__.py")} - NO_STAGES
    assert stages - {part.split(".")[1] for part in parts} == set()


@pytest.mark.parametrize(("package", "bases", "column"), SIDES)
def test_every_class_is_what_its_slot_takes(package: ModuleType, bases: tuple[type, ...], column: int) -> None:
    known = {base.__name__: base for base in bases}
    for row in ROWS:
        assert len(row) == 5
        if row[column].startswith("none"):
            assert (len(row[column]) > len("none: because"), row[column + 1]) == (True, "none")
            continue
        slots = slots_of(row[column])
        assert set(slots) <= known.keys() | PLAIN, row[0]
        assert quoted(row[column + 1])
        ours = [found(package, name) for name in quoted(row[column + 1])]
        owners = [value.__self__ if hasattr(value, "__self__") else value for value in ours]
        for slot in set(slots) - PLAIN:
            assert any(isinstance(owner, type) and issubclass(owner, known[slot]) for owner in owners), (row[0], slot)
        for name, owner in zip(quoted(row[column + 1]), owners, strict=True):
            fits = tuple(known[slot] for slot in slots if slot in known)
            plain = PLAIN & set(slots)
            assert plain or issubclass(owner, fits), (row[0], name)
            assert callable(owner)
    public = {name: getattr(package, name) for name in package.__all__}
    ours = {name for name, value in public.items() if isinstance(value, type) and issubclass(value, bases)}
    assert ours <= set(named(column + 1))  # none is left out

"""Fail when `import catena` loads an SDK, a framework, numpy or torch."""

from __future__ import annotations

import subprocess
import sys

FORBIDDEN = (
    "numpy",
    "torch",
    "tokenizers",
    "tantivy",
    "pypdf",
    "pypdfium2",
    "typer",
    "rich",
    "openai",
    "cohere",
    "voyageai",
    "langchain_core",
    "llama_index",
    "sentence_transformers",
    "onnxruntime",
    "markdown_it",
    "sqlite3",
)

loaded = subprocess.run(
    [sys.executable, "-c", "import catena, sys; print(*sorted(sys.modules))"],
    check=True,
    capture_output=True,
    text=True,
).stdout.split()
guilty = [name for name in FORBIDDEN if name in loaded]
print(f"import catena loads {len(loaded)} modules; forbidden among them: {guilty or 'none'}")
sys.exit(bool(guilty))

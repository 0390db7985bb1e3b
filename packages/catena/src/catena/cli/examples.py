"""Hold the examples of `--help`, and the sections in which it lists the commands."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import typer

GREETING = """\
catena finds, in long and look-alike documents, the few passages that answer a question, each cited.

Begin with:
  catena demo                                     see what it does, on three bundled PDFs
  catena index FOLDER --library lib               put your files into a library
  catena search "your question" --library lib     find passages in it, cited

None of these asks a model or the network. All commands: catena --help
"""

SECTIONS: dict[str, dict[str, str]] = {
    "First": {
        "demo": "See what it does, on three bundled PDFs.",
        "index": "Put files into a library.",
        "search": "Rank passages for a question, cited.",
        "ask": "Answer a question from files.",
        "report": "One HTML page: what is found, and why.",
    },
    "Before a library": {
        "parse": "Turn files into Markdown.",
        "segment": "Divide a file into sections by meaning.",
        "views": "Show keywords and summaries of sections.",
        "figures": "Crop the figures of a PDF.",
    },
    "Keep a library": {
        "status": "What it holds, and what failed.",
        "delete": "Remove documents.",
        "verify": "Check that it is sound.",
        "graph": "Join its passages, and walk over them.",
        "server": "Keep it on Elasticsearch or OpenSearch.",
        "plan": "What a collection takes on a server.",
    },
    "Measure": {
        "questions": "Make questions from your documents.",
        "evaluate": "Ask a file of questions, and report.",
        "tune": "Choose the weights of the formula.",
        "calibrate": "Fit what scores say about relevance.",
        "judge": "Compare answers of two systems.",
    },
    "When something is wrong": {
        "doctor": "Check Python, packages, keys, a library.",
        "explain-error": "What an error means, and what to do.",
    },
}

EXAMPLES: dict[str, tuple[str, ...]] = {
    "demo": ("catena demo", "catena demo --library demo-lib"),
    "parse": (
        "catena parse manual.pdf --out manual.md",
        "catena parse manual.pdf --llm gpt-4o-mini --plan",
        "catena parse manual.pdf --llm gpt-4o-mini --budget 1 --price-in 0.15 --price-out 0.60 --out manual.md",
    ),
    "segment": (
        "catena segment manual.pdf",
        "catena segment manual.pdf --llm llama3 --base-url http://localhost:11434/v1",
    ),
    "views": (
        "catena views manual.pdf",
        "catena views manuals --views keywords,summary,questions --by llm --llm gpt-4o-mini",
    ),
    "index": (
        "catena index manuals --library lib",
        "catena index manuals --library lib --chunks sections --views keywords,summary",
        "catena index manuals --library lib --graph --prune",
    ),
    "search": (
        'catena search "How tight are the screws of the HX200?" --library lib',
        'catena search "torque" --library lib --segments --budget-tokens 1500',
        """catena search "torque" --library lib --where '{"page": {"$lte": 20}}' --json""",
    ),
    "report": (
        'catena report "How tight are the screws?" --library lib --out report.html',
        'catena report "torque" --library lib --questions questions.jsonl',
    ),
    "figures": ("catena figures manual.pdf", "catena figures manual.pdf --out pictures --dpi 150"),
    "ask": (
        'catena ask manual.pdf "How tight are the screws?"',
        'catena ask manuals "How tight are the screws?" --library lib --model gpt-4o-mini',
    ),
    "questions": (
        "catena questions manuals --llm gpt-4o-mini --out questions --plan",
        "catena questions manuals --llm gpt-4o-mini --out questions --per-section 2",
    ),
    "evaluate": (
        "catena evaluate lib questions.jsonl",
        "catena evaluate lib questions.jsonl --route lexical --plot recall.html",
    ),
    "judge": (
        "catena judge --pairs pairs.jsonl --llm gpt-4o --plan",
        "catena judge --pairs pairs.jsonl --llm gpt-4o --repeats 3",
    ),
    "tune": (
        "catena tune lib questions.jsonl --out weights.json",
        "catena tune lib questions.jsonl --objective recall -k 5 --folds 10",
    ),
    "calibrate": (
        "catena calibrate lib questions.jsonl --out fit.json",
        "catena calibrate lib questions.jsonl --out fit.json --plot reliability.html",
    ),
    "graph build": ("catena graph build lib", "catena graph build lib --neighbours 8 --no-mentions"),
    "graph show": ("catena graph show lib", "catena graph show lib --hubs 20 --picture graph.html"),
    "graph export": ("catena graph export lib graph.graphml",),
    "graph drop": ("catena graph drop lib",),
    "graph train": (
        "catena graph train lib questions.jsonl --output scorer.json",
        "catena graph train lib questions.jsonl --output scorer.json --epochs 20 --picture loss.html",
    ),
    "status": ("catena status --library lib", "catena status --library lib --json"),
    "delete": ("catena delete manuals/old.pdf --library lib",),
    "verify": ("catena verify --library lib",),
    "server index": (
        "catena server index manuals --url http://localhost:9200 --name manuals",
        "catena server index manuals --url http://localhost:9200 --name manuals --workers 4",
    ),
    "server search": ('catena server search "torque" --url http://localhost:9200 --name manuals',),
    "server status": ("catena server status --url http://localhost:9200 --all",),
    "server verify": ("catena server verify --url http://localhost:9200 --name manuals",),
    "server delete": ("catena server delete manuals/old.pdf --url http://localhost:9200 --name manuals",),
    "server rebuild": (
        "catena server rebuild manuals --url http://localhost:9200 --name manuals",
        "catena server rebuild --url http://localhost:9200 --name manuals --abandon",
    ),
    "server export": ("catena server export chunks.jsonl --url http://localhost:9200 --name manuals",),
    "server graph": ("catena server graph --url http://localhost:9200 --name manuals --neighbours 8",),
    "plan": (
        "catena plan --documents 10000 --chunks 1000000",
        "catena plan --documents 10000 --chunks 1000000 --dim 768 --nodes 3",
    ),
    "doctor": ("catena doctor", "catena doctor --json"),
    "explain-error": ("catena explain-error", "catena explain-error ParseError"),
}


def with_examples(app: typer.Typer, group: str = "") -> None:
    """Let the help of each command that is registered end with its examples."""
    for command in app.registered_commands:
        assert command.callback is not None
        name = f"{group}{command.name or command.callback.__name__.replace('_', '-')}"
        command.epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in EXAMPLES[name])


def list_in_sections(commands: Container[str], formatter: Any) -> None:
    """Write the list of all commands in their sections to the help that is being made."""
    width = max(len(name) for section in SECTIONS.values() for name in section)
    for title, section in SECTIONS.items():
        with formatter.section(title):
            formatter.write_dl([(name.ljust(width), told) for name, told in section.items() if name in commands])

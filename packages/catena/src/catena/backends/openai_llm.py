"""Language models behind an OpenAI-compatible chat API (extra `openai`): OpenAI itself, vLLM, Ollama and others."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from catena.budget import approximate_tokens
from catena.errors import CatenaError, MissingExtraError, ParameterError, ServiceError
from catena.faults import service_error
from catena.ids import digest
from catena.ports import Completion

if TYPE_CHECKING:
    from catena.steps import Complete

_OLD_NAME, _NEW_NAME = "max_tokens", "max_completion_tokens"  # of a reply's limit
_SCHEMA_WORDS = ("response_format", "json_schema", "schema")  # one of them is in what refuses a reply's form


class OpenAILLM:
    """A chat model. Failures come as `ServiceError`; the driver retries, this class does not.

    The limit of a reply goes out as `max_tokens`, which most servers know. A service that refuses it and names
    `max_completion_tokens` instead, as OpenAI does for models that reason, is asked by that name from then on. Tokens
    spent on reasoning are told in the completion.

    Where the form of a reply is known, its JSON Schema goes out as `response_format`. A service that refuses it is
    asked without from then on: what it writes is read all the same.

    Args:
        model: its name at the service.
        api_key: by default the environment's OPENAI_API_KEY; a server of one's own (`base_url`) may need none.
        base_url: of another service, e.g. "http://localhost:11434/v1".
        timeout: seconds without a sign of the service after which a call has failed.
        temperature: 0 for the likeliest words; by default the service's own.
        seed: for replies that repeat, at services that know it.
        reasoning_effort: how long a model that reasons may think, in the service's words: "low", "medium", "high".
        extra_body: further fields of the request, e.g. {"top_k": 20}.

    What changes replies is part of the identity, so that a journal keeps them apart.

    Raises:
        MissingExtraError: the SDK is not installed.
        ParameterError: OpenAI is asked without a key, or a number is out of range.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 120.0,
        temperature: float | None = None,
        seed: int | None = None,
        reasoning_effort: str | None = None,
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        if find_spec("openai") is None:
            raise MissingExtraError("openai", "openai")
        import openai

        key = api_key or os.environ.get("OPENAI_API_KEY")
        where = base_url or os.environ.get("OPENAI_BASE_URL")
        if not key and not where:
            raise ParameterError("api_key", None, "given, or in the environment as OPENAI_API_KEY")
        if not 0 < timeout < float("inf"):
            raise ParameterError("timeout", timeout, "seconds > 0")
        if temperature is not None and not temperature >= 0:
            raise ParameterError("temperature", temperature, "a number >= 0")
        options: dict[str, Any] = {"api_key": key or "none", "base_url": where, "timeout": timeout, "max_retries": 0}
        self._client = openai.OpenAI(**options)
        # Each asynchronous call has its own connection: a kept one would belong to an event loop that may be gone.
        self._async_client = openai.AsyncOpenAI(**options, default_headers={"Connection": "close"})
        self.model, self._place = model, urlsplit(str(self._client.base_url))
        chosen = {"temperature": temperature, "seed": seed, "reasoning_effort": reasoning_effort}
        self._options: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
        self._settings = [f"{name}={value}" for name, value in self._options.items()]
        if extra_body:
            self._options["extra_body"] = dict(extra_body)
            self._settings.append(f"body={digest(json.dumps(extra_body, sort_keys=True, default=repr), length=8)}")
        self._limit_name = _OLD_NAME
        self._keeps_to_schemas = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.identity!r})"

    @property
    def identity(self) -> str:
        """Host, path, model and the settings that change replies; no user or password of the address."""
        host = self._place.hostname or "unknown"
        port = f":{self._place.port}" if self._place.port else ""
        return ";".join([f"openai:{host}{port}{self._place.path.rstrip('/')}/{self.model}", *self._settings])

    def complete(self, request: Complete) -> Completion:
        """Return the reply to one prompt.

        Raises:
            ServiceError: the call failed.
        """
        return self._asked(_messages(request), request.max_tokens, request.schema)

    async def acomplete(self, request: Complete) -> Completion:
        """As `complete`, without blocking the event loop."""
        return await self._aasked(_messages(request), request.max_tokens, request.schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the kept connections."""
        self._client.close()

    def _asked(self, messages: list[Any], limit: int, schema: str = "") -> Completion:
        create = self._client.chat.completions.create
        try:
            while True:
                body = self._body(messages, limit, schema)
                try:
                    return self._completion(create(**body))
                except Exception as error:
                    if not self._adapts(error, body):
                        raise
        except Exception as error:
            raise self._ours(error) from None

    async def _aasked(self, messages: list[Any], limit: int, schema: str = "") -> Completion:
        create = self._async_client.chat.completions.create
        try:
            while True:
                body = self._body(messages, limit, schema)
                try:
                    return self._completion(await create(**body))
                except Exception as error:
                    if not self._adapts(error, body):
                        raise
        except Exception as error:
            raise self._ours(error) from None

    def _body(self, messages: list[Any], limit: int, schema: str) -> dict[str, Any]:
        body = {"model": self.model, "messages": messages, self._limit_name: limit, **self._options}
        if schema and self._keeps_to_schemas:
            form = json.loads(schema)
            form = {"name": form.pop("title", "reply"), "schema": form, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        return body

    def _adapts(self, error: Exception, body: Mapping[str, Any]) -> bool:
        """Tell whether a service refused a part of a request that it can do without; then it is left out for good."""
        if getattr(error, "status_code", None) not in (400, 422):
            return False
        said = str(error)
        if _OLD_NAME in body and _NEW_NAME in said:
            self._limit_name = _NEW_NAME
        elif "response_format" in body and any(word in said for word in _SCHEMA_WORDS):
            self._keeps_to_schemas = False
        else:
            return False
        return True

    def _completion(self, reply: Any) -> Completion:
        """Return the first choice; servers differ in what they leave out."""
        choices = getattr(reply, "choices", None)
        if not choices or choices[0].message is None:
            raise ServiceError(self.identity, "the reply holds no choice; the address may not be that of a chat API")
        message, usage = choices[0].message, getattr(reply, "usage", None)
        refusal = getattr(message, "refusal", None)
        return Completion(
            text=message.content or refusal or "",
            finish_reason="refusal" if refusal else choices[0].finish_reason or "stop",
            input_tokens=getattr(usage, "prompt_tokens", None) or 0,
            output_tokens=getattr(usage, "completion_tokens", None) or 0,
            reasoning_tokens=_reasoning_tokens(message, usage),
        )

    def _ours(self, error: Exception) -> CatenaError:
        return service_error(error, self.identity, holder=self)


def _messages(request: Complete) -> list[Any]:
    system = [{"role": "system", "content": request.system}] if request.system else []
    return [*system, {"role": "user", "content": request.prompt}]


def _reasoning_tokens(message: Any, usage: Any) -> int:
    """Return what a service counts of them, or about how many stand in what it shows of the thoughts."""
    details = getattr(usage, "completion_tokens_details", None)
    counted = getattr(details, "reasoning_tokens", None)
    shown = getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)
    return counted or (approximate_tokens(shown) if isinstance(shown, str) else 0)

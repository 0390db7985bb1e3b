"""Language models behind an OpenAI-compatible chat API (extra `openai`): OpenAI itself, vLLM, Ollama and others."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from catena.errors import CatenaError, MissingExtraError, ParameterError, ServiceError
from catena.faults import service_error
from catena.ports import Completion

if TYPE_CHECKING:
    from catena.steps import Complete

OPENAI_HOST = "api.openai.com"


class OpenAILLM:
    """A chat model. Failures come as `ServiceError`; the driver retries, this class does not.

    Args:
        model: its name at the service.
        api_key: by default the environment's OPENAI_API_KEY; a server of one's own (`base_url`) may need none.
        base_url: of another service, e.g. "http://localhost:11434/v1".
        timeout: seconds for one call.

    Raises:
        MissingExtraError: the SDK is not installed.
        ParameterError: OpenAI is asked without a key.
    """

    def __init__(
        self, model: str, *, api_key: str | None = None, base_url: str | None = None, timeout: float = 120.0
    ) -> None:
        if find_spec("openai") is None:
            raise MissingExtraError("openai", "openai")
        import openai

        key = api_key or os.environ.get("OPENAI_API_KEY")
        where = base_url or os.environ.get("OPENAI_BASE_URL")
        if not key and not where:
            raise ParameterError("api_key", None, "given, or in the environment as OPENAI_API_KEY")
        self._key = key or ""
        options: dict[str, Any] = {"api_key": key or "none", "base_url": where, "timeout": timeout, "max_retries": 0}
        self._client = openai.OpenAI(**options)
        # Each asynchronous call has its own connection: a kept one would belong to an event loop that may be gone.
        self._async_client = openai.AsyncOpenAI(**options, default_headers={"Connection": "close"})
        self.model, self._place = model, urlsplit(str(self._client.base_url))

    def __repr__(self) -> str:
        return f"OpenAILLM({self.identity!r})"

    @property
    def identity(self) -> str:
        """Host, path and model; no user or password of the address."""
        host = self._place.hostname or "unknown"
        port = f":{self._place.port}" if self._place.port else ""
        return f"openai:{host}{port}{self._place.path.rstrip('/')}/{self.model}"

    def complete(self, request: Complete) -> Completion:
        """Return the reply to one prompt.

        Raises:
            ServiceError: the call failed.
        """
        try:
            return self._completion(self._client.chat.completions.create(**self._body(request)))
        except Exception as error:
            raise self._ours(error) from None

    async def acomplete(self, request: Complete) -> Completion:
        """As `complete`, without blocking the event loop."""
        try:
            return self._completion(await self._async_client.chat.completions.create(**self._body(request)))
        except Exception as error:
            raise self._ours(error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the kept connections."""
        self._client.close()

    def _body(self, request: Complete) -> dict[str, Any]:
        system = [{"role": "system", "content": request.system}] if request.system else []
        # OpenAI's newer models know only the new name of the limit, most other servers only the old one.
        limit = "max_completion_tokens" if self._place.hostname == OPENAI_HOST else "max_tokens"
        return {
            "model": self.model,
            "messages": [*system, {"role": "user", "content": request.prompt}],
            limit: request.max_tokens,
        }

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
        )

    def _ours(self, error: Exception) -> CatenaError:
        """Return our error for a foreign one; a key that a server repeats is taken out."""
        ours = service_error(error, self.identity)
        if self._key and isinstance(ours, ServiceError):
            return type(ours)(ours.service, ours.what.replace(self._key, "***"), ours.retry, ours.retry_after)
        return ours

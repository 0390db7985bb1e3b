"""Call models behind an OpenAI-compatible API (extra `openai`), to write or to embed: OpenAI, vLLM, Ollama."""

from __future__ import annotations

import base64
import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import inf
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from annotated_types import Ge, Gt, Lt

from catena.backends.hosted import HostedEmbedder, HostedModel, in_order, portions, size_in_bytes
from catena.effects import Completion, Describe, approximate_tokens, caption_of, ending, message_text, service_error
from catena.effects.steps import Complete
from catena.model import MissingExtraError, ParameterError, ServiceError, check_given, digest

_OLD_NAME, _NEW_NAME = "max_tokens", "max_completion_tokens"  # of a reply's limit
_FORM = "response_format"
_OF_A_FORM = re.compile(r"response_format|schema|grammar|structured", re.IGNORECASE)
_REFUSES_A_FORM = frozenset({400, 404, 422, 500, 501})
# a limit's limit
_MOST = re.compile(r"(?:at most|no more than|up to|less than or equal to|<=|>|\[\d+,)\s*[`'\"]?(\d+)")
_log = logging.getLogger(__name__)


_CHOSEN = ("temperature", "seed", "reasoning_effort")


class OpenAILLM:
    """A chat model. Failures come as `ServiceError`; the driver retries, this class does not.

    The limit of a reply goes out as `max_tokens`, which most servers know. A service that refuses it and names
    `max_completion_tokens` instead, as OpenAI does for models that reason, is asked by that name from then on; one
    that names the most it allows, for no more than that. Tokens spent on reasoning are told in the completion.

    Where the form of a reply is known, its JSON Schema goes out as `response_format`. A service that refuses it, and
    answers without, is asked without from then on: what it writes is read all the same. An option below that a
    service refuses is left out likewise, and the log says so.

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
        timeout: Annotated[float, Gt(0), Lt(inf)] = 120.0,
        temperature: Annotated[float, Ge(0), Lt(inf)] | None = None,
        seed: int | None = None,
        reasoning_effort: str | None = None,
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        if find_spec("openai") is None:
            raise MissingExtraError("openai", "catena-core[openai]")
        key = api_key or os.environ.get("OPENAI_API_KEY")
        where = base_url or os.environ.get("OPENAI_BASE_URL")
        if not key and not where:
            raise ParameterError("api_key", None, "given, or in the environment as OPENAI_API_KEY")
        check_given(
            {"timeout": timeout, "temperature": temperature, "seed": seed, "reasoning_effort": reasoning_effort,
             "extra_body": extra_body},
            OpenAILLM.__init__,
        )  # fmt: skip
        self._client, self._async_client = _clients(key or "none", where, timeout)
        self.model, self._place = model, urlsplit(str(self._client.base_url))
        chosen = dict(zip(_CHOSEN, (temperature, seed, reasoning_effort), strict=True))
        self._chosen: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
        self._settings = [f"{name}={value}" for name, value in self._chosen.items()]
        self._more = {"extra_body": dict(extra_body)} if extra_body else {}
        if extra_body:
            self._settings.append(f"body={digest(json.dumps(extra_body, sort_keys=True, default=repr), length=8)}")
        self._refused: set[str] = set()  # parts of a request that this service is asked without
        self._most: float = inf  # tokens of a reply

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
        call, body = _Call(self._refused.copy(), min(limit, self._most)), dict[str, Any]()
        while True:
            try:
                body = self._body(messages, schema, call)
                return self._answered(self._client.chat.completions.create(**body), call)
            except Exception as error:
                if not call.adapts(error, body):
                    raise service_error(error, self.identity, holder=self) from None

    async def _aasked(self, messages: list[Any], limit: int, schema: str = "") -> Completion:
        call, body = _Call(self._refused.copy(), min(limit, self._most)), dict[str, Any]()
        while True:
            try:
                body = self._body(messages, schema, call)
                return self._answered(await self._async_client.chat.completions.create(**body), call)
            except Exception as error:
                if not call.adapts(error, body):
                    raise service_error(error, self.identity, holder=self) from None

    def _body(self, messages: list[Any], schema: str, call: _Call) -> dict[str, Any]:
        limit_name = _NEW_NAME if _OLD_NAME in call.without else _OLD_NAME
        chosen = {name: value for name, value in self._chosen.items() if name not in call.without}
        body = {"model": self.model, "messages": messages, limit_name: call.limit, **chosen, **self._more}
        if schema and _FORM not in call.without:
            form = json.loads(schema)
            form = {"name": form.pop("title", "reply"), "schema": form, "strict": True}
            body[_FORM] = {"type": "json_schema", "json_schema": form}
        return body

    def _answered(self, reply: Any, call: _Call) -> Completion:
        """Return the completion, and remember without which parts of a request it was had."""
        completion = self._completion(reply)
        for name in sorted(call.without - call.unsure - self._refused):
            self._refused.add(name)
            if name in self._chosen:
                _log.warning("%s refuses %s; it is asked without from now on", self.identity, name)
        self._most = min(self._most, call.most)
        return completion

    def _completion(self, reply: Any) -> Completion:
        """Return the first choice; servers differ in what they leave out."""
        choices = getattr(reply, "choices", None)
        if not choices or choices[0].message is None:
            raise ServiceError(self.identity, "the reply holds no choice; the address may not be that of a chat API")
        message, usage = choices[0].message, getattr(reply, "usage", None)
        refusal = getattr(message, "refusal", None)
        return Completion(
            text=message_text(message.content) or refusal or "",
            finish_reason="refusal" if refusal else ending(choices[0].finish_reason),
            input_tokens=getattr(usage, "prompt_tokens", None) or 0,
            output_tokens=getattr(usage, "completion_tokens", None) or 0,
            reasoning_tokens=_reasoning_tokens(message, usage),
        )


def _clients(key: str, where: str | None, timeout: float) -> tuple[Any, Any]:
    """Return the client of the SDK, and the one for asynchronous calls.

    Each of these has its own connection: a kept one would belong to an event loop that may be gone.
    """
    import openai

    options: dict[str, Any] = {"api_key": key, "base_url": where, "timeout": timeout, "max_retries": 0}
    return openai.OpenAI(**options), openai.AsyncOpenAI(**options, default_headers={"Connection": "close"})


@dataclass(slots=True)
class _Call:
    """One call of the service: what is left out of it, as the service refused it before, and its token limit.

    Attributes:
        without: names of its parts.
        limit: tokens of the reply.
        unsure: parts whose refusal may have been a fault that passed.
        most: tokens of a reply that the service allows.
    """

    without: set[str]
    limit: float
    unsure: set[str] = field(default_factory=set)
    most: float = inf

    def adapts(self, error: Exception, body: Mapping[str, Any]) -> bool:
        """Tell whether a service refused something that a request can do without; then the next one does."""
        status, said, named = getattr(error, "status_code", None), str(error), getattr(error, "param", None)
        if status in (400, 422):
            if _OLD_NAME in body and _NEW_NAME in said:
                self.without.add(_OLD_NAME)
                return True
            most = _MOST.search(said) if "token" in said and "context" not in said else None
            if most is not None and 0 < int(most[1]) < self.limit:
                self.limit = self.most = int(most[1])
                return True
            if option := next((name for name in _CHOSEN if name in body and (named or said).find(name) >= 0), None):
                self.without.add(option)
                return True
        if _FORM not in body or status not in _REFUSES_A_FORM:
            return False
        self.without.add(_FORM)
        if status == 500 and not _OF_A_FORM.search(said):
            self.unsure.add(_FORM)
        return True


def _messages(request: Complete) -> list[Any]:
    system = [{"role": "system", "content": request.system}] if request.system else []
    return [*system, {"role": "user", "content": request.prompt}]


def _reasoning_tokens(message: Any, usage: Any) -> int:
    """Return what a service counts of them, or about how many stand in what it shows of the thoughts."""
    counted = getattr(getattr(usage, "completion_tokens_details", None), "reasoning_tokens", None)
    shown = getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)
    return counted or (approximate_tokens(shown) if isinstance(shown, str) else 0)


class OpenAICaptioner(OpenAILLM):
    """A chat model that can see; the picture goes with the request, as a data URL, and to nowhere else.

    Made as `OpenAILLM`, and fails as it does.
    """

    def describe(self, request: Describe) -> Completion:
        """Return the description of a picture, with why it ended and what it took.

        Raises:
            ServiceError: the call failed.
        """
        return self._asked(_about(request), request.max_tokens)

    async def adescribe(self, request: Describe) -> Completion:
        """As `describe`, without blocking the event loop."""
        return await self._aasked(_about(request), request.max_tokens)

    def caption(self, image: bytes, prompt: str) -> str:
        """Return a description of the image (PNG or JPEG bytes).

        Raises:
            ServiceError: the call failed, or the reply was cut or refused.
        """
        return caption_of(self.describe(Describe(image=image, prompt=prompt)), self.identity)

    async def acaption(self, image: bytes, prompt: str) -> str:
        """As `caption`, without blocking the event loop."""
        return caption_of(await self.adescribe(Describe(image=image, prompt=prompt)), self.identity)


def _about(request: Describe) -> list[Any]:
    url = f"data:{request.media_type};base64,{base64.b64encode(request.image).decode('ascii')}"
    parts = [{"type": "text", "text": request.prompt}, {"type": "image_url", "image_url": {"url": url}}]
    return [{"role": "user", "content": parts}]


DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
_MAX_BYTES = 250_000  # of one request's texts: OpenAI reads 300,000 tokens, each of at least one byte
_MAX_TEXTS, _MAX_TEXTS_ELSEWHERE = 1_000, 32  # of one request; other servers take fewer by default


class OpenAIEmbedder(HostedEmbedder):
    """Embeds by any server with OpenAI's protocol (Ollama, vLLM, TEI, OpenAI itself). The driver retries.

    A text longer than the model reads is for the server to refuse, which is an error, or to cut, as Ollama does by
    default. An empty text is refused before anything is sent.

    Args:
        model: its name at the service.
        dim: length of a vector, where the model leaves the choice; by default the model's own, which is asked for
            with one word where it is not in `DIMENSIONS`.
        api_key: by default the environment's OPENAI_API_KEY; a server of one's own (`base_url`) may need none.
        base_url: of another service, e.g. "http://localhost:11434/v1"; by default the environment's OPENAI_BASE_URL.
        timeout: seconds for one request.

    Raises:
        MissingExtraError: the SDK is not installed.
        ParameterError: OpenAI is asked without a key.
        ServiceError: the server did not say how long its vectors are.

    Source: https://platform.openai.com/docs/api-reference/embeddings
    """

    service = package = "openai"
    variable, address = "OPENAI_API_KEY", "OPENAI_BASE_URL"
    document_kind = query_kind = ""

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        *,
        dim: int | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        settings = [f"{dim} dimensions"] if dim else []
        HostedModel.__init__(self, model, *settings, api_key=api_key, base_url=base_url, timeout=timeout)
        self._chosen, self._most = dim, _MAX_TEXTS_ELSEWHERE if self._account.base_url else _MAX_TEXTS
        self.dim = dim or DIMENSIONS.get(model) or self._length()

    def _length(self) -> int:
        asked = [self._body(["length"], "")]
        return self._answered(asked, lambda replies: len(self._vectors(next(iter(replies)), 1)[0]))

    def _connect(self) -> None:
        self._client, self._async_client = _clients(self._account.key, self._account.base_url, self._timeout)

    def _send(self, body: dict[str, Any], *, is_async: bool = False) -> Any:
        client = self._async_client if is_async else self._client
        return client.embeddings.create(model=self.model, encoding_format="float", **body)

    def _parts(self, texts: Sequence[str]) -> list[Sequence[str]]:
        sizes = [size_in_bytes(text) for text in texts]
        return [texts[run] for run in portions(sizes, max_count=self._most, max_size=_MAX_BYTES)]

    def _body(self, texts: Sequence[str], kind: str) -> dict[str, Any]:
        return {"input": list(texts), **({} if self._chosen is None else {"dimensions": self._chosen})}

    def _vectors(self, reply: Any, count: int) -> Any:
        return in_order(((item.index, item.embedding) for item in reply.data), count)

"""Captions of figures by a vision model behind an OpenAI-compatible chat API (extra `openai`)."""

from __future__ import annotations

import base64
from typing import Any

from catena.backends.openai_llm import OpenAILLM
from catena.errors import ServiceError
from catena.steps import Complete

MAX_TOKENS = 400  # of a caption; three sentences take some 100
_JPEG = b"\xff\xd8\xff"


class OpenAICaptioner(OpenAILLM):
    """A chat model that can see; the picture goes with the request, as a data URL, and to nowhere else.

    Made as `OpenAILLM`, and fails as it does.
    """

    def __repr__(self) -> str:
        return f"OpenAICaptioner({self.identity!r})"

    def caption(self, image: bytes, prompt: str) -> str:
        """Return a description of the image (PNG or JPEG bytes).

        Raises:
            ServiceError: the call failed, or the reply was cut or refused.
        """
        try:
            reply = self._client.chat.completions.create(**self._about(image, prompt))
            return self._description(reply)
        except Exception as error:
            raise self._ours(error) from None

    async def acaption(self, image: bytes, prompt: str) -> str:
        """As `caption`, without blocking the event loop."""
        try:
            reply = await self._async_client.chat.completions.create(**self._about(image, prompt))
            return self._description(reply)
        except Exception as error:
            raise self._ours(error) from None

    def _about(self, image: bytes, prompt: str) -> dict[str, Any]:
        kind = "image/jpeg" if image.startswith(_JPEG) else "image/png"
        url = f"data:{kind};base64,{base64.b64encode(image).decode('ascii')}"
        body = self._body(Complete(prompt=prompt, purpose="caption", max_tokens=MAX_TOKENS))
        parts = [{"type": "text", "text": prompt}, {"type": "image_url", "image_url": {"url": url}}]
        return {**body, "messages": [{"role": "user", "content": parts}]}

    def _description(self, reply: Any) -> str:
        completion = self._completion(reply)
        if completion.finish_reason != "stop":
            why = f"the caption did not end by itself (finish_reason {completion.finish_reason!r})"
            raise ServiceError(self.identity, why)
        return completion.text

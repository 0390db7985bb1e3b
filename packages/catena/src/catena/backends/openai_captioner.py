"""Captions of figures by a vision model behind an OpenAI-compatible chat API (extra `openai`)."""

from __future__ import annotations

import base64
from typing import Any

from catena.backends.openai_llm import OpenAILLM
from catena.effects.ports import Completion
from catena.effects.replies import caption_of
from catena.effects.steps import Describe

_JPEG = b"\xff\xd8\xff"


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
    kind = "image/jpeg" if request.image.startswith(_JPEG) else "image/png"
    url = f"data:{kind};base64,{base64.b64encode(request.image).decode('ascii')}"
    parts = [{"type": "text", "text": request.prompt}, {"type": "image_url", "image_url": {"url": url}}]
    return [{"role": "user", "content": parts}]

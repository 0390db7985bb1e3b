"""Check replies per type of request, and write them to disk and back: no pickle, no framework.

A `Form` brings a reply into one shape (so that a kept reply and a fresh one cannot be told apart), refuses
what is truncated, refused, empty or of the wrong size, and turns it into bytes and back.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING, Any

from catena.effects.ports import Completion
from catena.effects.redaction import redact_reply
from catena.effects.steps import Complete, Describe, Embed, Rate, Recognise, Request
from catena.model.errors import InvalidReplyError
from catena.text.replies import answered

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Form:
    """The form of the replies to one type of request.

    Attributes:
        clean: (request, reply) -> the reply in its one shape; raises ValueError when it is of no use.
        encode, decode: a clean reply to bytes and back; `decode` raises ValueError for other bytes.
    """

    clean: Callable[[Any, Any], Any]
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]

    def revive(self, request: Request, payload: bytes) -> Any:
        """Return a kept reply, checked as a fresh one: `validate` may have become stricter since."""
        return self.clean(request, self.decode(payload))


def _whole(reply: Completion) -> None:
    if reply.finish_reason != "stop":
        more = ". Try: a greater limit (--max-output-tokens, Services(output_tokens=...)), or less reasoning"
        why = more if reply.finish_reason == "length" else ""
        raise ValueError(f"the reply did not end by itself (finish_reason {reply.finish_reason!r}){why}")


def _clean_completion(request: Complete | Describe, reply: Completion) -> Completion:
    _whole(reply)
    text = answered(reply.text)  # here, once for every step
    if request.validate is not None:
        request.validate(text)
    return replace(reply, text=text)


def _decode_completion(payload: bytes) -> Completion:
    text, input_tokens, output_tokens = json.loads(payload)
    return Completion(text=text, input_tokens=input_tokens, output_tokens=output_tokens)


def _clean_caption(request: Describe, reply: str | Completion) -> str:
    whole = reply if isinstance(reply, Completion) else Completion(text=reply)
    return _clean_completion(request, whole).text


def redacted(reply: Any, secrets: Collection[str]) -> Any:
    """Return a clean reply without these secrets, in the same shape: a model may repeat what it was called with."""
    match reply:
        case str():
            return redact_reply(reply, secrets)
        case Completion():
            return replace(reply, text=redact_reply(reply.text, secrets))
        case tuple():
            return tuple(redacted(each, secrets) for each in reply)
        case _:
            return reply


def message_text(content: object) -> str:
    """Return the text of a chat message: of one in parts, that of its parts of text."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    fields = (part if isinstance(part, Mapping) else getattr(part, "__dict__", {}) for part in parts)
    texts = (part if isinstance(part, str) else of.get("text") for part, of in zip(parts, fields, strict=True))
    return "".join(text for text in texts if isinstance(text, str))


def caption_of(reply: Completion, service: str) -> str:
    """Return the text of a caption that ended by itself.

    Raises:
        InvalidReplyError: it was cut or refused.
    """
    try:
        _whole(reply)
    except ValueError as error:
        raise InvalidReplyError(service, f"the caption: {error}") from None
    return reply.text


def _clean_rows(request: Embed, reply: Any) -> NDArray[np.float32]:
    import numpy as np

    given = np.asarray(reply)
    if np.iscomplexobj(given):
        raise ValueError("the vectors are complex numbers")  # numpy would drop their imaginary parts
    rows = np.ascontiguousarray(given, dtype=np.float32)
    if rows.ndim != 2 or len(rows) != len(request.texts):
        raise ValueError(f"vectors of shape {rows.shape} for {len(request.texts)} texts")
    if not np.isfinite(rows).all():
        raise ValueError("a vector holds NaN or infinity")
    return rows


def _decode_rows(payload: bytes) -> NDArray[np.float32]:
    import numpy as np

    return np.frombuffer(payload, dtype="<f4", offset=8).reshape(_unpack("<II", payload[:8])).astype(np.float32)


def _clean_scores(request: Rate, reply: Any) -> tuple[float, ...]:
    scores = tuple(float(score) for score in islice(reply, len(request.texts) + 1))  # a service may never end
    if len(scores) != len(request.texts):
        many = "more" if len(scores) > len(request.texts) else str(len(scores))
        raise ValueError(f"{many} scores for {len(request.texts)} texts")
    if not all(map(isfinite, scores)):
        raise ValueError("a score is NaN or infinite")
    return scores


def _unpack(form: str, payload: bytes) -> tuple[Any, ...]:
    try:
        return struct.unpack(form, payload)
    except struct.error as error:
        raise ValueError(str(error)) from None


def _clean_names(request: Recognise, reply: Any) -> tuple[tuple[str, ...], ...]:
    names = _names(reply)
    if len(names) != len(request.texts):
        raise ValueError(f"entities of {len(names)} texts for {len(request.texts)} texts")
    return names


def _names(reply: Any) -> tuple[tuple[str, ...], ...]:
    return tuple(_distinct(of_text) for of_text in reply)


def _distinct(names: Any) -> tuple[str, ...]:
    listed = () if isinstance(names, str) else tuple(names)
    if isinstance(names, str) or not all(isinstance(name, str) for name in listed):
        raise ValueError("the entities of a text are not a list of strings")
    return tuple(dict.fromkeys(name for name in listed if name.strip()))


FORMS: dict[type[Request], Form] = {
    Complete: Form(
        _clean_completion,
        lambda reply: json.dumps([reply.text, reply.input_tokens, reply.output_tokens]).encode(),
        _decode_completion,
    ),
    Embed: Form(
        _clean_rows, lambda rows: struct.pack("<II", *rows.shape) + rows.astype("<f4").tobytes(), _decode_rows
    ),
    Rate: Form(
        _clean_scores,
        lambda scores: struct.pack(f"<{len(scores)}d", *scores),
        lambda payload: _unpack(f"<{len(payload) // 8}d", payload),
    ),
    Describe: Form(
        _clean_caption,
        lambda reply: reply.encode("utf-8", "surrogatepass"),
        lambda payload: payload.decode("utf-8", "surrogatepass"),
    ),
    Recognise: Form(
        _clean_names, lambda reply: json.dumps(reply).encode(), lambda payload: _names(json.loads(payload))
    ),
}

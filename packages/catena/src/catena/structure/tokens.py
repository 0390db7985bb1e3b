"""The token count by which chunks are measured."""

from catena.text.tokens import CJK, count_tokens

__all__ = ["CJK", "count_tokens"]

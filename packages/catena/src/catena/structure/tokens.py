"""The token count by which chunks are measured."""

from catena.tokens import CJK, count_tokens

__all__ = ["CJK", "count_tokens"]

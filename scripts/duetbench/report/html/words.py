"""The templates of pages, and what makes names in them breakable."""

import re
from functools import cache, lru_cache
from typing import Any, Final

import jinja2
from markupsafe import Markup, escape

from duetbench.core.text import visible
from duetbench.report.formats import quantity

_JOINTS: Final = re.compile(r"(?<=[/_,=-])(?=[^/_,=-])|(?<=\.)(?=[A-Za-z_])")


@lru_cache(maxsize=8192)  # names of machines, runs and cases recur on many pages
def breakable(name: str) -> Markup:
    """Allow line breaks in a case id or file name only at its joints."""
    return Markup("<wbr>").join(escape(part) for part in _JOINTS.split(visible(name)))


def fill(template: str, **context: Any) -> str:
    """Fill one of the templates."""
    return environment().get_template(template).render(context)


@cache
def environment() -> jinja2.Environment:
    """Return the environment of the templates, with the filters and words of all pages."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("duetbench.report.html", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        # Not `isinstance`: markup is a str too, and is clean already.
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    made.filters |= {"breakable": breakable}
    made.globals |= {"quantity": quantity}
    return made

"""The text of pages: figures, times and links in words, and the templates that contain them."""

import re
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, Final

import jinja2
from markupsafe import Markup, escape

from duetbench.core.text import clean
from duetbench.project.case_names import name
from duetbench.show.formats import quantity

_JOINTS: Final = re.compile(r"(?<=[/_,=-])(?=[^/_,=-])|(?<=\.)(?=[A-Za-z_])")
_HEAD: Final = re.compile(r"<t[hd]\b[^>]*>(.*?)</t[hd]>", re.DOTALL)
_TAG: Final = re.compile(r"<[^>]+>")
_CELL: Final = re.compile(r"<td(?=[ >])")


def iso(time: float | str | datetime) -> str:
    """Write a moment for programs: `2026-11-20T03:00:00Z`."""
    return f"{utc(time):%Y-%m-%dT%H:%M:%SZ}"


def moment(time: float | str | datetime) -> str:
    """Write a moment for readers, to the minute: `20 Nov 2026, 03:00 UTC`."""
    when = utc(time)
    return f"{when.day} {when:%b %Y, %H:%M} UTC"


@lru_cache(maxsize=8192)  # names of machines, runs and cases recur on many pages
def breakable(name: str) -> Markup:
    """Allow line breaks in a case id or file name only at its joints."""
    return Markup("<wbr>").join(escape(part) for part in _JOINTS.split(clean(name)))


def labelled(table: Markup) -> Markup:
    """Give each cell of a table the title of its column, which narrow screens show beside it."""
    head, _, body = str(table).partition("<tbody>")
    titles = [_TAG.sub(" ", title).strip() for title in _HEAD.findall(head)]
    if not body or len(titles) < 2:
        return table
    rows = []
    for row in body.split("<tr")[1:]:
        cells = iter(titles[1:])
        rows.append(_CELL.sub(lambda _: f'<td data-label="{next(cells, "")}"', row))  # noqa: B023
    inner = "".join(f"<tr{row}" for row in rows)
    return Markup(f"{head}<tbody>\n{inner}")  # noqa: S704 - its own text, which is escaped


def utc(time: float | str | datetime) -> datetime:
    """Read a moment of a file; numbers are seconds since 1970."""
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    if isinstance(time, datetime):
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    return datetime.fromtimestamp(time, UTC)


def fill(template: str, **context: Any) -> str:
    """Fill one of the templates."""
    return environment().get_template(template).render(context)


def drawing(template: str, **context: Any) -> Markup:
    """Fill the template of a chart, for a page."""
    return Markup(fill(template, **context))  # noqa: S704 - from a template that escapes


@cache
def environment() -> jinja2.Environment:
    """Return the environment of the templates, with the filters and words of all pages."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("duetbench.show.html", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        # Not `isinstance`: markup is a str too, and is clean already.
        finalize=lambda value: clean(value) if type(value) is str else value,
    )
    filters = (moment, iso, breakable, labelled)
    made.filters |= {function.__name__: function for function in filters}
    made.globals |= {"name_of": name, "quantity": quantity}
    return made

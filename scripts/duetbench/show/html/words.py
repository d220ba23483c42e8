"""The text of pages: figures, times and links in words, and the templates that contain them."""

import re
import sys
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, Final

import jinja2
from markupsafe import Markup, escape

from duetbench.core.model import Verdict
from duetbench.core.text import clean
from duetbench.project.case_names import name
from duetbench.show import formats
from duetbench.show.formats import quantity

__all__ = ["name", "quantity"]

_JOINTS: Final = re.compile(r"(?<=[/_,=-])(?=[^/_,=-])|(?<=\.)(?=[A-Za-z_])")
_HEAD: Final = re.compile(r"<t[hd]\b[^>]*>(.*?)</t[hd]>", re.DOTALL)
_TAG: Final = re.compile(r"<[^>]+>")
_CELL: Final = re.compile(r"<td(?=[ >])")
_CODE: Final = re.compile(r"`([^`]+)`")


def iso(time: float | str | datetime) -> str:
    """Write a moment for programs: `2026-11-20T03:00:00Z`. Numbers are seconds since 1970."""
    return f"{_utc(time):%Y-%m-%dT%H:%M:%SZ}"


def moment(time: float | str | datetime) -> str:
    """Write a moment for readers, to the minute: `20 Nov 2026, 03:00 UTC`."""
    when = _utc(time)
    return f"{when.day} {when:%b %Y, %H:%M} UTC"


def day(time: float | str | datetime) -> str:
    """Write a day for readers: `20 Nov 2026`."""
    when = _utc(time)
    return f"{when.day} {when:%b %Y}"


@lru_cache(maxsize=8192)  # names of machines, runs and cases recur on many pages
def breakable(name: str) -> Markup:
    """Allow line breaks in a case id or file name only at its joints."""
    return Markup("<wbr>").join(escape(part) for part in _JOINTS.split(clean(name)))


def unbroken(sentence: str) -> Markup:
    """Keep each figure of a sentence on one line with its percent sign."""
    return Markup("&nbsp;%").join(escape(part) for part in clean(sentence).split(" %"))


def prose(sentence: str) -> Markup:
    """Mark up a sentence in which backticks enclose `code`."""
    escaped = str(escape(clean(sentence)))
    return Markup(_CODE.sub(r"<code>\1</code>", escaped))  # noqa: S704 - escaped before


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


def _utc(time: float | str | datetime) -> datetime:
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
    sizes = formats.change, formats.within, formats.size
    filters = (moment, iso, day, breakable, prose, *sizes, labelled)
    made.filters |= {function.__name__: function for function in filters}
    names = {"words": sys.modules[__name__], "ends": formats.ends, "verdicts": Verdict}
    made.globals |= names
    return made

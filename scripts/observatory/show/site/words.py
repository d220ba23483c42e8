"""What only pages of a site say, and the templates that contain it."""

import glob
import re
import shlex
import sys
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import jinja2
from markupsafe import Markup, escape

from duetbench.app.case_names import name
from duetbench.core.model import Run
from duetbench.core.text import visible
from duetbench.report import formats
from duetbench.report.formats import quantity
from duetbench.report.html import comparison_page
from observatory.matrix.schema import PROFILES
from observatory.matrix.titles import experiment
from observatory.show import addresses
from observatory.store.points import Points

__all__ = ["name", "quantity"]

_HEAD: Final = re.compile(r"<t[hd]\b[^>]*>(.*?)</t[hd]>", re.DOTALL)
_TAG: Final = re.compile(r"<[^>]+>")
_CELL: Final = re.compile(r"<td(?=[ >])")
_CODE: Final = re.compile(r"`([^`]+)`")


def iso(time: float | str | datetime) -> str:
    """Write a moment for programs: `2026-11-20T03:00:00Z`."""
    return f"{utc(time):%Y-%m-%dT%H:%M:%SZ}"


def utc(time: float | str | datetime) -> datetime:
    """Read a moment of a file; numbers are seconds since 1970."""
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    if isinstance(time, datetime):
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    return datetime.fromtimestamp(time, UTC)


def day(time: float | str | datetime) -> str:
    """Write a day for readers: `20 Nov 2026`."""
    when = utc(time)
    return f"{when.day} {when:%b %Y}"


def unbroken(sentence: str) -> Markup:
    """Keep each figure of a sentence on one line with its percent sign."""
    return Markup("&nbsp;%").join(escape(part) for part in visible(sentence).split(" %"))


def prose(sentence: str) -> Markup:
    """Mark up a sentence in which backticks enclose `code`."""
    escaped = str(escape(visible(sentence)))
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


def point_command(case: str, of: Points | Run | None) -> str:
    """Return the shell command that measures a case again, as a night or a run did."""
    select = ("--select", glob.escape(case))
    if isinstance(of, Points) and of.as_of is not None:
        days = ("--since", of.as_of, "--until", of.as_of)
        return shlex.join(("observatory", "backfill", *days, *select))
    words = ("anchor", "run") if isinstance(of, Points) else ("measure", "--profile", profile(of))
    command = shlex.join(("observatory", *words, *select))
    if of is None or not of.commit or not of.commit.isalnum():
        return command
    return f"git switch --detach {of.commit[:12]} && observatory setup && {command}"


def profile(run: Run | None) -> str:
    """Return the profile of a run, or `nightly` if `observatory measure` does not know it."""
    return run.profile if run and run.profile in PROFILES else "nightly"


def fill(template: str, **context: Any) -> str:
    """Fill a template of the site."""
    return _environment().get_template(template).render(context)


def drawing(template: str, **context: Any) -> Markup:
    """Fill the template of a chart, for a page."""
    return Markup(fill(template, **context))  # noqa: S704 - from a template that escapes


@cache
def _environment() -> jinja2.Environment:
    """Return the environment of all pages: that of a comparison's file, with more templates."""
    shared = comparison_page.environment()
    own = jinja2.PackageLoader("observatory.show.site.pages", "templates")
    loaders = [own] if shared.loader is None else [own, shared.loader]
    site = shared.overlay(loader=jinja2.ChoiceLoader(loaders))
    filters = (
        day,
        iso,
        prose,
        labelled,
        formats.change,
        formats.ends,
        formats.within,
        formats.size,
    )
    site.filters = {**shared.filters, **{function.__name__: function for function in filters}}
    names = {"at": addresses, "topic_of": experiment}
    site.globals = {**shared.globals, **names, "words": sys.modules[__name__]}
    return site

"""The text of pages: figures, times and links in words, and the templates that contain them."""

import glob
import re
import shlex
import sys
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, Final

import jinja2
from markupsafe import Markup, escape

from duetbench.core.metrics import CPU, judged_in
from duetbench.core.text import clean
from duetbench.project.names import experiment, name
from duetbench.project.schema import PROFILES
from duetbench.show import addresses, formats
from duetbench.show.formats import quantity
from duetbench.store.change import INPROCESS
from duetbench.trend.table import Night

__all__ = ["experiment", "name", "quantity"]

_JOINTS: Final = re.compile(r"(?<=[/_,=-])(?=[^/_,=-])|(?<=\.)(?=[A-Za-z_])")
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


def _utc(time: float | str | datetime) -> datetime:
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    if isinstance(time, datetime):
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    return datetime.fromtimestamp(time, UTC)


def figure(case: str, metric: str) -> str:
    """Name a case, and its metric if it is not the usual one; a start has no load to name."""
    its, of_start = name(case), metric in judged_in({"start", "start alone"})
    text = str(its).removesuffix(f", {its.rest}" if of_start else "")
    return text if metric in {CPU, "seconds"} else f"{text} · {formats.title(metric)}"


def point_command(night: Night, case_id: str) -> str:
    """Return the shell command that measures a night's case again, at the same commit."""
    inside = case_id.startswith(INPROCESS)
    # In-process benchmarks are measured with the duets of their stack.
    select = () if night.ratio and inside else ("--select", glob.escape(case_id))
    if night.ratio and night.as_of is not None:
        days = ("--since", night.as_of, "--until", night.as_of)
        return shlex.join(("duetbench", "backfill", *days, *select))
    if night.ratio:
        command = shlex.join(("duetbench", "anchor", "run", *select))
    elif inside:
        benchmark = case_id.removeprefix(INPROCESS).partition("/")[0].partition("(")[0]
        command = shlex.join(("duetbench", "inprocess", "--select", f"{glob.escape(benchmark)}*"))
    else:
        profile = night.profile if night.profile in PROFILES else "nightly"
        command = shlex.join(("duetbench", "run", "--profile", profile, *select))
    if not night.commit or not night.commit.isalnum():
        return command
    return f"git switch --detach {night.commit[:12]} && duetbench setup && {command}"


def fill(template: str, **context: Any) -> str:
    """Fill a template of the site."""
    return _environment().get_template(template).render(context)


def drawing(template: str, **context: Any) -> Markup:
    """Fill the template of a chart, for a page."""
    return Markup(fill(template, **context))  # noqa: S704 - from a template that escapes


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("duetbench.show.site.pages", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        # Not `isinstance`: markup is a str too, and is clean already.
        finalize=lambda value: clean(value) if type(value) is str else value,
    )
    filters = (moment, iso, day, breakable, prose, formats.percent, formats.size)
    environment.filters |= {function.__name__: function for function in filters}
    environment.globals |= {"at": addresses, "words": sys.modules[__name__], "ends": formats.ends}
    return environment

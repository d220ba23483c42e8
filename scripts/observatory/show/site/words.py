"""What only pages of a site say, and the templates that contain it."""

import math
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import jinja2
from markupsafe import Markup, escape

from duetbench.app import case_names
from duetbench.core.comparison import row
from duetbench.core.text import visible
from duetbench.core.units import significant
from duetbench.report import changes, formats
from duetbench.report.cause import cause_lines
from duetbench.report.html import comparison_page
from observatory.show import addresses, claims, quoting

_FARTHEST: Final = 4.0  # ratio on an axis: others would make the usual ones a point
_CODE: Final = re.compile(r"`([^`]+)`")


def utc(time: float | str | datetime) -> datetime:
    """Read a moment of a file; numbers are seconds since 1970."""
    if isinstance(time, int | float):
        return datetime.fromtimestamp(time, UTC)
    time = datetime.fromisoformat(time) if isinstance(time, str) else time
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def day(time: float | str | datetime) -> str:
    """Write a day for readers: `20 Nov 2026`."""
    return f"{utc(time).day} {utc(time):%b %Y}"


def date(time: float | str | datetime) -> Markup:
    """Mark up a day for readers, who see it on one line."""
    return Markup('<time datetime="{:%Y-%m-%d}">{}</time>').format(utc(time), day(time))


def unbroken(sentence: str) -> Markup:
    """Keep each figure of a sentence on one line with its percent sign."""
    return Markup("&nbsp;%").join(escape(part) for part in visible(sentence).split(" %"))


def prose(sentence: str) -> Markup:
    """Mark up a sentence in which backticks enclose `code`."""
    escaped = str(escape(visible(sentence)))
    return Markup(_CODE.sub(r"<code>\1</code>", escaped))  # noqa: S704 - escaped before


def logarithmic(ratios: Iterable[float]) -> Callable[[float], float]:
    """Place figures on a logarithmic axis around 1 that has room for these ratios: its per cent.

    Those beyond it, or beyond a factor of 4, stay at its ends.
    """
    farthest = max((abs(math.log(ratio)) for ratio in ratios if ratio > 0), default=0.0)
    reach = min(farthest, math.log(_FARTHEST)) or 1.0

    def place(ratio: float) -> float:
        share = math.log(ratio) / reach if ratio > 0 else -math.inf
        return round(50 + 45 * min(1.05, max(-1.05, share)), 2)

    return place


def times(ratio: float) -> str:
    """Write a ratio to the anchor."""
    return f"{significant(ratio, 4)} ×"


def fill(template: str, **context: Any) -> Markup:
    """Fill a template of the site."""
    text = environment().get_template(template).render(context)
    return Markup(text)  # noqa: S704 - templates escape


@cache
def environment() -> jinja2.Environment:
    """Return the environment of all pages: that of a comparison's file, with more templates."""
    shared = comparison_page.environment()
    templates = jinja2.PackageLoader("observatory.show.site", "templates")
    loaders = [templates, *filter(None, [shared.loader])]
    site = shared.overlay(loader=jinja2.ChoiceLoader(loaders))
    own = (date, prose, unbroken, claims.ratio)
    filters = (*own, changes.change, changes.ends, changes.within, changes.size)
    site.filters = {**shared.filters, **{function.__name__: function for function in filters}}
    names = {"at": addresses, "quoting": quoting, "figure": claims.figure}
    names |= {"name_of": case_names.name, "row_of": row, "cause_lines": cause_lines}
    names |= {"utc": utc, "times": times, "spread": formats.spread, "logarithmic": logarithmic}
    site.globals = {**shared.globals, **names}
    return site

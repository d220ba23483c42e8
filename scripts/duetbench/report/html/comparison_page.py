"""The page of a comparison: its report, with a drawing of each duet.

Its words are those of the reports (`report.report`).
"""

import math
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

import jinja2
from markupsafe import Markup, escape

from duetbench.core import __version__
from duetbench.core.comparison import Comparison, Duet, Finding
from duetbench.core.model import Verdict
from duetbench.core.text import visible
from duetbench.report import changes, formats
from duetbench.report.formats import WORDY
from duetbench.report.report import make_report

STYLES: Final = Path(__file__).with_name("site.css")
"""The styles of all pages."""

_LEAST: Final = 0.01  # either side of "no change": noise must not look large
_TONES: Final = {Verdict.WORSE: "worse", Verdict.BETTER: "better", Verdict.SAME: "same"}
_KINDS: Final = {verdict.sign: verdict.value for verdict in Verdict}
"""CSS classes of verdicts by their sign."""

_JOINTS: Final = re.compile(r"(?<=[/_,=-])(?=[^/_,=-])|(?<=\.)(?=[A-Za-z_])")


def one_file(comparison: Comparison) -> str:
    """Write a comparison as one HTML file, without scripts or other files."""
    style, report = STYLES.read_text("utf-8"), make_report(comparison)
    return (
        environment()
        .get_template("comparison.html.j2")
        .render(
            style=Markup(style),  # noqa: S704 - our own files
            title=f"{comparison.base.label} → {comparison.head.label}",
            version=__version__,
            comparison=comparison,
            report=report,
            pictures=_pictures(comparison, report.findings),
            wordy=WORDY,
            kinds=_KINDS,
        )
    )


def _pictures(comparison: Comparison, findings: Sequence[Finding]) -> list[Markup]:
    """Draw the changes on one axis, with none in its middle: intervals, and their duets as dots."""
    duets = {case.case.id: case.duets for case in comparison.cases}
    half = max(_LEAST, 1.15 * changes.reach(f.interval for f in findings if f.interval))

    def at(ratio: float) -> str:
        return f"{50 + 48 * max(-1.0, min(1.0, (ratio - 1) / half)):.2f}%"

    def picture(finding: Finding) -> str:
        if (change := finding.interval) is None:
            return ""
        ratios = (_ratio(d, finding.subject) for d in duets.get(finding.case, ()) if d.usable)
        low, high = map(at, change.ends or 2 * (change.estimate,))
        tone = _TONES.get(finding.verdict, "open")
        return "".join(
            (
                f'<svg class="row {tone}" width="100%" height="26" aria-hidden="true">',
                '<line class="zero" x1="50%" x2="50%" y1="0" y2="26"/>',
                *(f'<circle class="sample" cx="{at(r)}" cy="13" r="2"/>' for r in ratios if r),
                f'<line class="whisker" x1="{low}" x2="{high}" y1="13" y2="13"/>',
                f'<circle class="dot" cx="{at(change.estimate)}" cy="13" r="4.5"/></svg>',
            )
        )

    return [Markup(picture(finding)) for finding in findings]  # noqa: S704 - our own numbers


def _ratio(duet: Duet, metric: str) -> float | None:
    """Return head over base, or None without a valid ratio."""
    base, head = duet.base.get(metric), duet.head.get(metric)
    ratio = head / base if base and head else 0.0
    return ratio if 0 < ratio < math.inf else None


@lru_cache(maxsize=8192)  # names of machines, runs and cases recur on many pages
def breakable(name: str) -> Markup:
    """Allow line breaks in a case id or file name only at its joints."""
    return Markup("<wbr>").join(escape(part) for part in _JOINTS.split(visible(name)))


@cache
def environment() -> jinja2.Environment:
    """Return the environment of the templates, with the filters and words of all pages."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("duetbench.report.html", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        # Not `isinstance`: markup is a str too, and is clean already.
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.filters |= {"breakable": breakable}
    environment.globals |= {"quantity": formats.quantity}
    return environment

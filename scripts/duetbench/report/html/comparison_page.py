"""The page of a comparison: its report, then every sample.

Its words are those of the reports (`report.report`).
"""

import math
from itertools import compress
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from duetbench.app import case_names
from duetbench.core import __version__
from duetbench.core.comparison import SIDES, CaseComparison, Comparison, Duet
from duetbench.core.metrics import METRICS
from duetbench.core.metrics import row as row_of
from duetbench.core.model import Verdict
from duetbench.report import findings as words
from duetbench.report import formats
from duetbench.report.formats import WORDY, Section
from duetbench.report.html.charts import Caption, Dot, forest
from duetbench.report.html.words import fill
from duetbench.report.report import make_report

STYLES: Final = Path(__file__).with_name("site.css")
"""The styles of all pages."""

_KINDS: Final = {verdict.sign: verdict.value for verdict in Verdict}
"""CSS classes of verdicts by their sign."""


def one_file(comparison: Comparison) -> str:
    """Write a comparison with all duets as one HTML file, without scripts or other files."""
    places = {finding.case: place for place, finding in reversed([*enumerate(comparison.findings)])}
    cases = sorted(comparison.cases, key=lambda case: places.get(case.case.id, len(places)))
    style = STYLES.read_text("utf-8")
    return fill(
        "comparison.html.j2",
        style=Markup(style),  # noqa: S704 - our own files
        title=f"{comparison.base.label} → {comparison.head.label}",
        version=__version__,
        comparison=comparison,
        report=make_report(comparison),
        wordy=WORDY,
        kinds=_KINDS,
        samples=[_case(comparison, case, place) for place, case in enumerate(cases)],
    )


def _case(comparison: Comparison, case: CaseComparison, place: int) -> dict[str, Any]:
    """Show a case's samples: all of a metric on one axis, then duet by duet."""
    name, duets = case_names.of(case.case), sorted(case.duets, key=lambda duet: duet.order)
    findings = [finding for finding in comparison.findings if finding.case == case.case.id]
    measured = [finding for finding in findings if finding.subject in METRICS and finding.n]
    ratios = {
        finding.subject: [
            _ratio(duet.base.get(finding.subject), duet.head.get(finding.subject)) for duet in duets
        ]
        for finding in measured
    }
    usable = [duet.usable for duet in duets]
    dots = [
        Dot(
            row_of(finding.subject).label,
            finding.interval,
            finding.verdict,
            note=words.figures(finding) or finding.why,
            samples=tuple(filter(None, compress(ratios[finding.subject], usable))),
            mirror=row_of(finding.subject).better == "higher",
        )
        for finding in measured
    ]
    lines = [
        (str(at + 1), *(formats.change(of[at]) for of in ratios.values()), _note(duet))
        for at, duet in enumerate(duets)
    ]
    about = Caption(f"duets-{place}", "Head over base: every usable duet, and what is said of all")
    return {
        "id": name.id,
        "name": str(name) if name.known else "",
        "because": case.because,
        "verdicts": [f"{finding.verdict.text}: {words.noun(finding)}" for finding in measured],
        "chart": forest(about, {"": dots}, notes="before → after")
        if any(dot.samples for dot in dots)
        else None,
        "duets": Section(
            "", head=("duet", *(row_of(name).label for name in ratios), "note"), rows=lines
        ),
    }


def _note(duet: Duet) -> str:
    """Return a duet's flags, or why it is not used."""
    if duet.usable:
        return ", ".join(dict.fromkeys(flag.name for flag in (*duet.flags_base, *duet.flags_head)))
    flags = (f"{side}: {flag.name}: {flag.detail}" for side in SIDES for flag in duet.flags(side))
    return f"not used: {'; '.join(flags)}"


def _ratio(base: float | None, head: float | None) -> float | None:
    """Return head over base, or None without a valid ratio."""
    ratio = head / base if base and head else 0.0
    return ratio if 0 < ratio < math.inf else None

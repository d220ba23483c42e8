"""A comparison or a run as one HTML file: no server, no script, nothing that is fetched.

The templates, charts and styles are the site's own; what leads to its other pages is left out.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from markupsafe import Markup

from duetbench.core import __version__
from duetbench.core.metrics import METRICS
from duetbench.core.model import CaseResult
from duetbench.show import formats
from duetbench.show.page import RunPage
from duetbench.show.site.charts import figure
from duetbench.show.site.charts.data import Caption, Quantity, Value
from duetbench.show.site.charts.forest import Dot, DotGroup, Forest, forest
from duetbench.show.site.pages import comparisons
from duetbench.show.site.pages.page import filled, markup
from duetbench.show.view import make_view
from duetbench.store.comparison import Comparison
from duetbench.trend.summary import CaseSummary, RunSummary

_STYLE: Final = Path(__file__).with_name("static") / "site.css"
_HEADLINES: Final = 3
"""Metrics of a run that have a chart: the first ones of the registry's headlines."""

_NOWHERE: Final = SimpleNamespace(planned=frozenset(), packages={})
"""In place of the site: no case and no package has a page."""


def of_comparison(comparison: Comparison) -> str:
    """A comparison with every duet."""
    view = make_view(comparison)
    title = f"{comparison.base.label} → {comparison.head.label}"
    content = comparisons.content(comparison, view)
    return _filled("comparison.html.j2", title, confirmed=(), machines=(), **content)


def of_run(summary: RunSummary, page: RunPage) -> str:
    """A run with every launch."""
    launched = {result.case.id: result for result in summary.run.results}
    known = {name for case in summary.cases.values() for name in case.metrics}
    shown = sorted(
        (name for name in known if METRICS[name].rank is not None),
        key=lambda name: METRICS[name].rank or 0,
    )[:_HEADLINES]
    cases = [*summary.cases.values()]
    return _filled(
        "measured.html.j2",
        page.title,
        page=page,
        charts=[_overview(name, cases) for name in shown],
        cases=[
            (case.id, _state(case), _launches(place, launched[case.id], shown))
            for place, case in enumerate(cases)
        ],
    )


def _filled(template: str, title: str, **content: Any) -> str:
    css = _STYLE.read_text("utf-8")
    return filled(
        template,
        layout="alone.html.j2",
        style=Markup(f"{figure.stylesheet()}\n{css}"),  # noqa: S704 - our own files
        site=_NOWHERE,
        root="",
        title=title,
        version=__version__,
        **content,
    )


def _overview(metric: str, cases: list[CaseSummary]) -> Markup:
    dots = []
    for case in cases:
        one = case.metrics.get(metric)
        note = "" if one else _state(case) or "no such figure"
        value = Value.of(one) if one else Value(None, note=note)
        dots.append(Dot(case.id, value))
    about = Caption(
        f"of-{metric.replace('_', '-')}",
        formats.title(metric),
        "Mean over launches, 95 % interval.",
    )
    return markup(forest(Forest(about, Quantity.of(metric), (DotGroup("", tuple(dots)),))))


def _state(case: CaseSummary) -> str:
    if case.failures:
        failed = f"{len(case.failures)} of {case.expected} failed"
        return f"{failed}: {case.failures[0].reason}"
    return "" if case.status == "measured" else case.status


def _launches(place: int, result: CaseResult, metrics: list[str]) -> Markup | None:
    """A dot for each launch and metric; None without launches."""
    if not result.launches or not metrics:
        return None
    made = []
    for number, metric in enumerate(metrics):
        dots = tuple(
            Dot(f"launch {one.round + 1}", Value(one.metrics.get(metric), note=_flags(one.flags)))
            for one in result.launches
        )
        about = Caption(f"launches-{place}-{number}", formats.title(metric))
        made.append(
            markup(forest(Forest(about, Quantity.of(metric), (DotGroup("", dots),), "near")))
        )
    return Markup("").join(made)


def _flags(flags: Any) -> str:
    return ", ".join(dict.fromkeys(str(flag.name) for flag in flags))

"""The experiments: a list of them, and for each its question, what it found, and all figures."""

import glob
import math
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from markupsafe import Markup

from duetbench.core.units import Interval
from duetbench.report import formats
from observatory.matrix.published import Published
from observatory.show import addresses
from observatory.show.claims import Answer, ratio
from observatory.show.site import words
from observatory.show.site.charts import Caption, PlotRow, Scale, interval_plot
from observatory.show.site.pages.site import PageFile, Site, guard, render

_TONES: Final = {"holds": "better", "does not hold here": "worse", "not decided": "open"}
_NUMBERS: Final = re.compile(r"([0-9]+)")


def pages(site: Site) -> Iterator[PageFile]:
    """Make the list, and one page for each experiment."""
    yield from guard(site, addresses.EXPERIMENTS, "Experiments", partial(_list, site))
    for name in site.experiments:
        address = addresses.experiment(name)
        yield from guard(site, address, name, partial(_page, site, name))


def _list(site: Site) -> Iterator[PageFile]:
    yield render(
        site,
        "experiments.html.j2",
        addresses.EXPERIMENTS,
        "Experiments",
        "Questions about the Python web stack, each with its answer and figures.",
        questions=site.experiments.values(),
    )


def _page(site: Site, name: str) -> Iterator[PageFile]:
    section = site.experiments[name]
    profile = words.profile(section.runs[0].run if section.runs else None)
    select = ("--profile", profile, "--select", f"{glob.escape(name)}/*")
    served = name in site.published or section.runs
    answers = section.answers
    yield render(
        site,
        "experiment.html.j2",
        addresses.experiment(name),
        section.title,
        section.question or f"Figures of the experiment {name}.",
        chart=draw(answers),
        reasons=[(answer.statement, f"{answer.verdict}: {answer.reason}") for answer in answers],
        section=section,
        published=site.published.get(name, Published()),
        compared=sorted({answer.comparison for answer in answers if answer.comparison}),
        command=shlex.join(("observatory", *(("measure", *select) if served else ("inprocess",)))),
        cases=sorted((case for case in site.planned if page_of(case) == name), key=_natural),
    )


def page_of(case: str) -> str:
    """Return the name of the experiment that a case belongs to."""
    return case.partition("/")[0]


def _natural(case: str) -> list[str | int]:
    """Order 2 threads before 10."""
    return [int(part) if part.isdecimal() else part for part in _NUMBERS.split(case)]


def draw(answers: Sequence[Answer]) -> Markup | None:
    """Draw the statements on a logarithmic axis: the figure here, what is expected, the source's.

    Those that this machine cannot answer are left out; None: none is left.
    """
    asked = [answer for answer in answers if answer.verdict != "cannot be asked here"]
    known = [answer.ours for answer in asked if answer.ours]
    ends = [end for one in known for end in (one.estimate, *(one.ends or ())) if end > 0]
    if not ends:
        return None
    scale = Scale(math.log2(min(ends)) - 0.5, math.log2(max(ends)) + 0.5)
    about = Caption("statements", "Every statement", "A ratio, or a figure, on a logarithmic axis.")
    rows = {"": [_row(answer) for answer in asked]}
    title, samples = "measured here", "duets or launches"
    return interval_plot(about, rows, scale, _label, title=title, samples=samples)


def _label(tick: float) -> str:
    return f"{2**tick:.3g}"


def _row(answer: Answer) -> PlotRow:
    ours, logs = answer.ours, None
    if ours and min(ours.estimate, *(ours.ends or (1.0,))) > 0:
        low, high = map(math.log2, ours.ends) if ours.ends else (None, None)
        logs = Interval(math.log2(ours.estimate), low, high)
    published = f", published {ratio(answer.published)}" if answer.published else ""
    return PlotRow(
        answer.statement,
        _TONES.get(answer.verdict, ""),
        logs,
        answer.verdict,
        ratio(ours.estimate) if ours else formats.MISSING,
        "…".join(map(ratio, ours.ends)) if ours and ours.ends else "",
        note=f"expected {answer.expected}{published}",
        expected=(
            math.log2(answer.least) if answer.least else -math.inf,
            math.log2(answer.most) if answer.most else math.inf,
        ),
        published=math.log2(answer.published) if answer.published else None,
    )

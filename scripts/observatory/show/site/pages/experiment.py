"""The experiments: a list of them, and for each its question, what it found, and all figures."""

import glob
import math
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from markupsafe import Markup

from duetbench.core.units import Interval
from duetbench.report import formats
from duetbench.report.run import facts
from observatory.matrix import titles
from observatory.matrix.published import Published
from observatory.matrix.schema import PROFILES
from observatory.show import addresses
from observatory.show.claims import ANSWERED, Answer, ratio
from observatory.show.site.charts import (
    DISC,
    Caption,
    ChartRow,
    Scale,
    axis,
    interval_key,
    interval_plot,
    mark,
    picture,
)
from observatory.show.site.pages.site import PageFile, Site, guard, render

_DIAMOND: Final = '<path class="published" d="M0-5L5 0 0 5-5 0z"/>'
_BAND: Final = '<rect class="band" x="{}" y="{}" width="{}" height="{}"/>'
_TONES: Final = {"holds": "better", "does not hold here": "worse", "not decided": "open"}
_NUMBERS: Final = re.compile(r"([0-9]+)")


@dataclass(frozen=True, slots=True)
class Topic:
    """An experiment in a list: its finding, the question, and its first answer."""

    name: str
    question: str
    title: str
    first: Answer | None


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
        questions=list(questions(site)),
    )


def questions(site: Site) -> Iterator[Topic]:
    """Return each experiment with its finding."""
    for name in site.experiments:
        yield _topic(site, name)


def _topic(site: Site, name: str) -> Topic:
    """Title an experiment by its first statement that holds here, or else by what it is about."""
    section = site.experiments[name]
    holding = (answer for answer in section.answers if answer.verdict == "holds")
    answered = (answer for answer in section.answers if answer.verdict in ANSWERED)
    first, question = next(holding, next(answered, None)), section.question
    if first and first.verdict == "holds":
        return Topic(name, question, first.statement[:1].upper() + first.statement[1:], first)
    topic = titles.experiment(name)
    return Topic(name, question, (topic if topic != name else question) or name, first)


def _page(site: Site, name: str) -> Iterator[PageFile]:
    section, about = site.experiments[name], _topic(site, name)
    profile = section.runs[0].run.profile if section.runs else "nightly"
    profile = profile if profile in PROFILES else "nightly"
    select = ("--profile", profile, "--select", f"{glob.escape(name)}/*")
    served = name in site.published or section.runs
    command = ("observatory", *(("measure", *select) if served else ("inprocess",)))
    answers = section.answers
    yield render(
        site,
        "experiment.html.j2",
        addresses.experiment(name),
        about.title,
        about.question or f"Figures of the experiment {name}.",
        about=about,
        chart=draw(answers),
        reasons=[(answer.statement, f"{answer.verdict}: {answer.reason}") for answer in answers],
        section=section,
        published=site.published.get(name, Published()),
        runs=[(run.run.id, facts(run)) for run in section.runs],
        compared=sorted({answer.comparison for answer in answers if answer.comparison}),
        command=shlex.join(command),
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
    legend = [interval_key("duets or launches")]
    legend.append(("s0", "what the statement expects", _BAND.format(2, 2, 24, 10)))
    if any(answer.published for answer in asked):
        legend.append(("published", "published, on another machine", mark("14", 7, _DIAMOND)))
    about = Caption("statements", "Every statement", "A ratio, or a figure, on a logarithmic axis.")
    labels = axis(scale, lambda tick: f"{2**tick:.3g}", "1")
    rows = {"": [_row(answer, scale) for answer in asked]}
    return interval_plot(about, "measured here", labels, rows, legend)


def _row(answer: Answer, scale: Scale) -> ChartRow:
    ours, logs = answer.ours, None
    low, high = (
        float(scale.at(math.log2(end)).rstrip("%")) if end else default
        for end, default in ((answer.least, 0.0), (answer.most, 100.0))
    )
    band = _BAND.format(f"{low:.2f}%", 4, f"{max(0.0, high - low):.2f}%", 18)
    if ours and min(ours.estimate, *(ours.ends or (1.0,))) > 0:
        ends = (math.log2(end) for end in ours.ends) if ours.ends else (None, None)
        logs = Interval(math.log2(ours.estimate), *ends)
    place = math.log2(answer.published) if answer.published else math.inf
    above = [mark(scale.at(place), 13, _DIAMOND)] if scale.holds(place) else []
    return ChartRow(
        answer.statement,
        "",
        _TONES.get(answer.verdict, ""),
        picture(scale, logs, DISC, below=[band], above=above),
        ratio(ours.estimate) if ours else formats.MISSING,
        "…".join(map(ratio, ours.ends)) if ours and ours.ends else "",
        f"{answer.verdict} (expected {answer.expected}"
        + (f", published {ratio(answer.published)})" if answer.published else ")"),
    )

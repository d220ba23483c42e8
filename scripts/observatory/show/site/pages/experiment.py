"""The experiments: a list of them, and for each its question, what it found, and all figures."""

import glob
import math
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from markupsafe import Markup

from duetbench.core.model import Run
from duetbench.report import formats
from observatory.matrix.published import Published
from observatory.matrix.schema import PROFILES
from observatory.show import addresses
from observatory.show.claims import Answer, ratio
from observatory.show.site.charts import Caption, PlotRow, Scale, interval_plot
from observatory.show.site.pages.site import Context, Page, Site

_TONES: Final = {"holds": "better", "does not hold here": "worse", "not decided": "open"}
_NUMBERS: Final = re.compile(r"([0-9]+)")


def pages(site: Site) -> Iterator[Page]:
    """List the experiments, and a page for each."""
    yield site.page(addresses.EXPERIMENTS, "Experiments", "experiments")
    for name in site.experiments:
        yield site.page(addresses.experiment(name), name, "experiment", partial(_page, site, name))


def _page(site: Site, name: str) -> Context:
    section = site.experiments[name]
    measure = ["inprocess"]
    if name in site.published or section.runs:
        newest = section.runs[0].run if section.runs else None
        measure = ["measure", "--profile", profile_of(newest)]
        measure += ["--select", f"{glob.escape(name)}/*"]
    return {
        "title": section.title,
        "chart": draw(section.answers),
        "reasons": [(each.statement, f"{each.verdict}: {each.reason}") for each in section.answers],
        "section": section,
        "published": site.published.get(name, Published()),
        "command": shlex.join(["observatory", *measure]),
        "cases": sorted((case for case in site.planned if page_of(case) == name), key=_natural),
    }


def profile_of(run: Run | None) -> str:
    """Return the profile of a run, or `nightly` if `observatory measure` does not know it."""
    return run.profile if run and run.profile in PROFILES else "nightly"


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
    scale = Scale(min(ends) / math.sqrt(2), max(ends) * math.sqrt(2), 1.0, logarithmic=True)
    about = Caption("statements", "Every statement", "A ratio, or a figure, on a logarithmic axis.")
    rows, title = {"": [*map(_row, asked)]}, "measured here"
    write, samples = "{:.3g}".format, "duets or launches"
    return interval_plot(about, rows, scale, write, title=title, samples=samples)


def _row(answer: Answer) -> PlotRow:
    ours = answer.ours
    published = f", published {ratio(answer.published)}" if answer.published else ""
    return PlotRow(
        answer.statement,
        _TONES.get(answer.verdict, ""),
        ours if ours and min(ours.estimate, *(ours.ends or (1.0,))) > 0 else None,
        answer.verdict,
        ratio(ours.estimate) if ours else formats.MISSING,
        "…".join(map(ratio, ours.ends)) if ours and ours.ends else "",
        note=f"expected {answer.expected}{published}",
        expected=(answer.least or 0.0, answer.most or math.inf),
        published=answer.published or None,
    )

"""Each experiment's declared sentences, filled from the newest run that has all of their figures.

Of runs with an interval, that is with several launches, the published profile speaks first: it has
the articles' durations. All of it is from one machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from servebench.declare.published import FILE
from servebench.report import claims
from servebench.series.summary import RunSummary
from servebench.site.pages.site import Site

ORDER: Final = ("published", "nightly", "quick")


@dataclass(frozen=True, slots=True)
class Answer:
    """A sentence with figures, and the run that it speaks of.

    Attributes:
        text: May have `code`.
        run: The run's id; empty: no run has all of its figures, and the text says so.
        profile: The run's.
        machine: The run's.
        flags: Of the cases that it cites.
    """

    text: str
    run: str
    profile: str
    machine: str
    flags: tuple[str, ...]


def speakers(site: Site) -> tuple[RunSummary, ...]:
    """The newest runs of the machine that was measured last, in the order in which they speak."""
    newest = max(site.newest.values(), key=lambda summary: summary.run.started, default=None)
    if newest is None:
        return ()
    machine = newest.run.machine.id
    found = (site.newest.get((machine, profile)) for profile in ORDER)
    return tuple(summary for summary in found if summary is not None)


def answers(site: Site, experiment: str) -> Iterator[Answer]:
    """The experiment's sentences; none without a run of it, or where none is declared."""
    published = site.published.get(experiment)
    having = [summary for summary in speakers(site) if _measured(summary, experiment)]
    if published is None or not having:
        return
    for template in published.answers:
        tried = [
            (summary, claims.fill(template, summary, published, f"apps/{experiment}/{FILE}"))
            for summary in having
        ]
        filled = [one for one in tried if one[1].measured] or tried[:1]
        summary, found = next((one for one in filled if one[0].run.launches > 1), filled[0])
        run = summary.run
        yield Answer(
            text=found.text,
            run=run.id if found.measured else "",
            profile=run.profile,
            machine=run.machine.id,
            flags=tuple(found.flags),
        )


def _measured(summary: RunSummary, experiment: str) -> bool:
    return any(
        case.status == "measured" and case.case.experiment == experiment
        for case in summary.cases.values()
    )

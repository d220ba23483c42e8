"""`FINDINGS.md`: every experiment's question, answered from one or two reference runs. Pure.

A run with several launches per case speaks first: one launch decides nothing. What it did not
measure comes from the next run, which may have the articles' durations and further variants.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from servebench.published import FILE, Published
from servebench.report import formats, markdown, sentences, shapes
from servebench.report.page import About, Section, facts
from servebench.report.shapes import ShapeResult
from servebench.report.tables import experiment_tables
from servebench.summary import CaseSummary, RunSummary

_SEVERAL: Final = 2  # launches from which on there is an interval
_CPU: Final = "server_cpu_per_request"


@dataclass(frozen=True, slots=True)
class Source:
    """A run that findings are drawn from."""

    label: str
    link: str
    summary: RunSummary

    @property
    def facts(self) -> str:
        """The run's facts as Markdown."""
        return markdown.facts(facts(self.summary))

    def cases(self, experiment: str) -> list[CaseSummary]:
        """The run's cases of an experiment."""
        return [
            case for case in self.summary.cases.values() if case.case.experiment == experiment
        ]  # fmt: skip

    def measured(self, experiment: str) -> bool:
        """Whether the run has any figure of an experiment."""
        return any(case.status == "measured" for case in self.cases(experiment))


@dataclass(frozen=True, slots=True)
class Answer:
    """A filled sentence, and the run that it speaks of."""

    text: str
    label: str
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableText:
    """A table as Markdown under its title."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run adds to an experiment's figures."""

    coverage: str
    tables: tuple[TableText, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """All that the page says about one experiment."""

    experiment: str
    question: str | None
    source: str | None
    answers: tuple[Answer, ...]
    shapes: str
    differences: tuple[str, ...]
    figures: tuple[Figures, ...]
    notes: tuple[str, ...]


def write_findings(
    sources: Sequence[Source],
    published: Mapping[str, Published],
    about: Mapping[str, About],
    inside: Sequence[Section] = (),
) -> str:
    """Write the page.

    Args:
        sources: Runs in the order in which they speak, those with several launches first.
        published: What is declared about each experiment's source.
        about: Each experiment's question and deviations.
        inside: What was measured inside the process.
    """
    ran = {case.case.experiment for source in sources for case in source.summary.cases.values()}
    experiments = [*published, *sorted(ran - set(published))]
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - Markdown: escaped by the filter `md`
        keep_trailing_newline=True,
    )
    environment.filters["md"] = markdown.escape
    text = environment.get_template("findings.md.j2").render(
        sources=sources,
        apart=_apart(sources),
        findings=[
            _finding(name, sources, published.get(name), about.get(name))
            for name in experiments
        ],
        inside=[markdown.section_text(section) for section in inside],
    )  # fmt: skip
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _apart(sources: Sequence[Source]) -> str:
    """How far two runs of the same locks on one machine lie apart; empty where there are no two."""
    if len(sources) < 2:
        return ""
    runs = [source.summary for source in sources[:2]]
    locks = [{stack.name: stack.digest for stack in summary.run.stacks} for summary in runs]
    if locks[0] != locks[1] or runs[0].run.machine.id != runs[1].run.machine.id:
        return ""
    first, second = (
        {
            name: case.metrics[_CPU].mean
            for name, case in summary.cases.items()
            if _CPU in case.metrics
        }
        for summary in runs
    )
    logs = [math.log(second[name] / first[name]) for name in first if name in second]
    if len(logs) < 2:
        return ""
    mean, *ends = (100 * math.expm1(log) for log in (fmean(logs), min(logs), max(logs)))
    span = "…".join(f"{end:+.0f}" for end in ends)
    return (
        f"The same machine and locks in both runs: CPU per request of {len(logs)} cases differs by "
        f"{mean:+.1f} % on average ({span} %), which no interval within a run shows."
    )


def _finding(
    experiment: str, sources: Sequence[Source], published: Published | None, about: About | None
) -> Finding:
    having = [source for source in sources if source.measured(experiment)]
    having.sort(key=lambda source: source.summary.run.launches < _SEVERAL)
    checked = [
        (source, shapes.check_all(source.summary, published)) for source in having
    ] if published else []  # fmt: skip
    return Finding(
        experiment=experiment,
        question=about.question if about else None,
        source=published.source if published else None,
        answers=_answers(experiment, having, published),
        shapes=_shape_table(checked),
        differences=differences(checked),
        figures=tuple(_figures(experiment, having, published)),
        notes=(
            *(published.notes if published else ()),
            *(f"Deviation from the source: {text}" for text in (about.deviations if about else ())),
        ),
    )


def _figures(
    experiment: str, having: Sequence[Source], published: Published | None
) -> Iterator[Figures]:
    """The tables of each run, without the cases that an earlier one has measured."""
    told: set[str] = set()
    for source in having:
        cases = [case for case in source.cases(experiment) if case.id not in told]
        told |= {case.id for case in cases if case.status == "measured"}
        tables = tuple(
            TableText(table.title, markdown.table(table))
            for table in experiment_tables(cases, published)
        )
        if tables:
            yield Figures(_coverage(source, experiment, cases), tables)


def _answers(
    experiment: str, having: Sequence[Source], published: Published | None
) -> tuple[Answer, ...]:
    """Each declared sentence, from the first run that has all of its figures."""
    if published is None or not having:
        return ()
    answers = []
    for template in published.answers:
        tried = [
            (source, sentences.fill(template, source.summary, published, f"{experiment}/{FILE}"))
            for source in having
        ]
        source, sentence = next(((s, f) for s, f in tried if f.measured), tried[0])
        label = f"{source.label}" if sentence.measured else ""
        answers.append(Answer(sentence.text, label, sentence.flags))
    return tuple(answers)


def _shape_table(checked: Sequence[tuple[Source, Sequence[ShapeResult]]]) -> str:
    """One row per statement; the figure and verdict of every run that measured the experiment."""
    if not checked or not checked[0][1]:
        return ""
    head = ["statement", "expected", "published"]
    for source, _ in checked:
        head += [f"{source.label}: ratio, within the run", "verdict"]
    rows = []
    for place, first in enumerate(checked[0][1]):
        published = formats.MISSING if first.published is None else formats.ratio(first.published)
        row = [first.statement, first.expected, published]
        for _, results in checked:
            found = results[place]
            told = found.verdict == "not measured" or found.reason == shapes.ONE_LAUNCH
            reason = found.reason if told else ""
            row += markdown.shape_cells(found.model_copy(update={"reason": reason}))
        rows.append(row)
    align = ["---", "---:", "---:", *["---:", "---"] * len(checked)]
    return markdown.grid(head, align, rows)


def differences(checked: Sequence[tuple[Source, Sequence[ShapeResult]]]) -> tuple[str, ...]:
    """Statements that do not hold, or cannot be decided, with the declared reason."""
    told: dict[str, None] = {}
    for source, results in checked:
        lone = sum(result.reason == shapes.ONE_LAUNCH for result in results)
        for result in results:
            if result.reason != shapes.ONE_LAUNCH and result.verdict in {
                "does not hold",
                "not decided",
            }:
                reason = result.reason or "No reason is known."
                told[f"{result.statement} — {result.verdict} ({source.label}). {reason}"] = None
        if lone:
            noun = "statement" if lone == 1 else "statements"
            told[f"{lone} {noun} — not decided ({source.label}): from one launch nothing is."] = (
                None
            )
    return tuple(told)


def _coverage(source: Source, experiment: str, shown: Sequence[CaseSummary]) -> str:
    cases = source.cases(experiment)
    measured, expected = sum(c.measured for c in cases), sum(c.expected for c in cases)
    failed = [case.id for case in cases if case.status != "measured"]
    text = f"From the {source.label}: {measured} of {expected} launches measured."
    if len(shown) < len(cases):
        text += f" Shown are the {len(shown)} of its {len(cases)} cases that are not above."
    return text + (f" Without figures: {', '.join(failed)}." if failed else "")

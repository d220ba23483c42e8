"""What a person sees while a run goes on: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from servebench import metrics
from servebench.model import Case, Launch, Status


class Reporter(Protocol):
    """Seam between the runner and whoever watches it."""

    def begin(self, launches: int, seconds: float) -> None:
        """The run starts: so many launches, expected to take so many seconds."""

    def launching(self, case: Case, order: int, remaining: float) -> None:
        """A launch starts; the whole rest is expected to take `remaining` s."""

    def phase(self, name: str) -> None:
        """The launch goes on to a phase: starting, verifying, warming up, measuring, stopping."""

    def launched(self, case: Case, launch: Launch) -> None:
        """A launch ended."""

    def note(self, sentence: str) -> None:
        """Something that a reader of the run should know."""

    def end(self) -> None:
        """The run is over, in whatever way."""


def duration(seconds: float) -> str:
    """Format a waiting time: `48 s`, `12 min 05 s`."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"


def _outcome(launch: Launch) -> str:
    if launch.status is Status.FAILED:
        return "failed: " + "; ".join(
            f"{flag.name}: {flag.detail}" for flag in launch.flags if flag.severity == "fail"
        )
    shown = [
        f"{metrics.METRICS[name].format(launch.metrics[name])} {label}"
        for name, label in metrics.BRIEF.items()
        if name in launch.metrics
    ]
    warnings = ", ".join(sorted({flag.name for flag in launch.flags}))
    return ", ".join(text.strip() for text in shown) + (f"  [{warnings}]" if warnings else "")


class PlainReporter:
    """One line per launch, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._launches = 0
        self._tenth = 0

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def begin(self, launches: int, seconds: float) -> None:
        """Say how much there is to do."""
        self._launches = launches
        self._print(f"{launches} launch{'es' * (launches != 1)}, about {duration(seconds)}")

    def launching(self, case: Case, order: int, remaining: float) -> None:  # noqa: ARG002
        """Say at each tenth of the run how long the rest will take; a log wants no more."""
        tenth = 10 * order // self._launches
        if tenth > self._tenth:
            self._tenth = tenth
            self._print(f"{order} of {self._launches} launches done, {duration(remaining)} left")

    def phase(self, name: str) -> None:
        """Nothing: a log wants no more than what came of it."""

    def launched(self, case: Case, launch: Launch) -> None:
        """Print the launch's line."""
        self._print(f"[{launch.order + 1}/{self._launches}] {case.id}  {_outcome(launch)}")

    def note(self, sentence: str) -> None:
        """Print the sentence."""
        self._print(f"note: {sentence}")

    def end(self) -> None:
        """Nothing to close."""


class _Remaining(ProgressColumn):
    """The time left, which goes down while a launch takes its time."""

    def render(self, task: Task) -> Text:
        ends = task.fields.get("ends")
        left = "" if ends is None else f"{duration(max(0.0, ends - task.get_time()))} left"
        return Text(left, style="progress.remaining")


class LiveReporter:
    """A progress bar with the running case; finished launches scroll by above it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            _Remaining(),
            TextColumn("{task.fields[phase]}", style="dim"),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("starting", total=None, ends=None, phase="")

    def begin(self, launches: int, seconds: float) -> None:
        """Show the bar."""
        self._progress.update(self._task, total=launches, ends=self._after(seconds))
        self._progress.start()

    def launching(self, case: Case, order: int, remaining: float) -> None:
        """Show which case runs."""
        self._progress.update(
            self._task, description=case.id, completed=order, ends=self._after(remaining)
        )

    def phase(self, name: str) -> None:
        """Show what the launch is doing."""
        self._progress.update(self._task, phase=name)

    def launched(self, case: Case, launch: Launch) -> None:
        """Print what the launch gave."""
        style = "red" if launch.status is Status.FAILED else None
        self._progress.console.print(
            Text(case.id, style="bold"), Text(_outcome(launch), style=style or "")
        )

    def note(self, sentence: str) -> None:
        """Print the sentence."""
        self._progress.console.print(Text(f"note: {sentence}", style="yellow"))

    def end(self) -> None:
        """Remove the bar."""
        self._progress.stop()

    def _after(self, seconds: float) -> float:
        return self._progress.get_time() + seconds


def reporter(console: Console) -> Reporter:
    """The live reporter on a terminal, the plain one elsewhere."""
    return LiveReporter(console) if console.is_terminal else PlainReporter(console)

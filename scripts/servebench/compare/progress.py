"""What a person sees while a comparison goes on: a live line on a terminal, plain lines in logs."""

from __future__ import annotations

from typing import Protocol

from rich.console import Console
from rich.status import Status
from rich.text import Text

from servebench.compare.model import Duet
from servebench.compare.samples import is_usable
from servebench.metrics import BRIEF, METRICS
from servebench.model import Case
from servebench.progress import duration


class Reporter(Protocol):
    """Seam between the session and whoever watches it."""

    def begin(self, cases: int, seconds: float, budget: float | None) -> None:
        """The comparison starts: deciding about so many cases takes `seconds` at least."""

    def stage(self, name: str, cases: int) -> None:
        """A stage with so many cases starts."""

    def playing(self, case: Case, done: int, remaining: float) -> None:
        """A duet or launch starts; the stage's next decisions take `remaining` s about."""

    def played(self, duet: Duet) -> None:
        """A duet ended."""

    def note(self, sentence: str) -> None:
        """Something that a reader of the comparison should know."""

    def end(self) -> None:
        """It is over, in whatever way."""


def outcome(duet: Duet) -> str:
    """What a duet gave, in a line: changes of head against base, or why it does not count."""
    failing = [
        f"{side}: {flag.name}: {flag.detail}"
        for side, flags in (("base", duet.flags_base), ("head", duet.flags_head))
        for flag in flags
        if flag.severity == "fail"
    ]
    if failing:
        return "void: " + "; ".join(failing)
    changes = [
        f"{METRICS[name].title} {duet.head[name] / duet.base[name] - 1:+.1%}"
        for name in BRIEF
        if duet.base.get(name) and duet.head.get(name)
    ]
    warnings = sorted({flag.name for flag in (*duet.flags_base, *duet.flags_head)})
    shown = ", ".join(changes) + (f"  [{', '.join(warnings)}]" if warnings else "")
    return shown if is_usable(duet) else f"not used: {shown}"


class PlainReporter:
    """One line per duet, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def begin(self, cases: int, seconds: float, budget: float | None) -> None:
        """Say how much there is to do."""
        limit = "" if budget is None else f", at most {duration(budget)}"
        counted = f"{cases} {'case' if cases == 1 else 'cases'}"
        self._print(f"{counted}; a first answer takes about {duration(seconds)}{limit}")

    def stage(self, name: str, cases: int) -> None:
        """Name the stage."""
        self._print(f"{name}: {cases} {'case' if cases == 1 else 'cases'}")

    def playing(self, case: Case, done: int, remaining: float) -> None:
        """Nothing: a log wants no more than what came of it."""

    def played(self, duet: Duet) -> None:
        """Print the duet's line."""
        self._print(f"[{duet.order + 1}] {duet.stage} {duet.case}  {outcome(duet)}")

    def note(self, sentence: str) -> None:
        """Print the sentence."""
        self._print(f"note: {sentence}")

    def end(self) -> None:
        """Nothing to close."""


class LiveReporter(PlainReporter):
    """The same lines above one that says what is going on."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._status: Status = console.status("starting")
        self._stage = ""

    def begin(self, cases: int, seconds: float, budget: float | None) -> None:
        """Say how much there is to do, and show the line."""
        super().begin(cases, seconds, budget)
        self._status.start()

    def stage(self, name: str, cases: int) -> None:
        """Name the stage."""
        super().stage(name, cases)
        self._stage = name
        self._status.update(Text(name))

    def playing(self, case: Case, done: int, remaining: float) -> None:
        """Show what is measured, and how long the next decisions will take."""
        text = f"{self._stage} {case.id}, {done} done, next decisions in {duration(remaining)}"
        self._status.update(Text(text))

    def end(self) -> None:
        """Remove the line."""
        self._status.stop()


def reporter(console: Console) -> Reporter:
    """The live reporter on a terminal, the plain one elsewhere."""
    return LiveReporter(console) if console.is_terminal else PlainReporter(console)

"""What a person sees while something goes on: a live line on a terminal, plain lines in logs."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import rich.progress
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn
from rich.text import Text

Tick = Callable[[str], None]
"""Called from time to time with a few words about how far a step is."""

_QUIET_S: Final = 30.0
"""A log gets a sign of life so often."""


def duration(seconds: float) -> str:
    """Format a waiting time: `48 s`, `12 min 05 s`."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"


class Narrator:
    """Says what is done, step by step."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, sentence: str | Text) -> None:
        """Print a sentence."""
        self._console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def step(self, what: str, why: str) -> Iterator[Tick]:
        """Announce a step, show that it lives, and say how long it took."""
        started = time.monotonic()
        if self._console.is_terminal:
            with self._console.status(Text(f"{what}: {why}")) as status:

                def show(detail: str) -> None:
                    passed = duration(time.monotonic() - started)
                    line = Text(f"{what}: {why}  ")
                    status.update(line.append(f"{passed}  {detail[-60:]}", style="dim"))

                yield show
        else:
            self.say(f"{what}: {why}")
            last = started

            def tick(detail: str) -> None:
                nonlocal last
                now = time.monotonic()
                if now - last >= _QUIET_S:
                    last = now
                    self.say(f"  … {duration(now - started)}: {detail[-100:]}")

            yield tick
        self.say(f"{what}: done in {duration(time.monotonic() - started)}")


class Progress(Narrator):
    """Many pieces of work: a line for each, and on a terminal a bar with the time left below."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._total: int | None = None
        self._tenth = 0
        self._bar = rich.progress.Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            rich.progress.TimeElapsedColumn(),
            _Remaining(),
            TextColumn("{task.fields[phase]}", style="dim", markup=False),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=None, ends=None, until="left", phase="")

    def start(
        self, sentence: str, seconds: float, total: int | None = None, until: str = "left"
    ) -> None:
        """Say how much there is to do, and show the bar.

        `seconds` is the expected time until the end, or until what `until` says; `total` the pieces
        of work, None while they are not known.
        """
        self.say(sentence)
        self._total = total
        ends = self._bar.get_time() + seconds
        self._bar.update(self._task, total=total, ends=ends, until=until)
        self._bar.start()

    def work(self, name: str, done: int, remaining: float) -> None:
        """A piece of work starts; `remaining` s are left. A log hears of each tenth of them."""
        ends = self._bar.get_time() + remaining
        self._bar.update(self._task, description=name, completed=done, ends=ends)
        tenth = 10 * done // self._total if self._total else 0
        if tenth > self._tenth and not self._console.is_terminal:
            self._tenth = tenth
            self.say(f"{done} of {self._total} done, {duration(remaining)} left")

    def phase(self, name: str) -> None:
        """The piece of work goes on to a phase, such as warming up; only the bar shows it."""
        self._bar.update(self._task, phase=name)

    def note(self, sentence: str) -> None:
        """Say something that a reader of the result should know."""
        self.say(Text(f"note: {sentence}", style="yellow"))

    def end(self) -> None:
        """Remove the bar: it is over, in whatever way."""
        self._bar.stop()


class _Remaining(ProgressColumn):
    """The time left, which goes down while a piece of work takes its time."""

    def render(self, task: rich.progress.Task) -> Text:
        ends, until = task.fields["ends"], task.fields["until"]
        left = "" if ends is None else f"{duration(max(0.0, ends - task.get_time()))} {until}"
        return Text(left, style="progress.remaining")

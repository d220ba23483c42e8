"""What commands print: texts, JSON, and progress.

The text of a file must not control the terminal that shows it. Rich lets control characters through
(its filter of control codes keeps ESC), so everything that it prints goes through `Console`, and
JSON through `print_json`. Progress is a live line on a terminal, and plain lines in logs.
"""

import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import rich.console
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from duetbench.core.text import visible, visible_json

PLAIN_WIDTH: Final = 120
"""Columns of files and pipes, which have no width of their own, unless COLUMNS sets another."""


STANDARD: Final = Path("-")
"""Stands for standard output where a file is named."""

SUMMARY: Final = "GITHUB_STEP_SUMMARY"
MOST_SUMMARY: Final = 1_000_000
"""Largest summary, bytes; GitHub refuses more than 1 MiB for all of it."""

BRIEF_STEP_S: Final = 5.0
"""Seconds up to which a step prints no line, so the first minute of a run fits one screen."""


class Console(rich.console.Console):
    """Rich's console; only its own styles and movements control a terminal.

    Rich first lays out tables, without width for control characters: a cell may lose its end.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"highlight": False, "emoji": False, **settings})
        fixed = "width" in settings or os.environ.get("COLUMNS", "").isdigit()
        if not (fixed or self.is_terminal):
            self.width = PLAIN_WIDTH
        if isinstance(self.file, io.TextIOWrapper) and self.options.ascii_only:
            self.file.reconfigure(errors="backslashreplace")  # an unprintable character is no error

    def say(self, sentence: str) -> None:
        """Print a sentence without mark-up; the terminal wraps it."""
        self.print(sentence, markup=False, soft_wrap=True)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                # GitHub's runner interprets `##[` anywhere in a line.
                yield Segment(visible(segment.text).replace("##[", "# #["), segment.style)


def errors() -> Console:
    """The console for notes and errors: standard error."""
    return Console(stderr=True)


def print_json(value: Any) -> None:
    """Print a value as JSON, for programs."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    write(f"{visible_json(text)}\n")


def write(text: str, output: Path = STANDARD) -> None:
    """Write a text to a file, or to standard output."""
    if output == STANDARD:
        sys.stdout.write(text)
        sys.stdout.flush()  # a closed pipe raises its error here, not when the interpreter ends
    else:
        output.write_text(text, "utf-8")


def write_summary(markdown: str) -> None:
    """Add to the page of a job in GitHub Actions, if this is one: `actions` has the rest of it."""
    if path := os.environ.get(SUMMARY):
        text = markdown.encode()[:MOST_SUMMARY].decode(errors="ignore")
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text.rstrip("\n") + "\n\n")


def duration(seconds: float) -> str:
    """Format a waiting time: `48 s`, `12 min 05 s`; a time that is over is `0 s`."""
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"


class Narrator:
    """Prints what is being done, step by step."""

    def __init__(self, console: rich.console.Console) -> None:
        self._console = console

    def say(self, sentence: str | Text) -> None:
        self._console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def step(self, what: str, why: str) -> Iterator[Callable[[str], None]]:
        """Show a step on a terminal while it lasts, and print its duration if it was long.

        Call the result from time to time with a few words about the progress. A log, which shows
        no status, gets a line when the step has become long.
        """
        started, silent = time.monotonic(), not self._console.is_terminal
        with self._console.status(Text(f"{what}: {why}")) as status:

            def show(detail: str) -> None:
                nonlocal silent
                seconds = time.monotonic() - started
                if silent and seconds >= BRIEF_STEP_S:
                    silent = False
                    self.say(f"{what}: {why}")
                line = Text(f"{what}: {why}  ")
                status.update(line.append(f"{duration(seconds)}  {detail[-60:]}", style="dim"))

            yield show
        if (seconds := time.monotonic() - started) >= BRIEF_STEP_S:
            self.say(f"{what}: done in {duration(seconds)}")


class Progress(Narrator):
    """Many pieces of work: a line for each, and on a terminal one below with the time left."""

    _until = "left"

    def __init__(self, console: rich.console.Console) -> None:
        super().__init__(console)
        self._status = console.status("")

    def start(self, sentence: str, seconds: float, until: str = "left") -> None:
        """Print how much there is to do, and show the line.

        `seconds` is the expected time until the end, or until the event named by `until`.
        """
        self.say(sentence)
        self._until = until
        self.work("starting", 0, seconds)
        self._status.start()

    def work(self, name: str, done: int, remaining: float) -> None:
        """Show that a piece of work starts after `done` others, and `remaining` s are left."""
        left = f"{done} done, {duration(remaining)} {self._until}"
        self._status.update(Text(f"{name}  ").append(left, style="dim"))

    def note(self, sentence: str) -> None:
        """Print what a reader of the result should know."""
        self.say(Text(f"note: {sentence}", style="yellow"))

    def end(self) -> None:
        """Remove the line."""
        self._status.stop()

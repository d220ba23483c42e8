"""What verbs print: the text of a file is shown on a terminal, and does nothing there.

Rich lets control characters through (its `strip_control_codes` leaves ESC as it is), so everything
that is printed with it goes through `Console`, and JSON through `print_json`.
"""

import codecs
import io
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import rich.console
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from duetbench.core.errors import RecordError
from duetbench.core.text import ASCII, CONTROL, visible, visible_json

PLAIN_WIDTH: Final = 120
"""Columns of files and pipes, which have no width to ask for, unless COLUMNS says another."""


_ASCII: Final = "duetbench-ascii"


def _in_ascii(problem: UnicodeError) -> tuple[str, int]:
    """Our typography in the letters that an output has: what it cannot show is no failure."""
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    lost = problem.object[problem.start : problem.end].translate(ASCII)
    return lost.encode("ascii", "replace").decode(), problem.end


codecs.register_error(_ASCII, _in_ascii)


class Console(rich.console.Console):
    """Rich's console; of what it prints, only its own styles and movements act on a terminal.

    Rich lays tables out before, in which such characters have no width: a cell may lose its end.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"highlight": False, **settings})
        fixed = "width" in settings or os.environ.get("COLUMNS", "").isdigit()
        if not (fixed or self.is_terminal):
            self.width = PLAIN_WIDTH
        if isinstance(self.file, io.TextIOWrapper) and self.options.ascii_only:
            self.file.reconfigure(errors=_ASCII)

    def say(self, sentence: str) -> None:
        """Print a sentence: without mark-up in it, and wrapped by whoever shows it."""
        self.print(sentence, markup=False, soft_wrap=True)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or not CONTROL.search(segment.text):
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)


def errors() -> Console:
    """The console of notes and complaints: standard error."""
    return Console(stderr=True)


def print_json(value: Any) -> None:
    """Print a value as JSON, for programs."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    write(visible_json(text) + "\n", None)


def write(text: str, output: Path | None) -> None:
    """Write a text to a file; None: to standard output.

    Raises:
        RecordError: It cannot be written.
    """
    if output is None:
        sys.stdout.write(text)
        sys.stdout.flush()  # here a closed pipe is met, and not when the interpreter ends
        return
    try:
        output.write_text(text, "utf-8")
    except OSError as problem:
        raise RecordError(f"{output}: cannot be written: {problem.strerror}") from problem

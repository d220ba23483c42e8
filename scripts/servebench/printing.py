"""What is printed: the text of a file is shown on a terminal, and does nothing there.

Rich takes no notice of control characters (mark-up is another matter, and its
`strip_control_codes` leaves ESC as it is), so all that verbs print by it goes through here; plain
text goes through `text.visible`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

import rich.console
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from servebench.text import CONTROL, visible

PLAIN_WIDTH: Final = 120
"""Columns of files and pipes, which have no width to ask for, unless COLUMNS says another."""


class Console(rich.console.Console):
    """Rich's console; of what it prints, only its own styles and movements act on a terminal.

    Rich lays tables out before, in which such characters have no width: a cell may lose its end.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        asked = "width" in settings or os.environ.get("COLUMNS", "").isdigit()
        if not (asked or self.is_terminal):
            self.width = PLAIN_WIDTH

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as rich does, with all text `visible`."""
        for segment in super().render(renderable, options):
            if segment.control or not CONTROL.search(segment.text):
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)

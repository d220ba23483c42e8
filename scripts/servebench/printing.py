"""What is printed: the text of a file is shown on a terminal, and does nothing there.

Rich takes no notice of control characters (mark-up is another matter, and its
`strip_control_codes` leaves ESC as it is), so all that verbs print by it goes through here; plain
text goes through `visible`.
"""

from __future__ import annotations

from collections.abc import Iterable

import rich.console
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from servebench.visible import ACTING, visible


class Console(rich.console.Console):
    """Rich's console; of what it prints, only its own styles and movements act on a terminal.

    Rich lays tables out before, in which such characters have no width: a cell may lose its end.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as rich does, with all text `visible`."""
        for segment in super().render(renderable, options):
            if segment.control or not ACTING.search(segment.text):
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)

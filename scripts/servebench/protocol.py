"""Numbers of the launch protocol that planning must know too, to say how long a launch takes."""

from __future__ import annotations

from typing import Final

from servebench.model import Profile

WINDOW_SECONDS: Final[dict[Profile, float]] = {"quick": 0.4, "nightly": 1.0, "published": 1.0}
"""Length of a warm-up window, s."""

RATE_WINDOWS: Final = 2
"""Windows that warm up a paced or open load: thousands of requests, more than it will send.

Whether they are steady says nothing about a load that is far below them.
"""

SLOW_SECONDS: Final = 0.1
"""Endpoints that take longer are warmed up by one wave: windows of a second would tell nothing."""

UNIT_REQUESTS: Final = 3
"""Single requests to the idle server, the fastest of which is the unit of its ceiling."""

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

DUET_SECONDS: Final = 1.5
"""Least load of a duet, s.

What differs from duet to duet is above all the memory that the kernel happened to give the two
servers: ratios scatter by about 1.1 % whether the load lasts 1.5 or 4 s (FastAPI's json on two
cores of a virtual machine, 12 duets of each), so short duets, and more of them, tell most per
minute. Address randomisation stays on: without it they scatter less (about 0.9 %), but the layout
that both sides then always get would be in every figure.
"""

DUET_WAVES: Final = 3.3
"""Times the service of a slow endpoint that a duet's load lasts at least: some whole waves."""

DUET_WARM_UP: Final = 1.2
"""Length of the warm-up of a duet, s: thousands of requests to any handler that is quick.

In windows the ratio of two servers that share a core scatters by more than 5 % from one 0.2 s to
the next, even on a quiet machine. Whether it was long enough is seen in the load: `duet.settled`.
"""

"""One side of a running duet: its server, and how its handler behaves.

Single requests to the idle server tell whether it computes or mostly waits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from duetbench.app.testbed import SideCase, server_of
from duetbench.core.comparison import SideName
from duetbench.core.model import Case, Load
from duetbench.core.protocol import DUET_WARM_UP, UNIT_REQUESTS
from duetbench.host import tree_usage
from duetbench.load import warmup
from duetbench.load.server import Serving

QUEUE_SECONDS: Final = 1.0
"""Most seconds that a target's connections take in turn: half of the load, as all may be answered
last. Loads that are fixed stay as they are."""

LEAST_WAIT: Final = 0.001
"""Seconds of an answer in which neither server nor client computes, from which its handler waits.
Less is the kernel's hand-over between them."""

REPEATED: Final = 12
"""Requests that show how much of a waiting one is work: the first ones to a server cost more."""

_TWICE: Final = 1.6  # times a single request from which some at once are two waves


class SideRun(Serving):
    """The server of one side of a running duet, with what its first requests showed."""

    burst: warmup.Burst
    warm_up: warmup.WarmUp

    def __init__(
        self, name: SideName, launched: Sequence[SideCase], loads: Sequence[Load], log: Path
    ) -> None:
        if len({server_of(part.case) for part in launched}) > 1:
            raise ValueError(f"{', '.join(part.case.id for part in launched)}: not of one server")
        self.name = name
        self.beside: tree_usage.MemorySample | None = None  # at the end of the last duet
        self.cases = [
            part.case.model_copy(update={"load": load})
            for part, load in zip(launched, loads, strict=True)
        ]
        super().__init__(replace(launched[0], case=self.cases[0]), log)

    def take(self, case: Case) -> None:
        super().take(case)
        self.declared = case.load
        self.work = 0.0  # core time of a request to the idle server, s
        self.wait = 0.0  # rest of its time, in which neither server nor client computes, s
        self.blocked = 0.0  # of its time, in which further requests have to wait, s
        self.metrics: dict[str, float] = {}

    def probe(self) -> None:
        """Check answers of the idle server, and measure the core time and the wait of one.

        The first request may import something, so a target that seems slow gets more requests.
        """
        self.work = waited = math.inf
        for repeats in (UNIT_REQUESTS, REPEATED):
            before, earlier = self.edge(), len(self.answers)
            self.verify(1 if self.slow else repeats)
            used = tree_usage.cpu_between(before, self.edge())
            answers = self.answers[earlier:]
            self.work = min(self.work, used / len(answers))
            waited = min(waited, *(answer.waited for answer in answers))
            self.wait = waited - self.work
            light = self.work * self.case.load.connections <= QUEUE_SECONDS and not self.waits
            if light or self.testbed.subject.fixed:
                return
        if self.waits:
            # One more than it works on at once takes twice as long if they are answered in turn.
            single = self.wait + self.work
            with warmup.Burst(self.client, warmup.WAVE_SECONDS, self.least + 1) as burst:
                self.blocked = single * (burst.collect().seconds > _TWICE * single)

    @property
    def least(self) -> int:
        """Requests that it works on at once, at least."""
        return self.case.workers * (self.case.threads or 1)

    @property
    def single(self) -> float:
        """Seconds of a request to the idle server."""
        return self.work + max(0.0, self.wait)

    @property
    def waits(self) -> bool:
        """Whether its handler spends more time on waiting than on computing."""
        return self.wait > max(LEAST_WAIT, self.work)

    def begin_warm_up(self, stack: ExitStack, *, slow: bool) -> None:
        """Start the requests of a warm-up; a wave of them if either side is slow."""
        slots, seconds = self.case.slots, warmup.WAVE_SECONDS if slow else DUET_WARM_UP
        few = min(slots, self.case.load.connections) if slots else None
        self.burst = stack.enter_context(warmup.Burst(self.client, seconds, few))

    def end_warm_up(self) -> None:
        with self.burst:
            self.warm_up = self.burst.collect()

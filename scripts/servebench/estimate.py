"""How long a run will still take, corrected by what its launches really took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

PRIOR_LAUNCHES = 4.0
"""Weight of the declared expectation, in launches: the correction grows in over the first few."""


@dataclass(slots=True)
class Estimate:
    """Expected and observed seconds of a run's launches.

    The declared expectation knows durations, waits and drains; what it cannot know is how quick
    this machine starts interpreters. That difference is an overhead per launch, so the correction
    is additive: the mean of (observed - expected), shrunk towards zero while launches are few.
    """

    expected: Sequence[float]
    _errors: list[float] = field(default_factory=list)

    def observe(self, seconds: float) -> None:
        """Note what the next launch of the sequence took, in s."""
        self._errors.append(seconds - self.expected[len(self._errors)])

    @property
    def correction(self) -> float:
        """Seconds to add to each launch still to come."""
        return sum(self._errors) / (len(self._errors) + PRIOR_LAUNCHES)

    @property
    def remaining(self) -> float:
        """Seconds that the launches still to come will take."""
        left = self.expected[len(self._errors) :]
        return sum(max(0.0, seconds + self.correction) for seconds in left)

    @property
    def total(self) -> float:
        """Seconds for the whole sequence: observed so far plus what remains."""
        done = len(self._errors)
        return sum(self.expected[:done]) + sum(self._errors) + self.remaining

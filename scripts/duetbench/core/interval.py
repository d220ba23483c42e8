"""`Interval`: the one shape of a figure with its uncertainty. Pure."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure in SI units, or a ratio, with its 95 % interval.

    Attributes:
        estimate: The figure itself.
        low: Lower end; None, as `high`, where nothing is known of the scatter (one sample).
        high: Upper end.
        n: Samples that it rests on: launches, duets.
    """

    confidence: ClassVar[float] = 0.95

    estimate: float
    low: float | None = None
    high: float | None = None
    n: int = 1

    @property
    def ends(self) -> tuple[float, float] | None:
        """Both ends, or None."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def spread(self) -> float | None:
        """The longer half as a share of the figure; None without ends, or of zero."""
        if self.ends is None or self.estimate == 0:
            return None
        low, high = self.ends
        return max(high - self.estimate, self.estimate - low) / abs(self.estimate)

    def excludes(self, value: float) -> bool:
        """Whether the value lies outside; False without ends."""
        return self.ends is not None and not self.ends[0] <= value <= self.ends[1]

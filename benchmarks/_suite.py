"""The code and packages under test, reasons to skip, and a clock that leaves out preparations.

asv's environment plugin names the checkout whose applications are imported, and the stack whose
packages are installed, in two variables of the environment.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar

CHECKOUT = "DUETBENCH_CHECKOUT"
STACK = "DUETBENCH_STACK"

_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")


def tree() -> Path:
    """The checkout that these suites belong to.

    Parameters of benchmarks come from here. asv addresses them by position, so the process that
    lists them and those that run them must see the same ones, for any commit.
    """
    return Path(__file__).resolve().parents[1]


def checkout() -> Path:
    """The checkout under test; without asv's plugin, which names a commit's, that of the suites."""
    return Path(os.environ.get(CHECKOUT, tree())).resolve()


def stack() -> str:
    """The stack whose packages this interpreter has; RuntimeError if it is unknown."""
    try:
        return os.environ[STACK]
    except KeyError:
        raise RuntimeError(
            f"expected the name of a stack in {STACK}, found nothing: run this through asv, "
            "or set it to the stack whose environment this is"
        ) from None


def load_module(experiment: str, module: str) -> Any:
    """Import a module of an experiment of the commit under test."""
    apps = checkout() / "apps"
    search = [str(apps / experiment), str(apps)]
    sys.path[:0] = search
    try:
        return importlib.import_module(module)
    finally:
        for folder in search:
            sys.path.remove(folder)


def under_asv() -> bool:
    """Whether asv's environment plugin started this process."""
    return STACK in os.environ


def skip(reason: str) -> NoReturn:
    """End a benchmark without a figure (asv shows n/a); call it in its body, never in a `setup`."""
    from asv_runner.benchmarks.mark import SkipNotImplemented  # noqa: PLC0415 - only asv has it

    sys.stderr.write(f"skipped: {reason}\n")  # asv stores it with the n/a
    raise SkipNotImplemented(reason)


def require_stack(*names: str) -> None:
    """Skip the benchmark on any other stack."""
    if stack() not in names:
        skip(f"it is for stack {', '.join(names)}; this is {stack()}")


class Clock:
    """A `timer` for asv that stands still while a benchmark builds its fixtures.

    asv would build fixtures in `setup`, but times a benchmark with a single call one by one. So the
    first call builds them, off the clock: even the single call of `asv run --quick` measures only
    the work, cold. Fixtures that take longer than a benchmark's `warmup_time` must be imported
    before (`under_asv`), or asv takes the first call for a slow one.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._left_out = 0.0

    def __call__(self) -> float:
        return self._now() - self._left_out

    def leaves_out(self, build: Callable[_Args, _Result]) -> Callable[_Args, _Result]:
        """Decorate a function whose time does not count. Put `functools.cache` on top of it."""

        @functools.wraps(build)
        def unseen(*args: _Args.args, **kwargs: _Args.kwargs) -> _Result:
            start = self._now()
            try:
                return build(*args, **kwargs)
            finally:
                self._left_out += self._now() - start

        return unseen

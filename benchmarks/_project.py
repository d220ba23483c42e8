"""The code under test, the stack that runs it, and a clock that leaves out preparations.

Standard library only. asv's environment plugin sets two variables: `DUETBENCH_CHECKOUT`, the
commit that is measured, and `DUETBENCH_STACK`, the stack whose packages are installed.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar

_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")

_CHECKOUT = "DUETBENCH_CHECKOUT"
_STACK = "DUETBENCH_STACK"
_applications: set[str] = set()  # names of the modules that `load_module` imported


def tree() -> Path:
    """The checkout that these suites belong to.

    Parameters of benchmarks come from here. asv addresses them by position, so the process that
    lists them and those that run them must see the same ones, for any commit.
    """
    return Path(__file__).resolve().parents[1]


def checkout() -> Path:
    """The checkout whose applications are measured: asv's, or else the one of these suites."""
    return Path(os.environ.get(_CHECKOUT) or tree()).resolve()


def under_asv() -> bool:
    """Whether asv's environment plugin started this process."""
    return _STACK in os.environ


def stack() -> str:
    """The stack whose packages this interpreter has; RuntimeError if it is unknown."""
    try:
        return os.environ[_STACK]
    except KeyError:
        raise RuntimeError(
            f"expected the name of a stack in {_STACK}, found nothing: run this through asv, "
            "or set it to the stack whose environment this is"
        ) from None


def skip(reason: str) -> NoReturn:
    """End a benchmark without a figure (asv shows n/a); call it in its body, never in a `setup`."""
    from asv_runner.benchmarks.mark import SkipNotImplemented  # noqa: PLC0415 - only asv has it

    sys.stderr.write(f"skipped: {reason}\n")  # asv stores it with the n/a
    raise SkipNotImplemented(reason)


def require_stack(*names: str) -> None:
    """Skip the benchmark on any other stack."""
    if stack() not in names:
        skip(f"it is for stack {', '.join(names)}; this is {stack()}")


def load_app(experiment: str, app: str, env: Mapping[str, str] | None = None) -> Any:
    """Import an application (`module:attribute`) of an experiment of the commit under test.

    `env` is set during the import. The same call returns the same object; another `env` imports it
    again.
    """
    module, _, attribute = app.partition(":")
    return getattr(load_module(experiment, module, env), attribute)


def load_module(experiment: str, module: str, env: Mapping[str, str] | None = None) -> Any:
    """Import a module of an experiment of the commit under test; the rest as in `load_app`."""
    return _load_module(checkout(), experiment, module, tuple(sorted((env or {}).items())))


@functools.cache
def _load_module(root: Path, experiment: str, module: str, env: tuple[tuple[str, str], ...]) -> Any:
    apps = root / "apps"
    # Two experiments may have modules of the same name, or one is imported with two environments,
    # so the modules of an earlier call are removed first.
    for name in _applications:
        sys.modules.pop(name, None)
    _applications.clear()
    before = set(sys.modules)
    search = [str(apps / experiment), str(apps)]
    with _environment(dict(env)):
        sys.path[:0] = search
        importlib.invalidate_caches()
        try:
            return importlib.import_module(module)
        finally:
            for folder in search:
                sys.path.remove(folder)
            for name in set(sys.modules) - before:
                file = getattr(sys.modules[name], "__file__", None)
                if file and apps in Path(file).parents:
                    _applications.add(name)


@contextlib.contextmanager
def _environment(env: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in env}
    os.environ.update(env)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


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

"""The code under test, and the stack that runs it, by two variables of the environment.

`DUETBENCH_CHECKOUT` names the checkout whose applications are imported, `DUETBENCH_STACK` the stack
whose packages are installed.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from duetbench.app.inside.request import CHECKOUT, checkout

__all__ = ["CHECKOUT", "STACK", "checkout", "load_app", "load_module", "stack"]

STACK = "DUETBENCH_STACK"
_applications: set[str] = set()  # names of the modules that `load_module` imported


def stack() -> str:
    """The stack whose packages this interpreter has; RuntimeError if it is unknown."""
    try:
        return os.environ[STACK]
    except KeyError:
        raise RuntimeError(
            f"expected the name of a stack in {STACK}, found nothing: run this through asv, "
            "or set it to the stack whose environment this is"
        ) from None


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

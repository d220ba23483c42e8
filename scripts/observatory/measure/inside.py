"""The code under test, and the stack that runs it, by two variables of the environment.

`DUETBENCH_CHECKOUT` names the checkout whose applications are imported, `DUETBENCH_STACK` the stack
whose packages are installed. Standard library only: benchmarks import it in a stack's environment.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from duetbench.app.inside.request import CHECKOUT, checkout

__all__ = ["CHECKOUT", "STACK", "checkout", "load_module", "stack"]

STACK = "DUETBENCH_STACK"


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

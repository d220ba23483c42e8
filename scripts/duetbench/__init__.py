"""duetbench: what did this change do to our Python web stack, and which release did it?"""

# The names of the Python API (docs/agents.md) are imported when they are asked for first, so that
# importing duetbench takes no time.

from typing import TYPE_CHECKING, Any

from duetbench.core import __version__ as __version__

if TYPE_CHECKING:
    from duetbench.api import compare, decide, duet, observe, prepare, read, render
    from duetbench.app.setting import Contrast
    from duetbench.app.target import Target
    from duetbench.core.comparison import Comparison
    from duetbench.core.model import Run
    from duetbench.judge.preparation import Extent

__all__ = [
    "Comparison",
    "Contrast",
    "Extent",
    "Run",
    "Target",
    "compare",
    "decide",
    "duet",
    "observe",
    "prepare",
    "read",
    "render",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'duetbench' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - as quick as can be

    return getattr(import_module("duetbench.api"), name)

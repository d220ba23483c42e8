"""An attribution worked out by hand: 16,000 of 100,000 instructions more."""

from typing import Any

from duetbench.core.comparison import Attribution, FunctionChange, Instructions, PackageChange


def function(name: str, file: str, line: int, package: str) -> FunctionChange:
    """A function that neither side enters."""
    return FunctionChange(
        name=name, file=file, line=line, package=package, base=0, head=0, state="both"
    )


APP = function("App.__call__", "main.py", 3, "application")
ROUTE = function("route.<locals>.app", "fastapi/routing.py", 10, "fastapi")
DUMP = function("dump", "fastapi/encoders.py", 20, "fastapi")
COPY = function("Headers.copy", "starlette/data.py", 5, "starlette")
CHECK = function("old_check", "fastapi/old.py", 9, "fastapi")
SEND = function("send", "granian/asgi.py", 30, "granian")


def row(function: FunctionChange, base: float, head: float, **more: Any) -> FunctionChange:
    state = "came" if not base else "went" if not head else "both"
    return function.model_copy(update={"base": base, "head": head, "state": state, **more})


def attribution(**changed: Any) -> Attribution:
    fields: dict[str, Any] = {
        "case": "a/b",
        "python": "3.14.7t",
        "packages": (
            PackageChange(stack="current", package="fastapi", base="0.10.0", head="0.11.0"),
        ),
        "instructions": Instructions(base=80_000, head=92_000, spread=0.0015),
        "counted": 100_000,
        "threshold": 0.005,
        "seconds": 28.4,
        "rows": (
            row(COPY, 0, 8_000, caller=DUMP.name, entries=(0.0, 2.0)),
            row(ROUTE, 7_000, 13_000, caller=APP.name, entries=(1.0, 1.0)),
            row(DUMP, 10_000, 14_000, caller=ROUTE.name),
            row(CHECK, 3_000, 0, caller=ROUTE.name),
            row(SEND, 15_000, 16_000, caller=APP.name),
        ),
    }
    return Attribution(**{**fields, **changed})

"""An attribution worked out by hand: 16,000 of 100,000 instructions more."""

from datetime import UTC, datetime
from typing import Any

from duetbench.store.attribution import Attribution, Function, Row, Totals
from duetbench.store.change import StackState
from duetbench.store.comparison import PackageChange

APP = Function(name="App.__call__", file="main.py", line=3, package="application")
ROUTE = Function(name="route.<locals>.app", file="fastapi/routing.py", line=10, package="fastapi")
DUMP = Function(name="dump", file="fastapi/encoders.py", line=20, package="fastapi")
COPY = Function(name="Headers.copy", file="starlette/data.py", line=5, package="starlette")
CHECK = Function(name="old_check", file="fastapi/old.py", line=9, package="fastapi")
SEND = Function(name="send", file="granian/asgi.py", line=30, package="granian")


def row(function: Function, base: float, head: float, **more: Any) -> Row:
    state = "came" if not base else "went" if not head else "both"
    return Row(
        function=function,
        base=base,
        head=head,
        **{"state": state, **more},
    )


def attribution(**changed: Any) -> Attribution:
    fields: dict[str, Any] = {
        "id": "20261120-granian-0",
        "when": datetime(2026, 11, 20, 3, tzinfo=UTC),
        "duetbench": "0.1.0",
        "case": "a/b",
        "python": "3.14.7t",
        "base": StackState(stack="current", digest="0" * 64),
        "head": StackState(stack="current", digest="1" * 64),
        "packages": (
            PackageChange(stack="current", package="fastapi", base="0.10.0", head="0.11.0"),
        ),
        "totals": Totals(base=80_000, head=92_000),
        "spread": 0.0015,
        "counted": Totals(base=100_000, head=116_000),
        "runs": 3,
        "threshold": 0.005,
        "seconds": 28.4,
        "rows": (
            row(
                COPY,
                0,
                8_000,
                caller=DUMP.name,
                entries=(0.0, 2.0),
            ),
            row(ROUTE, 7_000, 13_000, caller=APP.name, entries=(1.0, 1.0)),
            row(DUMP, 10_000, 14_000, caller=ROUTE.name),
            row(CHECK, 3_000, 0, caller=ROUTE.name),
            row(SEND, 15_000, 16_000, caller=APP.name),
        ),
    }
    return Attribution(**{**fields, **changed})

"""What threads share, or do not: some 1 ms of Python each, without a framework.

Every function gives a number that is always the same.
"""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import Any

ROWS = 40
ENCODED = 10  # times
COUNTED = 4_000
TASKS = 4
CONTEXTS = 100


def make_rows() -> list[dict[str, Any]]:
    return [
        {"number": row, "name": f"row {row}", "ratio": row / 7, "tags": ["one", "two"]}
        for row in range(ROWS)
    ]


shared_rows = make_rows()
own = threading.local()
counter = [0]
counting = threading.Lock()
variables = [ContextVar(f"variable {number}", default=0) for number in range(20)]


def encode_shared() -> int:
    """Encode a list that all threads encode."""
    return sum(len(json.dumps(shared_rows)) for _ in range(ENCODED))


def encode_private() -> int:
    """Encode a list that is this thread's own."""
    try:
        rows = own.rows
    except AttributeError:
        rows = own.rows = make_rows()
    return sum(len(json.dumps(rows)) for _ in range(ENCODED))


def count_shared() -> int:
    """Count on a counter that all threads count on, each step under its lock."""
    for _ in range(COUNTED):
        with counting:
            counter[0] += 1
    return COUNTED


def make_executor() -> int:
    """Make a pool of threads, which ends with the request."""
    with ThreadPoolExecutor(TASKS) as pool:
        return sum(pool.map(abs, range(TASKS)))


def set_variables() -> int:
    """Set context variables that all threads set, each time in a context of its own."""
    return sum(copy_context().run(_add_one) for _ in range(CONTEXTS))


def _add_one() -> int:
    for variable in variables:
        variable.set(variable.get() + 1)
    return sum(variable.get() for variable in variables)

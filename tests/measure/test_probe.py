"""Who serves: every worker must answer, and be what the case names."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from duetbench.core.errors import FlagName, LaunchError
from duetbench.measure.identity import Identity, check_identity, probe
from tiny_http import Answer, serving

LOCK = {"fastapi": "0.163.2", "granian": "2.8.7", "pydantic": "2.14.3", "pywin32": "400"}


def identity(**changes: Any) -> Identity:
    known = {
        "pid": 100,
        "python": "3.14.7",
        "build": "GCC 12.2.0 -O3 Py_GIL_DISABLED=0",
        "gil_enabled": True,
        "packages": {"fastapi": "0.163.2", "granian": "2.8.7", "pydantic": "2.14.3", "pip": "26"},
        "loop": "asyncio.unix_events._UnixSelectorEventLoop",
        "worker": "100-1",
    }
    return Identity.model_validate(known | changes)


def without_gil(**changes: Any) -> Identity:
    build = "GCC 12.2.0 -O3 Py_GIL_DISABLED=1"
    return identity(**{"build": build, "gil_enabled": False} | changes)


def check(
    *identities: Identity, free_threaded: bool = False, version: str = "3.14.7", **more: Any
) -> None:
    check_identity(
        identities, free_threaded=free_threaded, python_version=version, packages=LOCK, **more
    )


@pytest.mark.parametrize("on", [True, False])
def test_a_jit_is_on_where_it_should_be_and_nowhere_else(on: bool) -> None:
    """Unless the case says itself whether it is."""
    found = identity(jit_enabled=on)
    check(found, jit=on)
    check(found, jit=None)
    words = "off, found it on" if on else "on, found it off"
    with pytest.raises(LaunchError, match=f"wrong_runtime.*expected the JIT to be {words}"):
        check(found, jit=not on)


def workers(*numbers: int) -> Callable[[str, int], Answer]:
    def behaviour(path: str, n: int) -> Answer:
        assert path == "/_duetbench/identity"
        number = numbers[min(n, len(numbers) - 1)]
        body = identity(pid=number, worker=f"{number}-a").model_dump_json().encode()
        return Answer(body=body, media="application/json")

    return behaviour


def test_the_right_workers_pass() -> None:
    check(identity(), identity(worker="100-2"), required=["FastAPI"], loop="asyncio")
    check(without_gil(loop="uvloop.Loop"), free_threaded=True, loop="uvloop")
    check(identity(loop=None), loop="none")
    check(identity(packages={"FastAPI": "0.163.2"}))


@pytest.mark.parametrize(
    ("found", "free_threaded", "words"),
    [
        (without_gil(gil_enabled=True), True, "expected the GIL to be off, found it on"),
        (identity(), True, "expected the GIL to be off"),
        (without_gil(), False, "expected the GIL to be on, found it off"),
        # PYTHON_GIL=1 on a free-threaded build: the GIL is on, and yet it is another interpreter.
        (without_gil(gil_enabled=True), False, "Py_GIL_DISABLED=0, found GCC"),
    ],
)
def test_a_gil_in_the_wrong_state_is_named(
    found: Identity, free_threaded: bool, words: str
) -> None:
    right = without_gil() if free_threaded else identity()
    with pytest.raises(LaunchError, match=re.escape(words)) as caught:
        check(right, found, free_threaded=free_threaded)
    assert caught.value.flag is FlagName.WRONG_RUNTIME


@pytest.mark.parametrize(
    ("found", "more", "words"),
    [
        (identity(python="3.14.6"), {}, "expected Python 3.14.7, found 3.14.6"),
        (identity(packages={"pydantic": "1.10.27"}), {},
         "pydantic: expected 2.14.3, found 1.10.27"),
        (identity(packages={"fastapi": "0.163.2"}), {"required": ["pydantic"]},
         "pydantic: expected 2.14.3, found none installed"),
        (identity(packages={"uvicorn": "0.54.0"}), {"required": ["uvicorn"]},
         "uvicorn: expected it in the lock, found 0.54.0 installed"),
        (identity(), {"loop": "uvloop"}, "expected the event loop uvloop, found asyncio."),
        (identity(loop=None), {"loop": "asyncio"}, "expected the event loop asyncio, found None"),
    ],
)  # fmt: skip
def test_another_version_is_named(found: Identity, more: dict[str, Any], words: str) -> None:
    with pytest.raises(LaunchError, match=re.escape(words)) as caught:
        check(found, **more)
    assert caught.value.flag is FlagName.WRONG_RUNTIME
    assert "worker 100-1" in caught.value.detail


@pytest.mark.real
def test_every_worker_answers() -> None:
    """The second worker gets only the seventh connection: the probe goes on until then."""
    with serving(workers(*[2] * 6, 1, 2)) as server:
        found = probe(server.url, workers_expected=2)
        assert server.connections >= 7
    assert sorted(one.pid for one in found) == [1, 2]


@pytest.mark.real
@pytest.mark.parametrize(
    ("numbers", "flag", "words"),
    [
        ((7,), FlagName.NOT_READY, "found 1 (7-a)"),
        ((1, 2, 3), FlagName.SERVER_DIED, "expected 2 workers, found 3"),
    ],
)
def test_a_worker_too_few_or_too_many(numbers: tuple[int, ...], flag: FlagName, words: str) -> None:
    """One that never answers is missed; one too many is a restart."""
    with serving(workers(*numbers)) as server, pytest.raises(LaunchError) as caught:
        probe(server.url, workers_expected=2, timeout=2)
    assert caught.value.flag is flag
    assert "expected 2 workers" in caught.value.detail
    assert words in caught.value.detail

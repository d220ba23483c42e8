"""Samples of loaded servers: stacks as perf writes them, and figures worked out by hand."""

import math
from pathlib import Path

import pytest

from bench import declared, shortened
from duetbench.core.errors import CountError
from duetbench.judge.why.live import compared
from duetbench.judge.why.naming import Name
from duetbench.measure import sampling, testbed
from duetbench.measure.duet import SideCase
from duetbench.measure.instructions.dumps import Code

SCRIPT = """\
granian-worker
\t    7f3a91f0a1c4 py::greet:/apps/asgi_app.py+0xb (/tmp/jitted-812-77.so)
\t    7f3a91f0b0c4 py::Router.<locals>.app:/site/starlette/routing.py+0xb (/tmp/jitted-812-78.so)

granian-worker
\t          51f3c0 dict_getitem+0x20 (/opt/python/bin/python3.14)
\t    7f3a91f0a1c4 py::greet:/apps/asgi_app.py+0xb (/tmp/jitted-812-77.so)

rsgi-0
\tffffffff8c2b0e31 tcp_sendmsg+0x21 ([kernel.kallsyms])
\t    7f3a90c11d4f __send+0x4f (/usr/lib/libc.so.6)

rsgi-0
\t    7f3a8ffc0c11 [unknown] (/site/granian/_granian.cpython-314-x86_64-linux-gnu.so)
"""


def test_a_sample_belongs_to_the_innermost_python_function_or_to_its_module() -> None:
    greet = Code("greet", "/apps/asgi_app.py")
    assert list(sampling.places(SCRIPT.splitlines(keepends=True))) == [
        greet, greet, Code("", "[kernel.kallsyms]"),
        Code("", "/site/granian/_granian.cpython-314-x86_64-linux-gnu.so"),
    ]  # fmt: skip


def place(name: str) -> Name:
    return Name(name, f"{name}.py", "web")


def test_differences_stand_with_an_interval_that_holds_for_all_functions() -> None:
    """`slow` takes 8, 10 and 12 µs more: 10 ± t · 2/√3, t of 1 − 0.05/4 at two degrees: 6.205."""
    base = [{place("slow"): 50e-6, place("same"): 50e-6, place("tiny"): 0.4e-6}] * 3
    head = [
        {place("slow"): (50 + more) * 1e-6, place("same"): (50 + other) * 1e-6}
        for more, other in ((8, 1), (10, -1), (12, 0))
    ]
    found = compared(base, head)
    assert found.launches == 3
    assert found.base == pytest.approx(100.4e-6)
    first, second = found.rows
    assert (first.function.name, first.sure) == ("slow", True)
    half = 6.205 * 2 / math.sqrt(3)
    assert (first.low, first.high) == pytest.approx(((10 - half) * 1e-6, (10 + half) * 1e-6), 1e-3)
    assert (second.function.name, second.sure) == ("same", False)


@pytest.mark.real
def test_a_loaded_server_is_sampled_and_leaves_nothing(tmp_path: Path) -> None:
    """FastAPI's functions have a good share of the time: they are entered in each request."""
    if lacking := sampling.missing():
        pytest.skip(lacking)
    short = shortened(declared("asgi-wsgi/asgi-json/py3.14/w1/c128"), duration=1.0)
    left = set(Path("/tmp").glob("jit*"))
    try:
        found = sampling.sample(
            SideCase(short, testbed.assemble([short], tmp_path)), tmp_path / "x.log"
        )
    except CountError as error:
        if "cannot sample here" in str(error):
            pytest.skip(str(error))
        raise
    routing = sum(s for place, s in found.items() if place.file.endswith("fastapi/routing.py"))
    assert 0.02 < routing / sum(found.values()) < 0.8  # 14 % where this was written
    assert set(Path("/tmp").glob("jit*")) <= left

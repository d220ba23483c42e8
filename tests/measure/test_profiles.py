"""Dumps with all callers apart: a small one by hand, and a real program whose work is known."""

import json
import os
from pathlib import Path

import pytest

from duetbench.core.errors import CountError
from duetbench.host import paths
from duetbench.measure.instructions import profiling
from duetbench.measure.instructions.profiling import TRAMPOLINE, Code, Profile
from duetbench.measure.testbed import ENTRY
from duetbench.project.project import Project

MAP = """\
7878000 8 py::handle:/env/site-packages/web/app.py
7878020 8 py::Model.dump:/env/site-packages/web/models.py
"""

# `handle` calls `dump` and itself; `dump` calls the stripped extension, which calls the allocator.
DUMP = """\
# callgrind format
events: Ir

ob=(1) /python/bin/python3.14
fl=(1) eval.c
fn=(1) eval'0x0000000007878000'py_trampoline_evaluator
1 100
+3 20
cfn=(2) eval'2'0x0000000007878020'eval'0x0000000007878000'py_trampoline_evaluator
calls=2 0
* 999

fn=(2)
7 30

fn=(3) py_trampoline_evaluator
* 5

ob=(2) ???
fn=(4) 0x0000000007878020'eval'0x0000000007878000'py_trampoline_evaluator
0 6
fn=(7) eval'0x0000000007878000'eval'0x0000000007878000'py_trampoline_evaluator
0 8

ob=(3) /env/site-packages/core/core.cpython-314.so
fn=(5) 0x0000000000201000'eval'0x0000000007878020'eval'0x0000000007878000'py_trampoline_evaluator
cob=(4) /lib/libc.so.6
cfn=(6) malloc@@GLIBC_2.2.5'0x0000000000201000'eval'0x0000000007878020'eval'0x0000000007878000'x
calls=1 0
0 70
0 40

ob=(4)
fn=(6)
0 70

totals: 279
"""

HANDLE = Code("handle", "/env/site-packages/web/app.py")
DUMPED = Code("Model.dump", "/env/site-packages/web/models.py")
CORE = Code("core", "/env/site-packages/core/core.cpython-314.so")


def test_instructions_belong_to_the_innermost_function_and_to_the_extension_that_it_is_in() -> None:
    found = profiling.read_chains(
        DUMP.splitlines(), profiling.read_stubs(MAP), "/env/site-packages"
    )
    assert found == {
        (): {TRAMPOLINE: 5},
        (HANDLE,): {"eval": 120},
        (HANDLE, HANDLE): {"eval": 8},
        (HANDLE, DUMPED): {"eval": 30, TRAMPOLINE: 6},
        (HANDLE, DUMPED, CORE): {"core (no symbols)": 40, "malloc": 70},
    }


def test_a_dump_that_was_cut_short_is_none() -> None:
    lines = DUMP.splitlines()
    for short in (lines[:-1], [*lines[:8], lines[-1]]):
        with pytest.raises(CountError, match="add up to its total"):
            profiling.read_chains(short, {}, "/env")


def test_a_median_is_that_of_each_symbol_of_each_chain() -> None:
    every = [
        Profile({(HANDLE,): {"a": 1.0, "b": 5.0}, (): {"a": 2.0}}, Path(), Path()),
        Profile({(HANDLE,): {"a": 3.0}}, Path(), Path()),
        Profile({(HANDLE,): {"a": 9.0, "b": 4.0}}, Path(), Path()),
    ]
    assert profiling.median(every).chains == {(HANDLE,): {"a": 3.0, "b": 4.0}, (): {"a": 0.0}}


PAYLOAD = """
from duetbench.measure.instructions.phases import Unit, run

def inner():
    return sorted(range(400))

def outer():
    return [inner() for _ in range(3)]

run(lambda target: Unit(outer, n=5, warmup=5))
"""


def test_a_real_profile_has_the_work_where_it_is_done(tmp_path: Path) -> None:
    program = tmp_path / "payload.py"
    program.write_text(PAYLOAD)
    python = Project.here().interpreter("3.14t").executable
    found = profiling.profile(python, ["-P", str(program)], "it")
    outer, inner = (Code(one, str(program)) for one in ("outer", "inner"))
    own = {chain: sum(symbols.values()) for chain, symbols in found.chains.items()}
    assert set(own) == {(), (outer,), (outer, inner)}
    # 1,200 numbers are made and sorted; each takes ten instructions at the very least.
    assert own[outer, inner] > 12_000
    assert max(own, key=lambda chain: own[chain]) == (outer, inner)


SHOP = """
from pathlib import Path

def make():
    def app(environ, start_response):
        start_response("203 So", [("Content-Type", "text/plain")])
        return [read(environ["PATH_INFO"])]
    return app

def read(path):
    return Path("greeting").read_bytes() + path.encode()
"""


def test_an_application_is_asked_in_its_folder_without_a_server(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "greeting").write_text("Hello, ")
    env = {
        "PYTHONPATH": os.pathsep.join(map(str, (paths.OWN, ENTRY, tmp_path))),
        "DUETBENCH_CHECKOUT": str(tmp_path), "DUETBENCH_STACK": "project",
        "DUETBENCH_APP": "shop:make", "DUETBENCH_FACTORY": "1", "DUETBENCH_INTERFACE": "wsgi",
        "DUETBENCH_REQUEST": str(tmp_path / "request.json"),
    }  # fmt: skip
    asked = {"path": "/items/7", "paths": [], "method": "GET", "headers": {}, "body": ""}
    (tmp_path / "request.json").write_text(json.dumps({**asked, "status": 203}))
    python = Project.here().interpreter("3.14").executable
    found = profiling.count_entries(
        python, ["-P", "-m", "benchmarks._counted"], ["served/items"], env=env
    )
    functions = found["served/items"]
    assert not isinstance(functions, str), functions
    assert functions["read", str(tmp_path / "shop.py"), 10].entries == 1

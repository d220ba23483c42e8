"""The worked example of docs/observatory/maintaining.md: an experiment of one's own."""

import re
import shlex
import shutil
from typing import Final

import pytest

from bench import Bench
from duetbench.core.model import Run, Status
from duetbench.host import files, paths, result_files
from repos import write_all

_PROJECT: Final = paths.project_root()
_PAGE: Final = _PROJECT / "docs" / "observatory" / "maintaining.md"
_FENCE: Final = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BLOCKS: Final = _FENCE.findall(_PAGE.read_text("utf-8"))
_FILES: Final = {name: text for _, name, text in _BLOCKS if name}


@pytest.mark.real
def test_the_example_is_planned_measured_and_shown(bench: Bench) -> None:
    root = bench.folder / "checkout"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(_PROJECT / "apps", root / "apps", ignore=ignored)
    shutil.copy(_PROJECT / "pyproject.toml", root)
    (root / "results").mkdir()
    write_all(root, _FILES)
    bench.patch.setenv("DUETBENCH_ROOT", str(root))
    (console,) = [text for kind, _, text in _BLOCKS if kind == "console"]
    heard = []
    for line in console.splitlines():
        program, *words = shlex.split(line.removeprefix("$ "))
        heard.append(bench.done(*([program] if program == "observatory" else []), *words))
    assert "echo" in heard[0]
    assert "echo/py3.14t" in heard[1]
    run = files.read(Run, result_files.runs(root / "results")[-1])
    assert [result.case.id for result in run.results] == ["echo/echo/py3.14", "echo/echo/py3.14t"]
    for result in run.results:
        (launch,) = result.launches
        assert launch.status is Status.OK, launch.flags
        assert launch.metrics["requests"] > 100

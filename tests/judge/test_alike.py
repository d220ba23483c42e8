"""Both sides of a comparison are alike in all but what is compared: A/A of the whole path.

Duets of base against itself cannot see what is done to one side alone; these can.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

import duetbench
from bare import QUIET
from bench import Bench
from duetbench.core.errors import UsageError
from duetbench.core.metrics import MATERIAL
from duetbench.core.model import Verdict
from duetbench.judge import counted, preparation, revisions
from duetbench.judge.findings import of_instructions
from duetbench.judge.pairs import Side, Sides
from duetbench.judge.preparation import Scope
from duetbench.measure.instructions import counting
from duetbench.project.project import Project
from duetbench.project.setting import Contrast
from duetbench.project.target import Target
from duetbench.store import files
from duetbench.store.comparison import Comparison
from repos import asgi, commit, git, work_in


def functions(number: int) -> str:
    """A module of so many functions."""
    return "\n\n".join(
        f"def f{n}(a, b=None):\n    b = b or [a, {n}]\n    return {{'k{n}': b, 'n': a + {n}}}"
        for n in range(number)
    )


FEW = functions(40)
WEB = asgi(
    """\
import json
from pathlib import Path

from much import functions, version

Path(__file__).with_name("state.db").write_text(version.VERSION)
""",
    "body = json.dumps(functions.f7(1)).encode()",
    "application/json",
)
BACKEND = """\
import pathlib, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    pathlib.Path("build/lib").mkdir(parents=True)
    pathlib.Path("build/lib/left.py").touch()
    pathlib.Path("src/much/version.py").write_text("VERSION = '1'\\n")
    with zipfile.ZipFile(folder + "/much-1-py3-none-any.whl", "w") as out:
        out.writestr("much/version.py", "VERSION = '1'\\n")
        out.writestr("much/web.py", "raise SystemExit('not the source')\\n")
        info = "much-1.dist-info/"
        out.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: much\\nVersion: 1\\n")
        out.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        out.writestr(info + "RECORD", "")
    return "much-1-py3-none-any.whl"
"""
PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "much"
version = "1"
dependencies = ["granian"]
"""


@pytest.fixture
def much(tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository with a module that its build makes, and traces of each import."""
    assert bench.folder == tmp_path
    files = {
        "pyproject.toml": PYPROJECT, "backend.py": BACKEND, ".python-version": "3.14\n",
        "src/much/__init__.py": "", "src/much/functions.py": FEW, "src/much/web.py": WEB,
        "src/much/template.py": "{{ name }} = no Python\n", "tests/test_much.py": "import much\n",
    }  # fmt: skip
    root = work_in(tmp_path / "much", files, monkeypatch)
    yield root
    assert not git(root, "status", "--porcelain")


def prepared(kind: str, root: Path, copies: Path) -> Sides:
    """The same on both sides, as three kinds of comparison."""
    target = Target.model_validate({"app": "much.web:app", "requests": ("GET /one",)})
    scope = Scope("quick", (), copies.parent / "logs", QUIET, copies, loaded=False)
    project = Project(root, target)
    both = ("HEAD", "HEAD") if kind == "revision" else (None, None)
    words = {
        "lock": (["lock=pyproject.toml"], ["lock=pyproject.toml@HEAD"]),
        "release": (["granian==2.8.7"], ["granian==2.8.7"]),
    }
    return preparation.prepare(project, Contrast(both, *words.get(kind, ([], []))), scope)


def contents(side: Side) -> dict[str, bytes]:
    """What a side's copy has: of compiled modules without their sources' time."""
    return {
        path.relative_to(side.root).as_posix(): path.read_bytes()[16 * (path.suffix == ".pyc") :]
        for path in side.root.rglob("*")
        if path.is_file()
    }


@pytest.mark.real
@pytest.mark.parametrize("kind", ["revision", "lock", "release"])
def test_both_sides_are_prepared_alike(kind: str, much: Path) -> None:
    """File by file, variable by variable, under one interpreter."""
    with revisions.copies() as copies:
        both = prepared(kind, much, copies)
        base, head = contents(both.base), contents(both.head)
        assert base == head
        compiled = {name.partition(".cpython")[0] for name in base if name.endswith(".pyc")}
        package = "src/much/__pycache__"
        assert compiled >= {f"{package}/functions", f"{package}/web", f"{package}/version"}
        assert not {name for name in base if "state.db" in name or name.startswith("build")}
        (pair,) = both.pairs
        roots = [str(side.root) for side in (both.base, both.head)]
        assert len(roots[0]) == len(roots[1])
        variables = [
            str(sorted(side.testbed.environment(side.case).items())).replace(root, "")
            for side, root in zip(pair.sides, roots, strict=True)
        ]
        assert variables[0] == variables[1]
        assert pair.base.testbed.pythons == pair.head.testbed.pythons


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.real
@pytest.mark.skipif(counting.missing() is not None, reason=f"{counting.missing()}")
def test_both_sides_execute_alike(much: Path) -> None:
    """Each instruction of a request is counted on copies of one commit."""
    with revisions.copies() as copies:
        (pair,) = prepared("revision", much, copies).pairs
        for _ in range(3):  # a machine that does other things interrupts some rounds
            (counts,) = counted.instructions([pair.sides], 180)
            if not isinstance(counts, str) and not counts.scatter:
                break
    assert not isinstance(counts, str), counts
    assert counts.head / counts.base == pytest.approx(1, abs=0.0005)
    assert of_instructions("", counts, MATERIAL["cpu"]).verdict is Verdict.SAME


@pytest.mark.long
@pytest.mark.real
def test_a_revision_against_itself_gets_no_verdict(much: Path, bench: Bench) -> None:
    """Whose head had its modules compiled, and its base had not, had half the memory."""
    commit(much, "Much code", **{"src/much/functions.py": functions(4000)})
    out = bench.folder / "found.json"
    done = bench(
        "compare", "HEAD", "HEAD", "--all", "--app", "much.web:app", "--path", "/one",
        "--connections", "8", "--budget", "18s", "-o", out,
    )  # fmt: skip
    assert done.code in {0, 3}, done
    found = files.read(Comparison, out)
    assert not any(finding.moved for finding in found.findings), done.out
    (case,) = found.cases
    played = [duet for duet in case.duets if duet.base]
    assert played, done
    for duet in played:
        assert duet.head["pss_steady"] == pytest.approx(duet.base["pss_steady"], rel=0.02)
    assert not git(much, "status", "--porcelain")


@pytest.mark.real
@pytest.mark.usefixtures("much")
def test_the_python_api_returns_the_answer_and_prints_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Equal revisions leave nothing to judge, without a load."""
    target = Target(app="much.web:app", requests=("GET /one",))
    same = duetbench.compare(Contrast(("HEAD", "HEAD")), target)
    assert (same.status, same.cases, same.base.commit) == ("complete", (), same.head.commit)
    assert same.notes
    with pytest.raises(UsageError, match="speed=5: expected PACKAGE==VERSION, or KEY=VALUE"):
        duetbench.compare(Contrast(("HEAD", None), head=["speed=5"]), target)
    assert capsys.readouterr() == ("", "")


@pytest.mark.real
@pytest.mark.usefixtures("much", "unobserved")
def test_the_python_api_runs_and_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    target = Target(app="much.web:app", requests=("GET /one",))
    run = duetbench.run(target, launches=1, seconds=0.6)
    ((launch,),) = (result.launches for result in run.results)
    assert launch.metrics["requests"] > 0, launch.flags
    assert duetbench.load(run.id) == run
    assert capsys.readouterr() == ("", "")

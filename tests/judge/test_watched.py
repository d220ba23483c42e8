"""What a request loads is seen in the process that answers it: no "nothing to judge" is derived."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from bench import PROJECT, declared
from duetbench.core.errors import FlagName, LaunchError
from duetbench.core.model import Case
from duetbench.judge import affected, dependencies
from duetbench.judge.dependencies import Installed
from duetbench.judge.pairs import Pair
from duetbench.measure.assembly import assemble
from duetbench.measure.testbed import ENTRY, SideCase, Testbed
from duetbench.project.project import Project
from duetbench.store.comparison import PackageChange

PACKAGES: Final = {
    "guarded": {"guarded.py": ""},
    "late": {"late/__init__.py": "", "late/unused.py": ""},
    "plugin": {"plugin.py": "", "plugin-1.dist-info/entry_points.txt": "[kinds]\na = plugin\n"},
    "zone-data": {"zonedata/__init__.py": "", "zonedata/table.txt": "UTC"},
    "only-data": {"onlydata/table.txt": "UTC"},
    "space-one": {"space/one.py": ""},
    "space-two": {"space/two.py": ""},
    "gone": {"gone.py": ""},
    "idle": {"idle.py": "", "idle-1.dist-info/entry_points.txt": "[others]\na = idle\n"},
}
"""Distributions with their files; what uses them is `APP`."""

APP: Final = """
import importlib.metadata, os, pathlib, sys
try:
    import absent
except ImportError:
    import guarded
here = pathlib.Path(guarded.__file__).parent
(here / "onlydata" / "table.txt").read_text()
os.chdir(here)
import gone
del sys.modules["gone"]

def app(environ, start_response):
    import late, space.one
    for point in importlib.metadata.entry_points(group="kinds"):
        point.load()
    open("zonedata/table.txt").close()
    start_response("200 OK", [])
    return [b""]
"""
ASK: Final = (
    "import duetbench_entry, json; a = lambda path: b''.join(duetbench_entry.app("
    "{'PATH_INFO': path}, lambda *_: None)); a('/'); "
    "print(json.dumps(json.loads(a('/_duetbench/identity'))['files']))"
)


def test_every_way_to_load_a_package_is_seen(tmp_path: Path) -> None:
    """Guarded, late, by an entry point, as data alone, of a name that several share."""
    site = tmp_path / "env" / "lib" / "python3.14" / "site-packages"
    for name, contents in PACKAGES.items():
        notes = site / f"{name.replace('-', '_')}-1.dist-info"
        notes.mkdir(parents=True)
        (notes / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        for file, text in contents.items():
            (site / file).parent.mkdir(exist_ok=True)
            (site / file).write_text(text)
        (notes / "RECORD").write_text("".join(f"{file},,\n" for file in contents))
    (tmp_path / "main.py").write_text(APP)
    asked = {"PYTHONPATH": f"{ENTRY}:{tmp_path}:{site}", "DUETBENCH_APP": "main:app"}

    def files(**more: str) -> list[Path]:
        done = subprocess.run(
            [sys.executable, "-c", ASK], env={**asked, **more}, check=True, stdout=subprocess.PIPE
        )
        return list(map(Path, json.loads(done.stdout)))

    environment = dependencies.read_installed(tmp_path / "env" / "bin" / "python")
    used = files(DUETBENCH_WATCHED="1")
    assert environment.owners(used) == PACKAGES.keys() - {"space-two", "idle"}
    assert tmp_path / "main.py" in used
    assert files() == []  # where anything is measured nobody watches


def test_a_requirement_whose_version_is_no_longer_valid_counts_without_it(tmp_path: Path) -> None:
    """Old releases have such: uvicorn 0.14.0 needs `click (>=7.*)`."""
    notes = tmp_path / "env" / "lib" / "python3.14" / "site-packages" / "old-1.dist-info"
    notes.mkdir(parents=True)
    needs = ["click (>=7.*)", "kit[fast] (>=3.*) ; python_version < '4'", "plain (>=1)"]
    lines = "".join(f"Requires-Dist: {need}\n" for need in needs)
    (notes / "METADATA").write_text(f"Metadata-Version: 2.1\nName: old\nVersion: 1\n{lines}")
    environment = dependencies.read_installed(tmp_path / "env" / "bin" / "python")
    assert list(map(str, environment.requires["old"])) == ["click", "kit[fast]", "plain>=1"]


def test_a_file_that_nobody_has_noted_may_be_of_all_that_have_its_name() -> None:
    site = Path("/env/site-packages")
    owner = {"space/one.py": "one", "space/two.py": "two", "lib.libs/libx.so.1": "lib"}
    provides = {"space": {"one", "two"}, "solo": {"three"}}
    environment = Installed({}, provides, owner, (site,))
    for file, owners in (
        ("space/one.py", {"one"}), ("space/__pycache__/two.cpython-314.pyc", {"two"}),
        ("space/made.py", {"one", "two"}), ("lib.libs/libx.so.1", {"lib"}), ("solo.py", {"three"}),
        ("unknown.py", set()), ("/usr/lib/python3/solo.py", set()),
    ):  # fmt: skip
        assert environment.owners([site / file]) == owners, file


JSON: Final = "asgi-wsgi/asgi-json/py3.14/w1/c128"


@pytest.fixture
def case() -> Case:
    return declared(JSON)


@pytest.fixture
def testbed(case: Case, tmp_path: Path) -> Testbed:
    return assemble(Project.here(), [case], tmp_path / "logs")


@pytest.mark.real
def test_a_real_server_says_what_it_has_loaded(case: Case, testbed: Testbed) -> None:
    reader = dependencies.Reader(PROJECT, testbed)
    seen = reader.watch([case])
    # Compiled ones, the server and what its arguments choose; not what is only installed.
    assert {case.server, "fastapi", "starlette", "pydantic-core"} <= seen.packages
    assert not {"flask", "werkzeug", "uvicorn"} & seen.packages
    assert {"flask", "watchfiles"} <= reader.environment(case).requires.keys()
    # Granian imports it where it is installed, and does not require it.
    assert "watchfiles" in seen.packages - reader.read(case).packages
    assert (seen.unknown, "apps/asgi-wsgi/asgi_app.py" in seen.files) == ("", True)


@pytest.mark.real
def test_what_cannot_be_seen_counts_as_loaded(
    case: Case, testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is declared, or not installed, is not looked for."""
    asked: list[str] = []
    wanted = ["flask"]

    def files(cases: list[Case], testbed: Testbed, _log: Path) -> tuple[frozenset[Path], Path]:
        asked.append(cases[0].id)
        if not wanted:
            raise LaunchError(FlagName.NOT_READY, "it ended")
        (site,) = testbed.pythons[case.stack, case.python].parents[1].glob("lib/*/site-packages")
        return frozenset(site / name / "__init__.py" for name in wanted), testbed.apps

    monkeypatch.setattr(dependencies, "used_files", files)
    reader = dependencies.Reader(PROJECT, testbed)
    pair = Pair(SideCase(case, testbed), SideCase(case, testbed))

    def reason(package: str) -> str:
        move = PackageChange(stack=case.stack, package=package, base="1", head="2")
        diff, loaded = affected.Diff(packages=(move,)), {case.id: reader.read(case)}
        affected.watch_doubtful(diff, [pair], (reader, reader), loaded)
        return affected.reason_for(case, diff, loaded[case.id])

    assert (reason("fastapi"), reason("not-installed"), asked) == ("fastapi 1 → 2", "", [])
    assert (reason("flask"), reason("jinja2"), asked) == ("flask 1 → 2", "", [JSON] * 4)
    wanted.clear()
    assert reason("jinja2") == "jinja2 1 → 2; what it loads could not be observed (not_ready)"

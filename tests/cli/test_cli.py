"""The command line as a whole: what it knows, and what it does not wait for."""

import os
import subprocess
import sys
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final

import pytest
from typer.main import get_group
from typer.testing import CliRunner

import duetbench.cli
from duetbench import __version__
from duetbench.cli import app
from duetbench.cli.verbs import CI, DEV, VERBS, Verb
from duetbench.core.errors import EXIT_CODES, DuetbenchError

LARGE: Final = {"asv", "httpx", "jinja2", "numpy", "scipy"}
"""Each takes longer to import than all that a small verb does."""

_MAIN: Final = (
    "import atexit, sys;"
    "atexit.register(lambda: print(*sys.modules, sep='\\n', file=sys.stderr));"
    "sys.argv[0] = 'duetbench';"
    "from duetbench.cli import main; main()"
)
_HOME: Final = Path(duetbench.cli.__file__).parent
_OWN: Final = "duetbench.cli."


def start(*words: str, **variables: str) -> tuple[str, set[str]]:
    """Start the command line in a process of its own; what it said, and all that it imported."""
    done = subprocess.run(
        [sys.executable, "-c", _MAIN, *words],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, set(done.stderr.splitlines())


def own(imported: set[str]) -> set[str]:
    found = {name.removeprefix(_OWN) for name in imported if name.startswith(_OWN)}
    return found - {"answers", "verbs"}


def commands(group: Any) -> dict[str, Any]:
    found = getattr(group, "commands", {}).items()
    return {name: one.load() if isinstance(one, Verb) else one for name, one in found}


@pytest.fixture(scope="module")
def verbs() -> dict[str, Any]:
    """All listed verbs and those below them, by all their words."""

    def below(group: Any, words: str) -> Iterator[tuple[str, Any]]:
        for name, command in commands(group).items():
            yield f"{words}{name}", command
            yield from below(command, f"{words}{name} ")

    return dict(below(get_group(app), ""))


def test_the_version_waits_for_no_verb() -> None:
    """Every step of a workflow starts like this; what one verb needs delays no other."""
    said, imported = start("--version")
    assert said == f"{__version__}\n"
    assert "duetbench.cli.verbs" in imported
    assert own(imported) == set()
    assert not imported & {*LARGE, "pydantic", "rich"}


@pytest.mark.parametrize(
    ("words", "modules"),
    [
        (("--help",), ()),
        (("show", "--help"), ("options", "show")),
        (("ci", "history", "pull", "--help"), ("history",)),
    ],
    ids=" ".join,
)
def test_a_verb_imports_its_own_module(words: tuple[str, ...], modules: tuple[str, ...]) -> None:
    said, imported = start(*words)
    assert said
    assert own(imported) == set(modules)
    assert "show" in modules or not imported & LARGE


def test_every_verb_is_found_by_its_row(verbs: dict[str, Any]) -> None:
    tables = {"": VERBS, "ci ": CI, "dev ": DEV}
    listed = [f"{words}{verb}" for words, rows in tables.items() for verb in rows]
    assert set(listed) <= set(verbs)
    assert all(verbs[verb].help for verb in listed)
    shared = {"__init__", "answers", "options", "sides", "target_options"}
    modules = {path.stem for path in _HOME.glob("*.py")} - shared
    rows = [row for table in tables.values() for row in table.values()]
    assert {module for module, _ in rows} == modules


def tree(group: Any, words: str) -> Iterator[str]:
    """All verbs below a group, each with its parameters, a name per line."""
    for verb, command in sorted(commands(group).items()):
        yield f"{words} {verb}"
        for param in command.params:
            names = sorted((*param.opts, *param.secondary_opts), key=len, reverse=True)
            yield f"    {', '.join(names)}{' (hidden)' * getattr(param, 'hidden', False)}"
        if hasattr(command, "commands"):
            yield from tree(command, f"{words} {verb}")


def test_no_verb_or_option_comes_or_goes_unseen(tmp_path: Path) -> None:
    """The tree of verbs with their options' names is recorded: scripts and habits rely on it."""
    recorded = Path(__file__).parents[1] / "data" / "help.txt"
    made = tmp_path / "help.txt"
    made.write_text("".join(f"{line}\n" for line in tree(get_group(app), "duetbench")), "utf-8")
    before, now = (path.read_text("utf-8").splitlines() for path in (recorded, made))
    changed = "\n".join(unified_diff(before, now, "recorded", "now", lineterm="", n=8))
    assert not changed, f"{changed}\nif that is meant: cp {made} {recorded}"


def test_exit_codes_are_one_table() -> None:
    """The guide shows it, `--help` prints it, and no error ends with 1: that is a finding."""
    guide = (Path(__file__).parents[2] / "docs" / "guide.md").read_text("utf-8")
    said = " ".join(CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output.split())
    for code, meaning in EXIT_CODES.items():
        assert f"| {code} | {meaning} |\n" in guide
        assert f"{code}: {meaning}" in said
    kinds: list[type[DuetbenchError]] = [DuetbenchError, *DuetbenchError.__subclasses__()]
    unusual = {kind.__name__: kind.exit_code for kind in kinds if kind.exit_code != 4}
    assert unusual == {"UsageError": 2, "DeclarationError": 2, "NothingMeasuredError": 3}


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(28, "No space left on device", "/x"), "duetbench: /x: No space left on device;"),
        (KeyError("a mistake"), "Traceback (most recent call last)"),
    ],
)
def test_what_no_verb_expects_does_not_look_like_a_finding(
    error: Exception,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A full disk wherever it is met, and a mistake of ours: Python itself would end with 1."""

    def fail() -> None:
        raise error

    monkeypatch.setattr(duetbench.cli, "app", fail)
    with pytest.raises(SystemExit) as caught:
        duetbench.cli.main()
    assert caught.value.code == 4
    assert capsys.readouterr().err.startswith(sentence)


def test_a_module_of_an_extra_is_named_with_the_command_that_brings_it() -> None:
    """What all of duetbench needs is none's."""
    said = duetbench.cli.lacking(ModuleNotFoundError(name="asv_runner.one"), ["site", "-o", "a b"])
    again = "uvx --from 'duetbench[asv]' duetbench site -o 'a b'"
    assert str(said).endswith(f"it comes with duetbench[asv]: {again}")
    assert duetbench.cli.lacking(ModuleNotFoundError(name="asvs"), []) is None
    assert duetbench.cli.lacking(KeyError("asv"), []) is None


def test_a_closed_pipe_is_no_failure_of_the_verb() -> None:
    """`duetbench … | head -1`: what `ls` and `grep` answer, and no word about it."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = [sys.executable, "-c", "from duetbench.cli import main; main()", "--help"]
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")

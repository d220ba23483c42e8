"""The command line as a whole: what it knows, and what it does not wait for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from typer.main import get_group
from typer.testing import CliRunner

import servebench.cli
from servebench import __version__
from servebench.cli import app
from servebench.cli.options import budget_seconds
from servebench.cli.verbs import VERBS
from servebench.errors import EXIT_CODES, ServebenchError, UsageError
from servebench.model import Profile

LARGE: Final = {"asv", "httpx", "jinja2", "numpy", "pyarrow", "scipy"}
"""Each takes longer to import than all that a small verb does."""

_MAIN: Final = (
    "import atexit, sys;"
    "atexit.register(lambda: print(*sys.modules, sep='\\n', file=sys.stderr));"
    "sys.argv[0] = 'servebench';"
    "from servebench.cli import main; main()"
)
_HOME: Final = Path(servebench.cli.__file__).parent
_OWN: Final = "servebench.cli."


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
    """Our modules of verbs among what was imported."""
    return {name.removeprefix(_OWN) for name in imported if name.startswith(_OWN)} - {"verbs"}


def test_the_version_waits_for_no_verb() -> None:
    """Every step of a workflow starts like this; what one verb needs delays no other."""
    said, imported = start("--version")
    assert said == f"{__version__}\n"
    assert "servebench.cli.verbs" in imported
    assert own(imported) == set()
    assert not imported & {*LARGE, "pydantic", "rich"}


@pytest.mark.parametrize(
    ("words", "modules"),
    [
        (("schema", "--help"), ("options", "show")),
        (("history", "pull", "--help"), ("history",)),
        (("stack", "list", "--json"), ("stack",)),
        (("detect", "--help"), ("detect", "options")),
        (("plan", "--select", "asgi-wsgi/*", "--json"), ("options", "plan")),
    ],
    ids=" ".join,
)
def test_a_verb_imports_its_own_module(words: tuple[str, ...], modules: tuple[str, ...]) -> None:
    """A verb brings its own module and no other, and no library that it has no use for."""
    said, imported = start(*words)
    assert said
    assert own(imported) == set(modules)
    assert not imported & LARGE


def test_no_verb_imports_a_large_library_before_it_works() -> None:
    """The list of all verbs imports every one: these libraries are for their functions to import.

    What brought one is seen with `python -X importtime -c "import servebench.cli.VERB"`.
    """
    said, imported = start("--help", COLUMNS="200")
    modules = {row.partition(":")[0] for row in VERBS.values()}
    assert modules <= own(imported)
    assert not imported & LARGE
    listed = [line.strip("│ ").partition(" ")[0] for line in said.splitlines()]
    assert [word for word in listed if word in VERBS] == list(VERBS)


def test_every_verb_is_found_by_its_row() -> None:
    """Each row names a function or group that is there, and each module of a verb has a row."""
    commands = get_group(app).commands
    assert list(commands) == list(VERBS)
    assert [command.name for command in commands.values()] == list(VERBS)
    assert all(command.help for command in commands.values())
    helpers = {"__init__", "options", "scale", "verbs"}
    modules = {path.stem for path in _HOME.glob("*.py")}
    assert {row.partition(":")[0] for row in VERBS.values()} == modules - helpers


def options(name: str) -> dict[str, Any]:
    """Every verb's option of that name."""
    waiting = list(get_group(app).commands.items())
    for verb, command in waiting:
        below = getattr(command, "commands", {})
        waiting += [(f"{verb} {word}", one) for word, one in below.items()]
    return {
        verb: option for verb, command in waiting for option in command.params
        if name in option.opts
    }  # fmt: skip


def test_every_budget_says_its_format() -> None:
    """In the same words, which are those of the error, too; each says what the time is for."""
    helps = {verb: option.help for verb, option in options("--budget").items()}
    assert {"bisect", "compare", "detect", "fleet compare", "selftest aa"} <= set(helps)
    assert {verb for verb, text in helps.items() if ": 180s, 5m, 1h or 1h30m." not in text} == set()
    with pytest.raises(UsageError, match=r"a time such as 180s, 5m, 1h or 1h30m$"):
        budget_seconds("soon")


def test_every_profile_is_explained_where_it_is_chosen() -> None:
    """The option lists them, and says what each is."""
    helps = {verb: option.help for verb, option in options("--profile").items()}
    assert {"compare", "fleet compare", "plan", "run"} <= set(helps)
    for verb, text in helps.items():
        assert [name for name in get_args(Profile) if f" {name}: " not in text] == [], verb


def test_groups_and_exit_codes_are_explained() -> None:
    """A group's page says more than the line in the list of verbs; `doctor` says how it ends."""
    commands = get_group(app).commands
    assert "a run file for each shard" in " ".join((commands["history"].help or "").split())
    assert "right answer is known" in " ".join((commands["selftest"].help or "").split())
    assert "Exit code 0: " in (commands["doctor"].help or "")


def test_exit_codes_are_one_table() -> None:
    """The README shows it, `--help` prints it, and no error ends with 1: that is a finding."""
    readme = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
    said = " ".join(CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output.split())
    for code, meaning in EXIT_CODES.items():
        assert f"| {code} | {meaning} |\n" in readme
        assert f"{code}: {meaning}" in said
    kinds: list[type[ServebenchError]] = [ServebenchError, *ServebenchError.__subclasses__()]
    codes = {kind.__name__: kind.exit_code for kind in kinds}
    assert set(codes.values()) == {2, 3, 4}
    assert {name for name, code in codes.items() if code == 2} == {
        "UsageError",
        "DeclarationError",
    }
    assert {name for name, code in codes.items() if code == 3} == {"NothingMeasuredError"}


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(28, "No space left on device", "/x"), "servebench: /x: No space left on device;"),
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

    monkeypatch.setattr(servebench.cli, "app", fail)
    with pytest.raises(SystemExit) as caught:
        servebench.cli.main()
    assert caught.value.code == 4
    assert capsys.readouterr().err.startswith(sentence)


def test_verbs_print_on_a_console_that_files_do_not_act_on() -> None:
    """None makes one of rich's own."""
    made = {path.name for path in _HOME.glob("*.py") if "rich.console" in path.read_text("utf-8")}
    assert made == set()


def test_a_verb_that_is_not_there_is_wrong_usage() -> None:
    """The exit code is 2, and what was meant is proposed."""
    done = CliRunner().invoke(app, ["histroy", "pull"])
    assert done.exit_code == 2
    assert "No such command 'histroy'. Did you mean 'history'?" in " ".join(done.output.split())


def test_a_shell_completes_verbs_and_imports_those_alone() -> None:
    """Completion knows all names, and looks only at what fits what was typed so far."""
    said, imported = start(
        _SERVEBENCH_COMPLETE="complete_bash", COMP_WORDS="servebench st", COMP_CWORD="1"
    )
    assert said.split() == ["status", "stack"]
    assert own(imported) == {"github", "stack"}
    said, _ = start(
        _SERVEBENCH_COMPLETE="complete_bash", COMP_WORDS="servebench history p", COMP_CWORD="2"
    )
    assert said.split() == ["pull", "push"]

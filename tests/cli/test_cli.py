"""The command line as a whole: what it knows, what it does not wait for, and what it explains."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Final
from unittest import mock

import pytest
from cyclopts import App

import duetbench.cli
from bench import PROGRAMS, Shell, execute
from duetbench import __version__
from duetbench.__main__ import stored_text
from duetbench.cli import CLOSED_PIPE, explain, options
from duetbench.cli.verbs import VERBS
from duetbench.core.effects import EFFECTS
from duetbench.core.errors import EXIT_CODES, DuetbenchError, FlagName
from duetbench.core.metrics import METRICS
from duetbench.core.model import Verdict
from duetbench.host import signals
from goldens import assert_golden

_MAIN: Final = (
    "import atexit, sys;"
    "atexit.register(lambda: print(*sys.modules, sep='\\n', file=sys.stderr));"
    "sys.argv[0] = sys.argv.pop(1);"
    "name = sys.argv[0] + ('.__main__' if sys.argv[0] == 'duetbench' else '.cli');"
    "__import__('importlib').import_module(name).main()"
)
_OWN: Final = re.compile(r"(?:duetbench|observatory)\.cli\.")


def start(*words: str) -> tuple[str, set[str]]:
    """Start a program in a process of its own; what it said, and all that it imported."""
    argv = [sys.executable, "-c", _MAIN, *words]
    result = execute(argv)
    assert result.returncode == 0, result.stderr
    return result.stdout, set(result.stderr.splitlines())


def own(imported: set[str]) -> set[str]:
    actual = {_OWN.sub("", name) for name in imported if _OWN.match(name)}
    return actual - {"answers", "verbs"}


@pytest.fixture(scope="module")
def verbs() -> dict[str, App]:
    """All listed verbs of both programs and those below them, by all their words."""

    def below(group: App, words: str) -> Iterator[tuple[str, App]]:
        for name, command in group.resolved_commands().items():
            if name[0] != "-":
                yield f"{words}{name}", command
                yield from below(command, f"{words}{name} ")

    return {
        words: verb
        for program, app in PROGRAMS.items()
        for words, verb in below(app, f"{program} ")
    }


def test_a_verb_imports_its_own_module() -> None:
    """Every step of a workflow starts like this; what one verb needs delays no other."""
    (output, imported), (same, _) = (start(program, "--version") for program in PROGRAMS)
    assert (output, same, own(imported)) == (f"{__version__}\n", output, set())
    assert not imported & {"pydantic", "rich"}
    imported = start("observatory", "lock", "--help")[1]
    assert own(imported) == {"setup"}
    assert not imported & {"asv", "httpx", "jinja2", "numpy", "scipy"}


def names_of(verb: App) -> list[str]:
    """A verb's parameters, those that are no options by their names in lower case."""
    given = [] if verb.default_command is None else verb.assemble_argument_collection()
    return [
        ", ".join(name for name in item.names if name not in item.negatives)
        if item.name[0] == "-"
        else item.field_info.name
        for item in given
        if item.show
    ]


def test_no_verb_or_option_comes_or_goes_unseen(verbs: dict[str, App]) -> None:
    """The tree of verbs with their options' names is recorded: scripts and habits rely on it."""
    tree = ["\n    ".join((words, *names_of(verbs[words]))) for words in sorted(verbs)]
    assert_golden("help.txt", "\n".join(tree))


def test_stored_helps_fit_and_name_all(verbs: dict[str, App]) -> None:
    """80 columns, each command, and each option of `compare` that is no application's."""
    output, imported = start("duetbench", "compare", "HEAD~1", "--help")
    every = stored_text(())
    assert (output, own(imported)) == (stored_text(("compare", "--help")), set())
    assert start("duetbench", "--help")[0] == every
    for text in (output, every):
        assert max(map(len, text.splitlines())) <= 80
        assert len(text.splitlines()) <= 30
    assert re.findall(r"^  (\w+)   ", every, re.MULTILINE) == [*VERBS, "ci"]
    named = set(re.findall(r"(?<![\w=-])--?[a-z][a-z-]*", output))
    known = {*names_of(verbs["duetbench compare"])}
    assert named - {"--help"} <= known
    assert known - {f"--{name}" for name in options.OPTIONS} - named == {"base", "head"}


def test_every_help_teaches(verbs: dict[str, App], call: Shell) -> None:
    """Two examples (of what only workflows call one), no type of a program, no mark-up lost."""
    for words, verb in verbs.items():
        if verb.default_command is None:
            continue
        program, *rest = words.split()
        output = call.done(*words.removeprefix("duetbench ").split(), "--help")
        wanted = 2 if program == "duetbench" and rest[0] != "ci" else 1
        assert output.count("$ ") >= wanted, words
        assert not re.search(r"\b(STR|BOOL|[a-z]+\.\.\.\s)", output), output


def test_exit_codes_are_those_of_the_table() -> None:
    """And no error ends with 1: that is a finding."""
    known = {int(code) for key in EXIT_CODES for code in key.split(", ")}
    assert known == {*range(6), CLOSED_PIPE, *(128 + number for number in signals.HANDLED)}
    kinds: list[type[DuetbenchError]] = [DuetbenchError, *DuetbenchError.__subclasses__()]
    assert {kind.__name__: kind.exit_code for kind in kinds if kind.exit_code != 4} == {
        "UsageError": 2, "DeclarationError": 2, "NothingMeasuredError": 3, "BusyError": 5,
    }  # fmt: skip


def test_a_closed_pipe_and_a_mistake_of_ours_do_not_look_like_a_finding(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`duetbench … | head -1`: what `ls` and `grep` answer, and no word about it."""
    for error, sentence in (
        (OSError(28, "No space left on device", "/x"), "duetbench: /x: No space left on device;"),
        (KeyError("a mistake"), "Traceback (most recent call last)"),
    ):
        failing = mock.patch.object(duetbench.cli, "app", side_effect=error)
        with failing, pytest.raises(SystemExit) as caught:
            duetbench.cli.main()
        assert caught.value.code == 4  # Python itself would end with 1
        assert capsys.readouterr().err.startswith(sentence)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = [sys.executable, "-c", "from duetbench.cli import main; main()", "--help"]
        result = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert (result.returncode, result.stderr) == (141, b"")


def test_words_of_reports_are_explained_and_others_refused(call: Shell) -> None:
    for words, start in (
        ("host_noise", "host_noise: something else took core time"),
        ("would have been seen", "would have been seen: "),
        ("head", "head: The two sides of a comparison: base is before the change"),
        ("throughput", "throughput: Good answers"),
        ("function calls", "function calls: What one request makes"),
        ("▼ worse", "worse: "),
        ("requests/s", "requests/s: Good answers"),
    ):
        result = call("explain", *words.split())
        assert (result.code, result.out[: len(start)], "](" in result.out) == (0, start, False)
    known = explain.meanings()
    kinds = {kind.noun.lower() for kind in EFFECTS.values()}
    nouns = {row.noun.lower() for row in METRICS.values()}
    assert {*FlagName, *METRICS, *Verdict, *kinds, *nouns} <= known.keys()
    assert all(known.values())
    assert 20 < len(call("explain").out.rpartition("\n\n")[0].split("·")) <= 60
    call.refused("did you mean host_noise", "explain", "host_nose")

"""A checkout whose only experiment misbehaves (`badapps`), and the command line in it."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

import duetbench
import observatory.cli
from duetbench import cli
from duetbench.app.subject import Subject
from duetbench.app.target import Target
from duetbench.app.testbed import SideCase, assemble
from duetbench.core.model import Case, Flag, Launch, Profile, Run, Status
from duetbench.host import result_files
from observatory.matrix.checkout import Checkout
from observatory.matrix.experiments import PROFILES, Experiment

PROJECT = Path(__file__).parents[2]
PATIENCE = 60.0
Ended = subprocess.CompletedProcess[str]
execute = partial(subprocess.run, capture_output=True, text=True, check=False)
Once = Callable[[str, Callable[[Path], object]], Path]
"""Returns a folder by its name, which the function has filled; all workers share it."""
_MAIN = """
from duetbench.load import launch
launch.WINDOW_SECONDS = 0.1  # nobody keeps the figures
from observatory.cli import main
main()
"""


def make_checkout(folder: Path, *apps: str) -> Path:
    """Lay out a checkout: our settings and stacks, and these experiments, or `badapps` alone."""
    ignored = shutil.ignore_patterns("__pycache__")
    experiments = [PROJECT / "apps" / name for name in apps]
    for place in experiments or [PROJECT / "tests" / "support" / "badapps"]:
        shutil.copytree(place, folder / "apps" / place.name, ignore=ignored)
    shutil.copytree(PROJECT / "apps" / "stacks", folder / "apps" / "stacks")
    for name in ("pyproject.toml", "apps/pyproject.toml"):
        shutil.copy(PROJECT / name, folder / name)
    return folder


@cache
def experiments(root: Path = PROJECT) -> tuple[Experiment, ...]:
    """What a checkout declares that no test changes: it is read once."""
    return Checkout(root).experiments


def all_cases(*profiles: Profile, root: Path = PROJECT) -> list[Case]:
    """The cases of these profiles, or of all, experiment by experiment."""
    return [
        case
        for experiment in experiments(root)
        for profile in profiles or PROFILES
        for case in experiment.cases[profile]
    ]


def declared(case_id: str, root: Path = PROJECT) -> Case:
    return next(case for case in all_cases("quick", root=root) if case.id == case_id)


def deployed(
    case: Case, root: Path, logs: Path, search: tuple[str, ...] = (".",), **env: str
) -> SideCase:
    """A case of an application that lies in a folder, with our interpreter, packages and oha."""
    ours = Checkout.here()
    lock = ours.lock("current")
    subject = Subject(
        root, target=Target(app=case.endpoint.app, env=env), search=search,
        interpreters={"3.14": ours.interpreter("3.14")},
    )  # fmt: skip
    return SideCase(case, assemble(subject, [case], logs, lock=lambda _: lock))


def eventually(what: str, look: Callable[[], Any]) -> Any:
    """Wait for something; look less and less often, as a look may go through all processes."""
    deadline, pause = time.monotonic() + PATIENCE, 0.005
    while not (result := look()):
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(pause)
        pause = min(1.1 * pause, 0.2)
    return result


def processes_with(word: str) -> list[psutil.Process]:
    """List the live processes, except this one, whose environment contains a word.

    A program that the kernel is still loading has no environment yet: descendants of ours get a
    second to be loaded.
    """
    deadline, children = time.monotonic() + 1, psutil.Process().children
    while any(_environment(c) == b"" and lives(c.pid) for c in children(recursive=True)):
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return [
        process
        for process in psutil.process_iter()
        if process.pid != os.getpid() and word.encode() in (_environment(process) or b"")
    ]


def _environment(process: psutil.Process) -> bytes | None:
    """Return a process's environment; None if it has ended or belongs to another user."""
    try:
        return Path(f"/proc/{process.pid}/environ").read_bytes()
    except OSError:
        return None


def lives(pid: int) -> bool:
    """Whether a process lives; one that has ended may wait for its parent for a while."""
    return any(
        process.pid == pid and process.info["status"] != psutil.STATUS_ZOMBIE
        for process in psutil.process_iter(["status"])
    )


PROGRAMS: Final = {"duetbench": cli.app, "observatory": observatory.cli.app}


@dataclass(frozen=True)
class Done:
    """A command that has ended: exit code and output."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Shell:
    """The command line, in this process."""

    capture: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch

    def __call__(self, *words: str | Path) -> Done:
        """Run a verb through the real `main`: of the tool, or of `observatory`."""
        self.capture.readouterr()
        argv = [*map(str, words)]
        program = argv.pop(0) if argv[0] == "observatory" else "duetbench"
        main: Callable[[], None] = observatory.cli.main if program == "observatory" else cli.main
        self.patch.setattr(sys, "argv", [program, *argv])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        text = self.capture.readouterr()
        return Done(code, text.out, text.err)

    def done(self, *words: str | Path) -> str:
        """Run a verb that ends well; what it prints."""
        result = self(*words)
        assert result.code == 0, (words, result)
        return result.out

    def refused(self, says: str, *words: str | Path, code: int = 2) -> Done:
        """Run a verb that ends with this code, and says why."""
        result = self(*words)
        assert result.code == code, (words, result)
        assert says in result.err, (words, result)
        return result


@dataclass(frozen=True)
class Bench(Shell):
    """The command line in a checkout, with state and results of the test's own.

    Attributes:
        root: The checkout.
        folder: The folder of everything else.
        token: A word in the environment of every process that the commands start.
    """

    root: Path
    folder: Path
    token: str

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def sessions(self) -> list[Path]:
        return sorted((self.folder / "state" / "duetbench" / "sessions").glob("*.json"))

    def run(self, *cases: str) -> Done:
        """Measure cases of `badapps`, by the quick profile, in this process."""
        words = (word for case in cases for word in ("--select", f"badapps/{case}"))
        return self("observatory", "measure", "--results", self.results, *words)

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Start `observatory measure` as a process of its own; the environment is this one's."""
        return subprocess.Popen(
            [sys.executable, "-c", _MAIN, "measure", "--results", self.results, *arguments],
            env={**os.environ, "PYTHONPATH": str(Path(duetbench.__file__).parents[1])},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a process group of its own, as a shell gives it
        )

    def saved_run(self) -> Run:
        (path,) = result_files.runs(self.results)
        return result_files.read(Run, path)

    def unfinished(self) -> Run | None:
        paths = sorted(self.results.rglob("*.partial.json"))
        return result_files.read(Run, paths[0]) if paths else None

    def alive(self) -> list[psutil.Process]:
        return processes_with(self.token)


def launches(run: Run) -> dict[str, list[Launch]]:
    return {
        result.case.id.removeprefix("badapps/"): list(result.launches) for result in run.results
    }


def failures(flags: Iterable[Flag]) -> set[str]:
    return {flag.name.value for flag in flags if flag.kind == "void"}


def undisturbed(perform: Callable[[], Launch]) -> Launch:
    """Launch up to three times: where a machine does other things, a closed loop may be empty."""
    for _ in range(3):
        launch = perform()
        if not failures(launch.flags) & {"impossible", "no_answer"}:
            break
    return launch


def valid(launch: Launch) -> bool:
    """Whether a launch of `right` has possible figures: at most 40/s, nothing below 0.1 s."""
    figures = launch.metrics
    return (
        launch.status is Status.OK
        and figures["requests"] > 0
        and 0 < figures["throughput"] <= 40 * 1.01
        and figures["response_min"] >= 0.099
    )

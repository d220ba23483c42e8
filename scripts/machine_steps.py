"""Steps that change a machine: looked at first, taken only if needed, shown instead in a dry run.

Used by prepare_runner.py. Python's standard library only.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Folder:
    """A folder with its owner."""

    path: str
    owner: str
    mode: int
    why: str


@dataclass(frozen=True)
class File:
    """A file of root's with exactly this text.

    `check` is given the new file before it counts; a dry run shows `instead` of a long text.
    """

    path: str
    text: str
    mode: int
    why: str
    check: tuple[str, ...] = ()
    instead: str = ""


@dataclass(frozen=True)
class Line:
    """A line that a file must have."""

    path: str
    line: str
    why: str


@dataclass(frozen=True)
class Command:
    """A command, unless `done` says (exit code 0) that there is nothing left to do.

    `after`: run it only if one of the files below this folder was changed.
    """

    run: tuple[str, ...]
    why: str
    done: tuple[str, ...] = ()
    after: str = ""


Step = Folder | File | Line | Command


class Machine:
    """Takes steps on this machine, or shows them; counts those that were needed."""

    def __init__(self, root: Path, dry_run: bool) -> None:
        self.root, self.dry_run, self.changes = root, dry_run, 0
        self.changed: list[str] = []

    def take(self, step: Step) -> None:
        """Take one step, if it is needed."""
        if isinstance(step, Command):
            self._command(step)
            return
        target = self.root / step.path.lstrip("/")
        if isinstance(step, Folder):
            self._folder(step, target)
        else:
            self._file(step, target)

    def _command(self, step: Command) -> None:
        if step.after and not any(path.startswith(step.after) for path in self.changed):
            return
        if step.done and succeeds(step.done):
            say(f"so     {step.why}")
            return
        self._needed(step.why, f"$ {shlex.join(step.run)}")
        if not self.dry_run:
            run(step.run)

    def _folder(self, step: Folder, target: Path) -> None:
        here = target.is_dir() and not target.is_symlink()
        owned = here and self._owner(target) in (step.owner, None)
        if owned and target.stat().st_mode & 0o7777 == step.mode:
            say(f"so     {step.path}: {step.why}")
            return
        self._needed(f"{step.path} ({step.mode:o} {step.owner}): {step.why}", "")
        if not self.dry_run:
            target.mkdir(parents=True, exist_ok=True)
            target.chmod(step.mode)
            if os.geteuid() == 0 and self.root == Path("/"):
                shutil.chown(target, step.owner, step.owner)

    def _owner(self, target: Path) -> str | None:
        """The owner's name; None where nobody is asked for it: below another root."""
        return target.owner() if self.root == Path("/") else None

    def _file(self, step: File | Line, target: Path) -> None:
        found = target.read_text("utf-8") if target.is_file() else ""
        mode = 0o644
        if isinstance(step, File):
            wanted, mode = step.text, step.mode
        else:
            there = step.line in found.splitlines()
            ended = found if found.endswith("\n") or not found else f"{found}\n"
            wanted = found if there else f"{ended}{step.line}\n"
        right = isinstance(step, Line) or (
            target.exists() and target.stat().st_mode & 0o7777 == mode
        )
        if found == wanted and right and target.is_file():
            say(f"so     {step.path}: {step.why}")
            return
        shown = step.line if isinstance(step, Line) else step.instead or step.text
        self._needed(f"{step.path} ({mode:o}): {step.why}", shown)
        self.changed.append(step.path)
        if self.dry_run:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.new")
        beside.write_text(wanted, "utf-8")
        beside.chmod(mode)
        if isinstance(step, File) and step.check and shutil.which(step.check[0]):
            run((*step.check, str(beside)))
        beside.replace(target)

    def _needed(self, what: str, detail: str) -> None:
        self.changes += 1
        say(f"{'would' if self.dry_run else 'do':6} {what}")
        if detail and self.dry_run:
            say("".join(f"         {line}\n" for line in detail.splitlines()).rstrip("\n"))


def succeeds(argv: Sequence[str]) -> bool:
    """Whether a question is answered with yes; a program that is not there says no."""
    try:
        return subprocess.run(argv, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def run(argv: Sequence[str]) -> None:
    """Run a step's command; a failure ends the script with one sentence."""
    try:
        subprocess.run(argv, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout or "nothing").strip().splitlines()[-1]
        sys.exit(f"`{shlex.join(argv)}` failed, it said: {said}. Mend that and repeat")
    except OSError as error:
        sys.exit(f"`{argv[0]}` cannot be started ({error.strerror}): install it and repeat")


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()

"""`duetbench init`: keep how an application is measured."""

import json
import tomllib
from pathlib import Path
from typing import Annotated

from typer import Option

from duetbench.cli.options import repository
from duetbench.core.errors import UsageError
from duetbench.host.console import Console
from duetbench.project import discover, settings, target_locks, target_python
from duetbench.project.schema import read_toml
from duetbench.project.settings import FILE
from duetbench.store import files

_HEADER = "[tool.duetbench]"


def init_command(
    app: Annotated[
        str | None,
        Option(
            "--app",
            metavar="MODULE:ATTRIBUTE",
            help="The application; default: the one that is found.",
        ),
    ] = None,
    path: Annotated[
        list[str] | None,
        Option("--path", metavar="PATH", help="What it is asked for; repeatable."),
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Show what would be written, and write nothing.")
    ] = False,
) -> None:
    """Write how this repository's application is measured into its pyproject.toml.

    Application, framework, lock and interpreter are found out. All else in the file stays as it
    is; where there is none, a duetbench.toml is written.
    """
    console = Console()
    root = repository(console).root
    file, table = settings.read_table(root)
    if table or any((root / "apps").glob("*/experiment.toml")):
        raise UsageError(
            f"{file} declares already what is measured: change it there, or remove its {_HEADER} "
            "first"
        )
    chosen = _chosen(root, app, console)
    lock, asked = target_locks.lock_of(root), target_python.request(root)
    packages = lock.name if lock else "no packages of its own"
    source = f" ({asked.source})" if asked.text != "any" else ""
    console.say(f"packages: {packages}; Python: {asked.text}{source}")
    lines = [f"app = {_text(chosen.name)}", *(["factory = true"] if chosen.factory else [])]
    requests = (_text(f"GET {request}") for request in path or chosen.paths[:2] or ("/",))
    lines.append(f"requests = [{', '.join(requests)}]")
    own = root / "pyproject.toml"
    place = own if own.is_file() else root / FILE
    text = _written(own, lines) if place == own else "".join(f"{line}\n" for line in lines)
    tomllib.loads(text)  # what is written can be read
    console.say(f"{'would write' if dry_run else 'wrote'} into {place}:")
    for line in (_HEADER, *lines) if place == own else lines:
        console.say(f"  {line}")
    if dry_run:
        return
    files.replace(place, text.encode())
    console.say(
        "next: duetbench run (how fast is it?), then duetbench compare HEAD~1 (what did the last "
        "commit do?)"
    )


def _chosen(root: Path, app: str | None, console: Console) -> discover.Application:
    applications = discover.applications(root)
    if app is not None:
        match = next((each for each in applications if each.name == app), None)
        return match or discover.Application(app, "", factory=False, paths=())
    if not applications:
        known_ones = ", ".join(sorted({*discover.FRAMEWORKS.values()}))
        raise UsageError(
            f"{root}: expected an application of {known_ones}, found none: name it with --app "
            "module:attribute"
        )
    first, *others = applications
    how = f" makes it ({first.framework})" if first.factory else f" ({first.framework})"
    console.say(f"application: {first.name}{how}")
    if others:
        console.say(f"others: {', '.join(other.name for other in others[:5])}; choose with --app")
    return first


def _text(value: str) -> str:
    """A string in TOML: JSON escapes all that TOML does but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _written(file: Path, lines: list[str]) -> str:
    """The file with the table at its end, in its own line ends; `UsageError`: it is no TOML."""
    read_toml(file)
    before = file.read_bytes().decode()
    end = "\r\n" if "\r\n" in before else "\n"
    gap = (
        "" if not before or before.endswith(2 * end) else end if before.endswith("\n") else 2 * end
    )
    return before + gap + "".join(f"{line}{end}" for line in (_HEADER, *lines))

"""Options that several commands share, also those that describe a target, and how they are read."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, get_origin

from cyclopts import Parameter, validators

from duetbench.app import target
from duetbench.app.subject import Subject
from duetbench.app.target import FIELDS, is_harmless
from duetbench.core import units
from duetbench.core.errors import UsageError
from duetbench.host import files, paths, process_session
from duetbench.host.console import STANDARD, Console, write
from duetbench.host.machine import measuring

_TIMES: Final = "180s, 5m, 1h or 1h30m"

Words = tuple[str, ...]
"""An option that may be repeated."""

SelectOption = Annotated[
    Words,
    Parameter(
        metavar="GLOB", help="Only cases whose id matches this glob, e.g. 'shop/*'; repeatable."
    ),
]

LaunchesOption = Annotated[
    int,
    Parameter(
        metavar="N",
        help="Server starts per case; 3 give verdicts.",
        validator=validators.Number(gte=1),
    ),
]

JsonOption = Annotated[bool, Parameter("--json", help="Print JSON.")]

ReportsOption = Annotated[
    tuple[Path, ...],
    Parameter(
        "-o",
        metavar="FILE",
        allow_leading_hyphen=True,
        help="Write FILE.json, FILE.md or FILE.html; repeatable. -: JSON on standard output.",
    ),
]

WaitOption = Annotated[
    str | None, Parameter(metavar="TIME", help="Wait at most this long for another one, e.g. 10m.")
]


def budget_option(purpose: str, more: str = "") -> Parameter:
    """Return the option `--budget`, read by `budget_seconds`; `more` follows the format."""
    return Parameter(metavar="TIME", help=f"{purpose}: {_TIMES}. {more}".rstrip())


def budget_seconds(text: str | None, option: str = "--budget") -> float | None:
    """Read the time of an option, such as 90s, 20m, 1h30m, in seconds; raises UsageError."""
    total = None if text is None else units.read_time(text)
    if text is not None and not total:
        raise UsageError(f"{option} {text!r}: expected a time such as {_TIMES}")
    return total


def clean_up(console: Console) -> None:
    """End processes that killed runs left on this machine; print a sentence for each."""
    for sentence in process_session.reap():
        console.say(f"note: {sentence}")
    paths.sweep_scratch()


def machine(
    wait: str | None, console: Console, *, timed: bool = True
) -> AbstractContextManager[None]:
    """Clean this machine up, and hold it for a measurement.

    Preparations belong to it, since they would disturb another one. `wait` is the value of --wait,
    and the console is told what it waits for. What is not `timed` needs no machine of its own.
    """
    clean_up(console)
    patience = budget_seconds(wait, "--wait") or 0.0
    return measuring(patience, console.say) if timed else nullcontext()


def repository(console: Console) -> Path:
    """Find the repository to measure, and print its path; UsageError if there is none."""
    root = paths.project_root(stand_in=False)
    console.say(f"repository: {root}")
    return root


def reports(paths: Sequence[Path], *kinds: str) -> Sequence[Path]:
    """Check the files of -o, whose suffixes must be among `kinds`.

    Raises UsageError if a path can be no file of these kinds, RecordError if it cannot be written.
    """
    for path in paths:
        if path != STANDARD:
            if path.suffix not in kinds:
                raise UsageError(f"-o {path}: expected a file {' or '.join(kinds)}, or -: JSON")
            files.require_writable(path)
    return paths


def write_reports(paths: Sequence[Path], texts: Mapping[str, Callable[[], str]]) -> None:
    """Write each file, with the text of its suffix; RecordError if it cannot be written."""
    for path in paths:
        write(texts[path.suffix or ".json"](), path)


# The options that describe a target.

_SECRET: Final = re.compile(r"auth|cookie|key|token|secret|session|passw", re.IGNORECASE)
"""Names of headers with private values."""

OPTIONS: Final = {
    "app": "app", "path": "requests", "request": "requests", "header": "headers", "login": "login",
    "env": "env", "env-file": "env-file", "copy-database": "copy-database", "before": "before",
}  # fmt: skip
"""Option → its key."""

_OF_KEYS: Final = {key: option for option, key in OPTIONS.items()}

WORDS: Final = {"arg" if key == "server-arg" else key: key
                for key in FIELDS if key not in {*_OF_KEYS, "results"}}  # fmt: skip
"""Word of `--with` → its key: all that have no option."""

_SEVERAL: Final = {
    key for key, info in FIELDS.items() if get_origin(info.annotation) in {tuple, dict}
}

Options = Mapping[str, Any]
"""Options that describe a target, spelled as the keys of `[tool.duetbench]` are."""


def _of(key: str, metavar: str) -> Parameter:
    return Parameter(metavar=metavar, help=FIELDS[key].description)


@Parameter("*")
@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """The options that describe a target, as they are typed."""

    app: Annotated[str | None, _of("app", "MODULE:ATTRIBUTE")] = None
    path: Annotated[
        Words,
        Parameter(
            metavar="PATH", help="Path to GET, e.g. /items/7 (/). Repeat it: each is a case."
        ),
    ] = ()
    request: Annotated[Words, _of("requests", "LINE")] = ()
    header: Annotated[Words, _of("headers", "'NAME: VALUE'")] = ()
    login: Annotated[str | None, _of("login", "REQUEST")] = None
    env: Annotated[Words, _of("env", "NAME[=VALUE]")] = ()
    env_file: Annotated[Words, _of("env-file", "FILE")] = ()
    copy_database: Annotated[str | None, _of("copy-database", "VARIABLE")] = None
    before: Annotated[Words, _of("before", "COMMAND")] = ()
    words: Annotated[
        Words,
        Parameter(
            "--with",
            metavar="WORD",
            help=f"What is otherwise than usual, such as workers=4: {', '.join(WORDS)}; "
            "repeatable.",
        ),
    ] = ()

    def read(self) -> Options:
        """Read the options into keys; UsageError if a header or variable is invalid.

        A private header's value becomes a variable, whose values are never recorded or shown.
        """
        keys: dict[str, Any] = {key: () if key in _SEVERAL else None for key in FIELDS}
        for option, key in OPTIONS.items():
            value = getattr(self, option.replace("-", "_"))
            keys[key] = (*keys[key], *value) if key in _SEVERAL else value
        for word in self.words:
            name, sign, text = word.partition("=")
            if name not in WORDS or text.startswith("="):
                known = ", ".join(WORDS)
                raise UsageError(f"--with {word}: expected KEY=VALUE, with one of {known}")
            key = WORDS[name]
            value = target.read_value(key, text if sign else "true")
            keys[key] = (*keys[key], *value) if key in _SEVERAL else value
        headers, variables = dict[str, str](), dict[str, str]()
        for text in self.env:
            name, assigned, value = text.partition("=")
            if not assigned and name not in os.environ:
                advice = f"set it, or use --env {name}=VALUE"
                raise UsageError(f"--env {name}: it is not set here; {advice}")
            variables[name] = value if assigned else os.environ[name]
        for text in self.header:
            name, assigned, value = (part.strip() for part in text.partition(":"))
            if not assigned or not name:
                raise UsageError(f"--header {name!r}…: expected NAME: VALUE")
            headers[name.lower()] = value
            if _SECRET.search(name) and not re.search(r"\{\w+\}", value):
                variable = f"HEADER_{name.upper().replace('-', '_')}"
                variables[variable], headers[name.lower()] = value, f"{{{variable}}}"
        return {**keys, "headers": headers, "env": variables}


DECLARED: Final = TargetOptions()
"""What is declared, with no other options."""


def with_options(root: Path, options: Options) -> Subject:
    """Return a repository's application, from keys and options; raises as `target.of`."""
    from duetbench.app.deployment import module_files  # slow to import

    here, app = Path.cwd(), options["app"]
    if app and here != root and here.is_relative_to(root):
        name, places = app.partition(":")[0], (here, root / "src", root)
        folders = [p for p in places for file in module_files(name) if (p / file).is_file()]
        if folders == [here]:
            # What starts in a folder is imported from it, also if it lists no packages.
            root = here
    return Subject(root, target=target.of(root, options))


def repetition(options: Options) -> tuple[list[str], str]:
    """Return the options that repeat a call, and the names of those that only its author has."""
    words, others = list[str](), dict[str, None]()
    names = {key: word for word, key in WORDS.items()}
    headers = [f"{name}: {text}" for name, text in options.get("headers", {}).items()]
    for key, value in {**options, "headers": headers}.items():
        flag = f"--{_OF_KEYS[key]}" if key in _OF_KEYS else "--with"
        for each in value if key in _SEVERAL else [value] * target.was_given(value):
            text = f"{names[key]}={each}" if flag == "--with" else str(each)
            if is_harmless(flag, text):
                words += [flag, text]
            else:
                others[f"--with {names[key]}" if flag == "--with" else flag] = None
    return words, ", ".join(others)


def left_out(options: Options) -> tuple[str, ...]:
    """Return a sentence on what a report's command lacks, if anything."""
    names = repetition(options)[1]
    return (f"to repeat it, add {names} again: the command omits that",) if names else ()

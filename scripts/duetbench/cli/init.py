"""`duetbench init`: record how an application is measured."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from typer import Context, Option

from duetbench.app import declarations, deployment, hints, revisions, servers, target
from duetbench.app.declarations import FILE, read_toml
from duetbench.app.project_tests import Suite
from duetbench.ci import workflows
from duetbench.cli.options import clean_up, repository
from duetbench.cli.target_options import Options, with_options, with_target
from duetbench.core.errors import UsageError
from duetbench.effects.suite import BAD, NO_CLIENT, record
from duetbench.host import files
from duetbench.host.console import Console, Narrator
from duetbench.load import trial
from duetbench.report.formats import quantity

_CALLS: Final = (
    r"(?:\w+\.)*(?:FastAPI|Starlette|Litestar|Quart|BlackSheep|Flask|Bottle|FastHTML|fast_app"
    r"|get_[aw]sgi_application)\(|\bfalcon\.(?:asgi\.)?App\("
)
"""Calls that return an application."""

_MAKES: Final = r"(?:create|make|build|get)_\w*"
_APPLICATIONS: Final = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        rf"^(\w+)(?:, *\w+)?(?: *:[^=\n]+)? *= *(?:{_CALLS}|(?:\w+\.)*{_MAKES}app\w*\()",
        r"^(?:async )?def (\w+)\((?:environ, *start_response|scope, *receive, *send)\b",
        rf"^def ({_MAKES})\(.*\n(?:[ \t].*\n|\n)*?[ \t].*(?:{_CALLS})",
    )
)
"""What an application is in a module: made, a plain function, or what a function makes."""

_HEADER: Final = "[tool.duetbench]"
_USUAL: Final = ("app", "application", "api", "main", "asgi", "wsgi", "server", "web")
"""Names of modules and attributes, the most common first."""

_TESTS: Final = {"tests", "test", "benchmarks"}
_SKIPPED: Final = _TESTS | {"docs", "examples", "node_modules", "build", "dist", "migrations"}
_TRIES: Final = 5
"""Most applications served until one answers."""


@with_target
def init_command(
    context: Context,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Show what would be written, and write nothing.")
    ] = False,
    tests: Annotated[
        list[str] | None,
        Option(
            "--tests",
            metavar="PATH",
            help="Compare by these tests, files or folders, without an application; repeatable.",
        ),
    ] = None,
    github: Annotated[
        bool, Option("--github", help="Also write the workflows that compare pull requests.")
    ] = False,
) -> None:
    """Write into this repository's pyproject.toml how its application is measured.

    $ duetbench init
    $ duetbench init --app shop.main:app --path /items/7 --env-file .env.example --dry-run
    $ duetbench init --tests tests/api --github

    Application, framework, lock and interpreter are detected, and the options are written as keys.
    The application is served once, without load: what is written has answered with the expected
    status. Without --path, that is a path that its framework lists. The rest of the file stays as
    it is; without such a file, a duetbench.toml is written. With --tests, these are run once in
    place of an application. --github writes two workflows, of which one starts services, and
    installs, like the job of the repository that runs its tests.
    """
    console, options = Console(), context.obj
    root = repository(console)
    file, table = declarations.read_table(root)
    if table:
        raise UsageError(
            f"{file} already declares what is measured: change it there, or remove its {_HEADER} "
            "first"
        )
    login, in_file = options["login"], target.OPTIONS["login"].safe
    if login and in_file and not (in_file.fullmatch(login) or re.search(r"\{\w+\}", login)):
        raise UsageError(
            "--login: what it sends would be committed: put it into a file, 'POST /login "
            "@login.json', or its secrets into variables, {NAME} with --env-file"
        )
    clean_up(console)
    if tests:
        _try_tests(root, tests, options, console)
        keys: dict[str, Any] = {**options, "tests": tests}
    else:
        chosen, requests = _first(root, options, console)
        keys = {**options, "app": chosen, "requests": requests}
    # A value that was not typed may be private.
    typed = {text.partition("=")[0] for text in context.params["env"] or () if "=" in text}
    env = {name: text for name, text in options["env"].items() if name in typed}
    keys["env"] = env
    lines = [f"{key} = {_toml(value)}" for key, value in keys.items() if target.was_given(value)]
    place, before = root / FILE, ""
    if (own := root / "pyproject.toml").is_file():
        read_toml(own)  # a file that cannot be read is not changed
        place, before = own, f"{own.read_text('utf-8').rstrip()}\n\n"
        lines = [_HEADER, *lines]
    text = before + "".join(f"{line}\n" for line in lines)
    tomllib.loads(text)  # raises before anything is written
    console.say(f"{'would write' if dry_run else 'wrote'} into {place}:")
    for line in lines:
        console.say(f"  {line}")
    if env or options["headers"]:
        console.say("note: env and headers are committed as they are: name secrets by --env-file")
    for name in sorted(options["env"].keys() - typed):
        console.say(f"not written: the value of {name}: add --env {name} to each command")
    written = {place: text}
    if github:
        top = revisions.top(root) or root
        made, like = workflows.make(top, revisions.within(root))
        how = f", prepared like the tests of {like}" if like else ": add services and packages"
        console.say(f".github/workflows: {' and '.join(made)}{how}")
        written |= {top / ".github/workflows" / name: text for name, text in made.items()}
    if dry_run:
        return
    for path, content in written.items():
        files.replace(path, content.encode())
    run = "" if tests else "duetbench run (how fast is it?), then "
    console.say(f"next: {run}duetbench compare HEAD~1 (what did the last commit do?)")


def _try_tests(root: Path, tests: Sequence[str], options: Options, console: Console) -> None:
    """Run tests once, in a copy, and say what they show; raises UsageError without requests."""
    suite, narrator = Suite.find(root, tests, env=options["env"]), Narrator(console)
    with revisions.copies() as copies:
        copy = revisions.copy(root, copies)
        revisions.add_uncommitted(root, copy)
        with narrator.step(f"the tests of {' '.join(tests)}", "once") as tick:
            seen = record(suite, copy, tick)
    made = seen.operations.values()
    if not made:
        raise UsageError(f"--tests: {NO_CLIENT}")
    endpoints = len({(each.method, each.route) for each in made})
    failed = sum(outcome in BAD for outcome in seen.outcomes.values())
    console.say(
        f"{quantity(len(seen.outcomes), 'test')}, of which {failed:,} fail: "
        f"{quantity(len(made), 'request')} to {quantity(endpoints, 'endpoint')}"
    )


def _first(root: Path, options: Options, console: Console) -> tuple[str, Sequence[str]]:
    """Serve applications until one answers; return it, as it is measured, with its requests.

    Raises UsageError if none does, or one lacks only variables.
    """
    narrator, asked = Narrator(console), options["requests"]
    candidates = (options["app"],) if options["app"] else applications(root)
    for candidate in candidates[:_TRIES]:
        try:
            declared = with_options(root, {**options, "app": candidate})
            with revisions.copies() as copies:
                copy = deployment.working(declared, narrator, copies)
                right = trial.serve_once(copy, narrator, find=not asked)
        except UsageError as error:
            if len(candidates) == 1 or hints.LACKING in str(error):
                raise
            console.say(f"not {candidate}: {str(error).removeprefix(f'{candidate}: ')}")
            continue
        console.say(f"application: {candidate}")
        return candidate, asked or right
    if candidates:
        raise UsageError(
            "no application answers, for the reasons above: add what they lack, name another "
            "with --app module:attribute, or compare by tests: --tests PATH"
        )
    raise UsageError(
        f"{root}: expected an application that a command line starts or a framework makes, "
        "found none: name it with --app module:attribute, or compare by tests: --tests PATH"
    )


def _toml(value: Any) -> str:
    """Write a value in TOML."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_toml(item)}' for key, item in value.items())} }}"
    # JSON writes lists as TOML does, and escapes in strings all but DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def applications(root: Path) -> tuple[str, ...]:
    """Find what may be an application of a repository, the likeliest first, and execute none.

    Those that it starts in production come first, then what looks like one; an import tells.
    """
    started = (command.app for command in servers.start_commands(root, ""))
    found: set[str] = set()
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root).parts
        hidden = any(part in _SKIPPED or part[0] == "." for part in parts)
        folders = (root.joinpath(*parts[:n]) for n in range(1, len(parts)))
        if not hidden and not any((folder / "pyvenv.cfg").exists() for folder in folders):
            text = file.read_text("utf-8", "replace")
            names = [name for pattern in _APPLICATIONS for name in pattern.findall(text)]
            found |= {f"{_module(file, text, root)}:{name}" for name in names}
    apps = dict.fromkeys((*started, *sorted(found, key=_unlikely)))
    return tuple(app for app in apps if re.fullmatch(r"[\w.]+:[\w.]+", app))


def _module(file: Path, text: str, root: Path) -> str:
    """Name a module from the folder of its package; without one, from the top folder or `src`.

    If what it imports lies beside it, from its own folder.
    """
    top = file.parent
    while top != root and (top / "__init__.py").is_file():
        top = top.parent
    beside = re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE)
    if top == file.parent and not any((top / f"{name}.py").is_file() for name in beside):
        top = next(home for home in (root / "src", root) if file.is_relative_to(home))
    return ".".join(file.relative_to(top).with_suffix("").parts).removesuffix(".__init__")


def _unlikely(application: str) -> tuple[bool, int, int, str]:
    module, _, attribute = application.partition(":")
    last = module.rpartition(".")[2]
    place = sum(_USUAL.index(n) if n in _USUAL else len(_USUAL) for n in (attribute, last))
    made = re.match(_MAKES, attribute) is not None
    return made, place, module.count("."), application

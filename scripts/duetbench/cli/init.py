"""`duetbench init`: record how an application is measured."""

import importlib.metadata
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from string import Template
from typing import Annotated, Any, Final
from urllib.parse import quote, urlsplit

from cyclopts import Parameter

from duetbench.app import declarations, deployment, hints, request_lines, revisions, target
from duetbench.app.declarations import FILE
from duetbench.app.project_tests import Suite
from duetbench.app.subject import Subject
from duetbench.cli.options import (
    DECLARED,
    Options,
    TargetOptions,
    Words,
    clean_up,
    repository,
    with_options,
)
from duetbench.core.errors import UsageError
from duetbench.effects import suite
from duetbench.effects.activity import BAD
from duetbench.host import files
from duetbench.host.console import Console, Narrator
from duetbench.load import trial
from duetbench.report.formats import quantity

_TEMPLATES: Final = Path(__file__).parents[1] / "ci/templates"  # of workflows

_HEADER: Final = "[tool.duetbench]"
_TRIES: Final = 5
"""Most applications served until one answers."""

_LONGEST_BODY: Final = 4_000
"""Characters of a body that a line contains: a longer one belongs in a file."""

_SHOWN: Final = 3  # most wrong answers that a message quotes


def init_command(
    *,
    dry_run: bool = False,
    tests: Annotated[Words, Parameter(metavar="PATH")] = (),
    github: bool = False,
    application: TargetOptions = DECLARED,
) -> None:
    """Write into this repository's pyproject.toml how its application is measured.

    $ duetbench init
    $ duetbench init --app shop.main:app --path /items/7 --env-file .env.example --dry-run
    $ duetbench init --tests tests/api --github

    The application is detected, and the options are written as keys, without values of --env. The
    application is served once, without load: what is written has answered with the expected status.
    Without --path, that is a path that its framework lists. The rest of the file stays as it is;
    without such a file, a duetbench.toml is written. With --tests, these run once, in place of an
    application, or to find requests for the one of --app. --github writes two workflows; to the
    first one you add the services and packages that tests need.

    Args:
        dry_run: Show what would be written, and write nothing.
        tests: Compare by these tests, files or folders; with --app, load what they request.
        github: Also write the workflows that compare pull requests.
    """
    console, options = Console(), application.read()
    root = repository(console)
    file, table = declarations.read_table(root)
    if table:
        raise UsageError(
            f"{file} already declares what is measured: change it there, or remove its {_HEADER} "
            "first"
        )
    if (login := options["login"]) and not re.search(r" @|\{\w+\}", login):
        raise UsageError(
            "--login: what it sends would be committed: put it into a file, 'POST /login "
            "@login.json', or its secrets into variables, {NAME} with --env-file"
        )
    clean_up(console)
    if tests:
        chosen: dict[str, Any] = {"tests": tests}
        seen = _run_tests(root, tests, options, console)
        if options["app"]:
            chosen["requests"] = _requests_of(seen, root, options, console)
    else:
        chosen = _first(root, options, console)
    keys = {**options, **chosen, "env": {}}
    lines = [f"{key} = {_toml(value)}" for key, value in keys.items() if target.was_given(value)]
    place, before = root / FILE, ""
    if file.is_file():
        place, before = file, f"{file.read_text('utf-8').rstrip()}\n\n"
        lines = [_HEADER, *lines]
    text = before + "".join(f"{line}\n" for line in lines)
    tomllib.loads(text)  # raises before anything is written
    console.say(f"{'would write' if dry_run else 'wrote'} into {place}:")
    for line in lines:
        console.say(f"  {line}")
    for name in options["env"]:
        console.say(f"not written: the value of {name}: add --env {name} to each command")
    written = {place: text.encode()}
    if github:
        folder = (revisions.top(root) or root) / ".github" / "workflows"
        made = workflows(revisions.within(root))
        written |= {folder / name: content.encode() for name, content in made.items()}
        console.say(f"and into {folder}: {' and '.join(made)}")
        if any("OWNER/" in text for text in made.values()):
            console.say("in both, put the owner of your copy of duetbench in the place of OWNER")
    if dry_run:
        return
    for file, content in written.items():
        files.replace(file, content)
    run = "" if tests else "duetbench run (how fast is it?), then "
    console.say(f"next: {run}duetbench compare HEAD~1 (what did the last commit do?)")


def _run_tests(
    root: Path, tests: Sequence[str], options: Options, console: Console
) -> suite.Recording:
    """Run tests once, in a copy, and say what they show; raises UsageError without requests."""
    own, narrator = Suite.find(root, tests, env=options["env"]), Narrator(console)
    with revisions.copies() as copies:
        copy = revisions.copy(root, copies)
        revisions.add_uncommitted(root, copy)
        with narrator.step(f"the tests of {' '.join(tests)}", "once") as tick:
            seen = suite.record(own, copy, tick)
    made = seen.operations.values()
    if not made:
        raise UsageError(f"--tests: {suite.NO_CLIENT}")
    failed = sum(outcome in BAD for outcome in seen.outcomes.values())
    endpoints = len({operation.endpoint for operation in made})
    console.say(
        f"{quantity(len(seen.outcomes), 'test')}, of which {failed:,} fail: "
        f"{quantity(len(made), 'request')} to {quantity(endpoints, 'endpoint')}"
    )
    return seen


def _requests_of(
    seen: suite.Recording, root: Path, options: Options, console: Console
) -> Sequence[str]:
    """Find the requests of tests that the application answers here as it does there.

    Others than GET may write, and need a copied database. Raises UsageError if there are none.
    """
    lines = dict[str, str | None]()  # of each endpoint, a request all of which is known
    for operation in seen.operations.values():
        right = operation.did.answers[0][0]["status"] == 200 and operation.body is not None
        may = operation.method == "GET" or options["copy-database"]
        if right and may and seen.outcomes.get(operation.test) == "passed":
            address = operation.method, operation.path, operation.query
            body = (operation.body or "").encode("latin-1").decode(errors="replace")
            line = write_request(*address, operation.content_type, body)
            lines.setdefault(operation.endpoint, line)
    written = [*filter(None, dict.fromkeys(lines.values()))]
    with revisions.copies() as copies:
        declared = with_options(root, {**options, "requests": tuple(written)})
        copy = deployment.working(declared, Narrator(console), copies)
        right, wrong = trial.serve_once(copy, Narrator(console), find=False)
        names = dict(zip((case.id for case in copy.cases()), written, strict=True))
    if not right:
        raise UsageError(f"it answers no request as in the tests: {'; '.join(wrong[:_SHOWN])}")
    if wrong:
        what = quantity(len(wrong), "request")
        console.say(f"not written: {what}, answered otherwise here: {'; '.join(wrong[:_SHOWN])}")
    if not options["copy-database"]:
        console.say("not written: what is no GET, as it may write: --copy-database has it copied")
    return [names[case.id] for case in right]


def write_request(method: str, path: str, query: str, kind: str, body: str) -> str | None:
    """Write a request as `request_lines` reads it, a body as JSON on one line, or as a form.

    None if that is not possible: the body is neither, is too long, or would be read as a share.
    `path` is not percent-encoded, `query` is, and `kind` is a content type.
    """
    line = f"{method} {quote(path)}{'?' * bool(query)}{quote(query, safe=request_lines.PRINTABLE)}"
    if not body:
        return line
    kind = kind.partition(";")[0]
    text = body if kind == request_lines.FORM_TYPE and request_lines.FORM.fullmatch(body) else ""
    if kind == "application/json":
        with suppress(ValueError):
            text = json.dumps(json.loads(body), ensure_ascii=False)
    return f"{line} {text}" if 0 < len(text) <= _LONGEST_BODY and not text.isdecimal() else None


def _first(root: Path, options: Options, console: Console) -> dict[str, Any]:
    """Serve applications until one answers; return it, as it is measured, with its requests.

    Raises UsageError if none does, or one lacks only variables.
    """
    narrator, asked = Narrator(console), options["requests"]
    candidates = (options["app"],) if options["app"] else applications(root)
    for candidate in candidates[:_TRIES]:
        try:
            declared = with_options(root, {**options, "app": candidate})
            requests = _answered(declared, narrator, find=not asked)
        except UsageError as error:
            if len(candidates) == 1 or hints.LACKING in str(error):
                raise
            console.say(f"not {candidate}: {str(error).removeprefix(f'{candidate}: ')}")
            continue
        console.say(f"application: {candidate}")
        return {"app": candidate, "requests": asked or requests}
    raise UsageError(
        "no application answers: name one with --app module:attribute, and what it lacks, or "
        "compare by tests: --tests PATH"
    )


def _answered(declared: Subject, narrator: Narrator, *, find: bool) -> list[str]:
    """Return the requests that an application answers; UsageError if it does not, to find one."""
    with revisions.copies() as copies:
        copy = deployment.working(declared, narrator, copies)
        right, wrong = trial.serve_once(copy, narrator, find=find)
    if wrong and not (find and right):
        raise UsageError("; ".join(wrong[:_SHOWN]))
    return [f"{case.endpoint.method} {case.endpoint.path}" for case in right]


def _toml(value: Any) -> str:
    """Write a value in TOML."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_toml(item)}' for key, item in value.items())} }}"
    # JSON writes lists as TOML does, and escapes in strings all but DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def workflows(within: Path) -> dict[str, str]:
    """Return both workflows by name; `within` is the application's folder in the repository."""
    addresses = importlib.metadata.metadata("duetbench").get_all("Project-URL") or []
    home = next(line for line in addresses if line.startswith("Homepage"))
    fields = {
        "ours": urlsplit(home.split()[-1]).path.strip("/"),
        "root": "" if within == Path() else f", with: {{ root: {within.as_posix()} }}",
    }
    return {
        name: Template((_TEMPLATES / name).read_text("utf-8")).substitute(fields)
        for name in ("duetbench.yml", "duetbench-comment.yml")
    }


# What may be an application, by files of which none is executed.

_APPLICATION: Final = re.compile(
    r"^(?:(\w+)(?:, *\w+)?(?: *:[^=\n]+)? *= *(?:(?:\w+\.)*(?:FastAPI|Starlette|Litestar|Quart"
    r"|BlackSheep|Flask|Bottle|FastHTML|fast_app|get_[aw]sgi_application|create_app\w*)\("
    r"|falcon\.(?:asgi\.)?App\()|def ((?:create|make|build|get)_app\w*)\()",
    re.MULTILINE,
)
"""What an application is in a module: made by a framework, or a function that makes one."""

_USUAL: Final = ("app", "application", "api", "main", "asgi", "wsgi", "server", "web")
"""Names of modules and attributes, the most common first."""

_SKIPPED: Final = {
    *("tests", "test", "benchmarks", "docs", "examples", "migrations"),
    *("node_modules", "site-packages", "build", "dist"),
}


def applications(root: Path) -> Sequence[str]:
    """Find what may be an application of a repository, the likeliest first."""
    names: set[str] = set()
    for file in root.rglob("*.py"):
        parts = file.relative_to(root).parts
        if not any(part in _SKIPPED or part[0] == "." for part in parts):
            for groups in _APPLICATION.findall(file.read_text("utf-8", "replace")):
                names.add(f"{_module(file, root)}:{''.join(groups)}")
    return sorted(names, key=_unlikely)


def _module(file: Path, root: Path) -> str:
    """Name a module from the folder of its package; without one, from the top folder or `src`."""
    top = file.parent
    while top != root and (top / "__init__.py").is_file():
        top = top.parent
    if top == file.parent:
        top = next(home for home in (root / "src", root) if file.is_relative_to(home))
    return ".".join(file.relative_to(top).with_suffix("").parts).removesuffix(".__init__")


def _unlikely(application: str) -> tuple[bool, int, int, str]:
    module, _, attribute = application.partition(":")
    last = module.rpartition(".")[2]
    place = sum(_USUAL.index(n) if n in _USUAL else len(_USUAL) for n in (attribute, last))
    return "_app" in attribute, place, module.count("."), application

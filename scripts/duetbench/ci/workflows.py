"""Writes the two workflows of a repository: one compares, the other comments.

The first begins as the repository's own job does before it runs the tests: with its services, its
variables, and the steps that install Python and packages.
"""

import importlib.metadata
import re
from pathlib import Path
from string import Template
from typing import Final
from urllib.parse import urlsplit

_TEMPLATES: Final = Path(__file__).with_name("templates")
_TRUSTED: Final = """\
    # Its steps have secrets, which forks' jobs do not get; the compared code gets none of them.
    if: github.event.pull_request.head.repo.full_name == github.repository
"""
_USUAL: Final = "    runs-on: ubuntu-24.04\n"

_JOB: Final = re.compile(r"^  [\w-]+:(?: *#.*)?\n((?:(?:    .*)?\n)+)", re.MULTILINE)
_TESTS: Final = re.compile(
    r"^(?!.*\b(?:install|add|sync|name:)).*"
    r"(?:\b(?:pytest|tox|nox|unittest|manage\.py test|make tests?|coverage run)\b"
    r"|tests?[\w-]*\.sh\b)",
    re.MULTILINE,
)
_OTHERS: Final = re.compile(
    r"actions/checkout@|^(?!.*install).*\b(?:ruff|mypy|flake8|black|isort|pylint)\b", re.MULTILINE
)
"""What none of its steps is for: a checkout of its own comes first, and linters say nothing."""

_DROPPED: Final = re.compile(
    r"^    (?:name|if|needs|strategy|permissions|outputs|timeout-minutes|continue-on-error"
    r"|concurrency|environment):.*\n(?:     .*\n|\n)*|^.*\bsecrets\..*\n",
    re.MULTILINE,
)
"""Keys of a job that are of that workflow only, and secrets that all steps would have."""

_LIST: Final = re.compile(r"^ +([\w-]+):(?: *\[(.*)\]|((?:\n +- .*)+))", re.MULTILINE)
_MATRIX: Final = re.compile(
    r"(?P<key>: )?\$\{\{ *matrix\.([\w-]+)(?: *\|\| *'(.*?)')? *\}\}(?P<end> *$)?", re.MULTILINE
)


def make(top: Path, within: Path) -> tuple[dict[str, str], str]:
    """Return both workflows by name, and the file of the repository that the first is like.

    `within` is the folder of the application in the repository.
    """
    addresses = importlib.metadata.metadata("duetbench").get_all("Project-URL") or []
    home = next(line for line in addresses if line.startswith("Homepage"))
    fields = {"ours": urlsplit(home.split()[-1]).path.strip("/"), "indent": " " * 6, "root": ""}
    if within != Path():
        fields["root"] = f", with: {{ root: {within.as_posix()} }}"
    file, job, variables = _of_tests(top)
    head, _, steps = job.partition("    steps:\n")
    fields["indent"] = (re.match(" *", steps) or [""])[0] or fields["indent"]
    items = re.split(rf"^(?={fields['indent']}- )", steps, flags=re.MULTILINE)
    tests = next((n for n, item in enumerate(items) if _TESTS.search(item)), 0)
    fields["steps"] = "".join(item for item in items[:tests] if not _OTHERS.search(item))
    last = {name: re.findall(r"[^\s,'\"-][^,'\"\n]*", line or lines)[-1].strip()
            for name, line, lines in _LIST.findall(head)}  # fmt: skip
    fields["head"] = _DROPPED.sub("", head) or _USUAL
    if "secrets." in fields["steps"]:
        fields["head"] = _TRUSTED + fields["head"]
    fields["variables"] = _DROPPED.sub("", variables)

    def chosen(match: re.Match[str]) -> str:
        found = re.search(rf"\b{match[2]}: *['\"]?([\w.-]+)", head)  # in a list to include
        value = match[3] or last.get(match[2]) or (found[1] if found else "")
        alone = match["key"] and match["end"] is not None
        return f': "{value}"' if alone else f"{match['key'] or ''}{value}"

    made = {}
    for name in ("duetbench.yml", "duetbench-comment.yml"):
        template = Template((_TEMPLATES / name).read_text("utf-8"))
        made[name] = _MATRIX.sub(chosen, template.substitute(fields))
    return made, file


def _of_tests(top: Path) -> tuple[str, str, str]:
    """Find the job that runs the tests: its file, its text, and the variables of its workflow."""
    for file in sorted(top.glob(".github/workflows/*.y*ml")):
        text = f"{file.read_text('utf-8')}\n"
        variables = re.search(r"^env:.*\n(?:  .*\n)*", text, re.MULTILINE)
        for job in _JOB.findall(text):
            if _TESTS.search(job.partition("    steps:\n")[2]):
                return file.name, job, variables[0] if variables else ""
    return "", "", ""

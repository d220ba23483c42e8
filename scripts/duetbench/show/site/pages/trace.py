"""Where a figure comes from, and how to get it again: links and commands. Pure."""

import glob
import shlex
from typing import Final

from duetbench.show.site.pages import addresses
from duetbench.show.site.pages.site import Site
from duetbench.trend.columns import RunHeader

_INSIDE: Final = "inprocess/"
_PROFILES: Final = frozenset({"quick", "nightly", "published"})


def command(case_id: str, profile: str = "nightly", commit: str | None = None) -> str:
    """The shell command that measures a case again.

    `profile`: Of the run that is repeated; ignored for benchmarks.
    `commit`: If given, the applications and locks of this commit are measured.

    >>> command("asgi-wsgi/asgi-json/py3.14/w1/c128", "quick")
    'duetbench run --profile quick --select asgi-wsgi/asgi-json/py3.14/w1/c128'
    """
    if case_id.startswith(_INSIDE):
        benchmark = case_id.removeprefix(_INSIDE).partition("/")[0].partition("(")[0]
        words = ("duetbench", "inprocess", "--select", f"{glob.escape(benchmark)}*")
        return _at(commit) + shlex.join(words)
    return _run(profile, commit, "--select", glob.escape(case_id))


def experiment_command(name: str, profile: str = "nightly", commit: str | None = None) -> str:
    """The shell command that measures all cases of an experiment again.

    >>> experiment_command("asgi-wsgi", "published")
    "duetbench run --profile published --select 'asgi-wsgi/*'"
    """
    return _run(profile, commit, "--select", f"{glob.escape(name)}/*")


def again(header: RunHeader, case_id: str) -> str:
    """The shell command that measures a case of a run again."""
    if not header.track.ratio:
        return command(case_id, header.profile, header.commit)
    # What is measured inside the process goes with what is played of a stack.
    one = () if case_id.startswith(_INSIDE) else ("--select", glob.escape(case_id))
    return _point(header, *one)


def run_command(header: RunHeader) -> str:
    """The shell command that repeats a whole run."""
    if header.track.ratio:
        return _point(header)
    if not header.track.served:
        return f"{_at(header.commit)}duetbench inprocess"
    return _run(header.profile, header.commit)


def links(site: Site, run_id: str) -> list[tuple[str, str]]:
    """What a figure rests on, as labels and addresses: its run, and the raw file.

    A night that was made up has no raw file.
    """
    found: list[tuple[str, str]] = []
    if run_id in site.nights:
        found.append(("run", addresses.run(run_id)))
    if run_id in site.runs:
        found.append(("run file", addresses.run_file(run_id)))
    elif run_id in site.nights and site.headers[run_id].track.ratio:
        found.append(("points file", addresses.points_file(run_id)))
    return found


def _run(profile: str, commit: str | None, *options: str) -> str:
    known = profile if profile in _PROFILES else "nightly"
    return _at(commit) + shlex.join(("duetbench", "run", "--profile", known, *options))


def _point(header: RunHeader, *options: str) -> str:
    if header.as_of is not None:
        day = header.as_of
        return shlex.join(("duetbench", "backfill", "--from", day, "--to", day, *options))
    return _at(header.commit) + shlex.join(("duetbench", "anchor", "play", *options))


def _at(commit: str | None) -> str:
    if not commit or not commit.isalnum():
        return ""
    return f"git switch --detach {commit[:12]} && duetbench setup && "

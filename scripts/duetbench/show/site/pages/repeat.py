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

    `commit`: If given, the applications and locks of this commit are measured.

    >>> command("asgi-wsgi/asgi-json/py3.14/w1/c128", "quick")
    'duetbench run --profile quick --select asgi-wsgi/asgi-json/py3.14/w1/c128'
    """
    if case_id.startswith(_INSIDE):
        benchmark = case_id.removeprefix(_INSIDE).partition("/")[0].partition("(")[0]
        words = ("duetbench", "inprocess", "--select", f"{glob.escape(benchmark)}*")
        return _at(commit) + shlex.join(words)
    return _run(profile, commit, glob.escape(case_id))


def experiment(name: str, profile: str = "nightly", commit: str | None = None) -> str:
    """The shell command that measures all cases of an experiment again.

    >>> experiment("asgi-wsgi", "published")
    "duetbench run --profile published --select 'asgi-wsgi/*'"
    """
    return _run(profile, commit, f"{glob.escape(name)}/*")


def point(header: RunHeader, case_id: str) -> str:
    """The shell command that measures a case of a night again."""
    if not header.track.ratio:
        return command(case_id, header.profile, header.commit)
    # What is measured inside the process goes with what is played of a stack.
    options = () if case_id.startswith(_INSIDE) else ("--select", glob.escape(case_id))
    if header.as_of is not None:
        day = header.as_of
        return shlex.join(("duetbench", "backfill", "--from", day, "--to", day, *options))
    return _at(header.commit) + shlex.join(("duetbench", "anchor", "play", *options))


def files(site: Site, run_id: str) -> list[str]:
    """Addresses of the raw files of a night; one that was made up has none."""
    if run_id in site.runs:
        return [addresses.run_file(run_id)]
    if run_id in site.headers and site.headers[run_id].track.ratio:
        return [addresses.points_file(run_id)] if run_id in site.points else []
    return []


def _run(profile: str, commit: str | None, select: str) -> str:
    known = profile if profile in _PROFILES else "nightly"
    return _at(commit) + shlex.join(("duetbench", "run", "--profile", known, "--select", select))


def _at(commit: str | None) -> str:
    if not commit or not commit.isalnum():
        return ""
    return f"git switch --detach {commit[:12]} && duetbench setup && "

"""Where run files live: `results/runs/<machine>/<year>/<run>.json`.

A run in progress is `<run>.partial.json`, replaced as a whole after every launch. A finished one is
`<run>.json`, written once and never again.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from servebench.core.errors import RecordError, UsageError
from servebench.core.model import Profile, Run
from servebench.record import files
from servebench.record.run_file import decode, encode

PARTIAL: Final = ".partial.json"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def run_id(started: str, profile: Profile, commit: str | None) -> str:
    """A run's name, such as `20261120T094012Z-nightly-3f2a9c17`; names sort by time.

    `started` is ISO 8601 with an offset.
    """
    moment = datetime.fromisoformat(started)
    if moment.tzinfo is None:
        raise RecordError(f"a run's start must name its offset from UTC, found {started!r}")
    return f"{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}-{profile}-{(commit or 'nocommit')[:8]}"


def path_for(results: Path, run: Run) -> Path:
    """Where the finished run belongs."""
    for what, name in (("run", run.id), ("machine", run.machine.id)):
        if not _NAME.fullmatch(name):
            raise RecordError(
                f"the {what} id {name!r} cannot name a file: letters, digits, '.', '_' and '-' only"
            )
    year = datetime.fromisoformat(run.started).astimezone(UTC).year
    return results / "runs" / run.machine.id / str(year) / f"{run.id}.json"


def partial_path_for(results: Path, run: Run) -> Path:
    """Where the run is kept while it is measured."""
    final = path_for(results, run)
    return final.with_name(final.stem + PARTIAL)


def save_partial(results: Path, run: Run) -> Path:
    """Save a run that is still being measured, replacing what was saved of it before.

    Raises:
        RecordError: It cannot be written; what was saved before is unharmed.
    """
    path = partial_path_for(results, run)
    files.replace(path, encode(run))
    return path


def finalise(results: Path, run: Run) -> Path:
    """Write the immutable file of a run and remove its partial one.

    A file that is there with the same bytes is success.

    Raises:
        RecordError: It cannot be written, or another file of this name exists.
    """
    path, data = path_for(results, run), encode(run)
    with files.written_beside(path, data) as temporary:
        try:
            # A link, unlike a rename, never replaces what is there, even in a race.
            os.link(temporary, path)
        except FileExistsError:
            if path.read_bytes() != data:
                raise RecordError(
                    f"{path} exists with other contents, and a run file is never rewritten; "
                    "if that file is wrong, remove it by hand"
                ) from None
    partial_path_for(results, run).unlink(missing_ok=True)
    return path


def load(path: Path) -> Run:
    """Read a run file.

    Raises:
        RecordError: It cannot be read or is not what this version reads.
    """
    return decode(files.contents(path), str(path))


def runs(results: Path, *, profile: Profile | None = None, partial: bool = False) -> list[Path]:
    """Run files, oldest first; partial ones too when asked."""
    found = (
        path
        for path in (results / "runs").glob("*/*/*.json")
        if (partial or not path.name.endswith(PARTIAL))
        and (profile is None or f"-{profile}-" in path.name)
    )
    return sorted(found, key=lambda path: path.name)


def partials(results: Path) -> list[Path]:
    """Files of runs that were not finished, oldest first."""
    return [path for path in runs(results, partial=True) if path.name.endswith(PARTIAL)]


def latest(results: Path, *, profile: Profile | None = None, partial: bool = False) -> Path:
    """The run file that was started last.

    Raises:
        RecordError: There is none.
    """
    found = runs(results, profile=profile, partial=partial)
    if not found:
        kind = f"{profile} run" if profile else "run"
        unfinished = "" if partial else _unfinished(results)
        raise RecordError(
            f"{results / 'runs'}: no {kind} has been recorded{unfinished}; "
            f"make one: servebench run --profile {profile or 'quick'}"
        )
    return found[-1]


def find(results: Path, name: str, others: Sequence[str] = ()) -> Path:
    """The run file that a person means: a path, `latest`, a run's id, or enough of it.

    `others` could have been named, too, where that was asked for.

    Raises:
        UsageError: Nothing, or more than one run, goes by that name.
        RecordError: `latest`, and there is none.
    """
    if name == "latest":
        return latest(results)
    if (path := Path(name)).is_file():
        return path
    known = {path.name.removesuffix(".json"): path for path in runs(results, partial=True)}
    for candidate in (name, f"{name}.partial"):
        if candidate in known:
            return known[candidate]
    matching = [run for run in known if name in run]
    if len(matching) == 1:
        return known[matching[0]]
    if matching:
        raise UsageError(f"{name!r} could be any of {', '.join(matching[-5:])}; say more of it")
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.3) or list(known)[-3:]
    raise UsageError(
        f"no run goes by {name!r} (expected 'latest', a run's id, or a file); "
        + (f"there are, for example: {', '.join(near)}" if near else f"{results} has no runs yet")
        + (f"; comparisons: {', '.join(others)}" if others else "")
    )


def _unfinished(results: Path) -> str:
    count = len(partials(results))
    return f" ({count} unfinished: servebench run --resume latest)" if count else ""

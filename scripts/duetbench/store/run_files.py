"""Files of runs, and the names that people use for them.

Run files: `results/runs/<machine>/<year>/<run>.json`, strict JSON of `model.Run`.

A run in progress is `<run>.partial.json`, replaced as a whole after every launch. A finished run is
`<run>.json`, written once and never changed.
"""

import difflib
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from duetbench.core.errors import RecordError, UsageError
from duetbench.core.model import Profile, Run
from duetbench.store import files

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def run_id(started: str, profile: Profile, commit: str | None) -> str:
    """A run's name, such as `20261120T094012Z-nightly-3f2a9c17`; names sort by time.

    `started` is ISO 8601 with an offset.
    """
    moment = datetime.fromisoformat(started).astimezone(UTC)
    return f"{moment:%Y%m%dT%H%M%SZ}-{profile}-{(commit or 'nocommit')[:8]}"


def path_for(results: Path, run: Run) -> Path:
    """The path of the finished run's file."""
    for kind, name in (("run", run.id), ("machine", run.machine.id)):
        if not _NAME.fullmatch(name):
            raise RecordError(
                f"the {kind} id {name!r} cannot name a file: letters, digits, '.', '_' and '-' only"
            )
    return results / run.path


def partial_path_for(results: Path, run: Run) -> Path:
    """The path of the run's file while it is measured."""
    final = path_for(results, run)
    return final.with_name(final.stem + files.PARTIAL)


def save_partial(results: Path, run: Run) -> Path:
    """Save the state of a run that is still being measured; raises RecordError."""
    return files.write(partial_path_for(results, run), run)


def finalise(results: Path, run: Run) -> Path:
    """Write the immutable file of a run and remove its partial one; raises RecordError.

    An existing file with the same bytes is success.
    """
    path, data = path_for(results, run), files.encode(run)
    with files.draft(path, data) as temporary:
        try:
            # A link, unlike a rename, never replaces an existing file, even in a race.
            os.link(temporary, path)
        except FileExistsError:
            if path.read_bytes() != data:
                raise RecordError(
                    f"{path} exists with other contents, and a run file is never rewritten; "
                    "if that file is wrong, remove it by hand"
                ) from None
    partial_path_for(results, run).unlink(missing_ok=True)
    return path


def runs(results: Path, *, partial: bool = False) -> list[Path]:
    """Run files, oldest first; with `partial` also unfinished ones."""
    matching = (
        path
        for path in (results / "runs").glob("*/*/*.json")
        if partial or not path.name.endswith(files.PARTIAL)
    )
    return sorted(matching, key=lambda path: path.name)


def find(results: Path, name: str, others: Mapping[str, Path] | None = None) -> Path:
    """The file that a name means: a path, `latest` of the runs, an id, or part of an id.

    Ids are those of runs, and of `others`. Raises UsageError if no file or several files have the
    name, and RecordError if there is no `latest`.
    """
    if name == "latest":
        if finished := runs(results):
            return finished[-1]
        raise RecordError(f"{results / 'runs'}: no run has been recorded; make one: duetbench run")
    if (path := Path(name)).is_file():
        return path
    recorded = {path.name.removesuffix(".json"): path for path in runs(results, partial=True)}
    candidates = {**recorded, **(others or {})}
    matching = [candidate for candidate in candidates if name in candidate]
    exact = [candidate for candidate in matching if candidate in {name, f"{name}.partial"}]
    if len(exact or matching) > 1:
        raise UsageError(f"{name!r} could be any of {', '.join(matching[-5:])}; be more specific")
    if matching:
        return candidates[(exact or matching)[0]]
    near = difflib.get_close_matches(name, candidates, n=3, cutoff=0.3) or list(candidates)[-3:]
    raise UsageError(
        f"no result has the name {name!r} (expected 'latest', an id, or a file); "
        + (f"there are, for example: {', '.join(near)}" if near else f"{results} has no runs yet")
    )

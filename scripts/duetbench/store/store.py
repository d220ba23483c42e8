"""Files of runs, and how a person names them.

Run files: `results/runs/<machine>/<year>/<run>.json`, strict JSON of `model.Run`.

A run in progress is `<run>.partial.json`, replaced as a whole after every launch. A finished one is
`<run>.json`, written once and never again. Measured values are rounded to `DIGITS` significant
digits, a relative error of at most 5e-6, which is a thousand times below the noise of any launch.
Counts and declared values are kept exactly.
"""

import difflib
import math
import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from duetbench.core import units
from duetbench.core.errors import RecordError, UsageError
from duetbench.core.metrics import METRICS
from duetbench.core.model import Launch, Profile, Run
from duetbench.store import files

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
    for kind, name in (("run", run.id), ("machine", run.machine.id)):
        if not _NAME.fullmatch(name):
            raise RecordError(
                f"the {kind} id {name!r} cannot name a file: letters, digits, '.', '_' and '-' only"
            )
    year = datetime.fromisoformat(run.started).astimezone(UTC).year
    return results / "runs" / run.machine.id / str(year) / f"{run.id}.json"


def partial_path_for(results: Path, run: Run) -> Path:
    """Where the run is kept while it is measured."""
    final = path_for(results, run)
    return final.with_name(final.stem + PARTIAL)


def save_partial(results: Path, run: Run) -> Path:
    """Save a run that is still being measured in place of its last state; raises RecordError."""
    path = partial_path_for(results, run)
    files.replace(path, encode(run))
    return path


def finalise(results: Path, run: Run) -> Path:
    """Write the immutable file of a run and remove its partial one; raises RecordError.

    A file that is there with the same bytes is success.
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
    """Read a run file; raises RecordError."""
    return decode(files.contents(path), str(path))


def runs(results: Path, *, profile: Profile | None = None, partial: bool = False) -> list[Path]:
    """Run files, oldest first; partial ones too when asked."""
    matching = (
        path
        for path in (results / "runs").glob("*/*/*.json")
        if (partial or not path.name.endswith(PARTIAL))
        and (profile is None or f"-{profile}-" in path.name)
    )
    return sorted(matching, key=lambda path: path.name)


def partials(results: Path) -> list[Path]:
    """Files of runs that were not finished, oldest first."""
    return [path for path in runs(results, partial=True) if path.name.endswith(PARTIAL)]


def find(results: Path, name: str, others: Sequence[str] = ()) -> Path:
    """The run file that a person means: a path, `latest`, a run's id, or enough of it.

    `others` could have been named, too, where that was asked for. UsageError: nothing, or more than
    one run, goes by that name. RecordError: `latest`, and there is none.
    """
    if name == "latest":
        if finished := runs(results):
            return finished[-1]
        unfinished = len(partials(results))
        note = f" ({unfinished} unfinished: duetbench run --resume latest)" if unfinished else ""
        raise RecordError(
            f"{results / 'runs'}: no run has been recorded{note}; make one: duetbench run "
            "--profile quick"
        )
    if (path := Path(name)).is_file():
        return path
    candidates = {path.name.removesuffix(".json"): path for path in runs(results, partial=True)}
    for candidate in (name, f"{name}.partial"):
        if candidate in candidates:
            return candidates[candidate]
    if (meant := only_match(candidates, name)) is not None:
        return meant
    near = difflib.get_close_matches(name, candidates, n=3, cutoff=0.3) or list(candidates)[-3:]
    raise UsageError(
        f"no run goes by {name!r} (expected 'latest', a run's id, or a file); "
        + (f"there are, for example: {', '.join(near)}" if near else f"{results} has no runs yet")
        + (f"; comparisons: {', '.join(others)}" if others else "")
    )


def only_match(candidates: Mapping[str, Path], name: str) -> Path | None:
    """The only file whose name holds this one; None: there is none. UsageError: several have it."""
    matching = [candidate for candidate in candidates if name in candidate]
    if len(matching) > 1:
        raise UsageError(f"{name!r} could be any of {', '.join(matching[-5:])}; say more of it")
    return candidates[matching[0]] if matching else None


DIGITS: Final = 6


def encode(run: Run) -> bytes:
    """Turn a run into the bytes of its file; raises RecordError."""
    try:
        return files.encode(rounded(run))
    except ValueError as problem:
        raise RecordError(
            f"run {run.id}: every figure must be a finite number, found one that is not "
            f"({problem}); this is a fault of the launch that made it"
        ) from problem


def decode(data: bytes, name: str) -> Run:
    """Turn the bytes of a run file into a run; RecordError, which calls it `name`: it is none."""
    return files.parse(Run, data, name)


def rounded(run: Run) -> Run:
    """The run as it is read back: measured values rounded as in the file; raises ValueError."""

    def figure(name: str, value: float) -> float:
        if not math.isfinite(value):
            raise ValueError(f"{name} is {value}")
        if name in METRICS and METRICS[name].format is units.count and value.is_integer():
            return value
        return float(f"{value:.{DIGITS}g}")

    def launch(sample: Launch) -> Launch:
        times = {n: figure(n, getattr(sample, n)) for n in ("seconds", "load_seconds")}
        metrics = {n: figure(n, sample.metrics[n]) for n in METRICS if n in sample.metrics}
        return sample.model_copy(update={**times, "metrics": metrics})

    results = tuple(
        result.model_copy(update={"launches": tuple(map(launch, result.launches))})
        for result in run.results
    )
    wall = figure("wall_seconds", run.wall_seconds)
    return run.model_copy(update={"wall_seconds": wall, "results": results})

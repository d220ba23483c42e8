"""What was read of result files, kept by a digest of their bytes; all of it may be lost."""

import hashlib
import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from duetbench.core.errors import SetupError
from duetbench.store.files import swap
from duetbench.trend.columns import RunColumns

FOLDER: Final = "columns"
"""Of the site's cache; `prune` removes what is not used for long."""
FORMAT: Final = 2
"""Goes up when the same files would make other columns."""

_REPEATED: Final = (
    "interpreters", "stacks", "packages", "cases", "groups", "definitions", "pythons", "stack_of",
    "metrics",
)  # fmt: skip
"""What hardly differs from run to run, and is stored and held once."""


@dataclass(slots=True)
class Cache:
    """Columns of a results folder's files by digest: `known` from last time, `used` this time."""

    path: Path
    known: dict[str, tuple[RunColumns, ...]]
    used: dict[str, tuple[RunColumns, ...]] = field(default_factory=dict)

    def of(self, digest: str, make: Callable[[], tuple[RunColumns, ...]]) -> tuple[RunColumns, ...]:
        """The columns of files with this digest, made if not known; what `make` raises passes."""
        if digest not in self.used:
            self.used[digest] = self.known[digest] if digest in self.known else make()
        return self.used[digest]

    def save(self) -> None:
        """Keep what was used for the next time; SetupError: it cannot be written."""
        try:
            if self.used.keys() == self.known.keys():
                if self.used:
                    os.utime(self.path)
                return
            pool: dict[str, Any] = {}

            def sharing(one: RunColumns) -> RunColumns:
                values = {name: getattr(one.header, name) for name in _REPEATED}
                shared = {name: pool.setdefault(repr(had), had) for name, had in values.items()}
                return replace(one, header=replace(one.header, **shared))

            stored = {digest: tuple(map(sharing, many)) for digest, many in self.used.items()}
            # Another process may be at the same file: the name is this one's own.
            beside = self.path.with_name(f"{self.path.name}.{os.getpid()}.partial")
            swap(self.path, pickle.dumps((FORMAT, stored), pickle.HIGHEST_PROTOCOL), beside)
        except OSError as problem:
            raise SetupError(
                f"{self.path}: the cache cannot be written ({problem.strerror}); make room, or set "
                "XDG_CACHE_HOME to a folder that can be written"
            ) from problem


def opened(cache: Path, results: Path) -> Cache:
    """The cache of a results folder (absolute); empty if there is none yet, or it is damaged.

    Nobody but us writes in the site's `cache`, so that its pickles are ours.
    """
    name = hashlib.sha256(os.fsencode(results)).hexdigest()[:16]
    path = cache / FOLDER / name / "columns.pickle"
    try:
        version, known = pickle.loads(path.read_bytes())  # noqa: S301 - see above
    except Exception:  # a pickle that is damaged raises anything
        return Cache(path, {})
    return Cache(path, known if version == FORMAT else {})

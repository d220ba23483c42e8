"""Brief loads that are not measured: no rows, only the summary."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from servebench import load, reasons
from servebench.rows import Summary, read_summary


def run_briefly(
    oha: Path,
    arguments: Sequence[str],
    *,
    timeout: float,
    limit: float,
    cores: Sequence[int] | None,
    folder: Path | None = None,
) -> Summary:
    """Run oha without rows, for loads that are not measured.

    Args:
        oha: The program.
        arguments: What to offer, and the address.
        timeout: Of a request, s.
        limit: Longest time that this can take if all is well, s.
        cores: Client cores; None does not pin.
        folder: Where files are made; by default in memory.

    Raises:
        LaunchError: client_failed.
    """
    with Burst.start(
        oha, arguments, timeout=timeout, limit=limit, cores=cores, folder=folder
    ) as burst:
        return burst.collect()


@dataclass
class Burst(load.Generator):
    """A load without rows: `start`, `collect`."""

    limit: float

    @classmethod
    def start(
        cls,
        oha: Path,
        arguments: Sequence[str],
        *,
        timeout: float,
        limit: float,
        cores: Sequence[int] | None,
        folder: Path | None = None,
    ) -> Burst:
        """Start oha; arguments and errors as in `run_briefly`."""
        place = load.scratch(folder)
        try:
            output = place / "summary.json"
            common = load.common_arguments(
                oha, timeout=timeout, threads=load.threads_for(cores), output=output
            )
            return cls(place, load.client_session([*common, *arguments], cores, place), limit)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise

    def collect(self) -> Summary:
        """Wait for the end and read the summary.

        Raises:
            LaunchError: client_failed.
        """
        code = self.session.wait(self.limit + 2 * load.START_SECONDS)
        if code is None or code:
            found = f"it still runs after {self.limit:.0f} s" if code is None else f"{code}"
            raise load.failed(self.session, "exit code 0", found)
        return read_summary(reasons.read(self.folder / "summary.json"))

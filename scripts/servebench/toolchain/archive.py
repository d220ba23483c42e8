"""CPython's source archive: named by somebody, or from the machine's distribution mirror."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from servebench.core.errors import SetupError
from servebench.declare.settings import SourceBuild
from servebench.host import cache
from servebench.host.progress import Narrator, Tick

VARIABLE: Final = "SERVEBENCH_CPYTHON_ARCHIVE"
"""Path or address of an archive that is used instead of the mirror's; same checksum."""

_MIRROR_LIST: Final = "mirror+file:"
_TIMEOUT_S: Final = 30.0
_CHUNK: Final = 1 << 18


def fetch(build: SourceBuild, folder: Path, narrator: Narrator) -> Path:
    """Return the archive, fetched when `folder` does not have it yet.

    Raises:
        SetupError: It cannot be had, or nowhere with the pinned checksum.
    """
    kept = folder / Path(build.archive).name
    with cache.exclusive(kept, narrator):
        if kept.is_file() and cache.sha256(kept) == build.sha256:
            return kept
        troubles = []
        given = os.environ.get(VARIABLE)
        for source in (
            [given] if given else [f"{base.rstrip('/')}/{build.archive}" for base in mirrors()]
        ):
            try:
                _take(source, kept, build.sha256, narrator)
            except (OSError, SetupError) as error:
                troubles.append(f"{source}: {error}")
            else:
                return kept
    tried = "; ".join(troubles) or "this machine's apt names no mirror"
    raise SetupError(
        f"CPython's source archive {kept.name} cannot be had ({tried}): connect to the network, or "
        f"set {VARIABLE} to a copy of it (path or address; SHA-256 {build.sha256})"
    )


def mirrors() -> tuple[str, ...]:
    """Base addresses of the mirrors that this machine's apt is configured with; maybe none."""
    apt = shutil.which("apt-get")
    if apt is None:
        return ()
    done = subprocess.run(
        [apt, "indextargets", "--format", "$(REPO_URI)"],
        capture_output=True,
        text=True,
        check=False,
    )
    bases = dict.fromkeys(
        base for line in done.stdout.splitlines() for base in _listed(line.strip())
    )
    usable = [base for base in bases if urlsplit(base).scheme in {"http", "https", "file"}]
    # Security archives hold few packages; asking them last saves a refusal.
    return tuple(sorted(usable, key=lambda base: "security" in base))


def _listed(base: str) -> list[str]:
    """The mirrors of a base: those of its list, as on GitHub's machines, or itself."""
    if not base.startswith(_MIRROR_LIST):
        return [base]
    try:
        lines = Path(base.removeprefix(_MIRROR_LIST).rstrip("/")).read_text("utf-8").splitlines()
    except OSError:
        return []
    return [line.split()[0] for line in lines if line.strip()]


def _take(source: str, kept: Path, sha256: str, narrator: Narrator) -> None:
    partial = kept.with_name(f"{kept.name}.part")  # the lock is ours: nobody else's
    try:
        with narrator.step(f"CPython source {kept.name}", f"fetching it from {source}") as tick:
            if urlsplit(source).scheme in {"http", "https"}:
                download(source, partial, tick)
            else:
                shutil.copyfile(Path(source.removeprefix("file://")).expanduser(), partial)
        found = cache.sha256(partial)
        if found != sha256:
            raise SetupError(f"expected SHA-256 {sha256}, found {found}")
        partial.replace(kept)
    finally:
        partial.unlink(missing_ok=True)


def download(address: str, partial: Path, tick: Tick, most: float = math.inf) -> None:
    """Fetch a file over HTTP; its contents are for the caller to check.

    Raises:
        SetupError: It cannot be had, or has more than `most` bytes.
    """
    import httpx  # noqa: PLC0415 - slow to import, and nearly always not needed

    received = 0
    try:
        with (
            httpx.stream("GET", address, timeout=_TIMEOUT_S, follow_redirects=True) as response,
            partial.open("wb") as file,
        ):
            response.raise_for_status()
            for chunk in response.iter_bytes(_CHUNK):
                received += file.write(chunk)
                if received > most:
                    raise SetupError(f"it has more than {most / 1e6:g} MB")
                tick(f"{received / 1e6:.0f} MB")
    except httpx.HTTPStatusError as error:
        raise SetupError(f"the server answered {error.response.status_code}") from error
    except httpx.HTTPError as error:
        raise SetupError(f"no connection ({error})") from error

"""Fetches the artifacts of a workflow run one by one, so that a bad one costs the others nothing.

Each is downloaded and unpacked with bounds: a small archive can hold terabytes.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from servebench.automation.github.repository import Artifact, Repository
from servebench.automation.incoming.acceptance import Refusal
from servebench.automation.incoming.folder import ARTIFACTS, NAME, Limits, is_plain
from servebench.core.errors import ArtifactError, ServiceError
from servebench.core.text import shown
from servebench.record.files import replace

PACKED_BYTES: Final = 16_000_000
"""Of an archive: half of what its files may have, although they are packed to a fourth."""


def fetch(
    repository: Repository, run: int, names: str, target: Path
) -> tuple[tuple[str, ...], tuple[Refusal, ...]]:
    """Fetch the artifacts of a run whose names match a glob, each into a folder of its name.

    Returns:
        The names of those that are there now, and the others with the reasons.

    Raises:
        ServiceError: GitHub does not say which there are.
        ArtifactError: There are far too many.
        RecordError: A file cannot be written.
    """
    found = [one for one in repository.artifacts(run) if fnmatchcase(one.name, names)]
    if len(found) > ARTIFACTS:
        raise ArtifactError(f"run {run}: expected at most {ARTIFACTS} artifacts, found more")
    fetched: list[str] = []
    refused: list[Refusal] = []
    for artifact in found:
        try:
            files = _files(repository, artifact)
        except (ArtifactError, ServiceError) as error:
            refused.append(Refusal(artifact=shown(artifact.name), reason=str(error)))
            continue
        for path, data in files.items():
            replace(target / artifact.name / path, data)
        fetched.append(artifact.name)
    return tuple(fetched), tuple(refused)


def _files(repository: Repository, artifact: Artifact) -> dict[str, bytes]:
    if not NAME.fullmatch(artifact.name):
        raise ArtifactError("a name that none of ours has")
    data = _archive(repository, artifact)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return dict(_unpacked(archive, Limits()))
    except ArtifactError:
        raise
    except Exception as error:  # the library raises what it stumbles over
        what = shown(f"{type(error).__name__}: {error}")
        raise ArtifactError(f"expected a zip archive, found {what}") from error


def _archive(repository: Repository, artifact: Artifact) -> bytes:
    if artifact.expired:
        raise ArtifactError("it has expired")
    data = b""
    if artifact.size_in_bytes <= PACKED_BYTES:
        data = repository.archive(artifact.id, PACKED_BYTES)
    if max(len(data), artifact.size_in_bytes) > PACKED_BYTES:
        raise ArtifactError(f"an archive of more than {PACKED_BYTES:,} bytes")
    found = f"sha256:{hashlib.sha256(data).hexdigest()}"
    if artifact.digest not in {None, found}:
        raise ArtifactError(f"expected {artifact.digest}, found {found}: its download is damaged")
    return data


def _unpacked(archive: zipfile.ZipFile, limits: Limits) -> Iterator[tuple[str, bytes]]:
    """The files of an archive: path and bytes. No link or date of it is taken over."""
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    if len(entries) > limits.entries:
        raise ArtifactError(f"more than {limits.entries} files")
    total = 0
    for entry in entries:
        parts = entry.filename.split("/")
        if not all(map(is_plain, parts)) or len(parts) > limits.depth:
            raise ArtifactError(f"the name {shown(entry.filename)}")
        with archive.open(entry) as file:  # what it says of a file's size proves nothing
            content = file.read(limits.file_bytes + 1)
        total += len(content)
        if len(content) > limits.file_bytes or total > limits.total_bytes:
            raise ArtifactError(
                f"expected at most {limits.file_bytes:,} bytes per file and "
                f"{limits.total_bytes:,} in all, found more at {shown(entry.filename)}"
            )
        yield entry.filename, content

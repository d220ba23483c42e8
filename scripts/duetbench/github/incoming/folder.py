"""Reads folders that somebody else has filled, and fetches a run's artifacts, with bounds.

Links, devices, names that are none of ours and more than was agreed end the reading. Files are
opened below the folder's own descriptor, so that what is checked is what is read. Artifacts are
downloaded and unpacked one by one, so that a bad one costs the others nothing.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from duetbench.core.errors import ArtifactError, ServiceError
from duetbench.core.model import Frozen
from duetbench.core.text import shown
from duetbench.store.files import replace

if TYPE_CHECKING:
    from duetbench.github.api import Artifact, GitHub

ARTIFACTS: Final = 300
"""A matrix has at most 256 jobs."""

NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
"""Of an artifact, a folder or a file of ours."""


def is_plain(name: str) -> bool:
    """Whether a folder or file of ours could have such a name, which leads nowhere else."""
    return NAME.fullmatch(name) is not None and ".." not in name


_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without waiting: opening a pipe would otherwise hang until somebody writes to it.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one artifact may hold: several times what the largest of ours does."""

    entries: int = 64
    depth: int = 6
    file_bytes: int = 8_000_000
    total_bytes: int = 32_000_000


@dataclass(frozen=True, slots=True)
class ArtifactFile:
    """One file."""

    path: str  # below the artifact, with slashes; says nothing about where the file belongs
    data: bytes


class Refusal(Frozen):
    """An artifact of which nothing is used."""

    artifact: str
    reason: str


def names(folder: Path) -> tuple[str, ...]:
    """The artifacts in a folder: what lies directly in it, by name; none if it is not there.

    ArtifactError: it cannot be read, or there is far too much in it.
    """
    try:
        with os.scandir(folder) as entries:
            found = [entry.name for entry, _ in zip(entries, range(ARTIFACTS + 1), strict=False)]
    except FileNotFoundError:
        return ()  # a download without artifacts makes no folder
    except OSError as error:
        raise ArtifactError(f"{folder}: cannot be read: {error.strerror}") from error
    if len(found) > ARTIFACTS:
        raise ArtifactError(f"{folder}: expected at most {ARTIFACTS} artifacts, found more")
    return tuple(sorted(found))


def read(folder: Path, name: str = ".", limits: Limits | None = None) -> tuple[ArtifactFile, ...]:
    """Read one artifact as a whole: its files, by path; raises ArtifactError."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ArtifactError(f"{folder}: cannot be read: {error.strerror}") from error
    try:
        reading = _Reader(limits or Limits())
        found = reading.folder(handle, "", 0) if name == "." else reading.entry(handle, name, "", 0)
        files = (ArtifactFile(file.path.removeprefix(f"{name}/"), file.data) for file in found)
        return tuple(sorted(files, key=lambda file: file.path))
    except OSError as error:
        raise ArtifactError(f"cannot be read: {error.strerror}") from error
    finally:
        os.close(handle)


class _Reader:
    """Counts while one artifact is read."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.entries = self.bytes = 0

    def folder(self, handle: int, path: str, depth: int) -> Iterator[ArtifactFile]:
        if depth > self.limits.depth:
            raise ArtifactError(f"folders more than {self.limits.depth} deep: {shown(path)}")
        with os.scandir(handle) as entries:
            for entry in entries:
                yield from self.entry(handle, entry.name, path, depth)

    def entry(self, handle: int, name: str, path: str, depth: int) -> Iterator[ArtifactFile]:
        self.entries += 1
        if self.entries > self.limits.entries:
            raise ArtifactError(f"more than {self.limits.entries} files and folders")
        path = f"{path}/{name}" if path else name
        if not is_plain(name):
            raise ArtifactError(f"the name {shown(path)}; ours have letters, digits and '._-'")
        status = os.stat(name, dir_fd=handle, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            inner = os.open(name, _FOLDER, dir_fd=handle)
            try:
                yield from self.folder(inner, path, depth + 1)
            finally:
                os.close(inner)
        else:
            self._require_file(status, path)
            yield ArtifactFile(path, self.file(handle, name, path))

    def file(self, handle: int, name: str, path: str) -> bytes:
        opened = os.open(name, _FILE, dir_fd=handle)
        try:
            # What was opened may be another file than the one that was looked at.
            self._require_file(os.fstat(opened), path)
            with os.fdopen(opened, "rb", closefd=False) as file:
                data = file.read(self.limits.file_bytes + 1)
        finally:
            os.close(opened)
        self.bytes += len(data)
        if len(data) > self.limits.file_bytes:
            raise ArtifactError(f"{shown(path)} grew while it was read")
        if self.bytes > self.limits.total_bytes:
            raise ArtifactError(f"more than {self.limits.total_bytes:,} bytes in all")
        return data

    def _require_file(self, status: os.stat_result, path: str) -> None:
        if stat.S_ISLNK(status.st_mode):
            raise ArtifactError(f"{shown(path)} is a link")
        if not stat.S_ISREG(status.st_mode):
            raise ArtifactError(f"{shown(path)} is neither a file nor a folder")
        if status.st_nlink != 1:
            raise ArtifactError(
                f"{shown(path)} is a file with another name elsewhere (a hard link)"
            )
        if status.st_size > self.limits.file_bytes:
            raise ArtifactError(
                f"{shown(path)} has {status.st_size:,} bytes, expected at most "
                f"{self.limits.file_bytes:,}"
            )


PACKED_BYTES: Final = 16_000_000
"""Of an archive: half of what its files may have, although they are packed to a fourth."""


def fetch(
    github: GitHub, run: int, names: str, target: Path
) -> tuple[tuple[str, ...], tuple[Refusal, ...]]:
    """Fetch the artifacts of a run whose names match a glob, each into a folder of its name.

    Returns:
        The names of those that are there now, and the others with the reasons.

    Raises:
        ServiceError: GitHub does not say which there are.
        ArtifactError: There are far too many.
        RecordError: A file cannot be written.
    """
    found = [one for one in github.artifacts(run) if fnmatchcase(one.name, names)]
    if len(found) > ARTIFACTS:
        raise ArtifactError(f"run {run}: expected at most {ARTIFACTS} artifacts, found more")
    fetched: list[str] = []
    refused: list[Refusal] = []
    for artifact in found:
        try:
            files = _files(github, artifact)
        except (ArtifactError, ServiceError) as error:
            refused.append(Refusal(artifact=shown(artifact.name), reason=str(error)))
            continue
        for path, data in files.items():
            replace(target / artifact.name / path, data)
        fetched.append(artifact.name)
    return tuple(fetched), tuple(refused)


def _files(github: GitHub, artifact: Artifact) -> dict[str, bytes]:
    if not NAME.fullmatch(artifact.name):
        raise ArtifactError("a name that none of ours has")
    data = _archive(github, artifact)
    with _reading("zip archive"), zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = [entry for entry in archive.infolist() if not entry.is_dir()]
        return _unpacked((entry.filename, partial(archive.open, entry)) for entry in files)


def untarred(data: bytes) -> dict[str, bytes]:
    """The files of an archive that may hold them and folders, nothing else; by path."""
    with _reading("tar archive"), tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        # What is no file, as a link, has no contents.
        entries = (entry for entry in archive if not entry.isdir())
        return _unpacked((one.name, partial(_contents, archive, one)) for one in entries)


def _contents(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    file = archive.extractfile(entry) if entry.isreg() else None
    if file is None:
        raise ArtifactError(f"{shown(entry.name)} is no file of ours")
    return file


@contextmanager
def _reading(what: str) -> Iterator[None]:
    try:
        yield
    except ArtifactError:
        raise
    except Exception as error:  # the libraries raise what they stumble over
        found = shown(f"{type(error).__name__}: {error}")
        raise ArtifactError(f"expected a {what}, found {found}") from error


def _archive(github: GitHub, artifact: Artifact) -> bytes:
    if artifact.expired:
        raise ArtifactError("it has expired")
    data = b""
    if artifact.size_in_bytes <= PACKED_BYTES:
        data = github.archive(artifact.id, PACKED_BYTES)
    if max(len(data), artifact.size_in_bytes) > PACKED_BYTES:
        raise ArtifactError(f"an archive of more than {PACKED_BYTES:,} bytes")
    found = f"sha256:{hashlib.sha256(data).hexdigest()}"
    if artifact.digest not in {None, found}:
        raise ArtifactError(f"expected {artifact.digest}, found {found}: its download is damaged")
    return data


def _unpacked(files: Iterable[tuple[str, Callable[[], IO[bytes]]]]) -> dict[str, bytes]:
    """The files of an archive: path → bytes. No link or date of it is taken over."""
    limits, total = Limits(), 0
    found: dict[str, bytes] = {}
    for number, (name, opened) in enumerate(files):
        parts = name.split("/")
        if not all(map(is_plain, parts)) or len(parts) > limits.depth:
            raise ArtifactError(f"the name {shown(name)}")
        if number == limits.entries:
            raise ArtifactError(f"more than {limits.entries} files")
        with opened() as file:  # what it says of a file's size proves nothing
            found[name] = content = file.read(limits.file_bytes + 1)
        total += len(content)
        if len(content) > limits.file_bytes or total > limits.total_bytes:
            raise ArtifactError(
                f"expected at most {limits.file_bytes:,} bytes per file and "
                f"{limits.total_bytes:,} in all, found more at {shown(name)}"
            )
    return found

"""Archives and folders with untrusted content: unpacked in memory, with bounds.

An archive is refused as a whole if an entry is no plain file, has a name outside of the allowed
pattern, or exceeds a limit. Artifacts are fetched one by one: a bad one does not affect the others.
"""

import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from typing import IO, Any, Final

from duetbench.ci.api import GitHub, ServiceError
from duetbench.core.errors import ArtifactError, RecordError
from duetbench.core.text import UNFIT, printable

MOST_ARTIFACTS: Final = 300
"""A matrix has at most 256 jobs."""

MOST_FILES: Final = 64
"""Most files of an artifact."""

MOST_DEPTH: Final = 6
MOST_BYTES: Final = 8_000_000
"""Largest file of an artifact, bytes: several times the largest that duetbench writes."""

MOST_TOTAL: Final = 32_000_000
"""Bytes of an artifact's files."""

MOST_PACKED: Final = 33_000_000
"""Bytes of an archive."""

MOST_CHARACTERS: Final = 4000
"""Longest text in a result. The longest actual one, a note, has a tenth of it."""

Files = Mapping[str, bytes]
"""Path below an artifact → contents."""

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_REASON: Final = 400


def reason(error: Exception) -> str:
    """Return the error as one line that is safe in a log."""
    if isinstance(error, ArtifactError):
        return str(error)  # its untrusted parts are already made printable
    text = str(error) if isinstance(error, RecordError) else repr(error)
    return printable(" ".join(text.split()), _REASON)


def is_plain(name: str) -> bool:
    """Whether a name has the pattern of duetbench's files, and leads to no other folder."""
    return _NAME.fullmatch(name) is not None and ".." not in name


def unzip(data: bytes) -> Files:
    """Return the files of a zip archive; raises ArtifactError."""
    with reading("zip archive"), zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = (entry for entry in archive.infolist() if not entry.is_dir())
        return bounded((entry.filename, partial(archive.open, entry)) for entry in entries)


def bounded(entries: Iterable[tuple[str, Callable[[], IO[bytes]]]]) -> Files:
    """Read entries, given by name and how to open them; ArtifactError beyond the bounds."""
    contents: dict[str, bytes] = {}
    total = 0
    for name, opening in entries:
        parts = name.split("/")
        if not all(map(is_plain, parts)) or len(parts) > MOST_DEPTH:
            raise ArtifactError(f"the name {printable(name)}: expected letters, digits and '._-'")
        if len(contents) == MOST_FILES:
            raise ArtifactError(f"more than {MOST_FILES} files")
        with opening() as file:  # an archive's own statement of sizes proves nothing
            contents[name] = file.read(MOST_BYTES + 1)
        total += len(contents[name])
        if len(contents[name]) > MOST_BYTES or total > MOST_TOTAL:
            raise ArtifactError(
                f"expected at most {MOST_BYTES:,} bytes per file and {MOST_TOTAL:,} in all, found "
                f"more at {printable(name)}"
            )
    return contents


@contextmanager
def reading(kind: str) -> Iterator[None]:
    """Turn any error of a library into an ArtifactError."""
    try:
        yield
    except ArtifactError:
        raise
    except Exception as error:  # the libraries raise many kinds of errors
        raise ArtifactError(f"expected a {kind}, found {reason(error)}") from error


def fetch(github: GitHub, run: int, names: str) -> tuple[dict[str, Files], dict[str, str]]:
    """Fetch the artifacts of a run whose names match a glob, and unpack them.

    Returns the files of each, and those refused with a reason. Raises ServiceError if GitHub does
    not list them, and ArtifactError if there are too many.
    """
    listed = github.get_all(f"/actions/runs/{run}/artifacts", "artifacts")
    # Of one name the newest counts; later ones have larger ids.
    newest = {entry["name"]: entry for entry in sorted(listed, key=lambda entry: entry["id"])}
    artifacts = [newest[name] for name in sorted(newest) if fnmatchcase(name, names)]
    if len(artifacts) > MOST_ARTIFACTS:
        raise ArtifactError(f"run {run}: expected at most {MOST_ARTIFACTS} artifacts, found more")
    fetched: dict[str, Files] = {}
    refused: dict[str, str] = {}
    for artifact in artifacts:
        try:
            fetched[artifact["name"]] = unzip(_archive(github, artifact))
        except (ArtifactError, ServiceError) as error:
            refused[printable(artifact["name"])] = str(error)
    return fetched, refused


def _archive(github: GitHub, artifact: Mapping[str, Any]) -> bytes:
    if not is_plain(artifact["name"]):
        raise ArtifactError("expected a name of letters, digits and '._-'")
    if artifact["expired"]:
        raise ArtifactError("it has expired")
    return github.download(f"/actions/artifacts/{artifact['id']}/zip", MOST_PACKED)


def require_plain(document: Any) -> None:
    """Refuse a JSON document with text (or a key) that is too long or controls a terminal."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str):
            if len(value) > MOST_CHARACTERS:
                raise ArtifactError(f"more than {MOST_CHARACTERS:,} characters: {printable(value)}")
            if control := UNFIT.search(value):
                raise ArtifactError(
                    f"a control character (U+{ord(control[0]):04X}) in the text {printable(value)}"
                )

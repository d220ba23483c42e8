"""Many nights in one file, read at once.

Nights of one machine repeat each other: the same cases, interpreters and locks night after night.
Here every such value is stored once, so that years of nights are read several times as quickly as
from a file each, and share their values in memory. Figures are not read at all before they are
asked for: the file is mapped.

    one line of text: the format, and the nights'
    one line of JSON: {"shared": […], "nights": [{…}, …]}, headers with places among the values
    figures of each night, one after the other, each beginning at a multiple of 64 bytes
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from servebench.errors import RecordError
from servebench.site import kept, nights
from servebench.site.nights import Night

FORMAT: Final = 1
"""Version of this form; another one is made anew."""

TAIL: Final = 30
"""So many nights are read one by one before they are put into the pack, too."""

_MAGIC: Final = b"servebench pack %d of nights %d\n" % (FORMAT, nights.FORMAT)
_SHARED: Final = (
    *("kind", "profile", "machine", "fingerprint", "interpreters", "stacks", "packages"),
    *nights.COLUMNS,
)
"""What hardly differs from night to night."""
_STEP: Final = 64


def pack(every: Iterable[Night]) -> Iterator[bytes]:
    """Nights as bytes, piece by piece."""
    many = list(every)
    shared: dict[str, int] = {}
    headers = [_told(night, shared) for night in many]
    values = ",".join(shared)
    listed = json.dumps(headers, separators=(",", ":"), allow_nan=False)
    text = f'{{"shared":[{values}],"nights":{listed}}}\n'.encode()
    yield _MAGIC
    yield text
    at = len(_MAGIC) + len(text)
    for night in many:
        figures = nights.body(night)
        yield bytes(-at % _STEP)
        yield figures
        at += -at % _STEP + len(figures)


def unpack(data: bytes | mmap.mmap, name: str) -> dict[str, Night]:
    """The nights of these bytes, by their sources.

    Args:
        data: What `pack` made.
        name: What to call them in an error.

    Raises:
        RecordError: No pack of this format, or damaged.
    """
    end = data.find(b"\n", len(_MAGIC))
    if data[: len(_MAGIC)] != _MAGIC or end < 0:
        raise RecordError(f"{name}: expected a pack of nights of format {FORMAT}; remove the file")
    try:
        told = json.loads(data[len(_MAGIC) : end])
        values = [tuple(one) if isinstance(one, list) else one for one in told["shared"]]
        found: dict[str, Night] = {}
        at = end + 1
        for document in told["nights"]:
            source = document.pop("source")
            for key in _SHARED:
                document[key] = values[document[key]]
            header = nights.header(document)
            at += -at % _STEP
            found[source] = nights.of_body(header, data, at, source)
            at += nights.body_size(header)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as problem:
        raise RecordError(f"{name}: damaged ({problem}); remove the file") from problem
    if at != len(data):
        raise RecordError(
            f"{name}: expected {at} bytes, found {len(data)}; it is cut short: remove it"
        )
    return found


def read(path: Path) -> dict[str, Night]:
    """The nights of a file, by their sources; none if it is not there, or damaged.

    Their figures stay those of the file as it is now, also when another one takes its name.
    """
    try:
        with path.open("rb") as file:
            return unpack(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), str(path))
    except (OSError, ValueError, RecordError):  # ValueError: of an empty file
        return {}


def renew(path: Path, found: Sequence[Night], before: Mapping[str, Night]) -> bool:
    """Make a pack anew if many nights are not in it, or many of those in it are gone.

    Args:
        path: The pack.
        found: All nights that there are.
        before: Those in it now, by their sources.

    Returns:
        Whether all that were found are in it now.

    Raises:
        SetupError: It cannot be written.
    """
    needed = {night.source for night in found}
    new, gone = needed - before.keys(), before.keys() - needed
    if len(new) < TAIL and len(gone) < max(TAIL, len(needed)):
        return False
    kept.write(path, b"".join(pack(found)))
    return True


def _told(night: Night, shared: dict[str, int]) -> dict[str, Any]:
    """A header with places in `shared`, which gets what it did not have."""
    document = nights.document(night.header)
    for key in _SHARED:
        text = json.dumps(document[key], separators=(",", ":"), allow_nan=False)
        document[key] = shared.setdefault(text, len(shared))
    return {"source": night.source, **document}

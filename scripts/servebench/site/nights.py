"""A night: one run as columns, which is all that a trend needs of it.

A run file is large and slow to check; a night is one line of JSON (what was measured, with what)
and one block of numbers (cases × metrics), which load in a fraction of a millisecond. The packed
form is a cache of the run file, and what the generator of synthetic histories writes; `packs` puts
many of them together.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from servebench.errors import RecordError

FORMAT: Final = 1
"""Version of the packed form; another one is made anew from the run file."""
SUFFIX: Final = ".night"

Kind = Literal["load", "inprocess"]
Status = Literal["measured", "disturbed", "failed", "not measured"]
Figures = npt.NDArray[np.float32]
Counts = npt.NDArray[np.uint8]

_MAGIC: Final = b"servebench night %d\n" % FORMAT
_FIGURE: Final = np.dtype("<f4")  # 24 bits: more than the six digits of a run file
_BLOCKS: Final = 3
COLUMNS: Final = ("cases", "groups", "definitions", "pythons", "stack_of", "metrics")
"""What a header has several of, in an order that matters."""


@dataclass(frozen=True, slots=True)
class Odd:
    """What is to be said of a case besides that it was measured without any flag.

    Attributes:
        status: `disturbed`: measured, but nothing is decided from it.
        flags: Names, sorted.
        reason: Why there is no figure, where there is none.
    """

    status: Status
    flags: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Header:
    """A night without its figures.

    Attributes:
        run: The run's id.
        kind: From server runs, or from asv's benchmarks inside the process.
        profile: Of the run; `asv` for benchmarks.
        time: Start, s since 1970; of benchmarks the date of the commit.
        commit: 40 hex digits; None outside a repository.
        machine: The machine's id.
        fingerprint: The machine in words; another one is another machine, whatever its id.
        interpreters: Name → version and build, in words.
        stacks: Name → digest of the lock.
        packages: Stack → package → version.
        cases: Ids.
        groups: Per case, what it shares its data files with.
        definitions: Per case, a digest of its declaration.
        pythons: Per case, the interpreter's name.
        stack_of: Per case, the stack's name.
        metrics: Names; for benchmarks the unit that asv gives.
        odd: Place in `cases` → what is to be said of it.
    """

    run: str
    kind: Kind
    profile: str
    time: int
    commit: str | None
    machine: str
    fingerprint: str
    interpreters: dict[str, str]
    stacks: dict[str, str]
    packages: dict[str, dict[str, str]]
    cases: tuple[str, ...]
    groups: tuple[str, ...]
    definitions: tuple[str, ...]
    pythons: tuple[str, ...]
    stack_of: tuple[str, ...]
    metrics: tuple[str, ...]
    odd: dict[int, Odd] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Night:
    """One run as columns.

    Attributes:
        header: What was measured.
        mean: Cases × metrics, SI units; NaN: no figure.
        low: Lower ends of the intervals; NaN: none.
        high: Upper ends.
        launches: Cases × metrics, how many launches (or samples) a figure rests on, up to 255.
        source: Digest of the bytes that it was made from.
    """

    header: Header
    mean: Figures
    low: Figures
    high: Figures
    launches: Counts
    source: str = ""


def empty(header: Header) -> tuple[Figures, Figures, Figures, Counts]:
    """Blocks for a night's figures: none yet."""
    shape = (len(header.cases), len(header.metrics))
    nothing = np.full(shape, math.nan, dtype=_FIGURE)
    return nothing, nothing.copy(), nothing.copy(), np.zeros(shape, dtype=np.uint8)


def pack(night: Night) -> bytes:
    """The night as bytes."""
    line = json.dumps(document(night.header), separators=(",", ":"), allow_nan=False)
    return b"".join((_MAGIC, line.encode(), b"\n", body(night)))


def unpack(data: bytes, name: str, source: str = "") -> Night:
    """The night of these bytes.

    Args:
        data: What `pack` made.
        name: What to call them in an error.
        source: Digest of the bytes that the night was made from.

    Raises:
        RecordError: Not a night of this format, or damaged.
    """
    end = data.find(b"\n", len(_MAGIC))
    if not data.startswith(_MAGIC) or end < 0:
        raise RecordError(f"{name}: expected a packed night of format {FORMAT}; remove the file")
    try:
        found = header(json.loads(data[len(_MAGIC) : end]))
    except (ValueError, TypeError, KeyError) as problem:
        raise RecordError(f"{name}: damaged ({problem}); remove the file") from problem
    expected = end + 1 + body_size(found)
    if len(data) != expected:
        raise RecordError(
            f"{name}: expected {expected} bytes, found {len(data)}; it is cut short: remove it"
        )
    return of_body(found, data, end + 1, source)


def document(header_: Header) -> dict[str, Any]:
    """A header as a JSON object; `header` reads it."""
    told = {one.name: getattr(header_, one.name) for one in fields(Header)}
    told["odd"] = {
        str(place): [odd.status, odd.flags, odd.reason] for place, odd in header_.odd.items()
    }
    return told


def header(document_: dict[str, Any]) -> Header:
    """The header of a JSON object.

    Raises:
        ValueError, TypeError, KeyError: It is none.
    """
    tuples: dict[str, Any] = {key: tuple(document_.pop(key)) for key in COLUMNS}
    if len({len(tuples[key]) for key in COLUMNS[:-1]}) != 1:
        raise ValueError("columns of cases of different lengths")
    odd = {
        int(place): Odd(status, tuple(flags), reason)
        for place, (status, flags, reason) in document_.pop("odd").items()
    }
    return Header(**document_, **tuples, odd=odd)


def body(night: Night) -> bytes:
    """A night's figures: mean, low, high (float32), and launches (a byte each)."""
    blocks = (night.mean, night.low, night.high)
    return b"".join(
        (
            *(block.astype(_FIGURE, copy=False).tobytes() for block in blocks),
            night.launches.tobytes(),
        )
    )


def body_size(header_: Header) -> int:
    """Bytes of a night's figures."""
    return len(header_.cases) * len(header_.metrics) * (_BLOCKS * _FIGURE.itemsize + 1)


def of_body(header_: Header, data: Any, start: int, source: str) -> Night:
    """The night whose figures begin at a place of a buffer, which it keeps."""
    shape = (len(header_.cases), len(header_.metrics))
    size = shape[0] * shape[1]
    figures = np.frombuffer(data, _FIGURE, _BLOCKS * size, start).reshape(_BLOCKS, *shape)
    end = start + _BLOCKS * size * _FIGURE.itemsize
    launches = np.frombuffer(data, np.uint8, size, end).reshape(shape)
    return Night(header_, figures[0], figures[1], figures[2], launches, source)


def read(path: Path, source: str) -> Night | None:
    """The night of a file of the cache; None if it is not there, or damaged.

    Args:
        path: The file.
        source: Digest of the bytes that the night was made from.
    """
    try:
        return unpack(path.read_bytes(), str(path), source)
    except (OSError, RecordError):
        return None

"""Under which name and description asv files what it measures on this machine.

Every field of the description is a key of asv's graphs, so a field that changes cuts every line in
two. asv would take the host's name and the kernel's version; here the name is that of our own run
files, and everything else follows from what the name is made of.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from servebench.core.errors import SetupError
from servebench.core.model import Machine
from servebench.host.machine import fingerprint

_FORMAT: Final = 1
"""Version of the file's format, as asv 0.6 writes it."""


def profile(machine: Machine | None = None) -> dict[str, str]:
    """Describe a machine in asv's fields; this one if None.

    Neither kernel nor release of the operating system are in it: an update cuts no line.
    """
    machine = machine or fingerprint()
    return {
        "machine": machine.id,
        "os": platform.system(),
        "arch": platform.machine(),
        "cpu": machine.cpu,
        "num_cpu": str(machine.cores),
        # Rounded as in the machine's id: the kernel keeps a little more or less for itself.
        "ram": f"{round(machine.memory / 2**30)} GiB",
    }


def file() -> Path:
    """Where asv looks for the machines it knows: `~/.asv-machine.json`."""
    return Path("~/.asv-machine.json").expanduser()


def pin(described: Mapping[str, str]) -> bool:
    """Make sure that asv knows a `profile`, leaving other machines; whether the file was changed.

    Raises:
        SetupError: The file is none of asv's, or cannot be written.
    """
    target = file()
    known = _read(target)
    if known.get(described["machine"]) == described:
        return False
    known[described["machine"]] = dict(described)
    _write(target, {**known, "version": _FORMAT})
    return True


def _read(target: Path) -> dict[str, Any]:
    try:
        known = json.loads(target.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _unusable(target, str(error)) from error
    if not isinstance(known, dict) or known.get("version", _FORMAT) != _FORMAT:
        raise _unusable(target, "something else")
    return known


def _unusable(target: Path, found: str) -> SetupError:
    return SetupError(
        f"{target}: expected asv's list of machines (JSON, version {_FORMAT}), found {found}: "
        "mend or remove it"
    )


def _write(target: Path, known: Mapping[str, Any]) -> None:
    """In one go: asv, which may be running, never reads half of it."""
    try:
        handle, name = tempfile.mkstemp(prefix=f"{target.name}-", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump(known, stream, indent=4, sort_keys=True)
            Path(name).replace(target)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        raise SetupError(
            f"{target} cannot be written ({error.strerror}): asv keeps the machine's description "
            "there; make the home folder writable or set HOME to another"
        ) from error

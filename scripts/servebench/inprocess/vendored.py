"""Copies of the scripts that asv's page loads from other hosts.

They lie in `vendor/` with their licences; `vendor/vendored.toml` says which script of the page each
stands for, by the checksum that the page demands, and where it was taken from.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from servebench.errors import SetupError

FOLDER: Final = Path(__file__).parent / "vendor"


@dataclass(frozen=True, slots=True)
class Vendored:
    """One copy.

    Attributes:
        wanted: What asv's page demands (W3C Subresource Integrity): `sha256-…` in base64.
        file: Name of the copy.
        package: The npm package and version that it was taken from.
        integrity: Of the copy: the same, unless the package has another build of the script.
    """

    wanted: str
    file: str
    package: str
    integrity: str

    def read(self) -> bytes:
        """The copy's bytes.

        Raises:
            SetupError: It is not the script that was put there.
        """
        file = FOLDER / self.file
        try:
            content = file.read_bytes()
        except OSError as problem:
            raise SetupError(f"{file}: {problem.strerror}: restore it from git") from problem
        found = integrity(content, self.integrity.partition("-")[0])
        if found != self.integrity:
            raise SetupError(
                f"{file}: expected {self.integrity}, found {found}: restore it from git"
            )
        return content


@functools.cache
def known() -> dict[str, Vendored]:
    """All copies, by what asv's page demands."""
    table = tomllib.loads((FOLDER / "vendored.toml").read_text("utf-8"))
    return {
        row["wanted"]: Vendored(**{"integrity": row["wanted"], **row}) for row in table["files"]
    }


def integrity(content: bytes, algorithm: str) -> str:
    """Spell a digest as a page's `integrity` attribute does: `sha256-…` in base64."""
    return f"{algorithm}-{base64.b64encode(hashlib.new(algorithm, content).digest()).decode()}"

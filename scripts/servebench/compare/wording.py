"""What touched a case, and what touched none, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Final

from servebench.compare.model import Missing, PackageChange
from servebench.compare.pairing import Pair

ABSENT: Final = "—"
_DOCUMENTS: Final = frozenset({".md", ".rst"})
_MOST: Final = 5

APPLICATIONS: Final = "files of applications"
CODE: Final = "files that no application imports"
_HARNESS: Final = "the harness"
HARNESS: Final = frozenset(
    {
        ".ci", ".github", "Makefile", "asv.conf.json", "docs", "pyproject.toml",
        "requirements.txt", "scripts", "tests",
    }
)  # fmt: skip
"""What the harness consists of in our own repository: what lies at its top."""

_AROUND: Final = frozenset(
    {
        ".circleci", ".gitattributes", ".github", ".gitignore", ".gitlab-ci.yml",
        ".pre-commit-config.yaml",
    }
)  # fmt: skip


def package(move: PackageChange) -> str:
    """Say what moved: `granian 2.7.8 → 2.8.7`."""
    if move.base == move.head:
        return f"{move.package} {move.head} from other files"
    return f"{move.package} {move.base or ABSENT} → {move.head or ABSENT}"


def some(names: Sequence[str], at_most: int, kind: str) -> str:
    """Name the first few and count the others."""
    named, others = names[:at_most], len(names) - at_most
    if others < 1:
        return ", ".join(named)
    return f"{', '.join(named)} and {others} more {kind}{'s' if others > 1 else ''}"


def is_document(path: str) -> bool:
    """Whether a file is prose, which nothing executes."""
    return PurePosixPath(path).suffix in _DOCUMENTS or path == "LICENSE"


def nothing(
    files: Iterable[str],
    packages: Sequence[PackageChange],
    common: Sequence[Pair],
    missing: Sequence[Missing],
    *,
    own: bool,
) -> str:
    """Say why there is nothing to judge.

    Args:
        files: What differs between the checkouts.
        packages: What moved in the locks.
        common: Cases that both sides have.
        missing: Cases that they have not in common.
        own: Whether it is our own repository, which holds the harness.
    """
    areas = sorted({area(path, own=own) for path in files})
    said = []
    if not common and missing:
        said.append("the sides have no case in common")
    if packages:
        moved = some([package(move) for move in packages], _MOST, "package")
        said.append(f"no measured case loads the packages that moved ({moved})")
    if areas == [_HARNESS]:
        said.append("only the harness differs, and the one that runs now measures both sides")
    elif areas and said:
        said.append(f"of the files, only {' and '.join(areas)} differ")
    elif areas:
        said.append(f"only {' and '.join(areas)} differ, and no measured case depends on them")
    return f"Nothing to judge: {'; '.join(said or ['base and head do not differ'])}."


def area(path: str, *, own: bool) -> str:
    """The part of the checkout that a file belongs to, in words.

    Args:
        path: From the checkout's root.
        own: Whether it is our own repository, which holds the harness.
    """
    top = path.partition("/")[0]
    parts = (
        (is_document(path), "documents"),
        (top == "apps" != path, APPLICATIONS),
        (top == "results", "results"),
        (own and top == "benchmarks", "in-process benchmarks"),
        (own and top in HARNESS, _HARNESS),
        (top in _AROUND, "files for git or CI"),
    )
    return next((name for holds, name in parts if holds), CODE)

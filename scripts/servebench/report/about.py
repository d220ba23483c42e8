"""What the experiments' declarations say in words; the rest of them is not needed for showing."""

from __future__ import annotations

from pathlib import Path

from servebench.declarations import FILE, read_toml
from servebench.report.page import About


def read_about(root: Path) -> dict[str, About]:
    """Question and deviations of every experiment of a checkout.

    Raises:
        DeclarationError: A file cannot be read.
    """
    written = {
        path.parent.name: read_toml(path, path.relative_to(root).as_posix())
        for path in sorted((root / "apps").glob(f"*/{FILE}"))
    }
    return {
        name: About(str(table.get("question", "")), tuple(table.get("deviations", ())))
        for name, table in written.items()
    }

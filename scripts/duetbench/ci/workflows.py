"""The two workflows of a repository: one compares, the other comments."""

import importlib.metadata
from pathlib import Path
from string import Template
from typing import Final
from urllib.parse import urlsplit

_TEMPLATES: Final = Path(__file__).with_name("templates")


def make(within: Path) -> dict[str, str]:
    """Return both workflows by name; `within` is the application's folder in the repository."""
    addresses = importlib.metadata.metadata("duetbench").get_all("Project-URL") or []
    home = next(line for line in addresses if line.startswith("Homepage"))
    fields = {
        "ours": urlsplit(home.split()[-1]).path.strip("/"),
        "root": "" if within == Path() else f", with: {{ root: {within.as_posix()} }}",
    }
    return {
        name: Template((_TEMPLATES / name).read_text("utf-8")).substitute(fields)
        for name in ("duetbench.yml", "duetbench-comment.yml")
    }

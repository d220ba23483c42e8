"""Files that the wheel adds to the package's folder, and the description that an index shows.

The package reads a few files of its checkout. A wheel has them in the same places below
`duetbench/own`, which `duetbench.host.paths.OWN` points to there.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

OWN = (
    "pyproject.toml",  # the pins
    # The program that counts instructions.
    *(
        f"benchmarks/{name}.py"
        for name in ("__init__", "_counted", "_drivers", "_endpoints", "_project", "_requests")
    ),
)

PAGES = "https://github.com/OWNER/duetbench/blob/HEAD/"
FILES = "https://github.com/OWNER/duetbench/raw/HEAD/"


class Own(BuildHookInterface):
    """Copy files to `duetbench/own`; an editable installation reads the checkout itself."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "standard":
            build_data["force_include"].update({file: f"duetbench/own/{file}" for file in OWN})


class Readme(MetadataHookInterface):
    """The README, with links to the repository."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text("utf-8")
        text = re.sub(r"\]\((?!https?:|#)", f"]({PAGES}", text)
        text = re.sub(r'(src|srcset)="(?!https?:)', rf'\1="{FILES}', text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}

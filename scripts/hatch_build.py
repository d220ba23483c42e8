"""The description that an index shows: the README, whose links lead to the repository."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PAGES = "https://github.com/OWNER/duetbench/blob/HEAD/"
FILES = "https://github.com/OWNER/duetbench/raw/HEAD/"


class Readme(MetadataHookInterface):
    """The README, with links to the repository."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text("utf-8")
        text = re.sub(r"\]\((?!https?:|#)", f"]({PAGES}", text)
        text = re.sub(r'(src|srcset)="(?!https?:)', rf'\1="{FILES}', text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}

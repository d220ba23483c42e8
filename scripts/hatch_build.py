"""What an index shows: the README, and links to the repository that builds the package."""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

ADDRESS = f"https://github.com/{os.environ.get('GITHUB_REPOSITORY', 'OWNER/duetbench')}"


class Readme(MetadataHookInterface):
    """The README and the addresses, with links to the repository."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text("utf-8")
        text = re.sub(r"\]\((?!https?:|#)", f"]({ADDRESS}/blob/HEAD/", text)
        text = re.sub(r'(src|srcset)="(?!https?:)', rf'\1="{ADDRESS}/raw/HEAD/', text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = {
            "Homepage": ADDRESS,
            "Documentation": f"{ADDRESS}/blob/HEAD/docs/index.md",
            "Changelog": f"{ADDRESS}/blob/HEAD/CHANGELOG.md",
            "Issues": f"{ADDRESS}/issues",
        }

"""The repository that somebody makes who follows docs/first.md."""

import re
from pathlib import Path
from typing import Final

from bench import PROJECT
from repos import commit, git

PAGE: Final = (PROJECT / "docs" / "first.md").read_text("utf-8")


def follow(root: Path) -> None:
    """Make the repository with both commits of the page, word by word."""
    packages, before, after = re.findall(r"```(?:text|python)\n(.*?)```", PAGE, re.DOTALL)[:3]
    root.mkdir(parents=True)
    git(root, "init", "--quiet", "--initial-branch=main")
    commit(root, "List authors", **{"requirements.txt": packages, "library.py": before})
    after = before.partition("@app.get")[0] + after
    commit(root, "Look each book up", **{"library.py": after})

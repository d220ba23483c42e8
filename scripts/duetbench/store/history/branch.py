"""The branch of the history: what is in it, and how something is added.

Nothing is ever checked out. A commit is made from the tip's tree and the new files, which takes
neither the contents of the files that are there nor a rebase: when somebody else was first, the
same files are put on top of the new tip.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from duetbench.core.errors import HistoryError
from duetbench.host.git import Git, Remote, batch_contents

RESULTS: Final = "results"
"""The folder that the branch consists of."""

_REF: Final = "refs/remotes/origin/history"
_FILE: Final = "100644"
_AUTHOR: Final = {"NAME": "duetbench", "EMAIL": "duetbench@localhost"}
_AT_ONCE: Final = 100  # files whose contents are held in memory


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of the branch: its path below `results/` and the SHA-1 of its blob."""

    path: str
    blob: str


class Branch:
    """The branch, as it was when it was last fetched.

    Attributes:
        tip: Its commit; None: there is no such branch yet.
    """

    def __init__(self, folder: Path, remote: Remote) -> None:
        """Prepare a bare repository in a folder; the remote is not asked yet."""
        self._git = Git.make(folder, remote)
        self._branch = f"refs/heads/{remote.branch}"
        self.tip: str | None = None

    def fetch(self, *, contents: bool) -> None:
        """Fetch the tip alone, without its past; raises GitError."""
        listed = self._git.ask("ls-remote", "origin", self._branch)
        if not listed:
            self.tip = None
            return
        only_names = [] if contents else ["--filter=blob:none"]
        self._git.ask(
            "fetch", "--quiet", "--no-tags", "--depth=1", *only_names, "origin",
            f"+{self._branch}:{_REF}",
        )  # fmt: skip
        self.tip = self._git.ask("rev-parse", _REF)

    def entries(self, paths: Sequence[str] = ()) -> Iterator[Entry]:
        """The plain files of the branch."""
        if self.tip is None:
            return
        asked = [f"{RESULTS}/{path}" for path in paths] or [f"{RESULTS}/"]
        listed = self._git.read("ls-tree", "-r", "-z", "--full-tree", self.tip, "--", *asked)
        for line in listed.decode("utf-8", "surrogateescape").split("\0"):
            about, _, path = line.partition("\t")
            # Anything else than a plain file (a link, another repository) is not ours.
            if about.startswith(f"{_FILE} blob "):
                yield Entry(path.removeprefix(f"{RESULTS}/"), about.split(" ")[2])

    def read(self, entries: Iterable[Entry]) -> Iterator[tuple[Entry, bytes]]:
        """The contents of files that were fetched, a few at a time."""
        rest = iter(entries)
        while few := list(islice(rest, _AT_ONCE)):
            asked = "".join(f"{entry.blob}\n" for entry in few).encode()
            answer = batch_contents(self._git.read("cat-file", "--batch", stdin=asked))
            for entry, data in zip(few, answer, strict=True):
                if data is None:
                    raise HistoryError(
                        f"{entry.path}: expected its contents in the history, found none; remove "
                        "the cached copy and pull again"
                    )
                yield entry, data

    def store(self, data: bytes) -> str:
        """Keep a file's contents in our repository: its blob."""
        return self._git.ask("hash-object", "-w", "--no-filters", "--stdin", stdin=data)

    def commit(self, blobs: Mapping[str, str], message: str) -> str:
        """Make a commit that adds files to the tip."""
        with tempfile.TemporaryDirectory() as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            if self.tip is not None:
                self._git.ask("read-tree", self.tip, env=index)
            lines = "".join(
                f"{_FILE} {blob}\t{RESULTS}/{path}\n" for path, blob in sorted(blobs.items())
            )
            self._git.ask("update-index", "--add", "--index-info", stdin=lines.encode(), env=index)
            tree = self._git.ask("write-tree", "--missing-ok", env=index)
        parents = ["-p", self.tip] if self.tip is not None else []
        return self._git.ask(
            "commit-tree", tree, *parents, stdin=message.encode(), env=identity(os.environ)
        )

    def push(self, commit: str) -> None:
        """Make a commit the branch's tip, if it follows the one that is there; raises GitError."""
        self._git.ask("push", "--quiet", "origin", f"{commit}:{self._branch}")


def identity(environment: Mapping[str, str]) -> dict[str, str]:
    """Who commits: whoever the environment names, otherwise duetbench."""
    return {
        (name := f"GIT_{role}_{what}"): environment.get(name, value)
        for role in ("AUTHOR", "COMMITTER")
        for what, value in _AUTHOR.items()
    }

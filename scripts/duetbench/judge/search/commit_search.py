"""Which commit did it: the search over a repository's own commits."""

import glob
from collections.abc import Callable, Sequence
from pathlib import Path

from duetbench.app import revisions
from duetbench.app.setting import Contrast
from duetbench.app.subject import Subject
from duetbench.core.change import Cause, Commit
from duetbench.core.comparison import Comparison
from duetbench.core.errors import UsageError
from duetbench.host import git
from duetbench.host.console import Console
from duetbench.judge.comparison import compare
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.search.bisection import MEANS, Budget, Means, Search


def list_commits(root: Path, good: str, bad: str) -> tuple[Commit, ...]:
    """List the commits after GOOD up to BAD, oldest first, of a branch merged only the merge.

    Raises UsageError if a name is no commit, or there is none between.
    """
    ends = [revisions.resolve(root, name).commit for name in (good, bad)]
    log = ["log", "--first-parent", "--reverse", "--format=%H %p%x00%s", f"{ends[0]}..{ends[1]}"]
    commits = []
    for line in git.ask(root, *log).splitlines():
        ids, _, subject = line.partition("\0")
        commit, *parents = ids.split()
        commits.append(Commit(id=commit, subject=subject, merge=len(parents) > 1))
    if not commits:
        raise UsageError(f"no commit is between {good} and {bad}: is {good} the earlier one?")
    return tuple(commits)


def search(
    project: Subject,
    ends: tuple[str, str],
    select: str,
    seconds: float,
    reporter: Reporter,
    *,
    start: bool = False,
) -> Cause:
    """Search the commits between GOOD and BAD on this machine, which nothing else may use.

    `select` is a glob over the ids of cases, `seconds` of load are used at most, or of starts if
    what changed is the `start` of servers. Raises as `list_commits` and `Search.run`.
    """
    commits = list_commits(project.root, *ends)
    quiet = Reporter(Console(quiet=True))
    budget = Budget(seconds, len(commits))

    def look(good: str, commit: str, means: Means, case: str) -> Comparison:
        extent = budget.extent(means, glob.escape(case) if case else select, start=start)
        told = reporter if extent.seconds else quiet
        return compare(project, Contrast((good, commit)), extent, told)

    found = CommitSearch(commits, look, reporter.say)
    return found.run([ends[0], *(commit.id for commit in commits)], MEANS[2:] if start else MEANS)


class CommitSearch(Search[str]):
    """A search in a row of commits, by their ids; of the first one, any name."""

    unit = "commits"

    def __init__(
        self,
        commits: Sequence[Commit],
        look: Callable[[str, str, Means, str], Comparison],
        say: Callable[[str], None],
    ) -> None:
        super().__init__(look, say)
        self.commits = commits
        self.places = {commit.id: place for place, commit in enumerate(commits, 1)}

    def between(self, before: str, after: str, _: Comparison | None = None) -> Sequence[Commit]:
        return self.commits[self.places.get(before, 0) : self.places[after]]

    def apart(
        self, row: Sequence[str], found: Sequence[str]
    ) -> tuple[str, str, Sequence[Sequence[str]]]:
        start, end = row.index(found[0]), row.index(found[-1])
        return row[start - 1], row[end], (row[:start], row[end:])

"""An application of a repository, prepared in a copy of it, for verbs that measure one."""

from collections.abc import Iterator
from contextlib import contextmanager

from duetbench.host.console import Narrator
from duetbench.judge import revisions, targets
from duetbench.project import oha
from duetbench.project.project import Project


@contextmanager
def deployed(project: Project, narrator: Narrator) -> Iterator[Project]:
    """Give, for a while, a copy of a project in which its target can be measured.

    Whoever measures one need not have set up anything. SetupError: something cannot be made here.
    """
    oha.ensure(project.settings, narrator)
    with revisions.copies(narrator) as copies:
        yield targets.working(project, narrator, copies)

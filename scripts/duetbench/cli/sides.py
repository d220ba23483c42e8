"""Base and head, from the command line."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

from typer import Option

from duetbench.cli.options import day, lock_text
from duetbench.core.errors import UsageError
from duetbench.host.console import Narrator
from duetbench.judge import revisions, targets
from duetbench.judge import sides as sides_
from duetbench.judge.pairs import Sides
from duetbench.judge.sides import Scope
from duetbench.project import setting, tools
from duetbench.project.project import Project
from duetbench.project.setting import AS_DECLARED, Setting
from duetbench.project.settings import STACK

AS_LOCKED: Final = "locked"
"""Means the locks, in place of a date."""

WithOption = Annotated[
    list[str] | None,
    Option("--with", "--head-with", metavar="PACKAGE==VERSION", help="In head's lock; repeatable."),
]

BaseWithOption = Annotated[
    list[str] | None,
    Option("--base-with", metavar="PACKAGE==VERSION", help="In base's lock; repeatable."),
]

LockOption = Annotated[
    tuple[str, str] | None,
    Option("--lock", metavar="BASE HEAD", help="Two lock files, such as 'uv.lock@main uv.lock'."),
]


def sides_of(
    project: Project,
    revisions: tuple[str | None, str | None],
    dates: list[str],
    pins: tuple[list[str], list[str]],
    lock: tuple[str, str] | None,
    python: tuple[str, str] | None,
    scope: Scope,
    settings: tuple[Setting, Setting] = (AS_DECLARED, AS_DECLARED),
) -> Sides:
    """Prepare the one kind of comparison that the command line asks for; raises UsageError."""
    kinds = {
        "BASE": revisions[0], "--stack-as-of": dates, "--with": any(pins), "--lock": lock,
        "--python": python, " and ".join(setting.options(*settings)): any(settings),
    }  # fmt: skip
    chosen = [name for name, value in kinds.items() if value]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} were given: choose one kind of comparison")
    if len(dates) > 2:
        raise UsageError(f"--stack-as-of was given {len(dates)} times: expected base and head")
    if dates:
        other = f", or {AS_LOCKED!r}"
        days = [None if text == AS_LOCKED else day(text, "--stack-as-of", other) for text in dates]
        first, second = (None, days[0]) if len(days) == 1 else days
    repository, narrator, copies = project, scope.narrator, scope.copies
    if project.target is not None and len(chosen) == 1 and not revisions[0]:
        own_pins = pins[1] or pins[0]
        own_lock, ways = lock[1] if lock else None, settings if any(settings) else settings[:1]
        beside = lock[0] if lock else None
        project = targets.working(repository, narrator, copies, own_lock, own_pins, ways, beside)
    if dates:
        return sides_.of_dates(project, first, second, scope)
    if any(pins):
        return sides_.of_packages(project, *pins, scope)
    if lock is not None:
        base, head = lock
        stack = STACK if project.target else Path(head.rpartition("@")[0] or head).stem
        if project.target is not None:
            text = targets.other_text(repository, project, narrator, copies, lock=lock[0])
            texts = text, targets.text_of(project)
        else:
            texts = lock_text(project.root, base), lock_text(project.root, head)
        return sides_.of_locks(project, stack, (base, texts[0]), (head, texts[1]), scope)
    if any(settings):
        return sides_.of_settings(project, *settings, scope)
    if python is not None:
        # A copy of a target names its interpreters by the versions that were found.
        both = python if project.target is None else tuple(project.settings.interpreters)
        project = replace(project, extra_pythons=both)
        if len(both) != 2:
            raise UsageError(
                f"--python: expected two different interpreters, found {both[0]} twice"
            )
        return sides_.of_interpreters(project, *both, scope)
    return sides_.of_revisions(project, *revisions, scope)


@contextmanager
def deploy(project: Project, narrator: Narrator) -> Iterator[Project]:
    """Provide, for a while, a copy of a project in which its target can be measured.

    It needs no earlier set-up. Raises SetupError if something cannot be installed here.
    """
    tools.ensure_oha(project.settings.oha, narrator)
    with revisions.copies() as copies:
        yield targets.working(project, narrator, copies)

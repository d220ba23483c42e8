"""Provenance: what a run says of itself before its first launch, and whether it still holds."""

from __future__ import annotations

from pathlib import Path

from servebench import __version__
from servebench.core.errors import UsageError
from servebench.core.model import Plan, Run, RunStatus
from servebench.host import git
from servebench.host.git import HopelessError
from servebench.measure.runner import utc_now
from servebench.measure.testbed import Rig
from servebench.record import store
from servebench.toolchain import interpreters, tools


def write(plan: Plan, rig: Rig, root: Path) -> Run:
    """The run of a plan on this machine, without results."""
    started = utc_now()
    commit, dirty = revision(root)
    return Run(
        id=store.run_id(started, plan.profile, commit),
        status=RunStatus.PARTIAL,
        started=started,
        servebench=__version__,
        commit=commit,
        dirty=dirty,
        profile=plan.profile,
        launches=plan.launches,
        seed=plan.seed,
        machine=rig.machine,
        oha=tools.oha_version(),
        oha_origin=tools.oha_origin(),
        interpreters=tuple(interpreters.locate(name).record() for name in rig.versions),
        stacks=tuple(stack.record() for stack in rig.stacks.values()),
        results=(),
    )


def revision(root: Path) -> tuple[str | None, bool]:
    """Commit of the checkout, and whether tracked files differ from it, results left out."""
    status = ("status", "--porcelain", "--untracked-files=no", "--", ".", ":!results")
    try:
        return git.ask_or_none(root, "rev-parse", "HEAD"), bool(git.ask_or_none(root, *status))
    except HopelessError:
        return None, False


def require_resumable(run: Run, rig: Rig, root: Path) -> None:
    """Refuse to go on with a run whose conditions are no longer there (UsageError)."""
    commit, _ = revision(root)
    now = {
        "commit": commit,
        "machine": rig.machine.id,
        "oha": (tools.oha_version(), tools.oha_origin()),
        "stacks": {stack.name: stack.digest for stack in rig.stacks.values()},
        "interpreters": {name: interpreters.locate(name).record() for name in rig.versions},
    }
    then = {
        "commit": run.commit,
        "machine": run.machine.id,
        "oha": (run.oha, run.oha_origin or "source"),
        "stacks": {stack.name: stack.digest for stack in run.stacks},
        "interpreters": {record.name: record for record in run.interpreters},
    }
    moved = [what for what, value in now.items() if value != then[what]]
    if moved:
        raise UsageError(
            f"run {run.id} cannot be resumed: its {' and '.join(moved)} differ from what is here "
            "now. Go back to them, or start a new run"
        )

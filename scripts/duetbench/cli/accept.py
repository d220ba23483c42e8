"""`duetbench ci accept`: turn what measuring machines sent into files that may be used."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from duetbench.cli.github import connected
from duetbench.cli.options import JsonOption, tell
from duetbench.core.errors import UsageError
from duetbench.github import actions, archives, incoming
from duetbench.github.incoming import Acceptance
from duetbench.project.project import Project
from duetbench.store import files
from duetbench.store.change import Candidates
from duetbench.store.night import NightPlan, assignment


def accept_command(
    target: Annotated[Path, Option("--to", help="Where checked files go.")],
    source: Annotated[
        Path | None, Option("--from", help="Where the artifacts were put, in an empty folder.")
    ] = None,
    fetch: Annotated[
        str | None,
        Option(
            "--fetch",
            metavar="NAMES",
            help="Only put the artifacts of this workflow run whose names match this glob into "
            "--to.",
        ),
    ] = None,
    plan: Annotated[
        Path | None, Option("--plan", help="Artifacts are a night's shards: the night's plan.")
    ] = None,
    shard: Annotated[
        int | None, Option("--shard", min=1, help="With --plan: the only one that can be missing.")
    ] = None,
    confirmed: Annotated[
        bool, Option("--confirmed", help="Artifacts are records of confirmed changes.")
    ] = False,
    candidates: Annotated[
        Path | None,
        Option(
            "--candidates",
            help="With --confirmed: what was to be judged (`duetbench ci detect --output`).",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check artifacts of measuring machines, and copy what is right.

    Links, odd names, too many files and too large ones are refused; the rest is read strictly, and
    must be of what was asked for: the plan's cases, commit, locks and machines, or its candidates.
    Nothing is executed. A refused artifact costs the others nothing.

    Give one of --plan and --confirmed. Exit code 0: all is there and was accepted.
    1: something is refused or missing, the rest was copied. 3: nothing was accepted.

    With --fetch they are fetched, one by one, for another call to check: one that is damaged, or
    far too large once it is unpacked, is left out and named, and is missing then. Needs
    GITHUB_TOKEN with actions: read. Exit code 4: GitHub could not be asked which there are.
    """
    if fetch is not None:  # nothing else talks to GitHub
        with connected() as (context, github):
            fetched, refused = archives.fetch(github, context.run_id, fetch, target)
        _tell(Acceptance(accepted=fetched, refused=refused), "fetched")
        return
    if source is None or (plan is not None) == confirmed:
        raise UsageError(
            "expected --from FOLDER with one of --plan FILE and --confirmed; or --fetch NAMES"
        )
    now = datetime.now(UTC)
    if shard is not None:
        assignment(plan, shard)  # it is one of the plan's
    if plan is not None:
        project = Project.here()
        locks = {name: project.lock(name).digest for name in project.stacks}
        acceptance = incoming.night(files.read(NightPlan, plan), source, target, locks, now, shard)
    else:
        names = None
        if candidates is not None:
            names = [candidate.id for candidate in files.read(Candidates, candidates).candidates]
        acceptance = incoming.confirmed(source, target, now, names)
    _tell(acceptance, "accepted", as_json=as_json)
    if acceptance.exit_code:
        raise Exit(acceptance.exit_code)


def _tell(acceptance: Acceptance, done: str, *, as_json: bool = False) -> None:
    missing = [f"missing: {sentence}" for sentence in acceptance.missing]
    # Foreign text stands as code, which it cannot end.
    refused = [
        (refusal.artifact, refusal.reason, refusal.reason.replace("`", "'"))
        for refusal in acceptance.refused
    ]
    items = [f"refused: `{name}`: `{reason}`" for name, _, reason in refused]
    heading = f"**{len(acceptance.accepted)} {done}, {len(acceptance.refused)} refused**\n\n"
    actions.summary(heading + "\n".join(f"- {line}" for line in (*items, *missing)))
    lines = [f"{done}: {path}" for path in acceptance.accepted]
    lines += [f"refused: artifact {name}: {reason}" for name, reason, _ in refused]
    lines = [*lines, *missing] or ["nothing came, and nothing was expected"]
    tell(lines, lambda: acceptance.model_dump(mode="json"), as_json=as_json)

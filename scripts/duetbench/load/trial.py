"""Serves an application once, without load, to find out which requests it answers."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final
from uuid import uuid4

from duetbench.app.subject import Subject
from duetbench.app.testbed import SideCase, assemble
from duetbench.core.errors import LaunchError, UsageError
from duetbench.core.model import Case
from duetbench.host import paths
from duetbench.host.command import reason, scrub
from duetbench.host.console import Narrator
from duetbench.load import verify
from duetbench.load.server import Serving

_PARAMETERS: Final = frozenset("{}<>()[]*?:\\|+ ")
"""Characters in a path of a framework's that is a pattern."""

_TRIES: Final = 40
_SECONDS: Final = 10.0  # for an answer; a stream of events does not end

_BESIDE: Final = (
    "health healthz healthcheck heartbeat live livez liveness ready readyz readiness ping pong "
    "status version info metrics "
    "doc docs redoc openapi swagger schema static assets media favicon robots sitemap admin auth "
    "oauth login logout signin signup account accounts debug manifest opensearch css js"
)
"""Words in paths of what an application has beside its own work."""


def serve_once(subject: Subject, narrator: Narrator, *, find: bool) -> tuple[list[Case], list[str]]:
    """Serve a prepared target, and send its requests, or `find` a path that it answers to GET.

    Its server has one worker. Returns the cases that were answered as expected, and what was wrong
    with the others. Raises UsageError if its server does not start, SetupError if its environment
    cannot be made.
    """
    declared = subject.cases()
    logs = paths.state_dir() / "logs"
    log = logs / f"trial-{uuid4().hex}.log"
    testbed = assemble(subject, declared, logs, narrator, loaded=False)
    case = declared[0].model_copy(update={"workers": 1})
    right, wrong = list[Case](), list[str]()
    with Serving(SideCase(case, replace(testbed, patience=_SECONDS)), log) as serving:
        try:
            serving.start()
            serving.meet()
            for candidate in _candidates(serving) if find else declared:
                if problem := _problem(serving, candidate):
                    wrong.append(problem)
                    continue
                right.append(candidate)
                if find:
                    break
            serving.kill()
        except LaunchError as error:
            raise UsageError(scrub(reason(serving.workspace.hide(error.detail)))) from error
    return right, wrong


def _candidates(serving: Serving) -> Iterator[Case]:
    """Yield cases of the application's paths, the likeliest first."""
    case = serving.case
    plain = (path for path in verify.routes(serving.port) if not _PARAMETERS & set(path))
    # The likeliest first to be worth measuring.
    paths_ = {"/", *plain}
    for path in sorted(paths_, key=lambda p: (_is_beside(p), p.count("/"), len(p), p))[:_TRIES]:
        endpoint = case.endpoint.model_copy(update={"path": path})
        yield case.model_copy(update={"endpoint": endpoint})


def _problem(serving: Serving, case: Case) -> str:
    """Send a case's request to a server that runs; return what was wrong, or nothing."""
    serving.take(case)
    with serving.blamed():
        serving.verify(repeats=1)
    return reason(serving.flags[0].detail) if serving.flags else ""


def _is_beside(path: str) -> bool:
    """Whether a path is of what an application has beside its own work."""
    words = {*re.split(r"[^a-z]+", path.lower())}
    return bool(words & {*_BESIDE.split()} or re.search(r"\.\w+$", path))

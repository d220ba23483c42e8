"""Ask every worker of a server for its interpreter, packages and event loop."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

import httpx
from packaging.utils import canonicalize_name
from pydantic import ValidationError

from duetbench.core.errors import FlagName, LaunchError
from duetbench.core.model import Frozen
from duetbench.core.text import short
from duetbench.measure import reading
from duetbench.measure.entry.duetbench_entry import COLLECT, PATH
from duetbench.store.files import first_problem

BATCH: Final = 4  # connections opened at once, per expected worker

MAX_OPEN: Final = 128
"""Connections held open until all workers have answered. If workers share a socket, most go to one
of them, and single connections could meet the same worker for ever."""

_ANSWER_SECONDS: Final = 60.0
_PAUSE: Final = 0.02  # s after requests that met no new worker, which may need the cores to start


class Identity(Frozen):
    """A worker's description of itself; see `entry.duetbench_entry`."""

    pid: int
    python: str
    build: str
    gil_enabled: bool
    jit_enabled: bool = False
    packages: dict[str, str]
    loop: str | None
    worker: str
    imported: float = 0.0  # core time of importing the application, or making it, s
    tasks: int = 0  # number of tasks of its event loop
    routes: tuple[str, ...] = ()  # paths of the application, if it records that


def probe(
    base_url: str,
    *,
    workers_expected: int,
    timeout: float = 10.0,
    check: Callable[[], None] = lambda: None,
    collect: bool = False,
) -> tuple[Identity, ...]:
    """Ask until every worker has answered; return one identity per worker, sorted by worker.

    Threads of one process without event loops cannot be distinguished: expect one worker there.
    `check` raises an error when the server is gone. With `collect` each worker collects its garbage
    before it answers. LaunchError: not_ready if fewer answer in `timeout` s, server_died if
    more do, wrong_answer if something else answers.
    """
    url = f"{base_url}{PATH}?{COLLECT}" if collect else base_url + PATH
    workers, problems = dict[str, Identity](), list[str]()
    expected, batch = f"expected {workers_expected} workers", BATCH * workers_expected

    async def search() -> None:
        while len(workers) < workers_expected:
            async with AsyncExitStack() as clients:
                for _ in range(max(1, MAX_OPEN // batch)):
                    if len(workers) >= workers_expected:
                        break
                    check()
                    client = await clients.enter_async_context(reading.LocalClient(kept=None))
                    # Requests sent at once cannot share a connection, and the client keeps each.
                    answers = await asyncio.gather(*(_ask(client, url) for _ in range(batch)))
                    before = len(workers)
                    workers.update((a.worker, a) for a in answers if isinstance(a, Identity))
                    problems.extend(answer for answer in answers if isinstance(answer, str))
                    if len(workers) == before:
                        await asyncio.sleep(_PAUSE)

    try:
        asyncio.run(asyncio.wait_for(search(), timeout))
    except TimeoutError as error:
        raise LaunchError(
            FlagName.NOT_READY,
            f"{expected} to answer GET {PATH} within {timeout:g} s (--ready-timeout), found "
            f"{len(workers)} ({', '.join(sorted(workers)) or 'none'})"
            f"{'; last: ' + problems[-1] if problems else ''}; see the server's log",
        ) from error
    if len(workers) > workers_expected:
        raise LaunchError(
            FlagName.SERVER_DIED,
            f"{expected}, found {len(workers)} ({', '.join(sorted(workers))}); "
            "see the server's log",
        )
    return tuple(workers[key] for key in sorted(workers))


async def _ask(client: reading.LocalClient, url: str) -> Identity | str:
    """The identity of the worker that answers, or the reason why none does."""
    try:
        request = client.build_request("GET", url)
        answer, _ = await client.read(request, f"GET {url}", _ANSWER_SECONDS)
    except httpx.HTTPError as error:
        return f"{type(error).__name__} {error}".strip()
    if answer.status_code != httpx.codes.OK:
        raise LaunchError(
            FlagName.WRONG_ANSWER,
            f"GET {url}: expected status 200, found {answer.status_code} with "
            f"{short(answer.text, 80)!r}; see the server's log",
        )
    try:
        return Identity.model_validate_json(answer.content)
    except ValidationError as error:
        raise LaunchError(
            FlagName.WRONG_ANSWER,
            f"GET {url}: expected an identity, found {short(answer.text, 80)!r} "
            f"({first_problem(error)})",
        ) from error


def check_identity(
    identities: Sequence[Identity],
    *,
    free_threaded: bool,
    python_version: str,
    packages: Mapping[str, str],
    required: Collection[str] = (),
    loop: str | None = None,
    jit: bool | None = False,
) -> None:
    """Compare every worker with the case; LaunchError not_ready.

    A universal lock (`packages`) also has packages of other systems, so only installed ones are
    compared; `required` ones must be installed. `jit`: whether it is on; None: either is right.
    """
    lock: dict[str, str] = {canonicalize_name(name): version for name, version in packages.items()}
    names = {canonicalize_name(name) for name in required}
    for identity in identities:
        if problem := _wrong_gil(identity, free_threaded):
            raise LaunchError(FlagName.NOT_READY, f"worker {identity.worker}: {problem}")
        installed: dict[str, str] = {
            canonicalize_name(name): version for name, version in identity.packages.items()
        }
        problems = [
            f"{name}: expected {expected}, found {actual} installed"
            for name in sorted({*names, *(lock.keys() & installed.keys())})
            if (expected := lock.get(name, "it in the lock"))
            != (actual := installed.get(name, "none"))
        ]
        if identity.python != python_version:
            problems.append(f"expected Python {python_version}, found {identity.python}")
        if jit not in (None, identity.jit_enabled):
            state = "on, found it off" if jit else "off, found it on (its name would end in -jit)"
            problems.append(f"expected the JIT to be {state}")
        if loop not in (None, "none") and (identity.loop or "none").partition(".")[0] != loop:
            problems.append(f"expected the event loop {loop}, found {identity.loop}")
        if problems:
            raise LaunchError(
                FlagName.NOT_READY,
                f"worker {identity.worker}: {'; '.join(problems)}; run `duetbench setup`",
            )


def _wrong_gil(identity: Identity, free_threaded: bool) -> str | None:
    if identity.gil_enabled == free_threaded:
        expected, actual = ("off", "on") if free_threaded else ("on", "off")
        return (
            f"expected the GIL to be {expected}, found it {actual} ({identity.python}, "
            f"{identity.build}); is PYTHON_GIL set, or does an extension module switch it on?"
        )
    # PYTHON_GIL=1 on a free-threaded build is not a build with the GIL.
    build = f"Py_GIL_DISABLED={int(free_threaded)}"
    if build not in identity.build:
        return f"expected a build with {build}, found {identity.build}; run `duetbench setup`"
    return None

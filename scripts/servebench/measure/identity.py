"""Who serves? Every worker is asked for its interpreter, packages and event loop."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final, Literal

import httpx
from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict, ValidationError

from servebench.core.errors import LaunchError
from servebench.core.flags import FlagName
from servebench.record.files import first_problem

BATCH: Final = 4
"""Connections opened at once, per expected worker."""

MAX_OPEN: Final = 128
"""Connections held open until all workers have answered; beyond it the oldest are closed.

Servers whose workers share a socket give most connections to one of them: one connection at a time
could meet the same worker for ever.
"""

NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of servers on this machine: reading all root certificates would take 20 ms each."""

_PAUSE: Final = 0.02  # s between two attempts to reach a server that does not listen yet


class Identity(BaseModel):
    """What a worker says about itself: the answer of `/_identity` (`apps/identity.py`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pid: int
    thread: int
    python: str
    implementation: str
    build: str
    gil_enabled: bool
    packages: dict[str, str]
    loop: str | None
    worker: str
    http_parser: str | None
    thread_limit: float | None


def probe(
    base_url: str,
    *,
    workers_expected: int,
    path: str = "/_identity",
    distinct: Literal["worker", "pid"] = "worker",
    timeout: float = 10.0,
) -> tuple[Identity, ...]:
    """Ask until every worker has answered; one identity per worker, ordered by `distinct`.

    `distinct` tells workers apart. Threads that share a process and have no event loop cannot be
    told apart: expect one pid there.

    Raises:
        LaunchError: not_ready if fewer answer in `timeout` s; worker_restarted if more do;
            wrong_status or wrong_body if something else answers.
    """
    search = _Search(base_url.rstrip("/") + path, workers_expected, distinct)
    try:
        asyncio.run(search.run(timeout))
    except TimeoutError as error:
        raise LaunchError(
            FlagName.NOT_READY,
            f"expected {workers_expected} workers to answer GET {path} within {timeout:g} s, "
            f"found {len(search.found)} ({_listed(search.found)})"
            f"{'; last: ' + search.problem if search.problem else ''}; see the server's log",
        ) from error
    if len(search.found) > workers_expected:
        raise LaunchError(
            FlagName.WORKER_RESTARTED,
            f"expected {workers_expected} workers, found {len(search.found)} "
            f"({_listed(search.found)}); see the server's log",
        )
    return tuple(search.found[key] for key in sorted(search.found))


def check_identity(
    identities: Sequence[Identity],
    *,
    free_threaded: bool,
    python_version: str,
    packages: Mapping[str, str],
    required: Collection[str] = (),
    loop: str | None = None,
) -> None:
    """Compare every worker with what the case names; LaunchError gil_mismatch or version_mismatch.

    A universal lock (`packages`) also holds packages of other systems, so only those that are
    installed are compared; `required` ones must be. The top-level package of a `loop` that is None
    or `none` is not checked.
    """
    lock: dict[str, str] = {canonicalize_name(name): version for name, version in packages.items()}
    for one in identities:
        where = f"worker {one.worker}"
        _check_interpreter(one, where, free_threaded, python_version)
        _check_packages(one, where, lock, {canonicalize_name(name) for name in required})
        if loop not in (None, "none") and (one.loop or "none").partition(".")[0] != loop:
            raise LaunchError(
                FlagName.VERSION_MISMATCH,
                f"{where}: expected the event loop {loop}, found {one.loop}; see the server's "
                "loop option",
            )


def _check_interpreter(one: Identity, where: str, free_threaded: bool, version: str) -> None:
    state = {True: "on", False: "off"}
    if one.gil_enabled == free_threaded:
        raise LaunchError(
            FlagName.GIL_MISMATCH,
            f"{where}: expected the GIL to be {state[not free_threaded]}, found it "
            f"{state[one.gil_enabled]} ({one.python}, {one.build}); is PYTHON_GIL set, or does an "
            "extension module switch it on?",
        )
    # PYTHON_GIL=1 on a free-threaded build is not the build with the GIL.
    if f"Py_GIL_DISABLED={int(free_threaded)}" not in one.build:
        raise LaunchError(
            FlagName.GIL_MISMATCH,
            f"{where}: expected a build with Py_GIL_DISABLED={int(free_threaded)}, "
            f"found {one.build}; run `make setup`",
        )
    if one.python != version:
        raise LaunchError(
            FlagName.VERSION_MISMATCH,
            f"{where}: expected Python {version}, found {one.python}; run `make setup`",
        )


def _check_packages(
    one: Identity, where: str, lock: Mapping[str, str], required: Collection[str]
) -> None:
    installed: dict[str, str] = {
        canonicalize_name(name): version for name, version in one.packages.items()
    }
    wrong = [
        f"{name}: expected {lock[name]}, found {installed[name]}"
        for name in sorted(lock.keys() & installed.keys())
        if lock[name] != installed[name]
    ]
    wrong += [
        f"{name}: expected {lock.get(name, 'a version in the lock')}, found none installed"
        for name in sorted(set(required) - installed.keys())
    ]
    wrong += [
        f"{name}: expected it in the lock, found {installed[name]} installed"
        for name in sorted((set(required) & installed.keys()) - lock.keys())
    ]
    if wrong:
        raise LaunchError(
            FlagName.VERSION_MISMATCH, f"{where}: {'; '.join(wrong)}; run `make setup`"
        )


def _listed(found: Mapping[str, Identity]) -> str:
    return ", ".join(sorted(found)) or "none"


class _Search:
    def __init__(self, url: str, expected: int, distinct: Literal["worker", "pid"]):
        self.found: dict[str, Identity] = {}
        self.problem = ""
        self._url, self._expected, self._distinct = url, expected, distinct

    async def run(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        async with asyncio.timeout(timeout):
            while len(self.found) < self._expected:
                async with AsyncExitStack() as held:
                    for _ in range(max(1, MAX_OPEN // (BATCH * self._expected))):
                        if len(self.found) >= self._expected:
                            break
                        await self._batch(held, deadline - time.monotonic())

    async def _batch(self, held: AsyncExitStack, left: float) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        client = await held.enter_async_context(
            httpx.AsyncClient(
                timeout=max(0.001, left), limits=limits, trust_env=False, verify=NO_TLS
            )
        )
        # Requests sent at once cannot share a connection, and the client keeps each one open.
        tries = [self._ask(client) for _ in range(BATCH * self._expected)]
        if not any(await asyncio.gather(*tries)):
            await asyncio.sleep(_PAUSE)

    async def _ask(self, client: httpx.AsyncClient) -> bool:
        try:
            answer = await client.get(self._url)
        except httpx.HTTPError as error:
            self.problem = f"{type(error).__name__} {error}".strip()
            return False
        if answer.status_code != httpx.codes.OK:
            raise LaunchError(
                FlagName.WRONG_STATUS,
                f"GET {self._url}: expected status 200, found {answer.status_code} with "
                f"{answer.text[:80]!r}; see the server's log",
            )
        try:
            one = Identity.model_validate_json(answer.content)
        except ValidationError as error:
            raise LaunchError(
                FlagName.WRONG_BODY,
                f"GET {self._url}: expected an identity, found {answer.text[:80]!r} "
                f"({first_problem(error)})",
            ) from error
        self.found.setdefault(str(getattr(one, self._distinct)), one)
        return True

"""Who serves? Every worker is asked for its interpreter, packages and event loop."""

import asyncio
import ssl
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

import httpx
from packaging.utils import canonicalize_name
from pydantic import ValidationError

from duetbench.core.errors import FlagName, LaunchError
from duetbench.core.model import Frozen
from duetbench.measure.entry.duetbench_entry import PATH
from duetbench.store.files import first_problem

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


class Identity(Frozen):
    """What a worker says about itself; see `entry.duetbench_entry`."""

    pid: int
    python: str
    build: str
    gil_enabled: bool
    packages: dict[str, str]
    loop: str | None
    worker: str


def probe(
    base_url: str,
    *,
    workers_expected: int,
    timeout: float = 10.0,
    check: Callable[[], None] = lambda: None,
) -> tuple[Identity, ...]:
    """Ask until every worker has answered; one identity per worker, ordered by it.

    Threads that share a process and have no event loop cannot be told apart: expect one there.
    `check` raises when there is nobody left to ask.

    Raises:
        LaunchError: not_ready if fewer answer in `timeout` s; worker_restarted if more do;
            wrong_status or wrong_body if something else answers.
    """
    search = _Search(base_url.rstrip("/") + PATH, workers_expected, check)
    expected, identities = f"expected {workers_expected} workers", search.identities
    try:
        asyncio.run(search.run(timeout))
    except TimeoutError as error:
        raise LaunchError(
            FlagName.NOT_READY,
            f"{expected} to answer GET {PATH} within {timeout:g} s, found {len(identities)} "
            f"({', '.join(sorted(identities)) or 'none'})"
            f"{'; last: ' + search.problem if search.problem else ''}; see the server's log",
        ) from error
    if len(identities) > workers_expected:
        raise LaunchError(
            FlagName.WORKER_RESTARTED,
            f"{expected}, found {len(identities)} ({', '.join(sorted(identities))}); "
            "see the server's log",
        )
    return tuple(identities[key] for key in sorted(identities))


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
    needed = {canonicalize_name(name) for name in required}
    for identity in identities:
        if problem := _wrong_gil(identity, free_threaded):
            raise LaunchError(FlagName.GIL_MISMATCH, f"worker {identity.worker}: {problem}")
        problems = [*_wrong_packages(identity, lock, needed)]
        if identity.python != python_version:
            problems.append(f"expected Python {python_version}, found {identity.python}")
        if loop not in (None, "none") and (identity.loop or "none").partition(".")[0] != loop:
            problems.append(f"expected the event loop {loop}, found {identity.loop}")
        if problems:
            raise LaunchError(
                FlagName.VERSION_MISMATCH,
                f"worker {identity.worker}: {'; '.join(problems)}; run `duetbench setup`",
            )


def _wrong_gil(identity: Identity, free_threaded: bool) -> str | None:
    if identity.gil_enabled == free_threaded:
        expected, actual = ("off", "on") if free_threaded else ("on", "off")
        return (
            f"expected the GIL to be {expected}, found it {actual} ({identity.python}, "
            f"{identity.build}); is PYTHON_GIL set, or does an extension module switch it on?"
        )
    # PYTHON_GIL=1 on a free-threaded build is not the build with the GIL.
    build = f"Py_GIL_DISABLED={int(free_threaded)}"
    if build not in identity.build:
        return f"expected a build with {build}, found {identity.build}; run `duetbench setup`"
    return None


def _wrong_packages(
    identity: Identity, lock: Mapping[str, str], required: Collection[str]
) -> Iterator[str]:
    installed: dict[str, str] = {
        canonicalize_name(name): version for name, version in identity.packages.items()
    }
    for name in sorted({*required, *(lock.keys() & installed.keys())}):
        expected, found = lock.get(name, "it in the lock"), installed.get(name, "none")
        if expected != found:
            yield f"{name}: expected {expected}, found {found} installed"


class _Search:
    def __init__(self, url: str, expected: int, check: Callable[[], None]) -> None:
        self.identities: dict[str, Identity] = {}
        self.problem = ""
        self._url, self._expected, self._check = url, expected, check

    async def run(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        async with asyncio.timeout(timeout):
            while len(self.identities) < self._expected:
                async with AsyncExitStack() as held:
                    for _ in range(max(1, MAX_OPEN // (BATCH * self._expected))):
                        if len(self.identities) >= self._expected:
                            break
                        self._check()
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
            identity = Identity.model_validate_json(answer.content)
        except ValidationError as error:
            raise LaunchError(
                FlagName.WRONG_BODY,
                f"GET {self._url}: expected an identity, found {answer.text[:80]!r} "
                f"({first_problem(error)})",
            ) from error
        self.identities.setdefault(identity.worker, identity)
        return True

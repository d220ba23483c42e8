"""The effect of the GIL on threads, processes and coroutines inside one process.

Three kinds of work, each done in several ways: counting (CPU only), files that are written and read
back, and rounds of a file and an HTTP request to a slow API. The source (PythonのGILの確認,
2025-03-16; Python 3.12.7, WSL2) published these seconds, the CPU's of two runs:

                    serial      threads     processes   asyncio
    four CPU tasks  2.11, 2.00  2.70, 3.54  0.75, 0.73  1.79 (second run)
    files of 1 MB   0.17        0.06        0.12
    files of 10 MB  1.37        0.32        0.48
    files of 100 MB 14.4        29.6        49.8
    ten rounds      7.50        1.07                    1.46

Different from the source: it has an interpreter with the GIL only. Our slow API is a server on
loopback that answers after 0.2 s (the source's public one took about 0.75 s). Processes are forked,
the default of the source's Python. Serial rounds and threads share one httpx client, the coroutines
another, with aiofiles for the files. As there, nothing forces files to the disk; 30 files of 100 MB
are measured only with DUETBENCH_FULL=1. One and two tasks are measured besides the source's four.

A call takes from tens of milliseconds to seconds, so every sample is one call (`number`). The timed
part includes making threads and processes, as in the source.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from ._suite import Clock, require_stack, skip

STACK = "gil-in-process"
STEPS = 10**7
FILES = 30
MEGABYTE = 10**6
LARGE = 100  # MB per file from which a run needs DUETBENCH_FULL=1, and enough space
ROUNDS = 10
DELAY = 0.2  # s that the API takes to answer
ONE_UNMEASURED_CALL = 0.001  # s of warm-up: less than any call takes, so it is exactly one
CLOCK = Clock(time.perf_counter)

_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")


def count(steps: int) -> int:
    """Count in pure Python: a loop that never waits and never leaves the interpreter."""
    counted = 0
    for _ in range(steps):
        counted += 1
    return counted


def in_mode(
    mode: str, task: Callable[[_Argument], _Result], arguments: Sequence[_Argument]
) -> list[_Result]:
    """Do a task for every argument, in one of four ways; raise any error."""
    if mode == "serial":
        return [task(argument) for argument in arguments]
    if mode == "threads":
        with ThreadPoolExecutor(len(arguments)) as threads:
            return list(threads.map(task, arguments))
    if mode == "processes":
        # Forked, as the source's Python did by default; from 3.14 on it must be requested.
        forked = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(len(arguments), mp_context=forked) as processes:
            return list(processes.map(task, arguments))
    if mode == "asyncio":
        return asyncio.run(_gathered(task, arguments))
    raise ValueError(f"no mode {mode!r}")


async def _gathered(
    task: Callable[[_Argument], _Result], arguments: Sequence[_Argument]
) -> list[_Result]:
    async def coroutine(argument: _Argument) -> _Result:
        return task(argument)

    return await asyncio.gather(*map(coroutine, arguments))


class Cpu:
    """Tasks of a 10**7-step counting loop."""

    version = "1"
    params = (["serial", "threads", "processes", "asyncio"], [1, 2, 4])
    param_names = ("mode", "tasks")
    rounds = 2
    repeat = 2
    number = 1
    timer = CLOCK
    warmup_time = 0
    timeout = 300

    def time_tasks(self, mode: str, tasks: int) -> None:
        """Time `tasks` tasks in one mode."""
        require_stack(STACK)
        counted = in_mode(mode, count, [STEPS] * tasks)
        if counted != [STEPS] * tasks:
            raise RuntimeError(f"expected {tasks} counts of {STEPS}, found {counted}")


def round_trip(size: int, path: Path) -> int:
    """Write random bytes to a file, read them back, remove it; return the number of bytes read."""
    path.write_bytes(os.urandom(size))
    read = len(path.read_bytes())
    path.unlink()
    return read


class Files:
    """30 files, each written with random bytes, read back and removed."""

    version = "1"
    params = (["serial", "threads", "processes"], [1, 10, LARGE])
    param_names = ("mode", "megabytes")
    rounds = 2
    repeat = 2
    number = 1
    timer = CLOCK
    warmup_time = ONE_UNMEASURED_CALL
    timeout = 600

    def time_round_trips(self, mode: str, megabytes: int) -> None:
        """Time 30 files of `megabytes` MB (10⁶ bytes) in one mode."""
        require_stack(STACK)
        size = megabytes * MEGABYTE
        with tempfile.TemporaryDirectory() as folder:
            if megabytes >= LARGE:
                _require_room(folder, FILES * size)
            paths = [Path(folder) / f"{number}.bin" for number in range(FILES)]
            read = in_mode(mode, functools.partial(round_trip, size), paths)
        if read != [size] * FILES:
            raise RuntimeError(f"expected {FILES} files of {size} bytes, read {read}")


def _require_room(folder: str, size: int) -> None:
    """Skip unless DUETBENCH_FULL=1 asks for the large files and there is space for them.

    Memory must hold the bytes that are written and read at the same time.
    """
    if os.environ.get("DUETBENCH_FULL") != "1":
        skip(f"{size / 1e9:g} GB of files: only with DUETBENCH_FULL=1")
    free = shutil.disk_usage(folder).free
    if free < 1.25 * size:
        skip(f"{size / 1e9:g} GB of files: {folder} has {free / 1e9:.1f} GB")
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    memory = 1024 * int(fields["MemAvailable"].split()[0])
    if memory < 2.5 * size:
        skip(f"{size / 1e9:g} GB of files: {memory / 1e9:.1f} GB of memory")


class Network:
    """10 rounds of a 1 MB file, written, read and removed, and one HTTP GET of a JSON API."""

    version = "1"
    params = (["serial", "threads", "asyncio"],)
    param_names = ("mode",)
    rounds = 2
    repeat = 2
    number = 1
    timer = CLOCK
    warmup_time = ONE_UNMEASURED_CALL
    timeout = 300

    def time_rounds(self, mode: str) -> None:
        """Time the rounds in one mode."""
        require_stack(STACK)
        url = _api()
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / f"{number}.bin" for number in range(ROUNDS)]
            if mode == "asyncio":
                asyncio.run(_rounds(url, paths))
            else:
                with _client() as client:
                    in_mode(mode, functools.partial(_round, client, url), paths)


def _client() -> Any:
    # The environment's proxies are not for loopback, and there is no certificate to verify.
    return _library("httpx").Client(trust_env=False, verify=False)


def _round(client: Any, url: str, path: Path) -> None:
    read = round_trip(MEGABYTE, path)
    _check(read, client.get(url))


async def _rounds(url: str, paths: Sequence[Path]) -> None:
    client_type = _library("httpx").AsyncClient
    async with client_type(trust_env=False, verify=False) as client:
        await asyncio.gather(*(_round_async(client, url, path) for path in paths))


async def _round_async(client: Any, url: str, path: Path) -> None:
    aiofiles = _library("aiofiles")
    async with aiofiles.open(path, "wb") as file:
        await file.write(os.urandom(MEGABYTE))
    async with aiofiles.open(path, "rb") as file:
        read = len(await file.read())
    await _library("aiofiles.os").remove(path)
    _check(read, await client.get(url))


def _check(read: int, answer: Any) -> None:
    if read != MEGABYTE or answer.status_code != 200 or answer.json() != {"waited": DELAY}:
        raise RuntimeError(f"read {read} bytes of {MEGABYTE}; answer {answer} {answer.text!r}")


@functools.cache
@CLOCK.leaves_out
def _library(name: str) -> Any:
    """Import a package of the stack; it may be missing where asv lists the benchmarks."""
    return importlib.import_module(name)


@functools.cache
@CLOCK.leaves_out
def _api() -> str:
    """Address of the API. It starts once per process, and ends with it."""
    program = Path(__file__).with_name("_slow_api.py")
    server = subprocess.Popen(
        [sys.executable, "-I", program, str(DELAY)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    _servers.append(server)  # keeps the server's input open while this process lives
    line = server.stdout.readline() if server.stdout else b""
    if not line.strip().isdigit():
        raise RuntimeError(f"expected {program.name} to print its port, found {line!r}")
    return f"http://127.0.0.1:{int(line)}/"


_servers: list[subprocess.Popen[bytes]] = []

"""Small programs that misbehave as servers do: `python programs.py NAME [ARGUMENT…]`.

Each prints `ready` when its misbehaviour is set up. They end by themselves after a minute, so that
a failing test leaves nothing behind for long.
"""

import mmap
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

HERE = Path(__file__)
LIFETIME = 60


def say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


def wait_for_end() -> NoReturn:
    time.sleep(LIFETIME)
    raise SystemExit


def announce(workers: str) -> None:
    """Start so many workers that ignore SIGTERM, wait until they do, and tell their pids."""
    pids = []
    for _ in range(int(workers)):
        child = subprocess.Popen([sys.executable, str(HERE), "stubborn"], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        pids.append(child.pid)
    say(" ".join(map(str, ("ready", *pids))))


def obedient(workers: str = "0") -> NoReturn:
    """End on SIGTERM and leave the workers."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    announce(workers)
    wait_for_end()


def stubborn(workers: str = "0") -> NoReturn:
    """Ignore SIGTERM, as the workers do."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    announce(workers)
    wait_for_end()


def dying(workers: str) -> NoReturn:
    """Die unasked, with exit code 7, and leave the workers."""
    announce(workers)
    raise SystemExit(7)


def escaped() -> NoReturn:
    """Leave a process as services start theirs: parents gone, own session, no environment."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(write, str(os.getpid()).encode())
            os.execve(sys.executable, [sys.executable, str(HERE), "stubborn"], {})
        os._exit(0)
    os.wait()
    say(f"escaped {os.read(read, 20).decode()}")
    wait_for_end()


def listen(port: str) -> NoReturn:
    """Listen on a port, which others may share. Accept connections for ever."""
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("127.0.0.1", int(port)))
    server.listen()
    say("ready")
    kept = []
    while True:
        kept.append(server.accept())


def burn(threads: str, seconds: str, forked: str = "") -> NoReturn:
    """On SIGUSR1, burn so many CPU seconds in each of so many threads, which then end.

    `forked`: also in a child that lives no longer.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    say("ready")
    signal.sigwait({signal.SIGUSR1})
    before = time.process_time()

    def work() -> None:
        while time.thread_time() < float(seconds):
            sum(range(10_000))

    workers = [threading.Thread(target=work) for _ in range(int(threads))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if forked:
        if os.fork() == 0:
            work()
            os._exit(0)
        os.wait()
    say(f"used {time.process_time() - before}")
    wait_for_end()


def share(megabytes: str) -> NoReturn:
    """Fill a buffer and share it with a forked child."""
    size = int(megabytes) << 20
    # Anonymous and private: what fork shares until somebody writes.
    buffer = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    buffer.write(b"x" * size)
    if os.fork() == 0:
        wait_for_end()
    say("ready")
    wait_for_end()


def owner(folder: str, interrupted: str, *words: str) -> NoReturn:
    """Be a duetbench that has started a session, and wait to be killed, or end without a stop."""
    from duetbench.host.process_session import Session

    session = Session.start(
        [sys.executable, str(HERE), *words],
        role="server",
        cores=None,
        env=os.environ,
        cwd=Path(folder),
        log=Path(folder) / "server.log",
    )
    while not (pids := re.findall(r"\d+", session.log.read_text())):
        time.sleep(0.01)
    say(" ".join(pids))
    if interrupted:
        raise SystemExit(130)
    wait_for_end()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

"""Our programs without the wait for imports: a process that has imported them forks for each call.

    python forking.py SOCKET             # serves until its input ends; prints `listens` first
    python -I -S forking.py SOCKET WORD… # instead of `WORD…`; standard library only

Each call is its own process, with the caller's folder, environment and open files. The caller
forwards signals to it and gets its exit code.
"""

import gc
import json
import os
import select
import signal
import socket
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import FrameType


def serve(place: str) -> None:
    import observatory.cli
    from duetbench import cli
    from duetbench.core import protocol

    for profile in protocol.WINDOW_SECONDS:
        protocol.WINDOW_SECONDS[profile] = 0.1  # nobody keeps these figures
    for package in (cli, observatory.cli):
        for module in iter_modules(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    gc.freeze()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(place)
    listening.listen(64)
    sys.stdout.write("listens\n")
    sys.stdout.flush()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for these processes
    while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
        calling, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _answer(calling)
            observatory.cli.main() if sys.argv[0] == "observatory" else cli.main()
            sys.exit()
        calling.close()


def _answer(calling: socket.socket) -> None:
    """Return in a fork that runs the call; its parent reports how it ends."""
    _, files, _, _ = socket.recv_fds(calling, 1, 3)
    with calling.makefile() as reader:
        folder, environment, words = json.load(reader)
    if pid := os.fork():
        calling.sendall(f"{pid}\n".encode())
        _, status = os.waitpid(pid, 0)
        calling.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os._exit(0)
    calling.close()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words


def call(place: str, words: list[str]) -> int:
    calling = socket.socket(socket.AF_UNIX)
    calling.connect(place)
    socket.send_fds(calling, [b"."], [0, 1, 2])
    calling.sendall(json.dumps([str(Path.cwd()), dict(os.environ), words]).encode())
    calling.shutdown(socket.SHUT_WR)
    with calling.makefile() as reader:
        pid = int(reader.readline())

        def pass_on(number: int, _: FrameType | None) -> None:
            os.kill(pid, number)

        for entry in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(entry, pass_on)
        code = int(reader.readline())
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    if sys.argv[2:]:
        sys.exit(call(sys.argv[1], sys.argv[2:]))
    serve(sys.argv[1])

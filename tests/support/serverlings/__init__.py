"""Misbehaving programs for the tests of processes, ports, orphans and sampling."""

import os
import sys
import time
from pathlib import Path

from duetbench.host.process_session import Role, Session

PROGRAMS = Path(__file__).with_name("programs.py")
PATIENCE = 30.0


def command(name: str, *arguments: object) -> list[str]:
    return [sys.executable, str(PROGRAMS), name, *map(str, arguments)]


def launch(
    folder: Path,
    name: str,
    *arguments: object,
    role: Role = "server",
    cores: list[int] | None = None,
) -> Session:
    return Session.start(
        command(name, *arguments),
        role=role,
        cores=cores,
        env=os.environ,
        cwd=folder,
        log=folder / f"{name}.log",
    )


def said(session: Session, word: str) -> list[str]:
    """Wait for the line that begins with `word`, and give its other words."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for line in session.log.read_text().splitlines(keepends=True):
            first, *rest = line.split()
            if first == word and line.endswith("\n"):
                return rest
        time.sleep(0.005)
    raise AssertionError(f"no {word!r} in: {session.log.read_text()}")
